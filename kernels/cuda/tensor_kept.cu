/* Some keys kept, softmax, for models of width 64 and less: attention_kept.cu with scores on tensor cores. Four
 * threads, a quad, take a query and what it keeps, a page of 8 keys at a time; each holds 16 channels. Keys by score
 * are chosen while their scores are in registers. */
#include "kernels/cuda/chance.cuh"
#include "kernels/cuda/selection.cuh"
#include "kernels/cuda/tensor_head.cuh"
#include "kernels/cuda/tensor_kept.cuh"
#include "kernels/cuda/tensor_launch.h"

namespace sf {

enum { KEPT_THREADS = 256, KEPT_WARPS = KEPT_THREADS / 32 };

/* ---- forward: keys by position or by chance */

enum { QUAD_QUERIES = KEPT_THREADS / QUAD };

template <typename P, bool PAPER>
static __global__ void __launch_bounds__(KEPT_THREADS, 3)
    tensor_placed_forward(const Member *__restrict__ members, Pass pass, uint32_t block) {
    const Member &m = members[blockIdx.y];
    TensorHead<P, PAPER> head;
    if (m.selection != BY_PATTERN && m.selection != BY_CHANCE) return;
    if (!head_of(head, m, pass, block, QUAD_QUERIES)) return;
    const Trace &t = m.traces[pass.training ? block : 0];
    const uint32_t first = head.part * QUAD_QUERIES, mine = first + threadIdx.x / QUAD;
    const uint32_t query = mine < m.T ? mine : first;
    if (m.selection == BY_CHANCE) {
        const uint32_t chooser = first + threadIdx.x;
        if (threadIdx.x < QUAD_QUERIES && chooser < m.T)
            select_by_chance(
                t.keys + (size_t)head.slot * m.kept + (size_t)chooser * m.K,
                index_of(m, pass, pass.training ? RANDOM_KEYS : RANDOM_KEYS_EVALUATION, block, head.h, head.n), chooser,
                m.T, m.K);
        __syncthreads();
    }
    KeptRow row = row_of(m, t, head.slot, query);
    if (mine >= m.T) row.count = 0;
    Page page;
    attend_row<P, PAPER, PRODUCTS>(page, row, m, head, index_of(m, pass, DROP_WEIGHTS, block, head.h, head.n), query,
                                   threshold_of(m, pass));
}

/* ---- forward: keys by score */

enum { QUERIES = KEPT_WARPS * WARP_ROWS };

/* The best N of a thread's own keys, the best first; of equal ones, the lower key. */
template <int N> struct BestOfThread {
    float scores[N];
    uint32_t keys[N];
};

template <int N> static __device__ void insert(BestOfThread<N> &best, float score, uint32_t key) {
    bool better[N];
#pragma unroll
    for (int i = 0; i < N; i++) better[i] = score > best.scores[i];
#pragma unroll
    for (int i = N - 1; i >= 0; i--) {
        const bool moves = i > 0 && better[i > 0 ? i - 1 : 0];
        if (better[i]) {
            best.scores[i] = moves ? best.scores[i > 0 ? i - 1 : 0] : score;
            best.keys[i] = moves ? best.keys[i > 0 ? i - 1 : 0] : key;
        }
    }
}

/* Value v of a row, where v is not known in advance. */
static __device__ float value_at(const Sums<8> &sums, int row, uint32_t v) {
    float eight[8], four[4];
#pragma unroll
    for (int i = 0; i < 8; i++) eight[i] = v & 1 ? sums.at(row, 2 * i + 1) : sums.at(row, 2 * i);
#pragma unroll
    for (int i = 0; i < 4; i++) four[i] = v & 2 ? eight[2 * i + 1] : eight[2 * i];
    const float low = v & 4 ? four[1] : four[0], high = v & 4 ? four[3] : four[2];
    return v & 8 ? high : low;
}

static constexpr float least_score = -3.4e38F; /* NaN and minus infinity count as that */

/* Descending. */
template <int N> static __device__ void sort(float (&values)[N]) {
#pragma unroll
    for (int i = 1; i < N; i++)
#pragma unroll
        for (int j = i; j > 0; j--) {
            const float low = fminf(values[j], values[j - 1]);
            values[j - 1] = fmaxf(values[j], values[j - 1]);
            values[j] = low;
        }
}

/* The N-th best score that a quad has seen: a key to come is not among the best N unless its score is greater. Of two
 * sorted lists, the greater ones of element i of the one and element N - 1 - i of the other are the best N. */
template <int N> static __device__ float bound_of(const BestOfThread<N> &best) {
    float both[N], least;
#pragma unroll
    for (int i = 0; i < N; i++) both[i] = fmaxf(best.scores[i], __shfl_xor_sync(WHOLE_WARP, best.scores[N - 1 - i], 1));
    sort(both);
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float other = __shfl_xor_sync(WHOLE_WARP, both[N - 1 - i], 2);
        least = i == 0 ? fmaxf(both[i], other) : fminf(least, fmaxf(both[i], other));
    }
    return least > least_score ? least : __int_as_float(0x7fffffff); /* NaN: not that many so far */
}

