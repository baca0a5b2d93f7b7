/* Which keys a query of the generic kernels keeps: those of the selector and of the extras, and the global tokens. */
#ifndef SF_KERNELS_CUDA_PARTS_SELECT_CUH
#define SF_KERNELS_CUDA_PARTS_SELECT_CUH

#include "kernels/cuda/parts_vectors.cuh"
#include "kernels/cuda/selection.cuh"

namespace sf {

__device__ inline void mark(const Column<uint32_t> &bits, uint32_t key) {
    bits[key / 32] |= 1U << key % 32;
}

__device__ inline bool is_marked(const Column<uint32_t> &bits, uint32_t key) {
    return bits[key / 32] >> key % 32 & 1;
}

__device__ inline void mark_range(const Column<uint32_t> &bits, uint32_t first, uint32_t end) {
    for (uint32_t key = first; key < end; key++) mark(bits, key);
}

__device__ inline void clear_marks(const Column<uint32_t> &bits, const Member &m) {
    for (uint32_t w = 0; w < words_of(m); w++) bits[w] = 0;
}

/* As banded.c. */
__device__ inline void mark_window(const Query &query, uint32_t k, uint32_t plain, uint32_t visible) {
    const uint32_t width = k < plain ? k : plain, before = (k - 1) / 2;
    uint32_t first = query.at > before ? query.at - before : 0;
    if (first > plain - width) first = plain - width;
    mark_range(query.bits, first, first + width < visible ? first + width : visible);
}

/* As random.c. */
__device__ inline void mark_drawn(const Query &query, Draws &draws, uint32_t k, uint32_t visible, const Member &m) {
    clear_marks(query.own, m);
    for (uint32_t last = visible - (k < visible ? k : visible); last < visible; last++) {
        const uint32_t key = draw_below(draws, last + 1);
        mark(query.own, is_marked(query.own, key) ? last : key);
    }
    for (uint32_t w = 0; w < words_of(m); w++) query.bits[w] |= query.own[w];
}

__device__ inline uint32_t count_from(const Query &query, uint32_t least, uint32_t visible, float sign) {
    uint32_t count = 0;
    for (uint32_t j = 0; j < visible; j++) count += order_of(sign * query.all[j]) >= least;
    return count;
}

/* The k first in the order of their scores: the k-th is found bit by bit. */
__device__ inline void mark_extreme(const Query &query, uint32_t k, uint32_t visible, float sign) {
    if (k >= visible) return mark_range(query.bits, 0, visible);
    uint32_t least = 0;
    for (int bit = 31; bit >= 0; bit--)
        if (count_from(query, least | 1U << bit, visible, sign) >= k) least |= 1U << bit;
    uint32_t equal = k - count_from(query, least + 1, visible, sign);
    for (uint32_t j = 0; j < visible; j++) {
        const uint32_t order = order_of(sign * query.all[j]);
        if (order > least || (order == least && equal > 0)) mark(query.bits, j);
        if (order == least && equal > 0) equal--;
    }
}

__device__ inline bool goes_before(const Query &query, uint32_t a, uint32_t b) {
    const uint32_t of_a = order_of(query.all[a]), of_b = order_of(query.all[b]);
    return of_a == of_b ? a < b : of_a > of_b;
}

__device__ inline void sink_root(const Query &query, uint32_t count, uint32_t at) {
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && goes_before(query, query.heap[child + 1], query.heap[child])) child++;
        if (goes_before(query, query.heap[at], query.heap[child])) return;
        const uint32_t key = query.heap[at];
        query.heap[at] = query.heap[child];
        query.heap[child] = key;
    }
}

