/* One vector type for every instruction set: VL floats. Written with the compilers' vector extensions; the few
 * operations they lack use intrinsics where the set has them. */
#ifndef SF_KERNELS_CPU_SIMD_H
#define SF_KERNELS_CPU_SIMD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#include "base/random.h"
#include "kernels/cpu/isa.h"

/* TILE_VECTORS: vectors of a row of a product's accumulators; SIDE_BY_SIDE: vectors that go through a long chain of
 * steps together */
#if defined(__AVX512F__)
enum { VL = 16, TILE_VECTORS = 4, SIDE_BY_SIDE = 8 };
#elif defined(__AVX2__)
enum { VL = 8, TILE_VECTORS = 2, SIDE_BY_SIDE = 4 };
#else
enum { VL = 4, TILE_VECTORS = 2, SIDE_BY_SIDE = 4 };
#endif
enum { TILE_ROWS = 6 };

typedef float vf __attribute__((vector_size(4 * VL)));
typedef int32_t vi __attribute__((vector_size(4 * VL)));

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

/* a * b in the lanes whose bit is set, 0 in the others. */
INLINE vf masked_product(uint32_t bits, vf a, vf b) {
#if defined(__AVX512F__)
    return (vf)_mm512_maskz_mul_ps((__mmask16)bits, (__m512)a, (__m512)b);
#else
    return masked(bits, a * b);
#endif
}

#if defined(__AVX512F__)
INLINE float sum_lanes(vf v) {
    return _mm512_reduce_add_ps((__m512)v);
}
INLINE float max_lanes(vf v) {
    return _mm512_reduce_max_ps((__m512)v);
}
/* Bit l is set where lane l is at least x. */
INLINE uint32_t lanes_from(vf v, float x) {
    return _mm512_cmp_ps_mask((__m512)v, _mm512_set1_ps(x), _CMP_GE_OQ);
}
#else
INLINE float sum_lanes(vf v) {
    float lanes[VL];
    store(lanes, v);
    for (int width = VL / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++) lanes[l] += lanes[l + width];
    return lanes[0];
}
INLINE float max_lanes(vf v) {
    float lanes[VL];
    store(lanes, v);
    for (int l = 1; l < VL; l++) lanes[0] = lanes[l] > lanes[0] ? lanes[l] : lanes[0];
    return lanes[0];
}
INLINE uint32_t lane_bits_of(vi condition) {
#if defined(__AVX2__)
    return (uint32_t)_mm256_movemask_ps((__m256)condition);
#else
    uint32_t mask = 0;
    for (int l = 0; l < VL; l++) mask |= (uint32_t)(condition[l] != 0) << l;
    return mask;
#endif
}
INLINE uint32_t lanes_from(vf v, float x) {
    return lane_bits_of(v >= splat(x));
}
#endif

/* 1 in the lanes below `count`, 0 in the others. */
INLINE vf first_lanes(size_t count) {
    vf mask = {0};
    for (size_t l = 0; l < VL; l++) mask[l] = l < count ? 1.0F : 0.0F;
    return mask;
}

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

INLINE float dot(const float *a, const float *b, size_t N) {
    vf sum = {0};
#pragma GCC unroll 4
    for (size_t n = 0; n < N; n += VL) sum += load(a + n) * load(b + n);
    return sum_lanes(sum);
}

INLINE void add_scaled(float *y, float factor, const float *x, size_t N) {
#pragma GCC unroll 4
    for (size_t n = 0; n < N; n += VL) store(y + n, load(y + n) + splat(factor) * load(x + n));
}

/* e^x for -87.3 <= x <= 88.7, within 2 units in the last place; NaN stays NaN. Of `count` vectors (at most
 * SIDE_BY_SIDE), a constant where this is inlined, a step at a time: alone, each step of a vector would wait for the
 * one before.
 *
 * x = n ln 2 + r, |r| <= ln 2 / 2; e^r by its Taylor polynomial of degree 7, times 2^n. */
INLINE void exp_each_within(vf *x, size_t count) {
    static const float TAYLOR[] = {1.0F,         1.0F,          0.5F,          1.0F / 6.0F,
                                   1.0F / 24.0F, 1.0F / 120.0F, 1.0F / 720.0F, 1.0F / 5040.0F};
    const vf rounder = splat(12582912.0F); /* 1.5 * 2^23: adding it rounds to an integer */
    vf n[SIDE_BY_SIDE], p[SIDE_BY_SIDE];
    for (size_t i = 0; i < count; i++) n[i] = x[i] * splat(1.44269504F) + rounder;
    for (size_t i = 0; i < count; i++) n[i] -= rounder;
    for (size_t i = 0; i < count; i++) x[i] -= n[i] * splat(0.693359375F);
    for (size_t i = 0; i < count; i++) x[i] -= n[i] * splat(-2.12194440e-4F);
    for (size_t i = 0; i < count; i++) p[i] = splat(TAYLOR[7]);
#pragma GCC unroll 7
    for (int degree = 6; degree >= 0; degree--)
        for (size_t i = 0; i < count; i++) p[i] = p[i] * x[i] + splat(TAYLOR[degree]);
    for (size_t i = 0; i < count; i++) {
#if defined(__AVX512F__)
        x[i] = (vf)_mm512_scalef_ps((__m512)p[i], (__m512)n[i]);
#else
        const vi half = __builtin_convertvector(n[i], vi) / 2; /* two factors: 2^128 itself is no float */
        const vi rest = __builtin_convertvector(n[i], vi) - half;
        x[i] = p[i] * (vf)((half + 127) << 23) * (vf)((rest + 127) << 23);
#endif
    }
}

