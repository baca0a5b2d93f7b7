/* Attention alone, between plain arrays in the memory of a GPU, by the kernels of models: what kernels/cpu/raw.h is on
 * the CPU, with the same bits. Calls return before the work is done, which is in order on the caller's stream. */
#ifndef SF_KERNELS_CUDA_RAW_H
#define SF_KERNELS_CUDA_RAW_H

#include "base/status.h"
#include "kernels/device_arrays.h"
#include "kernels/kernels.h"

typedef struct sf_cuda_raw sf_cuda_raw; /* one call at a time; memory of the device is taken by the first */

/* The attention is resolved for T and knows whether it is causal. Needs no GPU. SF_UNSUPPORTED, with a clause, where
 * there is no kernel. */
sf_status sf_cuda_raw_open(sf_cuda_raw **out, const sf_attention *attention, double scale, size_t H, size_t T, size_t D,
                           size_t device);
void sf_cuda_raw_close(sf_cuda_raw *raw); /* NULL is legal */

/* What forward leaves for backward: bytes per sequence, a multiple of 64. */
size_t sf_cuda_raw_trace_bytes(const sf_cuda_raw *raw);

sf_status sf_cuda_raw_forward(sf_cuda_raw *raw, const sf_device_arrays *arrays);
sf_status sf_cuda_raw_backward(sf_cuda_raw *raw, const sf_device_arrays *arrays);

#endif
