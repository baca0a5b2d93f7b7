/* Gradients of the parameters, chunk by chunk of the batch: every sum goes over the rows of its chunk in order. */
#include "kernels/cuda/chunk.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tensor_launch.h"
#include "kernels/cuda/tile.cuh"

namespace sf {

/* A linear layer's part in its weight's gradient. */
struct Layer {
    const float *dy, *x;
    size_t dy_row, x_row;
    uint32_t outputs, inputs; /* of the weight: rows and stride */
    uint32_t width, padded;   /* outputs come in groups */
    bool activated;           /* x is to be activated first */
    uint32_t weight, bias;    /* offsets */
};

static __device__ Layer layer_of(const Member &m, uint32_t block, int which /* 0..5 */) {
    const Trace &t = m.traces[block];
    Layer l;
    l.weight = m.block_params[2 * which] + block * m.block_size;
    l.bias = m.block_params[2 * which + 1] + block * m.block_size;
    l.width = m.C;
    l.padded = m.Cp;
    l.outputs = m.C;
    l.activated = false;
    l.dy_row = m.Cp;
    if (which < 3) {
        l.dy = t.dqkv + which * m.HDp;
        l.dy_row = 3 * m.HDp;
        l.x = m.pre_norm ? t.normed1 : t.input;
        l.width = m.D;
        l.padded = m.Dp;
        l.outputs = m.H * m.D;
        l.inputs = m.Cp;
    } else if (which == 3) {
        l.dy = t.dattention;
        l.x = t.context;
        l.inputs = m.HDp;
    } else if (which == 4) {
        l.dy = t.dhidden;
        l.dy_row = m.Fp;
        l.x = m.pre_norm ? t.normed2 : t.normed1;
        l.outputs = l.width = m.F;
        l.padded = m.Fp;
        l.inputs = m.Cp;
    } else {
        l.dy = t.dmlp;
        l.x = t.hidden;
        l.inputs = m.Fp;
        l.activated = true;
    }
    l.x_row = l.inputs;
    return l;
}

enum { ROWS_AT_ONCE = 32 };

/* Both: rows outermost, four columns per thread at a time. */
static __device__ void stage_outputs(float *to, const Layer &l, uint32_t row, uint32_t rows, uint32_t first) {
    const uint32_t c = threadIdx.x % 16 * 4, output = first + c;
#pragma unroll
    for (uint32_t i = 0; i < ROWS_AT_ONCE; i += THREADS / 16) {
        const uint32_t r = i + threadIdx.x / 16;
        const float *from = l.dy + (size_t)(row + r) * l.dy_row;
        float4 four = make_float4(0, 0, 0, 0);
        if (r < rows && l.width == l.padded) {
            if (output < l.outputs) four = *reinterpret_cast<const float4 *>(from + output);
        } else if (r < rows) {
            float *const at[] = {&four.x, &four.y, &four.z, &four.w};
#pragma unroll
            for (uint32_t j = 0; j < 4; j++)
                if (output + j < l.outputs) *at[j] = from[(output + j) / l.width * l.padded + (output + j) % l.width];
        }
        *reinterpret_cast<float4 *>(to + r * LD + c) = four;
    }
}

static __device__ void stage_inputs(float *to, const Layer &l, uint32_t row, uint32_t rows, uint32_t first,
                                    int activation) {
    const uint32_t c = threadIdx.x % 16 * 4;
#pragma unroll
    for (uint32_t i = 0; i < ROWS_AT_ONCE; i += THREADS / 16) {
        const uint32_t r = i + threadIdx.x / 16;
        float4 four = make_float4(0, 0, 0, 0);
        if (r < rows && first + c < l.inputs) {
            four = *reinterpret_cast<const float4 *>(l.x + (size_t)(row + r) * l.x_row + first + c);
            if (l.activated)
                four = make_float4(activate(four.x, activation), activate(four.y, activation),
                                   activate(four.z, activation), activate(four.w, activation));
        }
        *reinterpret_cast<float4 *>(to + r * LD + c) = four;
    }
}

/* A tile of one weight's gradient over one chunk: grid (tiles, chunks * blocks * 6, members). */
static __global__ void __launch_bounds__(THREADS) weight_gradients(const Member *__restrict__ members, Pass pass) {
    __shared__ __align__(16) float left[ROWS_AT_ONCE * LD], right[ROWS_AT_ONCE * LD];
    const Member &m = members[blockIdx.z];
    const uint32_t which = blockIdx.y % 6, c = blockIdx.y / 6 % MOST_CHUNKS, block = blockIdx.y / 6 / MOST_CHUNKS;
    Chunk chunk;
    if (block >= m.L || !chunk_of(chunk, m, pass, c)) return;
    const Layer l = layer_of(m, block, (int)which);
    const uint32_t across = (l.inputs + TILE - 1) / TILE;
    const uint32_t first_output = blockIdx.x / across * TILE, first_input = blockIdx.x % across * TILE;
    if (first_output >= l.outputs) return;
    const uint32_t end = chunk.end * m.T;
    Accumulators sums;
    clear(sums);
    for (uint32_t row = chunk.first * m.T; row < end; row += ROWS_AT_ONCE) {
        const uint32_t depth = end - row < ROWS_AT_ONCE ? end - row : ROWS_AT_ONCE;
        __syncthreads();
        stage_outputs(left, l, row, depth, first_output);
        stage_inputs(right, l, row, depth, first_input, (int)m.activation);
        __syncthreads();
        multiply(sums, left, right, depth);
    }
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++)
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j++) {
            const uint32_t output = first_output + first_row() + i, input = first_input + first_column() + j;
            if (output < l.outputs && input < l.inputs)
                chunk.gradient[l.weight + (size_t)output * l.inputs + input] = sums.at[i][j];
        }
}

