/* One vector type for every instruction set: VL floats. Written with the compilers' vector extensions; the few
 * operations they lack use intrinsics where the set has them.
 *
 * Every set computes the same bits: docs/numerics.md is the contract. Files that include this are compiled without
 * contraction, so a multiply-add is fused where multiply_add() says so, and nowhere else. */
#ifndef SF_KERNELS_CPU_SIMD_H
#define SF_KERNELS_CPU_SIMD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(SF_USE_NEON)
#include <arm_neon.h>
#endif

#include "base/random.h"
#include "kernels/cpu/isa.h"

/* TILE_VECTORS: vectors of a row of a product's accumulators; SIDE_BY_SIDE: vectors that are computed together in a
 * long chain of steps */
#if defined(__AVX512F__)
enum { VL = 16, TILE_VECTORS = 4, SIDE_BY_SIDE = 8 };
#elif defined(__AVX2__)
enum { VL = 8, TILE_VECTORS = 2, SIDE_BY_SIDE = 4 };
#elif defined(SF_USE_NEON)
enum { VL = 4, TILE_VECTORS = 4, SIDE_BY_SIDE = 4 };
#else
enum { VL = 4, TILE_VECTORS = 2, SIDE_BY_SIDE = 4 };
#endif
enum { TILE_ROWS = 6 };

typedef float vf __attribute__((vector_size(4 * VL)));
typedef int32_t vi __attribute__((vector_size(4 * VL)));
typedef uint32_t vu __attribute__((vector_size(4 * VL))); /* may overflow */
typedef float quad __attribute__((vector_size(16)));

#define INLINE static inline __attribute__((always_inline))

INLINE vf load(const float *at) {
    vf v;
    memcpy(&v, at, sizeof v);
    return v;
}

INLINE void store(float *at, vf v) {
    memcpy(at, &v, sizeof v);
}

INLINE vf splat(float x) {
    return x - (vf){0};
}

#if defined(__SSE2__) && !defined(__FMA__)
#define SF_WITHOUT_FMA
#include "kernels/cpu/multiply_add.h"
#endif

/* a * b + c, rounded once. */
INLINE vf multiply_add(vf a, vf b, vf c) {
#if defined(__AVX512F__)
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__SSE2__)
    return (vf)multiply_add_through_doubles((__m128)a, (__m128)b, (__m128)c);
#elif defined(SF_USE_NEON)
    return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    for (int l = 0; l < VL; l++) c[l] = fmaf(a[l], b[l], c[l]);
    return c;
#endif
}

/* c - a * b, rounded once. */
INLINE vf multiply_subtract(vf a, vf b, vf c) {
    return multiply_add(-a, b, c);
}

/* a < b ? yes : no, lane by lane; no where either is NaN. */
INLINE vf if_less(vf a, vf b, vf yes, vf no) {
#if defined(__AVX512F__)
    return (vf)_mm512_mask_blend_ps(_mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ), (__m512)no, (__m512)yes);
#elif defined(__AVX2__)
    return (vf)_mm256_blendv_ps((__m256)no, (__m256)yes, _mm256_cmp_ps((__m256)a, (__m256)b, _CMP_LT_OQ));
#else
    const vi condition = a < b;
    return (vf)((condition & (vi)yes) | (~condition & (vi)no));
#endif
}

/* The greater; b where either is NaN. */
INLINE vf max_of(vf a, vf b) {
#if defined(__AVX512F__)
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return if_less(b, a, a, b);
#endif
}

/* The less; b where either is NaN. */
INLINE vf min_of(vf a, vf b) {
#if defined(__AVX512F__)
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#else
    return if_less(a, b, a, b);
#endif
}

/* yes in the lanes whose bit is set, no in the others. */
INLINE vf if_bits(uint32_t bits, vf yes, vf no) {
#if defined(__AVX512F__)
    return (vf)_mm512_mask_blend_ps((__mmask16)bits, (__m512)no, (__m512)yes);
#else
    vi lane_bits = {0};
    for (int l = 0; l < VL; l++) lane_bits[l] = 1 << l;
    const vi chosen = (((int32_t)bits - (vi){0}) & lane_bits) == lane_bits;
    return (vf)((chosen & (vi)yes) | (~chosen & (vi)no));
#endif
}

