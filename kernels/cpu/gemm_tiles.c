/* Matrix products on the tiles of AMX: factors are rounded to bf16 (8 bits of each number), products are added in f32.
 *
 * Without AMX hardware, vectors compute the same bits: two chains of multiply-adds per number of the result, for the
 * first and the second of each pair of depths, without denormal numbers. */
#include <immintrin.h>
#include <stdint.h>

#include "base/sizes.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/tiles.h"

enum {
    SIDE = 16,           /* rows and columns of a tile of results */
    DEPTH = 32,          /* of a tile of factors: SIDE pairs; pair j holds depths j and j + 16 */
    WORDS = SIDE * SIDE, /* pairs in a tile */
    /* what is packed at once: */
    STEPS = 4,
    DEPTH_AT_ONCE = STEPS * DEPTH,
    ROW_TILES = 4, /* of an A that is not prepared */
    ROWS_AT_ONCE = ROW_TILES * SIDE,
    COLUMN_TILES = 4, /* of a B that is not prepared */
    COLUMNS_AT_ONCE = COLUMN_TILES * SIDE
};

typedef uint32_t pairs __attribute__((vector_size(4 * VL)));
typedef uint32_t tile_words[WORDS];

static size_t tiles_of(size_t count, size_t side) {
    return (count + side - 1) / side;
}

/* Pairs of one number from `first` and one from `second`, each rounded to the nearest bf16. */
INLINE pairs pair_up(vf first, vf second) {
    const uint32_t half = 0x8000U;
    return (((pairs)second + half) & 0xffff0000U) | ((pairs)first + half) >> 16;
}

INLINE void store_pairs(uint32_t *row, pairs both) {
    memcpy(row, &both, sizeof both);
}

INLINE vf load_some(const float *at, size_t count) {
    return count >= VL ? load(at) : count > 0 ? load_first(at, count, 0.0F) : splat(0.0F);
}

static size_t at_least_0(size_t a, size_t b) {
    return a > b ? a - b : 0;
}

/* Rows of A, 0 beyond `rows` and `depth`. */
static void pack_left(tile_words tile, const float *at, size_t row, size_t rows, size_t depth) {
    if (rows == SIDE && depth == DEPTH) {
#pragma GCC unroll 4
        for (size_t m = 0; m < SIDE; m++, at += row) store_pairs(tile + m * SIDE, pair_up(load(at), load(at + SIDE)));
        return;
    }
    memset(tile, 0, sizeof(tile_words));
    for (size_t m = 0; m < rows; m++, at += row)
        store_pairs(tile + m * SIDE, pair_up(load_some(at, depth), load_some(at + SIDE, at_least_0(depth, SIDE))));
}

/* Pairs of the rows `depth` and `depth` + 16 of 16 columns, 0 beyond `deep`. */
INLINE pairs pairs_at(const float *at, size_t row, size_t depth, size_t deep) {
    return pair_up(depth < deep ? load(at + depth * row) : splat(0.0F),
                   depth + SIDE < deep ? load(at + (depth + SIDE) * row) : splat(0.0F));
}

/* Columns of A; values beyond the requested rows end up in unused rows of the result. */
INLINE void pack_transposed(tile_words tile, const float *at, size_t row, size_t deep) {
    vf words[SIDE];
    for (size_t j = 0; j < SIDE; j++) words[j] = (vf)pairs_at(at, row, j, deep);
    transpose_lanes(words);
    for (size_t m = 0; m < SIDE; m++) store_pairs(tile + m * SIDE, (pairs)words[m]);
}

INLINE void pack_upright(tile_words tile, const float *at, size_t row, size_t deep) {
#pragma GCC unroll 4
    for (size_t j = 0; j < SIDE; j++) store_pairs(tile + j * SIDE, pairs_at(at, row, j, deep));
}