/* Something less than the 5th or 8th best of the first tile: each thread's values in two halves have 8 maxima. */
template <int N> static __device__ float first_bound(const Sums<8> &scores, int row) {
    float first = scores.at(row, 0), second = scores.at(row, 8);
#pragma unroll
    for (int v = 1; v < 8; v++) {
        first = fmaxf(first, scores.at(row, v));
        second = fmaxf(second, scores.at(row, 8 + v));
    }
    float four[4] = {fmaxf(first, second), fminf(first, second), 0.0F, 0.0F};
    four[2] = __shfl_xor_sync(WHOLE_WARP, four[0], 1);
    four[3] = __shfl_xor_sync(WHOLE_WARP, four[1], 1);
    sort(four);
    float bound = 0.0F;
#pragma unroll
    for (int i = 0; i < 4; i++) { /* the lower half of all eight */
        const float low = fminf(four[i], __shfl_xor_sync(WHOLE_WARP, four[3 - i], 2));
        bound = i == 0 ? low : N <= 5 ? fmaxf(bound, low) : fminf(bound, low);
    }
    return bound > least_score ? bound - fabsf(bound) * 1e-6F - 1e-30F : __int_as_float(0x7fffffff);
}

/* Scores of 64 keys from `first` on: those that may be among the best are inserted one by one. */
template <int N>
static __device__ void offer_tile(BestOfThread<N> &best, float &bound, const Sums<8> &scores, int row, uint32_t first,
                                  uint32_t T) {
    const uint32_t t = place_in_group();
    uint32_t better = 0;
    if (first == 0 && T >= KEYS) bound = first_bound<N>(scores, row);
#pragma unroll
    for (int v = 0; v < VALUES; v++)
        if (!(scores.at(row, v) <= bound)) better |= 1U << v; /* so NaN, and anything where the bound is NaN */
    if (T - first < KEYS)
#pragma unroll
        for (int v = 0; v < VALUES; v++)
            if (v / 2 * 8 + 2 * t + v % 2 >= T - first) better &= ~(1U << v);
    while (__any_sync(WHOLE_WARP, better != 0)) {
        const uint32_t v = better != 0 ? (uint32_t)__ffs((int)better) - 1 : 0;
        const float score = fmaxf(value_at(scores, row, v), least_score);
        if (better != 0) insert(best, score, first + v / 2 * 8 + 2 * t + v % 2);
        better &= better - 1;
    }
    bound = bound_of(best);
}

