#include "study/study.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/attention.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "base/threads.h"
#include "store/store.h"
#include "tasks/corpus.h"
#include "train/backend.h"
#include "train/ranks_backend.h"

sf_status sf_study_create(sf_study **out) {
    SF_TRY(SF_NEW(out, 1));
    sf_study *study = *out;
    study->layer_count = study->layer_room = SF_LAYER_VARIANTS;
    study->current = SF_LAYER_DEFAULTS;
    SF_TRY(SF_NEW(&study->layers, study->layer_room));
    study->criterion = (sf_criterion){.value = SF_CONVERGED_AT};
    return sf_layer_set(&study->layers[SF_LAYER_BUILT_IN], "attention", "full,topk:5", 0);
}

sf_status sf_sentence_keep(const char **sentence, const char *text) {
    char *copy;
    sf_sentence_forget(sentence);
    if (*text == '\0') return SF_OK;
    SF_TRY(SF_NEW(&copy, strlen(text) + 1));
    *sentence = strcpy(copy, text);
    return SF_OK;
}

void sf_sentence_forget(const char **sentence) {
    if (**sentence != '\0') sf_release((void *)*sentence);
    *sentence = "";
}

void sf_study_forget_plan(sf_study *study) {
    for (size_t g = 0; g < study->group_count; g++) {
        sf_sentence_forget(&study->groups[g].sentence);
        sf_sentence_forget(&study->groups[g].best_sentence);
        sf_sentence_forget(&study->groups[g].note);
    }
    sf_release(study->runs);
    sf_release(study->codes);
    sf_release(study->tasks);
    sf_release(study->members);
    sf_release(study->first_members);
    sf_release(study->groups);
    sf_release(study->curves);
    sf_release(study->rows);
    study->runs = NULL;
    study->codes = NULL;
    study->tasks = NULL;
    study->members = NULL;
    study->first_members = NULL;
    study->groups = NULL;
    study->curves = NULL;
    study->rows = NULL;
    study->run_count = study->member_count = study->group_count = study->row_count = study->row_room = 0;
}

void sf_study_destroy(sf_study *study) {
    if (study == NULL) return;
    for (size_t i = 0; study->layers != NULL && i < study->layer_count; i++) sf_layer_clear(&study->layers[i]);
    sf_release(study->layers);
    sf_study_forget_plan(study);
    sf_release(study);
}

sf_status sf_study_add_tasks(sf_study *study, const char *tasks) {
    return sf_layer_add_tasks(&study->layers[study->current], tasks);
}

sf_status sf_study_set(sf_study *study, const char *name, const char *values) {
    return sf_layer_set(&study->layers[study->current], name, values, 0);
}

sf_status sf_study_override(sf_study *study, const char *name, const char *values) {
    return sf_layer_set(&study->layers[SF_LAYER_OVERRIDES], name, values, 0);
}

sf_status sf_study_override_one(sf_study *study, const char *name, const char *value) {
    return sf_layer_set_one(&study->layers[SF_LAYER_OVERRIDES], name, value);
}

sf_status sf_study_begin_variant(sf_study *study, const char *name, size_t line) {
    char quoted[SF_QUOTE_SIZE];
    sf_text_quote(quoted, name);
    if (*name == '\0' || strlen(name) >= SF_LAYER_NAME_SIZE)
        return sf_fail(SF_BAD_INPUT, "a variant is named '%s' but its name must have 1 to %d characters", quoted,
                       SF_LAYER_NAME_SIZE - 1);
    for (size_t i = SF_LAYER_VARIANTS; i < study->layer_count; i++)
        if (strcmp(study->layers[i].name, name) == 0)
            return sf_fail(SF_BAD_INPUT, "two variants are named '%s'; join them or rename one", quoted);
    if (study->layer_count == study->layer_room) {
        SF_TRY(SF_GROW(&study->layers, study->layer_count, 2 * study->layer_room));
        study->layer_room *= 2;
    }
    study->current = study->layer_count++;
    strcpy(study->layers[study->current].name, name);
    study->layers[study->current].line = line;
    return SF_OK;
}

sf_status sf_study_add_variant(sf_study *study, const char *name) {
    return sf_study_begin_variant(study, name, 0);
}

void sf_study_options(sf_options *out, const sf_study *study) {
    static const int order[] = {SF_LAYER_DEFAULTS, SF_LAYER_OVERRIDES};
    sf_options_init(out);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const sf_layer *layer = &study->layers[order[i]];
        for (size_t a = 0; a < layer->axis_count; a++)
            if (layer->axes[a].setting->home == SF_IN_OPTIONS)
                sf_options_put(out, layer->axes[a].setting, layer->axes[a].values[0]);
    }
}

