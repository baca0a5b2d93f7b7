/* What the kernels of attention on tensor cores share: one head of one sequence, tiles of its rows in shared memory,
 * and dropout on its weights. */
#ifndef SF_KERNELS_CUDA_TENSOR_HEAD_CUH
#define SF_KERNELS_CUDA_TENSOR_HEAD_CUH

#include "kernels/cuda/tensor.cuh"

namespace sf {

enum { KEYS = 64 }; /* of a tile in shared memory */

/* One head of one sequence. The paper's models have one head of 64 channels: their strides are known in advance. */
template <typename P, bool PAPER> struct TensorHead {
    using Stored = typename P::Stored;
    uint32_t n, h, slot, part;          /* part: which of the positions the block of threads is for */
    const Stored *q, *k, *v, *dcontext; /* of position 0 */
    Stored *context, *dq, *dk, *dv;
    uint32_t any_stride, any_context_stride, any_columns;
    __device__ uint32_t stride() const {
        return PAPER ? 3 * SPAN : any_stride;
    }
    __device__ uint32_t context_stride() const {
        return PAPER ? (uint32_t)SPAN : any_context_stride;
    }
    __device__ uint32_t columns() const {
        return PAPER ? (uint32_t)SPAN : any_columns;
    }
};

/* False: the block of threads has nothing to do. */
template <typename P, bool PAPER>
__device__ inline bool head_of(TensorHead<P, PAPER> &head, const Member &m, const Pass &pass, uint32_t block,
                               uint32_t positions /* of a block of threads */) {
    using Stored = typename P::Stored;
    const uint32_t parts = (m.T + positions - 1) / positions, H = PAPER ? 1 : m.H;
    head.part = blockIdx.x % parts;
    head.slot = blockIdx.x / parts;
    head.n = head.slot / H;
    head.h = head.slot % H;
    if (block >= m.L || head.n >= sequences_of(m, pass)) return false;
    const Trace &t = m.traces[pass.training ? block : 0];
    const size_t first = (size_t)head.n * m.T;
    head.any_stride = 3 * m.HDp;
    head.any_context_stride = m.HDp;
    head.any_columns = m.Cp;
    head.q = reinterpret_cast<const Stored *>(t.qkv) + first * head.stride() + head.h * m.Cp;
    head.k = head.q + m.HDp;
    head.v = head.k + m.HDp;
    head.context = reinterpret_cast<Stored *>(t.context) + first * m.HDp + head.h * m.Cp;
    head.dcontext = reinterpret_cast<const Stored *>(t.dcontext) + first * m.HDp + head.h * m.Cp;
    head.dq = reinterpret_cast<Stored *>(t.dqkv) + first * head.stride() + head.h * m.Cp;
    head.dk = head.dq + m.HDp;
    head.dv = head.dk + m.HDp;
    return true;
}

/* Rows on their way to tiles in shared memory, ROWS at a time by a whole block of threads. */
template <typename P, bool PAPER, int ROWS, int THREADS_OF_BLOCK> struct RowStream {
    using Stored = typename P::Stored;
    enum { AT_ONCE = THREADS_OF_BLOCK / chunks_of_row<P> };
    static_assert(ROWS % AT_ONCE == 0 && AT_ONCE % 8 == 0, "a thread's chunks lie in one column");
    const Stored *from; /* the thread's chunk of its first row to come */
    uint32_t position;  /* of that row */
    bool in_columns;

    __device__ RowStream(const Stored *rows, uint32_t stride, uint32_t columns, uint32_t first) {
        const uint32_t chunk = threadIdx.x % chunks_of_row<P>;
        position = first + threadIdx.x / chunks_of_row<P>;
        from = rows + (size_t)position * stride + chunk * P::WIDE;
        in_columns = PAPER || chunk * P::WIDE < columns;
    }

    /* Begins to copy the next rows; those from T on are zeros. */
    __device__ void next(uint4 *tile, uint32_t stride, uint32_t T) {
        uint4 *const to = tile_chunk<P>(tile, threadIdx.x / chunks_of_row<P>, threadIdx.x % chunks_of_row<P>);
#pragma unroll
        for (uint32_t i = 0; i < ROWS; i += AT_ONCE) {
            const bool real = in_columns && position + i < T;
            copy_async(to + i * chunks_of_row<P>, real ? from + (size_t)i * stride : from, real);
        }
        from += (size_t)ROWS * stride;
        position += ROWS;
    }
};

/* What dropout keeps of the weights of 64 keys from tile * 64 on, for 16 queries from first_query on: the lane's word,
 * as kept_word() says. */
__device__ inline uint32_t draw_weights(const Member &m, const Index &index, uint32_t first_query, uint32_t lane,
                                        uint32_t tile, uint32_t threshold) {
    const uint32_t query = first_query + lane / QUAD, each = draws_per_row(m.T);
    const Index both[2] = {index, index};
    const uint32_t draws[2] = {query * each + tile * 8, (query + 8) * each + tile * 8};
    return kept_word(both, draws, lane % QUAD, threshold);
}

/* Where the trace has that word. */
__device__ inline size_t weight_word(const Member &m, uint32_t slot, uint32_t first_query, uint32_t tile) {
    const uint32_t rows = (m.T + WARP_ROWS - 1) / WARP_ROWS, tiles = (m.T + KEYS - 1) / KEYS;
    return (((size_t)slot * rows + first_query / WARP_ROWS) * tiles + tile) * 32;
}

typedef void TensorKernel(const Member *, Pass, uint32_t);

/* One block of threads for so many positions of every head of every sequence. */
inline void launch_heads(TensorKernel *kernel, uint32_t threads, size_t shared, uint32_t positions,
                         const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    const uint32_t parts = (launch->most_length + positions - 1) / positions;
    const dim3 grid(launch->most_sequences * launch->most_heads * parts, launch->members);
    launch_kernel(kernel, grid, threads, shared, launch->stream, launch->fleet, *pass, block);
}

inline cudaError_t reserve(TensorKernel *kernel, size_t shared) {
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
}

} // namespace sf

#endif
