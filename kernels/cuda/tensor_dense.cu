/* Every key kept, softmax, on tensor cores: attention_dense.cu for models of width 64 and less. A warp takes 16
 * queries, or 16 keys, and streams the other side through shared memory in two buffers. Scores are never stored; the
 * backward pass computes the weights again from the logarithm of the softmax's denominator. */
#include "kernels/cuda/tensor_head.cuh"
#include "kernels/cuda/tensor_launch.h"

namespace sf {

enum { DENSE_THREADS = 256, POSITIONS = DENSE_THREADS / 32 * WARP_ROWS };

/* Scores times the scale, in units of log 2. */
static __device__ float exponent_scale(const Member &m) {
    return m.score_scale * 1.44269504F;
}

template <typename P> constexpr uint32_t tile_chunks = KEYS *chunks_of_row<P>;

/* ---- forward */

struct Softmax {                /* of a thread's two queries */
    float largest[2], total[2]; /* total: of the thread's own keys */
};

static constexpr float least_score = -3e38F; /* of keys that are not there */

/* Columns from `keys` on take a value. */
template <int N> static __device__ void blank(Sums<N> &sums, uint32_t keys, float value) {
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int v = 0; v < 2 * N; v++)
            if (v / 2 * 8 + 2 * place_in_group() + v % 2 >= keys) sums.at(r, v) = value;
}

/* Scores become weights before the division by their total; what was summed so far is to shrink to the new maximum. */
static __device__ void weigh(float (&shrinks)[2], Sums<8> &scores, Softmax &so_far, float scale, uint32_t keys) {
    if (keys < KEYS) blank(scores, keys, least_score);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float here = scores.at(r, 0);
#pragma unroll
        for (int v = 1; v < VALUES; v++) here = fmaxf(here, scores.at(r, v));
        const float before = so_far.largest[r], largest = fmaxf(before, largest_of_quad(here));
        const float shift = largest * scale;
        shrinks[r] = exp2_of((before - largest) * scale);
        so_far.largest[r] = largest;
        so_far.total[r] *= shrinks[r];
#pragma unroll
        for (int v = 0; v < VALUES; v++) scores.at(r, v) = exp2_of(__fmaf_rn(scores.at(r, v), scale, -shift));
    }
    if (keys < KEYS) blank(scores, keys, 0.0F);
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int v = 0; v < VALUES; v++) so_far.total[r] += scores.at(r, v);
}

/* Weights that dropout drops become 0; the others are scaled in the end. */
static __device__ void drop(Sums<8> &weights, uint32_t word) {
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int v = 0; v < VALUES; v++)
            if (!(word >> (8 * (2 * r + v % 2) + v / 2) & 1)) weights.at(r, v) = 0.0F;
}

/* Two tensors whose rows stream by together. */
template <typename P, bool PAPER, int ROWS> struct PairStream {
    RowStream<P, PAPER, ROWS, DENSE_THREADS> first, second;
    uint32_t first_stride, second_stride;
    using Stored = typename P::Stored;

    __device__ PairStream(const Stored *one, uint32_t one_stride, const Stored *other, uint32_t other_stride,
                          uint32_t columns, uint32_t begin)
        : first(one, one_stride, columns, begin), second(other, other_stride, columns, begin), first_stride(one_stride),
          second_stride(other_stride) {
    }
    __device__ void next(uint4 *tiles /* [2] */, uint32_t T) {
        first.next(tiles, first_stride, T);
        second.next(tiles + ROWS * chunks_of_row<P>, second_stride, T);
    }
};