/* Every id once: *place is that of an equal run entered before, or of this one, now entered last. */
static size_t enter_run(sf_study *study, uint32_t *table, size_t table_size) {
    const sf_planned_run *fresh = &study->runs[study->run_count];
    size_t slot = (size_t)strtoull(fresh->id, NULL, 16) % table_size;
    for (; table[slot] != 0; slot = (slot + 1) % table_size)
        if (strcmp(study->runs[table[slot] - 1].id, fresh->id) == 0) return table[slot] - 1;
    table[slot] = (uint32_t)++study->run_count;
    return study->run_count - 1;
}

/* A run is trained once: settings that only say how long must be the same for all members that ask for it. */
static sf_status check_same_length(const sf_planned_run *first, const char *first_name, const sf_planned_run *second,
                                   const char *second_name) {
    static const char *const names[] = {"epochs", "stop-at"};
    char variants[2][SF_QUOTE_SIZE], values[2][SF_TEXT_SIZE];
    sf_text_quote(variants[0], first_name);
    sf_text_quote(variants[1], second_name);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const sf_setting *setting;
        SF_TRY(sf_setting_find(&setting, names[i], SF_RUN_GROUPS));
        sf_config_text(values[0], &first->config, setting);
        sf_config_text(values[1], &second->config, setting);
        if (strcmp(values[0], values[1]) != 0)
            return sf_fail_on(SF_BAD_INPUT, names[i],
                              "%s is %s in the variant '%s' but %s in '%s', and both name the same runs, which are "
                              "trained once; give both the same value, or let them differ in another setting",
                              names[i], values[0], variants[0], values[1], variants[1]);
    }
    return SF_OK;
}

/* A mechanism that keeps every key of these sequences is full attention. */
static sf_status remember_asked(sf_planned *member, const sf_planned_run *run) {
    sf_attention asked;
    SF_TRY(sf_attention_parse(&asked, run->config.attention));
    sf_attention_spell(member->asked, &asked);
    if (strcmp(member->asked, run->attention) == 0) *member->asked = '\0';
    return SF_OK;
}

/* Member m is the run that was just planned, or an equal one entered before. */
static sf_status enter_member(sf_study *study, const char *const *labels, size_t m, uint32_t *table,
                              size_t table_size) {
    const sf_planned_run *fresh = &study->runs[study->run_count];
    SF_TRY(remember_asked(&study->members[m], fresh));
    const size_t place = enter_run(study, table, table_size);
    study->members[m].run = place;
    if (&study->runs[place] == fresh) return SF_OK;
    size_t first = 0;
    while (study->members[first].run != place) first++;
    return check_same_length(&study->runs[place], labels[first], fresh, labels[m]);
}

/* Adds the line of the study file to the message of a failure; line 0 is the command line. */
static sf_status name_place(sf_status status, const sf_study *study, size_t line) {
    return study->path == NULL || line == 0 ? status : sf_fail_in(status, "%s:%zu", study->path, line);
}

/* Of a setting of the command; NULL: it is at its default. */
static const sf_axis *find_option(const sf_study *study, const char *name) {
    static const int order[] = {SF_LAYER_OVERRIDES, SF_LAYER_DEFAULTS};
    const sf_axis *axis = NULL;
    for (size_t i = 0; i < sizeof order / sizeof *order && axis == NULL; i++)
        axis = sf_layer_find(&study->layers[order[i]], name);
    return axis;
}

static sf_status choose_device(sf_device *out, const sf_study *study) {
    const sf_axis *axis = find_option(study, "device"), *together = find_option(study, "data-parallel");
    const sf_execution execution = {.data_parallel = together != NULL ? together->values[0].integer : 0};
    *out = axis != NULL ? (sf_device)axis->values[0].integer : SF_AUTO;
    if (together != NULL && sf_ranks_share_model(&execution))
        return name_place(sf_ranks_device(out), study, together->line);
    if (*out != SF_CUDA) return SF_OK;
    return name_place(sf_backend_check(*out, SF_F32), study, axis->line);
}

