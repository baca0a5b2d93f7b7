/* Attention alone: plain arrays become padded rows, and back. */
#include "kernels/cuda/fleet.cuh"
#include "kernels/cuda/raw_launch.h"

namespace sf {

enum { COPY_THREADS = 256, MOST_COPY_BLOCKS = 1 << 16 };

static_assert(sizeof(Member) + sizeof(Trace) < 4000, "they are parameters of a kernel");

/* One thread. A kernel, not a copy: its parameters are read when it is launched. */
static __global__ void place(Member *to, Member member, Trace trace) {
    *to = member;
    member.traces[0] = trace;
}

struct Place { /* of element i of the padded rows */
    size_t row, head, channel;
};

static __device__ Place place_at(size_t i, const sf_cuda_heads &s) {
    const size_t channel = i % s.Dp, h = i / s.Dp % s.H, t = i / (s.Dp * s.H) % s.T, n = i / (s.Dp * s.H * s.T);
    return {(n * s.T + t) * s.stride + h * s.Dp + channel, ((n * s.H + h) * s.T + t) * s.D + channel, channel};
}

static __global__ void __launch_bounds__(COPY_THREADS) pack(float *rows, const float *heads, sf_cuda_heads s) {
    const size_t all = s.count * s.T * s.H * s.Dp, step = (size_t)gridDim.x * COPY_THREADS;
    for (size_t i = (size_t)blockIdx.x * COPY_THREADS + threadIdx.x; i < all; i += step) {
        const Place at = place_at(i, s);
        rows[at.row] = at.channel < s.D ? heads[at.head] : 0.0F;
    }
}

static __global__ void __launch_bounds__(COPY_THREADS) unpack(float *heads, const float *rows, sf_cuda_heads s) {
    const size_t all = s.count * s.T * s.H * s.Dp, step = (size_t)gridDim.x * COPY_THREADS;
    for (size_t i = (size_t)blockIdx.x * COPY_THREADS + threadIdx.x; i < all; i += step) {
        const Place at = place_at(i, s);
        if (at.channel < s.D) heads[at.head] = rows[at.row];
    }
}

} // namespace sf

using namespace sf;

static uint32_t copy_blocks(const sf_cuda_heads *s) {
    const size_t blocks = (s->count * s->T * s->H * s->Dp + COPY_THREADS - 1) / COPY_THREADS;
    const size_t most = MOST_COPY_BLOCKS;
    return (uint32_t)(blocks < most ? blocks : most);
}

void sf_cuda_place(cudaStream_t stream, sf_cuda_member *to, const sf_cuda_member *member, const sf_cuda_trace *trace) {
    launch_kernel(place, 1, 1, 0, stream, to, *member, *trace);
}

void sf_cuda_pack(cudaStream_t stream, float *rows, const float *heads, const sf_cuda_heads *sizes) {
    launch_kernel(pack, copy_blocks(sizes), COPY_THREADS, 0, stream, rows, heads, *sizes);
}

void sf_cuda_unpack(cudaStream_t stream, float *heads, const float *rows, const sf_cuda_heads *sizes) {
    launch_kernel(unpack, copy_blocks(sizes), COPY_THREADS, 0, stream, heads, rows, *sizes);
}