/* Biases: sums over up to 128 rows at a time, which are then added. Grid as above, one thread per padded output. */
static __global__ void bias_gradients(const Member *__restrict__ members, Pass pass) {
    const Member &m = members[blockIdx.z];
    const uint32_t which = blockIdx.y % 6, c = blockIdx.y / 6 % MOST_CHUNKS, block = blockIdx.y / 6 / MOST_CHUNKS;
    Chunk chunk;
    if (block >= m.L || !chunk_of(chunk, m, pass, c)) return;
    const Layer l = layer_of(m, block, (int)which);
    const uint32_t outputs = which < 3 ? m.HDp : l.padded, n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= outputs) return;
    const uint32_t group = m.T < GROUP_ROWS ? GROUP_ROWS / m.T : 1;
    float total = 0.0F;
    for (uint32_t first = chunk.first; first < chunk.end; first += group) {
        const uint32_t end = (chunk.end - first < group ? chunk.end : first + group) * m.T;
        for (uint32_t row = first * m.T; row < end; row += GROUP_ROWS) {
            const uint32_t rows = end - row < GROUP_ROWS ? end - row : GROUP_ROWS;
            float sum = 0.0F;
            for (uint32_t r = 0; r < rows; r++) sum += l.dy[(size_t)(row + r) * l.dy_row + n];
            total = first == chunk.first && row == first * m.T ? sum : total + sum;
        }
    }
    chunk.gradient[l.bias + n] = total;
}

/* ---- embedding and head */

enum { END_THREADS = 256, END_WARPS = END_THREADS / 32, ENTRIES = 8, END_ROWS = 128, END_COLUMNS = 32 };

/* Rows of dx on their way to shared memory, and their tokens. */
struct EndRows {
    float4 four[END_ROWS * END_COLUMNS / 4 / END_THREADS];
    int32_t token; /* of row threadIdx.x */
};

static __device__ EndRows fetch_rows(const Member &m, const Pass &pass, uint32_t first, uint32_t end,
                                     uint32_t first_column) {
    EndRows rows;
    const uint32_t column = first_column + threadIdx.x % (END_COLUMNS / 4) * 4, at = first + threadIdx.x;
#pragma unroll
    for (uint32_t i = 0; i < sizeof rows.four / sizeof *rows.four; i++) {
        const uint32_t row = first + (i * END_THREADS + threadIdx.x) / (END_COLUMNS / 4);
        rows.four[i] = row < end && column < m.Cp
                           ? *reinterpret_cast<const float4 *>(m.dx + (size_t)row * m.Cp + column)
                           : make_float4(0, 0, 0, 0);
    }
    rows.token = threadIdx.x < END_ROWS && at < end
                     ? m.splits[0].tokens[(size_t)sequence_at(m, pass, at / m.T) * m.T + at % m.T]
                     : -1;
    return rows;
}

/* Adds the rows of a tile whose token is `entry`, in order. One warp, one column per lane. */
static __device__ float add_rows(float sum, const float (*rows)[END_COLUMNS], const int32_t *tokens, int32_t entry,
                                 float scale) {
    const uint32_t lane = threadIdx.x % 32;
#pragma unroll
    for (uint32_t from = 0; from < END_ROWS; from += 32) {
        uint32_t here = __ballot_sync(0xffffffffU, tokens[from + lane] == entry);
        while (here != 0) {
            float values[4];
            const uint32_t count = __popc(here);
#pragma unroll
            for (int i = 0; i < 4; i++) { /* several loads under way */
                values[i] = here != 0 ? rows[from + __ffs((int)here) - 1][lane] : 0.0F;
                here &= here - 1;
            }
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                if (i < count) sum = __fmaf_rn(scale, values[i], sum);
        }
    }
    return sum;
}

