/* What tensor_rows.cu computes for 16 rows of a model: a warp holds them, and copies what comes next. */
#ifndef SF_KERNELS_CUDA_TENSOR_ROWS_CUH
#define SF_KERNELS_CUDA_TENSOR_ROWS_CUH

#include "kernels/cuda/tensor.cuh"

namespace sf {

enum { ROW_THREADS = 512, ROW_WARPS = ROW_THREADS / 32 };

/* ---- rows */

struct RowTile { /* 16 rows of a model; of the thread's two: */
    uint32_t tile, row[2];
    bool real[2]; /* or else the row is another one that may be read */
};

static __device__ RowTile tile_at(uint32_t tile, uint32_t rows) {
    RowTile at;
    at.tile = tile;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const uint32_t row = tile * WARP_ROWS + group_of_lane() + 8 * r;
        at.real[r] = row < rows;
        at.row[r] = row < rows ? row : rows - 1;
    }
    return at;
}

template <typename P>
static __device__ void store(float *to, uint32_t stride, uint32_t columns, const Rows16 &x, const RowTile &at) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float *const row = to + (size_t)at.row[r] * stride;
#pragma unroll
        for (int v = 0; v < VALUES; v += 4) {
            const uint32_t c = chunk_column<P>(v / P::WIDE) + v % P::WIDE;
            if (at.real[r] && c < columns)
                __stcg(reinterpret_cast<float4 *>(row + c),
                       make_float4(x.at(r, v), x.at(r, v + 1), x.at(r, v + 2), x.at(r, v + 3)));
        }
    }
}

/* Rounded, from a column on, as products take them. */
template <typename P>
static __device__ void store_operand(float *to, uint32_t first, uint32_t stride, uint32_t columns, const Operand<P> &x,
                                     const RowTile &at) {
    using Stored = typename P::Stored;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        Stored *const row = reinterpret_cast<Stored *>(to) + first + (size_t)at.row[r] * stride;
#pragma unroll
        for (int c = 0; c < chunks_of_thread<P>; c++)
            if (at.real[r] && chunk_column<P>(c) < columns)
                __stcg(reinterpret_cast<uint4 *>(row + chunk_column<P>(c)), operand_chunk(x, r, c));
    }
}

template <typename P>
static __device__ void store_rounded(float *to, uint32_t first, uint32_t stride, uint32_t columns, const Rows16 &x,
                                     const RowTile &at) {
    Operand<P> out;
    round_rows(out, x);
    store_operand<P>(to, first, stride, columns, out, at);
}

template <typename P> static __device__ void begin_with(Rows16 &sums, const float *bias, uint32_t columns) {
#pragma unroll
    for (int v = 0; v < VALUES; v += 4) {
        const uint32_t c = chunk_column<P>(v / P::WIDE) + v % P::WIDE;
        const float4 four = c < columns ? __ldg(reinterpret_cast<const float4 *>(bias + c)) : make_float4(0, 0, 0, 0);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            sums.at(r, v) = four.x;
            sums.at(r, v + 1) = four.y;
            sums.at(r, v + 2) = four.z;
            sums.at(r, v + 3) = four.w;
        }
    }
}

/* ---- rows on their way */

struct Source {     /* a tensor of the rows */
    const char *at; /* of row 0 */
    uint32_t bytes; /* of a row */
    uint32_t columns;
    bool stored; /* as products take it, or as floats */
};

enum { MOST_SOURCES = 3 * SF_CUDA_HEADS + 4, SLOT_CHUNKS = 8, SLOTS = 2 };

/* What a block of threads is about: rows of a model between the attention of block - 1 and that of block. In shared
 * memory, so that it takes no registers. */
struct Work {
    Trace before, after; /* of block - 1 and block, where there are such */
    Source sources[MOST_SOURCES];
    uint32_t count; /* of sources */
    uint32_t rows;
};

/* The tensors that a tile needs, in the order in which it does, for one tile after the other: what is to be copied
 * next. Every warp has its own slots. */
struct Flow {
    uint32_t source, tile, slot; /* slot: of what was begun first */
};

/* A slot: 16 rows of 64 floats or less, of which the paper's models fill all. */
template <typename P> struct Slot {
    uint4 *at;
    __device__ uint4 *chunk(uint32_t row, uint32_t chunk, bool stored) const {
        const uint32_t across = stored ? chunks_of_row<P> : SPAN / 4;
        return at + row * across + (chunk ^ (row & 7));
    }
};

template <typename P> __device__ static Slot<P> slot_of(uint4 *slots, uint32_t slot) {
    return {slots + (threadIdx.x / 32 * SLOTS + slot) * SLOT_CHUNKS * 32};
}

