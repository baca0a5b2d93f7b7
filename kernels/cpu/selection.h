#ifndef SF_KERNELS_CPU_SELECTION_H
#define SF_KERNELS_CPU_SELECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu/isa.h"

#define sf_select ISA(sf_select)

/* For every query, the indices of its K greatest (or smallest) scores, ascending; ties go to the lower index, NaN
 * counts as -infinity. K is at most T and SF_FAST_TOPK_MOST; whole vectors of scores are read. */
void sf_select(uint32_t *keys /* [queries,K] */, const float *scores /* [queries,T, padded] */, size_t row,
               bool greatest, size_t queries, size_t T, size_t K);

#endif