/* The embedding table: every entry takes the rows of its token one by one. Grid (column groups, chunks, members). */
static __global__ void __launch_bounds__(END_THREADS)
    embedding_gradients(const Member *__restrict__ members, Pass pass) {
    __shared__ __align__(16) float rows[END_ROWS][END_COLUMNS];
    __shared__ int32_t tokens[END_ROWS];
    const Member &m = members[blockIdx.z];
    const uint32_t first_column = blockIdx.x * END_COLUMNS, column = first_column + threadIdx.x % 32;
    Chunk chunk;
    if (first_column >= m.Cp || !chunk_of(chunk, m, pass, blockIdx.y)) return;
    float *table = chunk.gradient + m.embedding;
    const uint32_t end = chunk.end * m.T;
    for (uint32_t group = 0; group < m.V; group += END_WARPS * ENTRIES) {
        const uint32_t entry = group + threadIdx.x / 32; /* and every END_WARPS-th */
        float sums[ENTRIES] = {};
        EndRows next = fetch_rows(m, pass, chunk.first * m.T, end, first_column);
        for (uint32_t row = chunk.first * m.T; row < end; row += END_ROWS) {
            __syncthreads();
#pragma unroll
            for (uint32_t i = 0; i < sizeof next.four / sizeof *next.four; i++)
                reinterpret_cast<float4 *>(rows)[i * END_THREADS + threadIdx.x] = next.four[i];
            if (threadIdx.x < END_ROWS) tokens[threadIdx.x] = next.token;
            __syncthreads();
            if (row + END_ROWS < end) next = fetch_rows(m, pass, row + END_ROWS, end, first_column);
#pragma unroll
            for (int k = 0; k < ENTRIES; k++)
                if (entry + k * END_WARPS < m.V)
                    sums[k] = add_rows(sums[k], rows, tokens, (int32_t)(entry + k * END_WARPS), m.embedding_scale);
        }
#pragma unroll
        for (int k = 0; k < ENTRIES; k++)
            if (entry + k * END_WARPS < m.V && column < m.Cp)
                table[(size_t)(entry + k * END_WARPS) * m.Cp + column] = sums[k];
    }
}

/* The head, which sequences add to one by one. Grid (chunks, members). */
static __global__ void __launch_bounds__(END_THREADS) head_gradients(const Member *__restrict__ members, Pass pass) {
    const Member &m = members[blockIdx.y];
    Chunk chunk;
    if (!chunk_of(chunk, m, pass, blockIdx.x)) return;
    float *dweight = chunk.gradient + m.head_weight, *dbias = chunk.gradient + m.head_bias;
    for (uint32_t k = threadIdx.x; k < m.classes * m.Cp; k += END_THREADS) {
        const uint32_t i = k / m.Cp, c = k % m.Cp;
        float sum = 0.0F;
        for (uint32_t n = chunk.first; n < chunk.end && c < m.C; n++)
            sum += (float)(m.slopes[(size_t)n * m.classes + i] * m.pooled[(size_t)n * m.C + c]);
        dweight[k] = sum;
    }
    const uint32_t padded_classes = (m.classes + 15) / 16 * 16;
    for (uint32_t i = threadIdx.x; i < padded_classes; i += END_THREADS) {
        float sum = 0.0F;
        for (uint32_t n = chunk.first; n < chunk.end && i < m.classes; n++)
            sum += (float)m.slopes[(size_t)n * m.classes + i];
        dbias[i] = sum;
    }
}

} // namespace sf

using namespace sf;

static void linear_gradients(const sf_cuda_launch *launch, const sf_cuda_pass *pass) {
    const uint32_t side = (launch->most_width + TILE - 1) / TILE;
    const dim3 grid(side * side, launch->most_blocks * MOST_CHUNKS * 6, launch->members);
    launch_kernel(weight_gradients, grid, THREADS, 0, launch->stream, launch->fleet, *pass);
    const dim3 biases((launch->most_width + 63) / 64, launch->most_blocks * MOST_CHUNKS * 6, launch->members);
    launch_kernel(bias_gradients, biases, 64, 0, launch->stream, launch->fleet, *pass);
}

void sf_cuda_gradients(const sf_cuda_launch *launch, const sf_cuda_pass *pass) {
    if (launch->on_tensor_cores)
        sf_cuda_tensor_gradients(launch, pass);
    else
        linear_gradients(launch, pass);
    const dim3 columns((launch->most_width + END_COLUMNS - 1) / END_COLUMNS, MOST_CHUNKS, launch->members);
    launch_kernel(embedding_gradients, columns, END_THREADS, 0, launch->stream, launch->fleet, *pass);
    launch_kernel(head_gradients, dim3(MOST_CHUNKS, launch->members), END_THREADS, 0, launch->stream, launch->fleet,
                  *pass);
    if (launch->each || launch->tied) sf_cuda_head_part_gradients(launch, pass); /* it overwrites theirs */
}
