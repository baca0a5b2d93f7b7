#include "measure/sorted.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

void sf_sort(double *values /* [count] */, size_t count) {
    qsort(values, count, sizeof *values, ascending);
}

double sf_sorted_quantile(const double *sorted /* [count], at least 1 */, size_t count, double share) {
    const double at = share * (double)(count - 1);
    const size_t below = (size_t)at;
    /* equal neighbours may be infinite */
    if (below + 1 >= count || at == (double)below || sorted[below] == sorted[below + 1]) return sorted[below];
    return sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]);
}
