/* Every key kept, softmax: tiles of 64 queries and 64 keys. The backward pass computes the weights again. Formulas and
 * order as in docs/numerics.md. */
#include "kernels/cuda/head.cuh"
#include "kernels/cuda/tensor_launch.h"

namespace sf {

/* Keys before this one are visible to some of the queries before `query_end`. */
static __device__ uint32_t key_end(const Member &m, uint32_t query_end) {
    return m.causal ? query_end : m.T;
}

/* How many of `keys` keys from first_key on a query sees. */
static __device__ uint32_t visible_keys(const Member &m, uint32_t query, uint32_t first_key, uint32_t keys) {
    if (!m.causal) return keys;
    const uint32_t visible = query < first_key ? 0 : query + 1 - first_key;
    return visible < keys ? visible : keys;
}

/* Bits of 64 keys from first_key on for each of 64 queries: what dropout keeps of their weights. */
static __device__ void draw_weights(uint64_t *kept /* [TILE] */, const Member &m, const Shape &s, const Pass &pass,
                                    const Head &head, uint32_t block, uint32_t first_query, uint32_t first_key) {
    const uint32_t threshold = threshold_of(m, pass);
    if (threshold == 0) return;
    const Index index = index_of(m, pass, DROP_WEIGHTS, block, head.h, head.n);
    for (uint32_t i = threadIdx.x; i < TILE * 8; i += THREADS) {
        const uint32_t in_eight = i % 8, q = first_query + i / 8;
        uint64_t bits = kept_of_draw(index, q * draws_per_row(m.T) + first_key / 8 + in_eight, in_eight, threshold);
        for (int other = 1; other < 8; other *= 2) bits |= __shfl_xor_sync(0xffffffffU, bits, other, 8);
        if (in_eight == 0) kept[i / 8] = bits;
    }
}

template <bool PAPER>
static __global__ void __launch_bounds__(THREADS)
    dense_forward(const Member *__restrict__ members, Pass pass, uint32_t block) {
    SF_DYNAMIC_SHARED(float, shared);
    __shared__ float shrinks[TILE], inverses[TILE];
    __shared__ uint64_t kept[2][TILE];
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<PAPER>(m);
    Head head;
    if (m.selection != DENSE || !head_of(head, m, s, pass, block)) return;
    float *left = shared, *right = left + TILE * LD, *scores = right + TILE * LD; /* scores [KEY_TILE,LD] */
    const uint32_t first_query = head.tile * TILE, queries = left_of(m.T, first_query);
    const uint32_t end = key_end(m, first_query + queries);
    const bool drops = threshold_of(m, pass) > 0;
    float largest = __int_as_float(0xff800000), total = 0.0F; /* of the thread's query */
    for (uint32_t key = 0; key < end; key += KEY_TILE) {
        const uint32_t keys = end - key < KEY_TILE ? end - key : KEY_TILE;
        const bool last = key + KEY_TILE >= end;
        for (uint32_t half = 0; half * TILE < keys; half++) {
            Accumulators sums;
            scores_of(sums, head.q, head.stride, first_query, head.k, head.stride, key + half * TILE, m.score_scale,
                      m.T, s.Dp, left, right);
            put_across(scores + half * TILE * LD, sums);
            draw_weights(kept[half], m, s, pass, head, block, first_query, key + half * TILE);
        }
        __syncthreads();
        if (threadIdx.x < queries) {
            float *row = scores + threadIdx.x;
            const uint32_t visible = visible_keys(m, first_query + threadIdx.x, key, keys);
            float here = __int_as_float(0xff800000), lanes[SUM_LANES];
            for (uint32_t j = 0; j < visible; j++) here = row[j * LD] > here ? row[j * LD] : here;
            const float before = largest;
            largest = before > here ? before : here;
            const float shrink = exp_below_zero(before - largest);
#pragma unroll
            for (int l = 0; l < SUM_LANES; l++) lanes[l] = 0.0F;
            for (uint32_t j = 0; j < visible; j += SUM_LANES)
#pragma unroll
                for (int l = 0; l < SUM_LANES; l++)
                    if (j + l < visible) {
                        const float weight = exp_below_zero(row[(j + l) * LD] - largest);
                        lanes[l] += weight;
                        const bool keep = !drops || kept[(j + l) / TILE][threadIdx.x] >> (j + l) % TILE & 1;
                        row[(j + l) * LD] = !drops ? weight : keep ? weight * m.keep_scale : 0.0F;
                    }
            for (uint32_t j = visible; j < keys; j++) row[j * LD] = 0.0F;
            total = total * shrink + total_of(lanes);
            shrinks[threadIdx.x] = shrink;
            inverses[threadIdx.x] = 1.0F / total;
            if (last && pass.training)
                m.traces[block].stats[(size_t)head.slot * m.T + first_query + threadIdx.x] =
                    make_float2(largest, 1.0F / total);
        }
        __syncthreads();
        for (uint32_t c = 0; c < s.Dp; c += TILE) {
            Accumulators sums;
            clear(sums);
            float *context = head.context + (size_t)first_query * s.HDp + c;
            if (key > 0) {
                get_rows(sums, context, s.HDp, queries, s.Dp - c);
#pragma unroll
                for (int i = 0; i < THREAD_ROWS; i++)
#pragma unroll
                    for (int j = 0; j < THREAD_COLUMNS; j++) sums.at[i][j] *= shrinks[first_row() + i];
            }
            for (uint32_t half = 0; half * TILE < keys; half++) {
                __syncthreads();
                stage(right, head.v + (size_t)(key + half * TILE) * head.stride + c, head.stride,
                      left_of(m.T, key + half * TILE), s.Dp - c);
                __syncthreads();
                multiply(sums, scores + half * TILE * LD, right, left_of(keys, half * TILE));
            }
            if (last)
#pragma unroll
                for (int i = 0; i < THREAD_ROWS; i++)
#pragma unroll
                    for (int j = 0; j < THREAD_COLUMNS; j++) sums.at[i][j] = inverses[first_row() + i] * sums.at[i][j];
            put_rows(context, s.HDp, sums, queries, s.Dp - c);
        }
        __syncthreads();
    }
}

/* Dot products of the contexts with their gradients: the means of the weights' gradients under the weights. */
static __device__ void means_of(float *means /* [TILE] */, const Member &m, const Shape &s, const Head &head,
                                uint32_t first_query) {
    if (threadIdx.x >= left_of(m.T, first_query)) return;
    const size_t at = (size_t)(first_query + threadIdx.x) * s.HDp;
    float lanes[SUM_LANES];
#pragma unroll
    for (int l = 0; l < SUM_LANES; l++) lanes[l] = 0.0F;
    for (uint32_t c = 0; c < s.Dp; c += SUM_LANES)
#pragma unroll
        for (int l = 0; l < SUM_LANES; l++)
            lanes[l] = __fmaf_rn(head.dcontext[at + c + l], head.context[at + c + l], lanes[l]);
    means[threadIdx.x] = total_of(lanes);
}

/* Scores and gradients of weights become weights after dropout and gradients of scores. */
static __device__ void slopes_of(Accumulators &scores, Accumulators &slopes, const Member &m, const Shape &s,
                                 const Pass &pass, const float2 *stats, const float *means, const uint64_t *kept,
                                 uint32_t first_query, uint32_t queries, uint32_t first_key, uint32_t keys) {
    const bool drops = threshold_of(m, pass) > 0;
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++) {
        const uint32_t q = first_row() + i;
        const float2 stat = q < queries ? stats[q] : make_float2(0.0F, 0.0F);
        const float mean = q < queries ? means[q] : 0.0F;
        const uint32_t visible = q < queries ? visible_keys(m, first_query + q, first_key, keys) : 0;
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j++) {
            const uint32_t k = first_column() + j;
            float weight = 0.0F, left = 0.0F, slope = 0.0F;
            if (k < visible) {
                weight = exp_below_zero(scores.at[i][j] - stat.x) * stat.y;
                if (drops) {
                    const float factor = kept[q] >> k & 1 ? m.keep_scale : 0.0F;
                    slope = __fmaf_rn(slopes.at[i][j], factor, -mean);
                    left = factor == 0.0F ? 0.0F : weight * factor;
                } else {
                    slope = slopes.at[i][j] - mean;
                    left = weight;
                }
                slope = (m.score_scale * weight) * slope;
            }
            scores.at[i][j] = left;
            slopes.at[i][j] = slope;
        }
    }
}

