/* Statistics of paired comparisons with censoring. A run that never converges is not dropped: it counts as "later than
 * all its epochs". Pure functions over arrays; tested against values of a statistics package and brute force. */
#ifndef SF_STUDY_STATISTICS_H
#define SF_STUDY_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Quantile q in 0..1 with linear interpolation; values are sorted in place. Infinite values mean "never": a quantile
 * that would mix a finite and an infinite value is infinite. NaN for no values. */
double sf_quantile(double *values, size_t count, double q);

/* The quartiles of count > 0 finite values, as sf_quantile() gives them; takes linear time and reorders the values. */
void sf_quartiles(double *values, size_t count, double *low, double *median, double *high);

typedef struct sf_arrival { /* when a run first reached a threshold */
    double epochs;          /* the epoch, or how many it trained without getting there */
    bool reached;
} sf_arrival;

typedef enum sf_order { SF_SOONER, SF_LATER, SF_UNDECIDED } sf_order;

/* Which of two runs got there first; undecided where both are equal or censoring hides it. */
sf_order sf_arrival_compare(const sf_arrival *ours, const sf_arrival *theirs);

/* theirs / ours: how many times sooner we got there. If one is censored, it is only a bound, from below (theirs) or
 * above (ours); *bounded says so. NaN if neither got there. */
double sf_arrival_ratio(const sf_arrival *ours, const sf_arrival *theirs, bool *bounded);

typedef struct sf_interval {
    double low, high;
} sf_interval;

enum { SF_RESAMPLES = 4000 };
/* 95 % percentile-bootstrap interval of the median over `count` values, which are sorted in place, under the seed. NaN
 * without values. `scratch` has room for count counters. */
sf_interval sf_bootstrap_median(double *values, size_t count, uint32_t seed, uint32_t *scratch);

/* Two-sided exact sign test: probability of a split at least as uneven as wins : losses under a fair coin. */
double sf_sign_test(size_t wins, size_t losses);

enum { SF_WILCOXON_EXACT = 200 };
/* Two-sided Wilcoxon signed-rank test of paired differences, which are sorted by size in place: zeros are dropped, ties
 * get their mean rank. Up to SF_WILCOXON_EXACT differences the distribution is that of all 2^n sign patterns, beyond it
 * the normal one with corrections for ties and continuity. 1 without differences. */
double sf_wilcoxon_test(double *differences, size_t count);

/* Holm's correction for as many tests as there are p-values: each becomes the smallest level at which it would still be
 * called significant together with the others. NaN is no test: it stays and does not count. */
sf_status sf_holm(double *p /* [count] */, size_t count);

/* The smallest p-value that a sign or Wilcoxon test of n pairs can give. */
double sf_smallest_p(size_t pairs);
/* The fewest pairs with which one of `tests` tests that are corrected together can reach a p-value of `level`. */
size_t sf_fewest_pairs(size_t tests, double level);

#endif