/* Begins to copy the next tensor. */
template <typename P, bool PAPER>
static __device__ void begin(Flow &flow, const Work &work, uint4 *slots, uint32_t into) {
    const uint32_t rows = work.rows, count = work.count, first = flow.tile * WARP_ROWS;
    if (first < rows) {
        const Source source = work.sources[flow.source];
        const Slot<P> to = slot_of<P>(slots, into);
        const uint32_t across = source.stored ? chunks_of_row<P> : SPAN / 4, lane = lane_of_thread();
        const uint32_t chunk = lane % across, wide = source.stored ? P::WIDE : 4, rows_at_once = 32 / across;
        const bool real = PAPER || chunk * wide < source.columns;
        const char *const from = source.at + (real ? chunk * 16 : 0);
#pragma unroll
        for (uint32_t i = 0; i < WARP_ROWS / (32 / (SPAN / 4)); i++) {
            const uint32_t r = i * rows_at_once + lane / across;
            if (i * rows_at_once >= WARP_ROWS) break;
            const uint32_t row = first + r < rows ? first + r : rows - 1;
            copy_async(to.chunk(r, chunk, source.stored), from + (size_t)row * source.bytes, real);
        }
        if (++flow.source == count) {
            flow.source = 0;
            flow.tile += gridDim.x * ROW_WARPS;
        }
    }
    copy_commit();
}

template <typename P, bool PAPER>
static __device__ Flow begin_flow(const Work &work, uint4 *slots, uint32_t first_tile) {
    Flow flow = {0, first_tile, 0};
#pragma unroll
    for (uint32_t i = 0; i < SLOTS; i++) begin<P, PAPER>(flow, work, slots, i);
    return flow;
}

template <typename P> static __device__ void read(Rows16 &x, const Slot<P> &from) {
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int v = 0; v < VALUES; v += 4) {
            const uint32_t column = chunk_column<P>(v / P::WIDE) + v % P::WIDE;
            const uint4 four = *from.chunk(group_of_lane() + 8 * r, column / 4, false);
            x.at(r, v) = __uint_as_float(four.x);
            x.at(r, v + 1) = __uint_as_float(four.y);
            x.at(r, v + 2) = __uint_as_float(four.z);
            x.at(r, v + 3) = __uint_as_float(four.w);
        }
}
template <typename P> static __device__ void read(Operand<P> &x, const Slot<P> &from) {
    load_operand(x, from.at, 0);
}

/* What was begun first: floats to Rows16, or a factor to Operand. Begins the next in its place. */
template <typename P, bool PAPER, typename Numbers>
static __device__ void take(Numbers &x, Flow &flow, const Work &work, uint4 *slots) {
    copy_wait<SLOTS - 1>();
    __syncwarp();
    read(x, slot_of<P>(slots, flow.slot));
    __syncwarp();
    begin<P, PAPER>(flow, work, slots, flow.slot);
    flow.slot ^= 1;
}

template <typename P>
static __device__ Source stored_source(const float *at, uint32_t first, uint32_t stride, uint32_t columns) {
    const uint32_t size = sizeof(typename P::Stored);
    return {reinterpret_cast<const char *>(at) + (size_t)first * size, stride * size, columns, true};
}
static __device__ Source float_source(const float *at, uint32_t columns) {
    return {reinterpret_cast<const char *>(at), columns * (uint32_t)sizeof(float), columns, false};
}

/* ---- dropout */

/* Draws what dropout keeps of the rows: the thread's word. */
static __device__ uint32_t draw(const Member &m, const Pass &pass, const RowTile &at, uint32_t purpose, uint32_t block,
                                uint32_t threshold) {
    const Index indices[2] = {index_of(m, pass, purpose, block, 0, at.row[0] / m.T),
                              index_of(m, pass, purpose, block, 0, at.row[1] / m.T)};
    const uint32_t draws[2] = {at.row[0] % m.T * draws_per_row(SPAN), at.row[1] % m.T * draws_per_row(SPAN)};
    return kept_word(indices, draws, place_in_group(), threshold);
}

static __device__ uint32_t *words_of(uint64_t *trace, const RowTile &at) {
    return reinterpret_cast<uint32_t *>(trace) + at.tile * 32 + lane_of_thread();
}

template <typename P> static __device__ void multiply_kept(Rows16 &x, const KeptValues<P> &kept) {
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int v = 0; v < VALUES; v++) x.at(r, v) *= kept.keeps(r, v) ? kept.scale : 0.0F;
}

/* x += branch * dropout. */
template <typename P> static __device__ void add_kept(Rows16 &x, const Rows16 &branch, const KeptValues<P> &kept) {
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int v = 0; v < VALUES; v++)
            x.at(r, v) = __fmaf_rn(branch.at(r, v), kept.keeps(r, v) ? kept.scale : 0.0F, x.at(r, v));
}

