/* Attention of whole sequences to some keys. A query's kept keys are the bits of one word; the n-th of them in
 * ascending order has position n. Sums over kept keys have 16 lanes, position n in lane n % 16. */
#ifndef SF_KERNELS_CUDA_WHOLE_KEPT_CUH
#define SF_KERNELS_CUDA_WHOLE_KEPT_CUH

#include "kernels/cuda/chance.cuh"
#include "kernels/cuda/whole_attention.cuh"

namespace sf {
namespace whole {

__device__ inline uint64_t bit(uint32_t n) {
    return 1ULL << n;
}
__device__ inline uint32_t lowest(uint64_t bits) {
    return (uint32_t)__ffsll((long long)bits) - 1;
}
__device__ inline uint32_t count_of(uint64_t bits) {
    return (uint32_t)__popcll(bits);
}
__device__ inline uint64_t without_lowest(uint64_t bits) {
    return bits & (bits - 1);
}

/* The K greatest of sign * scores, of equal ones the lower index first. Eight threads, each with its keys' scores. */
template <int KEYS>
__device__ inline uint64_t greatest(const float (&scores)[KEYS], float sign, uint32_t T, uint32_t K) {
    uint32_t taken = 0;
    for (uint32_t round = 0; round < K; round++) {
        float best = 0.0F;
        uint32_t best_key = 0xffffffffU;
#pragma unroll
        for (int j = 0; j < KEYS; j++) {
            const float score = sign * scores[j], value = isnan(score) ? __int_as_float(0xff800000) : score;
            if (key_of(j) < T && !(taken >> j & 1) && (best_key == 0xffffffffU || value > best)) {
                best = value;
                best_key = key_of(j);
            }
        }
#pragma unroll
        for (int other = 4; other > 0; other /= 2) {
            const float value = from_place<EIGHT_OF_THEM>(best, other);
            const uint32_t key = from_place<EIGHT_OF_THEM>(best_key, other);
            const bool better = best_key == 0xffffffffU || value > best || (value == best && key < best_key);
            if (key != 0xffffffffU && better) {
                best = value;
                best_key = key;
            }
        }
        if (best_key % EIGHT == place()) taken |= 1U << best_key / EIGHT;
    }
    uint64_t mask = 0;
#pragma unroll
    for (int j = 0; j < KEYS; j++)
        if (taken >> j & 1) mask |= bit(key_of(j));
    return union_of_eight(mask);
}

enum { AT_ONCE = 4 }; /* keys, whose dot products are computed side by side */

/* The next keys of a set; the last one stands in where there are fewer. */
__device__ inline void take_keys(uint32_t (&keys)[AT_ONCE], uint64_t &left) {
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
        keys[u] = left != 0 ? lowest(left) : keys[u > 0 ? u - 1 : 0];
        left = without_lowest(left);
    }
}

/* Dot products of a row that eight threads hold with rows in shared memory. All of them get them. */
__device__ inline void dots_with(float (&dots)[AT_ONCE], const float (&held)[EIGHT], const float *rows,
                                 const uint32_t (&keys)[AT_ONCE]) {
    float lanes[AT_ONCE][2] = {};
#pragma unroll
    for (int j = 0; j < EIGHT; j++)
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
            lanes[u][j % 2] = __fmaf_rn(held[j], rows[keys[u] * LD + key_of(j)], lanes[u][j % 2]);
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) dots[u] = lanes[u][0] + lanes[u][1];
#pragma unroll
    for (int other = 4; other > 0; other /= 2)
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) dots[u] = dots[u] + from_place<EIGHT_OF_THEM>(dots[u], other);
}

__device__ inline void hold(float (&held)[EIGHT], const float *row) {
#pragma unroll
    for (int j = 0; j < EIGHT; j++) held[j] = row[key_of(j)];
}

/* Scores of the kept keys, each at its key's place in the row, where the query was. */
__device__ inline void score_kept(float *row, const float *keys, uint64_t mask, float scale) {
    float query[EIGHT];
    hold(query, row);
    __syncwarp(partners<EIGHT_OF_THEM>());
    for (uint64_t left = mask; left != 0;) {
        uint32_t some[AT_ONCE];
        float dots[AT_ONCE];
        take_keys(some, left);
        dots_with(dots, query, keys, some);
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
            if (some[u] % EIGHT == place()) row[some[u]] = scale * dots[u];
    }
}

