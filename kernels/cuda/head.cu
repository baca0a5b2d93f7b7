/* The head: mean over positions or one of them, logits, cross-entropy, in double; and what evaluations add up. The
 * readout `each` is in each.cu. */
#include "kernels/cuda/judge.cuh"
#include "kernels/cuda/launch.h"

namespace sf {

enum { HEAD_THREADS = 256, POOLED_ROWS = 64, POOLED_COLUMNS = 64 };

enum { POOLED_FETCHES = POOLED_ROWS * POOLED_COLUMNS / 4 / HEAD_THREADS };

struct PooledRows { /* on their way to shared memory */
    float4 four[POOLED_FETCHES];
};

static __device__ PooledRows fetch_rows(const float *x /* [T,Cp] */, const Member &m, uint32_t from, uint32_t first) {
    PooledRows rows;
    const uint32_t column = first + threadIdx.x % (POOLED_COLUMNS / 4) * 4;
#pragma unroll
    for (uint32_t i = 0; i < POOLED_FETCHES; i++) {
        const uint32_t t = from + (i * HEAD_THREADS + threadIdx.x) / (POOLED_COLUMNS / 4);
        rows.four[i] = t < m.T && column < m.Cp ? *reinterpret_cast<const float4 *>(x + (size_t)t * m.Cp + column)
                                                : make_float4(0, 0, 0, 0);
    }
    return rows;
}

/* Means over the positions, in order, in double: 64 channels at a time, one thread for each; all threads fetch rows. */
static __device__ void pool(double *pooled /* [C] */, const float *x /* [T,Cp] */, const Member &m) {
    __shared__ __align__(16) float rows[POOLED_ROWS][POOLED_COLUMNS];
    for (uint32_t first = 0; first < m.Cp; first += POOLED_COLUMNS) {
        double sum = 0;
        PooledRows next = fetch_rows(x, m, 0, first);
        for (uint32_t from = 0; from < m.T; from += POOLED_ROWS) {
            __syncthreads();
#pragma unroll
            for (uint32_t i = 0; i < POOLED_FETCHES; i++)
                reinterpret_cast<float4 *>(rows)[i * HEAD_THREADS + threadIdx.x] = next.four[i];
            __syncthreads();
            if (from + POOLED_ROWS < m.T) next = fetch_rows(x, m, from + POOLED_ROWS, first);
            if (threadIdx.x < POOLED_COLUMNS) {
                const uint32_t count = m.T - from < POOLED_ROWS ? m.T - from : POOLED_ROWS;
#pragma unroll 8
                for (uint32_t t = 0; t < count; t++) sum += (double)rows[t][threadIdx.x];
            }
        }
        if (threadIdx.x < POOLED_COLUMNS && first + threadIdx.x < m.C) pooled[first + threadIdx.x] = sum / (double)m.T;
    }
    __syncthreads();
}

/* The position that `last` and `cls` read. */
static __device__ uint32_t last_of(const Member &m, const Pass &pass, uint32_t n) {
    return m.readout == CLS ? 0 : m.splits[pass.split].last[sequence_at(m, pass, n)];
}

static __device__ void read_one(double *pooled /* [C] */, const float *row /* [Cp] */, const Member &m) {
    for (uint32_t c = threadIdx.x; c < m.C; c += HEAD_THREADS) pooled[c] = 0.0 + (double)row[c]; /* no -0 */
    __syncthreads();
}

/* One block of threads per sequence; with a gradient, starts the backward pass: dx. READS: some members have another
 * readout than the mean. */
template <bool READS>
static __global__ void __launch_bounds__(HEAD_THREADS) classify(const Member *__restrict__ members, Pass pass) {
    const Member &m = members[blockIdx.y];
    const uint32_t n = blockIdx.x, B = sequences_of(m, pass);
    if (n >= B || skips_sequence(pass, B, n) || (READS && m.readout == EACH)) return;
    const float *x = m.x + (size_t)n * m.T * m.Cp, *weight = m.params + m.head_weight, *bias = m.params + m.head_bias;
    double *pooled = m.pooled + (size_t)n * m.C, *logits = m.slopes + (size_t)n * m.classes;
    const bool one = READS && m.readout != MEAN;
    const uint32_t last = one ? last_of(m, pass, n) : 0;
    if (one)
        read_one(pooled, x + (size_t)last * m.Cp, m);
    else
        pool(pooled, x, m);
    for (uint32_t i = threadIdx.x; i < m.classes; i += HEAD_THREADS) {
        double sum = (double)bias[i];
        for (uint32_t c = 0; c < m.C; c++) sum += pooled[c] * (double)weight[(size_t)i * m.Cp + c];
        logits[i] = sum;
        if (!pass.training) m.logits[(size_t)n * m.classes + i] = (float)sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) judge(m, pass, n);
    __syncthreads();
    if (!pass.training) return;
    __shared__ __align__(16) float slopes[HEAD_THREADS]; /* the same for every position */
    float *dx = m.dx + (size_t)n * m.T * m.Cp;
    for (uint32_t first = 0; first < m.Cp; first += HEAD_THREADS) {
        const uint32_t c = first + threadIdx.x, columns = m.Cp - first < HEAD_THREADS ? m.Cp - first : HEAD_THREADS;
        double slope = 0;
        for (uint32_t i = 0; i < m.classes && c < m.C; i++) slope += logits[i] * (double)weight[(size_t)i * m.Cp + c];
        __syncthreads();
        slopes[threadIdx.x] = c < m.C ? (float)(one ? slope : slope / (double)m.T) : 0.0F;
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < m.T * (columns / 4); i += HEAD_THREADS)
            *reinterpret_cast<float4 *>(dx + (size_t)(i / (columns / 4)) * m.Cp + first + i % (columns / 4) * 4) =
                one && i / (columns / 4) != last ? make_float4(0.0F, 0.0F, 0.0F, 0.0F)
                                                 : *reinterpret_cast<const float4 *>(slopes + i % (columns / 4) * 4);
    }
}

/* Adds the losses of an evaluation's sequences, in order. Sums are taken over 512 sequences and then added, as an
 * evaluation on the CPU takes them. */
static __global__ void tally(Member *members, Pass pass) {
    enum { EVALUATION_BATCH = 512 };
    Member &m = members[blockIdx.x];
    const uint32_t B = sequences_of(m, pass);
    for (uint32_t n = 0; n < B; n++) {
        const uint32_t at = pass.first + n;
        if (at == 0) {
            m.sums[pass.split] = 0;
            m.right[pass.split] = 0;
        }
        if (at % EVALUATION_BATCH == 0) m.batch_sum = 0;
        m.batch_sum += m.losses[n];
        m.right[pass.split] += m.correct[n];
        if ((at + 1) % EVALUATION_BATCH == 0 || at + 1 == m.splits[pass.split].count) m.sums[pass.split] += m.batch_sum;
    }
}

} // namespace sf

using namespace sf;

void sf_cuda_head(const sf_cuda_launch *launch, const sf_cuda_pass *pass) {
    launch_kernel(launch->reads ? classify<true> : classify<false>, dim3(launch->most_sequences, launch->members),
                  HEAD_THREADS, 0, launch->stream, launch->fleet, *pass);
    if (launch->each) sf_cuda_head_each(launch, pass);
}

void sf_cuda_tally(const sf_cuda_launch *launch, const sf_cuda_pass *pass) {
    launch_kernel(tally, launch->members, 1, 0, launch->stream, launch->fleet, *pass);
}
