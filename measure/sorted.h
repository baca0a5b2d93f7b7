/* Numbers in order, and their quantiles by linear interpolation. */
#ifndef SF_MEASURE_SORTED_H
#define SF_MEASURE_SORTED_H

#include <stddef.h>

void sf_sort(double *values /* [count] */, size_t count);
double sf_sorted_quantile(const double *sorted /* [count], at least 1 */, size_t count, double share);

#endif
