/* Judges the curves of a study: every group by itself, against its baseline, and each mechanism at its best setting.
 * All comparisons of a task are corrected together. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "store/environment.h"
#include "store/store.h"
#include "study/study.h"
#include "train/data.h"

static void arrive(sf_arrival *arrival, bool now, size_t epoch) {
    if (arrival->reached) return;
    *arrival = (sf_arrival){.epochs = (double)epoch, .reached = now};
}

sf_outcome sf_study_outcome(const sf_study *study, size_t run) {
    const sf_curve *curve = &study->curves[run];
    sf_outcome out = {.seed = study->runs[run].config.seed,
                      .epochs = curve->count,
                      .diverged = curve->diverged,
                      .stopped = curve->stopped};
    if (curve->count == 0) out.last_train = out.last_heldout = out.best_heldout = out.epoch_seconds = NAN;
    for (size_t i = 0; i < curve->count; i++) {
        const sf_epoch *row = &study->rows[curve->first + i];
        arrive(&out.train, sf_criterion_met(&study->criterion, row, SF_TRAINING), row->epoch);
        arrive(&out.heldout, sf_criterion_met(&study->criterion, row, SF_HELDOUT), row->epoch);
        out.last_train = row->train_accuracy;
        out.last_heldout = row->heldout_accuracy;
        if (row->heldout_accuracy > out.best_heldout) out.best_heldout = row->heldout_accuracy;
        out.epoch_seconds += row->seconds / (double)curve->count;
    }
    return out;
}

size_t sf_study_arrival(const sf_study *study, size_t run) {
    const sf_curve *curve = &study->curves[run];
    for (size_t i = 0; i < curve->count; i++)
        if (sf_criterion_met(&study->criterion, &study->rows[curve->first + i], SF_TRAINING))
            return study->rows[curve->first + i].epoch;
    return 0;
}

const char *sf_conclusion_word(sf_conclusion conclusion) {
    static const char *const all[SF_CONCLUSIONS] = {
        "nothing to compare", "too few seeds", "no difference found", "equal", "better", "worse", "both at chance"};
    return all[conclusion];
}

typedef struct judging { /* shared by all tasks, one after the other */
    sf_study *study;
    sf_outcome *outcomes; /* of the finished members of a group, from the place of its first member on */
    sf_side *sides;       /* [group_count] */
    sf_verdict *verdicts; /* [2 * group_count]: against the baseline, then of best settings */
    char **environments;  /* [group_count]: that all finished runs of the group share; NULL: they have none in common */
} judging;

static const sf_planned_run *first_run(const sf_study *study, size_t group) {
    return &study->runs[sf_study_member(study, group, 0)];
}

/* From the held-out labels of a user's files. The files may be gone, or may have changed. */
static void look_at_files(double *chance, size_t *heldout_size, const sf_study *study, const sf_planned_run *run) {
    sf_config config = run->config;
    char id[SF_RUN_ID_SIZE], attention[SF_SPELLING_SIZE];
    sf_run_data data;
    *chance = NAN;
    *heldout_size = 0;
    if (study->stored && (sf_run_identify(id, attention, &config, run->task) != SF_OK || strcmp(id, run->id) != 0))
        return;
    if (sf_run_data_open(&data, run->task, &run->config, NULL) != SF_OK) return;
    *heldout_size = sf_dataset_count(data.heldout);
    if (sf_dataset_majority(chance, data.heldout) != SF_OK) *chance = NAN;
    sf_run_data_close(&data);
}

static void find_chance(double *chance, size_t *heldout_size, const sf_study *study, const sf_planned_run *run) {
    const sf_task *task;
    if (sf_run_data_is_own(run->task)) {
        look_at_files(chance, heldout_size, study, run);
        return;
    }
    *heldout_size = (size_t)run->config.heldout_count;
    const sf_task_options options = sf_task_options_of(&run->config);
    *chance = NAN;
    const sf_run_code *missing = sf_study_missing_code(study, (size_t)(run - study->runs));
    if (missing != NULL && missing->lacks_task) return;
    if (sf_task_find(&task, run->task) == SF_OK)
        *chance = sf_task_chance_with(task, (size_t)run->config.length, &options);
}

