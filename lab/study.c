#include "semfocus/study.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/threads.h"
#include "lab/verdict.h"

enum { MOST_AXES = 48, MOST_TASKS = 64, MOST_RUNS = 10000, MOST_VALUES = 10000 };

typedef struct axis { /* a setting with several values */
    const char *name;
    char *text;    /* the list, cut into values */
    char **values; /* [count] */
    size_t count;
} axis;

struct sf_study {
    sf_config base; /* what all runs share */
    char *tasks[MOST_TASKS];
    size_t task_count;
    axis axes[MOST_AXES]; /* in the order they were set; the seed is always spanned last */
    size_t axis_count;
    sf_planned_run *runs; /* [run_count] */
    size_t *group_of;     /* [run_count] */
    size_t run_count;
    sf_group *groups; /* [group_count] */
    size_t group_count;
};

sf_status sf_study_create(sf_study **out) {
    SF_TRY(SF_NEW(out, 1));
    sf_config_init(&(*out)->base);
    return SF_OK;
}

void sf_study_destroy(sf_study *study) {
    if (study == NULL) return;
    for (size_t i = 0; i < study->task_count; i++) sf_release(study->tasks[i]);
    for (size_t i = 0; i < study->axis_count; i++) {
        sf_release(study->axes[i].text);
        sf_release(study->axes[i].values);
    }
    sf_release(study->runs);
    sf_release(study->group_of);
    sf_release(study->groups);
    sf_release(study);
}

static sf_status copy_text(char **out, const char *text) {
    SF_TRY(SF_NEW(out, strlen(text) + 1));
    strcpy(*out, text);
    return SF_OK;
}

sf_status sf_study_add_task(sf_study *study, const char *task) {
    if (study->task_count == MOST_TASKS)
        return sf_fail(SF_BAD_INPUT, "a study takes at most %d tasks; leave some out", (int)MOST_TASKS);
    SF_TRY(copy_text(&study->tasks[study->task_count], task));
    study->task_count++;
    return SF_OK;
}

/* The axis of a setting, or axis_count if it has none. */
static size_t axis_of(const sf_study *study, const char *name) {
    size_t i = 0;
    while (i < study->axis_count && strcmp(study->axes[i].name, name) != 0) i++;
    return i;
}

static sf_status fill_axis(axis *out, const char *name, const char *values) {
    *out = (axis){.name = name, .count = 1};
    for (const char *at = values; *at != '\0'; at++) out->count += *at == ',';
    if (out->count > MOST_VALUES)
        return sf_fail(SF_BAD_INPUT, "%s has %zu values but a study takes at most %d of one setting", name, out->count,
                       (int)MOST_VALUES);
    SF_TRY(copy_text(&out->text, values));
    SF_TRY(SF_NEW(&out->values, out->count));
    char *rest = out->text;
    for (size_t i = 0; i < out->count; i++) out->values[i] = strsep(&rest, ",");
    return SF_OK;
}

sf_status sf_study_set(sf_study *study, const char *name, const char *values) {
    const sf_setting *setting;
    SF_TRY(sf_setting_find(&setting, name, ~0U));
    const size_t at = axis_of(study, setting->name);
    axis *old = at < study->axis_count ? &study->axes[at] : NULL;
    if (strchr(values, ',') == NULL && old == NULL) return sf_config_set(&study->base, name, values);
    if (old == NULL && study->axis_count == MOST_AXES)
        return sf_fail(SF_BAD_INPUT, "a study takes at most %d lists; leave some out", (int)MOST_AXES);
    axis fresh;
    sf_status status = fill_axis(&fresh, setting->name, values);
    for (size_t i = 0; i < fresh.count && status == SF_OK; i++)
        status = sf_config_set(&study->base, name, fresh.values[i]);
    axis *place = old != NULL ? old : &study->axes[study->axis_count];
    if (status == SF_OK && old == NULL) study->axis_count++;
    const axis dropped = status == SF_OK ? *place : fresh;
    if (status == SF_OK) *place = fresh;
    if (status != SF_OK || old != NULL) {
        sf_release(dropped.text);
        sf_release(dropped.values);
    }
    return status;
}