template <typename P, bool PAPER>
static __global__ void __launch_bounds__(DENSE_THREADS, 2)
    tensor_dense_forward(const Member *__restrict__ members, Pass pass, uint32_t block) {
    SF_DYNAMIC_SHARED(uint4, shared); /* [2][2][tile]: keys and values, twice */
    const Member &m = members[blockIdx.y];
    TensorHead<P, PAPER> head;
    if (m.selection != DENSE || !head_of(head, m, pass, block, POSITIONS)) return;
    const uint32_t first = head.part * POSITIONS + threadIdx.x / 32 * WARP_ROWS, threshold = threshold_of(m, pass);
    const float scale = exponent_scale(m);
    const Index index = index_of(m, pass, DROP_WEIGHTS, block, head.h, head.n);
    uint32_t *const words = pass.training ? m.traces[block].kept_weights : nullptr;
    Operand<P> q;
    Rows16 context;
    Softmax so_far = {{least_score, least_score}, {0.0F, 0.0F}};
    clear(context);
    PairStream<P, PAPER, KEYS> stream(head.k, head.stride(), head.v, head.stride(), head.columns(), 0);
    RowStream<P, PAPER, POSITIONS, DENSE_THREADS> own(head.q, head.stride(), head.columns(), head.part * POSITIONS);
    stream.next(shared, m.T);
    own.next(shared + 2 * tile_chunks<P>, head.stride(), m.T);
    copy_commit();
    copy_wait<0>();
    __syncthreads();
    load_operand(q, shared + 2 * tile_chunks<P>, threadIdx.x / 32 * WARP_ROWS);
    for (uint32_t key = 0, turn = 0; key < m.T; key += KEYS, turn ^= 1) {
        const uint4 *const keys = shared + 2 * turn * tile_chunks<P>, *const values = keys + tile_chunks<P>;
        copy_wait<0>();
        __syncthreads();
        if (key + KEYS < m.T) stream.next(shared + 2 * (turn ^ 1) * tile_chunks<P>, m.T);
        copy_commit();
        if (first >= m.T) continue;
        Sums<8> scores;
        Operand<P> weights;
        clear(scores);
        multiply_rows(scores, q, keys, 0);
        float shrinks[2];
        weigh(shrinks, scores, so_far, scale, m.T - key);
        scale_columns(context, shrinks, P());
        if (threshold > 0) {
            const uint32_t word = draw_weights(m, index, first, lane_of_thread(), key / KEYS, threshold);
            if (words != nullptr) words[weight_word(m, head.slot, first, key / KEYS) + lane_of_thread()] = word;
            drop(scores, word);
        }
        round_weights(weights, scores);
        multiply_columns(context, weights, values, 0);
    }
    if (first >= m.T) return;
    float inverses[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const uint32_t query = first + group_of_lane() + 8 * r;
        const float total = total_of_quad(so_far.total[r]);
        inverses[r] = (threshold > 0 ? m.keep_scale : 1.0F) / total;
        if (pass.training && query < m.T && place_in_group() == 0)
            m.traces[block].stats[(size_t)head.slot * m.T + query].x = so_far.largest[r] * scale + log2_of(total);
    }
    scale_columns(context, inverses, P());
    put_columns(head.context, head.context_stride(), context, first, m.T, head.columns());
}

/* ---- backward */

/* Scores and gradients of weights become the weights that dropout leaves and gradients of scores, but for the factors
 * of dropout and of scores, which come in the end. `logs`: of the softmax's denominators; `means`: of the gradients of
 * weights. */
struct Slopes {
    float exponent, keep; /* factors of exponents, and of what dropout keeps */
};

static __device__ void differentiate(float &score, float &slope, const Slopes &with, float log, float mean, bool kept) {
    const float weight = exp2_of(__fmaf_rn(score, with.exponent, -log));
    slope = weight * __fmaf_rn(slope, kept ? with.keep : 0.0F, -mean);
    score = kept ? weight : 0.0F;
}

static __device__ float dot_of_chunks(const uint4 &a, const uint4 &b, const Tf32 &) {
    float sum = __uint_as_float(a.x) * __uint_as_float(b.x);
    sum = __fmaf_rn(__uint_as_float(a.y), __uint_as_float(b.y), sum);
    sum = __fmaf_rn(__uint_as_float(a.z), __uint_as_float(b.z), sum);
    return __fmaf_rn(__uint_as_float(a.w), __uint_as_float(b.w), sum);
}
static __device__ float dot_of_chunks(const uint4 &a, const uint4 &b, const Bf16 &) {
    const uint32_t left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        sum = __fmaf_rn(__uint_as_float(left[i] << 16), __uint_as_float(right[i] << 16), sum);
        sum = __fmaf_rn(__uint_as_float(left[i] & 0xffff0000U), __uint_as_float(right[i] & 0xffff0000U), sum);
    }
    return sum;
}

/* Dot products of the contexts with their gradients, for the warp's queries: all four threads of a row get them. */
template <typename P, bool PAPER>
static __device__ void means_of(float (&means)[2], const TensorHead<P, PAPER> &head, uint32_t first, uint32_t T) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const uint32_t query = first + group_of_lane() + 8 * r;
        const size_t row = (size_t)(query < T ? query : 0) * head.context_stride();
        float sum = 0.0F;
