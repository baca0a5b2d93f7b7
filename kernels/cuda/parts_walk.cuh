/* What the kernels of parts share: the products of a query with its keys, and the place of a key in a list. */
#ifndef SF_KERNELS_CUDA_PARTS_WALK_CUH
#define SF_KERNELS_CUDA_PARTS_WALK_CUH

#include "kernels/cuda/parts_select.cuh"

namespace sf {

typedef void PartsKernel(const Member *, Pass, uint32_t, uint32_t);

/* What dropout multiplies the weight of a key with. */
__device__ inline float factor_of_key(const Query &query, const Member &m, const Index &drop, uint32_t threshold,
                                      uint32_t key) {
    return keeps(drop, query.at, key, m.T, threshold) ? m.keep_scale : 0.0F;
}

/* Kept keys and their scores. */
__device__ inline void list_query(Query &query, const Member &m, const Shape &s, const Pass &pass, uint32_t block,
                                  const Head &head) {
    const Parts &p = m.parts;
    const Index chance = index_of(m, pass, pass.training ? RANDOM_KEYS : RANDOM_KEYS_EVALUATION, block, head.h, head.n);
    prepare_transforms(query, m, head);
    for (uint32_t j = 0; p.scores_all && p.steps > 0 && j < query.visible; j++)
        query.all[j] = transformed(query, p, query.all_raw[j], j);
    select_keys(query, m, head, chance);
    for (uint32_t n = 0; n < query.count; n++) {
        const uint32_t key = query.keys[n];
        const float raw = p.scores_all ? query.all_raw[key]
                                       : m.score_scale * dot_of_rows(head.q + (size_t)query.at * head.stride,
                                                                     head.k + (size_t)key * head.stride, s.Dp);
        if (p.steps > 0) query.raw[n] = raw;
        query.scores[n] = p.steps == 0 ? raw : p.scores_all ? query.all[key] : transformed(query, p, raw, key);
    }
}

__device__ inline void drop_weights(const Query &query, const Member &m, const Index &index, uint32_t threshold) {
    for (uint32_t n = 0; threshold > 0 && n < query.count; n++)
        query.weights[n] = factor_of_key(query, m, index, threshold, query.keys[n]) * query.weights[n];
}

/* The context, from the weights before dropout. */
__device__ inline void mix_query(const Query &query, const Member &m, const Shape &s, const Pass &pass, uint32_t block,
                                 const Head &head) {
    drop_weights(query, m, index_of(m, pass, DROP_WEIGHTS, block, head.h, head.n), threshold_of(m, pass));
    mix_rows<false>(head.context + (size_t)query.at * s.HDp, head.v, head.stride, query.keys, query.weights,
                    query.count, s.Dp);
}

/* Gradients of the weights: of listed keys, or of all. */
template <bool ALL>
__device__ inline void slopes_of_weights(const Query &query, uint32_t count, const Member &m, const Shape &s,
                                         const Head &head, const Index &index, uint32_t threshold) {
    const float *dcontext = head.dcontext + (size_t)query.at * s.HDp;
    for (uint32_t n = 0; n < count; n++) {
        const uint32_t key = ALL ? n : query.keys[n];
        const float dot = dot_of_rows(dcontext, head.v + (size_t)key * head.stride, s.Dp);
        query.slopes[n] = threshold > 0 ? factor_of_key(query, m, index, threshold, key) * dot : dot;
    }
}

/* Slopes: through the transforms, times the scale of the scores; dq from them. */
__device__ inline void scores_back(const Query &query, uint32_t count, const Member &m, const Shape &s,
                                   const Head &head) {
    const Parts &p = m.parts;
    for (uint32_t n = 0; n < count; n++) {
        float slope = query.slopes[n];
        if (p.steps > 0)
            slope = p.straight_through ? transformed_back(query, p, slope, query.all_raw[n], n)
                                       : transformed_back(query, p, slope, query.raw[n], query.keys[n]);
        query.slopes[n] = slope * m.score_scale;
    }
    float *dq = head.dq + (size_t)query.at * head.stride;
    if (p.straight_through)
        mix_rows<true>(dq, head.k, head.stride, query.keys, query.slopes, count, s.Dp);
    else
        mix_rows<false>(dq, head.k, head.stride, query.keys, query.slopes, count, s.Dp);
}

enum : uint32_t { NOT_KEPT = 0xffffffffU };

/* Where the list of a query has a key. */
__device__ inline uint32_t place_of(const uint32_t *keys /* [n][UNIT] */, uint32_t count, uint32_t key) {
    if (key < count && keys[(size_t)key * UNIT] == key) return key;
    uint32_t low = 0, high = count < key ? count : key; /* keys ascend: the place of a key is at most the key */
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (keys[(size_t)middle * UNIT] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && keys[(size_t)low * UNIT] == key ? low : NOT_KEPT;
}

inline void launch_parts(PartsKernel *kernel, uint32_t grid, uint32_t threads, size_t shared,
                         const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block, uint32_t round) {
    launch_kernel(kernel, dim3(grid, launch->members), threads, shared, launch->stream, launch->fleet, *pass, block,
                  round);
}

} // namespace sf

#endif