/* to += left^T right, a tile of global memory; the first time it begins with 0. */
static __device__ void accumulate(float *to, size_t row, bool more, const float *left, const float *from,
                                  size_t from_row, uint32_t depth, float *right, uint32_t rows, uint32_t Cp) {
    for (uint32_t c = 0; c < Cp; c += TILE) {
        Accumulators sums;
        clear(sums);
        __syncthreads();
        stage(right, from + c, from_row, depth, Cp - c);
        if (more) get_rows(sums, to + c, row, rows, Cp - c);
        __syncthreads();
        multiply(sums, left, right, depth);
        put_rows(to + c, row, sums, rows, Cp - c);
    }
}

/* dq of a tile of queries. */
template <bool PAPER>
static __global__ void __launch_bounds__(THREADS)
    dense_backward_queries(const Member *__restrict__ members, Pass pass, uint32_t block) {
    SF_DYNAMIC_SHARED(float, shared);
    __shared__ float means[TILE];
    __shared__ uint64_t kept[TILE];
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<PAPER>(m);
    Head head;
    if (m.selection != DENSE || !head_of(head, m, s, pass, block)) return;
    float *left = shared, *right = left + TILE * LD, *dscores = right + TILE * LD;
    const uint32_t first = head.tile * TILE, queries = left_of(m.T, first);
    const float2 *stats = m.traces[block].stats + (size_t)head.slot * m.T + first;
    const uint32_t end = key_end(m, first + queries);
    means_of(means, m, s, head, first);
    for (uint32_t key = 0; key < end; key += TILE) {
        Accumulators scores, slopes;
        scores_of(scores, head.q, head.stride, first, head.k, head.stride, key, m.score_scale, m.T, s.Dp, left, right);
        scores_of(slopes, head.dcontext, s.HDp, first, head.v, head.stride, key, 1.0F, m.T, s.Dp, left, right);
        draw_weights(kept, m, s, pass, head, block, first, key);
        __syncthreads();
        slopes_of(scores, slopes, m, s, pass, stats, means, kept, first, queries, key, left_of(end, key));
        put_across(dscores, slopes);
        accumulate(head.dq + (size_t)first * head.stride, head.stride, key > 0, dscores,
                   head.k + (size_t)key * head.stride, head.stride, left_of(end, key), right, queries, s.Dp);
        __syncthreads();
    }
}