static sf_status plan_grids(sf_study *study, const sf_grid *grids, size_t grid_count, const char **labels) {
    const size_t table_size = 2 * study->member_count + 1;
    uint32_t *table;
    sf_device device;
    SF_TRY(choose_device(&device, study));
    SF_TRY(SF_NEW(&table, table_size));
    sf_status status = SF_OK;
    size_t m = 0;
    for (size_t g = 0; g < grid_count && status == SF_OK; g++) {
        for (size_t i = 0; i < grids[g].runs && status == SF_OK; i++, m++) {
            status = sf_grid_run(&study->runs[study->run_count], &grids[g], i, device);
            labels[m] = grids[g].name;
            if (status == SF_OK) status = enter_member(study, labels, m, table, table_size);
            if (status != SF_OK) status = name_place(status, study, sf_grid_line(&grids[g], sf_message_setting()));
        }
    }
    sf_release(table);
    return status;
}

static sf_status open_grids(sf_study *study, sf_grid *grids, size_t count) {
    const bool has_variants = study->layer_count > SF_LAYER_VARIANTS;
    for (size_t g = 0; g < count; g++) {
        const sf_layer *stack[4] = {&study->layers[SF_LAYER_BUILT_IN], &study->layers[SF_LAYER_DEFAULTS]};
        size_t height = 2;
        if (has_variants) stack[height++] = &study->layers[SF_LAYER_VARIANTS + g];
        stack[height++] = &study->layers[SF_LAYER_OVERRIDES];
        const sf_status status = sf_grid_open(&grids[g], stack, height, &study->member_count);
        SF_TRY(name_place(status, study, grids[g].line));
    }
    return SF_OK;
}

static sf_status make_room(sf_study *study, const char ***labels) {
    SF_TRY(SF_NEW(&study->runs, study->member_count + 1)); /* one to look at before it is entered */
    SF_TRY(SF_NEW(&study->members, study->member_count));
    return SF_NEW(labels, study->member_count);
}

sf_status sf_study_plan(sf_study *study) {
    sf_grid *grids;
    const size_t variants = study->layer_count - SF_LAYER_VARIANTS, count = variants > 0 ? variants : 1;
    const char **labels = NULL;
    sf_options options;
    sf_study_options(&options, study);
    sf_corpus_look_in(options.store); /* a text is tokenized to know its runs' ids, unless an earlier command did it */
    SF_TRY(SF_NEW(&grids, count));
    sf_status status = open_grids(study, grids, count);
    if (status == SF_OK) status = make_room(study, &labels);
    if (status == SF_OK) status = plan_grids(study, grids, count, labels);
    if (status == SF_OK) status = sf_study_group_runs(study, labels);
    for (size_t g = 0; g < count; g++) sf_grid_close(&grids[g]);
    sf_release(grids);
    sf_release(labels);
    return status;
}

/* The line of the study file that sets this stop-at; 0: none does. */
static size_t line_of_stop(const sf_study *study, double stop) {
    for (size_t i = 0; i < study->layer_count; i++) {
        const sf_axis *axis = sf_layer_find(&study->layers[i], "stop-at");
        if (axis != NULL && axis->values[0].real == stop) return axis->line;
    }
    return 0;
}

sf_status sf_study_converge_at(sf_study *study, const char *text) {
    return sf_criterion_parse(&study->criterion, text);
}

const sf_criterion *sf_study_criterion(const sf_study *study) {
    return &study->criterion;
}

static sf_status refuse_stop(const sf_criterion *criterion, double stop) {
    char goal[SF_CRITERION_SIZE];
    sf_criterion_name(goal, criterion);
    if (criterion->is_loss)
        return sf_fail_on(SF_BAD_INPUT, "stop-at",
                          "stop-at is %.10g but runs are compared by their epochs to %s (converged-at), and they could "
                          "stop before that; omit stop-at",
                          stop, goal);
    return sf_fail_on(SF_BAD_INPUT, "stop-at",
                      "stop-at is %.10g but runs are compared by their epochs to %s, and they would stop before that; "
                      "give %.6g or more, leave it out, or lower converged-at",
                      stop, goal, criterion->value);
}

sf_status sf_study_check_stops(const sf_study *study) {
    const sf_criterion *criterion = &study->criterion;
    for (size_t i = 0; i < study->run_count; i++) {
        const double stop = study->runs[i].config.stop_at;
        if (stop <= 0 || (!criterion->is_loss && stop >= criterion->value)) continue;
        return name_place(refuse_stop(criterion, stop), study, line_of_stop(study, stop));
    }
    return SF_OK;
}

typedef struct collecting { /* runs of a store that are added to a study */
    sf_study *study;
    sf_store *store;
    size_t room;
    sf_status status;
} collecting;

