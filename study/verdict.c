#include "study/verdict.h"

#include <math.h>
#include <stdlib.h>

#include "base/elementary.h"
#include "base/memory.h"

static double median(double *values, size_t count) {
    return sf_quantile(values, count, 0.5);
}

/* The median of the values that are not NaN. */
static double median_known(double *values, size_t count) {
    size_t known = 0;
    for (size_t i = 0; i < count; i++)
        if (!isnan(values[i])) values[known++] = values[i];
    return median(values, known);
}

static double epochs_of(const sf_outcome *outcome) {
    return fmax((double)outcome->epochs, outcome->train.epochs);
}

/* Whether a run ended before it could be seen to converge: earlier than others, or as soon as it had learned the
 * training set. A run that diverged did not end too early, it will not get there. */
static bool ended_early(const sf_outcome *outcome, const sf_arrival *arrival, double longest) {
    if (arrival->reached || outcome->diverged) return false;
    return epochs_of(outcome) < longest || outcome->stopped;
}

/* A quantile that is the same whether the runs that ended early would have arrived next or never; else NaN. */
static double told_quantile(double *if_next, double *if_never, size_t count, double q) {
    const double least = sf_quantile(if_next, count, q), most = sf_quantile(if_never, count, q);
    return least == most ? most : NAN;
}

static sf_status summarize_arrivals(sf_summary *out, const sf_outcome *outcomes, size_t count) {
    double *values, longest = 0;
    SF_TRY(SF_NEW(&values, 4 * count));
    double *const least[] = {values, values + count}, *const most[] = {values + 2 * count, values + 3 * count};
    for (size_t i = 0; i < count; i++) longest = fmax(longest, epochs_of(&outcomes[i]));
    for (size_t i = 0; i < count; i++) {
        const sf_arrival *const arrivals[] = {&outcomes[i].train, &outcomes[i].heldout};
        for (int set = 0; set < 2; set++) {
            const bool hidden = ended_early(&outcomes[i], arrivals[set], longest);
            most[set][i] = arrivals[set]->reached ? arrivals[set]->epochs : INFINITY;
            least[set][i] = hidden ? epochs_of(&outcomes[i]) + 1 : most[set][i];
        }
    }
    for (int q = 0; q < 3; q++) out->quartiles[q] = told_quantile(least[0], most[0], count, 0.25 * (q + 1));
    out->heldout_median = told_quantile(least[1], most[1], count, 0.5);
    sf_release(values);
    return SF_OK;
}

static void count_outcomes(sf_summary *out, const sf_outcome *outcomes, size_t count) {
    out->fewest = out->most = NAN;
    for (size_t i = 0; i < count; i++) {
        out->converged += outcomes[i].train.reached;
        out->diverged += outcomes[i].diverged;
        if (outcomes[i].train.reached || outcomes[i].diverged) continue;
        out->fewest = fmin(out->fewest, epochs_of(&outcomes[i]));
        out->most = fmax(out->most, epochs_of(&outcomes[i]));
    }
}

enum { QUANTITIES = 4 };

sf_status sf_summarize(sf_summary *out, const sf_outcome *outcomes, size_t count) {
    double *values;
    *out = (sf_summary){.runs = count};
    count_outcomes(out, outcomes, count);
    SF_TRY(summarize_arrivals(out, outcomes, count));
    SF_TRY(SF_NEW(&values, QUANTITIES * count));
    double *last = values, *best = last + count, *gap = best + count, *seconds = gap + count;
    for (size_t i = 0; i < count; i++) {
        last[i] = outcomes[i].last_heldout;
        best[i] = outcomes[i].best_heldout;
        gap[i] = outcomes[i].last_train - outcomes[i].last_heldout;
        seconds[i] = outcomes[i].epoch_seconds;
    }
    out->last_heldout = median_known(last, count);
    out->best_heldout = median_known(best, count);
    out->gap = median_known(gap, count);
    if (fabs(out->gap) < 0.05) out->gap = 0; /* not -0.0 where it is shown */
    out->epoch_seconds = median_known(seconds, count);
    sf_release(values);
    return SF_OK;
}

static int by_seed(const void *a, const void *b) {
    const int64_t left = (*(const sf_outcome *const *)a)->seed, right = (*(const sf_outcome *const *)b)->seed;
    return (left > right) - (left < right);
}

static void sort_by_seed(const sf_outcome **sorted, const sf_outcome *outcomes, size_t count) {
    for (size_t i = 0; i < count; i++) sorted[i] = &outcomes[i];
    qsort(sorted, count, sizeof *sorted, by_seed);
}

typedef struct pairing { /* arrays with a place for every pair */
    const sf_outcome **ours, **theirs;
    double *ratios, *logs, *accuracies;
    uint32_t *counters;
} pairing;

static sf_status open_pairing(sf_arena *arena, pairing *p, size_t our_count, size_t their_count) {
    for (int pass = 0; pass < 2; pass++) {
        p->ours = sf_arena_take(arena, our_count, sizeof *p->ours);
        p->theirs = sf_arena_take(arena, their_count, sizeof *p->theirs);
        p->ratios = sf_arena_take(arena, our_count, sizeof *p->ratios);
        p->logs = sf_arena_take(arena, our_count, sizeof *p->logs);
        p->accuracies = sf_arena_take(arena, our_count, sizeof *p->accuracies);
        p->counters = sf_arena_take(arena, our_count, sizeof *p->counters);
        if (pass == 0) SF_TRY(sf_arena_open(arena));
    }
    return SF_OK;
}