/* dk and dv of a tile of keys. */
template <bool PAPER>
static __global__ void __launch_bounds__(THREADS)
    dense_backward_keys(const Member *__restrict__ members, Pass pass, uint32_t block) {
    SF_DYNAMIC_SHARED(float, shared);
    __shared__ float means[TILE];
    __shared__ uint64_t kept[TILE];
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<PAPER>(m);
    Head head;
    if (m.selection != DENSE || !head_of(head, m, s, pass, block)) return;
    float *left = shared, *right = left + TILE * LD, *dscores = right + TILE * LD, *weights = dscores + TILE * LD;
    const uint32_t key = head.tile * TILE, keys = left_of(m.T, key);
    const uint32_t begin = m.causal ? key : 0; /* the first query that sees any of them */
    for (uint32_t first = begin; first < m.T; first += TILE) {
        const uint32_t queries = left_of(m.T, first);
        const float2 *stats = m.traces[block].stats + (size_t)head.slot * m.T + first;
        Accumulators scores, slopes;
        __syncthreads();
        means_of(means, m, s, head, first);
        draw_weights(kept, m, s, pass, head, block, first, key);
        scores_of(scores, head.q, head.stride, first, head.k, head.stride, key, m.score_scale, m.T, s.Dp, left, right);
        scores_of(slopes, head.dcontext, s.HDp, first, head.v, head.stride, key, 1.0F, m.T, s.Dp, left, right);
        slopes_of(scores, slopes, m, s, pass, stats, means, kept, first, queries, key, keys);
        put(dscores, slopes);
        put(weights, scores);
        accumulate(head.dk + (size_t)key * head.stride, head.stride, first > begin, dscores,
                   head.q + (size_t)first * head.stride, head.stride, queries, right, keys, s.Dp);
        accumulate(head.dv + (size_t)key * head.stride, head.stride, first > begin, weights,
                   head.dcontext + (size_t)first * s.HDp, s.HDp, queries, right, keys, s.Dp);
    }
}

