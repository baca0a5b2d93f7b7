/* The readout `each`, forward, and the gradient of its rows. Sums as in docs/numerics.md: exponentials by 16 partial
 * sums over 1024 classes at a time, these in double; products in ascending depth. */
#include "kernels/cuda/each.cuh"
#include "kernels/cuda/launch.h"

namespace sf {

enum { SUMMED_CLASSES = 1024, LANES_OF_THREAD = 4, SUM_THREADS = 64, COUNT_THREADS = 128 };
enum : uint32_t { NO_CLASS = 0xffffffffU };

/* Labels of the batch: a number, so the order does not matter. */
static __global__ void __launch_bounds__(COUNT_THREADS) count_labels(Member *members, Pass pass) {
    __shared__ uint32_t sum;
    Member &m = members[blockIdx.x];
    const uint32_t B = m.readout == EACH ? sequences_of(m, pass) : 0;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    for (uint32_t n = threadIdx.x; n < B; n += COUNT_THREADS)
        atomicAdd(&sum, m.splits[pass.split].labelled[sequence_at(m, pass, n)]);
    __syncthreads();
    if (threadIdx.x == 0) m.labelled = sum;
}

struct RowsOfTile {
    uint32_t first, count;
};

/* False: nothing to do. */
static __device__ bool tile_of(RowsOfTile &rows, const Member &m, const Pass &pass, uint32_t tile) {
    const uint32_t all = m.readout == EACH ? sequences_of(m, pass) * m.T : 0;
    rows.first = tile * TILE;
    if (rows.first >= all) return false;
    rows.count = all - rows.first < TILE ? all - rows.first : TILE;
    return true;
}

/* The tile's labels, for all threads; whether it has any. */
static __device__ bool fetch_labels(int32_t *labels /* [TILE] */, const Member &m, const Pass &pass,
                                    const RowsOfTile &rows) {
    if (threadIdx.x < TILE)
        labels[threadIdx.x] = threadIdx.x < rows.count ? label_at(m, pass, rows.first + threadIdx.x) : -1;
    __syncthreads();
    bool any = false;
    for (uint32_t r = 0; r < TILE; r++) any = any || labels[r] >= 0;
    return any;
}

static __device__ void put_scores(float *scores /* [TILE,SCORE_ROW] */, const Accumulators &sums) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++)
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j++)
            scores[(first_row() + i) * SCORE_ROW + first_column() + j] = sums.at[i][j];
    __syncthreads();
}

