/* What tensor_kept.cu computes for one query: four threads, a quad, share its row. */
#ifndef SF_KERNELS_CUDA_TENSOR_KEPT_CUH
#define SF_KERNELS_CUDA_TENSOR_KEPT_CUH

#include "kernels/cuda/selection.cuh"
#include "kernels/cuda/tensor_head.cuh"

namespace sf {

enum { PAGE = 8 };

/* ---- a row of a quad: 16 channels for each thread */

struct Channels {
    float at[VALUES];
};

static __device__ void unpack(float *to /* [4] */, const uint4 &chunk, const Tf32 &) {
    to[0] = __uint_as_float(chunk.x);
    to[1] = __uint_as_float(chunk.y);
    to[2] = __uint_as_float(chunk.z);
    to[3] = __uint_as_float(chunk.w);
}
static __device__ void unpack(float *to /* [8] */, const uint4 &chunk, const Bf16 &) {
    const uint32_t pairs[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        to[2 * i] = __uint_as_float(pairs[i] << 16);
        to[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000U);
    }
}

static __device__ uint4 pack(const float *from /* [4] */, const Tf32 &) {
    return make_uint4(to_tf32(from[0]), to_tf32(from[1]), to_tf32(from[2]), to_tf32(from[3]));
}
static __device__ uint4 pack(const float *from /* [8] */, const Bf16 &) {
    return make_uint4(pack_bf16(from[0], from[1]), pack_bf16(from[2], from[3]), pack_bf16(from[4], from[5]),
                      pack_bf16(from[6], from[7]));
}

template <typename P> static __device__ Channels load_row(const typename P::Stored *from, uint32_t columns) {
    Channels row;
#pragma unroll
    for (int c = 0; c < chunks_of_thread<P>; c++) {
        const uint32_t column = chunk_column<P>(c);
        unpack(row.at + P::WIDE * c,
               column < columns ? __ldg(reinterpret_cast<const uint4 *>(from + column)) : make_uint4(0, 0, 0, 0), P());
    }
    return row;
}

template <typename P> static __device__ void store_row(typename P::Stored *to, const Channels &row, uint32_t columns) {
#pragma unroll
    for (int c = 0; c < chunks_of_thread<P>; c++)
        if (chunk_column<P>(c) < columns)
            *reinterpret_cast<uint4 *>(to + chunk_column<P>(c)) = pack(row.at + P::WIDE * c, P());
}

static __device__ float dot_of_quad(const Channels &a, const Channels &b) {
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < VALUES; i++) sum = __fmaf_rn(a.at[i], b.at[i], sum);
    return total_of_quad(sum);
}

static __device__ void add_scaled(Channels &sums, const Channels &row, float factor) {
#pragma unroll
    for (int i = 0; i < VALUES; i++) sums.at[i] = __fmaf_rn(factor, row.at[i], sums.at[i]);
}

/* ---- what a query keeps */

struct KeptRow {
    const uint32_t *keys;
    float *weights, *factors, *dscores;
    uint32_t count;
};

static __device__ KeptRow row_of(const Member &m, const Trace &t, uint32_t slot, uint32_t query) {
    const uint32_t begin = m.offsets[query];
    const size_t at = (size_t)slot * m.kept + begin;
    KeptRow row;
    row.keys = m.selection == BY_PATTERN ? m.pattern + begin : t.keys + at;
    row.weights = t.weights + at;
    row.factors = t.factors + at;
    row.dscores = t.dscores + at;
    row.count = m.offsets[query + 1] - begin;
    return row;
}

struct Page { /* up to 8 kept keys; all four threads of the quad have them */
    uint32_t keys[PAGE];
    float scores[PAGE]; /* then weights before the division by their total */
    uint32_t count;
};

static __device__ void load_keys(Page &page, const KeptRow &row, uint32_t first) {
    page.count = row.count - first < PAGE ? row.count - first : PAGE;
#pragma unroll
    for (uint32_t i = 0; i < PAGE; i++) page.keys[i] = row.keys[first + (i < page.count ? i : 0)];
}

/* What dropout multiplies the weights of a page with; each thread draws for two keys. */
static __device__ void draw_factors(float (&factors)[PAGE], const Page &page, const Member &m, const Index &index,
                                    uint32_t query, uint32_t threshold) {
    const uint32_t t = place_in_group();
    uint32_t own = 0;
#pragma unroll
    for (uint32_t i = 0; i < PAGE; i++)
        if (i % QUAD == t && i < page.count && keeps(index, query, page.keys[i], m.T, threshold)) own |= 1U << i;
    own |= __shfl_xor_sync(WHOLE_WARP, own, 1);
    own |= __shfl_xor_sync(WHOLE_WARP, own, 2);
#pragma unroll
    for (uint32_t i = 0; i < PAGE; i++) factors[i] = own >> i & 1 ? m.keep_scale : 0.0F;
}

