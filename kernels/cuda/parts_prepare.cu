/* What selectors by vectors need of a whole head before its queries: means of blocks, clusters, buckets. One block of
 * threads per head. In double, nothing fused, sums in ascending order: as blocktopk.c, kmeans.c and lsh.c of
 * attention/. */
#include "kernels/cuda/launch.h"
#include "kernels/cuda/parts_vectors.cuh"

namespace sf {

enum { PREPARE_THREADS = 128 };

/* 0 stays 0. */
static __device__ void normalize(double *x, uint32_t D, uint32_t stride) {
    double square = 0;
    for (uint32_t c = 0; c < D; c++) square += x[c * stride] * x[c * stride];
    const double inverse = square > 0 ? 1 / sqrt(square) : 0;
    for (uint32_t c = 0; c < D; c++) x[c * stride] *= inverse;
}

static __device__ void mean_blocks(const Prepared &prepared, const Member &m, const Head &head, uint32_t T) {
    const uint32_t width = block_width_of(m.parts), count = blocks_of(m.parts, T);
    for (uint32_t i = threadIdx.x; i < count * m.D; i += PREPARE_THREADS) {
        const uint32_t c = i / count, n = i % count, first = n * width;
        const uint32_t end = T - first < width ? T : first + width;
        double sum = 0;
        for (uint32_t j = first; j < end; j++) sum += (double)head.k[(size_t)j * head.stride + c];
        prepared.vectors[c * count + n] = sum / (double)(end - first);
    }
}

/* The centroid of largest product. */
template <typename Number>
static __device__ uint32_t nearest(const double *centroids /* [D,count] */, const Number *x, uint32_t D,
                                   uint32_t count) {
    uint32_t best = 0;
    double largest = 0;
    for (uint32_t n = 0; n < count; n++) {
        const double product = product_with_column(x, centroids + n, count, D);
        if (n > 0 && !(product > largest)) continue;
        largest = product;
        best = n;
    }
    return best;
}

static __device__ void assign_keys(const Prepared &prepared, const double *unit, uint32_t T, uint32_t D,
                                   uint32_t count) {
    __syncthreads();
    for (uint32_t j = threadIdx.x; j < T; j += PREPARE_THREADS)
        prepared.of_key[j] = nearest(prepared.vectors, unit + (size_t)j * D, D, count);
    __syncthreads();
}

/* Every centroid becomes the normalized mean of its keys; without keys it stays. */
static __device__ void move_centroids(const Prepared &prepared, const double *unit, uint32_t T, uint32_t D,
                                      uint32_t count) {
    for (uint32_t i = threadIdx.x; i < count * D; i += PREPARE_THREADS) {
        const uint32_t d = i / count, n = i % count;
        double sum = 0;
        uint32_t keys = 0;
        for (uint32_t j = 0; j < T; j++) {
            if (prepared.of_key[j] != n) continue;
            sum += unit[(size_t)j * D + d];
            keys++;
        }
        if (keys > 0) prepared.vectors[d * count + n] = sum / (double)keys;
    }
    __syncthreads();
    for (uint32_t n = threadIdx.x; n < count; n += PREPARE_THREADS) {
        bool any = false;
        for (uint32_t j = 0; j < T && !any; j++) any = prepared.of_key[j] == n;
        if (any) normalize(prepared.vectors + n, D, count);
    }
}

static __device__ void cluster(const Prepared &prepared, const Member &m, const Head &head, uint32_t T) {
    const uint32_t count = (uint32_t)m.parts.arguments[0], rounds = (uint32_t)m.parts.arguments[1], D = m.D;
    double *unit = prepared.vectors + (size_t)D * count; /* [T,D] */
    for (uint32_t j = threadIdx.x; j < T; j += PREPARE_THREADS) {
        for (uint32_t c = 0; c < D; c++) unit[(size_t)j * D + c] = (double)head.k[(size_t)j * head.stride + c];
        normalize(unit + (size_t)j * D, D, 1);
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < count * D; i += PREPARE_THREADS) {
        const uint32_t d = i / count, n = i % count;
        prepared.vectors[d * count + n] = unit[(size_t)((uint64_t)n * T / count) * D + d];
    }
    for (uint32_t round = 0; round < rounds; round++) {
        assign_keys(prepared, unit, T, D, count);
        move_centroids(prepared, unit, T, D, count);
    }
    assign_keys(prepared, unit, T, D, count);
    for (uint32_t i = threadIdx.x; i < T; i += PREPARE_THREADS)
        prepared.of_query[i] = nearest(prepared.vectors, head.q + (size_t)i * head.stride, D, count);
}

/* Number i of the normal numbers that a step draws for a head. */
static __device__ double normal_at(const Index &index, uint32_t i) {
    uint32_t words[4];
    philox(words, index, i / 2);
    const double radius = ((double)words[i % 2 * 2] + 0.5) * 0x1p-32;
    const double angle = ((double)words[i % 2 * 2 + 1] + 0.5) * 0x1p-32;
    return sqrt(-2 * log_of_double(radius)) * cos_of_double(2 * 3.14159265358979323846 * angle);
}

static __device__ uint32_t bucket_of(const double *matrix /* [D,half] */, const float *x, uint32_t D, uint32_t half) {
    uint32_t best = 0;
    double largest = 0;
    for (uint32_t n = 0; n < 2 * half; n++) {
        const double with = product_with_column(x, matrix + n % half, half, D), product = n < half ? with : -with;
        if (n > 0 && !(product > largest)) continue;
        largest = product;
        best = n;
    }
    return best;
}

static __device__ void hash(const Prepared &prepared, const Member &m, const Head &head, Index index, uint32_t T) {
    const uint32_t half = (uint32_t)m.parts.arguments[0] / 2, rounds = (uint32_t)m.parts.arguments[1], D = m.D;
    index.stream += RANDOM_PREPARATION - RANDOM_KEYS; /* evaluation follows training in both */
    index.sample = 0xffffffffU;                       /* the same for all sequences */
    for (uint32_t round = 0; round < rounds; round++) {
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < D * half; i += PREPARE_THREADS)
            prepared.vectors[i] = normal_at(index, round * D * half + i);
        __syncthreads();
        for (uint32_t j = threadIdx.x; j < T; j += PREPARE_THREADS) {
            prepared.of_query[(size_t)round * T + j] =
                bucket_of(prepared.vectors, head.q + (size_t)j * head.stride, D, half);
            prepared.of_key[(size_t)round * T + j] =
                bucket_of(prepared.vectors, head.k + (size_t)j * head.stride, D, half);
        }
    }
}

