/* What both kernels of attention share: one head of one sequence, and products of its rows. */
#ifndef SF_KERNELS_CUDA_HEAD_CUH
#define SF_KERNELS_CUDA_HEAD_CUH

#include "kernels/cuda/fleet.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tile.cuh"

namespace sf {

struct Head { /* one head of one sequence, and a tile of its queries or keys */
    uint32_t n, h, slot, tile;
    const float *q, *k, *v; /* of position 0 */
    float *context;
    const float *dcontext;
    float *dq, *dk, *dv;
    uint32_t stride;
};

/* Fills in the rest, from n and h. */
__device__ inline void aim(Head &head, const Member &m, const Shape &s, const Pass &pass, uint32_t block) {
    const Trace &t = m.traces[pass.training ? block : 0];
    const size_t first = (size_t)head.n * m.T;
    head.stride = 3 * s.HDp;
    head.q = t.qkv + first * head.stride + head.h * s.Dp;
    head.k = head.q + s.HDp;
    head.v = head.k + s.HDp;
    head.context = t.context + first * s.HDp + head.h * s.Dp;
    if (!pass.training) return;
    head.dcontext = t.dcontext + first * s.HDp + head.h * s.Dp;
    head.dq = t.dqkv + first * head.stride + head.h * s.Dp;
    head.dk = head.dq + s.HDp;
    head.dv = head.dk + s.HDp;
}

/* False: the block of threads has nothing to do, or the pass skips the sequence. */
__device__ inline bool head_of(Head &head, const Member &m, const Shape &s, const Pass &pass, uint32_t block) {
    const uint32_t B = sequences_of(m, pass);
    if (B == 0) return false; /* a free place has no positions to divide by */
    const uint32_t tiles = (m.T + TILE - 1) / TILE;
    head.tile = blockIdx.x % tiles;
    head.slot = blockIdx.x / tiles;
    head.n = head.slot / s.H;
    head.h = head.slot % s.H;
    if (head.n >= B || skips_sequence(pass, B, head.n)) return false;
    aim(head, m, s, pass, block);
    return true;
}

/* The same of a tile that the caller chose. The lines above are written out: in one function with these, the kernels of
 * the paper's mechanisms take more registers. */
__device__ inline bool head_at(Head &head, const Member &m, const Shape &s, const Pass &pass, uint32_t block,
                               uint32_t slot, uint32_t tile) {
    const uint32_t B = sequences_of(m, pass);
    head.tile = tile;
    head.slot = slot;
    head.n = slot / s.H;
    head.h = slot % s.H;
    if (head.n >= B || skips_sequence(pass, B, head.n)) return false;
    aim(head, m, s, pass, block);
    return true;
}

__device__ inline uint32_t left_of(uint32_t all, uint32_t first) {
    return all <= first ? 0 : all - first < TILE ? all - first : TILE;
}

/* sums = rows of `a` from first_a on times rows of `b` from first_b on, which are scaled. */
__device__ inline void scores_of(Accumulators &sums, const float *a, size_t a_row, uint32_t first_a, const float *b,
                                 size_t b_row, uint32_t first_b, float scale, uint32_t T, uint32_t Cp, float *left,
                                 float *right) {
    clear(sums);
    for (uint32_t c = 0; c < Cp; c += TILE) {
        __syncthreads();
        stage_across(left, a + first_a * a_row + c, a_row, left_of(T, first_a), Cp - c, 1.0F);
        stage_across(right, b + first_b * b_row + c, b_row, left_of(T, first_b), Cp - c, scale);
        __syncthreads();
        multiply(sums, left, right, Cp - c < TILE ? Cp - c : TILE);
    }
    __syncthreads();
}

typedef void AttentionKernel(const Member *, Pass, uint32_t);

/* One block of threads per tile of positions of every head of every sequence. */
inline void launch_attention(AttentionKernel *kernel, size_t shared, const sf_cuda_launch *launch,
                             const sf_cuda_pass *pass, uint32_t block) {
    const uint32_t tiles = (launch->most_length + TILE - 1) / TILE;
    const dim3 grid(launch->most_sequences * launch->most_heads * tiles, launch->members);
    launch_kernel(kernel, grid, THREADS, shared, launch->stream, launch->fleet, *pass, block);
}

inline cudaError_t reserve_shared(AttentionKernel *const *kernels, size_t count) {
    enum { MOST_SHARED = 225 * 1024 };
    for (size_t i = 0; i < count; i++) {
        const cudaError_t error =
            cudaFuncSetAttribute(kernels[i], cudaFuncAttributeMaxDynamicSharedMemorySize, MOST_SHARED);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}

} // namespace sf

#endif