/* Four neighbouring threads take a row, each four of its 16 partial sums; all of them get the total. */
static __device__ float total_of_four_threads(float (&lanes)[LANES_OF_THREAD]) {
#pragma unroll
    for (int other = 2; other > 0; other /= 2)
#pragma unroll
        for (int i = 0; i < LANES_OF_THREAD; i++)
            lanes[i] = lanes[i] + __shfl_xor_sync(0xffffffffU, lanes[i], other, 4);
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

struct Largest {
    float value;
    uint32_t at; /* the first of the largest */
};

static __device__ Largest larger_of(const Largest &a, const Largest &b) {
    return b.value > a.value || (b.value == a.value && b.at < a.at) ? b : a;
}

/* The largest logit of the thread's row, and that of the label, over all classes. */
static __device__ Largest largest_logit(float &target, const float *x, const Member &m, int32_t label, float *right,
                                        float *scores) {
    const float *row = scores + threadIdx.x / 4 * SCORE_ROW;
    Largest largest = {__int_as_float(0xff800000), NO_CLASS};
    for (uint32_t first = 0; first < m.classes; first += TILE) {
        Accumulators logits;
        logits_of(logits, x, m, first, right);
        put_scores(scores, logits);
        for (uint32_t c = threadIdx.x % 4; c < TILE && first + c < m.classes; c += 4) {
            largest = larger_of(largest, {row[c], first + c});
            if ((int32_t)(first + c) == label) target = row[c];
        }
    }
#pragma unroll
    for (int other = 1; other < 4; other *= 2)
        largest = larger_of(largest, {__shfl_xor_sync(0xffffffffU, largest.value, other, 4),
                                      __shfl_xor_sync(0xffffffffU, largest.at, other, 4)});
    target = __shfl_sync(0xffffffffU, target, label >= 0 ? label % 4 : 0, 4);
    return largest;
}

/* The sum of the exponentials of the thread's row. */
static __device__ double sum_of_exponentials(float largest, const float *x, const Member &m, float *right,
                                             float *scores) {
    const float *row = scores + threadIdx.x / 4 * SCORE_ROW + threadIdx.x % 4 * LANES_OF_THREAD;
    float lanes[LANES_OF_THREAD] = {0.0F, 0.0F, 0.0F, 0.0F};
    double total = 0;
    for (uint32_t first = 0; first < m.classes; first += TILE) {
        Accumulators logits;
        logits_of(logits, x, m, first, right);
        put_scores(scores, logits);
#pragma unroll
        for (uint32_t c = 0; c < TILE; c += SUM_LANES)
#pragma unroll
            for (uint32_t i = 0; i < LANES_OF_THREAD; i++)
                if (first + c + threadIdx.x % 4 * LANES_OF_THREAD + i < m.classes)
                    lanes[i] += exp_below_zero(row[c + i] - largest);
        if (first + TILE < m.classes && (first + TILE) % SUMMED_CLASSES != 0) continue;
        total += (double)total_of_four_threads(lanes);
#pragma unroll
        for (uint32_t i = 0; i < LANES_OF_THREAD; i++) lanes[i] = 0.0F;
    }
    return total;
}

/* Losses of 64 rows, and what their gradients need. Grid (tiles of rows, members). */
static __global__ void __launch_bounds__(THREADS) each_forward(const Member *__restrict__ members, Pass pass) {
    SF_DYNAMIC_SHARED(float, shared);
    __shared__ int32_t labels[TILE];
    const Member &m = members[blockIdx.y];
    RowsOfTile rows;
    if (!tile_of(rows, m, pass, blockIdx.x) || !fetch_labels(labels, m, pass, rows)) return;
    float *right = shared, *scores = right + TILE * LD, *x = scores + TILE * LD;
    stage_channels(x, m.x + (size_t)rows.first * m.Cp, rows.count, m.Cp);
    const uint32_t r = threadIdx.x / 4;
    const int32_t label = labels[r];
    float target = 0.0F;
    const Largest largest = largest_logit(target, x, m, label, right, scores);
    const double total = sum_of_exponentials(largest.value, x, m, right, scores);
    if (label < 0 || threadIdx.x % 4 != 0) return;
    m.row_losses[rows.first + r] = log_of_double(total) + (double)largest.value - (double)target;
    m.row_correct[rows.first + r] = largest.at == (uint32_t)label;
    if (!pass.training) return;
    const double scale = share_of_label(m), of_label = (double)exp_below_zero(target - largest.value) / total;
    m.row_slopes[rows.first + r] =
        make_float4(largest.value, (float)(scale / total), (float)((of_label - 1) * scale), 0.0F);
}

/* The rows of a sequence, in order. One thread for each. */
static __global__ void __launch_bounds__(SUM_THREADS) each_sums(const Member *__restrict__ members, Pass pass) {
    const Member &m = members[blockIdx.y];
    const uint32_t n = blockIdx.x * SUM_THREADS + threadIdx.x;
    if (m.readout != EACH || n >= sequences_of(m, pass)) return;
    double loss = 0;
    uint32_t correct = 0;
    for (uint32_t row = n * m.T; row < (n + 1) * m.T; row++) {
        if (label_at(m, pass, row) < 0) continue;
        loss += m.row_losses[row];
        correct += m.row_correct[row];
    }
    m.losses[n] = loss;
    m.correct[n] = correct;
}

/* dx of 64 rows and 64 channels. Grid (tiles of rows, tiles of channels, members). */
static __global__ void __launch_bounds__(THREADS) each_backward(const Member *__restrict__ members, Pass pass) {
    SF_DYNAMIC_SHARED(float, shared);
    __shared__ int32_t labels[TILE];
    const Member &m = members[blockIdx.z];
    const uint32_t first_channel = blockIdx.y * TILE;
    RowsOfTile rows;
    if (first_channel >= m.Cp || !tile_of(rows, m, pass, blockIdx.x)) return;
    float *right = shared, *slopes = right + TILE * LD, *x = slopes + TILE * LD;
    float *dx = m.dx + (size_t)rows.first * m.Cp + first_channel;
    const float *weight = m.params + m.head_weight + first_channel;
    Accumulators sums;
    clear(sums);
    if (fetch_labels(labels, m, pass, rows)) {
        stage_channels(x, m.x + (size_t)rows.first * m.Cp, rows.count, m.Cp);
        for (uint32_t first = 0; first < m.classes; first += TILE) {
            const uint32_t classes = m.classes - first < TILE ? m.classes - first : TILE;
            Accumulators logits;
            logits_of(logits, x, m, first, right);
#pragma unroll
            for (int i = 0; i < THREAD_ROWS; i++) {
                const uint32_t r = first_row() + i;
                const bool real = labels[r] >= 0;
                const float4 of_row = real ? m.row_slopes[rows.first + r] : make_float4(0, 0, 0, 0);
#pragma unroll
                for (int j = 0; j < THREAD_COLUMNS; j++)
                    logits.at[i][j] =
                        real ? slope_of_logit(logits.at[i][j], of_row, labels[r], first + first_column() + j) : 0.0F;
            }
            __syncthreads();
            put_across(slopes, logits);
            stage(right, weight + (size_t)first * m.Cp, m.Cp, classes, m.Cp - first_channel);
            __syncthreads();
            multiply(sums, slopes, right, classes);
        }
#pragma unroll
        for (int i = 0; i < THREAD_ROWS; i++)
#pragma unroll
            for (int j = 0; j < THREAD_COLUMNS; j++)
                if (labels[first_row() + i] < 0) sums.at[i][j] = 0.0F; /* whatever the weights are */
    }
    put_rows(dx, m.Cp, sums, rows.count, m.Cp - first_channel);
}

/* All logits of sequence n of the pass. Grid (tiles of positions, tiles of classes, members). */
static __global__ void __launch_bounds__(THREADS)
    each_logits(const Member *__restrict__ members, Pass pass, uint32_t n) {
    SF_DYNAMIC_SHARED(float, shared);
    const Member &m = members[blockIdx.z];
    const uint32_t first = blockIdx.x * TILE, first_class = blockIdx.y * TILE;
    if (n >= sequences_of(m, pass) || first >= m.T || first_class >= m.classes) return;
    const uint32_t rows = m.T - first < TILE ? m.T - first : TILE;
    float *right = shared, *x = right + 2 * TILE * LD;
    stage_channels(x, m.x + ((size_t)n * m.T + first) * m.Cp, rows, m.Cp);
    Accumulators logits;
    logits_of(logits, x, m, first_class, right);
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++)
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j++) {
            const uint32_t r = first_row() + i, c = first_class + first_column() + j;
            if (r < rows && c < m.classes) m.logits[(size_t)(first + r) * m.classes + c] = logits.at[i][j];
        }
}

