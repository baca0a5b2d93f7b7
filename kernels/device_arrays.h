/* Arrays of attention alone, in the memory of a GPU. */
#ifndef SF_KERNELS_DEVICE_ARRAYS_H
#define SF_KERNELS_DEVICE_ARRAYS_H

#include <stddef.h>
#include <stdint.h>

typedef struct sf_device_arrays { /* all [N,H,T,D] but the trace, which is [N,trace bytes], aligned to 64 bytes */
    float *out;                   /* written by forward, read by backward */
    const float *q, *k, *v;
    unsigned char *trace;
    float *dq, *dk, *dv; /* backward */
    const float *dout;
    size_t N;
    uint32_t seed; /* of selectors by chance */
    void *stream;  /* a cudaStream_t, on which the work is done; NULL: the default one */
} sf_device_arrays;

#endif
