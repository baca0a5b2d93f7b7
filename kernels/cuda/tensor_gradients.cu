/* Gradients of weights and biases on tensor cores, chunk by chunk of the batch: a block of threads sums dy^T x over the
 * rows of one chunk for one matrix. While one stage of rows is multiplied, the next is on its way into registers. */
#include "kernels/cuda/chunk.cuh"
#include "kernels/cuda/tensor.cuh"
#include "kernels/cuda/tensor_launch.h"

namespace sf {

enum { GRADIENT_THREADS = 256, STAGE_ROWS = 64, HALF_SPAN = SPAN / 2 };

enum Source { ROUNDED, AS_IS, NORMALIZED, ACTIVATED }; /* what x needs to become a factor: nothing, rounding, ... */

struct Product { /* of one matrix: dW = dy^T x, db = the sum of dy */
    const float *dy, *x;
    uint32_t dy_first, dy_stride, dy_columns; /* in numbers as they are stored */
    uint32_t x_first, x_stride, x_columns;
    Source source;
    const float *mean, *rstd; /* NORMALIZED */
    float *weight, *bias;     /* of the chunk's gradient; bias may be NULL */
    uint32_t weight_stride, outputs, inputs;
};

static __device__ Product product_of(const Member &m, const Chunk &chunk, uint32_t block, uint32_t which) {
    const Trace &t = m.traces[block];
    float *const gradient = chunk.gradient + (size_t)block * m.block_size;
    const uint32_t head = which % m.H;
    Product p = {};
    p.outputs = m.C;
    p.inputs = p.weight_stride = p.x_stride = p.x_columns = p.dy_stride = p.dy_columns = m.Cp;
    p.source = AS_IS;
    int param = WO;
    if (which < 3 * m.H) {
        param = WQ + 2 * (int)(which / m.H);
        p.dy = t.dqkv;
        p.dy_first = which / m.H * m.HDp + head * m.Cp;
        p.dy_stride = 3 * m.HDp;
        p.x = t.input;
        p.source = m.pre_norm ? NORMALIZED : AS_IS;
        p.mean = t.mean1;
        p.rstd = t.rstd1;
        p.weight = gradient + m.block_params[param] + (size_t)head * m.C * m.Cp;
        p.bias = gradient + m.block_params[param + 1] + head * m.Cp;
    } else if (which < 4 * m.H) {
        p.dy = t.dattention;
        p.x = t.context;
        p.x_first = head * m.Cp;
        p.x_stride = p.weight_stride = m.HDp;
        p.source = ROUNDED;
        p.weight = gradient + m.block_params[WO] + head * m.Cp;
        p.bias = head == 0 ? gradient + m.block_params[BO] : nullptr;
    } else if (which == 4 * m.H) {
        p.dy = t.dhidden;
        p.dy_stride = p.dy_columns = m.Fp;
        p.x = m.pre_norm ? t.normed2 : t.normed1;
        p.outputs = m.F;
        p.weight = gradient + m.block_params[W1];
        p.bias = gradient + m.block_params[B1];
    } else {
        p.dy = t.dmlp;
        p.x = t.hidden;
        p.source = ACTIVATED;
        p.inputs = p.weight_stride = p.x_stride = p.x_columns = m.Fp;
        p.weight = gradient + m.block_params[W2];
        p.bias = gradient + m.block_params[B2];
    }
    return p;
}

/* ---- a stage in registers: some chunks of 16 bytes for each thread, always of the same columns */

template <typename P> constexpr int chunks_of_stage = STAGE_ROWS *chunks_of_row<P> / GRADIENT_THREADS;
template <typename P> constexpr int rows_of_round = GRADIENT_THREADS / chunks_of_row<P>;

template <typename P> struct Stage {
    uint4 dy[chunks_of_stage<P>];
    float x[chunks_of_stage<P>][P::WIDE]; /* or, if it is rounded already, a chunk in the first places */
};

template <typename P> __device__ static uint32_t own_chunk() {
    return threadIdx.x % chunks_of_row<P>;
}
template <typename P> __device__ static uint32_t own_row(int i) {
    return i * rows_of_round<P> + threadIdx.x / chunks_of_row<P>;
}

static __device__ uint4 chunk_at(const void *at, bool real) {
    return real ? __ldcg(static_cast<const uint4 *>(at)) : make_uint4(0, 0, 0, 0);
}

/* Rows from `first` on; those from `end` on are zeros. */
template <typename P, Source SOURCE>
static __device__ void fetch(Stage<P> &stage, const Product &p, uint32_t first, uint32_t end) {
    using Stored = typename P::Stored;
    const uint32_t column = own_chunk<P>() * P::WIDE;
    const size_t row = first + own_row<P>(0);
    const Stored *const dy = reinterpret_cast<const Stored *>(p.dy) + p.dy_first + row * p.dy_stride + column;
    const Stored *const x = reinterpret_cast<const Stored *>(p.x) + p.x_first + row * p.x_stride + column;
    const float *const floats = p.x + row * p.x_stride + column;
#pragma unroll
    for (int i = 0; i < chunks_of_stage<P>; i++) {
        const bool real = first + own_row<P>(i) < end;
        const uint32_t down = i * rows_of_round<P>;
        stage.dy[i] = chunk_at(dy + (size_t)down * p.dy_stride, real && column < p.dy_columns);
#pragma unroll
        for (int j = 0; j < (SOURCE == ROUNDED ? 4 : (int)P::WIDE); j += 4) {
            const uint4 four = SOURCE == ROUNDED
                                   ? chunk_at(x + (size_t)down * p.x_stride, real && column < p.x_columns)
                                   : chunk_at(floats + (size_t)down * p.x_stride + j, real && column + j < p.x_columns);
            stage.x[i][j] = __uint_as_float(four.x);
            stage.x[i][j + 1] = __uint_as_float(four.y);
            stage.x[i][j + 2] = __uint_as_float(four.z);
            stage.x[i][j + 3] = __uint_as_float(four.w);
        }
    }
}

template <typename P, Source SOURCE>
static __device__ uint4 finished(float (&x)[P::WIDE], const Product &p, float mean, float rstd, uint32_t activation) {
    if (SOURCE == ROUNDED)
        return make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3]));
    if (SOURCE == NORMALIZED) {
        const uint32_t column = own_chunk<P>() * P::WIDE;
#pragma unroll
        for (int j = 0; j < P::WIDE; j++) x[j] = column + j < p.outputs ? (x[j] - mean) * rstd : 0.0F;
    }
    if (SOURCE == ACTIVATED) {
        if (activation == 0) {
#pragma unroll
            for (int j = 0; j < P::WIDE; j++) x[j] = activate(x[j], 0);
        } else {
#pragma unroll
            for (int j = 0; j < P::WIDE; j++) x[j] = activate(x[j], (int)activation);
        }
    }
    return rounded_chunk(x, P());
}