static bool same_chance(const sf_planned_run *a, const sf_planned_run *b) {
    const sf_config *left = &a->config, *right = &b->config;
    return strcmp(a->task, b->task) == 0 && left->length == right->length &&
           left->heldout_count == right->heldout_count && left->vocab == right->vocab && left->pairs == right->pairs &&
           left->noise == right->noise && left->writes == right->writes && left->group == right->group;
}

/* Files are read, and chance levels computed, once for consecutive groups with equal data. */
static void find_chances(judging *j) {
    const sf_study *study = j->study;
    for (size_t g = 0; g < study->group_count; g++) {
        const sf_planned_run *run = first_run(study, g), *before = g > 0 ? first_run(study, g - 1) : NULL;
        sf_side *side = &j->sides[g];
        if (before != NULL && same_chance(before, run)) {
            side->chance = side[-1].chance;
            side->heldout_size = side[-1].heldout_size;
        } else {
            find_chance(&side->chance, &side->heldout_size, study, run);
        }
    }
}

/* The environment that the finished runs of a group have in common, as far as their speed depends on it. */
static sf_status find_environment(char **out, const sf_study *study, sf_store *store, size_t group) {
    *out = NULL;
    for (size_t m = 0; m < study->groups[group].runs; m++) {
        const size_t run = sf_study_member(study, group, m);
        char *text = NULL;
        if (!study->curves[run].finished || study->curves[run].count == 0) continue;
        SF_TRY(sf_store_environment(&text, store, study->runs[run].id));
        const bool equal =
            text != NULL && (*out == NULL ? sf_environment_is_steady(text)
                                          : strcmp(*out, text) == 0 || sf_environment_is_alike(*out, text));
        if (equal && *out == NULL) {
            *out = text;
            continue;
        }
        free(text);
        if (equal) continue;
        free(*out);
        *out = NULL;
        return SF_OK;
    }
    return SF_OK;
}

static sf_status find_environments(judging *j, sf_store *store) {
    if (store == NULL) return SF_OK;
    SF_TRY(sf_store_freeze(store));
    sf_status status = SF_OK;
    for (size_t g = 0; g < j->study->group_count && status == SF_OK; g++)
        status = find_environment(&j->environments[g], j->study, store, g);
    sf_store_unfreeze(store);
    return status;
}

/* Seconds measured under different conditions must not be shown side by side. */
static bool may_show_seconds(const judging *j, size_t g) {
    const char *ours = j->environments[g], *theirs = j->environments[j->study->groups[g].baseline];
    if (ours == NULL) return false;
    return j->study->groups[g].baseline == g || (theirs != NULL && sf_environment_is_alike(ours, theirs));
}

static void collect_outcomes(judging *j, size_t g) {
    sf_study *study = j->study;
    sf_group *group = &study->groups[g];
    group->finished = group->begun = group->longest = 0;
    for (size_t m = 0; m < group->runs; m++) {
        const size_t run = sf_study_member(study, g, m);
        const sf_curve *curve = &study->curves[run];
        group->begun += curve->count > 0 || curve->diverged;
        if (!curve->finished) continue;
        j->outcomes[study->first_members[g] + group->finished++] = sf_study_outcome(study, run);
        if (curve->count > group->longest) group->longest = curve->count;
    }
    j->sides[g].name = group->name;
    j->sides[g].outcomes = j->outcomes + study->first_members[g];
    j->sides[g].count = group->finished;
}

