/* Selectors that look at queries and keys: what parts_prepare.cu leaves for the queries of a head. */
#ifndef SF_KERNELS_CUDA_PARTS_VECTORS_CUH
#define SF_KERNELS_CUDA_PARTS_VECTORS_CUH

#include "kernels/cuda/parts.cuh"

namespace sf {

struct Prepared {
    double *vectors;             /* block means [D,blocks]; centroids [D,C] and unit keys [T,D]; a matrix [D,B/2] */
    uint32_t *of_query, *of_key; /* [rounds,T]: clusters or buckets */
};

/* kmeans assigns once, lsh in every round. */
__device__ inline uint32_t assignments_of(const Parts &p) {
    return p.selector == SF_CUDA_LSH ? (uint32_t)p.arguments[1] : 1;
}

__device__ inline Prepared prepared_of(const Member &m, uint32_t slot) {
    const Parts &p = m.parts;
    const size_t each = (size_t)assignments_of(p) * (m.T - p.globals);
    Prepared prepared;
    prepared.vectors = p.vectors + slot * p.vectors_size;
    prepared.of_query = p.groups + slot * 2 * each;
    prepared.of_key = prepared.of_query + each;
    return prepared;
}

__device__ inline uint32_t block_width_of(const Parts &p) {
    return (uint32_t)p.arguments[0];
}

__device__ inline uint32_t blocks_of(const Parts &p, uint32_t T) {
    return (T + block_width_of(p) - 1) / block_width_of(p);
}

/* The product of x with a column of a matrix [D,row]. */
template <typename Number>
__device__ inline double product_with_column(const Number *x, const double *column, uint32_t row, uint32_t D) {
    double product = 0;
    for (uint32_t d = 0; d < D; d++) product += (double)x[d] * column[(size_t)d * row];
    return product;
}

__device__ inline void mark_block(const Query &query, uint32_t block, uint32_t width, uint32_t visible) {
    const uint32_t first = block * width;
    for (uint32_t key = first; key < first + width && key < visible; key++) query.bits[key / 32] |= 1U << key % 32;
}

/* As blocktopk.c: the own block, and the others in descending order of their gates; of equal ones the lower first. */
__device__ inline void mark_blocks(const Query &query, const Prepared &prepared, const Member &m, const Head &head,
                                   uint32_t plain, uint32_t visible) {
    const uint32_t width = block_width_of(m.parts), count = blocks_of(m.parts, plain), own = query.at / width;
    const uint32_t competing = visible == plain ? count : visible / width, wanted = (uint32_t)m.parts.arguments[1] - 1;
    const float *q = head.q + (size_t)query.at * head.stride;
    for (uint32_t n = 0; n < competing && wanted > 0; n++)
        query.gates[n] = product_with_column(q, prepared.vectors + n, count, m.D);
    mark_block(query, own, width, visible);
    uint32_t last = count; /* none yet */
    for (uint32_t found = 0; found < wanted; found++) {
        uint32_t best = count;
        for (uint32_t n = 0; n < competing; n++) {
            const bool left = last == count || query.gates[n] < query.gates[last] ||
                              (query.gates[n] == query.gates[last] && n > last);
            if (n != own && left && (best == count || query.gates[n] > query.gates[best])) best = n;
        }
        if (best == count) return;
        mark_block(query, best, width, visible);
        last = best;
    }
}

/* The keys that share a cluster, or a bucket of any round; the own key where kmeans finds none, and always under lsh.
 */
__device__ inline void mark_groups(const Query &query, const Prepared &prepared, const Member &m, uint32_t plain,
                                   uint32_t visible) {
    bool any = false;
    for (uint32_t round = 0; round < assignments_of(m.parts); round++) {
        const uint32_t own = prepared.of_query[(size_t)round * plain + query.at];
        for (uint32_t j = 0; j < visible; j++) {
            if (prepared.of_key[(size_t)round * plain + j] != own) continue;
            query.bits[j / 32] |= 1U << j % 32;
            any = true;
        }
    }
    if (!any || m.parts.selector == SF_CUDA_LSH) query.bits[query.at / 32] |= 1U << query.at % 32;
}

} // namespace sf

#endif
