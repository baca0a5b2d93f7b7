/* Tiles that flow through linear layers: sums over their rows, products with weights, gradients of weights, dropout. */
#ifndef SF_KERNELS_CUDA_WHOLE_TILE_CUH
#define SF_KERNELS_CUDA_WHOLE_TILE_CUH

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/whole.cuh"

namespace sf {
namespace whole {

/* ---- memory */

/* Products round what they take as it is stored; q, k and v are not rounded. */
template <sf_precision P, bool FACTORS = true>
__device__ inline void put_rows(float *to, uint32_t stride, const Tile<P> &tile) {
    constexpr sf_precision STORED = FACTORS ? P : SF_F32;
#pragma unroll
    for (int i = 0; i < Tile<P>::R; i++)
#pragma unroll
        for (int j = 0; j < Tile<P>::C; j++) {
            float *const at = to + row_of<P>(i) * stride + column_of<P>(j);
            if (P == SF_F32)
                *at = tile.at[i][j];
            else if (j % 2 == 0)
                *reinterpret_cast<float2 *>(at) =
                    make_float2(factor<STORED>(tile.at[i][j]), factor<STORED>(tile.at[i][j + 1]));
        }
}

/* A tile's rows to a buffer, or to a trace. */
template <sf_precision P> __device__ inline void put_tile(float *to /* [ROWS,LD] */, const Tile<P> &tile) {
    put_rows(to, LD, tile);
}
template <sf_precision P> __device__ inline void save_tile(float *to /* [ROWS,WIDTH] */, const Tile<P> &tile) {
    put_rows(to, WIDTH, tile);
}

/* What a product with the weight of q, k or v gave. */
template <sf_precision P> __device__ inline void put_projected(float *to, uint32_t stride, const Tile<P> &tile) {
    put_rows<P, false>(to, stride, tile);
}
template <> __device__ inline void put_projected(float *to, uint32_t stride, const Tile<SF_F32> &tile) {
#pragma unroll
    for (int i = 0; i < R; i++) put_side_by_side(to, row_of<SF_F32>(i) * stride, tile.at[i]);
}

/* As the threads hold it: only they read it back. */
template <sf_precision P> __device__ inline float *stowed(float *to /* [ROWS,WIDTH] */, int element) {
    return to + (element / 4 * THREADS + threadIdx.x) * 4 + element % 4;
}

template <sf_precision P> __device__ inline void stow(float *to /* [ROWS,WIDTH] */, const Tile<P> &tile) {
    constexpr int C = Tile<P>::C;
#pragma unroll
    for (int e = 0; e < Tile<P>::R * C; e += 4)
        put_four(stowed<P>(to, e), tile.at[e / C][e % C], tile.at[e / C][e % C + 1], tile.at[e / C][e % C + 2],
                 tile.at[e / C][e % C + 3]);
}

template <sf_precision P> __device__ inline void unstow(Tile<P> &tile, float *from /* [ROWS,WIDTH] */) {
    constexpr int C = Tile<P>::C;
#pragma unroll
    for (int e = 0; e < Tile<P>::R * C; e += 4) {
        const float4 four = four_at(stowed<P>(from, e));
        tile.at[e / C][e % C] = four.x;
        tile.at[e / C][e % C + 1] = four.y;
        tile.at[e / C][e % C + 2] = four.z;
        tile.at[e / C][e % C + 3] = four.w;
    }
}

template <sf_precision P> __device__ inline void clear_tile(Tile<P> &tile) {
#pragma unroll
    for (int i = 0; i < Tile<P>::R; i++)
#pragma unroll
        for (int j = 0; j < Tile<P>::C; j++) tile.at[i][j] = 0.0F;
}

/* ---- sums over a row */

/* The thread that has a row's first column. */
template <sf_precision P> __device__ inline uint32_t first_of_row() {
    return P == SF_F32 ? lane() & 17 : lane() & ~3U;
}

template <sf_precision P> __device__ inline unsigned threads_of_row() {
    return P == SF_F32 ? partners<EIGHT_OF_THEM>() : 0xfU << first_of_row<P>();
}

template <sf_precision P> __device__ inline float total_of_row(float even, float odd) {
    if (P == SF_F32) return total_of_eight(even, odd);
    float sum = even + odd;
    sum = sum + __shfl_xor_sync(0xffffffffU, sum, 1);
    return sum + __shfl_xor_sync(0xffffffffU, sum, 2);
}

template <sf_precision P, int C> __device__ inline float sum_of_row(const float (&x)[C]) {
    float lanes[2] = {0.0F, 0.0F};
#pragma unroll
    for (int j = 0; j < C; j++) lanes[j % 2] += x[j];
    return total_of_row<P>(lanes[0], lanes[1]);
}

template <sf_precision P, int C> __device__ inline float dot_of_row(const float (&x)[C], const float (&y)[C]) {
    float lanes[2] = {0.0F, 0.0F};
#pragma unroll
    for (int j = 0; j < C; j++) lanes[j % 2] = __fmaf_rn(x[j], y[j], lanes[j % 2]);
    return total_of_row<P>(lanes[0], lanes[1]);
}

/* A row of a buffer, as the threads hold rows. */
template <sf_precision P, int C> __device__ inline void read_row(float (&to)[C], const float *buffer, int i) {
#pragma unroll
    for (int j = 0; j < C; j++) {
        const float *const at = buffer + row_of<P>(i) * LD + column_of<P>(j);
        if (P == SF_F32) {
            to[j] = *at;
        } else if (j % 2 == 0) {
            const float2 two = *reinterpret_cast<const float2 *>(at);
            to[j] = two.x;
            to[j + 1] = two.y;
        }
    }
}

/* ---- dropout: a thread's elements of a row are one draw, or two */

/* Bit C * i + j: whether element i, j of the thread's tile is kept. */
template <sf_precision P> __device__ inline uint32_t draw_tile(const Work &w, uint32_t purpose, uint32_t layer) {
    uint32_t kept = 0;
    if (w.threshold == 0) return ~0U;
#pragma unroll 2 /* draws side by side */
    for (int i = 0; i < Tile<P>::R; i++) {
        const uint32_t row = row_of<P>(i), s = row / w.T, t = row % w.T;
        const Index index = index_of(*w.m, w.pass, purpose, layer, 0, w.first + s);
        if constexpr (P == SF_F32) {
            kept |= eight_kept(index, t, place(), w.threshold) << Tile<P>::C * i;
        } else {
            const uint32_t even = eight_kept(index, t, lane() % 4 * 2, w.threshold);
            const uint32_t odd = eight_kept(index, t, lane() % 4 * 2 + 1, w.threshold);
#pragma unroll
            for (int j = 0; j < EIGHT; j++) kept |= ((even >> j & 1) | (odd >> j & 1) << 1) << (Tile<P>::C * i + 2 * j);
        }
    }
    return kept;
}

/* What dropout multiplies an element with. */
template <sf_precision P> __device__ inline float factor_of(const Work &w, uint32_t kept, int i, int j) {
    return kept >> (Tile<P>::C * i + j) & 1 ? w.keep_scale : 0.0F;
}

/* ---- products with a weight, which arrange() in whole_kernels.cuh laid out for them */

/* Products begin with the bias, which lies behind the weight in the order of its columns. */
template <sf_precision P> __device__ inline void begin_with_bias(Tile<P> &sums, const float *weight) {
#pragma unroll
    for (int jj = 0; jj < EIGHT; jj++) {
        const float2 two = *reinterpret_cast<const float2 *>(weight + MATRIX + column_of<P>(2 * jj));
#pragma unroll
        for (int i = 0; i < Tile<P>::R; i++) sums.at[i][2 * jj] = two.x, sums.at[i][2 * jj + 1] = two.y;
    }
}
template <> __device__ inline void begin_with_bias(Tile<SF_F32> &sums, const float *weight) {
    float columns[EIGHT];
    load_eight(columns, weight + MATRIX + 4 * place());
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < EIGHT; j++) sums.at[i][j] = columns[j];
}

/* Accumulators of a tensor core in the tile: columns 8 n .. 8 n + 7. */
template <sf_precision P>
__device__ inline void add_mma(Tile<P> &sums, int n, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    float d[4] = {sums.at[0][2 * n], sums.at[0][2 * n + 1], sums.at[1][2 * n], sums.at[1][2 * n + 1]};
    const uint32_t b[2] = {b0, b1};
    if (P == SF_TF32)
        mma_tf32(d, a, b);
    else
        mma_bf16(d, a, b);
    sums.at[0][2 * n] = d[0], sums.at[0][2 * n + 1] = d[1], sums.at[1][2 * n] = d[2], sums.at[1][2 * n + 1] = d[3];
}

/* The warp's 16 rows and the depths from k on. */
template <sf_precision P> __device__ inline void load_left(uint32_t (&a)[4], const float *buffer, int k) {
    const float *const rows = buffer + threadIdx.x / 32 * 16 * LD + k;
    if constexpr (P == SF_TF32) {
        ldmatrix_x4(a, rows + (lane() / 8 % 2 * 8 + lane() % 8) * LD + lane() / 16 * 4);
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *const at = rows + (lane() / 4 + i % 2 * 8) * LD + lane() % 4 * 2 + i / 2 * 8;
            const float2 two = *reinterpret_cast<const float2 *>(at);
            a[i] = pack_bf16(two.x, two.y);
        }
    }
}