static void count_run(void *count, const sf_stored_run *run) {
    (void)run;
    ++*(size_t *)count;
}

/* Names of tasks are few: each is kept once. */
static const char *keep_task(sf_study *study, const char *name) {
    char *at = study->tasks;
    for (; *at != '\0'; at += strlen(at) + 1)
        if (strcmp(at, name) == 0) return at;
    return strcpy(at, name);
}

static void collect_run(void *context, const sf_stored_run *stored) {
    collecting *c = context;
    sf_study *study = c->study;
    if (c->status != SF_OK || study->run_count == c->room) return; /* or it was added after we counted */
    sf_planned_run *run = &study->runs[study->run_count];
    sf_run_code *code = &study->codes[study->run_count];
    c->status = sf_store_code(code, c->store, stored);
    if (c->status != SF_OK) return;
    c->status = code->lacks_attention || code->lacks_task ? sf_store_list_config(&run->config, c->store, stored)
                                                          : sf_store_config(&run->config, c->store, stored);
    if (c->status != SF_OK) return;
    if ((int64_t)stored->epochs > run->config.epochs) run->config.epochs = (int64_t)stored->epochs;
    run->task = keep_task(study, stored->task);
    strcpy(run->id, stored->id);
    strcpy(run->attention, stored->attention);
    study->members[study->run_count].run = study->run_count;
    study->run_count++;
}

typedef struct name_room {
    size_t size;
    char last[SF_PATH_SIZE];
} name_room;

static void add_name(void *context, const sf_stored_run *run) {
    name_room *room = context;
    if (strcmp(room->last, run->task) == 0) return;
    strcpy(room->last, run->task);
    room->size += strlen(run->task) + 1;
}

/* Most stores know no code but that of semfocus. */
static void forget_codes(sf_study *study) {
    for (size_t i = 0; i < study->run_count; i++)
        if (study->codes[i].hash != 0) return;
    sf_release(study->codes);
    study->codes = NULL;
}

static sf_status plan_stored(sf_study *study, sf_store *store, const char *where) {
    collecting c = {.study = study, .store = store};
    name_room names = {.size = 1};
    SF_TRY(sf_store_each_run(store, where, count_run, &c.room));
    SF_TRY(sf_store_each_run(store, where, add_name, &names));
    study->member_count = c.room;
    study->stored = true;
    const char **labels = NULL;
    sf_status status = make_room(study, &labels);
    if (status == SF_OK) status = SF_NEW(&study->codes, c.room);
    if (status == SF_OK) status = SF_NEW(&study->tasks, names.size + 1);
    if (status == SF_OK) status = sf_store_each_run(store, where, collect_run, &c);
    if (status == SF_OK) status = c.status;
    if (status == SF_OK) forget_codes(study);
    study->member_count = study->run_count;
    for (size_t m = 0; status == SF_OK && m < study->member_count; m++) labels[m] = "";
    if (status == SF_OK) status = sf_study_group_runs(study, labels);
    sf_release(labels);
    return status;
}

sf_status sf_study_plan_stored(sf_study *study, sf_store *store, const char *where) {
    SF_TRY(sf_store_freeze(store));
    const sf_status status = plan_stored(study, store, where);
    sf_store_unfreeze(store);
    return status;
}

const sf_planned_run *sf_study_runs(const sf_study *study, size_t *count) {
    *count = study->run_count;
    return study->runs;
}

size_t sf_study_group_count(const sf_study *study) {
    return study->group_count;
}

const sf_group *sf_study_group(const sf_study *study, size_t i) {
    return &study->groups[i];
}

size_t sf_study_member(const sf_study *study, size_t group, size_t member) {
    return study->members[study->first_members[group] + member].run;
}

const sf_epoch *sf_study_curve(const sf_study *study, size_t run, size_t *count, bool *finished) {
    *count = study->curves[run].count;
    *finished = study->curves[run].finished;
    return study->rows + study->curves[run].first;
}

bool sf_study_is_done(const sf_study *study, size_t run) {
    return study->curves[run].done;
}

typedef struct reading { /* a curve that is being read from the store */
    sf_study *study;
    sf_curve *curve;
    const sf_config *config;
    bool stopped; /* reached stop-at: what a longer run did later does not count */
    sf_status status;
} reading;

static sf_status grow_rows(sf_study *study) {
    const size_t room = study->row_room > 0 ? 2 * study->row_room : 4096;
    SF_TRY(SF_GROW(&study->rows, study->row_count, room));
    study->row_room = room;
    return SF_OK;
}