/* As topp.c. */
__device__ inline void mark_mass(const Query &query, double p, uint32_t visible) {
    double largest = (double)query.all[0], total = 0, mass = 0;
    if (p == 1) return mark_range(query.bits, 0, visible);
    for (uint32_t j = 0; j < visible; j++) {
        const double score = (double)query.all[j];
        query.heap[j] = j;
        largest = score > largest ? score : largest;
    }
    for (uint32_t j = 0; j < visible; j++) total += exp_of_double((double)query.all[j] - largest);
    for (uint32_t at = visible / 2; at-- > 0;) sink_root(query, visible, at);
    uint32_t last = 0;
    for (uint32_t left = visible; left > 0 && !(mass >= p * total);) {
        last = query.heap[0];
        query.heap[0] = query.heap[--left];
        sink_root(query, left, 0);
        mass += exp_of_double((double)query.all[last] - largest);
    }
    for (uint32_t j = 0; j < visible; j++)
        if (!goes_before(query, last, j)) mark(query.bits, j);
}

/* As within.c. */
__device__ inline void mark_near_largest(const Query &query, double distance, uint32_t visible) {
    double largest = (double)query.all[0];
    bool any = false;
    for (uint32_t j = 1; j < visible; j++) largest = (double)query.all[j] > largest ? (double)query.all[j] : largest;
    for (uint32_t j = 0; j < visible; j++)
        if ((double)query.all[j] >= largest - distance) {
            mark(query.bits, j);
            any = true;
        }
    if (!any) mark(query.bits, query.at); /* NaN is near nothing */
}

__device__ inline void mark_selected(const Query &query, Draws &draws, const Member &m, const Head &head,
                                     uint32_t plain, uint32_t visible) {
    const Parts &p = m.parts;
    switch (p.selector) {
    case SF_CUDA_TOPK:
    case SF_CUDA_BOTTOMK:
        return mark_extreme(query, p.k, visible, p.selector == SF_CUDA_TOPK ? 1.0F : -1.0F);
    case SF_CUDA_RANDOM:
        return mark_drawn(query, draws, p.k, visible, m);
    case SF_CUDA_TOPP:
        return mark_mass(query, p.arguments[0], visible);
    case SF_CUDA_WITHIN:
        return mark_near_largest(query, p.arguments[0], visible);
    case SF_CUDA_BLOCKTOPK:
        return mark_blocks(query, prepared_of(m, head.slot), m, head, plain, visible);
    case SF_CUDA_KMEANS:
    case SF_CUDA_LSH:
        return mark_groups(query, prepared_of(m, head.slot), m, plain, visible);
    default: /* by position: the pattern has the extras by position, too */
        for (uint32_t i = m.offsets[query.at]; i < m.offsets[query.at + 1]; i++) mark(query.bits, m.pattern[i]);
    }
}

__device__ inline void mark_extras(const Query &query, Draws &draws, const Member &m, uint32_t plain,
                                   uint32_t visible) {
    const Parts &p = m.parts;
    for (uint32_t e = 0; e < p.extra_count; e++) {
        const uint32_t k = p.extra_k[e];
        if (p.extras[e] == SF_CUDA_SINK) mark_range(query.bits, 0, k < visible ? k : visible);
        if (p.extras[e] == SF_CUDA_WINDOW) mark_window(query, k, plain, visible);
        if (p.extras[e] == SF_CUDA_RANDOM) mark_drawn(query, draws, k, visible, m);
    }
}

/* Lists the kept keys of the query. */
__device__ inline void select_keys(Query &query, const Member &m, const Head &head, const Index &chance) {
    const Parts &p = m.parts;
    const uint32_t plain = m.T - p.globals;
    query.count = 0;
    if (p.selector == SF_CUDA_FULL || query.at >= plain) {
        for (uint32_t j = 0; j < query.visible; j++) query.keys[j] = j;
        query.count = query.visible;
        return;
    }
    const uint32_t visible = m.causal ? query.at + 1 : plain;
    Draws draws = draws_of_query(chance, query.at);
    clear_marks(query.bits, m);
    mark_selected(query, draws, m, head, plain, visible);
    mark_extras(query, draws, m, plain, visible);
    mark_range(query.bits, plain, m.T);
    for (uint32_t w = 0; w < words_of(m); w++)
        for (uint32_t left = query.bits[w]; left != 0; left &= left - 1)
            query.keys[query.count++] = 32 * w + (uint32_t)__ffs((int)left) - 1;
}

} // namespace sf

#endif