/* How many depths a product on tensor cores takes at a time. */
template <sf_precision P> constexpr int DEPTH = P == SF_TF32 ? 8 : 16;

/* sums += rows of `buffer` times a weight. */
template <sf_precision P>
__device__ inline void multiply_weight(Tile<P> &sums, const float *buffer, const float *weight) {
#pragma unroll
    for (int k = 0; k < WIDTH; k += DEPTH<P>) {
        uint32_t a[4];
        load_left<P>(a, buffer, k);
#pragma unroll
        for (int n = 0; n < EIGHT; n += 2) {
            const uint4 b = *reinterpret_cast<const uint4 *>(weight + ((k / DEPTH<P> * 4 + n / 2) * 32 + lane()) * 4);
            add_mma(sums, n, a, b.x, b.y);
            add_mma(sums, n + 1, a, b.z, b.w);
        }
    }
}
template <> __device__ inline void multiply_weight(Tile<SF_F32> &sums, const float *buffer, const float *weight) {
    multiply<WIDTH>(sums, buffer + group() * LD, GROUPS * LD, weight + 4 * place(), WIDTH, WIDTH);
}

/* ---- gradients of weights: dy^T x, over the rows of the chunk in order */

struct WeightGradient { /* where it goes */
    float *weight, *bias;
    bool begins; /* else it is added to what is there */
};

