/* What every kernel asks of a member: which sequences, which random numbers, which parameters. */
#ifndef SF_KERNELS_CUDA_FLEET_CUH
#define SF_KERNELS_CUDA_FLEET_CUH

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/member.h"
#include "kernels/cuda/numerics.cuh"

namespace sf {

using Member = sf_cuda_member;
using Trace = sf_cuda_trace;
using Rates = sf_cuda_rates;
using Split = sf_cuda_split;
using Pass = sf_cuda_pass;
using Parts = sf_cuda_parts;

enum { MOST_CHUNKS = SF_CUDA_CHUNKS, GROUP_ROWS = 128, KEY_TILE = 128, STRETCH = SF_CUDA_STRETCH };
enum {
    DENSE = SF_CUDA_DENSE,
    BY_PARTS = SF_CUDA_BY_PARTS,
    BY_PATTERN = SF_CUDA_BY_PATTERN,
    BY_LARGEST = SF_CUDA_BY_LARGEST,
    BY_SMALLEST = SF_CUDA_BY_SMALLEST,
    BY_CHANCE = SF_CUDA_BY_CHANCE
};
enum { MEAN = SF_CUDA_MEAN, LAST = SF_CUDA_LAST, CLS = SF_CUDA_CLS, EACH = SF_CUDA_EACH };
enum Param { WQ, BQ, WK, BK, WV, BV, WO, BO, W1, B1, W2, B2 }; /* as SF_WQ .. */

/* Widths, as constants for the paper's models: loops over them are then unrolled. */
struct Shape {
    uint32_t C, Cp, F, Fp, H, D, Dp, HDp;
};

template <bool PAPER> __device__ inline Shape shape_of(const Member &m) {
    if (PAPER) return {64, 64, 64, 64, 1, 64, 64, 64};
    return {m.C, m.Cp, m.F, m.Fp, m.H, m.D, m.Dp, m.HDp};
}

__device__ inline uint32_t steps_of(const Member &m) {
    return (m.splits[0].count + m.batch - 1) / m.batch;
}

/* Sequences of the pass; 0: nothing to do. */
__device__ inline uint32_t sequences_of(const Member &m, const Pass &pass) {
    if (!m.active || *m.stopped != 0) return 0;
    if (pass.training) {
        if (m.diverged_step != 0 || m.step >= steps_of(m)) return 0;
        const uint32_t left = m.splits[0].count - m.step * m.batch;
        return left < m.batch ? left : m.batch;
    }
    const uint32_t count = m.splits[pass.split].count;
    if (pass.first >= count) return 0;
    return count - pass.first < pass.at_once ? count - pass.first : pass.at_once;
}

/* Which sequence of its set the n-th of the pass is. */
__device__ inline uint32_t sequence_at(const Member &m, const Pass &pass, uint32_t n) {
    return pass.training ? m.order[m.step * m.batch + n] : pass.first + n;
}

__device__ inline Index index_of(const Member &m, const Pass &pass, uint32_t purpose, uint32_t block, uint32_t head,
                                 uint32_t n) {
    const uint32_t epoch = pass.epoch + (pass.training ? m.epoch : 0), step = pass.step + (pass.training ? m.step : 0);
    if (purpose == RANDOM_KEYS && pass.evaluation_keys) purpose = RANDOM_KEYS_EVALUATION;
    return {m.seed, stream_of(purpose, block, head), epoch, step, pass.first_sample + n};
}

__device__ inline uint32_t threshold_of(const Member &m, const Pass &pass) {
    return pass.training ? m.threshold : 0;
}

/* Chunk c of a batch of B: consecutive sequences, sizes differ by at most one, the longer ones first. */
__device__ inline uint32_t chunks_of(uint32_t B) {
    return B < MOST_CHUNKS ? B : MOST_CHUNKS;
}
__device__ inline uint32_t chunk_begin(uint32_t B, uint32_t chunk) {
    const uint32_t chunks = chunks_of(B), longer = B % chunks;
    return chunk * (B / chunks) + (chunk < longer ? chunk : longer);
}
__device__ inline uint32_t chunk_with(uint32_t B, uint32_t n) {
    const uint32_t chunks = chunks_of(B), shorter = B / chunks, in_longer = B % chunks * (shorter + 1);
    return n < in_longer ? n / (shorter + 1) : B % chunks + (n - in_longer) / shorter;
}

__device__ inline bool skips_chunk(const Pass &pass, uint32_t chunk) {
    return pass.skipped >> chunk & 1;
}
__device__ inline bool skips_sequence(const Pass &pass, uint32_t B, uint32_t n) {
    return pass.skipped != 0 && skips_chunk(pass, chunk_with(B, n));
}

__device__ inline const float *block_param(const Member &m, uint32_t block, int which) {
    return m.params + m.block_params[which] + (size_t)block * m.block_size;
}

} // namespace sf

#endif
