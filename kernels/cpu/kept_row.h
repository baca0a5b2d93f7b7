/* The arithmetic of one query's kept keys, shared by the kernels that walk lists of them. */
#ifndef SF_KERNELS_CPU_KEPT_ROW_H
#define SF_KERNELS_CPU_KEPT_ROW_H

#include "kernels/cpu/attention.h"
#include "kernels/cpu/simd.h"

typedef struct kept_row { /* one query's part of the trace */
    const uint32_t *keys;
    float *weights;
    const float *factors; /* of dropout on the weights; NULL: no dropout */
    double *scores;       /* NULL under softmax */
    size_t count;
} kept_row;

/* The first `vectors` (a constant where this is inlined) vectors of the sum of factors[n] * rows[keys[n]]; `more`:
 * added to what `out` holds. */
INLINE void mix_columns(float *out, const float *rows, size_t stride, const uint32_t *keys, const float *factors,
                        size_t count, bool more, size_t vectors) {
    vf sums[HELD] = {{0}};
    for (size_t v = 0; v < vectors && more; v++) sums[v] = load(out + v * VL);
    for (size_t n = 0; n < count; n++)
        for (size_t v = 0; v < vectors; v++)
            sums[v] = multiply_add(splat(factors[n]), load(rows + keys[n] * stride + v * VL), sums[v]);
    for (size_t v = 0; v < vectors; v++) store(out + v * VL, sums[v]);
}

INLINE void mix_more(float *out, const float *rows, size_t stride, const uint32_t *keys, const float *factors,
                     size_t count, bool more, size_t N) {
    enum { WIDE = HELD < 8 ? HELD : 8 };
    const size_t wide = WIDE * (size_t)VL;
    size_t c = 0;
    for (; c + wide <= N; c += wide) mix_columns(out + c, rows + c, stride, keys, factors, count, more, WIDE);
    for (; c < N; c += VL) mix_columns(out + c, rows + c, stride, keys, factors, count, more, 1);
}

INLINE void mix(float *out, const float *rows, size_t stride, const uint32_t *keys, const float *factors, size_t count,
                size_t N) {
    mix_more(out, rows, stride, keys, factors, count, false, N);
}

/* Those of x with QUADS rows, four apart, as far as quads_of() goes. */
INLINE vf quads_of_dots(const vf held[HELD], const float *x, const float *rows, size_t stride, const uint32_t *keys,
                        size_t N) {
    lane_sums sums[QUADS] = {0};
    for (size_t c = 0; c < N; c += SUM_LANES)
        for (size_t v = 0; v < SUM_VECTORS; v++)
            for (size_t i = 0; i < QUADS; i++) {
                const size_t at = c + v * VL;
                const vf row = load(rows + keys[4 * i] * stride + at);
                sums[i].at[v] = multiply_add(held_or_loaded(held, x, at, N), row, sums[i].at[v]);
            }
    return quads_of(sums);
}

INLINE vf dots_of_many(const vf held[HELD], const float *x, const float *rows, size_t stride, const uint32_t keys[VL],
                       size_t N) {
    vf quads[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) quads[i] = quads_of_dots(held, x, rows, stride, keys + i, N);
    return totals_of_quads(quads);
}

/* The dot products of x with rows[keys[n]]. */
INLINE void dots_of(float *dots /* [count] */, const float *x, const float *rows, size_t stride, const uint32_t *keys,
                    size_t count, size_t N) {
    enum { FEW = VL / 4 }; /* that take less time one by one */
    vf held[HELD];
    hold(held, x, N);
    size_t n = 0;
    for (; n + VL <= count; n += VL) store(dots + n, dots_of_many(held, x, rows, stride, keys + n, N));
    if (count - n > FEW) {
        uint32_t rest[VL];
        for (size_t i = 0; i < VL; i++) rest[i] = keys[n + i < count ? n + i : n];
        store_first(dots + n, dots_of_many(held, x, rows, stride, rest, N), count - n);
        return;
    }
    for (; n < count; n++) dots[n] = dot(x, rows + keys[n] * stride, N);
}

INLINE void score_kept(const kept_row *row, const sf_head *head, size_t query, size_t N) {
    const float *q = head->q + query * head->stride;
    vf held[HELD];
    hold(held, q, N);
    for (size_t n = 0; n < row->count; n++) {
        const float *k = head->k + row->keys[n] * head->stride;
        lane_sums sums = {0};
        for (size_t c = 0; c < N; c += SUM_LANES)
            for (size_t v = 0; v < SUM_VECTORS; v++) {
                const size_t at = c + v * VL;
                sums.at[v] = multiply_add(held_or_loaded(held, q, at, N), load(k + at), sums.at[v]);
            }
        row->weights[n] = head->job->plan->score_scale * total_of(sums);
    }
}

