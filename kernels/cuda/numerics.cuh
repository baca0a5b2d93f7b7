/* The functions of docs/numerics.md on the device: the same operations in the same order as kernels/cpu, so the same
 * bits. Compiled with -fmad=false: a multiply-add is fused where fmaf says so, and nowhere else. */
#ifndef SF_KERNELS_CUDA_NUMERICS_CUH
#define SF_KERNELS_CUDA_NUMERICS_CUH

#include <cstdint>

namespace sf {

/* e^x for -87.3 <= x <= 88.7. */
__device__ inline float exp_within(float x) {
    const float rounder = 12582912.0F;
    const float shifted = __fmaf_rn(x, 1.44269504F, rounder);
    const float n = shifted - rounder;
    float r = __fmaf_rn(n, -0.693359375F, x);
    r = __fmaf_rn(n, 2.12194440e-4F, r);
    float p = 1.0F / 5040.0F;
    p = __fmaf_rn(p, r, 1.0F / 720.0F);
    p = __fmaf_rn(p, r, 1.0F / 120.0F);
    p = __fmaf_rn(p, r, 1.0F / 24.0F);
    p = __fmaf_rn(p, r, 1.0F / 6.0F);
    p = __fmaf_rn(p, r, 0.5F);
    p = __fmaf_rn(p, r, 1.0F);
    p = __fmaf_rn(p, r, 1.0F);
    return __uint_as_float(__float_as_uint(p) + (__float_as_uint(shifted) << 23));
}

__device__ inline float exp_of(float x) {
    const float low = -87.3F, high = 88.7F;
    const float result = exp_within(x < low ? low : high < x ? high : x);
    return x < low ? 0.0F : 88.73F < x ? __int_as_float(0x7f800000) : result;
}

/* As softmax takes it. NaN becomes the second argument's place, as in max_of of kernels/cpu/simd.h: NaN stays. */
__device__ inline float exp_below_zero(float x) {
    return exp_within(-87.3F > x ? -87.3F : x);
}

/* Sums over a row: lane l holds the partial sum of the elements l, l + 16, ... */
enum { SUM_LANES = 16 };

__device__ inline float total_of(const float (&lanes)[SUM_LANES]) {
    float eight[8], four[4];
#pragma unroll
    for (int l = 0; l < 8; l++) eight[l] = lanes[l] + lanes[l + 8];
#pragma unroll
    for (int l = 0; l < 4; l++) four[l] = eight[l] + eight[l + 4];
    return (four[0] + four[2]) + (four[1] + four[3]);
}

/* The same tree over 16 neighbouring threads, each with its lane's partial sum; all of them get the total. */
__device__ inline float total_of_threads(float lane, unsigned mask) {
#pragma unroll
    for (int half = 8; half > 0; half /= 2) lane = lane + __shfl_xor_sync(mask, lane, half, 16);
    return lane;
}

/* Activations: 0 ReLU, 1 GELU, 2 Mish, as sf_activation. */
__device__ inline void normal(float &cdf, float &density, float z) {
    const float a = z < 0.0F ? -z : z;
    const float t = 1.0F / __fmaf_rn(0.35F, a, 1.0F);
    const float bell = exp_of((-0.5F * z) * z);
    float w = -0.05910514F;
    w = __fmaf_rn(w, t, 0.29178500F);
    w = __fmaf_rn(w, t, -0.51909530F);
    w = __fmaf_rn(w, t, 0.32675838F);
    w = __fmaf_rn(w, t, -0.05174167F);
    w = __fmaf_rn(w, t, 0.21322800F);
    w = __fmaf_rn(w, t, 0.23914030F);
    w = __fmaf_rn(w, t, 0.27979112F);
    w = __fmaf_rn(w, t, 0.27923924F);
    const float tail = ((0.5F * bell) * w) * t;
    cdf = z < 0.0F ? tail : 1.0F - tail;
    density = bell * 0.39894228F;
}

__device__ inline void mish_parts(float &e, float &n, float z) {
    e = exp_of(20.0F < z ? 20.0F : z);
    n = e * (e + 2.0F);
}

__device__ inline float activate(float z, int activation) {
    float a, b;
    if (activation == 0) return z < 0.0F ? 0.0F : z;
    if (activation == 1) {
        normal(a, b, z);
        return z * a;
    }
    mish_parts(a, b, z);
    return z * (b / (b + 2.0F));
}

__device__ inline float activate_slope(float z, int activation) {
    float a, b;
    if (activation == 0) return 0.0F < z ? 1.0F : 0.0F;
    if (activation == 1) {
        normal(a, b, z);
        return __fmaf_rn(z, b, a);
    }
    mish_parts(a, b, z);
    const float below = 1.0F / (b + 2.0F);
    const float sech_squared = ((4.0F * (b + 1.0F)) * below) * below;
    return __fmaf_rn(z * sech_squared, a / (1.0F + a), b * below);
}

/* Philox4x32-10 under the addresses of base/random.h. */
struct Index {
    uint32_t seed, stream, epoch, step, sample;
};

__device__ inline void philox(uint32_t (&words)[4], const Index &index, uint32_t draw) {
    uint32_t x0 = draw, x1 = index.sample, x2 = index.step, x3 = index.epoch, k0 = index.seed, k1 = index.stream;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const uint32_t high0 = __umulhi(0xD2511F53U, x0), low0 = 0xD2511F53U * x0;
        const uint32_t high1 = __umulhi(0xCD9E8D57U, x2), low1 = 0xCD9E8D57U * x2;
        x0 = high1 ^ x1 ^ k0;
        x2 = high0 ^ x3 ^ k1;
        x1 = low1;
        x3 = low0;
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    words[0] = x0;
    words[1] = x1;
    words[2] = x2;
    words[3] = x3;
}

enum Purpose : uint32_t { /* as sf_purpose */
                          DROP_EMBEDDING = 5,
                          DROP_WEIGHTS = 6,
                          DROP_ATTENTION = 7,
                          DROP_HIDDEN = 8,
                          DROP_MLP = 9,
                          RANDOM_KEYS = 10,
                          RANDOM_KEYS_EVALUATION = 11,
                          RANDOM_PREPARATION = 40 /* evaluation: 41 */
};

__device__ inline uint32_t stream_of(uint32_t purpose, uint32_t block, uint32_t head) {
    return purpose | block << 8 | head << 20;
}

__host__ __device__ inline uint32_t draws_per_row(uint32_t columns) {
    return 8 * ((columns + 63) / 64);
}

/* Bits of the columns 8 * lane + column_in_eight of one draw: whether they are kept. */
__device__ inline uint64_t kept_of_draw(const Index &index, uint32_t draw, uint32_t column_in_eight,
                                        uint32_t threshold) {
    uint32_t words[4];
    philox(words, index, draw);
    uint64_t kept = 0;
#pragma unroll
    for (int lane = 0; lane < 8; lane++) {
        const uint32_t bits = words[lane / 2] >> 16 * (lane % 2) & 0xffffU;
        kept |= (uint64_t)(bits >= threshold) << (8 * lane + column_in_eight);
    }
    return kept;
}

/* Whether dropout keeps one element. */
__device__ inline bool keeps(const Index &index, uint32_t row, uint32_t column, uint32_t columns, uint32_t threshold) {
    uint32_t words[4];
    philox(words, index, row * draws_per_row(columns) + column / 64 * 8 + column % 8);
    const uint32_t lane = column % 64 / 8;
    return (words[lane / 2] >> 16 * (lane % 2) & 0xffffU) >= threshold;
}

/* exp and log of doubles as base/elementary.c has them, for arguments that cross-entropy meets. */
struct Pair {
    double high, low;
};

__device__ inline Pair sum_of(double a, double b) {
    const double high = a + b, from_b = high - a;
    return {high, (a - (high - from_b)) + (b - from_b)};
}

__device__ inline Pair ordered_sum(double a, double b) {
    const double high = a + b;
    return {high, b - (high - a)};
}

__device__ inline Pair halves_of(double a) {
    const double shifted = 0x1.0000002p27 * a, high = shifted - (shifted - a);
    return {high, a - high};
}

__device__ inline Pair product_of(double a, double b) {
    const Pair x = halves_of(a), y = halves_of(b);
    const double high = a * b;
    return {high, x.low * y.low - (((high - x.high * y.high) - x.low * y.high) - x.high * y.low)};
}

__device__ inline Pair product_of_pairs(Pair a, Pair b) {
    const Pair product = product_of(a.high, b.high);
    return ordered_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

__device__ inline double scaled(double value, int n) {
    if (n < -1022 || n > 1023) return ldexp(value, n);
    return value * __longlong_as_double((long long)(n + 1023) << 52);
}

template <int N> __device__ inline double polynomial(const double (&coefficients)[N], double x) {
    double value = coefficients[N - 1];
#pragma unroll
    for (int i = N - 2; i >= 0; i--) value = value * x + coefficients[i];
    return value;
}

__device__ inline double exp_of_double(double x) {
    if (isnan(x)) return x;
    if (x > 710) return __longlong_as_double(0x7ff0000000000000LL);
    if (x < -746) return 0;
    const double inverse_ln2 = 0x1.71547652b82fep0, ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
    const double rest[] = {1.0 / 6,          1.0 / 24,         1.0 / 120,          1.0 / 720,
                           1.0 / 5040,       1.0 / 40320,      1.0 / 362880,       1.0 / 3628800,
                           1.0 / 39916800.0, 1.0 / 479001600., 1.0 / 6227020800.0, 1.0 / 87178291200.0};
    const double n = rint(x * inverse_ln2);
    const Pair r = sum_of(x - n * ln2_high, 0.0 - n * ln2_low);
    const Pair square = product_of(r.high, r.high);
    const Pair linear = ordered_sum(1, r.high), quadratic = ordered_sum(linear.high, 0.5 * square.high);
    const double cubic = square.high * r.high * polynomial(rest, r.high);
    const double low = cubic + (linear.low + quadratic.low + 0.5 * square.low + r.low * (1 + r.high));
    return scaled(quadratic.high + low, (int)n);
}

__device__ inline Pair log_near_one(Pair a) {
    const Pair two_thirds = {0x1.5555555555555p-1, 0x1.5555555555555p-55};
    const double rest[] = {2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13, 2.0 / 15,
                           2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23, 2.0 / 25, 2.0 / 27};
    const Pair sum = sum_of(2, a.high);
    const double below = sum.low + a.low, quotient = a.high / sum.high;
    const Pair back = product_of(quotient, sum.high);
    const double missing = ((a.high - back.high) - back.low) + (a.low - quotient * below);
    const Pair s = ordered_sum(quotient, missing / sum.high);
    const Pair square = product_of_pairs(s, s), cube = product_of_pairs(square, s);
    const Pair cubic = product_of_pairs(two_thirds, cube), first = ordered_sum(2 * s.high, cubic.high);
    const double fifth = cube.high * square.high * polynomial(rest, square.high);
    return ordered_sum(first.high, fifth + (first.low + 2 * s.low + cubic.low));
}

__device__ inline double log_of_double(double x) {
    if (!(x > 0 && x < __longlong_as_double(0x7ff0000000000000LL)))
        return x == 0              ? __longlong_as_double(0xfff0000000000000LL)
               : x > 0 || isnan(x) ? x
                                   : __longlong_as_double(0x7ff8000000000000LL);
    const double ln2_high = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45;
    int k;
    double m = frexp(x, &k);
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2;
        k--;
    }
    const Pair near = log_near_one(ordered_sum(m - 1, 0.0));
    if (k == 0) return near.high + near.low;
    const Pair sum = ordered_sum(k * ln2_high, near.high);
    const Pair result = ordered_sum(sum.high, sum.low + (k * ln2_low + near.low));
    return result.high + result.low;
}

} // namespace sf

#endif