static __device__ void add_chunk(float (&sums)[4], const uint4 &dy) {
    sums[0] += __uint_as_float(dy.x);
    sums[1] += __uint_as_float(dy.y);
    sums[2] += __uint_as_float(dy.z);
    sums[3] += __uint_as_float(dy.w);
}
static __device__ void add_chunk(float (&sums)[8], const uint4 &dy) {
    const uint32_t pairs[4] = {dy.x, dy.y, dy.z, dy.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        sums[2 * i] += __uint_as_float(pairs[i] << 16);
        sums[2 * i + 1] += __uint_as_float(pairs[i] & 0xffff0000U);
    }
}

/* Registers to shared memory; what passes is added for the bias. */
template <typename P, Source SOURCE>
static __device__ void put(uint4 *dy_tile, uint4 *x_tile, float (&bias)[P::WIDE], Stage<P> &stage, const Product &p,
                           uint32_t first, uint32_t end, uint32_t activation) {
#pragma unroll
    for (int i = 0; i < chunks_of_stage<P>; i++) {
        const uint32_t row = own_row<P>(i);
        const bool normalizes = SOURCE == NORMALIZED && first + row < end;
        const float mean = normalizes ? p.mean[first + row] : 0.0F, rstd = normalizes ? p.rstd[first + row] : 0.0F;
        add_chunk(bias, stage.dy[i]);
        *tile_chunk<P>(dy_tile, row, own_chunk<P>()) = stage.dy[i];
        *tile_chunk<P>(x_tile, row, own_chunk<P>()) = finished<P, SOURCE>(stage.x[i], p, mean, rstd, activation);
    }
}

/* ---- a quarter of the matrix, 32 x 32, for each of four warps, over half the rows of a stage */

struct Quarter {
    float d[2][4][4]; /* fragments of 16 outputs and 8 inputs */
};

