/* Attention alone on a GPU (kernels/cuda/raw.h). In a build without CUDA, sf_gpu_attention_open() says so, and nothing
 * else is called. */
#ifndef SF_TRAIN_GPU_ATTENTION_H
#define SF_TRAIN_GPU_ATTENTION_H

#include "base/status.h"
#include "kernels/device_arrays.h"
#include "kernels/kernels.h"

typedef struct sf_gpu_attention sf_gpu_attention; /* one call at a time */

/* The attention is resolved for T and knows whether it is causal. Needs no GPU: that is looked for by the first call.
 */
sf_status sf_gpu_attention_open(sf_gpu_attention **out, const sf_attention *attention, double scale, size_t H, size_t T,
                                size_t D, size_t device);
void sf_gpu_attention_close(sf_gpu_attention *attention); /* NULL is legal */

/* What forward leaves for backward: bytes per sequence, a multiple of 64. */
size_t sf_gpu_attention_trace_bytes(const sf_gpu_attention *attention);

sf_status sf_gpu_attention_forward(sf_gpu_attention *attention, const sf_device_arrays *arrays);
sf_status sf_gpu_attention_backward(sf_gpu_attention *attention, const sf_device_arrays *arrays);

#endif