/* How many epochs the longest of these runs trained. */
static double longest(const sf_outcome *const *outcomes, size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; i++) most = fmax(most, epochs_of(outcomes[i]));
    return most;
}

/* A run that diverged would not get there with more epochs. */
static sf_arrival arrival_within(const sf_outcome *outcome, double epochs) {
    sf_arrival arrival = outcome->train;
    if (outcome->diverged && !arrival.reached) arrival.epochs = epochs;
    return arrival;
}

/* Fewer values say too little about their spread. */
static sf_interval interval_of(double *values, size_t count, uint32_t *counters) {
    return count < SF_FEWEST_SEEDS ? (sf_interval){NAN, NAN} : sf_bootstrap_median(values, count, 1, counters);
}

static void compare_pairs(sf_verdict *v, pairing *p, size_t our_count, size_t their_count) {
    const double most = fmax(longest(p->ours, our_count), longest(p->theirs, their_count));
    size_t ratio_count = 0;
    for (size_t i = 0, j = 0; i < our_count; i++) {
        const sf_outcome *ours = p->ours[i];
        while (j < their_count && p->theirs[j]->seed < ours->seed) j++;
        if (j == their_count || p->theirs[j]->seed != ours->seed) continue;
        const sf_outcome *theirs = p->theirs[j];
        const double difference = ours->last_heldout - theirs->last_heldout;
        if (!isnan(difference)) p->accuracies[v->measured++] = difference;
        v->pairs++;
        const sf_arrival mine = arrival_within(ours, most), other = arrival_within(theirs, most);
        const sf_order order = sf_arrival_compare(&mine, &other);
        v->sooner += order == SF_SOONER;
        v->later += order == SF_LATER;
        bool bounded;
        const double ratio = sf_arrival_ratio(&mine, &other, &bounded);
        if (isnan(ratio)) continue;
        v->at_least |= bounded && mine.reached;
        v->at_most |= bounded && other.reached;
        p->logs[ratio_count] = sf_log(ratio);
        p->ratios[ratio_count++] = ratio;
    }
    v->interval = interval_of(p->ratios, ratio_count, p->counters);
    v->p_speed = v->at_least || v->at_most ? sf_sign_test(v->sooner, v->later) : sf_wilcoxon_test(p->logs, ratio_count);
    v->speedup = median(p->ratios, ratio_count);
    v->accuracy_interval = interval_of(p->accuracies, v->measured, p->counters);
    v->accuracy_difference = median(p->accuracies, v->measured);
    v->p_accuracy = v->measured > 0 ? sf_wilcoxon_test(p->accuracies, v->measured) : NAN;
}

sf_status sf_compare(sf_verdict *out, const sf_side *ours, const sf_side *baseline) {
    sf_arena arena = {0};
    pairing p;
    *out = (sf_verdict){.speedup = NAN};
    SF_TRY(open_pairing(&arena, &p, ours->count, baseline->count));
    sort_by_seed(p.ours, ours->outcomes, ours->count);
    sort_by_seed(p.theirs, baseline->outcomes, baseline->count);
    compare_pairs(out, &p, ours->count, baseline->count);
    sf_arena_close(&arena);
    return SF_OK;
}

sf_status sf_correct_together(sf_verdict *const *verdicts /* [count] */, size_t count) {
    double *p;
    size_t accuracy_tests = 0;
    SF_TRY(SF_NEW(&p, 2 * count));
    double *speed = p, *accuracy = p + count;
    for (size_t i = 0; i < count; i++) {
        speed[i] = verdicts[i]->p_speed;
        accuracy[i] = verdicts[i]->p_accuracy;
        accuracy_tests += isnan(accuracy[i]) ? 0 : 1;
    }
    sf_status status = sf_holm(speed, count);
    if (status == SF_OK) status = sf_holm(accuracy, count);
    for (size_t i = 0; i < count; i++) {
        verdicts[i]->speed_tests = count;
        verdicts[i]->accuracy_tests = accuracy_tests;
        verdicts[i]->corrected_p_speed = speed[i];
        verdicts[i]->corrected_p_accuracy = accuracy[i];
    }
    sf_release(p);
    return status;
}

bool sf_is_at_chance(double heldout, double chance, size_t heldout_size) {
    const double error = sqrt(chance * (100 - chance) / (double)heldout_size);
    return heldout <= chance + 1.96 * error; /* false where one of them is NaN */
}

sf_status sf_judge(sf_verdict *out, const char *name, const sf_outcome *ours, size_t our_count,
                   const char *baseline_name, const sf_outcome *baseline, size_t baseline_count, double threshold) {
    const sf_side us = {.name = name, .outcomes = ours, .count = our_count, .chance = NAN};
    const sf_side them = {.name = baseline_name, .outcomes = baseline, .count = baseline_count, .chance = NAN};
    SF_TRY(sf_compare(out, &us, &them));
    SF_TRY(sf_correct_together(&out, 1));
    return sf_conclude(out, &us, &them, &(sf_criterion){.value = threshold});
}
