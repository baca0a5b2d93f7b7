/* Matrix products on padded rows. gemm.c computes them with vectors, gemm_tiles.c with the tiles of AMX. */
#ifndef SF_KERNELS_CPU_GEMM_H
#define SF_KERNELS_CPU_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/plan.h"

#define sf_gemm                ISA(sf_gemm)
#define sf_gemm_begin          ISA(sf_gemm_begin)
#define sf_gemm_end            ISA(sf_gemm_end)
#define sf_prepared_size       ISA(sf_prepared_size)
#define sf_prepare             ISA(sf_prepare)
#define sf_prepare_left        ISA(sf_prepare_left)
#define sf_left_from           ISA(sf_left_from)
#define sf_right_from          ISA(sf_right_from)
#define sf_transpose           ISA(sf_transpose)
#define sf_transpose_to_panels ISA(sf_transpose_to_panels)

typedef struct sf_left { /* A, read as A[m * row + k * column]: one of the strides is 1 */
    const float *at;
    size_t row, column;
    bool prepared; /* in tiles instead, `row` of them side by side */
} sf_left;

static inline sf_left sf_upright(const float *at, size_t row) {
    return (sf_left){.at = at, .row = row, .column = 1};
}

static inline sf_left sf_transposed(const float *at, size_t row) {
    return (sf_left){.at = at, .row = 1, .column = row};
}

static inline sf_right sf_plain(const float *at, size_t row) {
    return (sf_right){.at = at, .row = row, .panel = SF_PANEL};
}

/* A thread may multiply only between these two calls. */
void sf_gemm_begin(void);
void sf_gemm_end(void);

/* C[M,N] = A[M,K] B[K,N], plus what C held (add), plus a bias row (not NULL, only without add). N is a multiple of 16.
 * From a transposed A, whole vectors of 16 columns are read. */
void sf_gemm(float *C /* [M,N] */, size_t C_row, sf_left A, sf_right B, const float *bias /* [N] */, bool add, size_t M,
             size_t N, size_t K);

/* A factor in the form that is fastest to multiply, worthwhile if several products share it: written to `room`, or the
 * factor itself. */
size_t sf_prepared_size(size_t K, size_t N); /* floats of room; for A, with N = M */
sf_right sf_prepare(float *room, sf_right B, size_t K, size_t N);
sf_left sf_prepare_left(float *room, sf_left A, size_t M, size_t K);
/* The part of A from row m (a multiple of 16 if prepared) on. */
sf_left sf_left_from(sf_left A, size_t m);
/* The part of B from row k (a multiple of 32 if prepared) and column n (a multiple of 64) on. */
sf_right sf_right_from(sf_right B, size_t k, size_t n);

/* B = factor * transpose of in [T,columns], as panels of 64: element (c, t) at out[t / 64 * columns * 64 + c * 64 + t %
 * 64]; 0 for t >= T. Returns how to read it. */
sf_right sf_transpose_to_panels(float *out /* [T / 64 rounded up,columns,64] */, float factor,
                                const float *in /* [T,columns] */, size_t in_row, size_t T, size_t columns);

/* out[c][r] = factor * in[r][c] for r < rows, 0 for rows <= r < width; width and columns are multiples of 16. */
void sf_transpose(float *out /* [columns,width] */, size_t out_row, size_t width, float factor,
                  const float *in /* [rows,columns] */, size_t in_row, size_t rows, size_t columns);

#endif