/* v in the lanes whose bit is set, 0 in the others. */
INLINE vf masked(uint32_t bits, vf v) {
    return if_bits(bits, v, (vf){0});
}

/* x in the lanes whose bit is set, 0 in the others. The bits of a row's vectors are in words of 64; v is the number of
 * the vector. */
INLINE vf kept_lanes(const uint64_t *words, size_t v, vf x) {
#if defined(__AVX2__) && !defined(__AVX512F__)
    int32_t four_vectors; /* each lane shifts its bit to the sign */
    memcpy(&four_vectors, (const char *)words + v / 4 * sizeof four_vectors, sizeof four_vectors);
    const __m256i places =
        _mm256_add_epi32(_mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24), _mm256_set1_epi32(-8 * (int)(v % 4)));
    const __m256i signs = _mm256_sllv_epi32(_mm256_set1_epi32(four_vectors), places);
    return (vf)_mm256_and_ps((__m256)_mm256_srai_epi32(signs, 31), (__m256)x);
#else
    return masked((uint32_t)(words[v * VL / 64] >> v * VL % 64), x);
#endif
}

/* a * b in those lanes, 0 in the others. */
INLINE vf kept_product(const uint64_t *words, size_t v, vf a, vf b) {
#if defined(__AVX512F__)
    return (vf)_mm512_maskz_mul_ps((__mmask16)(words[v / 4] >> v % 4 * VL), (__m512)a, (__m512)b);
#else
    return kept_lanes(words, v, a * b);
#endif
}

/* Bits of the lanes at column `at` that are among the first `columns`. */
INLINE uint32_t real_bits(size_t at, size_t columns) {
    return at + VL <= columns ? UINT32_MAX : at < columns ? (UINT32_C(1) << (columns - at)) - 1 : 0;
}

/* The sum over a row is SUM_LANES partial sums, of the columns l, l + 16, l + 32, ... each, and one tree over them. */
enum { SUM_LANES = 16, SUM_VECTORS = SUM_LANES / VL };

typedef struct lane_sums {
    vf at[SUM_VECTORS];
} lane_sums;

/* l + (l + 8), l + (l + 4), l + (l + 2), l + (l + 1). */
INLINE float total_of(lane_sums sums) {
#if defined(__AVX512F__)
    const __m512 all = (__m512)sums.at[0];
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    const quad four = (quad)_mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
#elif defined(__AVX2__)
    const __m256 eight = (__m256)(sums.at[0] + sums.at[1]);
    const quad four = (quad)_mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
#else
    const quad four = (sums.at[0] + sums.at[2]) + (sums.at[1] + sums.at[3]);
#endif
    const quad two = four + __builtin_shufflevector(four, four, 2, 3, 2, 3);
    return two[0] + two[1];
}

/* The lanes of a and b in each part of 128 bits: the first two of both plus the last two, then those at even places
 * plus those at odd ones. */
INLINE vf halves_of_quads(vf a, vf b) {
#if defined(__AVX512F__)
    return __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
           __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
#elif defined(__AVX2__)
    return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) +
           __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
#else
    return __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7);
#endif
}
INLINE vf pairs_of_quads(vf a, vf b) {
#if defined(__AVX512F__)
    return __builtin_shufflevector(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30) +
           __builtin_shufflevector(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
#elif defined(__AVX2__)
    return __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14) +
           __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15);
#else
    return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
#endif
}

/* VL such sums at once: fewer steps each, and none waits for another. In two calls: the first half of the tree of VL /
 * 4 sums; then the rest of it, of all. Sum 4 * n + i is the n-th of the i-th first call. */