static void read_row(void *context, const sf_epoch *row) {
    reading *r = context;
    if (r->status != SF_OK || r->stopped || row->epoch > (size_t)r->config->epochs) return;
    if (r->study->row_count == r->study->row_room) r->status = grow_rows(r->study);
    if (r->status != SF_OK) return;
    r->study->rows[r->study->row_count++] = *row;
    r->curve->count++;
    r->stopped = r->config->stop_at > 0 && row->train_accuracy >= r->config->stop_at;
}

/* What a longer run did after the epochs asked for, or after it stopped, does not count. */
static bool diverged_within(const sf_stored_run *run, const reading *r, bool stored) {
    if (strcmp(run->status, "diverged") != 0) return false;
    return stored || (!r->stopped && run->diverged_epoch <= (size_t)r->config->epochs);
}

static sf_status read_curve(sf_study *study, sf_store *store, size_t i) {
    const sf_planned_run *plan = &study->runs[i];
    sf_curve *curve = &study->curves[i];
    sf_stored_run run;
    bool found;
    *curve = (sf_curve){.first = study->row_count};
    SF_TRY(sf_store_look_up(&run, &found, store, plan->id));
    if (!found) return SF_OK;
    reading r = {.study = study, .curve = curve, .config = &plan->config};
    SF_TRY(sf_store_each_epoch(store, &run, read_row, &r));
    SF_TRY(sf_store_satisfies(&curve->done, store, &run, &plan->config));
    curve->diverged = diverged_within(&run, &r, study->stored);
    curve->stopped = study->stored ? run.converged_epoch > 0 && run.converged_epoch == curve->count
                                   : r.stopped && curve->count < (size_t)plan->config.epochs;
    const bool complete =
        study->stored ? strcmp(run.status, "done") == 0 : run.checkpoint_epoch >= (size_t)plan->config.epochs;
    curve->finished = curve->diverged || complete || (r.stopped && run.checkpoint_epoch >= curve->count);
    return r.status;
}

sf_status sf_study_read_curves(sf_study *study, sf_store *store) {
    if (study->curves == NULL) SF_TRY(SF_NEW(&study->curves, study->run_count));
    study->row_count = 0;
    if (store == NULL) return SF_OK; /* there is none yet */
    SF_TRY(sf_store_freeze(store));
    sf_status status = SF_OK;
    for (size_t i = 0; i < study->run_count && status == SF_OK; i++) status = read_curve(study, store, i);
    sf_store_unfreeze(store);
    return status;
}

uint32_t sf_study_seed(size_t i) {
    static const uint32_t published[] = {153476998, 235510766, 205084180, 129959864, 149896109,
                                         140439608, 145017219, 162518970, 245293503, 152674004};
    enum { PUBLISHED = sizeof published / sizeof *published };
    if (i < PUBLISHED) return published[i];
    sf_draws draws = sf_draws_at((sf_index){.stream = sf_stream(SF_STUDY_SEEDS, 0, 0), .sample = (uint32_t)i});
    return sf_draw_word(&draws);
}

sf_status sf_study_epoch_seconds(double *out, const sf_planned_run *run) {
    enum { BATCHES = 4 };
    sf_config config = run->config;
    const int64_t train = config.train_count, heldout = config.heldout_count;
    config.precision = SF_F32; /* which every CPU has */
    *config.architecture = '\0';
    if (config.train_count > BATCHES * config.batch) config.train_count = BATCHES * config.batch;
    if (config.heldout_count > config.batch) config.heldout_count = config.batch;
    config.epochs += 2; /* never the end of a schedule */
    config.stop_at = 0;
    sf_fleet *fleet;
    SF_TRY(sf_fleet_create(&fleet, run->task, &config, 1, &(sf_execution){.threads = 1}));
    sf_status status = sf_fleet_advance(fleet); /* to warm up */
    const double start = sf_clock_seconds();
    if (status == SF_OK && !sf_fleet_finished(fleet)) status = sf_fleet_advance(fleet);
    const double seconds = sf_clock_seconds() - start;
    sf_fleet_destroy(fleet);
    /* a held-out sequence is evaluated, a training one trained and evaluated: about a quarter of the work */
    *out = seconds * ((double)train + 0.25 * (double)heldout) /
           ((double)config.train_count + 0.25 * (double)config.heldout_count);
    return status;
}

size_t sf_study_workers(const sf_study *study, size_t threads) {
    const size_t used = (size_t)sf_threads_for(threads);
    return study->run_count < used ? study->run_count : used;
}