/* The best of a quad, in ascending order of the keys: all four threads get them. */
template <int N> static __device__ void gather(Page &page, BestOfThread<N> best, uint32_t K) {
    page.count = K;
#pragma unroll
    for (int round = 0; round < PAGE; round++) {
        page.keys[round] = NO_KEY;
        page.scores[round] = 0.0F;
        if (round >= N || round >= (int)K) continue;
        float score = best.scores[0];
        uint32_t key = best.keys[0];
#pragma unroll
        for (int other = 1; other < QUAD; other *= 2) {
            const float their_score = __shfl_xor_sync(WHOLE_WARP, score, other);
            const uint32_t their_key = __shfl_xor_sync(WHOLE_WARP, key, other);
            if (their_score > score || (their_score == score && their_key < key)) {
                score = their_score;
                key = their_key;
            }
        }
        page.keys[round] = key;
        page.scores[round] = score;
        if (key == best.keys[0]) {
#pragma unroll
            for (int i = 0; i + 1 < N; i++) {
                best.scores[i] = best.scores[i + 1];
                best.keys[i] = best.keys[i + 1];
            }
            best.scores[N - 1] = __int_as_float(0xff800000);
            best.keys[N - 1] = NO_KEY;
        }
    }
#pragma unroll
    for (int i = 1; i < N; i++) /* sorted by insertion; those that are not real stay at the end */
#pragma unroll
        for (int j = i; j > 0; j--)
            if (page.keys[j] < page.keys[j - 1]) {
                const uint32_t key = page.keys[j];
                const float score = page.scores[j];
                page.keys[j] = page.keys[j - 1];
                page.scores[j] = page.scores[j - 1];
                page.keys[j - 1] = key;
                page.scores[j - 1] = score;
            }
}

template <typename P> static __device__ void negate(Operand<P> &x) {
#pragma unroll
    for (int s = 0; s < depth_steps<P>; s++)
#pragma unroll
        for (int i = 0; i < 4; i++) x.a[s][i] ^= P::WIDE == 4 ? 0x80000000U : 0x80008000U;
}

template <typename P, bool PAPER> using KeyStream = RowStream<P, PAPER, KEYS, KEPT_THREADS>;

/* The warp's queries as a left factor, by way of shared memory, which is free again afterwards. */
template <typename P, bool PAPER>
static __device__ void load_queries(Operand<P> &q, uint4 *tile, const TensorHead<P, PAPER> &head, uint32_t T) {
    RowStream<P, PAPER, QUERIES, KEPT_THREADS> queries(head.q, head.stride(), head.columns(), head.part * QUERIES);
    queries.next(tile, head.stride(), T);
    copy_commit();
    copy_wait<0>();
    __syncthreads();
    load_operand(q, tile, threadIdx.x / 32 * WARP_ROWS);
    __syncthreads();
}

/* At most N keys of each query. */
template <typename P, bool PAPER, int N>
static __global__ void __launch_bounds__(KEPT_THREADS, 2)
    tensor_chosen_forward(const Member *__restrict__ members, Pass pass, uint32_t block) {
    SF_DYNAMIC_SHARED(uint4, shared); /* [2][tile] */
    const Member &m = members[blockIdx.y];
    TensorHead<P, PAPER> head;
    if (m.selection != BY_LARGEST && m.selection != BY_SMALLEST) return;
    if (!head_of(head, m, pass, block, QUERIES)) return;
    const uint32_t first = head.part * QUERIES + threadIdx.x / 32 * WARP_ROWS, tile = KEYS * chunks_of_row<P>;
    Operand<P> q;
    BestOfThread<N> best[2];
    float bounds[2] = {__int_as_float(0x7fffffff), __int_as_float(0x7fffffff)};
    load_queries(q, shared, head, m.T);
    KeyStream<P, PAPER> keys(head.k, head.stride(), head.columns(), 0);
    keys.next(shared, head.stride(), m.T);
    copy_commit();
    if (m.selection == BY_SMALLEST) negate(q);
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int i = 0; i < N; i++) {
            best[r].scores[i] = __int_as_float(0xff800000);
            best[r].keys[i] = NO_KEY;
        }
    for (uint32_t key = 0, turn = 0; key < m.T; key += KEYS, turn ^= 1) {
        copy_wait<0>();
        __syncthreads();
        if (key + KEYS < m.T) keys.next(shared + (turn ^ 1) * tile, head.stride(), m.T);
        copy_commit();
        if (first >= m.T) continue;
        Sums<8> scores;
        clear(scores);
        multiply_rows(scores, q, shared + turn * tile, 0);
#pragma unroll
        for (int r = 0; r < 2; r++) offer_tile(best[r], bounds[r], scores, r, key, m.T);
    }
    if (first >= m.T) return;
    const Trace &t = m.traces[pass.training ? block : 0];
    const Index index = index_of(m, pass, DROP_WEIGHTS, block, head.h, head.n);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const uint32_t mine = first + group_of_lane() + 8 * r, query = mine < m.T ? mine : first;
        KeptRow row = row_of(m, t, head.slot, query);
        Page page;
        gather(page, best[r], m.K);
        if (mine >= m.T) row.count = page.count = 0;