/* [steps][rows of tiles] of A from row m and depth k on. */
static void pack_left_block(tile_words *out, sf_left A, size_t M, size_t K, size_t m, size_t k, size_t row_tiles,
                            size_t steps) {
    for (size_t step = 0; step < steps; step++)
        for (size_t i = 0; i < row_tiles; i++, out++) {
            const size_t row = m + i * SIDE, depth = k + step * DEPTH;
            const size_t rows = sf_smaller(M - row, SIDE), deep = sf_smaller(K - depth, DEPTH);
            const float *at = A.at + row * A.row + depth * A.column;
            if (A.column == 1)
                pack_left(*out, at, A.row, rows, deep);
            else if (deep == DEPTH) /* a constant, so that there is no test per row */
                pack_transposed(*out, at, A.column, DEPTH);
            else
                pack_transposed(*out, at, A.column, deep);
        }
}

/* [steps][columns of tiles] of a B that is not prepared, from depth k and column n on. */
static void pack_right_block(tile_words *out, sf_right B, size_t K, size_t k, size_t n, size_t column_tiles,
                             size_t steps) {
    for (size_t step = 0; step < steps; step++)
        for (size_t i = 0; i < column_tiles; i++, out++) {
            const size_t column = n + i * SIDE, depth = k + step * DEPTH;
            const float *at = B.at + column / SF_PANEL * B.panel + column % SF_PANEL + depth * B.row;
            if (K - depth >= DEPTH) /* as above */
                pack_upright(*out, at, B.row, DEPTH);
            else
                pack_upright(*out, at, B.row, K - depth);
        }
}

size_t sf_prepared_size(size_t K, size_t N) {
    return tiles_of(K, DEPTH) * tiles_of(N, SIDE) * WORDS;
}

sf_right sf_prepare(float *room, sf_right B, size_t K, size_t N) {
    pack_right_block((tile_words *)(void *)room, B, K, 0, 0, tiles_of(N, SIDE), tiles_of(K, DEPTH));
    return (sf_right){.at = room, .row = tiles_of(N, SIDE), .prepared = true};
}

sf_left sf_prepare_left(float *room, sf_left A, size_t M, size_t K) {
    pack_left_block((tile_words *)(void *)room, A, M, K, 0, 0, tiles_of(M, SIDE), tiles_of(K, DEPTH));
    return (sf_left){.at = room, .row = tiles_of(M, SIDE), .prepared = true};
}

/* Words of prepared tiles before depth k and row or column i. */
static size_t words_before(size_t side_by_side, size_t k, size_t i) {
    return (k / DEPTH * side_by_side + i / SIDE) * WORDS;
}

sf_left sf_left_from(sf_left A, size_t m) {
    A.at += A.prepared ? words_before(A.row, 0, m) : m * A.row;
    return A;
}

sf_right sf_right_from(sf_right B, size_t k, size_t n) {
    B.at += B.prepared ? words_before(B.row, k, n) : n / SF_PANEL * B.panel + k * B.row;
    return B;
}

static const tile_words *prepared_tiles(const float *at, size_t side_by_side, size_t k, size_t i) {
    return (const tile_words *)(const void *)(at + words_before(side_by_side, k, i));
}

typedef struct square { /* a square of up to 2 x 2 tiles of results, and its factors */
    float *C;
    size_t C_row;
    const float *begin; /* what the product is added to: C, a row of bias (begin_row is 0), or NULL for nothing */
    size_t begin_row;
    const tile_words *left;  /* tile (step, row) at [step * left_step + row] */
    const tile_words *right; /* tile (step, column) at [step * right_step + column] */
    size_t left_step, right_step, steps;
} square;

