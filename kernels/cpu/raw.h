/* Attention alone, between plain arrays: what programs use that have a model of their own. */
#ifndef SF_KERNELS_CPU_RAW_H
#define SF_KERNELS_CPU_RAW_H

#include "kernels/cpu/cpu.h"

typedef struct sf_raw sf_raw; /* a plan, and workers with their memory; one call at a time */

/* The attention is resolved for T and knows whether it is causal. */
sf_status sf_raw_open(sf_raw **out, const sf_attention *attention, double scale, size_t H, size_t T, size_t D,
                      size_t workers);
void sf_raw_close(sf_raw *raw); /* NULL is legal */

/* What forward leaves for backward: bytes per sequence, a multiple of 64. */
size_t sf_raw_trace_bytes(const sf_raw *raw);

typedef struct sf_raw_arrays { /* all [N,H,T,D] but the trace, which is [N,trace bytes], aligned to 64 bytes */
    float *out;                /* written by forward, read by backward */
    const float *q, *k, *v;
    unsigned char *trace;
    float *dq, *dk, *dv; /* backward */
    const float *dout;
    size_t N;
    uint32_t seed; /* of selectors by chance */
} sf_raw_arrays;

/* SF_BAD_INPUT if a part of the mechanism broke its rules. */
sf_status sf_raw_forward(sf_raw *raw, const sf_raw_arrays *arrays);
sf_status sf_raw_backward(sf_raw *raw, const sf_raw_arrays *arrays);

#endif
