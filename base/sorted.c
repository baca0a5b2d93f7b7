#include "base/sorted.h"

#include <math.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

void sf_sort(double *values /* [count] */, size_t count) {
    qsort(values, count, sizeof *values, ascending);
}

double sf_sorted_quantile(const double *sorted /* [count] */, size_t count, double quantile) {
    if (count == 0) return NAN;
    const double place = quantile * (double)(count - 1);
    const size_t below = (size_t)place;
    const double share = place - (double)below;
    if (share <= 0 || below + 1 >= count) return sorted[below];
    if (isinf(sorted[below + 1])) return sorted[below + 1];
    return sorted[below] + share * (sorted[below + 1] - sorted[below]);
}
