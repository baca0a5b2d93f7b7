/* Products of queries that keep the same keys: the rows of these keys are read once for several queries, as in a matrix
 * product. Every sum is the chain, or the partial sums and their tree, that a query alone would have. */
#ifndef SF_KERNELS_CPU_GATHERED_H
#define SF_KERNELS_CPU_GATHERED_H

#include "kernels/cpu/kept_row.h"

enum { AT_ONCE = 4 /* queries, or keys, whose sums are held in registers */ };

typedef struct gathered { /* up to AT_ONCE queries that keep the same keys */
    const float *x[AT_ONCE];
    float *out[AT_ONCE];
} gathered;

/* Partial sums of dot products: the channels l, l + 16, ... of every x. */
INLINE void lanes_of(vf sums[AT_ONCE], const gathered *g, const float *panel, size_t l, size_t rows, size_t N) {
#pragma GCC unroll 4
    for (size_t i = 0; i < rows; i++) sums[i] = splat(0.0F);
#pragma GCC unroll 4
    for (size_t c = l; c < N; c += SUM_LANES) {
        const vf keys = load(panel + c * SF_PANEL);
#pragma GCC unroll 4
        for (size_t i = 0; i < rows; i++) sums[i] = multiply_add(splat(g->x[i][c]), keys, sums[i]);
    }
}

/* l + (l + 8). */
INLINE void pairs_of(vf sums[AT_ONCE], const gathered *g, const float *panel, size_t l, size_t rows, size_t N) {
    vf other[AT_ONCE];
    lanes_of(sums, g, panel, l, rows, N);
    lanes_of(other, g, panel, l + 8, rows, N);
#pragma GCC unroll 4
    for (size_t i = 0; i < rows; i++) sums[i] += other[i];
}

/* l + (l + 4) of those. */
INLINE void fours_of(vf sums[AT_ONCE], const gathered *g, const float *panel, size_t l, size_t rows, size_t N) {
    vf other[AT_ONCE];
    pairs_of(sums, g, panel, l, rows, N);
    pairs_of(other, g, panel, l + 4, rows, N);
#pragma GCC unroll 4
    for (size_t i = 0; i < rows; i++) sums[i] += other[i];
}

/* l + (l + 2) of those. */
INLINE void eights_of(vf sums[AT_ONCE], const gathered *g, const float *panel, size_t l, size_t rows, size_t N) {
    vf other[AT_ONCE];
    fours_of(sums, g, panel, l, rows, N);
    fours_of(other, g, panel, l + 2, rows, N);
#pragma GCC unroll 4
    for (size_t i = 0; i < rows; i++) sums[i] += other[i];
}

/* The dot products of `rows` (a constant where this is inlined) vectors x with VL keys, one per lane: the partial sums
 * of a dot product and their tree, in an order that needs few registers. `panel` has the keys' channels, SF_PANEL keys
 * side by side; they become out[at] on, and those from out[count] on are not wanted. */
INLINE void dots_with_keys(const gathered *g, size_t at, size_t count, const float *panel, size_t rows, size_t N) {
    vf sums[AT_ONCE], other[AT_ONCE];
    eights_of(sums, g, panel, 0, rows, N);
    eights_of(other, g, panel, 1, rows, N);
#pragma GCC unroll 4
    for (size_t i = 0; i < rows; i++) store_within(g->out[i], at, count, sums[i] + other[i]);
}

/* out[at + n] = x . key n of a panel, n < keys, for `count` queries. */
INLINE void dots_with_panel_of(const gathered *g, size_t at, size_t keys, const float *panel, size_t count, size_t N) {
    for (size_t n = 0; n < keys; n += VL) dots_with_keys(g, at + n, at + keys, panel + n, count, N);
}

static inline void dots_with_panel(const gathered *g, size_t at, size_t keys, const float *panel, size_t count,
                                   size_t N) {
    if (count == AT_ONCE && N == COMMON_N)
        dots_with_panel_of(g, at, keys, panel, AT_ONCE, COMMON_N);
    else if (count == AT_ONCE)
        dots_with_panel_of(g, at, keys, panel, AT_ONCE, N);
    else
        for (size_t i = 0; i < count; i++)
            dots_with_panel_of(&(gathered){{g->x[i]}, {g->out[i]}}, at, keys, panel, 1, N);
}

/* out += the sum over keys of x[n] * rows[keys[n]], `vectors` columns from `column` on; `count` and `vectors` are
 * constants where this is inlined. */
INLINE void mix_gathered_columns(const gathered *g, size_t column, const float *rows, size_t stride,
                                 const uint32_t *keys, size_t listed, size_t count, size_t vectors) {
    vf sums[AT_ONCE][TILE_VECTORS];
    for (size_t i = 0; i < count; i++)
        for (size_t v = 0; v < vectors; v++) sums[i][v] = load(g->out[i] + column + v * VL);
    for (size_t n = 0; n < listed; n++) {
        vf row[TILE_VECTORS];
        for (size_t v = 0; v < vectors; v++) row[v] = load(rows + keys[n] * stride + column + v * VL);
        for (size_t i = 0; i < count; i++)
            for (size_t v = 0; v < vectors; v++) sums[i][v] = multiply_add(splat(g->x[i][n]), row[v], sums[i][v]);
    }
    for (size_t i = 0; i < count; i++)
        for (size_t v = 0; v < vectors; v++) store(g->out[i] + column + v * VL, sums[i][v]);
}

INLINE void mix_gathered_rows(const gathered *g, const float *rows, size_t stride, const uint32_t *keys, size_t listed,
                              size_t count, size_t N) {
    const size_t wide = (size_t)TILE_VECTORS * VL;
    size_t c = 0;
    for (; c + wide <= N; c += wide) mix_gathered_columns(g, c, rows, stride, keys, listed, count, TILE_VECTORS);
    for (; c < N; c += VL) mix_gathered_columns(g, c, rows, stride, keys, listed, count, 1);
}

/* out += the sum over keys of x[n] * rows[keys[n]], for `count` queries. */
static inline void mix_gathered(const gathered *g, const float *rows, size_t stride, const uint32_t *keys,
                                size_t listed, size_t count, size_t N) {
    switch (count) {
    case 1:
        mix_gathered_rows(g, rows, stride, keys, listed, 1, N);
        break;
    case 2:
        mix_gathered_rows(g, rows, stride, keys, listed, 2, N);
        break;
    case 3:
        mix_gathered_rows(g, rows, stride, keys, listed, 3, N);
        break;
    default:
        mix_gathered_rows(g, rows, stride, keys, listed, AT_ONCE, N);
        break;
    }
}

INLINE void clear_row(float *row, size_t N) {
    for (size_t c = 0; c < N; c += VL) store(row + c, splat(0.0F));
}

#endif
