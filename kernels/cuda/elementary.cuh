/* More functions of doubles as base/elementary.c has them, to the bit: ln(1 + x), powers, cosines. */
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

/* x - n pi/2, n being the nearest whole number; quadrant is n modulo 4. */
__device__ inline Pair quarter_turn(int &quadrant, double x) {
    const double two_over_pi = 0x1.45f306dc9c883p-1;
    const double half_pi[] = {0x1.921fb544p0, 0x1.0b4611a6p-34, 0x1.3198a2ep-69, 0x1.b839a252049c1p-104};
    const double n = rint(x * two_over_pi);
    quadrant = (int)((long long)n & 3);
    const Pair first = sum_of(x - n * half_pi[0], -n * half_pi[1]), second = sum_of(first.high, -n * half_pi[2]);
    return sum_of(second.high, first.low + second.low - n * half_pi[3]);
}

__device__ inline double sine(Pair r) {
    const double rest[] = {-1.0 / 6,
                           1.0 / 120,
                           -1.0 / 5040,
                           1.0 / 362880,
                           -1.0 / 39916800.0,
                           1.0 / 6227020800.0,
                           -1.0 / 1307674368000.0,
                           1.0 / 355687428096000.0};
    const double square = r.high * r.high;
    return r.high + (square * r.high * polynomial(rest, square) + r.low * (1 - 0.5 * square));
}

__device__ inline double cosine(Pair r) {
    const double rest[] = {1.0 / 24,          -1.0 / 720,           1.0 / 40320,           -1.0 / 3628800,
                           1.0 / 479001600.0, -1.0 / 87178291200.0, 1.0 / 20922789888000.0};
    const Pair square = product_of(r.high, r.high), first = ordered_sum(1, -0.5 * square.high);
    const double fourth = square.high * square.high * polynomial(rest, square.high);
    return first.high + (fourth + (first.low - 0.5 * square.low - r.high * r.low));
}

/* |x| <= 2^20 */
__device__ inline double cos_of_double(double x) {
    if (isnan(x)) return x;
    int quadrant;
    const Pair r = quarter_turn(quadrant, x);
    quadrant++;
    const double value = quadrant % 2 == 0 ? sine(r) : cosine(r);
    return quadrant % 4 < 2 ? value : -value;
}

} // namespace sf

#endif