/* A batch without labels changes nothing: after the step was judged. */
static __global__ void withhold(Member *members) {
    Member &m = members[blockIdx.x];
    if (m.readout == EACH && m.labelled == 0) m.updates = false;
}

} // namespace sf

using namespace sf;

static uint32_t tiles_of(uint32_t count) {
    return (count + TILE - 1) / TILE;
}

void sf_cuda_head_each(const sf_cuda_launch *launch, const sf_cuda_pass *pass) {
    const size_t shared = each_shared(launch->most_channels);
    const uint32_t tiles = tiles_of(launch->most_rows), channels = tiles_of(launch->most_channels);
    launch_kernel(count_labels, launch->members, COUNT_THREADS, 0, launch->stream, launch->fleet, *pass);
    launch_kernel(each_forward, dim3(tiles, launch->members), THREADS, shared, launch->stream, launch->fleet, *pass);
    launch_kernel(each_sums, dim3((launch->most_sequences + SUM_THREADS - 1) / SUM_THREADS, launch->members),
                  SUM_THREADS, 0, launch->stream, launch->fleet, *pass);
    if (pass->training)
        launch_kernel(each_backward, dim3(tiles, channels, launch->members), THREADS, shared, launch->stream,
                      launch->fleet, *pass);
}

void sf_cuda_logits_each(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t n) {
    const dim3 grid(tiles_of(launch->most_length), tiles_of(launch->most_classes), launch->members);
    launch_kernel(each_logits, grid, THREADS, each_shared(launch->most_channels), launch->stream, launch->fleet, *pass,
                  n);
}

void sf_cuda_withhold(const sf_cuda_launch *launch) {
    launch_kernel(withhold, launch->members, 1, 0, launch->stream, launch->fleet);
}

cudaError_t sf_cuda_prepare_each(uint32_t channels) {
    const int shared = (int)each_shared(channels);
    const void *const kernels[] = {(const void *)each_forward, (const void *)each_backward, (const void *)each_logits};
    for (const void *const kernel : kernels) {
        const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}
