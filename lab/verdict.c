#include "lab/verdict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/elementary.h"
#include "base/memory.h"

static const double significant = 0.05;
static const double equal_accuracy = 0.5; /* percentage points that nobody should call a difference */

static double median(double *values, size_t count) {
    return sf_quantile(values, count, 0.5);
}

/* Of those values that are there. */
static double median_known(double *values, size_t count) {
    size_t known = 0;
    for (size_t i = 0; i < count; i++)
        if (!isnan(values[i])) values[known++] = values[i];
    return median(values, known);
}

static double epochs_of(const sf_outcome *outcome) {
    return fmax((double)outcome->epochs, outcome->train.epochs);
}

/* Whether a run ended before anybody could see it arrive: earlier than others, or as soon as it had learned the
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

/* No further epoch would bring a run there that diverged. */
static sf_arrival arrival_within(const sf_outcome *outcome, double epochs) {
    sf_arrival arrival = outcome->train;
    if (outcome->diverged && !arrival.reached) arrival.epochs = epochs;
    return arrival;
}

static void compare_pairs(sf_verdict *v, pairing *p, size_t our_count, size_t their_count) {
    const double most = fmax(longest(p->ours, our_count), longest(p->theirs, their_count));
    size_t ratio_count = 0;
    for (size_t i = 0, j = 0; i < our_count; i++) {
        const sf_outcome *ours = p->ours[i];
        while (j < their_count && p->theirs[j]->seed < ours->seed) j++;
        if (j == their_count || p->theirs[j]->seed != ours->seed) continue;
        const sf_outcome *theirs = p->theirs[j];
        const double difference = ours->best_heldout - theirs->best_heldout;
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
    v->interval = (sf_interval){NAN, NAN}; /* one value says nothing about its spread */
    if (ratio_count > 1) v->interval = sf_bootstrap_median(p->ratios, ratio_count, 1, p->counters);
    v->p_speed = v->at_least || v->at_most ? sf_sign_test(v->sooner, v->later) : sf_wilcoxon_test(p->logs, ratio_count);
    v->speedup = median(p->ratios, ratio_count);
    v->accuracy_difference = median(p->accuracies, v->measured);
    v->p_accuracy = v->measured > 0 ? sf_wilcoxon_test(p->accuracies, v->measured) : NAN;
}

static sf_status pair_up(sf_verdict *v, const sf_outcome *ours, size_t our_count, const sf_outcome *baseline,
                         size_t baseline_count) {
    sf_arena arena = {0};
    pairing p;
    SF_TRY(open_pairing(&arena, &p, our_count, baseline_count));
    sort_by_seed(p.ours, ours, our_count);
    sort_by_seed(p.theirs, baseline, baseline_count);
    compare_pairs(v, &p, our_count, baseline_count);
    sf_arena_close(&arena);
    return SF_OK;
}

enum { TIME_SIZE = 160 };

/* "6 seeds of 40 epochs", of which none got there: no more than was tried. */
static void say_tried(char out[TIME_SIZE], const sf_summary *of) {
    char epochs[64] = "", diverged[48] = "";
    if (of->fewest < of->most)
        snprintf(epochs, sizeof epochs, " of %.0f to %.0f epochs", of->fewest, of->most);
    else if (!isnan(of->most))
        snprintf(epochs, sizeof epochs, " of %.0f epoch%s", of->most, of->most == 1 ? "" : "s");
    if (of->diverged == of->runs)
        snprintf(diverged, sizeof diverged, of->runs == 1 ? ", diverged" : ", all diverged");
    else if (of->diverged > 0)
        snprintf(diverged, sizeof diverged, " and %zu that diverged", of->diverged);
    const size_t rest = of->diverged == of->runs ? of->runs : of->runs - of->diverged;
    snprintf(out, TIME_SIZE, "%zu seed%s%s%s", rest, rest == 1 ? "" : "s", epochs, diverged);
}

/* "in 6 epochs", "in 2 of 6 seeds" where the median cannot be told, or "not (6 seeds of 40 epochs)". */
static void say_when(char out[TIME_SIZE], const sf_summary *of) {
    const double epochs = of->quartiles[1];
    char tried[TIME_SIZE - 8];
    if (of->converged == 0) {
        say_tried(out, of);
        snprintf(tried, sizeof tried, "%s", out);
        snprintf(out, TIME_SIZE, "not (%s)", tried);
    } else if (isfinite(epochs)) {
        snprintf(out, TIME_SIZE, "in %.3g epoch%s", epochs, epochs == 1 ? "" : "s");
    } else {
        snprintf(out, TIME_SIZE, "in %zu of %zu seeds", of->converged, of->runs);
    }
}

/* As say_when(), of a mechanism that got there, with how many seeds the median is of. */
static void say_our_time(char out[TIME_SIZE], const sf_summary *of) {
    say_when(out, of);
    const size_t used = strlen(out);
    if (isfinite(of->quartiles[1]))
        snprintf(out + used, TIME_SIZE - used, " (median of %zu seed%s)", of->runs, of->runs == 1 ? "" : "s");
}

enum { INTERVAL_SIZE = 64 };

/* Of the ratio, inside its parentheses, or of the factor, in some of its own; empty where there is none. */
static void say_interval(char out[INTERVAL_SIZE], const sf_verdict *v, bool of_ratio, bool faster) {
    const double low = v->interval.low, high = v->interval.high;
    *out = '\0';
    if (isnan(low)) return;
    if (of_ratio)
        snprintf(out, INTERVAL_SIZE, ", 95 %% interval %.2f-%.2f", low, high);
    else
        snprintf(out, INTERVAL_SIZE, " (95 %% interval %.2g-%.2g)", faster ? low : 1 / high, faster ? high : 1 / low);
}

/* What the paired epochs say: a factor with its interval and p, or why there is none. */
static void say_speed(char out[320], const sf_verdict *v) {
    if (v->sooner + v->later == 0) {
        snprintf(out, 320, "no seed tells them apart");
        return;
    }
    const bool faster = v->speedup >= 1;
    const double factor = faster ? v->speedup : 1 / v->speedup;
    const double smallest = sf_smallest_p(v->pairs);
    char evidence[96];
    if (smallest > significant)
        snprintf(evidence, sizeof evidence, "%zu seed%s too few for a test: at least 6 are needed", v->pairs,
                 v->pairs == 1 ? " is" : "s are");
    else
        snprintf(evidence, sizeof evidence, "p = %.2g%s", v->p_speed,
                 v->p_speed > significant ? ", which may be chance" : "");
    /* a bound on the ratio is one on the factor, the other way round where it is the inverse */
    const bool larger = faster ? v->at_least : v->at_most, smaller = faster ? v->at_most : v->at_least;
    const char *bound = larger && smaller ? "about " : larger ? "at least " : smaller ? "at most " : "";
    char interval[INTERVAL_SIZE];
    const bool as_fast = factor < 1.05 && !larger && !smaller; /* a bound does not say so */
    say_interval(interval, v, as_fast, faster);
    if (as_fast)
        snprintf(out, 320, "as fast (ratio %.2f%s), %s", v->speedup, interval, evidence);
    else
        snprintf(out, 320, "%s%.*g times %s%s, %s", bound, factor < 1.05 ? 3 : 2, factor, faster ? "faster" : "slower",
                 interval, evidence);
}

enum { ACCURACY_SIZE = 320 };

/* What the medians of the best held-out accuracies say. */
static void say_accuracy(char out[ACCURACY_SIZE], const sf_verdict *v, double ours, double theirs) {
    const bool equal = fabs(ours - theirs) < equal_accuracy && fabs(v->accuracy_difference) < equal_accuracy;
    int used;
    if (equal)
        used = snprintf(out, ACCURACY_SIZE, "held-out accuracy equal (%.1f vs %.1f)", ours, theirs);
    else if (sf_smallest_p(v->measured) > significant)
        used = snprintf(out, ACCURACY_SIZE, "held-out accuracy %.1f vs %.1f, too few seeds to test", ours, theirs);
    else if (v->p_accuracy > significant)
        used = snprintf(out, ACCURACY_SIZE, "held-out accuracy %.1f vs %.1f, which may be chance (p = %.2g)", ours,
                        theirs, v->p_accuracy);
    else
        used = snprintf(out, ACCURACY_SIZE, "held-out accuracy %s (%.1f vs %.1f, p = %.2g)",
                        v->accuracy_difference > 0 ? "higher" : "lower", ours, theirs, v->p_accuracy);
    if (v->measured < v->pairs)
        snprintf(out + used, ACCURACY_SIZE - (size_t)used, ", measured in %zu of %zu pairs", v->measured, v->pairs);
}

/* A side without a single held-out accuracy has diverged before its first evaluation, in every seed. */
static bool say_unmeasured(char out[ACCURACY_SIZE], const char *name, const sf_summary *us, const char *baseline_name,
                           const sf_summary *them) {
    const bool ours = isnan(us->best_heldout), theirs = isnan(them->best_heldout);
    if (ours && theirs)
        snprintf(out, ACCURACY_SIZE, "both diverged before their first evaluation");
    else if (ours || theirs)
        snprintf(out, ACCURACY_SIZE, "%s diverged before its first evaluation", ours ? name : baseline_name);
    return ours || theirs;
}

sf_status sf_judge(sf_verdict *out, const char *name, const sf_outcome *ours, size_t our_count,
                   const char *baseline_name, const sf_outcome *baseline, size_t baseline_count, double threshold) {
    sf_summary us, them;
    *out = (sf_verdict){.speedup = NAN};
    SF_TRY(pair_up(out, ours, our_count, baseline, baseline_count));
    SF_TRY(sf_summarize(&us, ours, our_count));
    SF_TRY(sf_summarize(&them, baseline, baseline_count));
    char our_time[TIME_SIZE], their_time[TIME_SIZE], speed[320], accuracy[ACCURACY_SIZE];
    say_when(their_time, &them);
    say_speed(speed, out);
    if (!say_unmeasured(accuracy, name, &us, baseline_name, &them))
        say_accuracy(accuracy, out, us.best_heldout, them.best_heldout);
    char *sentence = out->sentence;
    const size_t size = sizeof out->sentence;
    if (us.converged > 0) {
        say_our_time(our_time, &us);
        snprintf(sentence, size, "%s reaches %.3g %% %s, %s %s: %s; %s", name, threshold, our_time, baseline_name,
                 their_time, speed, accuracy);
        return SF_OK;
    }
    say_tried(our_time, &us);
    if (them.converged > 0) {
        snprintf(sentence, size, "%s does not reach %.3g %% (%s), %s %s; %s", name, threshold, our_time, baseline_name,
                 their_time, accuracy);
        return SF_OK;
    }
    say_tried(their_time, &them);
    if (strcmp(our_time, their_time) == 0)
        snprintf(sentence, size, "neither %s nor %s reaches %.3g %% (both: %s); %s", name, baseline_name, threshold,
                 our_time, accuracy);
    else
        snprintf(sentence, size, "neither %s nor %s reaches %.3g %% (%s; %s); %s", name, baseline_name, threshold,
                 our_time, their_time, accuracy);
    return SF_OK;
}