enum { QUADS = VL / 4 };
INLINE vf quads_of(const lane_sums sums[QUADS]) {
#if defined(__AVX512F__)
    vf eights[2]; /* l + (l + 8) of two sums each */
    for (size_t i = 0; i < 2; i++) {
        const vf a = sums[2 * i].at[0], b = sums[2 * i + 1].at[0];
        eights[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
                    __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    }
    const vf a = eights[0], b = eights[1];
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
           __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
#elif defined(__AVX2__)
    const vf a = sums[0].at[0] + sums[0].at[1], b = sums[1].at[0] + sums[1].at[1];
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) +
           __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
#else
    return (sums->at[0] + sums->at[2]) + (sums->at[1] + sums->at[3]);
#endif
}
INLINE vf totals_of_quads(const vf quads[4]) {
    return pairs_of_quads(halves_of_quads(quads[0], quads[1]), halves_of_quads(quads[2], quads[3]));
}

/* The last steps of that tree, for every lane of eight vectors. */
INLINE vf total_of_eight(const vf v[8]) {
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

#if defined(__AVX512F__)
INLINE float max_lanes(vf v) {
    return _mm512_reduce_max_ps((__m512)v);
}
/* Bit l is set where lane l is not below x; NaN is not. */
INLINE uint32_t lanes_not_below(vf v, float x) {
    return _mm512_cmp_ps_mask((__m512)v, _mm512_set1_ps(x), _CMP_NLT_UQ);
}
#else
INLINE float max_lanes(vf v) {
#if defined(__AVX2__)
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
#else
    float lanes[VL];
    store(lanes, v);
    for (int l = 1; l < VL; l++) lanes[0] = lanes[l] > lanes[0] ? lanes[l] : lanes[0];
    return lanes[0];
#endif
}
INLINE uint32_t lanes_not_below(vf v, float x) {
#if defined(__AVX2__)
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps((__m256)v, _mm256_set1_ps(x), _CMP_NLT_UQ));
#else
    uint32_t mask = 0;
    for (int l = 0; l < VL; l++) mask |= (uint32_t) !(v[l] < x) << l;
    return mask;
#endif
}
#endif

/* The first `count` < VL floats at `at`, `rest` in the other lanes. */
INLINE vf load_first(const float *at, size_t count, float rest) {
#if defined(__AVX512F__)
    return (vf)_mm512_mask_loadu_ps(_mm512_set1_ps(rest), (__mmask16)((1U << count) - 1), at);
#else
    float lanes[VL];
    for (size_t l = 0; l < VL; l++) lanes[l] = l < count ? at[l] : rest;
    return load(lanes);
#endif
}

INLINE void store_first(float *at, vf v, size_t count) {
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(at, (__mmask16)((1U << count) - 1), (__m512)v);
#else
    float lanes[VL];
    store(lanes, v);
    memcpy(at, lanes, count * sizeof *at);
#endif
}

/* N is a multiple of 16. */
INLINE float dot(const float *a, const float *b, size_t N) {
    lane_sums sums = {0};
#pragma GCC unroll 4
    for (size_t n = 0; n < N; n += SUM_LANES)
        for (size_t v = 0; v < SUM_VECTORS; v++)
            sums.at[v] = multiply_add(load(a + n + v * VL), load(b + n + v * VL), sums.at[v]);
    return total_of(sums);
}

INLINE void add_scaled(float *y, float factor, const float *x, size_t N) {
#pragma GCC unroll 4
    for (size_t n = 0; n < N; n += VL) store(y + n, multiply_add(splat(factor), load(x + n), load(y + n)));
}

/* Functions that work on rows of N columns, a multiple of 16, are also inlined for the constant COMMON_N: a row of that
 * many stays in registers. */
enum { COMMON_N = 64, HELD = COMMON_N / VL };

INLINE void hold(vf held[HELD], const float *row, size_t N) {
    for (size_t v = 0; v < HELD && N == COMMON_N; v++) held[v] = load(row + v * VL);
}

/* The vector at column c of a row, from registers if it is held there. */
INLINE vf held_or_loaded(const vf held[HELD], const float *row, size_t c, size_t N) {
    return N == COMMON_N ? held[c / VL] : load(row + c);
}