#pragma unroll
        for (uint32_t i = 0; i < PAGE; i++) {
            if (m.selection == BY_SMALLEST) page.scores[i] = -page.scores[i];
            if (i < page.count && i % QUAD == place_in_group()) t.keys[row.keys - t.keys + i] = page.keys[i];
        }
        attend_row<P, PAPER, REGISTERS>(page, row, m, head, index, query, threshold_of(m, pass));
    }
}

/* Any number of keys: the warp chooses for its queries one after the other, from scores in shared memory. */
template <typename P, bool PAPER>
static __global__ void __launch_bounds__(KEPT_THREADS, 1)
    tensor_chosen_forward_many(const Member *__restrict__ members, Pass pass, uint32_t block) {
    enum { SCORES_ROW = KEYS + 4 };
    SF_DYNAMIC_SHARED(uint4, shared); /* [2][tile], then the warps' scores [16,SCORES_ROW] */
    const Member &m = members[blockIdx.y];
    TensorHead<P, PAPER> head;
    if (m.selection != BY_LARGEST && m.selection != BY_SMALLEST) return;
    if (!head_of(head, m, pass, block, QUERIES)) return;
    const uint32_t warp = threadIdx.x / 32, lane = lane_of_thread(), g = group_of_lane();
    const uint32_t first = head.part * QUERIES + warp * WARP_ROWS, tile = KEYS * chunks_of_row<P>;
    const Trace &t = m.traces[pass.training ? block : 0];
    const float sign = m.selection == BY_LARGEST ? 1.0F : -1.0F;
    float *const rows = reinterpret_cast<float *>(shared + 2 * tile) + warp * WARP_ROWS * SCORES_ROW;
    Operand<P> q;
    Best best[WARP_ROWS];
    load_queries(q, shared, head, m.T);
    KeyStream<P, PAPER> keys(head.k, head.stride(), head.columns(), 0);
    keys.next(shared, head.stride(), m.T);
    copy_commit();
#pragma unroll
    for (uint32_t i = 0; i < WARP_ROWS; i++) {
        const size_t at = (size_t)head.slot * m.kept + (size_t)(first + i) * m.K;
        if (first + i < m.T) begin_best(best[i], t.dscores + at, reinterpret_cast<uint32_t *>(t.factors + at), m.K);
    }
    for (uint32_t key = 0, turn = 0; key < m.T; key += KEYS, turn ^= 1) {
        copy_wait<0>();
        __syncthreads();
        if (key + KEYS < m.T) keys.next(shared + (turn ^ 1) * tile, head.stride(), m.T);
        copy_commit();
        if (first >= m.T) continue;
        Sums<8> scores;
        clear(scores);
        multiply_rows(scores, q, shared + turn * tile, 0);
        __syncwarp();
#pragma unroll
        for (int r = 0; r < 2; r++)
#pragma unroll
            for (int v = 0; v < VALUES; v++)
                rows[(g + 8 * r) * SCORES_ROW + v / 2 * 8 + 2 * place_in_group() + v % 2] = scores.at(r, v);
        __syncwarp();
#pragma unroll
        for (uint32_t i = 0; i < WARP_ROWS; i++)
            for (uint32_t half = 0; half < KEYS && first + i < m.T; half += 32)
                offer(best[i], rows[i * SCORES_ROW + half + lane], key + half + lane < m.T, key + half, m.K, sign);
    }
    if (first >= m.T) return;
#pragma unroll
    for (uint32_t i = 0; i < WARP_ROWS; i++) {
        const size_t at = (size_t)head.slot * m.kept + (size_t)(first + i) * m.K;
        if (first + i < m.T) put_best(t.keys + at, t.weights + at, best[i], m.K);
    }
    __syncwarp();
    const Index index = index_of(m, pass, DROP_WEIGHTS, block, head.h, head.n);
    for (int r = 0; r < 2; r++) {
        const uint32_t mine = first + g + 8 * r, query = mine < m.T ? mine : first;
        KeptRow row = row_of(m, t, head.slot, query);
        if (mine >= m.T) row.count = 0;
        Page page;
        attend_row<P, PAPER, MEMORY>(page, row, m, head, index, query, threshold_of(m, pass));
    }
}

