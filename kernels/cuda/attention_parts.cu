/* Any mechanism made of the parts that parts.cuh and its companions know: one thread per query, which walks its kept
 * keys in order, and in the backward pass one warp per key, which takes the queries that keep it in ascending order.
 * Formulas and order as in docs/numerics.md, "any number of keys kept". What a query's rows take is held for `units`
 * tiles of queries at a time; the backward pass computes it again. */
#include "kernels/cuda/parts_walk.cuh"
#include "kernels/cuda/parts_weigh.cuh"

namespace sf {

enum { PARTS_WARPS = THREADS / 32, COLUMNS_AT_ONCE = 2 };

/* Scores of the queries of a unit with all keys that they see. Grid (units, members). */
static __global__ void __launch_bounds__(THREADS)
    parts_scores(const Member *__restrict__ members, Pass pass, uint32_t block, uint32_t round) {
    SF_DYNAMIC_SHARED(float, shared);
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<false>(m);
    const Parts &p = m.parts;
    const uint32_t tiles = m.T > 0 ? (m.T + UNIT - 1) / UNIT : 1, unit = round * p.units + blockIdx.x;
    Head head;
    if (m.selection != BY_PARTS || !p.scores_all || is_factored(m, pass)) return;
    if (blockIdx.x >= p.units || sequences_of(m, pass) == 0) return;
    if (!head_at(head, m, s, pass, block, unit / tiles, unit % tiles)) return;
    const uint32_t first = head.tile * UNIT, end = m.causal ? first + left_of(m.T, first) : m.T;
    float *left = shared, *right = left + TILE * LD, *rows = p.all_raw + (size_t)blockIdx.x * m.T * UNIT;
    for (uint32_t key = 0; key < end; key += TILE) {
        Accumulators sums;
        scores_of(sums, head.q, head.stride, first, head.k, head.stride, key, m.score_scale, m.T, s.Dp, left, right);
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j++) {
            const uint32_t at = key + first_column() + j;
            if (at < end)
                *reinterpret_cast<float4 *>(rows + (size_t)at * UNIT + first_row()) =
                    make_float4(sums.at[0][j], sums.at[1][j], sums.at[2][j], sums.at[3][j]);
        }
    }
}

/* Grid (units, members), a thread per query. */
static __global__ void __launch_bounds__(UNIT)
    parts_forward(const Member *__restrict__ members, Pass pass, uint32_t block, uint32_t round) {
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<false>(m);
    Head head;
    Query query;
    if (m.parts.weighting == SF_CUDA_DOUBLY || is_factored(m, pass)) return;
    if (!query_of(query, head, m, s, pass, block, round, blockIdx.x)) return;
    list_query(query, m, s, pass, block, head);
    weigh(query, m.parts);
    mix_query(query, m, s, pass, block, head);
}

/* As if the weights had been the softmax over all visible keys. */
static __device__ void go_straight_through(const Query &query, const Member &m, const Shape &s, const Head &head,
                                           const Index &index, uint32_t threshold) {
    const Column<float> weights = query.all; /* transforms need the raw scores again: these lie elsewhere then */
    slopes_of_weights<true>(query, query.visible, m, s, head, index, threshold);
    softmax_of(weights, query.visible);
    softmax_back(query.slopes, weights, query.visible);
}

/* dq, and what keys need. */
static __global__ void __launch_bounds__(UNIT)
    parts_backward_queries(const Member *__restrict__ members, Pass pass, uint32_t block, uint32_t round) {
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<false>(m);
    const Parts &p = m.parts;
    Head head;
    Query query;
    if (m.parts.weighting == SF_CUDA_DOUBLY || is_factored(m, pass)) return;
    if (!query_of(query, head, m, s, pass, block, round, blockIdx.x)) return;
    const uint32_t threshold = threshold_of(m, pass);
    const Index index = index_of(m, pass, DROP_WEIGHTS, block, head.h, head.n);
    list_query(query, m, s, pass, block, head);
    weigh(query, m.parts);
    p.counts[blockIdx.x * UNIT + threadIdx.x] = query.count;
    const uint32_t count = p.straight_through ? query.visible : query.count;
    if (p.straight_through) {
        go_straight_through(query, m, s, head, index, threshold);
    } else {
        slopes_of_weights<false>(query, count, m, s, head, index, threshold);
        weigh_back(query, p);
    }
    scores_back(query, count, m, s, head);
    drop_weights(query, m, index, threshold);
}

struct KeySums {
    float dk[COLUMNS_AT_ONCE], dv[COLUMNS_AT_ONCE];
};

