/* From the chunks' gradients to the next weights: their sum in order, its norm, clipping, the optimizer. As
 * train/optimizer.c: in float, nothing fused. */
#include "kernels/cuda/fleet.cuh"
#include "kernels/cuda/launch.h"

namespace sf {

enum { UPDATE_THREADS = 128, LANES = 16 };

static __device__ float sum_at(const Member &m, uint32_t chunks, uint32_t i) {
    float sum = m.chunks[i];
    for (uint32_t c = 1; c < chunks; c++) sum = sum + m.chunks[(size_t)c * m.size + i];
    return sum;
}

/* One stretch of parameters: sums the chunks, unless that was done, and the squares in double. */
static __global__ void __launch_bounds__(UPDATE_THREADS) sum_chunks(const Member *__restrict__ members, Pass pass) {
    __shared__ float sums[STRETCH];
    const Member &m = members[blockIdx.y];
    const uint32_t B = sequences_of(m, pass), first = blockIdx.x * STRETCH;
    if (B == 0 || first >= m.size) return;
    const uint32_t chunks = chunks_of(B), count = m.size - first < STRETCH ? m.size - first : STRETCH;
    for (uint32_t i = threadIdx.x; i < count; i += UPDATE_THREADS) {
        sums[i] = pass.summed ? m.gradient[first + i] : sum_at(m, chunks, first + i);
        m.gradient[first + i] = sums[i];
    }
    __syncthreads();
    if (threadIdx.x >= 32) return;
    double square = 0;
    for (uint32_t i = threadIdx.x % LANES; i < count; i += LANES) square += (double)sums[i] * (double)sums[i];
    for (int half = LANES / 2; half > 0; half /= 2)
        square = square + __shfl_down_sync(0xffffffffU, square, half, LANES);
    if (threadIdx.x == 0) m.squares[blockIdx.x] = square;
}

static __device__ void sgd(const Member &m, const Rates &now, float factor, uint32_t i) {
    float slope = factor * m.gradient[i] + m.weight_decay * m.params[i];
    if (m.moments[0] != nullptr) slope = m.moments[0][i] = m.momentum * m.moments[0][i] + slope;
    m.params[i] -= now.lr * slope;
}

static __device__ void adam(const Member &m, const Rates &now, float factor, uint32_t i) {
    const float penalty = m.optimizer == 1 ? m.weight_decay : 0.0F;
    const float slope = factor * m.gradient[i] + penalty * m.params[i];
    const float first = m.beta1 * m.moments[0][i] + m.fresh1 * slope;
    const float second = m.beta2 * m.moments[1][i] + m.fresh2 * slope * slope;
    m.moments[0][i] = first;
    m.moments[1][i] = second;
    m.params[i] = now.keep * m.params[i] - now.rate * first / (sqrtf(second) * now.widen + m.epsilon);
}

static __device__ bool is_finite(double x) {
    return !isnan(x) && !isinf(x);
}

/* The gradient's norm and the batch's loss, for all threads: the sums are taken in order. */
struct Outcome {
    double norm, loss;
};

static __device__ Outcome outcome_of(const Member &m, const Pass &pass, uint32_t B) {
    __shared__ double terms[UPDATE_THREADS], sums[2];
    const double *const from[2] = {m.squares, m.losses};
    const uint32_t counts[2] = {(m.size + STRETCH - 1) / STRETCH, pass.summed ? 0 : B};
    for (int which = 0; which < 2; which++) {
        double total = 0;
        for (uint32_t first = 0; first < counts[which]; first += UPDATE_THREADS) {
            const uint32_t left = counts[which] - first, count = left < UPDATE_THREADS ? left : UPDATE_THREADS;
            __syncthreads();
            if (threadIdx.x < count) terms[threadIdx.x] = from[which][first + threadIdx.x];
            __syncthreads();
            for (uint32_t i = 0; i < count && threadIdx.x == 0; i++) total += terms[i];
        }
        if (threadIdx.x == 0) sums[which] = total;
    }
    __syncthreads();
    return {sqrt(sums[0]), sums[1] / (double)B};
}

/* Whether and how the weights are updated. The step is over, or the model diverged in it. */
static __global__ void __launch_bounds__(UPDATE_THREADS) judge_step(Member *members, Pass pass) {
    Member &m = members[blockIdx.x];
    const uint32_t B = sequences_of(m, pass);
    if (B == 0) {
        if (threadIdx.x == 0) m.updates = false;
        return;
    }
    const Outcome outcome = outcome_of(m, pass, B);
    if (threadIdx.x > 0) return;
    const double ratio = m.clip / (outcome.norm + 1e-6);
    m.clipping = (float)(m.clip > 0 && ratio < 1.0 ? ratio : 1.0);
    m.now = m.schedule[m.step];
    m.updates = is_finite(outcome.norm) && is_finite(outcome.loss);
    if (m.updates)
        m.step++;
    else
        m.diverged_step = m.step + 1;
}

static __global__ void __launch_bounds__(UPDATE_THREADS) update(const Member *__restrict__ members) {
    const Member &m = members[blockIdx.y];
    const uint32_t first = blockIdx.x * STRETCH;
    if (!m.updates || *m.stopped != 0) return;
    const Rates now = m.now;
    const float factor = m.clipping;
    for (uint32_t i = first + threadIdx.x; i < first + STRETCH && i < m.size; i += UPDATE_THREADS) {
        if (m.optimizer == 0)
            sgd(m, now, factor, i);
        else
            adam(m, now, factor, i);
    }
}

/* The same stretch of every chunk's gradient, in order. */
static __global__ void __launch_bounds__(UPDATE_THREADS)
    add_parts(float *sum, sf_cuda_stretches parts, uint32_t width) {
    const uint32_t i = blockIdx.x * UPDATE_THREADS + threadIdx.x;
    if (i >= width) return;
    float total = parts.at[0][i];
    for (uint32_t c = 1; c < parts.count; c++) total = total + parts.at[c][i];
    sum[i] = total;
}

} // namespace sf

using namespace sf;

void sf_cuda_add_parts(cudaStream_t stream, float *sum, const sf_cuda_stretches *parts, uint32_t width) {
    if (width > 0)
        launch_kernel(add_parts, (width + UPDATE_THREADS - 1) / UPDATE_THREADS, UPDATE_THREADS, 0, stream, sum, *parts,
                      width);
}

void sf_cuda_update(const sf_cuda_launch *launch, const sf_cuda_pass *pass) {
    const dim3 grid((launch->most_size + STRETCH - 1) / STRETCH, launch->members);
    launch_kernel(sum_chunks, grid, UPDATE_THREADS, 0, launch->stream, launch->fleet, *pass);
    launch_kernel(judge_step, launch->members, UPDATE_THREADS, 0, launch->stream, launch->fleet, *pass);
    if (launch->each) sf_cuda_withhold(launch);
    launch_kernel(update, grid, UPDATE_THREADS, 0, launch->stream, launch->fleet);
}
