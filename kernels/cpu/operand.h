/* The right-hand side of a matrix product. */
#ifndef SF_KERNELS_CPU_OPERAND_H
#define SF_KERNELS_CPU_OPERAND_H

#include <stdbool.h>
#include <stddef.h>

enum { SF_PANEL = 64 };

typedef struct sf_right { /* B: element (k, n) is at[n / 64 * panel + k * row + n % 64] */
    const float *at;
    size_t row;
    size_t panel;  /* SF_PANEL for plain rows of N contiguous floats */
    bool prepared; /* in tiles instead, `row` of them side by side */
} sf_right;

#endif