/* Scores at the keys' places become weights, in the trace, and weights after dropout, at their positions in the row. */
__device__ inline void weigh_kept(float *row, float *weights, uint64_t mask, uint64_t undropped, float keep_scale) {
    float largest = __int_as_float(0xff800000), lanes[2] = {0.0F, 0.0F}, values[EIGHT] = {};
    uint64_t left = mask;
    uint32_t keys[EIGHT] = {};
    const uint32_t count = count_of(mask);
    for (uint32_t n = 0; n < place() && left != 0; n++) left = without_lowest(left);
#pragma unroll
    for (int i = 0; i < EIGHT; i++) {
        if (i * EIGHT + place() >= count) break;
        keys[i] = lowest(left);
        values[i] = row[keys[i]];
        if (values[i] > largest) largest = values[i];
        for (int n = 0; n < EIGHT && left != 0; n++) left = without_lowest(left);
    }
    largest = largest_of_eight<EIGHT_OF_THEM>(largest);
#pragma unroll
    for (int i = 0; i < EIGHT; i++) {
        if (i * EIGHT + place() >= count) break;
        values[i] = exp_below_zero(values[i] - largest);
        lanes[i % 2] += values[i];
    }
    const float inverse = 1.0F / total_of_eight<EIGHT_OF_THEM>(lanes[0], lanes[1]);
    __syncwarp(partners<EIGHT_OF_THEM>());
#pragma unroll
    for (int i = 0; i < EIGHT; i++) {
        const uint32_t position = i * EIGHT + place();
        if (position >= count) break;
        const float weight = values[i] * inverse;
        if (weights != nullptr) weights[position] = weight;
        row[position] = (undropped >> keys[i] & 1 ? keep_scale : 0.0F) * weight;
    }
}

/* sum += weights at `positions` times the rows of the kept keys, columns side by side. */
__device__ inline void gather(float (&sums)[EIGHT], const float *positions, const float *rows, uint64_t mask) {
#pragma unroll
    for (int j = 0; j < EIGHT; j++) sums[j] = 0.0F;
    uint32_t position = 0;
    for (uint64_t left = mask; left != 0; left = without_lowest(left)) {
        float columns[EIGHT];
        load_eight(columns, rows + lowest(left) * LD + 4 * place());
        add_products(sums, positions[position++], columns);
    }
}

/* What dropout keeps of a query's weights: all eight threads get all bits. */
__device__ inline uint64_t draw_row(const Index &index, uint32_t query, uint32_t threshold) {
    const uint32_t eight = eight_kept(index, query, place(), threshold);
    uint64_t bits = 0;
#pragma unroll
    for (int j = 0; j < EIGHT; j++) bits |= (uint64_t)(eight >> j & 1) << key_of(j);
    return union_of_eight(bits);
}

__device__ inline bool by_score(const Member &m) {
    return m.selection == BY_LARGEST || m.selection == BY_SMALLEST;
}

/* The keys that a query keeps where they do not depend on scores. */
__device__ inline uint64_t mask_of(const Work &w, const Part &p, uint32_t layer, uint32_t query) {
    const Member &m = *w.m;
    if (m.selection == BY_PATTERN) return m.pattern_masks[query];
    const uint32_t purpose = w.pass.training ? RANDOM_KEYS : RANDOM_KEYS_EVALUATION;
    return chosen_by_chance(index_of(m, w.pass, purpose, layer, 0, w.first + p.s), query, p.T, m.K);
}

__device__ inline size_t list_at(const Member &m, const Part &p, uint32_t query) {
    return (size_t)p.s * m.kept + m.offsets[query];
}

