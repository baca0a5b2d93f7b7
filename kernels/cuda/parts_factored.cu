/* fastmax with every key kept and no dropout on the weights, in time linear in T: sums over keys are taken once for all
 * queries, over the features 1, the channels, and the products of two channels. One thread per feature, query or key;
 * order as in kernels/cpu/attention_factored.c. Heads are held some at a time; the backward pass takes the sums again.
 */
#include "kernels/cuda/parts.cuh"

namespace sf {

enum { FACTORED_THREADS = 64 };

/* What is held of a head. */
struct Sums {
    float *S, *z, *dS, *dz;    /* [features,Dp], [features], twice */
    float *inverses, *dtotals; /* [T] */
};

struct Factored {
    Head head;
    Sums sums;
};

/* False: the block of threads has no head. Grid (blocks of threads of a head, heads of a round, members). */
static __device__ bool factored_of(Factored &f, const Member &m, const Shape &s, const Pass &pass, uint32_t block,
                                   uint32_t round) {
    const Parts &p = m.parts;
    if (!is_factored(m, pass) || blockIdx.y >= p.factored_heads || sequences_of(m, pass) == 0) return false;
    if (!head_at(f.head, m, s, pass, block, round * p.factored_heads + blockIdx.y, 0)) return false;
    const size_t matrix = (size_t)p.features * m.Dp;
    f.sums.S = p.sums + blockIdx.y * (2 * (matrix + p.features) + 2 * (size_t)m.T);
    f.sums.z = f.sums.S + matrix;
    f.sums.dS = f.sums.z + p.features;
    f.sums.dz = f.sums.dS + matrix;
    f.sums.inverses = f.sums.dz + p.features;
    f.sums.dtotals = f.sums.inverses + m.T;
    return true;
}

/* A feature of y = scale * x; the squares of keys' channels are halved. */
static __device__ float feature_of(uint32_t code, const float *x, float scale, float of_squares) {
    const uint32_t kind = code & 3U, a = code >> 2 & 0x7fffU, e = code >> 17;
    if (kind == SF_CUDA_NO_FEATURE) return 0.0F;
    if (kind == SF_CUDA_ONE) return 1.0F;
    const float with = scale * x[e];
    if (kind == SF_CUDA_CHANNEL) return with;
    const float by = scale * x[a];
    return a == e ? of_squares * (by * by) : by * with;
}

static __device__ float query_feature(const Member &m, const Head &head, uint32_t i, uint32_t feature) {
    return feature_of(m.parts.codes[feature], head.q + (size_t)i * head.stride, 1.0F, 1.0F);
}

static __device__ float key_feature(const Member &m, const Head &head, uint32_t j, uint32_t feature) {
    return feature_of(m.parts.codes[feature], head.k + (size_t)j * head.stride, m.score_scale, 0.5F);
}

/* S and z: a thread per feature. */
static __global__ void __launch_bounds__(FACTORED_THREADS)
    sum_keys(const Member *__restrict__ members, Pass pass, uint32_t block, uint32_t round) {
    const Member &m = members[blockIdx.z];
    const Shape s = shape_of<false>(m);
    const uint32_t feature = blockIdx.x * FACTORED_THREADS + threadIdx.x;
    Factored f;
    if (!factored_of(f, m, s, pass, block, round) || feature >= m.parts.features) return;
    for (uint32_t c = 0; c < m.Dp; c += SUM_LANES) {
        float sums[SUM_LANES], total = 0.0F;
#pragma unroll
        for (int l = 0; l < SUM_LANES; l++) sums[l] = 0.0F;
        for (uint32_t j = 0; j < m.T; j++) {
            const float value = key_feature(m, f.head, j, feature), *v = f.head.v + (size_t)j * f.head.stride + c;
            total = total + value;
#pragma unroll
            for (int l = 0; l < SUM_LANES; l++) sums[l] = __fmaf_rn(value, v[l], sums[l]);
        }
#pragma unroll
        for (int l = 0; l < SUM_LANES; l++) f.sums.S[(size_t)feature * m.Dp + c + l] = sums[l];
        f.sums.z[feature] = total;
    }
}

/* The total of a query: dot products of the slices, one after the other. */
static __device__ float total_of_query(const Factored &f, const Member &m, uint32_t i) {
    const Parts &p = m.parts;
    float total = 0.0F;
    for (uint32_t slice = 0, first = 0; slice < p.slices; first = p.slice_ends[slice++]) {
        float lanes[SUM_LANES];
#pragma unroll
        for (int l = 0; l < SUM_LANES; l++) lanes[l] = 0.0F;
        for (uint32_t at = first; at < p.slice_ends[slice]; at += SUM_LANES)
#pragma unroll
            for (int l = 0; l < SUM_LANES; l++)
                lanes[l] = __fmaf_rn(query_feature(m, f.head, i, at + l), f.sums.z[at + l], lanes[l]);
        total += total_of(lanes);
    }
    return total;
}

/* The context of a query. */
static __global__ void __launch_bounds__(FACTORED_THREADS)
    mix_queries(const Member *__restrict__ members, Pass pass, uint32_t block, uint32_t round) {
    const Member &m = members[blockIdx.z];
    const Shape s = shape_of<false>(m);
    const uint32_t i = blockIdx.x * FACTORED_THREADS + threadIdx.x;
    Factored f;
    if (!factored_of(f, m, s, pass, block, round) || i >= m.T) return;
    const float inverse = 1.0F / total_of_query(f, m, i);
    for (uint32_t c = 0; c < m.Dp; c += SUM_LANES) {
        float sums[SUM_LANES];
#pragma unroll
        for (int l = 0; l < SUM_LANES; l++) sums[l] = 0.0F;
        for (uint32_t feature = 0; feature < m.parts.features; feature++) {
            const float value = query_feature(m, f.head, i, feature), *S = f.sums.S + (size_t)feature * m.Dp + c;
#pragma unroll
            for (int l = 0; l < SUM_LANES; l++) sums[l] = __fmaf_rn(value, S[l], sums[l]);
        }
#pragma unroll
        for (int l = 0; l < SUM_LANES; l++) f.head.context[(size_t)i * s.HDp + c + l] = inverse * sums[l];
    }
}

/* The gradient of a feature: begin, then the products of row [Dp], times its factor, with M [features,Dp]. */
static __device__ float slope_of_feature(float begin, const float *row, float factor, const float *M, uint32_t feature,
                                         uint32_t Dp) {
    for (uint32_t c = 0; c < Dp; c++) begin = __fmaf_rn(factor * row[c], M[(size_t)feature * Dp + c], begin);
    return begin;
}

/* Of a query's features, or of a key's. */
struct FeatureSlopes {
    const float *row, *M, *z;
    float factor, dtotal;
    bool are_keys;
    uint32_t Dp;
    __device__ float at(uint32_t feature) const {
        const float slope = slope_of_feature(are_keys ? z[feature] : 0.0F, row, factor, M, feature, Dp);
        return are_keys ? slope : __fmaf_rn(dtotal, z[feature], slope);
    }
};

/* dx: the gradient through the features of y = scale * x, run after run. */
static __device__ void features_back(float *dx /* [Dp] */, const FeatureSlopes &slopes, const float *x, float scale,
                                     float of_squares, const Member &m) {
    const uint32_t D = m.D;
    for (uint32_t c = 0; c < m.Dp; c++) dx[c] = 0.0F;
    for (uint32_t e = 0; e < D; e++) dx[e] = dx[e] + slopes.at(m.parts.run_begins[0] + 1 + e);
    for (uint32_t a = 0; a < D; a++) {
        const uint32_t run = m.parts.run_begins[a + 1];
        const float by = scale * x[a], square = dx[a] + of_squares * slopes.at(run) * by;
        float lanes[SUM_LANES];
#pragma unroll
        for (int l = 0; l < SUM_LANES; l++) lanes[l] = 0.0F;
        for (uint32_t e = a + 1; e < D; e += SUM_LANES)
#pragma unroll
            for (uint32_t l = 0; l < SUM_LANES; l++)
                if (e + l < D) {
                    const float slope = slopes.at(run + e + l - a);
                    lanes[l] += slope * (scale * x[e + l]);
                    dx[e + l] = dx[e + l] + slope * by;
                }
        dx[a] = square + total_of(lanes);
    }
}

/* dq, and the gradient of the total. */
static __global__ void __launch_bounds__(FACTORED_THREADS)
    queries_back(const Member *__restrict__ members, Pass pass, uint32_t block, uint32_t round) {
    const Member &m = members[blockIdx.z];
    const Shape s = shape_of<false>(m);
    const uint32_t i = blockIdx.x * FACTORED_THREADS + threadIdx.x;
    Factored f;
    if (!factored_of(f, m, s, pass, block, round) || i >= m.T) return;
    const float inverse = 1.0F / total_of_query(f, m, i);
    const float *dcontext = f.head.dcontext + (size_t)i * s.HDp, *context = f.head.context + (size_t)i * s.HDp;
    float lanes[SUM_LANES];
#pragma unroll
    for (int l = 0; l < SUM_LANES; l++) lanes[l] = 0.0F;
    for (uint32_t c = 0; c < m.Dp; c += SUM_LANES)
#pragma unroll
        for (int l = 0; l < SUM_LANES; l++) lanes[l] = __fmaf_rn(inverse * dcontext[c + l], context[c + l], lanes[l]);
    const float dtotal = -total_of(lanes);
    f.sums.inverses[i] = inverse;
    f.sums.dtotals[i] = dtotal;
    const FeatureSlopes slopes = {dcontext, f.sums.S, f.sums.z, inverse, dtotal, false, m.Dp};
    features_back(f.head.dq + (size_t)i * f.head.stride, slopes, f.head.q + (size_t)i * f.head.stride, 1.0F, 2.0F, m);
}

/* dS and dz: a thread per feature. */
static __global__ void __launch_bounds__(FACTORED_THREADS)
    sums_back(const Member *__restrict__ members, Pass pass, uint32_t block, uint32_t round) {
    const Member &m = members[blockIdx.z];
    const Shape s = shape_of<false>(m);
    const uint32_t feature = blockIdx.x * FACTORED_THREADS + threadIdx.x;
    Factored f;
    if (!factored_of(f, m, s, pass, block, round) || feature >= m.parts.features) return;
    for (uint32_t c = 0; c < m.Dp; c += SUM_LANES) {
        float sums[SUM_LANES], total = 0.0F;
#pragma unroll
        for (int l = 0; l < SUM_LANES; l++) sums[l] = 0.0F;
        for (uint32_t i = 0; i < m.T; i++) {
            const float value = query_feature(m, f.head, i, feature), inverse = f.sums.inverses[i];
            const float *dcontext = f.head.dcontext + (size_t)i * s.HDp + c;
            total = __fmaf_rn(f.sums.dtotals[i], value, total);
#pragma unroll
            for (int l = 0; l < SUM_LANES; l++) sums[l] = __fmaf_rn(value, inverse * dcontext[l], sums[l]);
        }
#pragma unroll
        for (int l = 0; l < SUM_LANES; l++) f.sums.dS[(size_t)feature * m.Dp + c + l] = sums[l];
        f.sums.dz[feature] = total;
    }
}

/* dk and dv. */
static __global__ void __launch_bounds__(FACTORED_THREADS)
    keys_back(const Member *__restrict__ members, Pass pass, uint32_t block, uint32_t round) {
    const Member &m = members[blockIdx.z];
    const Shape s = shape_of<false>(m);
    const uint32_t j = blockIdx.x * FACTORED_THREADS + threadIdx.x;
    Factored f;
    if (!factored_of(f, m, s, pass, block, round) || j >= m.T) return;
    const size_t row = (size_t)j * f.head.stride;
    for (uint32_t c = 0; c < m.Dp; c += SUM_LANES) {
        float sums[SUM_LANES];
#pragma unroll
        for (int l = 0; l < SUM_LANES; l++) sums[l] = 0.0F;
        for (uint32_t feature = 0; feature < m.parts.features; feature++) {
            const float value = key_feature(m, f.head, j, feature), *dS = f.sums.dS + (size_t)feature * m.Dp + c;
#pragma unroll
            for (int l = 0; l < SUM_LANES; l++) sums[l] = __fmaf_rn(value, dS[l], sums[l]);
        }
#pragma unroll
        for (int l = 0; l < SUM_LANES; l++) f.head.dv[row + c + l] = sums[l];
    }
    const FeatureSlopes slopes = {f.head.v + row, f.sums.dS, f.sums.dz, 1.0F, 0.0F, true, m.Dp};
    float *dk = f.head.dk + row;
    features_back(dk, slopes, f.head.k + row, m.score_scale, 1.0F, m);
    for (uint32_t c = 0; c < m.Dp; c++) dk[c] = m.score_scale * dk[c];
}

} // namespace sf

using namespace sf;

typedef void FactoredKernel(const Member *, Pass, uint32_t, uint32_t);

static void launch_factored(FactoredKernel *kernel, uint32_t threads, const sf_cuda_launch *launch,
                            const sf_cuda_pass *pass, uint32_t block, uint32_t round) {
    const dim3 grid((threads + FACTORED_THREADS - 1) / FACTORED_THREADS, launch->most_factored, launch->members);
    launch_kernel(kernel, grid, FACTORED_THREADS, 0, launch->stream, launch->fleet, *pass, block, round);
}

void sf_cuda_factored_forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    for (uint32_t round = 0; round < launch->factored_rounds; round++) {
        launch_factored(sum_keys, launch->most_features, launch, pass, block, round);
        launch_factored(mix_queries, launch->most_length, launch, pass, block, round);
    }
}

void sf_cuda_factored_backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    for (uint32_t round = 0; round < launch->factored_rounds; round++) {
        launch_factored(sum_keys, launch->most_features, launch, pass, block, round);
        launch_factored(queries_back, launch->most_length, launch, pass, block, round);
        launch_factored(sums_back, launch->most_features, launch, pass, block, round);
        launch_factored(keys_back, launch->most_length, launch, pass, block, round);
    }
}