struct RowSoftmax {
    float largest, total;
    Channels context;
};

/* Adds a page with its scores to what was summed so far. */
template <typename P, bool PAPER>
static __device__ void attend(RowSoftmax &so_far, Page &page, const float (&factors)[PAGE],
                              const TensorHead<P, PAPER> &head, float exponent) {
    float largest = so_far.largest;
#pragma unroll
    for (uint32_t i = 0; i < PAGE; i++)
        if (i < page.count) largest = fmaxf(largest, page.scores[i]);
    const float shrink = exp2_of((so_far.largest - largest) * exponent);
    so_far.largest = largest;
    so_far.total *= shrink;
#pragma unroll
    for (int i = 0; i < VALUES; i++) so_far.context.at[i] *= shrink;
#pragma unroll
    for (uint32_t i = 0; i < PAGE; i++) {
        if (i >= page.count) break;
        const float weight = exp2_of((page.scores[i] - largest) * exponent);
        page.scores[i] = weight;
        so_far.total += weight;
        add_scaled(so_far.context, load_row<P>(head.v + (size_t)page.keys[i] * head.stride(), head.columns()),
                   weight * factors[i]);
    }
}

enum ScoresFrom { PRODUCTS, REGISTERS, MEMORY };

/* Scores, weights and context of one query for each quad; the warp's quads work side by side, and those without a query
 * (row.count 0) go along. With one page, keys and scores may be in registers already; scores in memory lie where the
 * weights come. */
template <typename P, bool PAPER, ScoresFrom FROM>
static __device__ void attend_row(Page &page, const KeptRow &row, const Member &m, const TensorHead<P, PAPER> &head,
                                  const Index &index, uint32_t query, uint32_t threshold) {
    const float exponent = m.score_scale * 1.44269504F;
    const uint32_t t = place_in_group();
    RowSoftmax so_far = {-3e38F, 0.0F, {}};
    Channels q;
    if (FROM == PRODUCTS) q = load_row<P>(head.q + (size_t)query * head.stride(), head.columns());
    for (uint32_t first = 0; __any_sync(WHOLE_WARP, first < row.count); first += PAGE) {
        if (FROM != REGISTERS) {
            if (first < row.count)
                load_keys(page, row, first);
            else
                page.count = 0;
        }
#pragma unroll
        for (uint32_t i = 0; i < PAGE; i++) {
            if (FROM == MEMORY && i < page.count) page.scores[i] = row.weights[first + i];
            if (FROM == PRODUCTS && __any_sync(WHOLE_WARP, i < page.count)) {
                const uint32_t key = i < page.count ? page.keys[i] : query;
                const Channels k = load_row<P>(head.k + (size_t)key * head.stride(), head.columns());
                const float score = dot_of_quad(q, k);
                if (i < page.count) page.scores[i] = score; /* else those of the row's last page are still needed */
            }
        }
        float factors[PAGE];
#pragma unroll
        for (uint32_t i = 0; i < PAGE; i++) factors[i] = 1.0F;
        if (threshold > 0) draw_factors(factors, page, m, index, query, threshold);
#pragma unroll
        for (uint32_t i = 0; i < PAGE; i++)
            if (i < page.count && i % QUAD == t) {
                if (row.count > PAGE) row.weights[first + i] = page.scores[i];
                if (threshold > 0) row.factors[first + i] = factors[i];
            }
        attend(so_far, page, factors, head, exponent);
    }
    if (row.count == 0) return;
    const float inverse = 1.0F / so_far.total;
#pragma unroll
    for (uint32_t i = 0; i < PAGE; i++)
        if (row.count <= PAGE && i < row.count && i % QUAD == t) row.weights[i] = page.scores[i] * inverse;
    for (uint32_t i = t; row.count > PAGE && i < row.count; i += QUAD)
        row.weights[i] = exp2_of((row.weights[i] - so_far.largest) * exponent) * inverse;
#pragma unroll
    for (int i = 0; i < VALUES; i++) so_far.context.at[i] *= inverse;
    store_row<P>(head.context + (size_t)query * head.context_stride(), so_far.context, head.columns());
}

} // namespace sf

#endif