/* ---- backward */

/* dq of one query for each quad, and the gradients of its scores. */
template <typename P, bool PAPER>
static __global__ void __launch_bounds__(KEPT_THREADS, 3)
    tensor_kept_backward_queries(const Member *__restrict__ members, Pass pass, uint32_t block) {
    const Member &m = members[blockIdx.y];
    TensorHead<P, PAPER> head;
    if (m.selection == DENSE || !head_of(head, m, pass, block, QUAD_QUERIES)) return;
    const uint32_t first = head.part * QUAD_QUERIES, mine = first + threadIdx.x / QUAD, t = place_in_group();
    const uint32_t query = mine < m.T ? mine : first;
    const bool drops = threshold_of(m, pass) > 0;
    KeptRow row = row_of(m, m.traces[block], head.slot, query);
    if (mine >= m.T) row.count = 0;
    const Channels dcontext = load_row<P>(head.dcontext + (size_t)query * head.context_stride(), head.columns());
    Page page = {};
    float weights[PAGE], mean = 0.0F;
    for (uint32_t from = 0; __any_sync(WHOLE_WARP, from < row.count); from += PAGE) {
        if (from < row.count)
            load_keys(page, row, from);
        else
            page.count = 0;
#pragma unroll
        for (uint32_t i = 0; i < PAGE; i++) {
            if (!__any_sync(WHOLE_WARP, i < page.count)) continue;
            const bool real = i < page.count;
            const uint32_t key = real ? page.keys[i] : query;
            const float slope =
                dot_of_quad(dcontext, load_row<P>(head.v + (size_t)key * head.stride(), head.columns()));
            if (!real) continue;
            weights[i] = row.weights[from + i];
            page.scores[i] = drops ? row.factors[from + i] * slope : slope;
            mean = __fmaf_rn(weights[i], page.scores[i], mean);
            if (row.count > PAGE && t == 0) row.dscores[from + i] = page.scores[i];
        }
    }
    __syncwarp();
    Channels dq = {};
    for (uint32_t from = 0; __any_sync(WHOLE_WARP, from < row.count); from += PAGE) {
        if (from >= row.count)
            page.count = 0;
        else if (row.count > PAGE || page.count == 0) /* another row of the warp has more pages */
            load_keys(page, row, from);
#pragma unroll
        for (uint32_t i = 0; i < PAGE; i++) {
            if (i >= page.count) break;
            const float weight = row.count > PAGE ? row.weights[from + i] : weights[i];
            const float before = row.count > PAGE ? row.dscores[from + i] : page.scores[i];
            const float slope = (weight * (before - mean)) * m.score_scale;
            page.scores[i] = slope;
            add_scaled(dq, load_row<P>(head.k + (size_t)page.keys[i] * head.stride(), head.columns()), slope);
        }
        __syncwarp();
#pragma unroll
        for (uint32_t i = 0; i < PAGE; i++)
            if (i < page.count && i % QUAD == t) row.dscores[from + i] = page.scores[i];
    }
    if (row.count > 0) store_row<P>(head.dq + (size_t)query * head.stride(), dq, head.columns());
}

