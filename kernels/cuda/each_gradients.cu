/* Gradients of the head where sequences do not simply add to it one by one: under the readout `each`, and where its
 * weights are the first rows of the embedding. Chunk by chunk; inside of one, the sequences that the CPU takes together
 * first add what the head gives, then their rows what the embedding gives. */
#include "kernels/cuda/chunk.cuh"
#include "kernels/cuda/each.cuh"
#include "kernels/cuda/launch.h"

namespace sf {

enum { LISTED = 32 };

struct Part { /* of the head's weights: 64 rows (classes, or tokens) and 64 channels */
    uint32_t first, count, first_channel;
};

struct Group { /* sequences that are taken together */
    uint32_t first, end;
};

/* The labelled ones of 32 rows from `row` on, for all threads; returns how many. */
static __device__ uint32_t list_labelled(uint32_t *listed /* [LISTED] */, int32_t *labels /* [LISTED] */,
                                         uint32_t *count, const Member &m, const Pass &pass, uint32_t row,
                                         uint32_t end) {
    __syncthreads();
    if (threadIdx.x < LISTED) {
        const int32_t label = row + threadIdx.x < end ? label_at(m, pass, row + threadIdx.x) : -1;
        const uint32_t labelled = __ballot_sync(0xffffffffU, label >= 0);
        const uint32_t place = __popc(labelled & ((1U << threadIdx.x) - 1));
        if (label >= 0) {
            listed[place] = row + threadIdx.x;
            labels[place] = label;
        }
        if (threadIdx.x == 0) *count = __popc(labelled);
    }
    __syncthreads();
    return *count;
}

/* to[c][i] = channel c of row listed[i], of up to 64 channels. */
static __device__ void stage_listed_across(float *to /* [TILE,LD] */, const float *x, size_t row,
                                           const uint32_t *listed, uint32_t count, uint32_t columns) {
    const uint32_t i = threadIdx.x % TILE;
    stage_row_across(to, x + (i < count ? listed[i] * row : 0), i < count, columns, 1.0F);
}

/* The same with the rows outermost. */
static __device__ void stage_listed(float *to /* [LISTED,LD] */, const float *x, size_t row, const uint32_t *listed,
                                    uint32_t count, uint32_t columns) {
    const uint32_t c = threadIdx.x % 16 * 4;
#pragma unroll
    for (uint32_t i = 0; i < LISTED; i += THREADS / 16) {
        const uint32_t r = i + threadIdx.x / 16;
        *reinterpret_cast<float4 *>(to + r * LD + c) = r < count && c < columns
                                                           ? *reinterpret_cast<const float4 *>(x + listed[r] * row + c)
                                                           : make_float4(0, 0, 0, 0);
    }
}

/* Sums over up to 128 labelled rows at a time, which are then added: of the thread's class. */
struct BiasSum {
    float total, sum;
    uint32_t rows;
};

static __device__ void end_rows(BiasSum &bias) {
    if (bias.rows > 0) bias.total += bias.sum;
    bias.sum = 0.0F;
    bias.rows = 0;
}

struct Shared {
    float *across, *right, *slopes; /* [TILE,LD] each */
    uint32_t *listed, *count;
    int32_t *labels;
};

/* The gradients of the logits of the listed rows with the part's classes, to shared memory: [row][class]. */
static __device__ void slopes_of_listed(const Shared &shared, const Member &m, const Part &part, uint32_t count) {
    Accumulators logits;
    clear(logits);
    const uint32_t classes = m.classes - part.first < TILE ? m.classes - part.first : TILE;
#pragma unroll
    for (int j = 0; j < THREAD_COLUMNS; j++) {
        const uint32_t c = first_column() + j;
#pragma unroll
        for (int i = 0; i < THREAD_ROWS; i++)
            logits.at[i][j] = c < classes ? m.params[m.head_bias + part.first + c] : 0.0F;
    }
    for (uint32_t k = 0; k < m.Cp; k += TILE) {
        __syncthreads();
        stage_listed_across(shared.across, m.x + k, m.Cp, shared.listed, count, m.Cp - k);
        stage_across(shared.right, m.params + m.head_weight + (size_t)part.first * m.Cp + k, m.Cp, classes, m.Cp - k,
                     1.0F);
        __syncthreads();
        multiply(logits, shared.across, shared.right, m.Cp - k < TILE ? m.Cp - k : TILE);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++) {
        const uint32_t r = first_row() + i;
        if (r >= count) continue;
        const float4 of_row = m.row_slopes[shared.listed[r]];
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j++) {
            const uint32_t c = first_column() + j;
            shared.slopes[r * LD + c] =
                c < classes ? slope_of_logit(logits.at[i][j], of_row, shared.labels[r], part.first + c) : 0.0F;
        }
    }
    __syncthreads();
}