struct FourByFour { /* a thread's part in f32: four outputs and four inputs */
    float at[4][4], biases[4];
};

/* Adds N rows, one after the other. */
template <int N, bool BIASES> __device__ inline void add_rows(FourByFour &sums, const float *left, const float *right) {
#pragma unroll
    for (int row = 0; row < N; row++) {
        const float4 outputs = four_at(left + row * LD), inputs = four_at(right + row * LD);
        const float columns[4] = {inputs.x, inputs.y, inputs.z, inputs.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            add_products(sums.at[i], component(outputs, i), columns);
            if (BIASES) sums.biases[i] += component(outputs, i);
        }
    }
}

template <bool BIASES>
__device__ inline void add_all_rows(FourByFour &sums, const float *left, const float *right, uint32_t rows) {
    uint32_t row = 0;
#pragma unroll 1
    for (; row + EIGHT <= rows; row += EIGHT) add_rows<EIGHT, BIASES>(sums, left + row * LD, right + row * LD);
#pragma unroll 1
    for (; row < rows; row++) add_rows<1, BIASES>(sums, left + row * LD, right + row * LD);
}

/* One factor of a product on tensor cores whose depth is the rows: eight columns from `columns` on, rows from k on. The
 * second half of the depths is `half` registers later. */
template <sf_precision P>
__device__ inline uint32_t load_across(const float *columns, uint32_t k, uint32_t rows, int half) {
    const float *const at = columns + lane() / 4;
    if constexpr (P == SF_TF32) {
        const uint32_t row = k + lane() % 4 + half * 4;
        return row < rows ? __float_as_uint(at[row * LD]) : 0;
    } else {
        const uint32_t row = k + lane() % 4 * 2 + half * 8;
        return pack_bf16(row < rows ? at[row * LD] : 0.0F, row + 1 < rows ? at[(row + 1) * LD] : 0.0F);
    }
}

