#include "kernels/cpu/gemm.h"

#include "kernels/cpu/simd.h"

/* A tile of `rows` x `vectors` accumulators held in registers. rows and vectors are constants where this is inlined. */
INLINE void tile(float *C, size_t C_row, sf_left A, sf_right B, const float *bias, bool add, size_t K, size_t rows,
                 size_t vectors) {
    vf sums[TILE_ROWS][TILE_VECTORS];
    for (size_t m = 0; m < rows; m++)
        for (size_t v = 0; v < vectors; v++)
            sums[m][v] = add ? load(C + m * C_row + v * VL) : bias != NULL ? load(bias + v * VL) : splat(0.0F);
    for (size_t k = 0; k < K; k++) {
        vf right[TILE_VECTORS];
        for (size_t v = 0; v < vectors; v++) right[v] = load(B.at + k * B.row + v * VL);
        for (size_t m = 0; m < rows; m++) {
            const vf left = splat(A.at[m * A.row + k * A.column]);
            for (size_t v = 0; v < vectors; v++) sums[m][v] += left * right[v];
        }
    }
    for (size_t m = 0; m < rows; m++)
        for (size_t v = 0; v < vectors; v++) store(C + m * C_row + v * VL, sums[m][v]);
}

INLINE void column_of_tiles(float *C, size_t C_row, sf_left A, sf_right B, const float *bias, bool add, size_t M,
                            size_t K, size_t vectors) {
    size_t m = 0;
    for (; m + TILE_ROWS <= M; m += TILE_ROWS)
        tile(C + m * C_row, C_row, (sf_left){A.at + m * A.row, A.row, A.column}, B, bias, add, K, TILE_ROWS, vectors);
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
    case 5:
        tile(rest, C_row, A, B, bias, add, K, 5, vectors);
        break;
    default:
        break;
    }
}

static void panel_of_columns(float *C, size_t C_row, sf_left A, sf_right B, const float *bias, bool add, size_t M,
                             size_t K, size_t vectors) {
    switch (vectors) {
    case 1:
        column_of_tiles(C, C_row, A, B, bias, add, M, K, 1);
        break;
    case 2:
        column_of_tiles(C, C_row, A, B, bias, add, M, K, 2);
        break;
#if defined(__AVX512F__)
    case 3:
        column_of_tiles(C, C_row, A, B, bias, add, M, K, 3);
        break;
    default:
        column_of_tiles(C, C_row, A, B, bias, add, M, K, 4);
        break;
#endif
    }
}

void sf_gemm(float *C /* [M,N] */, size_t C_row, sf_left A, sf_right B, const float *bias /* [N] */, bool add, size_t M,
             size_t N, size_t K) {
    enum { DEPTH = 64, DEEPEST = 128 }; /* of B at a time: it stays in the first-level cache for all rows of A */
    for (size_t n = 0; n < N;) {
        const size_t vectors = (N - n) / VL < TILE_VECTORS ? (N - n) / VL : TILE_VECTORS;
        const float *panel = B.at + n / SF_PANEL * B.panel + n % SF_PANEL;
        for (size_t k = 0; k < K || k == 0;) {
            const size_t depth = K - k > DEEPEST ? DEPTH : K - k;
            panel_of_columns(C + n, C_row, (sf_left){A.at + k * A.column, A.row, A.column},
                             (sf_right){panel + k * B.row, B.row, 0}, k == 0 && bias != NULL ? bias + n : NULL,
                             add || k > 0, M, depth, vectors);
            k += depth;
            if (K == 0) break;
        }
        n += vectors * VL;
    }
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
INLINE void transpose_square(float *out, size_t out_row, vf factor, const float *in, size_t in_row, size_t rows) {
    vf a[VL], b[VL];
    for (size_t r = 0; r < VL; r++) a[r] = r < rows ? load(in + r * in_row) * factor : splat(0.0F);
#pragma GCC unroll 16
    for (size_t round = 1; round < VL; round *= 2) {
#pragma GCC unroll 16
        for (size_t i = 0; i < VL / 2; i++) interleave(&b[2 * i], &b[2 * i + 1], a[i], a[i + VL / 2]);
#pragma GCC unroll 16
        for (size_t i = 0; i < VL; i++) a[i] = b[i];
    }
    for (size_t c = 0; c < VL; c++) store(out + c * out_row, a[c]);
}

void sf_transpose(float *out /* [columns,width] */, size_t out_row, size_t width, float factor,
                  const float *in /* [rows,columns] */, size_t in_row, size_t rows, size_t columns) {
    for (size_t r = 0; r < width; r += VL)
        for (size_t c = 0; c < columns; c += VL) {
            float *to = out + c * out_row + r;
            const float *from = in + r * in_row + c;
            if (r + VL <= rows) /* a constant, so that the square stays in registers */
                transpose_square(to, out_row, splat(factor), from, in_row, VL);
            else
                transpose_square(to, out_row, splat(factor), from, in_row, rows > r ? rows - r : 0);
        }
}

sf_right sf_transpose_to_panels(float *out /* [T / 64 rounded up,columns,64] */, float factor,
                                const float *in /* [T,columns] */, size_t in_row, size_t T, size_t columns) {
    for (size_t t = 0; t < T; t += SF_PANEL) {
        const size_t rows = T - t < SF_PANEL ? T - t : SF_PANEL;
        sf_transpose(out + t * columns, SF_PANEL, (rows + 15) / 16 * 16, factor, in + t * in_row, in_row, rows,
                     columns);
    }
    return (sf_right){out, SF_PANEL, columns * SF_PANEL};
}