/* Sequences of one tile: dq, dk and dv at once. */
template <bool PAPER>
static __global__ void __launch_bounds__(THREADS)
    dense_backward_short(const Member *__restrict__ members, Pass pass, uint32_t block) {
    SF_DYNAMIC_SHARED(float, shared);
    __shared__ float means[TILE];
    __shared__ uint64_t kept[TILE];
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<PAPER>(m);
    Head head;
    if (m.selection != DENSE || !head_of(head, m, s, pass, block)) return;
    float *left = shared, *right = left + TILE * LD, *across = right + TILE * LD;
    const float2 *stats = m.traces[block].stats + (size_t)head.slot * m.T;
    Accumulators scores, slopes;
    means_of(means, m, s, head, 0);
    draw_weights(kept, m, s, pass, head, block, 0, 0);
    scores_of(scores, head.q, head.stride, 0, head.k, head.stride, 0, m.score_scale, m.T, s.Dp, left, right);
    scores_of(slopes, head.dcontext, s.HDp, 0, head.v, head.stride, 0, 1.0F, m.T, s.Dp, left, right);
    slopes_of(scores, slopes, m, s, pass, stats, means, kept, 0, m.T, 0, m.T);
    put(left, slopes);
    put_across(across, slopes);
    accumulate(head.dq, head.stride, false, across, head.k, head.stride, m.T, right, m.T, s.Dp);
    accumulate(head.dk, head.stride, false, left, head.q, head.stride, m.T, right, m.T, s.Dp);
    __syncthreads();
    put(left, scores);
    accumulate(head.dv, head.stride, false, left, head.dcontext, s.HDp, m.T, right, m.T, s.Dp);
}

} // namespace sf

using namespace sf;

static size_t shared_of(const sf_cuda_launch *launch) {
    return (2 * TILE + (launch->most_length > TILE ? (int)KEY_TILE : (int)TILE)) * LD * sizeof(float);
}

cudaError_t sf_cuda_prepare_dense(void) {
    AttentionKernel *const kernels[] = {dense_forward<true>,          dense_forward<false>,
                                        dense_backward_queries<true>, dense_backward_queries<false>,
                                        dense_backward_keys<true>,    dense_backward_keys<false>,
                                        dense_backward_short<true>,   dense_backward_short<false>};
    return reserve_shared(kernels, sizeof kernels / sizeof *kernels);
}

void sf_cuda_dense_forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    if (launch->on_tensor_cores) return sf_cuda_tensor_dense_forward(launch, pass, block);
    launch_attention(launch->paper ? dense_forward<true> : dense_forward<false>, shared_of(launch), launch, pass,
                     block);
}

void sf_cuda_dense_backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    if (launch->on_tensor_cores) return sf_cuda_tensor_dense_backward(launch, pass, block);
    const bool paper = launch->paper;
    const size_t shared = shared_of(launch);
    if (launch->most_length <= TILE) {
        launch_attention(paper ? dense_backward_short<true> : dense_backward_short<false>, shared, launch, pass, block);
        return;
    }
    launch_attention(paper ? dense_backward_queries<true> : dense_backward_queries<false>, shared, launch, pass, block);
    launch_attention(paper ? dense_backward_keys<true> : dense_backward_keys<false>, shared, launch, pass, block);
}
