#include "kernels/cpu/gemm.h"

#include "kernels/cpu/simd.h"

INLINE sf_left left_from(sf_left A, size_t m, size_t k) {
    A.at += m * A.row + k * A.column;
    return A;
}

/* A tile of `rows` x `vectors` accumulators held in registers. rows and vectors are constants where this is inlined. */
INLINE void fused_tile(float *C, size_t C_row, sf_left A, sf_right B, const float *bias, bool add, size_t K,
                       size_t rows, size_t vectors) {
    vf sums[TILE_ROWS][TILE_VECTORS];
    for (size_t m = 0; m < rows; m++)
        for (size_t v = 0; v < vectors; v++)
            sums[m][v] = add ? load(C + m * C_row + v * VL) : bias != NULL ? load(bias + v * VL) : splat(0.0F);
#pragma GCC unroll 4
    for (size_t k = 0; k < K; k++) {
        vf right[TILE_VECTORS];
        for (size_t v = 0; v < vectors; v++) right[v] = load(B.at + k * B.row + v * VL);
        for (size_t m = 0; m < rows; m++) {
            const vf left = splat(A.at[m * A.row + k * A.column]);
            for (size_t v = 0; v < vectors; v++) sums[m][v] = multiply_add(left, right[v], sums[m][v]);
        }
    }
    for (size_t m = 0; m < rows; m++)
        for (size_t v = 0; v < vectors; v++) store(C + m * C_row + v * VL, sums[m][v]);
}

#if defined(SF_WITHOUT_FMA)
/* The same with sums that are held as doubles, as many as there are registers for. Whether a rounding was doubtful is
 * checked once, at the end; if so, nothing is stored and false is returned. */
INLINE bool tile_through_doubles(float *C, size_t C_row, sf_left A, sf_right B, const float *bias, bool add, size_t K,
                                 size_t rows, size_t vectors) {
    four_doubles sums[TILE_ROWS][TILE_VECTORS];
    for (size_t m = 0; m < rows; m++)
        for (size_t v = 0; v < vectors; v++) {
            const vf begin = add ? load(C + m * C_row + v * VL) : bias != NULL ? load(bias + v * VL) : splat(0.0F);
            sums[m][v] = widened((__m128)begin);
        }
    __m128i doubtful = _mm_setzero_si128();
    _MM_SET_EXCEPTION_STATE(0);
    for (size_t k = 0; k < K; k++) {
        four_doubles right[TILE_VECTORS];
        for (size_t v = 0; v < vectors; v++) right[v] = widened((__m128)load(B.at + k * B.row + v * VL));
        for (size_t m = 0; m < rows; m++) {
            const __m128d left = _mm_set1_pd((double)A.at[m * A.row + k * A.column]);
            for (size_t v = 0; v < vectors; v++) {
                const four_doubles sum = multiply_add_wide((four_doubles){left, left}, right[v], sums[m][v]);
                doubtful = _mm_or_si128(doubtful, halfway(sum));
                sums[m][v] = rounded(sum);
            }
        }
    }
    /* a sum that became a subnormal float inexactly sets the underflow flag */
    if (_mm_movemask_epi8(doubtful) != 0 || (_MM_GET_EXCEPTION_STATE() & _MM_EXCEPT_UNDERFLOW) != 0) return false;
    for (size_t m = 0; m < rows; m++)
        for (size_t v = 0; v < vectors; v++) store(C + m * C_row + v * VL, (vf)narrowed(sums[m][v]));
    return true;
}

INLINE void tile(float *C, size_t C_row, sf_left A, sf_right B, const float *bias, bool add, size_t K, size_t rows,
                 size_t vectors) {
    enum { ROWS = 2 };
    for (size_t m = 0; m < rows; m += ROWS) {
        float *at = C + m * C_row;
        const sf_left left = left_from(A, m, 0);
        if (m + ROWS <= rows) {
            if (!tile_through_doubles(at, C_row, left, B, bias, add, K, ROWS, vectors))
                fused_tile(at, C_row, left, B, bias, add, K, ROWS, vectors);
        } else if (!tile_through_doubles(at, C_row, left, B, bias, add, K, 1, vectors)) {
            fused_tile(at, C_row, left, B, bias, add, K, 1, vectors);
        }
    }
}
#else
#define tile fused_tile
#endif

