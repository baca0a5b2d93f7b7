/* More functions of doubles as base/elementary.c has them, to the bit: ln(1 + x) and powers. */
#ifndef SF_KERNELS_CUDA_ELEMENTARY_CUH
#define SF_KERNELS_CUDA_ELEMENTARY_CUH

#include "kernels/cuda/numerics.cuh"

namespace sf {

/* ln x of a positive finite pair. */
__device__ inline Pair log_of_pair(Pair x) {
    const double ln2_high = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45;
    int k;
    double m = frexp(x.high, &k);
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2;
        k--;
    }
    const Pair near = log_near_one(ordered_sum(m - 1, ldexp(x.low, -k)));
    if (k == 0) return near;
    const Pair sum = ordered_sum(k * ln2_high, near.high);
    return ordered_sum(sum.high, sum.low + (k * ln2_low + near.low));
}

__device__ inline double log1p_of_double(double x) {
    const double sum = 1 + x;
    if (!(sum > 0 && sum < __longlong_as_double(0x7ff0000000000000LL))) return log_of_double(sum);
    if (fabs(x) < 0x1p-54) return x;
    const Pair log = log_of_pair(sum_of(1, x));
    return log.high + log.low;
}

/* e^x for |x| < 800. */
__device__ inline double exp_of_pair(Pair x) {
    const double inverse_ln2 = 0x1.71547652b82fep0, ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
    const double rest[] = {1.0 / 6,          1.0 / 24,         1.0 / 120,          1.0 / 720,
                           1.0 / 5040,       1.0 / 40320,      1.0 / 362880,       1.0 / 3628800,
                           1.0 / 39916800.0, 1.0 / 479001600., 1.0 / 6227020800.0, 1.0 / 87178291200.0};
    const double n = rint(x.high * inverse_ln2);
    const Pair r = sum_of(x.high - n * ln2_high, x.low - n * ln2_low);
    const Pair square = product_of(r.high, r.high);
    const Pair linear = ordered_sum(1, r.high), quadratic = ordered_sum(linear.high, 0.5 * square.high);
    const double cubic = square.high * r.high * polynomial(rest, r.high);
    const double low = cubic + (linear.low + quadratic.low + 0.5 * square.low + r.low * (1 + r.high));
    return scaled(quadratic.high + low, (int)n);
}

/* x >= 0 */
__device__ inline double pow_of_double(double x, double y) {
    const double infinity = __longlong_as_double(0x7ff0000000000000LL);
    if (y == 0 || x == 1) return 1;
    if (isnan(x) || isnan(y)) return __longlong_as_double(0x7ff8000000000000LL);
    if (x == 0 || isinf(x) || isinf(y)) return (x > 1) == (y > 0) ? infinity : 0;
    const Pair log = log_of_pair({x, 0});
    const double rough = y * log.high;
    if (rough > 710) return infinity;
    if (rough < -746) return 0;
    const Pair product = product_of(y, log.high);
    return exp_of_pair(ordered_sum(product.high, product.low + y * log.low));
}

} // namespace sf

#endif
