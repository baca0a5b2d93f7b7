/* Attention alone, in double. */
#ifndef SF_KERNELS_REFERENCE_RAW_H
#define SF_KERNELS_REFERENCE_RAW_H

#include "kernels/kernels.h"

typedef struct sf_ref_arrays { /* all [N,H,T,D] */
    double *out;
    const double *q, *k, *v;
    double *dq, *dk, *dv; /* NULL: forward only */
    const double *dout;
    size_t N;
    uint32_t seed; /* of selectors by chance */
} sf_ref_arrays;

/* The attention is resolved for T. SF_BAD_INPUT if a part of the mechanism broke its rules. */
sf_status sf_ref_raw_run(const sf_ref_arrays *arrays, const sf_attention *attention, double scale, size_t H, size_t T,
                         size_t D);

#endif