/* Tiles of TILE_ROWS rows, and at the end enough tiles with one row less that no short tile is left, whose few sums
 * would wait for each other. */
INLINE void column_of_tiles(float *C, size_t C_row, sf_left A, sf_right B, const float *bias, bool add, size_t M,
                            size_t K, size_t vectors) {
    const size_t tiles = (M + TILE_ROWS - 1) / TILE_ROWS, missing = tiles * TILE_ROWS - M;
    const size_t lower = missing <= tiles ? missing : 0, full = (M - lower * (TILE_ROWS - 1)) / TILE_ROWS;
    size_t m = 0;
    for (size_t i = 0; i < full; i++, m += TILE_ROWS)
        tile(C + m * C_row, C_row, left_from(A, m, 0), B, bias, add, K, TILE_ROWS, vectors);
    for (size_t i = 0; i < lower; i++, m += TILE_ROWS - 1)
        tile(C + m * C_row, C_row, left_from(A, m, 0), B, bias, add, K, TILE_ROWS - 1, vectors);
    float *rest = C + m * C_row;
    A.at += m * A.row;
    switch (M - m) {
    case 1:
        tile(rest, C_row, A, B, bias, add, K, 1, vectors);
        break;
    case 2:
        tile(rest, C_row, A, B, bias, add, K, 2, vectors);
        break;
    case 3:
        tile(rest, C_row, A, B, bias, add, K, 3, vectors);
        break;
    case 4:
        tile(rest, C_row, A, B, bias, add, K, 4, vectors);
        break;
    default:
        break;
    }
}

static void panel_of_columns(float *C, size_t C_row, sf_left A, sf_right B, const float *bias, bool add, size_t M,
                             size_t K, size_t vectors) {
#if defined(__AVX512F__)
    switch (vectors) {
    case 1:
        column_of_tiles(C, C_row, A, B, bias, add, M, K, 1);
        break;
    case 2:
        column_of_tiles(C, C_row, A, B, bias, add, M, K, 2);
        break;
    case 3:
        column_of_tiles(C, C_row, A, B, bias, add, M, K, 3);
        break;
    default:
        column_of_tiles(C, C_row, A, B, bias, add, M, K, 4);
        break;
    }
#else
    (void)vectors; /* N is a multiple of 16 */
    column_of_tiles(C, C_row, A, B, bias, add, M, K, TILE_VECTORS);
#endif
}

void sf_gemm(float *C /* [M,N] */, size_t C_row, sf_left A, sf_right B, const float *bias /* [N] */, bool add, size_t M,
             size_t N, size_t K) {
    enum { DEPTH = 64, DEEPEST = 128 }; /* rows of B at a time: they stay in the first-level cache for all rows of A */
    for (size_t n = 0; n < N;) {
        const size_t vectors = (N - n) / VL < TILE_VECTORS ? (N - n) / VL : TILE_VECTORS;
        const float *panel = B.at + n / SF_PANEL * B.panel + n % SF_PANEL;
        for (size_t k = 0, depth; k < K; k += depth) {
            depth = K - k > DEEPEST ? DEPTH : K - k;
            panel_of_columns(C + n, C_row, left_from(A, 0, k), (sf_right){.at = panel + k * B.row, .row = B.row},
                             k == 0 && bias != NULL ? bias + n : NULL, add || k > 0, M, depth, vectors);
        }
        n += vectors * VL;
    }
}

void sf_gemm_begin(void) {
}

void sf_gemm_end(void) {
}

size_t sf_prepared_size(size_t K, size_t N) {
    (void)K;
    (void)N;
    return 0;
}

sf_right sf_prepare(float *room, sf_right B, size_t K, size_t N) {
    (void)room;
    (void)K;
    (void)N;
    return B;
}

sf_left sf_prepare_left(float *room, sf_left A, size_t M, size_t K) {
    (void)room;
    (void)M;
    (void)K;
    return A;
}

sf_left sf_left_from(sf_left A, size_t m) {
    return left_from(A, m, 0);
}

sf_right sf_right_from(sf_right B, size_t k, size_t n) {
    B.at += n / SF_PANEL * B.panel + k * B.row;
    return B;
}