/* Queries that lie in b become their weights after dropout, at their positions. Keys lie in a. */
template <int KEYS> __device__ inline void choose_and_weigh(Work &w, const Part &p, const Trace &t, uint32_t layer) {
    const Member &m = *w.m;
    const Shared &s = w.shared;
    if (by_score(m)) {
        float scores[R][KEYS];
        if (p.real)
            multiply_rows<KEYS, true>(scores, s.b + (p.base + p.g) * LD, p.G * LD, s.a + (p.base + place()) * LD,
                                      m.score_scale);
        __syncwarp(partners<EIGHT_OF_THEM>());
        put_keys<KEYS>(s.b, p, scores);
        __syncwarp(partners<EIGHT_OF_THEM>());
    }
    for (int i = 0; i < R && p.real; i++) {
        const uint32_t query = row_in(p, i);
        if (query >= p.T) break;
        float *const row = s.b + (p.base + query) * LD;
        uint64_t mask, undropped = ~0ULL;
        if (by_score(m)) {
            float scores[KEYS];
#pragma unroll
            for (int j = 0; j < KEYS; j++) scores[j] = row[key_of(j)];
            mask = greatest<KEYS>(scores, m.selection == BY_LARGEST ? 1.0F : -1.0F, p.T, m.K);
        } else {
            mask = mask_of(w, p, layer, query);
            score_kept(row, s.a + p.base * LD, mask, m.score_scale);
            __syncwarp(partners<EIGHT_OF_THEM>());
        }
        if (w.threshold > 0) undropped = draw_row(weights_index(w, p, layer), query, w.threshold);
        weigh_kept(row, w.pass.training ? t.weights + list_at(m, p, query) : nullptr, mask, undropped, w.keep_scale);
        if (place() == 0) {
            s.masks[p.base + query] = mask;
            if (w.pass.training) t.masks[p.base + query] = mask;
            if (w.pass.training) t.undropped[p.base + query] = undropped;
        }
    }
}

/* As dense_forward. */
template <int KEYS, sf_precision P> __device__ inline void kept_forward(Work &w, const Trace &t, uint32_t layer) {
    const Shared &s = w.shared;
    for (uint32_t first = 0; first < w.count; first += sequences_at_once(w.T)) {
        const Part p = part_of(w, first);
        const uint32_t end = w.count - first < sequences_at_once(p.T) ? w.count : first + sequences_at_once(p.T);
        choose_and_weigh<KEYS>(w, p, t, layer);
        __syncthreads();
        fetch_rows(s.a, t.v, first * p.T, end * p.T);
        wait_and_meet();
        for (int i = 0; i < R && p.real; i++) {
            const uint32_t query = row_in(p, i), at = p.base + query;
            if (query >= p.T) break;
            float sums[EIGHT];
            gather(sums, s.b + at * LD, s.a + p.base * LD, s.masks[at]);
            __syncwarp(partners<EIGHT_OF_THEM>());
            make_factors<P>(sums);
            put_side_by_side(s.b, at * LD, sums);
            if (w.pass.training) put_side_by_side(t.context, at * WIDTH, sums);
        }
        if (end < w.count) __syncthreads();
    }
}

struct Lists {      /* of the round's kept keys, in shared memory */
    float *weights; /* after dropout */
    float *slopes;  /* of scores */
};

/* Gradients of a query's scores, from its dcontext and the values v. */
__device__ inline void slope_kept(const Work &w, const Part &p, const Trace &t, const Lists &lists, uint32_t query) {
    const Member &m = *w.m;
    const uint32_t at = p.base + query;
    const size_t list = list_at(m, p, query);
    const uint64_t mask = w.shared.masks[at], undropped = t.undropped[at];
    const float *weights = t.weights + list;
    float held[EIGHT], lanes[2] = {0.0F, 0.0F}, slopes[EIGHT] = {}, own[EIGHT] = {};
    hold(held, w.shared.b + at * LD);
    uint64_t left = mask;
    const uint32_t count = count_of(mask);
#pragma unroll
    for (int i = 0; i < EIGHT; i++) {
#pragma unroll
        for (uint32_t part = 0; part < EIGHT; part += AT_ONCE) {
            uint32_t keys[AT_ONCE];
            float dots[AT_ONCE];
            if (left == 0) break;
            take_keys(keys, left);
            dots_with(dots, held, w.shared.a + p.base * LD, keys);
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++) {
                if (part + u != place() || i * EIGHT + place() >= count) continue;
                const float kept = undropped >> keys[u] & 1 ? w.keep_scale : 0.0F;
                own[i] = weights[i * EIGHT + part + u];
                slopes[i] = kept * dots[u];
                lanes[i % 2] = __fmaf_rn(own[i], slopes[i], lanes[i % 2]);
                lists.weights[list + i * EIGHT + part + u] = kept * own[i];
                unsigned *const column = reinterpret_cast<unsigned *>(&w.shared.columns[p.base + keys[u]]);
                atomicOr(column + query / 32, 1U << query % 32);
            }
        }
    }
    const float mean = total_of_eight<EIGHT_OF_THEM>(lanes[0], lanes[1]);