/* What 32 queries of a unit give to a key. One warp, a query per lane, then a column per lane. */
static __device__ void add_queries(KeySums &sums, const Member &m, const Shape &s, const Head &head, uint32_t place,
                                   uint32_t first, uint32_t first_query, uint32_t key, uint32_t first_column_of_warp) {
    const Parts &p = m.parts;
    const uint32_t lane = threadIdx.x % 32, at = first + lane, query = first_query + at;
    const bool real = query < m.T && (!m.causal || key <= query);
    uint32_t here = NOT_KEPT;
    float weight = 0.0F, slope = 0.0F;
    if (real) {
        here = place_of(p.keys + (size_t)place * p.most_kept * UNIT + at, p.counts[place * UNIT + at], key);
        if (here != NOT_KEPT) weight = p.weights[((size_t)place * p.most_kept + here) * UNIT + at];
        const uint32_t through = p.straight_through ? key : here;
        if (through != NOT_KEPT) slope = p.slopes[((size_t)place * slopes_of_query(m) + through) * UNIT + at];
    }
    const uint32_t of_values = __ballot_sync(0xffffffffU, here != NOT_KEPT);
    const uint32_t of_keys = __ballot_sync(0xffffffffU, real && (p.straight_through || here != NOT_KEPT));
    for (uint32_t left = of_values | of_keys; left != 0; left &= left - 1) {
        const int who = __ffs((int)left) - 1;
        const float its_weight = __shfl_sync(0xffffffffU, weight, who),
                    its_slope = __shfl_sync(0xffffffffU, slope, who);
        const size_t row = first_query + first + (uint32_t)who;
#pragma unroll
        for (int i = 0; i < COLUMNS_AT_ONCE; i++) {
            const uint32_t c = first_column_of_warp + i * 32 + lane;
            if (c >= s.Dp) continue;
            if (of_keys >> who & 1) sums.dk[i] = __fmaf_rn(its_slope, head.q[row * head.stride + c], sums.dk[i]);
            if (of_values >> who & 1) sums.dv[i] = __fmaf_rn(its_weight, head.dcontext[row * s.HDp + c], sums.dv[i]);
        }
    }
}

/* dk and dv of 64 keys, from the units of the round. Grid (heads with units in a round * tiles of keys, members). */
static __global__ void __launch_bounds__(THREADS)
    parts_backward_keys(const Member *__restrict__ members, Pass pass, uint32_t block, uint32_t round) {
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<false>(m);
    const Parts &p = m.parts;
    if (m.selection != BY_PARTS || is_factored(m, pass) || sequences_of(m, pass) == 0) return;
    const uint32_t tiles = (m.T + UNIT - 1) / UNIT, begin = round * p.units;
    const uint32_t slot = begin / tiles + blockIdx.x / tiles, tile = blockIdx.x % tiles, lane = threadIdx.x % 32;
    const uint32_t first_unit = slot * tiles < begin ? begin : slot * tiles;
    const uint32_t end_unit = (slot + 1) * tiles < begin + p.units ? (slot + 1) * tiles : begin + p.units;
    Head head;
    if (first_unit >= end_unit || !head_at(head, m, s, pass, block, slot, tile)) return;
    for (uint32_t i = threadIdx.x / 32; i < left_of(m.T, tile * TILE); i += PARTS_WARPS) {
        const uint32_t key = tile * TILE + i;
        float *dk = head.dk + (size_t)key * head.stride, *dv = head.dv + (size_t)key * head.stride;
        for (uint32_t c = 0; c < s.Dp; c += 32 * COLUMNS_AT_ONCE) {
            KeySums sums;
#pragma unroll
            for (uint32_t part = 0; part < COLUMNS_AT_ONCE; part++) {
                const uint32_t column = c + part * 32 + lane;
                const bool more = first_unit > slot * tiles && column < s.Dp;
                sums.dk[part] = more ? dk[column] : 0.0F;
                sums.dv[part] = more ? dv[column] : 0.0F;
            }
            for (uint32_t unit = first_unit; unit < end_unit; unit++)
                for (uint32_t half = 0; half < UNIT; half += 32)
                    add_queries(sums, m, s, head, unit - begin, half, (unit - slot * tiles) * UNIT, key, c);
#pragma unroll
            for (uint32_t part = 0; part < COLUMNS_AT_ONCE; part++) {
                const uint32_t column = c + part * 32 + lane;
                if (column >= s.Dp) continue;
                dk[column] = sums.dk[part];
                dv[column] = sums.dv[part];
            }
        }
    }
}

} // namespace sf

using namespace sf;

static const size_t shared_of_scores = 2 * TILE * LD * sizeof(float);

void sf_cuda_parts_forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    if (launch->prepared) sf_cuda_prepare_parts(launch, pass, block);
    sf_cuda_factored_forward(launch, pass, block);
    for (uint32_t round = 0; round < launch->most_rounds; round++) {
        launch_parts(parts_scores, launch->most_units, THREADS, shared_of_scores, launch, pass, block, round);
        launch_parts(parts_forward, launch->most_units, UNIT, 0, launch, pass, block, round);
        if (launch->matrix) sf_cuda_matrix_forward(launch, pass, block, round);
    }
}

void sf_cuda_parts_backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    if (launch->prepared) sf_cuda_prepare_parts(launch, pass, block);
    sf_cuda_factored_backward(launch, pass, block);
    for (uint32_t round = 0; round < launch->most_rounds; round++) {
        launch_parts(parts_scores, launch->most_units, THREADS, shared_of_scores, launch, pass, block, round);
        launch_parts(parts_backward_queries, launch->most_units, UNIT, 0, launch, pass, block, round);
        if (launch->matrix) sf_cuda_matrix_backward(launch, pass, block, round);
        launch_parts(parts_backward_keys, launch->most_key_tiles, THREADS, 0, launch, pass, block, round);
    }
}