/* VL floats of a row of `count` from `at` on, 0 beyond its end. */
INLINE vf load_within(const float *row, size_t at, size_t count) {
    return at + VL <= count ? load(row + at) : at < count ? load_first(row + at, count - at, 0.0F) : (vf){0};
}

INLINE void store_within(float *row, size_t at, size_t count, vf v) {
    if (at + VL <= count)
        store(row + at, v);
    else if (at < count)
        store_first(row + at, v, count - at);
}

/* NaN counts only in the first place, as in a comparison one by one. */
INLINE float largest_of(const float *row, size_t count) {
    enum { CHAINS = 4 }; /* in a single chain every step would wait for the one before */
    vf chains[CHAINS];
    for (size_t i = 0; i < CHAINS; i++) chains[i] = splat(row[0]);
    size_t n = 0;
    for (; n + (size_t)CHAINS * VL <= count; n += (size_t)CHAINS * VL)
        for (size_t i = 0; i < CHAINS; i++) chains[i] = max_of(load(row + n + i * VL), chains[i]);
    for (; n + VL <= count; n += VL) chains[0] = max_of(load(row + n), chains[0]);
    if (n < count) chains[0] = max_of(load_first(row + n, count - n, row[0]), chains[0]);
    return max_lanes(max_of(max_of(chains[0], chains[1]), max_of(chains[2], chains[3])));
}

INLINE void softmax(float *weights, size_t count) {
    const float largest = largest_of(weights, count);
    lane_sums sums = {0};
    for (size_t n = 0; n < count; n += SUM_LANES)
        for (size_t v = 0; v < SUM_VECTORS && n + v * VL < count; v++) {
            const size_t at = n + v * VL;
            const vf score = load_within(weights, at, count);
            const vf weight = masked(real_bits(at, count), exp_below_zero(score - splat(largest)));
            sums.at[v] += weight;
            store_within(weights, at, count, weight);
        }
    const float inverse = 1.0F / total_of(sums);
    for (size_t n = 0; n < count; n++) weights[n] *= inverse;
}

/* rows[keys[n]] += factors[n] * x. */
INLINE void add_to_rows(float *rows, size_t stride, const uint32_t *keys, const float *factors, const float *x,
                        size_t count, size_t N) {
    vf held[HELD];
    hold(held, x, N);
    for (size_t n = 0; n < count; n++) {
        float *row = rows + keys[n] * stride;
        for (size_t c = 0; c < N; c += VL)
            store(row + c, multiply_add(splat(factors[n]), held_or_loaded(held, x, c, N), load(row + c)));
    }
}

/* The gradients of the weights, and of the values. */
INLINE void values_backward(float *slopes /* [count] */, const kept_row *row, const sf_head *head, size_t query,
                            size_t N) {
    const float *dcontext = head->dcontext + query * head->context_stride;
    vf held[HELD];
    hold(held, dcontext, N);
    for (size_t n = 0; n < row->count; n++) {
        const float *value = head->v + row->keys[n] * head->stride;
        float *dvalue = head->dv + row->keys[n] * head->stride;
        const float factor = row->factors != NULL ? row->factors[n] : 1.0F;
        const vf weight = splat(factor * row->weights[n]);
        lane_sums sums = {0};
        for (size_t c = 0; c < N; c += SUM_LANES)
            for (size_t v = 0; v < SUM_VECTORS; v++) {
                const size_t at = c + v * VL;
                const vf up = held_or_loaded(held, dcontext, at, N);
                sums.at[v] = multiply_add(up, load(value + at), sums.at[v]);
                store(dvalue + at, multiply_add(weight, up, load(dvalue + at)));
            }
        slopes[n] = factor * total_of(sums);
    }
}

/* The gradients of keys and query from those of the scores. */
INLINE void scores_backward(const float *slopes /* [count] */, const kept_row *row, const sf_head *head, size_t query,
                            size_t N) {
    const float *q = head->q + query * head->stride;
    vf held[HELD];
    hold(held, q, N);
    for (size_t n = 0; n < row->count; n++) {
        float *dkey = head->dk + row->keys[n] * head->stride;
        for (size_t c = 0; c < N; c += VL)
            store(dkey + c, multiply_add(splat(slopes[n]), held_or_loaded(held, q, c, N), load(dkey + c)));
    }
    mix(head->dq + query * head->stride, head->k, head->stride, row->keys, slopes, row->count, N);
}

/* Gradients of the weights become those of the scores. */
INLINE void softmax_backward(float *slopes, const float *weights, size_t count) {
    lane_sums sums = {0};
    for (size_t n = 0; n < count; n += SUM_LANES)
        for (size_t v = 0; v < SUM_VECTORS && n + v * VL < count; v++) {
            const size_t at = n + v * VL;
            sums.at[v] = multiply_add(load_within(weights, at, count), load_within(slopes, at, count), sums.at[v]);
        }
    const float mean = total_of(sums);
    for (size_t n = 0; n < count; n++) slopes[n] = weights[n] * (slopes[n] - mean);
}

#endif