#pragma unroll
        for (int c = 0; c < chunks_of_thread<P>; c++)
            if (chunk_column<P>(c) < head.columns()) {
                const size_t at = row + chunk_column<P>(c);
                sum += dot_of_chunks(__ldcg(reinterpret_cast<const uint4 *>(head.context + at)),
                                     __ldcg(reinterpret_cast<const uint4 *>(head.dcontext + at)), P());
            }
        means[r] = total_of_quad(sum);
    }
}

/* What the backward kernels have in shared memory: two tensors of the block's own positions, and two of those that
 * stream by, twice. So two blocks of threads share a multiprocessor. */
enum { STREAMED = 32, STREAM_FRAGMENTS = STREAMED / 8 };
template <typename P> constexpr uint32_t own_chunks = POSITIONS *chunks_of_row<P>;
template <typename P> constexpr uint32_t streamed_chunks = STREAMED *chunks_of_row<P>;

/* dq of the warp's queries; the means go to the trace, for the keys. */
template <typename P, bool PAPER>
static __global__ void __launch_bounds__(DENSE_THREADS, 2)
    tensor_dense_backward_queries(const Member *__restrict__ members, Pass pass, uint32_t block) {
    SF_DYNAMIC_SHARED(uint4, shared); /* queries and gradients of contexts, then keys and values */
    const Member &m = members[blockIdx.y];
    TensorHead<P, PAPER> head;
    if (m.selection != DENSE || !head_of(head, m, pass, block, POSITIONS)) return;
    const uint32_t row = threadIdx.x / 32 * WARP_ROWS, first = head.part * POSITIONS + row;
    const uint32_t threshold = threshold_of(m, pass), T = m.T;
    const Index index = index_of(m, pass, DROP_WEIGHTS, block, head.h, head.n);
    const Slopes with = {exponent_scale(m), threshold > 0 ? m.keep_scale : 1.0F};
    float2 *const stats = m.traces[block].stats + (size_t)head.slot * T;
    const uint32_t *const words = m.traces[block].kept_weights;
    uint4 *const streams = shared + 2 * own_chunks<P>;
    Rows16 dq;
    float logs[2], means[2];
    PairStream<P, PAPER, POSITIONS> own(head.q, head.stride(), head.dcontext, head.context_stride(), head.columns(),
                                        head.part * POSITIONS);
    PairStream<P, PAPER, STREAMED> stream(head.k, head.stride(), head.v, head.stride(), head.columns(), 0);
    own.next(shared, T);
    stream.next(streams, T);
    copy_commit();
    means_of(means, head, first, T);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const uint32_t query = first + group_of_lane() + 8 * r;
        logs[r] = query < T ? stats[query].x : __int_as_float(0x7f800000);
        if (query < T && place_in_group() == 0) stats[query].y = means[r];
    }
    clear(dq);
    uint32_t word = 0xffffffffU;
    for (uint32_t key = 0, turn = 0; key < T; key += STREAMED, turn ^= 1) {
        const uint4 *const keys = streams + 2 * turn * streamed_chunks<P>, *const values = keys + streamed_chunks<P>;
        copy_wait<0>();
        __syncthreads();
        if (key + STREAMED < T) stream.next(streams + 2 * (turn ^ 1) * streamed_chunks<P>, T);
        copy_commit();
        if (first >= T) continue;
        if (threshold > 0 && key % KEYS == 0)
            word = words != nullptr ? __ldcg(words + weight_word(m, head.slot, first, key / KEYS) + lane_of_thread())
                                    : draw_weights(m, index, first, lane_of_thread(), key / KEYS, threshold);
        const uint32_t kept = word >> (key % KEYS / 8);
        Sums<STREAM_FRAGMENTS> scores, slopes;
        Operand<P, STREAM_FRAGMENTS> left;
        clear(scores);
        clear(slopes);
        multiply_tiles<P>(scores, shared, row, keys, 0);
        multiply_tiles<P>(slopes, shared + own_chunks<P>, row, values, 0);
#pragma unroll
        for (int r = 0; r < 2; r++)
#pragma unroll
            for (int v = 0; v < 2 * STREAM_FRAGMENTS; v++)
                differentiate(scores.at(r, v), slopes.at(r, v), with, logs[r], means[r],
                              kept >> (8 * (2 * r + v % 2) + v / 2) & 1);
        if (T - key < STREAMED) blank(slopes, T - key, 0.0F);
        round_rows(left, slopes);
        multiply_columns(dq, left, keys, 0);
    }
    const float scales[2] = {m.score_scale, m.score_scale};
    scale_columns(dq, scales, P());
    if (first < T) put_columns(head.dq, head.stride(), dq, first, T, head.columns());
}