/* The queries that keep a key. */
struct Keepers {
    const uint32_t *queries, *places; /* queries: NULL where place / K is the query */
    uint32_t begin, end, K;
};

static __device__ Keepers keepers_of(const Member &m, const Trace &t, uint32_t slot, uint32_t key) {
    if (m.selection == BY_PATTERN)
        return {m.key_queries, m.key_places, m.key_offsets[key], m.key_offsets[key + 1], m.K};
    const uint32_t *const ends = t.key_offsets + (size_t)slot * (m.T + 1) + key;
    return {nullptr, t.key_places + (size_t)slot * m.kept, ends[0], ends[1], m.K};
}

struct Share { /* what one query gives to a key it keeps */
    uint32_t query;
    float slope, weight;
};

static __device__ Share share_of(const Keepers &keepers, const Trace &t, size_t base, bool drops, uint32_t i) {
    const uint32_t place = keepers.places[i];
    const float weight = t.weights[base + place];
    return {keepers.queries != nullptr ? keepers.queries[i] : place / keepers.K, t.dscores[base + place],
            drops ? t.factors[base + place] * weight : weight};
}

/* Adds the entries first, first + step, ... of a key's list, up to `end`. */
template <typename P, bool PAPER>
static __device__ void add_shares(Channels &dk, Channels &dv, const Keepers &keepers, const Trace &t,
                                  const TensorHead<P, PAPER> &head, size_t base, bool drops, uint32_t first,
                                  uint32_t end, uint32_t step) {
    Share next = {};
    if (first < end) next = share_of(keepers, t, base, drops, first);
    for (uint32_t i = first; i < end; i += step) {
        const Share now = next;
        if (i + step < end) next = share_of(keepers, t, base, drops, i + step);
        const Channels q = load_row<P>(head.q + (size_t)now.query * head.stride(), head.columns());
        const Channels dcontext =
            load_row<P>(head.dcontext + (size_t)now.query * head.context_stride(), head.columns());
        add_scaled(dk, q, now.slope);
        add_scaled(dv, dcontext, now.weight);
    }
}

/* Sum over the quads of a warp, for all of them. */
static __device__ void add_quads(Channels &sums) {
#pragma unroll
    for (int i = 0; i < VALUES; i++)
#pragma unroll
        for (int other = QUAD; other < 32; other *= 2) sums.at[i] += __shfl_xor_sync(WHOLE_WARP, sums.at[i], other);
}

enum { SHORT_LIST = 24 };

/* dk and dv, one quad per key; what a long list has beyond its beginning is shared by the quads of the warp. */
template <typename P, bool PAPER>
static __global__ void __launch_bounds__(KEPT_THREADS, 2)
    tensor_kept_backward_keys(const Member *__restrict__ members, Pass pass, uint32_t block) {
    const Member &m = members[blockIdx.y];
    TensorHead<P, PAPER> head;
    if (m.selection == DENSE || !head_of(head, m, pass, block, QUAD_QUERIES)) return;
    const Trace &t = m.traces[block];
    const uint32_t key = head.part * QUAD_QUERIES + threadIdx.x / QUAD;
    const size_t base = (size_t)head.slot * m.kept;
    const bool drops = threshold_of(m, pass) > 0;
    Keepers keepers = keepers_of(m, t, head.slot, key < m.T ? key : 0);
    if (key >= m.T) keepers.end = keepers.begin;
    const uint32_t count = keepers.end - keepers.begin;
    Channels dk = {}, dv = {};
    add_shares(dk, dv, keepers, t, head, base, drops, keepers.begin,
               keepers.begin + (count < SHORT_LIST ? count : SHORT_LIST), 1);
    uint32_t unfinished = __ballot_sync(WHOLE_WARP, count > SHORT_LIST && place_in_group() == 0);
    for (; unfinished != 0; unfinished &= unfinished - 1) {
        const int whose = __ffs((int)unfinished) - 1; /* the first lane of its quad */
        Keepers list = keepers;
        list.begin = __shfl_sync(WHOLE_WARP, keepers.begin, whose) + SHORT_LIST;
        list.end = __shfl_sync(WHOLE_WARP, keepers.end, whose);
        Channels more_dk = {}, more_dv = {};
        add_shares(more_dk, more_dv, list, t, head, base, drops, list.begin + group_of_lane(), list.end, 8);
        __syncwarp();
        add_quads(more_dk);
        add_quads(more_dv);
        if ((int)(lane_of_thread() - place_in_group()) == whose) {
            add_scaled(dk, more_dk, 1.0F);
            add_scaled(dv, more_dv, 1.0F);
        }
    }
    if (key >= m.T) return;
    store_row<P>(head.dk + (size_t)key * head.stride(), dk, head.columns());
    store_row<P>(head.dv + (size_t)key * head.stride(), dv, head.columns());
}