/* exp of any x: 0 below -87.3, infinity above 88.7, NaN stays NaN. */
INLINE vf exp_of(vf x) {
    const vf low = splat(-87.3F), high = splat(88.7F);
    vf result = if_less(x, low, low, if_less(high, x, high, x));
    exp_each_within(&result, 1);
    return if_less(x, low, splat(0.0F), if_less(splat(88.73F), x, splat(INFINITY), result));
}

/* exp of x <= 0, as softmax needs it: never less than e^-87.3, which is nothing beside the largest weight. */
INLINE void exp_each_below_zero(vf *x, size_t count) {
    for (size_t i = 0; i < count; i++) x[i] = max_of(splat(-87.3F), x[i]);
    exp_each_within(x, count);
}

INLINE vf exp_below_zero(vf x) {
    exp_each_below_zero(&x, 1);
    return x;
}

enum { PHILOX_ROUNDS = 10 };

typedef struct philox_keys { /* of every round, in memory: an operand that takes no instruction of its own */
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

#if defined(__AVX512F__)
INLINE __m512i xor_of_three(__m512i a, __m512i b, uint64_t c) {
    return _mm512_ternarylogic_epi64(a, b, _mm512_set1_epi64((long long)c), 0x96);
}

INLINE void philox_products(__m512i p[2], const __m512i x[4]) {
    p[0] = _mm512_mul_epu32(x[0], _mm512_set1_epi64(0xD2511F53));
    p[1] = _mm512_mul_epu32(x[2], _mm512_set1_epi64(0xCD9E8D57));
}

/* Eight calls of Philox4x32-10 side by side, `count` (a constant where this is inlined) times, but for the last round:
 * the low half of lane i of x[n][w] is word w of draw draws[n][i]. */
INLINE void philox_all_but_last(__m512i x[][4], const sf_index *index, const philox_keys *keys, const __m256i *draws,
                                size_t count) {
    for (size_t n = 0; n < count; n++) {
        x[n][0] = _mm512_cvtepu32_epi64(draws[n]);
        x[n][1] = _mm512_set1_epi64(index->sample);
        x[n][2] = _mm512_set1_epi64(index->step);
        x[n][3] = _mm512_set1_epi64(index->epoch);
    }
#pragma GCC unroll 9
    for (int round = 0; round < PHILOX_ROUNDS - 1; round++)
        /* only the low 32 bits of a lane count: the multiplication ignores the rest; DDBB moves the high halves there
         */
        for (size_t n = 0; n < count; n++) {
            __m512i p[2];
            philox_products(p, x[n]);
            x[n][0] = xor_of_three(_mm512_shuffle_epi32(p[1], _MM_PERM_DDBB), x[n][1], keys->rounds[round][0]);
            x[n][2] = xor_of_three(_mm512_shuffle_epi32(p[0], _MM_PERM_DDBB), x[n][3], keys->rounds[round][1]);
            x[n][1] = p[1];
            x[n][3] = p[0];
        }
}

/* The last round, which leaves two words in a lane: 1 and 0 in pairs[0], 3 and 2 in pairs[1], the former in the low
 * half. */
INLINE void philox_last(__m512i pairs[2], const __m512i x[4], const philox_keys *keys) {
    __m512i p[2];
    philox_products(p, x);
    pairs[0] = xor_of_three(p[1], _mm512_slli_epi64(x[1], 32), keys->last_high[0]);
    pairs[1] = xor_of_three(p[0], _mm512_slli_epi64(x[3], 32), keys->last_high[1]);
}
#endif

/* Eight calls of Philox4x32-10 side by side: words[w][i] is word w of draw draws[i]. */
INLINE void philox_eight(uint32_t words[4][8], const sf_index *index, const philox_keys *keys,
                         const uint32_t draws[8]) {
#if defined(__AVX512F__)
    __m512i x[1][4], pairs[2];
    const __m256i lanes = _mm256_loadu_si256((const __m256i *)(const void *)draws);
    philox_all_but_last(x, index, keys, &lanes, 1);
    philox_last(pairs, x[0], keys);
    for (size_t w = 0; w < 4; w++) {
        const __m512i low = w % 2 == 1 ? pairs[w / 2] : _mm512_srli_epi64(pairs[w / 2], 32);
        _mm256_storeu_si256((__m256i *)(void *)words[w], _mm512_cvtepi64_epi32(low));
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

/* The lanes of a and b in turn: the first halves, and the second ones. */
INLINE void interleave(vf *first, vf *second, vf a, vf b) {
#if defined(__AVX512F__)
    *first = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    *second = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#elif defined(__AVX2__)
    *first = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    *second = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
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