#pragma unroll
    for (int i = 0; i < EIGHT; i++)
        if (i * EIGHT + place() < count)
            lists.slopes[list + i * EIGHT + place()] = (own[i] * (slopes[i] - mean)) * m.score_scale;
}

/* What a key's value or the key itself gets from the queries that keep it, in ascending order. */
__device__ inline void gather_queries(float (&sums)[EIGHT], const Work &w, const Part &p, const float *list,
                                      const float *rows, uint32_t key) {
#pragma unroll
    for (int j = 0; j < EIGHT; j++) sums[j] = 0.0F;
    for (uint64_t left = w.shared.columns[p.base + key]; left != 0; left = without_lowest(left)) {
        const uint32_t query = lowest(left);
        const uint32_t position = count_of(w.shared.masks[p.base + query] & (bit(key) - 1));
        float columns[EIGHT];
        load_eight(columns, rows + query * LD + 4 * place());
        add_products(sums, list[list_at(*w.m, p, query) + position], columns);
    }
}

/* As dense_backward. The weights' place in shared memory is free. */
template <sf_precision P> __device__ inline void kept_backward(Work &w, const Trace &t, const Scratch &scratch) {
    const Shared &s = w.shared;
    const Lists lists = {s.weights, s.weights + MATRIX};
    __syncthreads();
    fetch_rows(s.a, t.v, 0, w.rows);
    fetch_rows(s.b, scratch.dcontext, 0, w.rows);
    for (uint32_t row = threadIdx.x; row < w.rows; row += THREADS) {
        s.masks[row] = t.masks[row];
        s.columns[row] = 0;
    }
    wait_and_meet();
    const uint32_t at_once = sequences_at_once(w.T);
    float sums[EIGHT];
    for (uint32_t first = 0; first < w.count; first += at_once) {
        const Part p = part_of(w, first);
        for (int i = 0; i < R && p.real && row_in(p, i) < p.T; i++) slope_kept(w, p, t, lists, row_in(p, i));
    }
    __syncthreads();
    for (uint32_t first = 0; first < w.count; first += at_once) {
        const Part p = part_of(w, first);
        for (int i = 0; i < R && p.real && row_in(p, i) < p.T; i++) {
            gather_queries(sums, w, p, lists.weights, s.b + p.base * LD, row_in(p, i));
            make_factors<P>(sums);
            put_side_by_side(scratch.dv, (p.base + row_in(p, i)) * WIDTH, sums);
        }
    }
    __syncthreads();
    fetch_rows(s.a, t.k, 0, w.rows);
    fetch_rows(s.b, t.q, 0, w.rows);
    wait_and_meet();
    for (uint32_t first = 0; first < w.count; first += at_once) {
        const Part p = part_of(w, first);
        for (int i = 0; i < R && p.real && row_in(p, i) < p.T; i++) {
            const uint32_t row = row_in(p, i), at = p.base + row;
            gather(sums, lists.slopes + list_at(*w.m, p, row), s.a + p.base * LD, s.masks[at]);
            make_factors<P>(sums);
            put_side_by_side(scratch.dq, at * WIDTH, sums);
            gather_queries(sums, w, p, lists.slopes, s.b + p.base * LD, row);
            make_factors<P>(sums);
            put_side_by_side(scratch.dk, at * WIDTH, sums);
        }
    }
    __syncthreads();
}

} // namespace whole
} // namespace sf

#endif
