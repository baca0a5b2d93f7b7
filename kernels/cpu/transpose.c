#include "kernels/cpu/gemm.h"
#include "kernels/cpu/simd.h"

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
    return (sf_right){.at = out, .row = SF_PANEL, .panel = columns * SF_PANEL};
}
