/* One query of the generic kernels, which one thread computes, and where its rows lie: element n of the queries of a
 * unit side by side, so that neighbouring threads read neighbouring numbers. Order and names as in
 * kernels/cpu/attention_rowwise.c and the files of attention/. */
#ifndef SF_KERNELS_CUDA_PARTS_CUH
#define SF_KERNELS_CUDA_PARTS_CUH

#include "kernels/cuda/chance.cuh"
#include "kernels/cuda/elementary.cuh"
#include "kernels/cuda/head.cuh"

namespace sf {

enum { UNIT = SF_CUDA_UNIT };
static_assert((int)UNIT == (int)TILE, "a unit is a tile of queries");

template <typename Number> struct Column {
    Number *at;
    __device__ Number &operator[](size_t n) const {
        return at[n * UNIT];
    }
};

struct Query {
    uint32_t at, visible, count; /* its position, keys it sees, keys it keeps */
    Column<uint32_t> keys, bits, own, heap;
    Column<float> scores, weights, raw, slopes, all_raw, all;
    Column<double> exact, wide, gates;
    double alibi; /* the slope of the head */
    double logn;  /* the factor of its keys */
};

template <typename Number> __device__ inline Column<Number> column_of(Number *base, uint32_t unit, size_t rows) {
    return {base + (size_t)unit * rows * UNIT + threadIdx.x % UNIT};
}

__device__ inline uint32_t words_of(const Member &m) {
    return (m.T + 31) / 32;
}

__device__ inline size_t slopes_of_query(const Member &m) {
    return m.parts.straight_through ? m.T : m.parts.most_kept;
}

__device__ inline void prepare_transforms(Query &query, const Member &m, const Head &head) {
    for (uint32_t t = 0; t < m.parts.steps; t++) {
        const sf_cuda_transform &transform = m.parts.transforms[t];
        if (transform.what == SF_CUDA_ALIBI) query.alibi = pow_of_double(2, -8 * (double)(head.h + 1) / (double)m.H);
        if (transform.what == SF_CUDA_LOGN)
            query.logn = transform.argument * log_of_double(query.visible > 2 ? (double)query.visible : 2);
    }
}

/* fastmax that parts_factored.cu computes. */
__device__ inline bool is_factored(const Member &m, const Pass &pass) {
    return m.selection == BY_PARTS && m.parts.features > 0 && threshold_of(m, pass) == 0;
}

/* The thread's query of a unit of the round; false: there is none. */
__device__ inline bool query_of(Query &query, Head &head, const Member &m, const Shape &s, const Pass &pass,
                                uint32_t block, uint32_t round, uint32_t place) {
    const Parts &p = m.parts;
    if (m.selection != BY_PARTS || place >= p.units || sequences_of(m, pass) == 0) return false;
    const uint32_t tiles = (m.T + UNIT - 1) / UNIT, unit = round * p.units + place;
    if (!head_at(head, m, s, pass, block, unit / tiles, unit % tiles)) return false;
    query.at = head.tile * UNIT + threadIdx.x % UNIT;
    query.visible = m.causal ? query.at + 1 : m.T;
    query.keys = column_of(p.keys, place, p.most_kept);
    query.bits = column_of(p.bits, place, words_of(m));
    query.own = column_of(p.own, place, words_of(m));
    query.heap = column_of(p.heap, place, m.T);
    query.scores = column_of(p.scores, place, p.most_kept);
    query.weights = column_of(p.weights, place, p.most_kept);
    query.raw = column_of(p.raw, place, p.most_kept);
    query.slopes = column_of(p.slopes, place, slopes_of_query(m));
    query.all_raw = column_of(p.all_raw, place, m.T);
    query.all = column_of(p.all, place, m.T);
    query.exact = column_of(p.exact, place, p.most_kept);
    query.wide = column_of(p.wide, place, p.most_kept);
    query.gates = column_of(p.gates, place, p.blocks);
    return query.at < m.T;
}

/* ---- transforms of scores */

__device__ inline double tanh_of(double x) {
    if (fabs(x) < 0.02) {
        const double square = x * x;
        return x * (1 + square * (-1.0 / 3 + square * (2.0 / 15 - square * (17.0 / 315))));
    }
    const double e = exp_of_double(-2 * fabs(x)), value = (1 - e) / (1 + e);
    return x < 0 ? -value : value;
}

__device__ inline double transformed_once(const Query &query, const sf_cuda_transform &transform, double score,
                                          uint32_t key) {
    if (transform.what == SF_CUDA_ALIBI)
        return score - query.alibi * (double)(key < query.at ? query.at - key : key - query.at);
    if (transform.what == SF_CUDA_SOFTCAP) return transform.argument * tanh_of(score / transform.argument);
    return score * query.logn;
}

__device__ inline float transformed(const Query &query, const Parts &p, float raw, uint32_t key) {
    double score = (double)raw;
    for (uint32_t t = 0; t < p.steps; t++) score = transformed_once(query, p.transforms[t], score, key);
    return (float)score;
}

/* The gradient of a score before the transforms. */
__device__ inline float transformed_back(const Query &query, const Parts &p, float slope, float raw, uint32_t key) {
    double gradient = (double)slope;
    for (uint32_t t = p.steps; t-- > 0;) {
        const sf_cuda_transform &transform = p.transforms[t];
        if (transform.what == SF_CUDA_LOGN) gradient = gradient * query.logn;
        if (transform.what != SF_CUDA_SOFTCAP) continue;
        double score = (double)raw; /* before this transform */
        for (uint32_t i = 0; i < t; i++) score = transformed_once(query, p.transforms[i], score, key);
        const double value = tanh_of(score / transform.argument);
        gradient = gradient * (1 - value * value);
    }
    return (float)gradient;
}

/* ---- products */

__device__ inline float dot_of_rows(const float *a, const float *b, uint32_t N) {
    float lanes[SUM_LANES];
#pragma unroll
    for (int l = 0; l < SUM_LANES; l++) lanes[l] = 0.0F;
    for (uint32_t c = 0; c < N; c += SUM_LANES)
#pragma unroll
        for (int l = 0; l < SUM_LANES; l++) lanes[l] = __fmaf_rn(a[c + l], b[c + l], lanes[l]);
    return total_of(lanes);
}

/* out = the sum of factors[n] * row keys[n], one key after the other; ALL: key n is n. */
template <bool ALL>
__device__ inline void mix_rows(float *out, const float *rows, size_t stride, const Column<uint32_t> &keys,
                                const Column<float> &factors, uint32_t count, uint32_t N) {
    for (uint32_t c = 0; c < N; c += SUM_LANES) {
        float sums[SUM_LANES];
#pragma unroll
        for (int l = 0; l < SUM_LANES; l++) sums[l] = 0.0F;
        for (uint32_t n = 0; n < count; n++) {
            const float factor = factors[n];
            const float4 *row = reinterpret_cast<const float4 *>(rows + (ALL ? n : keys[n]) * stride + c);
#pragma unroll
            for (int l = 0; l < SUM_LANES; l += 4) {
                const float4 four = row[l / 4];
                sums[l] = __fmaf_rn(factor, four.x, sums[l]);
                sums[l + 1] = __fmaf_rn(factor, four.y, sums[l + 1]);
                sums[l + 2] = __fmaf_rn(factor, four.z, sums[l + 2]);
                sums[l + 3] = __fmaf_rn(factor, four.w, sums[l + 3]);
            }
        }
#pragma unroll
        for (int l = 0; l < SUM_LANES; l++) out[c + l] = sums[l];
    }
}

} // namespace sf

#endif