static sf_status summarize_group(judging *j, size_t g) {
    sf_group *group = &j->study->groups[g];
    const sf_side *side = &j->sides[g];
    sf_summary summary;
    SF_TRY(sf_summarize(&summary, side->outcomes, side->count));
    group->converged = summary.converged;
    group->diverged = summary.diverged;
    memcpy(group->quartiles, summary.quartiles, sizeof group->quartiles);
    group->heldout_median = summary.heldout_median;
    group->last_heldout = summary.last_heldout;
    group->best_heldout = summary.best_heldout;
    group->gap = summary.gap;
    group->chance = side->chance;
    group->at_chance = sf_is_at_chance(summary.last_heldout, side->chance, side->heldout_size);
    group->epoch_seconds = may_show_seconds(j, g) ? summary.epoch_seconds : NAN;
    group->speedup = group->low = group->high = NAN;
    group->p_speed = group->p_accuracy = group->corrected_p_speed = group->corrected_p_accuracy = NAN;
    group->accuracy_difference = group->accuracy_low = group->accuracy_high = NAN;
    group->speed_tests = group->accuracy_tests = 0;
    group->at_least = group->at_most = group->is_best = false;
    group->speed = group->accuracy = SF_UNTOLD;
    group->best_rival = g;
    sf_sentence_forget(&group->sentence);
    sf_sentence_forget(&group->best_sentence);
    return SF_OK;
}

static bool is_compared(const judging *j, size_t g) {
    const size_t baseline = j->study->groups[g].baseline;
    return baseline != g && j->sides[g].count > 0 && j->sides[baseline].count > 0;
}

static sf_status judge_group(judging *j, size_t g) {
    SF_TRY(summarize_group(j, g));
    if (!is_compared(j, g)) return SF_OK;
    return sf_compare(&j->verdicts[g], &j->sides[g], &j->sides[j->study->groups[g].baseline]);
}

/* Whether a converges sooner than b: by the median, then by how many do. */
static bool is_sooner(const sf_group *a, const sf_group *b) {
    const double ours = isnan(a->quartiles[1]) ? INFINITY : a->quartiles[1];
    const double theirs = isnan(b->quartiles[1]) ? INFINITY : b->quartiles[1];
    return ours != theirs ? ours < theirs : a->converged > b->converged;
}

/* The settings with which a mechanism converges soonest; `count`: with none. *tried: how many there are. */
static size_t best_of(const sf_study *study, size_t mechanism, size_t *tried) {
    size_t best = study->group_count;
    *tried = 0;
    for (size_t g = mechanism; g < study->group_count; g++) {
        const sf_group *group = &study->groups[g];
        if (group->mechanism != mechanism || group->finished == 0) continue;
        ++*tried;
        if (group->converged > 0 && (best == study->group_count || is_sooner(group, &study->groups[best]))) best = g;
    }
    return best;
}

/* Chooses the best settings of every mechanism of a grid, and compares it with its rival's. */
static sf_status judge_best(judging *j, size_t mechanism) {
    sf_study *study = j->study;
    sf_group *group = &study->groups[mechanism];
    size_t tried, rivals_tried;
    if (group->mechanism != mechanism) return SF_OK; /* not the first of its grid */
    const size_t best = best_of(study, mechanism, &tried), rival = best_of(study, group->rival, &rivals_tried);
    if (tried < 2 && rivals_tried < 2) return SF_OK;
    if (best < study->group_count) study->groups[best].is_best = true;
    if (best == study->group_count || rival == study->group_count || best == rival) return SF_OK;
    study->groups[best].best_rival = rival;
    if (study->groups[best].baseline == rival) return SF_OK; /* they are compared already */
    return sf_compare(&j->verdicts[study->group_count + best], &j->sides[best], &j->sides[rival]);
}

static bool has_best_verdict(const sf_study *study, size_t g) {
    const sf_group *group = &study->groups[g];
    return group->best_rival != g && group->best_rival != group->baseline;
}

static sf_status correct_task(judging *j, size_t from, size_t to, sf_verdict **family) {
    size_t count = 0;
    for (size_t g = from; g < to; g++) {
        if (is_compared(j, g)) family[count++] = &j->verdicts[g];
        if (has_best_verdict(j->study, g)) family[count++] = &j->verdicts[j->study->group_count + g];
    }
    return count > 0 ? sf_correct_together(family, count) : SF_OK;
}