INLINE void multiply_in_hardware(const square *s, bool two_rows, bool two_columns) {
    const long C_bytes = (long)(s->C_row * sizeof(float)), bytes = SIDE * sizeof(uint32_t);
    __asm__ volatile("" ::: "memory"); /* the compiler does not know which memory tile loads read */
    float *below = s->C + SIDE * s->C_row;
    if (s->begin != NULL) {
        const long begin_bytes = (long)(s->begin_row * sizeof(float));
        const float *begin_below = s->begin + SIDE * s->begin_row;
        _tile_loadd(0, s->begin, begin_bytes);
        if (two_columns) _tile_loadd(1, s->begin + SIDE, begin_bytes);
        if (two_rows) _tile_loadd(2, begin_below, begin_bytes);
        if (two_rows && two_columns) _tile_loadd(3, begin_below + SIDE, begin_bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (size_t step = 0; step < s->steps; step++) {
        const tile_words *left = s->left + step * s->left_step, *right = s->right + step * s->right_step;
        _tile_loadd(4, left[0], bytes);
        _tile_loadd(6, right[0], bytes);
        _tile_dpbf16ps(0, 4, 6);
        if (two_columns) {
            _tile_loadd(7, right[1], bytes);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (two_rows) {
            _tile_loadd(5, left[1], bytes);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (two_rows && two_columns) _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, s->C, C_bytes);
    if (two_columns) _tile_stored(1, s->C + SIDE, C_bytes);
    if (two_rows) _tile_stored(2, below, C_bytes);
    if (two_rows && two_columns) _tile_stored(3, below + SIDE, C_bytes);
}

INLINE float upper_half(uint32_t pair) {
    const uint32_t bits = pair & 0xffff0000U;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void multiply_tile(float *C, size_t C_row, const uint32_t *left, const uint32_t *right) {
    for (size_t m = 0; m < SIDE; m++) {
        vf first = {0}, second = {0};
        for (size_t j = 0; j < SIDE; j++) {
            const uint32_t pair = left[m * SIDE + j];
            pairs others;
            memcpy(&others, right + j * SIDE, sizeof others);
            first = multiply_add(splat(upper_half(pair << 16)), (vf)(others << 16), first);
            second = multiply_add(splat(upper_half(pair)), (vf)(others & 0xffff0000U), second);
        }
        store(C + m * C_row, load(C + m * C_row) + (first + second));
    }
}

static void set_rows(float *C, size_t C_row, const float *to /* NULL: 0 */, size_t to_row, size_t M, size_t N) {
    for (size_t m = 0; m < M; m++)
        for (size_t n = 0; n < N; n += VL)
            store(C + m * C_row + n, to != NULL ? load(to + m * to_row + n) : splat(0.0F));
}

static void multiply_with_vectors(const square *s, bool two_rows, bool two_columns) {
    const size_t rows = two_rows ? 2 : 1, columns = two_columns ? 2 : 1;
    if (s->begin != s->C) set_rows(s->C, s->C_row, s->begin, s->begin_row, rows * SIDE, columns * SIDE);
    for (size_t step = 0; step < s->steps; step++)
        for (size_t row = 0; row < rows; row++)
            for (size_t column = 0; column < columns; column++)
                multiply_tile(s->C + row * SIDE * s->C_row + column * SIDE, s->C_row,
                              s->left[step * s->left_step + row], s->right[step * s->right_step + column]);
}

static void multiply(const square *s, bool two_rows, bool two_columns, bool hardware) {
    if (!hardware)
        multiply_with_vectors(s, two_rows, two_columns);
    else if (two_rows && two_columns)
        multiply_in_hardware(s, true, true);
    else if (two_rows)
        multiply_in_hardware(s, true, false);
    else if (two_columns)
        multiply_in_hardware(s, false, true);
    else
        multiply_in_hardware(s, false, false);
}

/* A square with only `rows` rows. */
static void multiply_edge(square s, size_t rows, bool two_rows, bool two_columns, bool hardware) {
    enum { WIDTH = 2 * SIDE };
    _Alignas(64) float whole[WIDTH * WIDTH];
    float *C = s.C;
    const size_t C_row = s.C_row, columns = two_columns ? WIDTH : SIDE;
    if (s.begin == C) {
        memset(whole, 0, sizeof whole);
        set_rows(whole, WIDTH, C, C_row, rows, columns);
        s.begin = whole;
        s.begin_row = WIDTH;
    }
    s.C = whole;
    s.C_row = WIDTH;
    multiply(&s, two_rows, two_columns, hardware);
    set_rows(C, C_row, whole, WIDTH, rows, columns);
}

/* The part of C that the packed tiles give, from its first square on. */
static void multiply_area(square first, size_t rows, size_t row_tiles, size_t column_tiles, bool hardware) {
    for (size_t j = 0; j < column_tiles; j += 2)
        for (size_t i = 0; i < row_tiles; i += 2) {
            square s = first;
            s.C += i * SIDE * s.C_row + j * SIDE;
            if (s.begin != NULL) s.begin += i * SIDE * s.begin_row + j * SIDE;
            s.left += i;
            s.right += j;
            const size_t below = rows - i * SIDE;
            const bool two_rows = i + 1 < row_tiles, two_columns = j + 1 < column_tiles;
            if (below < (two_rows ? 2 * SIDE : SIDE))
                multiply_edge(s, below, two_rows, two_columns, hardware);
            else
                multiply(&s, two_rows, two_columns, hardware);
        }
}

void sf_gemm(float *C /* [M,N] */, size_t C_row, sf_left A, sf_right B, const float *bias /* [N] */, bool add, size_t M,
             size_t N, size_t K) {
    _Alignas(64) tile_words left[STEPS * ROW_TILES], right[STEPS * COLUMN_TILES];
    const bool hardware = sf_tiles_in_hardware();
    const unsigned control = _mm_getcsr();
    if (!hardware) _mm_setcsr(control | 0x8040); /* like AMX: denormal numbers are 0 */
    if (K == 0 && !add) set_rows(C, C_row, bias, 0, M, N);
    const size_t columns_at_once = B.prepared ? N : COLUMNS_AT_ONCE;
    for (size_t k = 0; k < K; k += DEPTH_AT_ONCE)
        for (size_t n = 0; n < N; n += columns_at_once) {
            const size_t steps = tiles_of(sf_smaller(K - k, DEPTH_AT_ONCE), DEPTH);
            const size_t column_tiles = sf_smaller(N - n, columns_at_once) / SIDE;
            if (!B.prepared) pack_right_block(right, B, K, k, n, column_tiles, steps);
            for (size_t m = 0; m < M; m += ROWS_AT_ONCE) {
                const size_t row_tiles = tiles_of(sf_smaller(M - m, ROWS_AT_ONCE), SIDE);
                if (!A.prepared && (n == 0 || M > ROWS_AT_ONCE)) /* otherwise it is still packed */
                    pack_left_block(left, A, M, K, m, k, row_tiles, steps);
                float *corner = C + m * C_row + n;
                const bool more = add || k > 0;
                const float *bias_row = bias != NULL ? bias + n : NULL;
                const square first = {.C = corner,
                                      .C_row = C_row,
                                      .begin = more ? corner : bias_row,
                                      .begin_row = more ? C_row : 0,
                                      .left = A.prepared ? prepared_tiles(A.at, A.row, k, m) : left,
                                      .right = B.prepared ? prepared_tiles(B.at, B.row, k, n) : right,
                                      .left_step = A.prepared ? A.row : row_tiles,
                                      .right_step = B.prepared ? B.row : column_tiles,
                                      .steps = steps};
                multiply_area(first, M - m, row_tiles, column_tiles, hardware);
            }
        }
    if (!hardware) _mm_setcsr(control);
}

void sf_gemm_begin(void) {
    static const struct configuration { /* as the processor reads it */
        uint8_t palette, start_row, reserved[14];
        uint16_t bytes_a_row[16];
        uint8_t rows[16];
    } all_whole = {.palette = 1,
                   .bytes_a_row = {64, 64, 64, 64, 64, 64, 64, 64},
                   .rows = {SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE}};
    if (sf_tiles_in_hardware()) __asm__ volatile("ldtilecfg %0" : : "m"(all_whole));
}

void sf_gemm_end(void) {
    if (sf_tiles_in_hardware()) _tile_release();
}
