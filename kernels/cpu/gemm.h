/* Matrix products on padded rows. */
#ifndef SF_KERNELS_CPU_GEMM_H
#define SF_KERNELS_CPU_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/cpu/isa.h"

#define sf_gemm                ISA(sf_gemm)
#define sf_transpose           ISA(sf_transpose)
#define sf_transpose_to_panels ISA(sf_transpose_to_panels)

typedef struct sf_left { /* A, read as A[m * row + k * column]: any strides, so also a transpose */
    const float *at;
    size_t row, column;
} sf_left;

enum { SF_PANEL = 64 };

typedef struct sf_right { /* B: element (k, n) at[n / 64 * panel + k * row + n % 64] */
    const float *at;
    size_t row;
    size_t panel; /* SF_PANEL for plain rows of N contiguous floats */
} sf_right;

static inline sf_right sf_plain(const float *at, size_t row) {
    return (sf_right){at, row, SF_PANEL};
}

/* C[M,N] = A[M,K] B[K,N], plus what C held (add), plus a bias row (not NULL, only without add). N is a multiple of 16.
 */
void sf_gemm(float *C /* [M,N] */, size_t C_row, sf_left A, sf_right B, const float *bias /* [N] */, bool add, size_t M,
             size_t N, size_t K);

/* B = factor * transpose of in [T,columns], as panels of 64: element (c, t) at out[t / 64 * columns * 64 + c * 64 + t %
 * 64]; 0 for t >= T. Returns how to read it. */
sf_right sf_transpose_to_panels(float *out /* [T / 64 rounded up,columns,64] */, float factor,
                                const float *in /* [T,columns] */, size_t in_row, size_t T, size_t columns);

/* out[c][r] = factor * in[r][c] for r < rows, 0 for rows <= r < width; width and columns are multiples of 16. */
void sf_transpose(float *out /* [columns,width] */, size_t out_row, size_t width, float factor,
                  const float *in /* [rows,columns] */, size_t in_row, size_t rows, size_t columns);

#endif
