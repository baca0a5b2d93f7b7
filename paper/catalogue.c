#include "paper/catalogue.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/threads.h"
#include "paper/rules.h"
#include "paper/text_source.h"

const char *sf_paper_scale_name(sf_paper_scale scale) {
    static const char *const names[] = {"smoke", "laptop", "paper"};
    return names[scale];
}

size_t sf_paper_count(void) {
    size_t count = 0;
    while (sf_paper_entry_at(count) != NULL) count++;
    return count;
}

const sf_paper_entry *sf_paper_entry_at(size_t i) {
    if (i < sf_paper_figure_count) return &sf_paper_figures[i];
    i -= sf_paper_figure_count;
    if (i < sf_paper_claim_count) return &sf_paper_claims[i];
    i -= sf_paper_claim_count;
    if (i < sf_paper_beyond_count) return &sf_paper_beyond[i];
    i -= sf_paper_beyond_count;
    if (i < sf_paper_sequence_count) return &sf_paper_sequences[i];
    return i == sf_paper_sequence_count ? &sf_paper_pretraining : NULL;
}

static const char *text_or_nothing(const char *text) {
    return text != NULL ? text : "";
}

sf_paper_info sf_paper_describe(size_t entry, sf_paper_scale scale) {
    const sf_paper_entry *e = sf_paper_entry_at(entry);
    return (sf_paper_info){.id = e->id,
                           .title = e->title,
                           .shows = e->shows,
                           .statement = text_or_nothing(e->statement),
                           .ours = text_or_nothing(e->ours),
                           .note = text_or_nothing(e->plans[scale].note),
                           .is_formula = e->plans[scale].study == NULL,
                           .reads_text = e->plans[scale].text != NULL};
}

static const char *id_at(const void *context, size_t i) {
    (void)context;
    const sf_paper_entry *entry = sf_paper_entry_at(i);
    return entry != NULL ? entry->id : NULL;
}

sf_status sf_paper_find(size_t *out, const char *id) {
    const sf_paper_entry *entry;
    for (size_t i = 0; (entry = sf_paper_entry_at(i)) != NULL; i++) {
        if (strcmp(entry->id, id) != 0) continue;
        *out = i;
        return SF_OK;
    }
    char quoted[SF_QUOTE_SIZE];
    const char *nearest = sf_text_nearest(id, id_at, NULL);
    if (nearest != NULL)
        return sf_fail(SF_BAD_INPUT, "the paper has no '%s'; did you mean '%s'?", sf_text_quote(quoted, id), nearest);
    return sf_fail(SF_BAD_INPUT, "the paper has no '%s'; 'semfocus paper list' lists its entries",
                   sf_text_quote(quoted, id));
}

static sf_status add_text(sf_study *study, const char *text) {
    char task[SF_PATH_SIZE + 8];
    snprintf(task, sizeof task, "text:%s", text);
    return sf_study_add_tasks(study, task);
}

static sf_status fill_study(sf_study *study, const char *const *settings, const char *text) {
    for (; *settings != NULL; settings += 2) {
        if (strcmp(settings[0], "task") == 0 && strcmp(settings[1], "text:") == 0)
            SF_TRY(add_text(study, text));
        else if (strcmp(settings[0], "task") == 0)
            SF_TRY(sf_study_add_tasks(study, settings[1]));
        else if (strcmp(settings[0], "variant") == 0)
            SF_TRY(sf_study_add_variant(study, settings[1]));
        else
            SF_TRY(sf_study_set(study, settings[0], settings[1]));
    }
    return SF_OK;
}

/* Settings that a user may choose within the catalogue. */
static sf_status set_machine(sf_study *study, const sf_paper_machine *machine) {
    const sf_setting *setting;
    const sf_config config = {.precision = machine->precision};
    const sf_options options = {.execution = machine->execution};
    char value[SF_TEXT_SIZE];
    SF_TRY(sf_setting_find(&setting, "precision", SF_GROUP_MACHINE));
    sf_config_text(value, &config, setting);
    SF_TRY(sf_study_set(study, setting->name, value));
    if (machine->architecture != NULL && *machine->architecture != '\0')
        SF_TRY(sf_study_set(study, "architecture", machine->architecture));
    static const char *const names[] = {"device", "data-parallel"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        SF_TRY(sf_setting_find(&setting, names[i], SF_GROUP_MACHINE | SF_GROUP_SAVING));
        sf_options_text(value, &options, setting);
        SF_TRY(sf_study_set(study, setting->name, value));
    }
    return SF_OK;
}

void sf_paper_close(sf_paper *paper) {
    if (paper == NULL) return;
    sf_study_destroy(paper->study);
    sf_release(paper->rows);
    sf_release(paper->points);
    sf_release(paper->scatters);
    sf_release(paper);
}

