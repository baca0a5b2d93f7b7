/* Products on tensor cores, for models of width 64 and less. A warp holds 16 rows of 64 columns in registers, and what
 * one product gives is the left factor of the next without leaving them.
 *
 * Rows: with g = lane / 4 and t = lane % 4, a thread holds rows g and g + 8. Of their columns it holds, for chunks
 * c = 0, 1, ..., those that begin at WIDE * (4 c + t), WIDE of them: 16 bytes as stored. Value v of a row is column
 * v % WIDE of chunk v / WIDE. So global memory is read and written 16 bytes at a time, and the accumulators of a
 * product, whose columns are chosen to lie like this, are the values in order. */
#ifndef SF_KERNELS_CUDA_TENSOR_CUH
#define SF_KERNELS_CUDA_TENSOR_CUH

#include "kernels/cuda/fleet.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/mma.cuh"

namespace sf {

enum {
    SPAN = 64,
    WARP_ROWS = 16,
    VALUES = 16,
    QUAD = 4
}; /* columns of a row, rows of a warp, values of a thread's row */

struct Tf32 {
    using Stored = float; /* rounded already */
    enum { WIDE = 4 };
    __device__ static void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
        mma_tf32(d, a, b);
    }
};

struct Bf16 {
    using Stored = uint16_t;
    enum { WIDE = 8 };
    __device__ static void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
        mma_bf16(d, a, b);
    }
};

template <typename P> constexpr int chunks_of_thread = VALUES / P::WIDE; /* of a row */
template <typename P> constexpr int chunks_of_row = SPAN / P::WIDE;
template <typename P> constexpr int depth_steps = 2 * chunks_of_thread<P>;  /* mma instructions for a depth of 64 */
template <typename P> constexpr int matrix_chunks = SPAN *chunks_of_row<P>; /* of a 64 x 64 matrix */

__device__ inline uint32_t lane_of_thread() {
    return threadIdx.x % 32;
}
__device__ inline uint32_t group_of_lane() {
    return threadIdx.x % 32 / QUAD;
}
__device__ inline uint32_t place_in_group() {
    return threadIdx.x % QUAD;
}

/* The first column of a thread's chunk. */
template <typename P> __device__ inline uint32_t chunk_column(int chunk) {
    return P::WIDE * (4 * chunk + place_in_group());
}

/* N fragments of accumulators, each 16 rows and 8 columns. */
template <int N> struct Sums {
    float d[N][4];
    __device__ float &at(int row, int value) {
        return d[value / 2][2 * row + value % 2];
    }
    __device__ float at(int row, int value) const {
        return d[value / 2][2 * row + value % 2];
    }
};
typedef Sums<8> Rows16; /* 16 rows of 64 columns */

template <int N> __device__ inline void clear(Sums<N> &sums) {
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) sums.d[j][i] = 0.0F;
}

/* The left factor of a product: 16 rows, rounded, N fragments of accumulators deep. */
template <typename P, int N = 8> struct Operand {
    enum { STEPS = N * depth_steps<P> / 8 };
    uint32_t a[STEPS][4];
};

/* In tf32 the bits below those that count are left as they are: mma does not look at them, and what is stored as well
 * (operand_chunk) then has registers of its own, in another order. */
__device__ inline uint32_t near_tf32(float x) {
    const uint32_t bits = __float_as_uint(x);
    return fabsf(x) < __int_as_float(0x7f800000) ? bits + 0x1000U : bits;
}

/* Weights: not negative and, where the rest of the pass is, finite. */
template <int N> __device__ inline void round_weights(Operand<Tf32, N> &out, const Sums<N> &sums) {
#pragma unroll
    for (int s = 0; s < N; s++)
#pragma unroll
        for (int row = 0; row < 2; row++) {
            out.a[s][row] = __float_as_uint(sums.d[s][2 * row]) + 0x1000U;
            out.a[s][2 + row] = __float_as_uint(sums.d[s][2 * row + 1]) + 0x1000U;
        }
}

template <int N> __device__ inline void round_rows(Operand<Tf32, N> &out, const Sums<N> &sums) {
#pragma unroll
    for (int s = 0; s < N; s++)
#pragma unroll
        for (int row = 0; row < 2; row++) {
            out.a[s][row] = near_tf32(sums.d[s][2 * row]);
            out.a[s][2 + row] = near_tf32(sums.d[s][2 * row + 1]);
        }
}