/* Queries that stream by: their logarithms and means, and for each 16 of them what dropout keeps of the block's keys.
 */
struct QueryTile {
    float2 stats[STREAMED];
    uint32_t words[POSITIONS / KEYS][STREAMED / WARP_ROWS][32];
};

/* Where a thread takes its part of that from: a query's numbers, and a word of 16 queries and 64 keys. */
struct QueryStream {
    const float2 *stats;
    const uint32_t *words;                        /* NULL: to be drawn */
    uint32_t query, first, key_tile, which, rows; /* first: of the 16 queries */
    bool has_word;
};

template <typename P, bool PAPER>
static __device__ QueryStream query_stream(const Member &m, const Trace &t, const TensorHead<P, PAPER> &head) {
    enum { TILES = STREAMED / WARP_ROWS };
    QueryStream stream;
    stream.query = threadIdx.x;
    stream.stats = t.stats + (size_t)head.slot * m.T + threadIdx.x;
    stream.rows = threadIdx.x / 32 % TILES;
    stream.which = threadIdx.x / 32 / TILES;
    stream.first = stream.rows * WARP_ROWS;
    stream.key_tile = head.part * (POSITIONS / KEYS) + stream.which;
    stream.has_word = stream.which < POSITIONS / KEYS && stream.key_tile * KEYS < m.T;
    stream.words = nullptr;
    if (t.kept_weights != nullptr && stream.has_word)
        stream.words = t.kept_weights + weight_word(m, head.slot, stream.first, stream.key_tile) + lane_of_thread();
    return stream;
}

static __device__ void fetch_queries(QueryTile &tile, QueryStream &from, const Member &m, const Index &index,
                                     uint32_t threshold) {
    if (threadIdx.x < STREAMED)
        tile.stats[threadIdx.x] = from.query < m.T ? __ldcg(from.stats) : make_float2(__int_as_float(0x7f800000), 0.0F);
    if (threshold > 0 && from.has_word && from.first < m.T)
        tile.words[from.which][from.rows][lane_of_thread()] =
            from.words != nullptr ? __ldcg(from.words)
                                  : draw_weights(m, index, from.first, lane_of_thread(), from.key_tile, threshold);
    from.query += STREAMED;
    from.stats += STREAMED;
    from.first += STREAMED;
    if (from.words != nullptr) from.words += STREAMED / WARP_ROWS * ((m.T + KEYS - 1) / KEYS) * 32;
}

/* dk and dv of the warp's keys. Rows of the scores are keys here, columns are queries. */
template <typename P, bool PAPER>
static __global__ void __launch_bounds__(DENSE_THREADS, 2)
    tensor_dense_backward_keys(const Member *__restrict__ members, Pass pass, uint32_t block) {
    SF_DYNAMIC_SHARED(uint4, shared); /* keys and values, then queries and gradients of contexts */
    __shared__ QueryTile queries[2];
    static_assert(DENSE_THREADS >= POSITIONS / KEYS * (STREAMED / WARP_ROWS) * 32, "a word for each thread, or none");
    const Member &m = members[blockIdx.y];
    TensorHead<P, PAPER> head;
    if (m.selection != DENSE || !head_of(head, m, pass, block, POSITIONS)) return;
    const uint32_t warp = threadIdx.x / 32, row = warp * WARP_ROWS, first = head.part * POSITIONS + row, T = m.T;
    const uint32_t threshold = threshold_of(m, pass), g = group_of_lane(), t = place_in_group();
    const Index index = index_of(m, pass, DROP_WEIGHTS, block, head.h, head.n);
    const Slopes with = {exponent_scale(m), threshold > 0 ? m.keep_scale : 1.0F};
    uint4 *const streams = shared + 2 * own_chunks<P>;
    Rows16 dk, dv;
    PairStream<P, PAPER, POSITIONS> own(head.k, head.stride(), head.v, head.stride(), head.columns(),
                                        head.part * POSITIONS);
    PairStream<P, PAPER, STREAMED> stream(head.q, head.stride(), head.dcontext, head.context_stride(), head.columns(),
                                          0);
    QueryStream facts = query_stream(m, m.traces[block], head);
    own.next(shared, T);
    stream.next(streams, T);
    copy_commit();
    fetch_queries(queries[0], facts, m, index, threshold);
    clear(dk);
    clear(dv);
    for (uint32_t query = 0, turn = 0; query < T; query += STREAMED, turn ^= 1) {
        const uint4 *const q = streams + 2 * turn * streamed_chunks<P>, *const dcontext = q + streamed_chunks<P>;
        copy_wait<0>();
        __syncthreads();
        if (query + STREAMED < T) {
            stream.next(streams + 2 * (turn ^ 1) * streamed_chunks<P>, T);
            fetch_queries(queries[turn ^ 1], facts, m, index, threshold);
        }
        copy_commit();
        if (first >= T) continue;
        Sums<STREAM_FRAGMENTS> scores, slopes;
        Operand<P, STREAM_FRAGMENTS> left;
        clear(scores);
        clear(slopes);
        multiply_tiles<P>(scores, shared, row, q, 0);
        multiply_tiles<P>(slopes, shared + own_chunks<P>, row, dcontext, 0);
#pragma unroll
        for (int j = 0; j < STREAM_FRAGMENTS; j++)
#pragma unroll
            for (int b = 0; b < 2; b++) {
                const float2 stat = queries[turn].stats[8 * j + 2 * t + b];
                uint32_t word = 0xffffffffU; /* keys 16 (warp % 4) + g and + 8 of 64 */
                if (threshold > 0)
                    word = queries[turn].words[warp / 4][j / 2][(2 * t + b) * QUAD + g / 2] >>
                           (8 * (g % 2) + 2 * (warp % 4));
#pragma unroll
                for (int r = 0; r < 2; r++)
                    differentiate(scores.d[j][2 * r + b], slopes.d[j][2 * r + b], with, stat.x, stat.y,
                                  word >> (16 * (j % 2) + r) & 1);
            }
        round_weights(left, scores);
        multiply_columns(dv, left, dcontext, 0);
        round_rows(left, slopes);
        multiply_columns(dk, left, q, 0);
    }
    const float scales[2] = {m.score_scale, m.score_scale}, keeps[2] = {with.keep, with.keep};
    scale_columns(dk, scales, P());
    scale_columns(dv, keeps, P());
    if (first >= T) return;
    put_columns(head.dk, head.stride(), dk, first, T, head.columns());
    put_columns(head.dv, head.stride(), dv, first, T, head.columns());
}