static sf_status open_study(sf_paper *paper, const sf_paper_machine *machine) {
    if (paper->plan->study == NULL) return SF_OK;
    if (paper->plan->text != NULL) SF_TRY(sf_paper_find_text(paper, machine));
    if (paper->missing != NULL) return SF_OK;
    SF_TRY(sf_study_create(&paper->study));
    SF_TRY(set_machine(paper->study, machine));
    SF_TRY(fill_study(paper->study, paper->plan->study, paper->text));
    SF_TRY(sf_study_plan(paper->study));
    return paper->plan->text != NULL ? sf_paper_remember_text(paper, machine) : SF_OK;
}

sf_status sf_paper_open(sf_paper **out, size_t entry, sf_paper_scale scale, const sf_paper_machine *machine) {
    sf_paper_machine usual = {0};
    sf_execution_init(&usual.execution);
    if (machine == NULL) machine = &usual;
    *out = NULL;
    sf_paper *paper;
    SF_TRY(SF_NEW(&paper, 1));
    paper->entry = sf_paper_entry_at(entry);
    paper->plan = &paper->entry->plans[scale];
    paper->scale = scale;
    paper->execution = machine->execution;
    sf_status status = sf_fail_in(open_study(paper, machine), "%s", paper->entry->id);
    if (paper->plan->text != NULL && !machine->prepares && status != SF_OK && status != SF_NO_MEMORY)
        status = sf_paper_lose_text(paper);
    if (status != SF_OK) {
        sf_paper_close(paper);
        return status;
    }
    *out = paper;
    return SF_OK;
}

const sf_study *sf_paper_study(const sf_paper *paper) {
    return paper->study;
}

const char *sf_paper_missing(const sf_paper *paper) {
    return paper->missing;
}

sf_measure sf_paper_condition(const sf_paper *paper) {
    return paper->entry->add_rows == sf_rows_of_condition_w   ? SF_CONDITION_W
           : paper->entry->add_rows == sf_rows_of_condition_x ? SF_CONDITION_X
                                                              : SF_MEASURES;
}

static const sf_setting *find_setting(const char *name) {
    const sf_setting *setting = NULL;
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL && strcmp(setting->name, name) != 0;) i++;
    return setting;
}

static void value_of(char out[SF_TEXT_SIZE], const sf_planned_run *run, const char *name) {
    const sf_setting *setting = find_setting(name);
    *out = '\0';
    if (strcmp(name, "task") == 0)
        snprintf(out, SF_TEXT_SIZE, "%s", run->task);
    else if (strcmp(name, "attention") == 0)
        snprintf(out, SF_TEXT_SIZE, "%s", run->attention);
    else if (setting != NULL && setting->home == SF_IN_CONFIG)
        sf_config_text(out, &run->config, setting);
}

static bool is_listed(const char *list, const char *value) {
    const size_t length = strlen(value);
    for (const char *at = list; (at = strstr(at, value)) != NULL; at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ',' || at[length] == '\0')) return true;
    return false;
}

size_t sf_paper_values(char out[SF_PAPER_VALUES_SIZE], const sf_paper *paper, const char *task, const char *setting) {
    size_t run_count, used = 0, count = 0;
    *out = '\0';
    if (paper->study == NULL) return 0;
    const sf_planned_run *runs = sf_study_runs(paper->study, &run_count);
    for (size_t i = 0; i < run_count && used < SF_PAPER_VALUES_SIZE; i++) {
        char value[SF_TEXT_SIZE];
        if (task != NULL && strcmp(runs[i].task, task) != 0) continue;
        value_of(value, &runs[i], setting);
        if (*value == '\0' || is_listed(out, value)) continue;
        used += (size_t)snprintf(out + used, SF_PAPER_VALUES_SIZE - used, "%s%s", count > 0 ? ", " : "", value);
        count++;
    }
    return count;
}

bool sf_paper_chooses(const sf_paper *paper, const sf_setting *setting) {
    if ((setting->group & (SF_GROUP_DATA | SF_GROUP_MODEL | SF_GROUP_TRAINING)) == 0 || paper->study == NULL)
        return false;
    const char *const *settings = paper->plan->study;
    while (*settings != NULL && strcmp(*settings, setting->name) != 0) settings += 2;
    return *settings != NULL;
}

const sf_paper_result *sf_paper_result_of(const sf_paper *paper) {
    return &paper->result;
}

static bool wants_run(const sf_paper *paper, const sf_planned_run *run) {
    const sf_paper_probe *probe = paper->entry->probe;
    return probe != NULL && (probe->wants == NULL || probe->wants(run));
}

/* Whether the run can be measured, and was not yet. A run that diverged before its first checkpoint has no weights. */
static sf_status needs_measuring(bool *out, sf_stored_run *run, const sf_paper *paper, sf_store *store, size_t i) {
    size_t count, rows;
    bool found = false, finished;
    const sf_planned_run *plan = &sf_study_runs(paper->study, &count)[i];
    *out = false;
    sf_study_curve(paper->study, i, &rows, &finished);
    if (!wants_run(paper, plan) || !finished) return SF_OK;
    SF_TRY(sf_store_look_up(run, &found, store, plan->id));
    if (!found || run->checkpoint_epoch == 0) return SF_OK;
    char key[64];
    double value;
    paper->entry->probe->key(key, paper);
    SF_TRY(sf_findings_read(&value, &found, store, run, key));
    *out = !found;
    return SF_OK;
}

