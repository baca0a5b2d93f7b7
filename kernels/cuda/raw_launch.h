/* Launches of the kernels that only attention alone needs: raw.cu. */
#ifndef SF_KERNELS_CUDA_RAW_LAUNCH_H
#define SF_KERNELS_CUDA_RAW_LAUNCH_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#include "kernels/cuda/member.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes a member and the trace of its block to where the kernels find them, in the order of the stream. */
void sf_cuda_place(cudaStream_t stream, sf_cuda_member *to, const sf_cuda_member *member, const sf_cuda_trace *trace);

typedef struct sf_cuda_heads { /* [count,H,T,D], and as rows [count,T,stride], of which H padded heads are used */
    size_t count, H, T, D, Dp, stride;
} sf_cuda_heads;

void sf_cuda_pack(cudaStream_t stream, float *rows, const float *heads, const sf_cuda_heads *sizes);
void sf_cuda_unpack(cudaStream_t stream, float *heads, const float *rows, const sf_cuda_heads *sizes);

#ifdef __cplusplus
}
#endif

#endif
