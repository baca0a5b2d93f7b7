/* Some keys kept, softmax: one warp per query, and in the backward pass one warp per key, which takes the queries that
 * keep it in ascending order. Formulas and order as in docs/numerics.md. */
#include "kernels/cuda/chance.cuh"
#include "kernels/cuda/head.cuh"
#include "kernels/cuda/selection.cuh"
#include "kernels/cuda/tensor_launch.h"

namespace sf {

enum { WARPS = THREADS / 32 };

struct KeptRow {
    const uint32_t *keys;
    float *weights, *factors, *dscores;
    uint32_t count;
};

/* LISTED: members may be causal, whose queries keep up to K keys of those up to their own position. */
template <bool LISTED> static __device__ bool keeps_fewer(const Member &m) {
    return LISTED && m.causal && m.selection != BY_PATTERN;
}

template <bool LISTED> static __device__ uint32_t chosen_of(const Member &m, uint32_t query) {
    return keeps_fewer<LISTED>(m) && query < m.K ? query + 1 : m.K;
}

template <bool LISTED>
static __device__ KeptRow row_of(const Member &m, const Shape &s, const Trace &t, uint32_t slot, uint32_t query) {
    const uint32_t begin = m.offsets[query];
    const size_t at = (size_t)slot * m.kept + begin;
    KeptRow row;
    row.keys = m.selection == BY_PATTERN ? m.pattern + begin : t.keys + at;
    row.weights = t.weights + at;
    row.factors = t.factors + at;
    row.dscores = t.dscores + at;
    row.count = keeps_fewer<LISTED>(m) ? chosen_of<LISTED>(m, query) : m.offsets[query + 1] - begin;
    return row;
}

/* Dot product of two rows by 16 threads; all of them get it. */
static __device__ float dot_by_sixteen(const float *a, const float *b, uint32_t N) {
    float lane = 0.0F;
    for (uint32_t c = threadIdx.x % 16; c < N; c += SUM_LANES) lane = __fmaf_rn(a[c], b[c], lane);
    return total_of_threads(lane, 0xffffffffU);
}

/* Scores of the row become weights. One warp. */
static __device__ void softmax(float *weights, uint32_t count) {
    const uint32_t lane = threadIdx.x % 32;
    float largest = __int_as_float(0xff800000);
    for (uint32_t i = lane; i < count; i += 32) largest = weights[i] > largest ? weights[i] : largest;
#pragma unroll
    for (int other = 16; other > 0; other /= 2) {
        const float value = __shfl_xor_sync(0xffffffffU, largest, other);
        largest = value > largest ? value : largest;
    }
    float sum = 0.0F;
    for (uint32_t i = lane % 16; i < count; i += SUM_LANES) {
        const float weight = exp_below_zero(weights[i] - largest);
        sum += weight;
    }
    const float inverse = 1.0F / total_of_threads(sum, 0xffffffffU);
    for (uint32_t i = lane; i < count; i += 32) weights[i] = exp_below_zero(weights[i] - largest) * inverse;
    __syncwarp();
}

/* Scores of a tile of queries with all keys, a tile at a time, and the best of each: to the trace, as its weights. */
template <bool LISTED>
static __device__ void select_by_score(const Member &m, const Shape &s, const Trace &t, const Head &head, float *left,
                                       float *right, float *scores /* [TILE,TILE+1] */) {
    const uint32_t first = head.tile * TILE, queries = left_of(m.T, first), warp = threadIdx.x / 32;
    const float sign = m.selection == BY_LARGEST ? 1.0F : -1.0F;
    Best best[TILE / WARPS]; /* of queries warp, warp + WARPS, ... */
#pragma unroll
    for (uint32_t i = 0; i < TILE / WARPS; i++) {
        const size_t at = (size_t)head.slot * m.kept + (size_t)(first + warp + i * WARPS) * m.K;
        if (warp + i * WARPS < queries)
            begin_best(best[i], t.dscores + at, reinterpret_cast<uint32_t *>(t.factors + at),
                       chosen_of<LISTED>(m, first + warp + i * WARPS));
    }
    const uint32_t end = keeps_fewer<LISTED>(m) ? first + queries : m.T;
    for (uint32_t key = 0; key < end; key += TILE) {
        Accumulators sums;
        scores_of(sums, head.q, head.stride, first, head.k, head.stride, key, m.score_scale, m.T, s.Dp, left, right);
#pragma unroll
        for (int i = 0; i < THREAD_ROWS; i++)
#pragma unroll
            for (int j = 0; j < THREAD_COLUMNS; j++)
                scores[(first_row() + i) * (TILE + 1) + first_column() + j] = sums.at[i][j];
        __syncthreads();
#pragma unroll
        for (uint32_t i = 0; i < TILE / WARPS; i++)
            for (uint32_t half = 0; half < TILE && warp + i * WARPS < queries; half += 32) {
                const uint32_t at = half + threadIdx.x % 32, query = first + warp + i * WARPS;
                const bool real = key + at < (keeps_fewer<LISTED>(m) ? query + 1 : m.T);
                offer(best[i], scores[(warp + i * WARPS) * (TILE + 1) + at], real, key + half,
                      chosen_of<LISTED>(m, query), sign);
            }
    }
#pragma unroll
    for (uint32_t i = 0; i < TILE / WARPS; i++) {
        const size_t at = (size_t)head.slot * m.kept + (size_t)(first + warp + i * WARPS) * m.K;
        if (warp + i * WARPS < queries)
            put_best(t.keys + at, t.weights + at, best[i], chosen_of<LISTED>(m, first + warp + i * WARPS));
    }
}

template <bool PAPER, bool LISTED>
static __global__ void __launch_bounds__(THREADS)
    kept_forward(const Member *__restrict__ members, Pass pass, uint32_t block) {
    SF_DYNAMIC_SHARED(float, shared);
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<PAPER>(m);
    Head head;
    if (m.selection < BY_PATTERN || !head_of(head, m, s, pass, block)) return;
    const Trace &t = m.traces[pass.training ? block : 0];
    const uint32_t first = head.tile * TILE, queries = left_of(m.T, first);
    float *left = shared, *right = left + TILE * LD, *scores = right + TILE * LD;
    const bool by_score = m.selection == BY_LARGEST || m.selection == BY_SMALLEST;
    if (by_score) select_by_score<LISTED>(m, s, t, head, left, right, scores);
    if (m.selection == BY_CHANCE && threadIdx.x < queries) {
        const Index index =
            index_of(m, pass, pass.training ? RANDOM_KEYS : RANDOM_KEYS_EVALUATION, block, head.h, head.n);
        const uint32_t query = first + threadIdx.x;
        select_by_chance(t.keys + (size_t)head.slot * m.kept + query * m.K, index, query,
                         keeps_fewer<LISTED>(m) ? query + 1 : m.T, chosen_of<LISTED>(m, query));
    }
    if (keeps_fewer<LISTED>(m) && threadIdx.x < queries) /* places without a key */
        for (uint32_t i = first + threadIdx.x + 1; i < m.K; i++)
            t.keys[(size_t)head.slot * m.kept + (first + threadIdx.x) * m.K + i] = NO_KEY;
    __syncthreads();
    const uint32_t lane = threadIdx.x % 32, half = lane / 16, threshold = threshold_of(m, pass);
    const Index index = index_of(m, pass, DROP_WEIGHTS, block, head.h, head.n);
    for (uint32_t i = threadIdx.x / 32; i < queries; i += WARPS) {
        const uint32_t query = first + i;
        const KeptRow row = row_of<LISTED>(m, s, t, head.slot, query);
        for (uint32_t j = 0; j < row.count && !by_score; j += 2) {
            const uint32_t mine = j + half < row.count ? j + half : j;
            const float score = m.score_scale * dot_by_sixteen(head.q + (size_t)query * head.stride,
                                                               head.k + (size_t)row.keys[mine] * head.stride, s.Dp);
            if (lane % 16 == 0) row.weights[mine] = score;
        }
        __syncwarp();
        softmax(row.weights, row.count);
        if (threshold > 0)
            for (uint32_t j = lane; j < row.count; j += 32)
                row.factors[j] = keeps(index, query, row.keys[j], m.T, threshold) ? m.keep_scale : 0.0F;
        __syncwarp();
        for (uint32_t c = lane; c < s.Dp; c += 32) {
            float sum = 0.0F;
            for (uint32_t j = 0; j < row.count; j++) {
                const float weight = threshold > 0 ? row.factors[j] * row.weights[j] : row.weights[j];
                sum = __fmaf_rn(weight, head.v[(size_t)row.keys[j] * head.stride + c], sum);
            }
            head.context[(size_t)query * s.HDp + c] = sum;
        }
    }
}

/* With PAPER, no chunk is skipped: to look for it would take registers. */
template <bool PAPER, bool LISTED>
static __global__ void __launch_bounds__(THREADS)
    kept_backward_queries(const Member *__restrict__ members, Pass pass, uint32_t block) {
    if (PAPER) pass.skipped = 0;
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<PAPER>(m);
    Head head;
    if (m.selection < BY_PATTERN || !head_of(head, m, s, pass, block)) return;
    const Trace &t = m.traces[block];
    const uint32_t first = head.tile * TILE, queries = left_of(m.T, first);
    const uint32_t lane = threadIdx.x % 32, half = lane / 16, threshold = threshold_of(m, pass);
    for (uint32_t i = threadIdx.x / 32; i < queries; i += WARPS) {
        const uint32_t query = first + i;
        const KeptRow row = row_of<LISTED>(m, s, t, head.slot, query);
        const float *dcontext = head.dcontext + (size_t)query * s.HDp;
        for (uint32_t j = 0; j < row.count; j += 2) {
            const uint32_t mine = j + half < row.count ? j + half : j;
            const float dot = dot_by_sixteen(dcontext, head.v + (size_t)row.keys[mine] * head.stride, s.Dp);
            if (lane % 16 == 0) row.dscores[mine] = (threshold > 0 ? row.factors[mine] : 1.0F) * dot;
        }
        __syncwarp();
        float sum = 0.0F;
        for (uint32_t j = lane % 16; j < row.count; j += SUM_LANES)
            sum = __fmaf_rn(row.weights[j], row.dscores[j], sum);
        const float mean = total_of_threads(sum, 0xffffffffU);
        for (uint32_t j = lane; j < row.count; j += 32)
            row.dscores[j] = (row.weights[j] * (row.dscores[j] - mean)) * m.score_scale;
        __syncwarp();
        for (uint32_t c = lane; c < s.Dp; c += 32) {
            float dq = 0.0F;
            for (uint32_t j = 0; j < row.count; j++)
                dq = __fmaf_rn(row.dscores[j], head.k[(size_t)row.keys[j] * head.stride + c], dq);
            head.dq[(size_t)query * head.stride + c] = dq;
        }
    }
}

enum { COLUMNS_AT_ONCE = 2 }; /* per thread */

struct KeyGradient {
    float dk[COLUMNS_AT_ONCE], dv[COLUMNS_AT_ONCE];
};

/* What one query adds to the gradients of a key it keeps. */
static __device__ void add_query(KeyGradient &sums, const Member &m, const Shape &s, const Trace &t, const Head &head,
                                 uint32_t query, size_t place, uint32_t threshold, uint32_t first_column_of_warp) {
    const float slope = t.dscores[place];
    const float weight = threshold > 0 ? t.factors[place] * t.weights[place] : t.weights[place];
#pragma unroll
    for (int i = 0; i < COLUMNS_AT_ONCE; i++) {
        const uint32_t c = first_column_of_warp + i * 32 + threadIdx.x % 32;
        if (c >= s.Dp) continue;
        sums.dk[i] = __fmaf_rn(slope, head.q[(size_t)query * head.stride + c], sums.dk[i]);
        sums.dv[i] = __fmaf_rn(weight, head.dcontext[(size_t)query * s.HDp + c], sums.dv[i]);
    }
}

template <bool PAPER>
static __global__ void __launch_bounds__(THREADS)
    kept_backward_keys(const Member *__restrict__ members, Pass pass, uint32_t block) {
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<PAPER>(m);
    Head head;
    if (m.selection < BY_PATTERN || !head_of(head, m, s, pass, block)) return;
    const Trace &t = m.traces[block];
    const uint32_t first = head.tile * TILE, keys = left_of(m.T, first), threshold = threshold_of(m, pass);
    const uint32_t lane = threadIdx.x % 32;
    const size_t base = (size_t)head.slot * m.kept;
    for (uint32_t i = threadIdx.x / 32; i < keys; i += WARPS) {
        const uint32_t key = first + i;
        for (uint32_t c = 0; c < s.Dp; c += 32 * COLUMNS_AT_ONCE) {
            KeyGradient sums = {{0.0F, 0.0F}, {0.0F, 0.0F}};
            if (m.selection == BY_PATTERN) {
                for (uint32_t j = m.key_offsets[key]; j < m.key_offsets[key + 1]; j++)
                    add_query(sums, m, s, t, head, m.key_queries[j], base + m.key_places[j], threshold, c);
            } else {
                const uint32_t *const ends = t.key_offsets + (size_t)head.slot * (m.T + 1) + key;
                for (uint32_t j = ends[0]; j < ends[1]; j++) {
                    const uint32_t place = t.key_places[base + j];
                    add_query(sums, m, s, t, head, place / m.K, base + place, threshold, c);
                }
            }
#pragma unroll
            for (int part = 0; part < COLUMNS_AT_ONCE; part++) {
                const uint32_t column = c + part * 32 + lane;
                if (column >= s.Dp) continue;
                head.dk[(size_t)key * head.stride + column] = sums.dk[part];
                head.dv[(size_t)key * head.stride + column] = sums.dv[part];
            }
        }
    }
}

} // namespace sf

