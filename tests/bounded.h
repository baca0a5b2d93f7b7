/* Bounds are bounds: no ratio seen over random and adversarial pairs exceeds the constant computed for exactly the
 * domain that holds both of the pair. Shared by the tests of bounds. */
#ifndef SF_TESTS_BOUNDED_H
#define SF_TESTS_BOUNDED_H

#include "sample_model.h"

#include <math.h>

enum { MOST_KEYS = 32 };

/* Rounding of the two sides. */
static const double slack = 1 + 1e-9;

static inline double distance(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum);
}

#endif