static void take_verdict(sf_group *group, const sf_verdict *v) {
    group->speedup = v->speedup;
    group->low = v->interval.low;
    group->high = v->interval.high;
    group->at_least = v->at_least;
    group->at_most = v->at_most;
    group->p_speed = v->p_speed;
    group->p_accuracy = v->p_accuracy;
    group->corrected_p_speed = v->corrected_p_speed;
    group->corrected_p_accuracy = v->corrected_p_accuracy;
    group->speed_tests = v->speed_tests;
    group->accuracy_tests = v->accuracy_tests;
    group->accuracy_difference = v->accuracy_difference;
    group->accuracy_low = v->accuracy_interval.low;
    group->accuracy_high = v->accuracy_interval.high;
    group->speed = v->speed;
    group->accuracy = v->accuracy;
}

static sf_status conclude_group(judging *j, size_t g) {
    sf_study *study = j->study;
    sf_group *group = &study->groups[g];
    if (is_compared(j, g)) {
        sf_verdict *v = &j->verdicts[g];
        SF_TRY(sf_conclude(v, &j->sides[g], &j->sides[group->baseline], &study->criterion));
        take_verdict(group, v);
        SF_TRY(sf_sentence_keep(&group->sentence, v->sentence));
    }
    if (has_best_verdict(study, g)) {
        sf_verdict *v = &j->verdicts[study->group_count + g];
        SF_TRY(sf_conclude(v, &j->sides[g], &j->sides[group->best_rival], &study->criterion));
        return sf_sentence_keep(&group->best_sentence, v->sentence);
    }
    return group->best_rival != g ? sf_sentence_keep(&group->best_sentence, group->sentence) : SF_OK;
}

static sf_status judge_tasks(judging *j) {
    const sf_study *study = j->study;
    sf_verdict **family;
    SF_TRY(SF_NEW(&family, 2 * study->group_count));
    sf_status status = SF_OK;
    for (size_t g = 0; g < study->group_count && status == SF_OK; g++) status = judge_best(j, g);
    for (size_t from = 0, to; from < study->group_count && status == SF_OK; from = to) {
        for (to = from + 1; to < study->group_count && strcmp(study->groups[to].task, study->groups[from].task) == 0;)
            to++;
        status = correct_task(j, from, to, family);
    }
    for (size_t g = 0; g < study->group_count && status == SF_OK; g++) status = conclude_group(j, g);
    sf_release(family);
    return status;
}

static sf_status judge_all(judging *j) {
    const size_t groups = j->study->group_count;
    const int threads = j->study->member_count > 1000 ? sf_threads_at_most(0) : 1;
    size_t failed = 0;
    for (size_t g = 0; g < groups; g++) collect_outcomes(j, g);
#pragma omp parallel for schedule(dynamic) reduction(+ : failed) num_threads(threads) if (threads > 1)
    for (size_t g = 0; g < groups; g++) failed += judge_group(j, g) != SF_OK;
    if (failed > 0) return sf_fail(SF_NO_MEMORY, "no memory left to judge %zu runs", j->study->member_count);
    return judge_tasks(j);
}

sf_status sf_study_judge(sf_study *study, sf_store *store) {
    judging j = {.study = study};
    SF_TRY(sf_study_read_curves(study, store));
    sf_status status = SF_NEW(&j.outcomes, study->member_count);
    if (status == SF_OK) status = SF_NEW(&j.sides, study->group_count);
    if (status == SF_OK) status = SF_NEW(&j.verdicts, 2 * study->group_count);
    if (status == SF_OK) status = SF_NEW(&j.environments, study->group_count);
    if (status == SF_OK) status = find_environments(&j, store);
    if (status == SF_OK) {
        find_chances(&j);
        status = judge_all(&j);
    }
    for (size_t g = 0; j.environments != NULL && g < study->group_count; g++) free(j.environments[g]);
    sf_release(j.environments);
    sf_release(j.verdicts);
    sf_release(j.sides);
    sf_release(j.outcomes);
    return status;
}