/* ---- norms */

struct NormStats { /* of a thread's rows */
    float mean[2], rstd[2];
};

template <typename P, bool PAPER> static __device__ bool real_column(int value, uint32_t C) {
    return PAPER || chunk_column<P>(value / P::WIDE) + value % P::WIDE < C;
}

/* Whether all values of a row are the same. */
template <typename P, bool PAPER> static __device__ bool is_constant(const Rows16 &x, int r, uint32_t C) {
    const float begin = __shfl_sync(0xffffffffU, x.at(r, 0), (int)(lane_of_thread() - place_in_group()));
    float different = 0.0F;
#pragma unroll
    for (int v = 0; v < VALUES; v++)
        if (real_column<P, PAPER>(v, C) && !(x.at(r, v) == begin)) different = 1.0F;
    return total_of_quad(different) == 0.0F;
}

/* y = the rows with mean 0 and variance 1. eps 0: a row without variance becomes 0. */
template <typename P, bool PAPER>
static __device__ NormStats normalize(Rows16 &y, const Rows16 &x, uint32_t C, float epsilon) {
    NormStats stats;
    const float inverse = 1.0F / (float)C;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float sum = 0.0F, squares = 0.0F;
        const bool nothing = epsilon == 0.0F && is_constant<P, PAPER>(x, r, C);
#pragma unroll
        for (int v = 0; v < VALUES; v++) sum += x.at(r, v);
        const float mean = total_of_quad(sum) * inverse;
#pragma unroll
        for (int v = 0; v < VALUES; v++) {
            const float centred = real_column<P, PAPER>(v, C) ? x.at(r, v) - mean : 0.0F;
            squares = __fmaf_rn(centred, centred, squares);
            y.at(r, v) = centred;
        }
        const float rstd = nothing ? 0.0F : 1.0F / sqrtf(total_of_quad(squares) * inverse + epsilon);
#pragma unroll
        for (int v = 0; v < VALUES; v++) y.at(r, v) *= rstd;
        stats.mean[r] = mean;
        stats.rstd[r] = rstd;
    }
    return stats;
}

static __device__ void store_per_row(float *to, const float (&values)[2], const RowTile &at) {
#pragma unroll
    for (int r = 0; r < 2; r++)
        if (at.real[r] && place_in_group() == 0) to[at.row[r]] = values[r];
}

/* dx += rstd t, where y are the normalized rows. */
template <typename P, bool PAPER>
static __device__ void norm_backward(Rows16 &dx, const Rows16 &dy, const Rows16 &y, const float (&rstd)[2],
                                     uint32_t C) {
    const float inverse = 1.0F / (float)C;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float sum = 0.0F, dot = 0.0F;
#pragma unroll
        for (int v = 0; v < VALUES; v++) {
            sum += dy.at(r, v);
            dot = __fmaf_rn(dy.at(r, v), y.at(r, v), dot);
        }
        const float mean = total_of_quad(sum) * inverse, along = total_of_quad(dot) * inverse;
#pragma unroll
        for (int v = 0; v < VALUES; v++) {
            const float across = __fmaf_rn(-y.at(r, v), along, dy.at(r, v) - mean);
            dx.at(r, v) = __fmaf_rn(rstd[r], real_column<P, PAPER>(v, C) ? across : 0.0F, dx.at(r, v));
        }
    }
}

static __device__ float norm_epsilon(uint32_t block, bool attention) {
    return block == 0 && attention ? 0.0F : 1e-5F;
}

/* ---- activation: 0 ReLU, 1 GELU, 2 Mish. Only what is used should be in the way of the instruction cache. */

template <int ACTIVATION> static __device__ void activate_with(Rows16 &z) {
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int v = 0; v < VALUES; v++) z.at(r, v) = activate(z.at(r, v), ACTIVATION);
}
static __device__ void activate_rows(Rows16 &z, uint32_t activation) {
    if (activation == 0)
        activate_with<0>(z);
    else if (activation == 1)
        activate_with<1>(z);
    else
        activate_with<2>(z);
}

template <int ACTIVATION> static __device__ void multiply_slopes_with(Rows16 &slopes, const Rows16 &z) {
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int v = 0; v < VALUES; v++) slopes.at(r, v) *= activate_slope(z.at(r, v), ACTIVATION);
}
static __device__ void multiply_slopes(Rows16 &slopes, const Rows16 &z, uint32_t activation) {
    if (activation == 0)
        multiply_slopes_with<0>(slopes, z);
    else if (activation == 1)
        multiply_slopes_with<1>(slopes, z);
    else
        multiply_slopes_with<2>(slopes, z);
}

} // namespace sf

#endif
