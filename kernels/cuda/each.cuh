/* The readout `each`: a label per position, and the loss a mean over the labels of the batch. Logits of 64 rows and 64
 * classes at a time, which are never stored: the backward pass computes them again. */
#ifndef SF_KERNELS_CUDA_EACH_CUH
#define SF_KERNELS_CUDA_EACH_CUH

#include "kernels/cuda/fleet.cuh"
#include "kernels/cuda/tile.cuh"

namespace sf {

enum { SCORE_ROW = TILE + 1 };

/* The label of a row of the pass; below 0: none. */
__device__ inline int32_t label_at(const Member &m, const Pass &pass, uint32_t row) {
    return m.splits[pass.split].labels[(size_t)sequence_at(m, pass, row / m.T) * m.T + row % m.T];
}

/* What 1 / labels of the batch is. */
__device__ inline double share_of_label(const Member &m) {
    return m.labelled > 0 ? 1.0 / (double)m.labelled : 0.0;
}

/* Logits of a tile of rows, whose channels lie in shared memory as [Cp,LD], with 64 classes. */
__device__ inline void logits_of(Accumulators &logits, const float *x, const Member &m, uint32_t first_class,
                                 float *right) {
    const float *weight = m.params + m.head_weight, *bias = m.params + m.head_bias;
    const uint32_t classes = m.classes - first_class < TILE ? m.classes - first_class : TILE;
#pragma unroll
    for (int j = 0; j < THREAD_COLUMNS; j++) {
        const uint32_t c = first_column() + j;
        const float begin = c < classes ? bias[first_class + c] : 0.0F;
#pragma unroll
        for (int i = 0; i < THREAD_ROWS; i++) logits.at[i][j] = begin;
    }
    for (uint32_t k = 0; k < m.Cp; k += TILE) {
        __syncthreads();
        stage_across(right, weight + (size_t)first_class * m.Cp + k, m.Cp, classes, m.Cp - k, 1.0F);
        __syncthreads();
        multiply(logits, x + k * LD, right, m.Cp - k < TILE ? m.Cp - k : TILE);
    }
}

/* The gradient of a logit; slopes: {largest logit, share / sum of the exponentials, gradient at the label}. */
__device__ inline float slope_of_logit(float logit, const float4 &slopes, int32_t label, uint32_t c) {
    return (int32_t)c == label ? slopes.z : exp_below_zero(logit - slopes.x) * slopes.y;
}

/* Channels of rows to shared memory, [Cp,LD]. */
__device__ inline void stage_channels(float *x, const float *from, uint32_t rows, uint32_t Cp) {
    for (uint32_t c = 0; c < Cp; c += TILE) stage_across(x + c * LD, from + c, Cp, rows, Cp - c, 1.0F);
}

/* Shared memory of the kernels: channels, and two tiles. */
inline size_t each_shared(uint32_t Cp) {
    return (size_t)((Cp + TILE - 1) / TILE * TILE + 2 * TILE) * LD * sizeof(float);
}

} // namespace sf

#endif