/* Four threads sum every fourth row of a column each. */
__device__ inline void add_bias_gradient(const WeightGradient &to, const float *dy, uint32_t rows) {
    const uint32_t column = threadIdx.x / 4;
    float sum = 0.0F;
    for (uint32_t row = threadIdx.x % 4; row < rows; row += 4) sum += dy[row * LD + column];
    sum = sum + __shfl_xor_sync(0xffffffffU, sum, 1);
    sum = sum + __shfl_xor_sync(0xffffffffU, sum, 2);
    if (threadIdx.x % 4 == 0) to.bias[column] = to.begins ? sum : to.bias[column] + sum;
}

/* A warp has 16 outputs and 32 inputs. */
template <sf_precision P>
__device__ inline void add_weight_gradient(const WeightGradient &to, const float *dy, const float *x, uint32_t rows) {
    const uint32_t warp = threadIdx.x / 32, output = warp % 4 * 16, input = warp / 4 * 32;
    const uint32_t g = lane() / 4, t = lane() % 4;
    float sums[4][4];
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float *const at = to.weight + (output + g + 8 * half) * WIDTH + input + 8 * n + 2 * t;
            const float2 before = to.begins ? make_float2(0.0F, 0.0F) : *reinterpret_cast<const float2 *>(at);
            sums[n][2 * half] = before.x, sums[n][2 * half + 1] = before.y;
        }
#pragma unroll 2
    for (uint32_t k = 0; k < rows; k += DEPTH<P>) {
        uint32_t a[4];
#pragma unroll
        for (int i = 0; i < 4; i++) a[i] = load_across<P>(dy + output + i % 2 * 8, k, rows, i / 2);
#pragma unroll
        for (int n = 0; n < 4; n++) {
            const uint32_t b[2] = {load_across<P>(x + input + 8 * n, k, rows, 0),
                                   load_across<P>(x + input + 8 * n, k, rows, 1)};
            if (P == SF_TF32)
                mma_tf32(sums[n], a, b);
            else
                mma_bf16(sums[n], a, b);
        }
    }
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float *const at = to.weight + (output + g + 8 * half) * WIDTH + input + 8 * n + 2 * t;
            *reinterpret_cast<float2 *>(at) = make_float2(sums[n][2 * half], sums[n][2 * half + 1]);
        }
    add_bias_gradient(to, dy, rows);
}

template <>
__device__ inline void add_weight_gradient<SF_F32>(const WeightGradient &to, const float *dy, const float *x,
                                                   uint32_t rows) {
    const uint32_t output = group() % 16 * 4, input = (group() / 16 * EIGHT + place()) * 4;
    FourByFour sums = {};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (to.begins) continue;
        const float4 before = four_at(to.weight + (output + i) * WIDTH + input);
        sums.at[i][0] = before.x, sums.at[i][1] = before.y, sums.at[i][2] = before.z, sums.at[i][3] = before.w;
    }
    if (threadIdx.x < THREADS / 2) /* half of the warps have the first inputs and sum the bias, too */
        add_all_rows<true>(sums, dy + output, x + input, rows);
    else
        add_all_rows<false>(sums, dy + output, x + input, rows);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        put_four(to.weight + (output + i) * WIDTH + input, sums.at[i][0], sums.at[i][1], sums.at[i][2], sums.at[i][3]);
        if (input == 0) to.bias[output + i] = to.begins ? sums.biases[i] : to.bias[output + i] + sums.biases[i];
    }
}

} // namespace whole
} // namespace sf

#endif