enum { FEW = 5, SOME = 8 };

template <typename P> static size_t shared_of_few() {
    return 2 * KEYS * chunks_of_row<P> * sizeof(uint4);
}
template <typename P> static size_t shared_of_many() {
    return shared_of_few<P>() + KEPT_WARPS * WARP_ROWS * (KEYS + 4) * sizeof(float);
}

template <typename P, bool PAPER>
static void forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    if (launch->placed)
        launch_heads(tensor_placed_forward<P, PAPER>, KEPT_THREADS, 0, QUAD_QUERIES, launch, pass, block);
    if (launch->most_chosen == 0) return;
    if (launch->most_chosen > SOME)
        launch_heads(tensor_chosen_forward_many<P, PAPER>, KEPT_THREADS, shared_of_many<P>(), QUERIES, launch, pass,
                     block);
    else
        launch_heads(launch->most_chosen > FEW ? tensor_chosen_forward<P, PAPER, SOME>
                                               : tensor_chosen_forward<P, PAPER, FEW>,
                     KEPT_THREADS, shared_of_few<P>(), QUERIES, launch, pass, block);
}

template <typename P, bool PAPER>
static void backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    launch_heads(tensor_kept_backward_queries<P, PAPER>, KEPT_THREADS, 0, QUAD_QUERIES, launch, pass, block);
    launch_heads(tensor_kept_backward_keys<P, PAPER>, KEPT_THREADS, 0, QUAD_QUERIES, launch, pass, block);
}

} // namespace sf

using namespace sf;

cudaError_t sf_cuda_prepare_tensor_kept(void) {
    const cudaError_t errors[] = {reserve(tensor_chosen_forward_many<Tf32, true>, shared_of_many<Tf32>()),
                                  reserve(tensor_chosen_forward_many<Tf32, false>, shared_of_many<Tf32>()),
                                  reserve(tensor_chosen_forward_many<Bf16, true>, shared_of_many<Bf16>()),
                                  reserve(tensor_chosen_forward_many<Bf16, false>, shared_of_many<Bf16>())};
    for (const cudaError_t error : errors)
        if (error != cudaSuccess) return error;
    return cudaSuccess;
}

void sf_cuda_tensor_kept_forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    if (launch->precision == SF_TF32)
        launch->paper ? forward<Tf32, true>(launch, pass, block) : forward<Tf32, false>(launch, pass, block);
    else
        launch->paper ? forward<Bf16, true>(launch, pass, block) : forward<Bf16, false>(launch, pass, block);
}

void sf_cuda_tensor_kept_backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    if (launch->precision == SF_TF32)
        launch->paper ? backward<Tf32, true>(launch, pass, block) : backward<Tf32, false>(launch, pass, block);
    else
        launch->paper ? backward<Bf16, true>(launch, pass, block) : backward<Bf16, false>(launch, pass, block);
}