using namespace sf;

static const size_t shared_of_forward = (2 * TILE * LD + TILE * (TILE + 1)) * sizeof(float);

cudaError_t sf_cuda_prepare_kept(void) {
    AttentionKernel *const kernels[] = {kept_forward<true, false>, kept_forward<false, false>,
                                        kept_forward<false, true>};
    return reserve_shared(kernels, sizeof kernels / sizeof *kernels);
}

void sf_cuda_kept_forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    if (launch->on_tensor_cores) return sf_cuda_tensor_kept_forward(launch, pass, block);
    AttentionKernel *const kernel = launch->listed  ? kept_forward<false, true>
                                    : launch->paper ? kept_forward<true, false>
                                                    : kept_forward<false, false>;
    launch_attention(kernel, shared_of_forward, launch, pass, block);
}

void sf_cuda_kept_backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    if (launch->on_tensor_cores) return sf_cuda_tensor_kept_backward(launch, pass, block);
    const bool paper = launch->paper;
    AttentionKernel *const queries = launch->listed                ? kept_backward_queries<false, true>
                                     : paper && pass->skipped == 0 ? kept_backward_queries<true, false>
                                                                   : kept_backward_queries<false, false>;
    launch_attention(queries, 0, launch, pass, block);
    launch_attention(paper ? kept_backward_keys<true> : kept_backward_keys<false>, 0, launch, pass, block);
}