/* Tasks outermost, then the axes as they were set, the seed innermost: the runs of a group stand together. */
static size_t span(axis **order, sf_study *study) {
    size_t count = 0;
    axis *seed = NULL;
    for (size_t i = 0; i < study->axis_count; i++) {
        if (strcmp(study->axes[i].name, "seed") == 0)
            seed = &study->axes[i];
        else
            order[count++] = &study->axes[i];
    }
    if (seed != NULL) order[count++] = seed;
    return count;
}

static sf_status plan_run(sf_planned_run *run, sf_study *study, axis *const *order, size_t axes, size_t index) {
    run->config = study->base;
    for (size_t a = axes; a-- > 0; index /= order[a]->count)
        SF_TRY(sf_config_set(&run->config, order[a]->name, order[a]->values[index % order[a]->count]));
    run->task = study->tasks[index];
    return sf_run_identify(run->id, run->attention, &run->config, run->task);
}

static void name_group(sf_group *group, const sf_planned_run *run, axis *const *order, size_t axes) {
    size_t used = (size_t)snprintf(group->name, sizeof group->name, "%s", run->attention);
    for (size_t a = 0; a < axes && used < sizeof group->name; a++) {
        if (strcmp(order[a]->name, "seed") == 0 || strcmp(order[a]->name, "attention") == 0) continue;
        const sf_setting *setting;
        char value[SF_TEXT_SIZE];
        if (sf_setting_find(&setting, order[a]->name, ~0U) != SF_OK) continue;
        sf_config_text(value, &run->config, setting);
        used += (size_t)snprintf(group->name + used, sizeof group->name - used, " %s=%s", order[a]->name, value);
    }
}

/* The baseline of a task is full attention where it takes part, else the first mechanism; other settings being equal.
 */
static bool is_baseline(const sf_study *study, const sf_planned_run *run) {
    const size_t at = axis_of(study, "attention");
    if (at == study->axis_count) return false;
    const axis *attention = &study->axes[at];
    const char *chosen = attention->values[0];
    for (size_t i = 0; i < attention->count; i++)
        if (strcmp(attention->values[i], "full") == 0) chosen = "full";
    return strcmp(run->config.attention, chosen) == 0;
}

