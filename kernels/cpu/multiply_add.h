/* A fused multiply-add for x86-64 processors without one, exact to the bit, in vectors of doubles.
 *
 * The product of two floats is exact in double. Its sum with the third is rounded twice, to double and to float, which
 * differs from one rounding only where the first one ends halfway between two floats, or where the float is subnormal
 * and has fewer bits. Both are rare, so they are detected afterwards, and doubtful results are computed again with the
 * sum rounded to odd. The last bit of a number rounded to odd shows whether something was cut off, so rounding it
 * again, to at least two bits fewer, is correct. */
#ifndef SF_KERNELS_CPU_MULTIPLY_ADD_H
#define SF_KERNELS_CPU_MULTIPLY_ADD_H

#include <emmintrin.h>
#include <stdint.h>
#include <string.h>

static inline double sum_rounded_to_odd(double a, double b) {
    const double sum = a + b, a_part = sum - b, b_part = sum - a_part;
    const double error = (a - a_part) + (b - b_part); /* exact (Knuth); NaN where the sum is not finite */
    if (!(error < 0) && !(error > 0)) return sum;
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (bits % 2 == 0) bits += (error > 0) == (sum > 0) ? 1 : UINT64_MAX;
    double odd;
    memcpy(&odd, &bits, sizeof odd);
    return odd;
}

static __attribute__((noinline, cold)) __m128 multiply_add_rounded_to_odd(__m128 a, __m128 b, __m128 c) {
    float x[4], y[4], z[4];
    _mm_storeu_ps(x, a);
    _mm_storeu_ps(y, b);
    _mm_storeu_ps(z, c);
    for (int l = 0; l < 4; l++) z[l] = (float)sum_rounded_to_odd((double)x[l] * (double)y[l], (double)z[l]);
    return _mm_loadu_ps(z);
}

typedef struct four_doubles { /* floats as doubles */
    __m128d low, high;
} four_doubles;

static inline __attribute__((always_inline)) four_doubles widened(__m128 v) {
    return (four_doubles){_mm_cvtps_pd(v), _mm_cvtps_pd(_mm_movehl_ps(v, v))};
}

static inline __attribute__((always_inline)) __m128 narrowed(four_doubles v) {
    return _mm_movelh_ps(_mm_cvtpd_ps(v.low), _mm_cvtpd_ps(v.high));
}

/* To the nearest floats, still as doubles. */
static inline __attribute__((always_inline)) four_doubles rounded(four_doubles v) {
    return (four_doubles){_mm_cvtps_pd(_mm_cvtpd_ps(v.low)), _mm_cvtps_pd(_mm_cvtpd_ps(v.high))};
}

/* a * b + c rounded to double. */
static inline __attribute__((always_inline)) four_doubles multiply_add_wide(four_doubles a, four_doubles b,
                                                                            four_doubles c) {
    return (four_doubles){_mm_add_pd(_mm_mul_pd(a.low, b.low), c.low), _mm_add_pd(_mm_mul_pd(a.high, b.high), c.high)};
}

/* All ones in the lanes that lie halfway between two normal floats: of a double's 52 bits of mantissa a float has 23,
 * and 29 are cut off. */
static inline __attribute__((always_inline)) __m128i halfway(four_doubles v) {
    const __m128i words =
        _mm_castps_si128(_mm_shuffle_ps(_mm_castpd_ps(v.low), _mm_castpd_ps(v.high), _MM_SHUFFLE(2, 0, 2, 0)));
    return _mm_cmpeq_epi32(_mm_and_si128(words, _mm_set1_epi32(0x1fffffff)), _mm_set1_epi32(0x10000000));
}

/* All ones in the lanes that become a subnormal float, or that are not 0 but become 0. */
static inline __attribute__((always_inline)) __m128i subnormal(four_doubles v) {
    const __m128i words = _mm_and_si128(
        _mm_castps_si128(_mm_shuffle_ps(_mm_castpd_ps(v.low), _mm_castpd_ps(v.high), _MM_SHUFFLE(3, 1, 3, 1))),
        _mm_set1_epi32(0x7fffffff));
    return _mm_and_si128(_mm_cmplt_epi32(words, _mm_set1_epi32(0x38100000)),
                         _mm_cmpgt_epi32(words, _mm_setzero_si128()));
}

static inline __attribute__((always_inline)) __m128 multiply_add_through_doubles(__m128 a, __m128 b, __m128 c) {
    const four_doubles sum = multiply_add_wide(widened(a), widened(b), widened(c));
    if (__builtin_expect(_mm_movemask_epi8(_mm_or_si128(halfway(sum), subnormal(sum))) != 0, 0))
        return multiply_add_rounded_to_odd(a, b, c);
    return narrowed(sum);
}

#endif
