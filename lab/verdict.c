#include "lab/verdict.h"

#include <math.h>
#include <stdio.h>

enum { MOST_SEEDS = SF_WILCOXON_MOST, RESAMPLES = 4000 };
static const double significant = 0.05;
static const double equal_accuracy = 0.5; /* percentage points that nobody should call a difference */

static double median(double *values, size_t count) {
    return sf_quantile(values, count, 0.5);
}

sf_summary sf_summarize(const sf_outcome *outcomes, size_t count) {
    sf_summary out = {.runs = count};
    double arrivals[MOST_SEEDS], heldout[MOST_SEEDS], last[MOST_SEEDS], best[MOST_SEEDS], gap[MOST_SEEDS];
    if (count > MOST_SEEDS) count = MOST_SEEDS;
    for (size_t i = 0; i < count; i++) {
        out.converged += outcomes[i].train.reached;
        out.diverged += outcomes[i].diverged;
        arrivals[i] = outcomes[i].train.reached ? outcomes[i].train.epochs : INFINITY;
        heldout[i] = outcomes[i].heldout.reached ? outcomes[i].heldout.epochs : INFINITY;
        last[i] = outcomes[i].last_heldout;
        best[i] = outcomes[i].best_heldout;
        gap[i] = outcomes[i].last_train - outcomes[i].last_heldout;
    }
    for (int q = 0; q < 3; q++) out.quartiles[q] = sf_quantile(arrivals, count, 0.25 * (q + 1));
    out.heldout_median = median(heldout, count);
    out.last_heldout = median(last, count);
    out.best_heldout = median(best, count);
    out.gap = median(gap, count);
    return out;
}

static const sf_outcome *find_seed(const sf_outcome *outcomes, size_t count, int64_t seed) {
    for (size_t i = 0; i < count; i++)
        if (outcomes[i].seed == seed) return &outcomes[i];
    return NULL;
}

static void compare_pairs(sf_verdict *v, const sf_outcome *ours, size_t our_count, const sf_outcome *baseline,
                          size_t baseline_count) {
    double ratios[MOST_SEEDS], logs[MOST_SEEDS], accuracies[MOST_SEEDS], scratch[MOST_SEEDS + RESAMPLES];
    size_t ratio_count = 0;
    for (size_t i = 0; i < our_count && v->pairs < MOST_SEEDS; i++) {
        const sf_outcome *theirs = find_seed(baseline, baseline_count, ours[i].seed);
        if (theirs == NULL) continue;
        accuracies[v->pairs++] = ours[i].best_heldout - theirs->best_heldout;
        const sf_order order = sf_arrival_compare(&ours[i].train, &theirs->train);
        v->sooner += order == SF_SOONER;
        v->later += order == SF_LATER;
        bool bounded;
        const double ratio = sf_arrival_ratio(&ours[i].train, &theirs->train, &bounded);
        if (isnan(ratio)) continue;
        v->at_least |= bounded && ours[i].train.reached;
        v->at_most |= bounded && theirs->train.reached;
        logs[ratio_count] = log(ratio);
        ratios[ratio_count++] = ratio;
    }
    v->interval = sf_bootstrap_median(ratios, ratio_count, RESAMPLES, 1, scratch);
    v->p_speed = v->at_least || v->at_most ? sf_sign_test(v->sooner, v->later) : sf_wilcoxon_test(logs, ratio_count);
    v->p_accuracy = sf_wilcoxon_test(accuracies, v->pairs);
    v->speedup = median(ratios, ratio_count);
    v->accuracy_difference = median(accuracies, v->pairs);
}

/* "in 6 epochs", or "never". */
static void say_when(char out[32], double epochs) {
    if (isfinite(epochs))
        snprintf(out, 32, "in %.3g epoch%s", epochs, epochs == 1 ? "" : "s");
    else
        snprintf(out, 32, "never");
}

/* What the paired epochs say: a factor with its interval and p, or why there is none. */
static void say_speed(char out[320], const sf_verdict *v) {
    if (v->sooner + v->later == 0) {
        snprintf(out, 320, "no seed tells them apart");
        return;
    }
    const bool faster = v->speedup >= 1;
    const double factor = faster ? v->speedup : 1 / v->speedup;
    const double low = faster ? v->interval.low : 1 / v->interval.high,
                 high = faster ? v->interval.high : 1 / v->interval.low;
    const double smallest = sf_smallest_p(v->pairs);
    char evidence[96];
    if (smallest > significant)
        snprintf(evidence, sizeof evidence, "%zu seed%s are too few for a test: at least 6 are needed", v->pairs,
                 v->pairs == 1 ? "" : "s");
    else
        snprintf(evidence, sizeof evidence, "p = %.2g%s", v->p_speed,
                 v->p_speed > significant ? ", which may be chance" : "");
    /* a bound on the ratio is one on the factor, the other way round where it is the inverse */
    const bool larger = faster ? v->at_least : v->at_most, smaller = faster ? v->at_most : v->at_least;
    const char *bound = larger && smaller ? "about " : larger ? "at least " : smaller ? "at most " : "";
    if (factor < 1.05)
        snprintf(out, 320, "as fast (ratio %.2f, 95 %% interval %.2f-%.2f), %s", v->speedup, v->interval.low,
                 v->interval.high, evidence);
    else
        snprintf(out, 320, "%s%.2g times %s (95 %% interval %.2g-%.2g), %s", bound, factor,
                 faster ? "faster" : "slower", low, high, evidence);
}

static void say_accuracy(char out[160], const sf_verdict *v, double ours, double theirs) {
    const bool equal = fabs(ours - theirs) < equal_accuracy && fabs(v->accuracy_difference) < equal_accuracy;
    if (equal)
        snprintf(out, 160, "held-out accuracy equal (%.1f vs %.1f)", ours, theirs);
    else
        snprintf(out, 160, "held-out accuracy %s (%.1f vs %.1f, p = %.2g)", ours > theirs ? "higher" : "lower", ours,
                 theirs, v->p_accuracy);
}

sf_verdict sf_judge(const char *name, const sf_outcome *ours, size_t our_count, const char *baseline_name,
                    const sf_outcome *baseline, size_t baseline_count, double threshold) {
    sf_verdict v = {.speedup = NAN};
    compare_pairs(&v, ours, our_count, baseline, baseline_count);
    const sf_summary us = sf_summarize(ours, our_count), them = sf_summarize(baseline, baseline_count);
    char our_time[32], their_time[32], speed[320], accuracy[160];
    say_when(our_time, us.quartiles[1]);
    say_when(their_time, them.quartiles[1]);
    say_speed(speed, &v);
    say_accuracy(accuracy, &v, us.best_heldout, them.best_heldout);
    if (us.converged == 0 && them.converged == 0)
        snprintf(v.sentence, sizeof v.sentence, "neither %s nor %s reaches %.3g %% (%zu and %zu seeds); %s", name,
                 baseline_name, threshold, our_count, baseline_count, accuracy);
    else if (us.converged == 0)
        snprintf(v.sentence, sizeof v.sentence, "%s never reaches %.3g %% (%zu seed%s), %s %s; %s", name, threshold,
                 our_count, our_count == 1 ? "" : "s", baseline_name, their_time, accuracy);
    else
        snprintf(v.sentence, sizeof v.sentence, "%s reaches %.3g %% %s (median of %zu seed%s), %s %s: %s; %s", name,
                 threshold, our_time, our_count, our_count == 1 ? "" : "s", baseline_name, their_time, speed, accuracy);
    return v;
}