/* e^x for -87.3 <= x <= 88.7, within 2 units in the last place; NaN stays NaN. Computes `count` vectors (at most
 * SIDE_BY_SIDE, a constant where this is inlined) together, one step at a time, because each step of a single vector
 * would wait for the one before.
 *
 * x = n ln 2 + r, |r| <= ln 2 / 2; e^r by its Taylor polynomial of degree 7, times 2^n. The sum with 1.5 * 2^23 holds n
 * in its low bits, from where it goes into the exponent. Beyond the bounds the result is arbitrary: only padding may be
 * that large, and its results are not used. */
INLINE void exp_each_within(vf *x, size_t count) {
    static const float TAYLOR[] = {1.0F,         1.0F,          0.5F,          1.0F / 6.0F,
                                   1.0F / 24.0F, 1.0F / 120.0F, 1.0F / 720.0F, 1.0F / 5040.0F};
    const vf rounder = splat(12582912.0F);
    vf shifted[SIDE_BY_SIDE], n[SIDE_BY_SIDE], p[SIDE_BY_SIDE];
    for (size_t i = 0; i < count; i++) shifted[i] = multiply_add(x[i], splat(1.44269504F), rounder);
    for (size_t i = 0; i < count; i++) n[i] = shifted[i] - rounder;
    for (size_t i = 0; i < count; i++) x[i] = multiply_add(n[i], splat(-0.693359375F), x[i]);
    for (size_t i = 0; i < count; i++) x[i] = multiply_add(n[i], splat(2.12194440e-4F), x[i]);
    for (size_t i = 0; i < count; i++) p[i] = splat(TAYLOR[7]);
#pragma GCC unroll 7
    for (int degree = 6; degree >= 0; degree--)
        for (size_t i = 0; i < count; i++) p[i] = multiply_add(p[i], x[i], splat(TAYLOR[degree]));
    for (size_t i = 0; i < count; i++) x[i] = (vf)((vu)p[i] + ((vu)shifted[i] << 23));
}

/* exp of any x: 0 below -87.3, infinity above 88.7, NaN stays NaN. */
INLINE vf exp_of(vf x) {
    const vf low = splat(-87.3F), high = splat(88.7F);
    vf result = if_less(x, low, low, if_less(high, x, high, x));
    exp_each_within(&result, 1);
    return if_less(x, low, splat(0.0F), if_less(splat(88.73F), x, splat(INFINITY), result));
}

/* exp of x <= 0, as softmax needs it: never less than e^-87.3, which is negligible beside the largest weight. */
INLINE void exp_each_below_zero(vf *x, size_t count) {
    for (size_t i = 0; i < count; i++) x[i] = max_of(splat(-87.3F), x[i]);
    exp_each_within(x, count);
}

INLINE vf exp_below_zero(vf x) {
    exp_each_below_zero(&x, 1);
    return x;
}

enum { PHILOX_ROUNDS = 10 };

typedef struct philox_keys { /* of every round, in memory: as operands they need no separate load instruction */
    uint64_t rounds[PHILOX_ROUNDS][2];
    uint64_t last_high[2]; /* the last round's, in high halves */
} philox_keys;

INLINE philox_keys philox_keys_of(const sf_index *index) {
    philox_keys keys;
    uint32_t key0 = index->seed, key1 = index->stream;
    for (int round = 0; round < PHILOX_ROUNDS; round++, key0 += 0x9E3779B9U, key1 += 0xBB67AE85U) {
        keys.rounds[round][0] = key0;
        keys.rounds[round][1] = key1;
    }
    for (int i = 0; i < 2; i++) keys.last_high[i] = keys.rounds[PHILOX_ROUNDS - 1][i] << 32;
    return keys;
}

/* Eight calls of Philox4x32-10 side by side, each in EIGHT_CALLS vectors of 64-bit lanes. Only the low half of a lane
 * counts: the multiplication ignores the rest. */