template <int N> __device__ inline void round_rows(Operand<Bf16, N> &out, const Sums<N> &sums) {
#pragma unroll
    for (int s = 0; s < N / 2; s++)
#pragma unroll
        for (int row = 0; row < 2; row++) {
            out.a[s][row] = pack_bf16(sums.d[2 * s][2 * row], sums.d[2 * s][2 * row + 1]);
            out.a[s][2 + row] = pack_bf16(sums.d[2 * s + 1][2 * row], sums.d[2 * s + 1][2 * row + 1]);
        }
}

template <int N> __device__ inline void round_weights(Operand<Bf16, N> &out, const Sums<N> &sums) {
    round_rows(out, sums);
}

/* A chunk of a rounded row, to be stored. */
__device__ inline uint4 operand_chunk(const Operand<Tf32> &from, int row, int chunk) {
    const uint32_t counts = 0xffffe000U;
    return make_uint4(from.a[2 * chunk][row] & counts, from.a[2 * chunk][2 + row] & counts,
                      from.a[2 * chunk + 1][row] & counts, from.a[2 * chunk + 1][2 + row] & counts);
}
__device__ inline uint4 operand_chunk(const Operand<Bf16> &from, int row, int chunk) {
    return make_uint4(from.a[2 * chunk][row], from.a[2 * chunk][2 + row], from.a[2 * chunk + 1][row],
                      from.a[2 * chunk + 1][2 + row]);
}

__device__ inline uint4 rounded_chunk(const float (&x)[4], const Tf32 &) {
    return make_uint4(to_tf32(x[0]), to_tf32(x[1]), to_tf32(x[2]), to_tf32(x[3]));
}
__device__ inline uint4 rounded_chunk(const float (&x)[8], const Bf16 &) {
    return make_uint4(pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]), pack_bf16(x[4], x[5]), pack_bf16(x[6], x[7]));
}

/* sums += a w^T for a matrix w as pack_weights() lays it out, in shared or global memory. Its depths are in the order
 * of a: that of accumulators, if a was rounded, or natural, if a was loaded. */
template <typename P>
__device__ inline void multiply_packed(Rows16 &sums, const Operand<P> &a, const uint4 *packed /* [matrix_chunks] */) {
    const uint4 *from = packed + lane_of_thread();
#pragma unroll
    for (int c = 0; c < chunks_of_thread<P>; c++)
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const uint4 w = from[(c * 8 + j) * 32];
            const uint32_t first[2] = {w.x, w.y}, second[2] = {w.z, w.w};
            P::mma(sums.d[j], a.a[2 * c], first);
            P::mma(sums.d[j], a.a[2 * c + 1], second);
        }
}

/* Column j of the chunk c that a thread holds of a right factor's row. */
template <typename P> __device__ inline uint32_t depth_of(uint32_t c, uint32_t in_quad, uint32_t j, bool natural) {
    if (!natural) return P::WIDE * (4 * c + in_quad) + j;
    return P::WIDE == 4 ? 16 * c + 4 * j + in_quad : 32 * c + 8 * (j / 2) + 2 * in_quad + j % 2;
}

/* The column that column g of fragment j stands for. */
template <typename P> __device__ inline uint32_t column_of_fragment(uint32_t j, uint32_t g) {
    const uint32_t halves = P::WIDE / 2;
    return P::WIDE * (4 * (j / halves) + g / 2) + 2 * (j % halves) + g % 2;
}

/* ---- tiles in shared memory: rows of 64 columns, in chunks of 16 bytes */

/* Chunks change places with the row, so that neither reading rows nor columns has bank conflicts. */
template <typename P, typename Chunk> __device__ inline Chunk *tile_chunk(Chunk *tile, uint32_t row, uint32_t chunk) {
    return tile + row * chunks_of_row<P> + (chunk ^ (row & 7));
}

/* 16 rows of a tile as a left factor. ldmatrix puts a fragment where mma wants it; a fragment put together from longer
 * loads would be moved again and again. */
template <typename P> __device__ inline void load_operand(Operand<P> &out, const uint4 *tile, uint32_t first_row) {
    const uint32_t lane = lane_of_thread();
#pragma unroll
    for (int s = 0; s < depth_steps<P>; s++)
        ldmatrix_x4(out.a[s], tile_chunk<P>(tile, first_row + lane % 16, 2 * s + lane / 16));
}

/* sums += a b^T, where b is 8 N rows of the tile and a comes from load_operand(): fragment j of the sums is rows 8 j ..
 * 8 j + 7, in order. */
template <typename P, int N>
__device__ inline void multiply_rows(Sums<N> &sums, const Operand<P> &a, const uint4 *tile, uint32_t first_row) {
    const uint32_t lane = lane_of_thread();
#pragma unroll
    for (int c = 0; c < chunks_of_thread<P>; c++)
#pragma unroll
        for (int j = 0; j < N; j++) {
            uint32_t w[4];
            ldmatrix_x4(w, tile_chunk<P>(tile, first_row + 8 * j + lane % 8, 4 * c + lane / 8));
            const uint32_t first[2] = {w[0], w[1]}, second[2] = {w[2], w[3]};
            P::mma(sums.d[j], a.a[2 * c], first);
            P::mma(sums.d[j], a.a[2 * c + 1], second);
        }
}

