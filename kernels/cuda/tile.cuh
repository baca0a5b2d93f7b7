/* Products of 64 x 64 tiles: 256 threads, each with 4 rows and 4 columns of accumulators. Both factors lie in shared
 * memory with the depth as their outer dimension, so every sum takes its terms in ascending depth. */
#ifndef SF_KERNELS_CUDA_TILE_CUH
#define SF_KERNELS_CUDA_TILE_CUH

#include <cstddef>
#include <cstdint>

namespace sf {

enum { TILE = 64, LD = TILE + 4, THREADS = 256, THREAD_ROWS = TILE * TILE / THREADS / 4, THREAD_COLUMNS = 4 };

struct Accumulators {
    float at[THREAD_ROWS][THREAD_COLUMNS];
};

__device__ inline uint32_t first_row() {
    return threadIdx.x / 16 * THREAD_ROWS;
}
__device__ inline uint32_t first_column() {
    return threadIdx.x % 16 * THREAD_COLUMNS;
}

__device__ inline void clear(Accumulators &sums) {
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++)
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j++) sums.at[i][j] = 0.0F;
}

/* sums += left^T right over `depth` rows of both. */
__device__ inline void multiply(Accumulators &sums, const float *left /* [depth,LD] */,
                                const float *right /* [depth,LD] */, uint32_t depth) {
    const float *a = left + first_row(), *b = right + first_column();
#pragma unroll 4
    for (uint32_t k = 0; k < depth; k++) {
        float rows[THREAD_ROWS];
#pragma unroll
        for (int i = 0; i < THREAD_ROWS; i += 4) {
            const float4 four = *reinterpret_cast<const float4 *>(a + k * LD + i);
            rows[i] = four.x;
            rows[i + 1] = four.y;
            rows[i + 2] = four.z;
            rows[i + 3] = four.w;
        }
        const float4 right4 = *reinterpret_cast<const float4 *>(b + k * LD);
        const float columns[THREAD_COLUMNS] = {right4.x, right4.y, right4.z, right4.w};
#pragma unroll
        for (int i = 0; i < THREAD_ROWS; i++)
#pragma unroll
            for (int j = 0; j < THREAD_COLUMNS; j++) sums.at[i][j] = __fmaf_rn(rows[i], columns[j], sums.at[i][j]);
    }
}

/* to[r][c] = from[r * row + c], 0 outside of rows x columns. Rows begin at multiples of 16 bytes, and there are four
 * columns, eight, ... */
__device__ inline void stage(float *to /* [TILE,LD] */, const float *from, size_t row, uint32_t rows,
                             uint32_t columns) {
    const uint32_t c = threadIdx.x % 16 * 4;
#pragma unroll
    for (uint32_t i = 0; i < TILE; i += THREADS / 16) {
        const uint32_t r = i + threadIdx.x / 16;
        *reinterpret_cast<float4 *>(to + r * LD + c) =
            r < rows && c < columns ? *reinterpret_cast<const float4 *>(from + r * row + c) : make_float4(0, 0, 0, 0);
    }
}

/* to[c][r] = scale * from[c], 0 from `columns` on: of the thread's own row r = threadIdx.x % TILE. */
__device__ inline void stage_row_across(float *to /* [TILE,LD] */, const float *from, bool real, uint32_t columns,
                                        float scale) {
    float *at = to + threadIdx.x % TILE;
#pragma unroll
    for (uint32_t i = 0; i < TILE; i += 4 * THREADS / TILE) {
        const uint32_t c = i + threadIdx.x / TILE * 4;
        const float4 four = real && c < columns ? *reinterpret_cast<const float4 *>(from + c) : make_float4(0, 0, 0, 0);
        at[c * LD] = scale * four.x;
        at[(c + 1) * LD] = scale * four.y;
        at[(c + 2) * LD] = scale * four.z;
        at[(c + 3) * LD] = scale * four.w;
    }
}

/* to[c][r] = scale * from[r * row + c], 0 outside. */
__device__ inline void stage_across(float *to /* [TILE,LD] */, const float *from, size_t row, uint32_t rows,
                                    uint32_t columns, float scale) {
    const uint32_t r = threadIdx.x % TILE;
    stage_row_across(to, from + r * row, r < rows, columns, scale);
}

/* The accumulators' rows, four columns at a time, to global memory. */
__device__ inline void put_rows(float *to, size_t row, const Accumulators &sums, uint32_t rows, uint32_t columns) {
    if (first_column() >= columns) return;
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++)
        if (first_row() + i < rows)
            *reinterpret_cast<float4 *>(to + (first_row() + i) * row + first_column()) =
                make_float4(sums.at[i][0], sums.at[i][1], sums.at[i][2], sums.at[i][3]);
}

__device__ inline void get_rows(Accumulators &sums, const float *from, size_t row, uint32_t rows, uint32_t columns) {
    if (first_column() >= columns) return;
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++)
        if (first_row() + i < rows) {
            const float4 four = *reinterpret_cast<const float4 *>(from + (first_row() + i) * row + first_column());
            sums.at[i][0] = four.x;
            sums.at[i][1] = four.y;
            sums.at[i][2] = four.z;
            sums.at[i][3] = four.w;
        }
}

/* Accumulators to or from a tile whose outer dimension is the columns. */
__device__ inline void put_across(float *to /* [TILE,LD] */, const Accumulators &sums) {
#pragma unroll
    for (int j = 0; j < THREAD_COLUMNS; j++) {
        float *at = to + (first_column() + j) * LD + first_row();
#pragma unroll
        for (int i = 0; i < THREAD_ROWS; i += 4)
            *reinterpret_cast<float4 *>(at + i) =
                make_float4(sums.at[i][j], sums.at[i + 1][j], sums.at[i + 2][j], sums.at[i + 3][j]);
    }
}

__device__ inline void put(float *to /* [TILE,LD] */, const Accumulators &sums) {
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i++)
        *reinterpret_cast<float4 *>(to + (first_row() + i) * LD + first_column()) =
            make_float4(sums.at[i][0], sums.at[i][1], sums.at[i][2], sums.at[i][3]);
}

} // namespace sf

#endif