#if defined(__AVX512F__)
enum { EIGHT_CALLS = 1 };
typedef __m512i lanes64;
#define LANES64(operation) _mm512_##operation
INLINE lanes64 xor_of_three(lanes64 a, lanes64 b, uint64_t c) {
    return _mm512_ternarylogic_epi64(a, b, _mm512_set1_epi64((long long)c), 0x96);
}
INLINE lanes64 high_halves(lanes64 v) { /* in the low ones */
    return _mm512_shuffle_epi32(v, _MM_PERM_DDBB);
}
INLINE void place_draws(lanes64 out[EIGHT_CALLS], __m256i draws) {
    out[0] = _mm512_cvtepu32_epi64(draws);
}
#elif defined(__AVX2__)
enum { EIGHT_CALLS = 2 };
typedef __m256i lanes64;
#define LANES64(operation) _mm256_##operation
#define _mm256_set1_epi64  _mm256_set1_epi64x
INLINE lanes64 xor_of_three(lanes64 a, lanes64 b, uint64_t c) {
    return _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_set1_epi64x((long long)c));
}
INLINE lanes64 high_halves(lanes64 v) {
    return _mm256_shuffle_epi32(v, _MM_SHUFFLE(3, 3, 1, 1));
}
/* Draws 0, 1, 4, 5 and 2, 3, 6, 7: so their bits are soon in order. */
INLINE void place_draws(lanes64 out[EIGHT_CALLS], __m256i draws) {
    const __m256i all = _mm256_permute4x64_epi64(draws, _MM_SHUFFLE(3, 1, 2, 0));
    out[0] = _mm256_cvtepu32_epi64(_mm256_castsi256_si128(all));
    out[1] = _mm256_cvtepu32_epi64(_mm256_extracti128_si256(all, 1));
}
#endif

#if defined(__AVX2__)
INLINE void philox_products(lanes64 p[2], const lanes64 x[4]) {
    p[0] = LANES64(mul_epu32)(x[0], LANES64(set1_epi64)(0xD2511F53));
    p[1] = LANES64(mul_epu32)(x[2], LANES64(set1_epi64)(0xCD9E8D57));
}

/* `count` (a constant where this is inlined) vectors of calls, all rounds but the last: the low half of a lane of
 * x[n][w] is word w of its draw. */
INLINE void philox_all_but_last(lanes64 x[][4], const sf_index *index, const philox_keys *keys, const lanes64 *draws,
                                size_t count) {
    for (size_t n = 0; n < count; n++) {
        x[n][0] = draws[n];
        x[n][1] = LANES64(set1_epi64)(index->sample);
        x[n][2] = LANES64(set1_epi64)(index->step);
        x[n][3] = LANES64(set1_epi64)(index->epoch);
    }
#pragma GCC unroll 9
    for (int round = 0; round < PHILOX_ROUNDS - 1; round++)
        for (size_t n = 0; n < count; n++) {
            lanes64 p[2];
            philox_products(p, x[n]);
            x[n][0] = xor_of_three(high_halves(p[1]), x[n][1], keys->rounds[round][0]);
            x[n][2] = xor_of_three(high_halves(p[0]), x[n][3], keys->rounds[round][1]);
            x[n][1] = p[1];
            x[n][3] = p[0];
        }
}

/* The last round, which leaves two words in a lane: 1 and 0 in pairs[0], 3 and 2 in pairs[1], the former in the low
 * half. */
INLINE void philox_last(lanes64 pairs[2], const lanes64 x[4], const philox_keys *keys) {
    lanes64 p[2];
    philox_products(p, x);
    pairs[0] = xor_of_three(p[1], LANES64(slli_epi64)(x[1], 32), keys->last_high[0]);
    pairs[1] = xor_of_three(p[0], LANES64(slli_epi64)(x[3], 32), keys->last_high[1]);
}
#endif

