#include "kernels/cpu/gemm.h"
#include "kernels/cpu/simd.h"

INLINE void transpose_square(float *out, size_t out_row, vf factor, const float *in, size_t in_row, size_t rows) {
    vf square[VL];
    for (size_t r = 0; r < VL; r++) square[r] = r < rows ? load(in + r * in_row) * factor : splat(0.0F);
    transpose_lanes(square);
    for (size_t c = 0; c < VL; c++) store(out + c * out_row, square[c]);
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