/* What the labelled rows of a group add. */
static __device__ void add_labelled(Accumulators &sums, BiasSum &bias, const Shared &shared, const Member &m,
                                    const Pass &pass, const Part &part, const Group &group) {
    for (uint32_t row = group.first * m.T, end = group.end * m.T; row < end; row += LISTED) {
        const uint32_t count = list_labelled(shared.listed, shared.labels, shared.count, m, pass, row, end);
        if (count == 0) continue;
        slopes_of_listed(shared, m, part, count);
        stage_listed(shared.right, m.x + part.first_channel, m.Cp, shared.listed, count, m.Cp - part.first_channel);
        __syncthreads();
        multiply(sums, shared.slopes, shared.right, count);
        for (uint32_t r = 0; r < count && threadIdx.x < TILE; r++) {
            bias.sum += shared.slopes[r * LD + threadIdx.x];
            if (++bias.rows == GROUP_ROWS) end_rows(bias);
        }
    }
    end_rows(bias);
}

/* What the sequences of a group add under another readout. */
static __device__ void add_sequences(Accumulators &sums, const Member &m, const Part &part, const Group &group) {
    for (uint32_t n = group.first; n < group.end; n++)
#pragma unroll
        for (int i = 0; i < THREAD_ROWS; i++)
#pragma unroll
            for (int j = 0; j < THREAD_COLUMNS; j++) {
                const uint32_t class_of = part.first + first_row() + i, c = part.first_channel + first_column() + j;
                if (class_of < m.classes && c < m.C)
                    sums.at[i][j] +=
                        (float)(m.slopes[(size_t)n * m.classes + class_of] * m.pooled[(size_t)n * m.C + c]);
            }
}

/* What the rows of a group add to the embedding of their tokens. */
static __device__ void add_tokens(Accumulators &sums, const Member &m, const Pass &pass, const Part &part,
                                  const Group &group) {
    for (uint32_t n = group.first; n < group.end; n++) {
        const int32_t *tokens = m.splits[0].tokens + (size_t)sequence_at(m, pass, n) * m.T;
        for (uint32_t t = 0; t < m.T; t++) {
            const uint32_t at = (uint32_t)tokens[t] - part.first - first_row();
            if (at >= THREAD_ROWS || part.first_channel + first_column() >= m.Cp) continue;
            const float4 row = *reinterpret_cast<const float4 *>(m.dx + ((size_t)n * m.T + t) * m.Cp +
                                                                 part.first_channel + first_column());
            const float values[THREAD_COLUMNS] = {row.x, row.y, row.z, row.w};
#pragma unroll
            for (uint32_t i = 0; i < THREAD_ROWS; i++)
#pragma unroll
                for (int j = 0; j < THREAD_COLUMNS; j++)
                    if (i == at) sums.at[i][j] = __fmaf_rn(m.embedding_scale, values[j], sums.at[i][j]);
        }
    }
}

/* Grid (parts, chunks, members). */
static __global__ void __launch_bounds__(THREADS) head_part_gradients(const Member *__restrict__ members, Pass pass) {
    __shared__ __align__(16) float across[TILE * LD], right[TILE * LD], slopes[LISTED * LD];
    __shared__ uint32_t listed[LISTED], count;
    __shared__ int32_t labels[LISTED];
    const Member &m = members[blockIdx.z];
    Chunk chunk;
    if ((m.readout != EACH && !m.tied) || !chunk_of(chunk, m, pass, blockIdx.y)) return;
    const uint32_t rows = m.tied ? m.V : m.classes, side = (m.Cp + TILE - 1) / TILE;
    const Part part = {blockIdx.x / side * TILE, rows - blockIdx.x / side * TILE, blockIdx.x % side * TILE};
    if (part.first >= rows) return;
    const Shared shared = {across, right, slopes, listed, &count, labels};
    const uint32_t together = m.T < GROUP_ROWS ? GROUP_ROWS / m.T : 1;
    Accumulators sums;
    BiasSum bias = {0.0F, 0.0F, 0};
    clear(sums);
    for (uint32_t first = chunk.first; first < chunk.end; first += together) {
        const Group group = {first, chunk.end - first < together ? chunk.end : first + together};
        if (m.readout == EACH && part.first < m.classes) add_labelled(sums, bias, shared, m, pass, part, group);
        if (m.readout != EACH) add_sequences(sums, m, part, group);
        if (m.tied) add_tokens(sums, m, pass, part, group);
    }
    put_rows(chunk.gradient + m.head_weight + (size_t)part.first * m.Cp + part.first_channel, m.Cp, sums, part.count,
             m.Cp - part.first_channel);
    const uint32_t padded_classes = (m.classes + 15) / 16 * 16, class_of = part.first + threadIdx.x;
    if (m.readout == EACH && part.first_channel == 0 && threadIdx.x < TILE && class_of < padded_classes)
        chunk.gradient[m.head_bias + class_of] = bias.total;
}

} // namespace sf

using namespace sf;

void sf_cuda_head_part_gradients(const sf_cuda_launch *launch, const sf_cuda_pass *pass) {
    const uint32_t side = (launch->most_channels + TILE - 1) / TILE;
    const uint32_t rows = launch->most_classes > launch->most_tokens ? launch->most_classes : launch->most_tokens;
    launch_kernel(head_part_gradients, dim3((rows + TILE - 1) / TILE * side, SF_CUDA_CHUNKS, launch->members), THREADS,
                  0, launch->stream, launch->fleet, *pass);
}