/* The same with a from 16 rows of another tile, a fragment at a time, where registers are short. */
template <typename P, int N>
__device__ inline void multiply_tiles(Sums<N> &sums, const uint4 *left, uint32_t left_row, const uint4 *tile,
                                      uint32_t first_row) {
    const uint32_t lane = lane_of_thread();
#pragma unroll
    for (int c = 0; c < chunks_of_thread<P>; c++) {
        uint32_t a[2][4];
        ldmatrix_x4(a[0], tile_chunk<P>(left, left_row + lane % 16, 4 * c + lane / 16));
        ldmatrix_x4(a[1], tile_chunk<P>(left, left_row + lane % 16, 4 * c + 2 + lane / 16));
#pragma unroll
        for (int j = 0; j < N; j++) {
            uint32_t w[4];
            ldmatrix_x4(w, tile_chunk<P>(tile, first_row + 8 * j + lane % 8, 4 * c + lane / 8));
            const uint32_t first[2] = {w[0], w[1]}, second[2] = {w[2], w[3]};
            P::mma(sums.d[j], a[0], first);
            P::mma(sums.d[j], a[1], second);
        }
    }
}

/* sums += a b, where b is 8 N rows of the tile, in the order of the fragments that a was rounded from. In tf32 the
 * product is computed transposed, so that no fragment has to be assembled from two loads: rows of a fragment are
 * channels and its columns rows of a. scale_columns() and put_columns() know where things lie. */
template <int N>
__device__ inline void multiply_columns(Rows16 &sums, const Operand<Tf32, N> &a, const uint4 *tile,
                                        uint32_t first_row) {
    const uint32_t g = group_of_lane(), t = place_in_group();
#pragma unroll
    for (int s = 0; s < N; s++) {
        const uint32_t row = first_row + 8 * s + 2 * t;
        const uint32_t b[2][2] = {{a.a[s][0], a.a[s][2]}, {a.a[s][1], a.a[s][3]}};
#pragma unroll
        for (int i = 0; i < 4; i++) { /* channels 16 i + 2 g and the next */
            const uint2 even = reinterpret_cast<const uint2 *>(tile_chunk<Tf32>(tile, row, 4 * i + g / 2))[g % 2];
            const uint2 odd = reinterpret_cast<const uint2 *>(tile_chunk<Tf32>(tile, row + 1, 4 * i + g / 2))[g % 2];
            const uint32_t left[4] = {even.x, even.y, odd.x, odd.y};
            mma_tf32(sums.d[2 * i], left, b[0]);
            mma_tf32(sums.d[2 * i + 1], left, b[1]);
        }
    }
}

template <int N>
__device__ inline void multiply_columns(Rows16 &sums, const Operand<Bf16, N> &a, const uint4 *tile,
                                        uint32_t first_row) {
    const uint32_t lane = lane_of_thread();
#pragma unroll
    for (int s = 0; s < N / 2; s++)
#pragma unroll
        for (int n = 0; n < 8; n += 2) {
            uint32_t four[4];
            ldmatrix_x4_trans(four, tile_chunk<Bf16>(tile, first_row + 16 * s + lane % 16, n + lane / 16));
            const uint32_t b[2][2] = {{four[0], four[1]}, {four[2], four[3]}};
            mma_bf16(sums.d[n], a.a[s], b[0]);
            mma_bf16(sums.d[n + 1], a.a[s], b[1]);
        }
}

/* What a number of the thread's rows g and g + 8 is for the columns of a transposed product: of row 8 i + 2 t + b. */
__device__ inline float of_column(const float (&of_rows)[2], int i, int b) {
    return __shfl_sync(0xffffffffU, of_rows[i], (int)(QUAD * (2 * place_in_group() + b)));
}

/* Multiplies what multiply_columns() gives by one number for each row of a. */
__device__ inline void scale_columns(Rows16 &sums, const float (&factors)[2], const Tf32 &) {
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int b = 0; b < 2; b++) {
            const float factor = of_column(factors, i, b);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                sums.d[2 * j + i][b] *= factor;
                sums.d[2 * j + i][2 + b] *= factor;
            }
        }
}
__device__ inline void scale_columns(Rows16 &sums, const float (&factors)[2], const Bf16 &) {
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int v = 0; v < VALUES; v++) sums.at(r, v) *= factors[r];
}

