/* Numbers in order, and their quantiles. */
#ifndef SF_BASE_SORTED_H
#define SF_BASE_SORTED_H

#include <stddef.h>

void sf_sort(double *values /* [count] */, size_t count);

/* Quantile in 0..1 with linear interpolation; infinite between a finite and an infinite value, NaN for no values. */
double sf_sorted_quantile(const double *sorted /* [count] */, size_t count, double quantile);

#endif