static sf_status measure_runs(const sf_paper *paper, sf_store *store, sf_stored_run *run, const sf_paper_watch *watch) {
    size_t count, total = 0, done = 0;
    const sf_planned_run *runs = sf_study_runs(paper->study, &count);
    bool needs;
    for (size_t i = 0; i < count; i++) {
        SF_TRY(needs_measuring(&needs, run, paper, store, i));
        total += needs;
    }
    for (size_t i = 0; i < count; i++) {
        SF_TRY(needs_measuring(&needs, run, paper, store, i));
        if (!needs) continue;
        if (watch->stop != NULL && atomic_load(watch->stop) != 0) return sf_fail(SF_INTERRUPTED, "stopped on request");
        if (watch->on_progress != NULL) watch->on_progress(watch->context, done++, total, paper->entry->probe->title);
        SF_TRY(paper->entry->probe->measure(paper, store, &runs[i], run, watch));
    }
    return SF_OK;
}

sf_status sf_paper_measure(sf_paper *paper, sf_store *store, const sf_paper_watch *watch) {
    if (paper->study == NULL || paper->entry->probe == NULL) return SF_OK;
    sf_stored_run *run;
    SF_TRY(sf_study_judge(paper->study, store));
    SF_TRY(SF_NEW(&run, 1));
    const sf_status status = measure_runs(paper, store, run, watch);
    sf_release(run);
    return status;
}

static sf_status count_runs(sf_paper *paper, sf_store *store) {
    size_t count, rows;
    const sf_planned_run *runs = sf_study_runs(paper->study, &count);
    sf_stored_run *run;
    SF_TRY(SF_NEW(&run, 1));
    sf_status status = SF_OK;
    paper->result.runs = count;
    paper->to_measure = 0;
    for (size_t i = 0; i < count && status == SF_OK; i++) {
        bool finished, needs = false;
        sf_study_curve(paper->study, i, &rows, &finished);
        paper->result.finished += finished;
        if (finished && store != NULL) status = needs_measuring(&needs, run, paper, store, i);
        paper->to_measure += finished ? needs : wants_run(paper, &runs[i]);
    }
    sf_release(run);
    return status;
}

/* Gives each scatter figure its points and drops those without any. */
static void deal_points(sf_paper *paper) {
    size_t kept = 0, first = 0;
    for (size_t i = 0; i < paper->scatter_count; i++) {
        sf_paper_scatter scatter = paper->scatters[i];
        scatter.points = paper->points + first;
        first += scatter.count;
        if (scatter.count > 0) paper->scatters[kept++] = scatter;
    }
    paper->result.scatters = paper->scatters;
    paper->result.scatter_count = kept;
}

/* What was found, unless it is not evidence yet; the numbers stay in the rows. */
static sf_status conclude(sf_paper *paper) {
    sf_paper_result *result = &paper->result;
    SF_TRY(sf_rules_correct(paper->rows, paper->row_count));
    result->word = (paper->entry->conclude != NULL ? paper->entry->conclude
                                                   : sf_rule_overall)(result->sentence, paper->rows, paper->row_count);
    result->rows = paper->rows;
    result->row_count = paper->row_count;
    deal_points(paper);
    if (paper->study == NULL) return SF_OK; /* formulas are never incomplete */
    char found[sizeof result->sentence];
    strcpy(found, result->sentence);
    const bool incomplete = result->finished<result->runs, unmeasured = paper->to_measure> 0;
    if (paper->scale == SF_SMOKE || incomplete || unmeasured) result->word = SF_NOT_ENOUGH_RUNS;
    if (result->finished == 0) result->word = SF_NOT_RUN;
    if (incomplete)
        snprintf(result->sentence, sizeof result->sentence, "%zu of %zu runs are finished", result->finished,
                 result->runs);
    else if (unmeasured)
        snprintf(result->sentence, sizeof result->sentence, "%zu of %zu runs are still to be measured (%s)",
                 paper->to_measure, result->runs, paper->entry->probe->title);
    else if (paper->scale == SF_SMOKE)
        snprintf(result->sentence, sizeof result->sentence,
                 "models and data of this scale are too small to judge the paper; %.800s", found);
    return SF_OK;
}

sf_status sf_paper_judge(sf_paper *paper, sf_store *store) {
    paper->result = (sf_paper_result){.word = SF_NEEDS_TEXT};
    paper->row_count = paper->point_count = paper->scatter_count = 0;
    if (paper->missing != NULL) {
        snprintf(paper->result.sentence, sizeof paper->result.sentence, "%s", paper->missing);
        return SF_OK;
    }
    if (paper->study != NULL) {
        SF_TRY(sf_study_judge(paper->study, store));
        SF_TRY(count_runs(paper, store));
    }
    SF_TRY(paper->entry->add_rows(paper, store));
    return conclude(paper);
}