/* Grid (heads of all sequences, members). */
static __global__ void __launch_bounds__(PREPARE_THREADS)
    prepare_parts(const Member *__restrict__ members, Pass pass, uint32_t block) {
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<false>(m);
    Head head;
    if (m.selection != BY_PARTS || m.parts.vectors == nullptr || sequences_of(m, pass) == 0) return;
    if (block >= m.L || !head_at(head, m, s, pass, block, blockIdx.x, 0)) return;
    const uint32_t T = m.T - m.parts.globals;
    const Prepared prepared = prepared_of(m, head.slot);
    if (m.parts.selector == SF_CUDA_BLOCKTOPK) mean_blocks(prepared, m, head, T);
    if (m.parts.selector == SF_CUDA_KMEANS) cluster(prepared, m, head, T);
    if (m.parts.selector == SF_CUDA_LSH)
        hash(prepared, m, head,
             index_of(m, pass, pass.training ? RANDOM_KEYS : RANDOM_KEYS_EVALUATION, block, head.h, head.n), T);
}

} // namespace sf

using namespace sf;

void sf_cuda_prepare_parts(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    launch_kernel(prepare_parts, dim3(launch->most_sequences * launch->most_heads, launch->members), PREPARE_THREADS, 0,
                  launch->stream, launch->fleet, *pass, block);
}