template <typename P> static size_t shared_of_forward() {
    return 4 * tile_chunks<P> * sizeof(uint4);
}
template <typename P> static size_t shared_of_backward() {
    return (2 * own_chunks<P> + 4 * streamed_chunks<P>)*sizeof(uint4);
}

template <typename P, bool PAPER> static cudaError_t prepare() {
    const cudaError_t errors[] = {reserve(tensor_dense_forward<P, PAPER>, shared_of_forward<P>()),
                                  reserve(tensor_dense_backward_queries<P, PAPER>, shared_of_backward<P>()),
                                  reserve(tensor_dense_backward_keys<P, PAPER>, shared_of_backward<P>())};
    for (const cudaError_t error : errors)
        if (error != cudaSuccess) return error;
    return cudaSuccess;
}

template <typename P, bool PAPER>
static void forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    launch_heads(tensor_dense_forward<P, PAPER>, DENSE_THREADS, shared_of_forward<P>(), POSITIONS, launch, pass, block);
}

template <typename P, bool PAPER>
static void backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    const size_t shared = shared_of_backward<P>();
    launch_heads(tensor_dense_backward_queries<P, PAPER>, DENSE_THREADS, shared, POSITIONS, launch, pass, block);
    launch_heads(tensor_dense_backward_keys<P, PAPER>, DENSE_THREADS, shared, POSITIONS, launch, pass, block);
}

} // namespace sf

using namespace sf;

cudaError_t sf_cuda_prepare_tensor_dense(void) {
    const cudaError_t errors[] = {prepare<Tf32, true>(), prepare<Tf32, false>(), prepare<Bf16, true>(),
                                  prepare<Bf16, false>()};
    for (const cudaError_t error : errors)
        if (error != cudaSuccess) return error;
    return cudaSuccess;
}

void sf_cuda_tensor_dense_forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    if (launch->precision == SF_TF32)
        launch->paper ? forward<Tf32, true>(launch, pass, block) : forward<Tf32, false>(launch, pass, block);
    else
        launch->paper ? forward<Bf16, true>(launch, pass, block) : forward<Bf16, false>(launch, pass, block);
}

void sf_cuda_tensor_dense_backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    if (launch->precision == SF_TF32)
        launch->paper ? backward<Tf32, true>(launch, pass, block) : backward<Tf32, false>(launch, pass, block);
    else
        launch->paper ? backward<Bf16, true>(launch, pass, block) : backward<Bf16, false>(launch, pass, block);
}