static __device__ void multiply_quarter(Quarter &sums, const uint4 *dy, const uint4 *x, uint32_t first_row,
                                        uint32_t output_half, uint32_t input_half, const Tf32 &) {
    const uint32_t g = group_of_lane(), t = place_in_group();
#pragma unroll
    for (int s = 0; s < STAGE_ROWS / 2 / 8; s++) {
        const uint32_t row = first_row + 8 * s + 2 * t;
        const uint4 even = *tile_chunk<Tf32>(x, row, 8 * input_half + g);
        const uint4 odd = *tile_chunk<Tf32>(x, row + 1, 8 * input_half + g);
        const uint32_t b[4][2] = {{even.x, odd.x}, {even.y, odd.y}, {even.z, odd.z}, {even.w, odd.w}};
#pragma unroll
        for (int i = 0; i < 2; i++) { /* outputs 16 i + 2 g and the next */
            const uint32_t chunk = 8 * output_half + 4 * i + g / 2;
            const uint2 upper = reinterpret_cast<const uint2 *>(tile_chunk<Tf32>(dy, row, chunk))[g % 2];
            const uint2 lower = reinterpret_cast<const uint2 *>(tile_chunk<Tf32>(dy, row + 1, chunk))[g % 2];
            const uint32_t a[4] = {upper.x, upper.y, lower.x, lower.y};
#pragma unroll
            for (int j = 0; j < 4; j++) mma_tf32(sums.d[i][j], a, b[j]);
        }
    }
}

static __device__ void multiply_quarter(Quarter &sums, const uint4 *dy, const uint4 *x, uint32_t first_row,
                                        uint32_t output_half, uint32_t input_half, const Bf16 &) {
    const uint32_t lane = lane_of_thread();
#pragma unroll
    for (int s = 0; s < STAGE_ROWS / 2 / 16; s++) {
        const uint32_t row = first_row + 16 * s;
        uint32_t a[2][4], b[2][4];
#pragma unroll
        for (int i = 0; i < 2; i++) /* rows 0-7 for outputs 0-7 and 8-15, then rows 8-15 */
            ldmatrix_x4_trans(
                a[i], tile_chunk<Bf16>(dy, row + lane / 16 * 8 + lane % 8, 4 * output_half + 2 * i + lane / 8 % 2));
#pragma unroll
        for (int j = 0; j < 2; j++)
            ldmatrix_x4_trans(b[j], tile_chunk<Bf16>(x, row + lane % 16, 4 * input_half + 2 * j + lane / 16));
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const uint32_t pair[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
                mma_bf16(sums.d[i][j], a[i], pair);
            }
    }
}

/* Which output and input, of 32, element e of fragment (i,j) is. */
static __device__ uint2 place_of(int i, int j, int e, const Tf32 &) {
    return make_uint2(16 * i + 2 * group_of_lane() + e / 2, 8 * place_in_group() + 4 * (e % 2) + j);
}
static __device__ uint2 place_of(int i, int j, int e, const Bf16 &) {
    return make_uint2(16 * i + group_of_lane() + e / 2 * 8, 8 * j + 2 * place_in_group() + e % 2);
}

/* Adds the second half's sums to the first's and stores them. */
template <typename P>
static __device__ void put_weight(const Product &p, Quarter &sums, float *scratch /* [SPAN][SPAN] */,
                                  uint32_t output_half, uint32_t input_half, bool second) {
#pragma unroll
    for (int turn = 0; turn < 2; turn++) {
        if (second == (turn == 0))
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        const uint2 at = place_of(i, j, e, P());
                        const uint32_t output = HALF_SPAN * output_half + at.x, input = HALF_SPAN * input_half + at.y;
                        float &word = scratch[output * SPAN + input];
                        word = turn == 0 ? sums.d[i][j][e] : sums.d[i][j][e] + word;
                    }
        __syncthreads();
    }
    for (uint32_t i = threadIdx.x; i < SPAN * SPAN / 4; i += GRADIENT_THREADS) {
        const uint32_t output = i / (SPAN / 4), input = i % (SPAN / 4) * 4;
        if (output < p.outputs && input < p.inputs)
            *reinterpret_cast<float4 *>(p.weight + (size_t)output * p.weight_stride + input) =
                *reinterpret_cast<const float4 *>(scratch + output * SPAN + input);
    }
}

