/* Statistics of paired comparisons with censoring. A run that never gets there is not dropped: it counts as "later than
 * all its epochs". Pure functions over arrays; tested against values of a statistics package and brute force. */
#ifndef SF_LAB_STATISTICS_H
#define SF_LAB_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Quantile q in 0..1 with linear interpolation; values are sorted in place. Infinite values mean "never": a quantile
 * that would mix a finite and an infinite value is infinite. NaN for no values. */
double sf_quantile(double *values, size_t count, double q);

typedef struct sf_arrival { /* when a run first reached a threshold */
    double epochs;          /* the epoch, or how many it trained without getting there */
    bool reached;
} sf_arrival;

typedef enum sf_order { SF_SOONER, SF_LATER, SF_UNDECIDED } sf_order;

/* Which of two runs got there first; undecided where both are equal or censoring hides it. */
sf_order sf_arrival_compare(const sf_arrival *ours, const sf_arrival *theirs);

/* theirs / ours: how many times sooner we got there. With one of them censored a bound: at least (theirs) or at most
 * (ours) so much; *bounded says so. NaN if neither got there. */
double sf_arrival_ratio(const sf_arrival *ours, const sf_arrival *theirs, bool *bounded);

typedef struct sf_interval {
    double low, high;
} sf_interval;

/* 95 % percentile-bootstrap interval of the median over `count` values, from `resamples` resamples under the seed. NaN
 * without values. `scratch` has room for count + resamples doubles. */
sf_interval sf_bootstrap_median(const double *values, size_t count, size_t resamples, uint32_t seed, double *scratch);

/* Two-sided exact sign test: probability of a split at least as uneven as wins : losses under a fair coin. */
double sf_sign_test(size_t wins, size_t losses);

enum { SF_WILCOXON_MOST = 64 };
/* Two-sided exact Wilcoxon signed-rank test of paired differences: zeros are dropped, ties get their mean rank, and the
 * distribution is that of all 2^n sign patterns. count is at most SF_WILCOXON_MOST. 1 without differences. */
double sf_wilcoxon_test(const double *differences, size_t count);

/* The smallest p-value that a sign or Wilcoxon test of n pairs can give: what few seeds cannot show. */
double sf_smallest_p(size_t pairs);

#endif