sf_status sf_study_plan(sf_study *study) {
    axis *order[MOST_AXES];
    const size_t axes = span(order, study);
    if (study->task_count == 0) return sf_fail(SF_BAD_INPUT, "a study needs a task; 'semfocus list tasks' names them");
    size_t variants = 1, seeds = 1;
    for (size_t a = 0; a < axes; a++) {
        const bool is_seed = strcmp(order[a]->name, "seed") == 0;
        size_t *factor = is_seed ? &seeds : &variants;
        *factor *= order[a]->count;
        if (variants * seeds * study->task_count > MOST_RUNS)
            return sf_fail(SF_BAD_INPUT, "this study spans more than %d runs; shorten its lists or cut it into several",
                           (int)MOST_RUNS);
    }
    study->run_count = study->task_count * variants * seeds;
    study->group_count = study->task_count * variants;
    SF_TRY(SF_NEW(&study->runs, study->run_count));
    SF_TRY(SF_NEW(&study->group_of, study->run_count));
    SF_TRY(SF_NEW(&study->groups, study->group_count));
    for (size_t i = 0; i < study->run_count; i++) {
        sf_group *group = &study->groups[i / seeds];
        SF_TRY(plan_run(&study->runs[i], study, order, axes, i));
        study->group_of[i] = i / seeds;
        if (group->runs++ > 0) continue;
        group->task = study->runs[i].task;
        group->is_baseline = is_baseline(study, &study->runs[i]);
        name_group(group, &study->runs[i], order, axes);
    }
    return SF_OK;
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

typedef struct reading { /* an outcome being read off a curve */
    sf_outcome *out;
    double threshold;
    size_t epochs; /* rows beyond what was asked for do not count */
} reading;

static void arrive(sf_arrival *arrival, bool now, size_t epoch) {
    if (arrival->reached) return;
    *arrival = (sf_arrival){.epochs = (double)epoch, .reached = now};
}

static void read_row(void *context, const sf_epoch *row) {
    const reading *r = context;
    sf_outcome *out = r->out;
    if (row->epoch > r->epochs) return;
    arrive(&out->train, row->train_accuracy >= r->threshold, row->epoch);
    arrive(&out->heldout, row->heldout_accuracy >= r->threshold, row->epoch);
    out->last_train = row->train_accuracy;
    out->last_heldout = row->heldout_accuracy;
    if (row->heldout_accuracy > out->best_heldout) out->best_heldout = row->heldout_accuracy;
}

/* The outcome of a planned run, if the store has its curve. */
static sf_status read_outcome(sf_outcome *out, bool *found, sf_store *store, const sf_planned_run *plan) {
    sf_stored_run run;
    *out = (sf_outcome){.seed = plan->config.seed};
    *found = sf_store_find(&run, store, plan->id) == SF_OK;
    if (!*found) return SF_OK;
    reading r = {out, SF_CONVERGED_AT, (size_t)plan->config.epochs};
    SF_TRY(sf_store_each_epoch(store, &run, read_row, &r));
    out->diverged = strcmp(run.status, "diverged") == 0;
    *found = strcmp(run.status, "done") == 0 || out->diverged;
    return SF_OK;
}

static const sf_group *baseline_of(const sf_study *study, size_t group, size_t *index) {
    /* The same task and the same other settings: the mechanism's axis shifts the position by a whole number of groups.
     */
    const char *rest = strchr(study->groups[group].name, ' ');
    for (size_t i = 0; i < study->group_count; i++) {
        const sf_group *other = &study->groups[i];
        const char *other_rest = strchr(other->name, ' ');
        if (!other->is_baseline || strcmp(other->task, study->groups[group].task) != 0) continue;
        if (strcmp(rest != NULL ? rest : "", other_rest != NULL ? other_rest : "") != 0) continue;
        *index = i;
        return other;
    }
    return NULL;
}

static void judge_group(sf_study *study, size_t i, const sf_outcome *outcomes, const size_t *firsts) {
    sf_group *group = &study->groups[i];
    const sf_outcome *ours = outcomes + firsts[i];
    const sf_summary summary = sf_summarize(ours, group->finished);
    group->converged = summary.converged;
    group->diverged = summary.diverged;
    memcpy(group->quartiles, summary.quartiles, sizeof group->quartiles);
    group->heldout_median = summary.heldout_median;
    group->last_heldout = summary.last_heldout;
    group->best_heldout = summary.best_heldout;
    group->gap = summary.gap;
    group->speedup = group->low = group->high = group->p_speed = NAN;
    size_t at = 0;
    const sf_group *baseline = group->is_baseline ? NULL : baseline_of(study, i, &at);
    if (baseline == NULL || baseline->finished == 0 || group->finished == 0) return;
    const sf_verdict verdict = sf_judge(group->name, ours, group->finished, baseline->name, outcomes + firsts[at],
                                        baseline->finished, SF_CONVERGED_AT);
    group->speedup = verdict.speedup;
    group->low = verdict.interval.low;
    group->high = verdict.interval.high;
    group->p_speed = verdict.p_speed;
    snprintf(group->sentence, sizeof group->sentence, "%s", verdict.sentence);
}

sf_status sf_study_judge(sf_study *study, sf_store *store) {
    sf_outcome *outcomes = NULL;
    size_t *firsts = NULL, count = 0;
    sf_status status = SF_NEW(&outcomes, study->run_count);
    if (status == SF_OK) status = SF_NEW(&firsts, study->group_count);
    for (size_t i = 0; i < study->group_count && status == SF_OK; i++) study->groups[i].finished = 0;
    for (size_t i = 0; i < study->run_count && status == SF_OK; i++) {
        sf_group *group = &study->groups[study->group_of[i]];
        bool found;
        if (group->finished == 0) firsts[study->group_of[i]] = count;
        status = read_outcome(&outcomes[count], &found, store, &study->runs[i]);
        if (status == SF_OK && found) {
            group->finished++;
            count++;
        }
    }
    for (size_t i = 0; i < study->group_count && status == SF_OK; i++) judge_group(study, i, outcomes, firsts);
    sf_release(outcomes);
    sf_release(firsts);
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
    if (config.train_count > BATCHES * config.batch) config.train_count = BATCHES * config.batch;
    if (config.heldout_count > config.batch) config.heldout_count = config.batch;
    config.epochs += 2; /* never the end of a schedule */
    config.stop_at = 0;
    config.threads = 1;
    sf_fleet *fleet;
    SF_TRY(sf_fleet_create(&fleet, run->task, &config, 1));
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

size_t sf_study_workers(const sf_study *study) {
    const size_t threads = (size_t)sf_threads_for((size_t)study->base.threads);
    return study->run_count < threads ? study->run_count : threads;
}