/* Eight calls of Philox4x32-10 side by side: words[w][i] is word w of draw draws[i]. */
INLINE void philox_eight(uint32_t words[4][8], const sf_index *index, const philox_keys *keys,
                         const uint32_t draws[8]) {
#if defined(__AVX2__)
    lanes64 placed[EIGHT_CALLS], x[EIGHT_CALLS][4];
    place_draws(placed, _mm256_loadu_si256((const __m256i *)(const void *)draws));
    philox_all_but_last(x, index, keys, placed, EIGHT_CALLS);
    lanes64 pairs[EIGHT_CALLS][2];
    for (size_t n = 0; n < EIGHT_CALLS; n++) philox_last(pairs[n], x[n], keys);
    for (size_t w = 0; w < 4; w++) {
        lanes64 low[EIGHT_CALLS];
        for (size_t n = 0; n < EIGHT_CALLS; n++)
            low[n] = w % 2 == 1 ? pairs[n][w / 2] : LANES64(srli_epi64)(pairs[n][w / 2], 32);
#if defined(__AVX512F__)
        const __m256i in_order = _mm512_cvtepi64_epi32(low[0]);
#else
        const __m256i in_order = (__m256i)_mm256_shuffle_ps((__m256)low[0], (__m256)low[1], _MM_SHUFFLE(2, 0, 2, 0));
#endif
        _mm256_storeu_si256((__m256i *)(void *)words[w], in_order);
    }
#else
    const uint64_t multiplier0 = 0xD2511F53U, multiplier1 = 0xCD9E8D57U;
    uint32_t x0[8], x1[8], x2[8], x3[8];
    for (int i = 0; i < 8; i++) {
        x0[i] = draws[i];
        x1[i] = index->sample;
        x2[i] = index->step;
        x3[i] = index->epoch;
    }
    for (int round = 0; round < PHILOX_ROUNDS; round++)
        for (int i = 0; i < 8; i++) {
            const uint64_t p0 = multiplier0 * x0[i], p1 = multiplier1 * x2[i];
            x0[i] = (uint32_t)(p1 >> 32) ^ x1[i] ^ (uint32_t)keys->rounds[round][0];
            x2[i] = (uint32_t)(p0 >> 32) ^ x3[i] ^ (uint32_t)keys->rounds[round][1];
            x1[i] = (uint32_t)p1;
            x3[i] = (uint32_t)p0;
        }
    memcpy(words[0], x0, sizeof x0);
    memcpy(words[1], x1, sizeof x1);
    memcpy(words[2], x2, sizeof x2);
    memcpy(words[3], x3, sizeof x3);
#endif
}

#if defined(__AVX2__) && !defined(__AVX512F__)
/* The lanes of a and b in turn, in each half of 128 bits: the first two, and the last two. */
INLINE void interleave_halves(vf *first, vf *second, vf a, vf b) {
    *first = __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
    *second = __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
}

/* A square of VL x VL in registers: 4 x 4 in the halves, then the halves. Lanes hardly cross from one to the other. */
INLINE void transpose_lanes(vf square[VL]) {
    vf next[VL];
    for (size_t i = 0; i < VL; i += 4)
        for (size_t j = 0; j < 2; j++)
            interleave_halves(&next[i + 2 * j], &next[i + 2 * j + 1], square[i + j], square[i + j + 2]);
    for (size_t i = 0; i < VL; i += 4)
        for (size_t j = 0; j < 2; j++)
            interleave_halves(&square[i + 2 * j], &square[i + 2 * j + 1], next[i + j], next[i + j + 2]);
    for (size_t i = 0; i < 4; i++) {
        const vf a = square[i], b = square[i + 4];
        square[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
        square[i + 4] = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
    }
}
#else
/* The lanes of a and b in turn: the first halves, and the second ones. */
INLINE void interleave(vf *first, vf *second, vf a, vf b) {
#if defined(__AVX512F__)
    *first = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    *second = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#else
    *first = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    *second = __builtin_shufflevector(a, b, 2, 6, 3, 7);
#endif
}

/* A square of VL x VL in registers: interleaving row i with row i + VL / 2, log2(VL) times over, transposes. */
INLINE void transpose_lanes(vf square[VL]) {
    vf next[VL];
#pragma GCC unroll 16
    for (size_t round = 1; round < VL; round *= 2) {
#pragma GCC unroll 16
        for (size_t i = 0; i < VL / 2; i++) interleave(&next[2 * i], &next[2 * i + 1], square[i], square[i + VL / 2]);
#pragma GCC unroll 16
        for (size_t i = 0; i < VL; i++) square[i] = next[i];
    }
}
#endif

#endif