template <typename P>
static __device__ void put_bias(const Product &p, const float (&sums)[P::WIDE], float *scratch /* [SPAN][SPAN] */) {
    const uint32_t row = threadIdx.x / chunks_of_row<P>;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < P::WIDE; j++) scratch[row * SPAN + own_chunk<P>() * P::WIDE + j] = sums[j];
    __syncthreads();
    if (p.bias == nullptr || threadIdx.x >= p.dy_columns) return;
    float total = 0.0F;
    for (int r = 0; r < rows_of_round<P>; r++) total += scratch[r * SPAN + threadIdx.x];
    p.bias[threadIdx.x] = total;
}

/* All rows of the chunk. */
template <typename P, Source SOURCE>
static __device__ void multiply_all(Quarter &sums, float (&bias)[P::WIDE], uint4 *shared, const Product &p,
                                    uint32_t first, uint32_t end, uint32_t activation) {
    const uint32_t warp = threadIdx.x / 32, tile = STAGE_ROWS * chunks_of_row<P>;
    Stage<P> stage;
    fetch<P, SOURCE>(stage, p, first, end);
    for (uint32_t row = first, turn = 0; row < end; row += STAGE_ROWS, turn ^= 1) {
        uint4 *const dy = shared + 2 * turn * tile, *const x = dy + tile;
        put<P, SOURCE>(dy, x, bias, stage, p, row, end, activation);
        __syncthreads();
        if (row + STAGE_ROWS < end) fetch<P, SOURCE>(stage, p, row + STAGE_ROWS, end);
        multiply_quarter(sums, dy, x, (warp >> 2) * STAGE_ROWS / 2, warp & 1, warp >> 1 & 1, P());
    }
}

/* Grid (matrices, chunks * blocks, members). */
template <typename P>
static __global__ void __launch_bounds__(GRADIENT_THREADS, 2)
    tensor_weight_gradients(const Member *__restrict__ members, Pass pass) {
    SF_DYNAMIC_SHARED(uint4, shared); /* [2][2][STAGE_ROWS,chunks]: dy and x, twice */
    const Member &m = members[blockIdx.z];
    const uint32_t which = blockIdx.x, c = blockIdx.y % MOST_CHUNKS, block = blockIdx.y / MOST_CHUNKS;
    Chunk chunk;
    if (block >= m.L || which >= 4 * m.H + 2 || !chunk_of(chunk, m, pass, c)) return;
    const Product p = product_of(m, chunk, block, which);
    const uint32_t first = chunk.first * m.T, end = chunk.end * m.T, warp = threadIdx.x / 32;
    Quarter sums = {};
    float bias[P::WIDE] = {};
    if (p.source == ROUNDED)
        multiply_all<P, ROUNDED>(sums, bias, shared, p, first, end, 0);
    else if (p.source == AS_IS)
        multiply_all<P, AS_IS>(sums, bias, shared, p, first, end, 0);
    else if (p.source == NORMALIZED)
        multiply_all<P, NORMALIZED>(sums, bias, shared, p, first, end, 0);
    else
        multiply_all<P, ACTIVATED>(sums, bias, shared, p, first, end, m.activation);
    __syncthreads();
    float *const scratch = reinterpret_cast<float *>(shared);
    put_weight<P>(p, sums, scratch, warp & 1, warp >> 1 & 1, warp >> 2 == 1);
    put_bias<P>(p, bias, scratch);
}

template <typename P> static size_t shared_of_gradients() {
    return 4 * STAGE_ROWS * chunks_of_row<P> * sizeof(uint4);
}

} // namespace sf

using namespace sf;

cudaError_t sf_cuda_prepare_tensor_gradients(void) {
    const cudaError_t error = cudaFuncSetAttribute(
        tensor_weight_gradients<Tf32>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_of_gradients<Tf32>());
    if (error != cudaSuccess) return error;
    return cudaFuncSetAttribute(tensor_weight_gradients<Bf16>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)shared_of_gradients<Bf16>());
}

void sf_cuda_tensor_gradients(const sf_cuda_launch *launch, const sf_cuda_pass *pass) {
    const dim3 grid(4 * launch->most_heads + 2, launch->most_blocks * MOST_CHUNKS, launch->members);
    if (launch->precision == SF_TF32)
        launch_kernel(tensor_weight_gradients<Tf32>, grid, GRADIENT_THREADS, shared_of_gradients<Tf32>(),
                      launch->stream, launch->fleet, *pass);
    else
        launch_kernel(tensor_weight_gradients<Bf16>, grid, GRADIENT_THREADS, shared_of_gradients<Bf16>(),
                      launch->stream, launch->fleet, *pass);
}
