/* Kernels of whole sequences (whole.cuh): one launch takes a step's forward and backward pass, or an evaluation. A file
 * for each precision instantiates them. */
#ifndef SF_KERNELS_CUDA_WHOLE_KERNELS_CUH
#define SF_KERNELS_CUDA_WHOLE_KERNELS_CUH

#include "kernels/cuda/judge.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/whole_kept.cuh"
#include "kernels/cuda/whole_launch.cuh"
#include "kernels/cuda/whole_layers.cuh"

namespace sf {
namespace whole {

/* Mean over positions, logits and loss of the round's sequences, in double, as head.cu has them. x lies in a, and b is
 * free. */
static __device__ void classify(const Work &w) {
    const Member &m = *w.m;
    const float *weight = m.params + m.head_weight, *bias = m.params + m.head_bias;
    double *const pooled = reinterpret_cast<double *>(w.shared.b); /* [count,WIDTH] */
    for (uint32_t at = threadIdx.x; at < w.count * WIDTH; at += THREADS) {
        const float *x = w.shared.a + at / WIDTH * w.T * LD + at % WIDTH;
        double sum = 0;
#pragma unroll 8
        for (uint32_t t = 0; t < w.T; t++) sum += (double)x[t * LD];
        pooled[at] = sum / (double)w.T;
        m.pooled[(size_t)w.first * WIDTH + at] = pooled[at];
    }
    __syncthreads();
    for (uint32_t at = threadIdx.x; at < w.count * m.classes; at += THREADS) {
        const uint32_t n = w.first + at / m.classes, i = at % m.classes;
        double sum = (double)bias[i];
#pragma unroll 16
        for (uint32_t c = 0; c < WIDTH; c++)
            sum += pooled[at / m.classes * WIDTH + c] * (double)weight[(size_t)i * WIDTH + c];
        m.slopes[(size_t)n * m.classes + i] = sum;
        if (!w.pass.training) m.logits[(size_t)n * m.classes + i] = (float)sum;
    }
    __syncthreads();
    for (uint32_t s = threadIdx.x; s < w.count; s += THREADS) judge(m, w.pass, w.first + s);
    __syncthreads();
}

/* The gradient of the last layer's output, the same at every position. Uses b. */
template <sf_precision P> static __device__ void begin_backward(Tile<P> &dx, const Work &w) {
    const Member &m = *w.m;
    const float *weight = m.params + m.head_weight;
    for (uint32_t at = threadIdx.x; at < w.count * WIDTH; at += THREADS) {
        const uint32_t n = w.first + at / WIDTH, c = at % WIDTH;
        double slope = 0;
        for (uint32_t i = 0; i < m.classes; i++)
            slope += m.slopes[(size_t)n * m.classes + i] * (double)weight[(size_t)i * WIDTH + c];
        w.shared.b[at] = (float)(slope / (double)m.T);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < Tile<P>::R; i++)
#pragma unroll
        for (int j = 0; j < Tile<P>::C; j++)
            dx.at[i][j] = row_of<P>(i) < w.rows ? w.shared.b[row_of<P>(i) / m.T * WIDTH + column_of<P>(j)] : 0.0F;
    __syncthreads();
}

/* The gradient of the embedding, from dx in a: a thread has one channel and every fourth token, eight at a time. */
static __device__ void add_embedding_gradient(const Work &w) {
    enum { SHARE = THREADS / WIDTH, TOKENS = 8 };
    const Member &m = *w.m;
    float *const table = w.gradient + m.embedding;
    int32_t *const tokens = reinterpret_cast<int32_t *>(w.shared.weights); /* [rows] */
    for (uint32_t row = threadIdx.x; row < w.rows; row += THREADS)
        tokens[row] = m.splits[0].tokens[(size_t)sequence_at(m, w.pass, w.first + row / w.T) * w.T + row % w.T];
    __syncthreads();
    const uint32_t c = threadIdx.x % WIDTH, rest = threadIdx.x / WIDTH;
    const float scale = m.embedding_scale;
    for (uint32_t first = rest; first < m.V; first += SHARE * TOKENS) {
        float sums[TOKENS];
#pragma unroll
        for (int i = 0; i < TOKENS; i++) {
            const uint32_t token = first + i * SHARE;
            sums[i] = w.begins || token >= m.V ? 0.0F : table[token * WIDTH + c];
        }
#pragma unroll 4
        for (uint32_t row = 0; row < w.rows; row++) {
            const float slope = w.shared.a[row * LD + c];
            const uint32_t token = (uint32_t)tokens[row];
#pragma unroll
            for (int i = 0; i < TOKENS; i++)
                if (token == first + i * SHARE) sums[i] = __fmaf_rn(scale, slope, sums[i]);
        }
#pragma unroll
        for (int i = 0; i < TOKENS; i++)
            if (first + i * SHARE < m.V) table[(first + i * SHARE) * WIDTH + c] = sums[i];
    }
}

/* Gradients of the embedding, from dx in a, and of the head. */
static __device__ void add_end_gradients(const Work &w) {
    const Member &m = *w.m;
    float *const dweight = w.gradient + m.head_weight, *const dbias = w.gradient + m.head_bias;
    add_embedding_gradient(w);
    for (uint32_t at = threadIdx.x; at < m.classes * WIDTH; at += THREADS) {
        float sum = w.begins ? 0.0F : dweight[at];
        for (uint32_t n = w.first; n < w.first + w.count; n++)
            sum += (float)(m.slopes[(size_t)n * m.classes + at / WIDTH] * m.pooled[(size_t)n * WIDTH + at % WIDTH]);
        dweight[at] = sum;
    }
    for (uint32_t i = threadIdx.x; i < m.classes; i += THREADS) {
        float sum = w.begins ? 0.0F : dbias[i];
        for (uint32_t n = w.first; n < w.first + w.count; n++) sum += (float)m.slopes[(size_t)n * m.classes + i];
        dbias[i] = sum;
    }
    __syncthreads();
}

template <int KEYS, sf_precision P> static __device__ void forward(Work &w, Tile<P> &x, const Scratch &scratch) {
    const Member &m = *w.m;
    w.slot = 0;
    fetch_weight(w, w.slot, arranged(w, 0, V, FORWARD));
    embed(x, w, scratch.embedding_drops);
    for (uint32_t layer = 0; layer < m.L; layer++) {
        const Trace t = trace_at(w.memory, w.pass.training ? layer : 0);
        project(w, x, t, layer);
        if (m.selection == DENSE)
            dense_forward<KEYS, P>(w, t, layer);
        else
            kept_forward<KEYS, P>(w, t, layer);
        const float *next = layer + 1 < m.L   ? arranged(w, layer + 1, V, FORWARD)
                            : w.pass.training ? arranged(w, layer, TWO, BACKWARD)
                                              : nullptr;
        join_and_transform(w, x, t, layer, next);
    }
    __syncthreads();
    put_tile(w.shared.a, x);
    __syncthreads();
    classify(w);
}

template <int KEYS, sf_precision P> static __device__ void backward(Work &w, Tile<P> &dx, const Scratch &scratch) {
    const Member &m = *w.m;
    begin_backward(dx, w);
    for (uint32_t layer = m.L; layer-- > 0;) {
        const Trace t = trace_at(w.memory, layer);
        transform_backward(w, dx, t, scratch, layer);
        if (m.selection == DENSE)
            dense_backward<KEYS, P>(w, t, scratch);
        else
            kept_backward<P>(w, t, scratch);
        project_backward(w, dx, t, scratch, layer, layer > 0 ? arranged(w, layer - 1, TWO, BACKWARD) : nullptr);
    }
    drop(dx, dx, w, scratch.embedding_drops[threadIdx.x]);
    __syncthreads();
    put_tile(w.shared.a, dx);
    __syncthreads();
    add_end_gradients(w);
}

/* One block of threads per chunk: grid (members, chunks), so that the longest chunks, which come first, begin first. */
template <int KEYS, sf_precision P>
static __global__ void __launch_bounds__(THREADS, 2) train_whole(const Member *__restrict__ members, Pass pass) {
    SF_DYNAMIC_SHARED(float, shared);
    const Member &m = members[blockIdx.x];
    const uint32_t B = sequences_of(m, pass), chunk = blockIdx.y;
    if (class_of(m.T) != KEYS || B == 0 || chunk >= chunks_of(B) || skips_chunk(pass, chunk)) return;
    Work w = work_of(m, pass, shared);
    w.memory = m.whole + (size_t)chunk * (m.L * SF_CUDA_WHOLE_LAYER + SF_CUDA_WHOLE_SCRATCH);
    w.gradient = m.chunks + (size_t)chunk * m.size;
    const Scratch scratch = scratch_at(w.memory, m.L);
    const uint32_t begin = chunk_begin(B, chunk), end = chunk_begin(B, chunk + 1);
    for (w.first = begin; w.first < end; w.first += ROWS / m.T) {
        w.begins = w.first == begin;
        w.count = end - w.first < ROWS / m.T ? end - w.first : ROWS / m.T;
        w.rows = w.count * m.T;
        Tile<P> x;
        forward<KEYS, P>(w, x, scratch);
        backward<KEYS, P>(w, x, scratch);
    }
}

/* One block of threads per 128 rows: grid (groups of sequences, members). */
template <int KEYS, sf_precision P>
static __global__ void __launch_bounds__(THREADS, 2) evaluate_whole(const Member *__restrict__ members, Pass pass) {
    SF_DYNAMIC_SHARED(float, shared);
    const Member &m = members[blockIdx.y];
    const uint32_t B = sequences_of(m, pass), at_once = ROWS / m.T;
    if (class_of(m.T) != KEYS || blockIdx.x * at_once >= B) return;
    Work w = work_of(m, pass, shared);
    w.memory = m.whole + (size_t)blockIdx.x * TILE_FLOATS; /* v alone is stored, at its beginning */
    w.begins = true;
    w.first = blockIdx.x * at_once;
    w.count = B - w.first < at_once ? B - w.first : at_once;
    w.rows = w.count * m.T;
    Tile<P> x;
    forward<KEYS, P>(w, x, scratch_at(w.memory, 1));
}

/* Where the products take an element of a weight from, and in bf16 which half of it; and where an element of the bias.
 */
template <sf_precision P> static __device__ uint32_t weight_place(uint32_t depth, uint32_t column, bool side_by_side) {
    if (P == SF_F32) return depth * WIDTH + (side_by_side ? column : interleaved(column));
    const uint32_t step = depth / DEPTH<P>, within = depth % DEPTH<P>, n = column / EIGHT, g = column % EIGHT;
    const uint32_t half = P == SF_TF32 ? within / 4 : within / 8;  /* b[0] or b[1] */
    const uint32_t t = P == SF_TF32 ? within % 4 : within % 8 / 2; /* of the thread */
    const uint32_t at = ((step * 4 + n / 2) * 32 + g * 4 + t) * 4 + n % 2 * 2 + half;
    return P == SF_TF32 ? at : at * 2 + within % 2;
}

template <sf_precision P> static __device__ void put_weight(float *to, uint32_t at, float value) {
    if (P == SF_F32)
        to[at] = value;
    else if (P == SF_TF32)
        to[at] = __uint_as_float(to_tf32(value));
    else
        reinterpret_cast<uint16_t *>(to)[at] = (uint16_t)pack_bf16(value, 0.0F);
}

/* The weights of every layer as products take them: grid (layers * 6, members). */
template <sf_precision P>
static __global__ void __launch_bounds__(THREADS) arrange(const Member *__restrict__ members) {
    __shared__ float matrix[WIDTH][WIDTH + 1];
    const Member &m = members[blockIdx.y];
    const uint32_t layer = blockIdx.x / 6, which = blockIdx.x % 6;
    if (!m.active || layer >= m.L) return;
    const float *from = block_param(m, layer, 2 * (int)which), *bias = block_param(m, layer, 2 * (int)which + 1);
    float *const forward = m.arranged + (size_t)(layer * 6 + which) * 2 * WEIGHT, *const backward = forward + WEIGHT;
    const bool side_by_side = which < O;
    for (uint32_t i = threadIdx.x; i < WIDTH; i += THREADS)
        forward[MATRIX + (P == SF_F32 && !side_by_side ? interleaved(i) : i)] = bias[i];
    for (uint32_t i = threadIdx.x; i < MATRIX; i += THREADS) matrix[i / WIDTH][i % WIDTH] = from[i];
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < MATRIX; i += THREADS) {
        const uint32_t depth = i / WIDTH, column = i % WIDTH;
        put_weight<P>(forward, weight_place<P>(depth, column, side_by_side), matrix[column][depth]);
        put_weight<P>(backward, weight_place<P>(depth, column, false), matrix[depth][column]);
    }
}

/* ---- launches */

typedef void WholeKernel(const Member *, Pass);

template <sf_precision P> cudaError_t prepare() {
    WholeKernel *const kernels[] = {train_whole<5, P>, train_whole<8, P>, evaluate_whole<5, P>, evaluate_whole<8, P>};
    for (WholeKernel *kernel : kernels) {
        const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                       (int)(SHARED_FLOATS * sizeof(float)));
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}

template <sf_precision P> void launch_whole(const sf_cuda_launch *launch, const sf_cuda_pass *pass) {
    static WholeKernel *const training[] = {train_whole<5, P>, train_whole<8, P>};
    static WholeKernel *const evaluation[] = {evaluate_whole<5, P>, evaluate_whole<8, P>};
    static const int classes[] = {5, 8};
    const dim3 grid = pass->training ? dim3(launch->members, MOST_CHUNKS) : dim3(launch->most_groups, launch->members);
    for (int i = 0; i < 2; i++)
        if (launch->whole_classes >> classes[i] & 1)
            launch_kernel(pass->training ? training[i] : evaluation[i], grid, THREADS, SHARED_FLOATS * sizeof(float),
                          launch->stream, launch->fleet, *pass);
}

template <sf_precision P> void launch_arrange(const sf_cuda_launch *launch) {
    launch_kernel(arrange<P>, dim3(launch->most_blocks * 6, launch->members), THREADS, 0, launch->stream,
                  launch->fleet);
}

} // namespace whole
} // namespace sf

#endif
