/* Rounding to bf16, written independently of the kernels. */
#ifndef SF_TESTS_TO_BF16_H
#define SF_TESTS_TO_BF16_H

#include <math.h>

/* To 8 significant bits; halves away from zero. */
static inline double to_bf16(double x) {
    int exponent;
    const double fraction = frexp(x, &exponent);
    return ldexp(round(fraction * 256), exponent - 8);
}

#endif