/* Rounds and stores 16 rows, from `first` on, of what multiply_columns() gives; none from `end` on. */
__device__ inline void put_columns(float *to, uint32_t stride, const Rows16 &sums, uint32_t first, uint32_t end,
                                   uint32_t columns) {
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int b = 0; b < 2; b++) {
            const uint32_t row = first + 8 * i + 2 * place_in_group() + b;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const uint32_t c = 16 * j + 2 * group_of_lane();
                if (row < end && c < columns)
                    *reinterpret_cast<uint2 *>(to + (size_t)row * stride + c) =
                        make_uint2(to_tf32(sums.d[2 * j + i][b]), to_tf32(sums.d[2 * j + i][2 + b]));
            }
        }
}
__device__ inline void put_columns(uint16_t *to, uint32_t stride, const Rows16 &sums, uint32_t first, uint32_t end,
                                   uint32_t columns) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const uint32_t row = first + group_of_lane() + 8 * r;
#pragma unroll
        for (int n = 0; n < 8; n++) {
            const uint32_t c = 8 * n + 2 * place_in_group();
            if (row < end && c < columns)
                *reinterpret_cast<uint32_t *>(to + (size_t)row * stride + c) =
                    pack_bf16(sums.d[n][2 * r], sums.d[n][2 * r + 1]);
        }
    }
}

/* Sum over the four threads that share a row. */
__device__ inline float total_of_quad(float value) {
    value += __shfl_xor_sync(0xffffffffU, value, 1);
    return value + __shfl_xor_sync(0xffffffffU, value, 2);
}
__device__ inline float largest_of_quad(float value) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, 1));
    return fmaxf(value, __shfl_xor_sync(0xffffffffU, value, 2));
}

/* ---- dropout */

/* Four draws at once: their rounds go side by side and share the keys. */
__device__ inline void philox_four(uint32_t (&words)[4][4], const Index (&indices)[4], const uint32_t (&draws)[4]) {
    uint32_t k0 = indices[0].seed, k1 = indices[0].stream;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        words[i][0] = draws[i];
        words[i][1] = indices[i].sample;
        words[i][2] = indices[i].step;
        words[i][3] = indices[i].epoch;
    }
#pragma unroll
    for (int round = 0; round < 10; round++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t(&x)[4] = words[i];
            const uint64_t first = (uint64_t)0xD2511F53U * x[0], second = (uint64_t)0xCD9E8D57U * x[2];
            x[0] = (uint32_t)(second >> 32) ^ x[1] ^ k0;
            x[2] = (uint32_t)(first >> 32) ^ x[3] ^ k1;
            x[1] = (uint32_t)second;
            x[3] = (uint32_t)first;
        }
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
}

/* What dropout keeps of 64 columns of two rows: bit l of byte 2 r + b is column 8 l + 2 t + b of row r. A thread's own
 * word; the four of a quad cover everything. `draws`: the rows' first. */
__device__ inline uint32_t kept_word(const Index (&indices)[2], const uint32_t (&draws)[2], uint32_t in_quad,
                                     uint32_t threshold) {
    const Index four[4] = {indices[0], indices[0], indices[1], indices[1]};
    const uint32_t first = 2 * in_quad;
    const uint32_t own[4] = {draws[0] + first, draws[0] + first + 1, draws[1] + first, draws[1] + first + 1};
    uint32_t words[4][4], kept = 0;
    philox_four(words, four, own);
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int l = 0; l < 8; l++)
            if ((l % 2 == 0 ? words[i][l / 2] << 16 : words[i][l / 2]) >= threshold << 16) kept |= 1U << (8 * i + l);
    return kept;
}

/* The same for the values of a thread's rows. */
template <typename P> struct KeptValues {
    uint32_t words[P::WIDE / 2];
    float scale; /* of what is kept */
    __device__ bool keeps(int row, int value) const {
        const int chunk = value / P::WIDE, i = value % P::WIDE;
        return words[i / 2] >> (8 * (2 * row + i % 2) + chunk * (P::WIDE / 2)) & 1;
    }
};

template <typename P> __device__ inline KeptValues<P> share_kept(uint32_t own_word, float scale) {
    KeptValues<P> kept;
    const uint32_t t = place_in_group(), source = lane_of_thread() - t + (P::WIDE == 4 ? 2 * (t & 1) : 0);
#pragma unroll
    for (int k = 0; k < P::WIDE / 2; k++)
        kept.words[k] = __shfl_sync(0xffffffffU, own_word, (int)(source + k)) >> (P::WIDE == 4 ? t >> 1 : t);
    kept.scale = scale;
    return kept;
}

} // namespace sf

#endif
