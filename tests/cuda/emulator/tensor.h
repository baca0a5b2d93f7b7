/* Emulated bodies for what kernels/cuda writes in PTX: products of a warp's fragments, ldmatrix, cp.async, rounding to
 * tf32. Fragments are laid out as the PTX manual says; sums take their terms in ascending depth, each fused, in float,
 * which no tensor core promises: only tests with exact sums may ask for the same bits from both. */
#ifndef EMULATOR_TENSOR_H
#define EMULATOR_TENSOR_H

#include "intrinsics.h"
#include "warp.h"

namespace emulator {

enum { MMA_ROWS = 16, MMA_COLUMNS = 8 };

struct Product { /* one lane's fragments */
    float *d;    /* [4] */
    const uint32_t *a, *b;
};

inline void need_whole_warp(uint32_t came, const char *name) {
    if (came != 0xffffffffU) die("%s: lanes %#010x have exited", name, ~came);
}

inline float of_tf32(uint32_t bits) {
    return __uint_as_float(bits & 0xffffe000U);
}
inline float of_bf16(uint32_t bits) {
    return __uint_as_float(bits << 16);
}

/* d += a b, with a [16,DEPTH] and b [DEPTH,8]. */
template <int DEPTH>
inline void multiply_fragments(void *const *lanes, const float (&a)[MMA_ROWS][DEPTH],
                               const float (&b)[DEPTH][MMA_COLUMNS]) {
    for (int lane = 0; lane < warpSize; lane++) {
        float *const d = static_cast<Product *>(lanes[lane])->d;
        for (int i = 0; i < 4; i++) {
            const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            for (int k = 0; k < DEPTH; k++) d[i] = __fmaf_rn(a[row][k], b[k][column], d[i]);
        }
    }
}

inline void multiply_tf32(void *const *lanes, uint32_t came) {
    need_whole_warp(came, "mma");
    float a[MMA_ROWS][8], b[8][MMA_COLUMNS];
    for (int lane = 0; lane < warpSize; lane++) {
        const Product &own = *static_cast<Product *>(lanes[lane]);
        const int group = lane / 4, inside = lane % 4;
        for (int i = 0; i < 4; i++) a[group + i % 2 * 8][inside + i / 2 * 4] = of_tf32(own.a[i]);
        for (int i = 0; i < 2; i++) b[inside + i * 4][group] = of_tf32(own.b[i]);
    }
    multiply_fragments(lanes, a, b);
}

inline void multiply_bf16(void *const *lanes, uint32_t came) {
    need_whole_warp(came, "mma");
    float a[MMA_ROWS][16], b[16][MMA_COLUMNS];
    for (int lane = 0; lane < warpSize; lane++) {
        const Product &own = *static_cast<Product *>(lanes[lane]);
        const int group = lane / 4, inside = lane % 4;
        for (int i = 0; i < 4; i++)
            for (int half = 0; half < 2; half++)
                a[group + i % 2 * 8][inside * 2 + half + i / 2 * 8] = of_bf16(own.a[i] >> 16 * half & 0xffffU);
        for (int i = 0; i < 2; i++)
            for (int half = 0; half < 2; half++)
                b[inside * 2 + half + i * 8][group] = of_bf16(own.b[i] >> 16 * half & 0xffffU);
    }
    multiply_fragments(lanes, a, b);
}

/* mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32: d += a b. Of the operands' bits the upper 19 count. */
inline void mma_tf32_16x8x8(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    Product own = {d, a, b};
    meet(0xffffffffU, "mma.m16n8k8.tf32", multiply_tf32, &own);
}

/* mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32: d += a b, two operands in each register, the lower first. */
inline void mma_bf16_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    Product own = {d, a, b};
    meet(0xffffffffU, "mma.m16n8k16.bf16", multiply_bf16, &own);
}

/* cvt.rna.tf32.f32: to the nearest, ties away from zero. */
inline uint32_t to_tf32(float x) {
    const uint32_t bits = __float_as_uint(x);
    return (bits & 0x7f800000U) == 0x7f800000U ? bits : (bits + 0x1000U) & 0xffffe000U;
}

struct Loaded {
    uint32_t *to;     /* [COUNT] */
    const void *from; /* a row of 8 x 16 bits */
};

template <int COUNT, bool TRANSPOSED> inline void load_matrices(void *const *lanes, uint32_t came) {
    need_whole_warp(came, "ldmatrix");
    for (int m = 0; m < COUNT; m++) {
        uint16_t matrix[8][8];
        for (int row = 0; row < 8; row++)
            memcpy(matrix[row], static_cast<Loaded *>(lanes[m * 8 + row])->from, sizeof matrix[row]);
        for (int lane = 0; lane < warpSize; lane++) {
            const int outer = lane / 4, inner = lane % 4 * 2;
            const uint32_t low = TRANSPOSED ? matrix[inner][outer] : matrix[outer][inner];
            const uint32_t high = TRANSPOSED ? matrix[inner + 1][outer] : matrix[outer][inner + 1];
            static_cast<Loaded *>(lanes[lane])->to[m] = high << 16 | low;
        }
    }
}

/* ldmatrix.sync.aligned.m8n8.x1/.x2/.x4[.trans].shared.b16: lanes 8 m .. 8 m + 7 give the rows of matrix m. */
template <int COUNT, bool TRANSPOSED = false> inline void ldmatrix(uint32_t (&to)[COUNT], const void *row) {
    static_assert(COUNT == 1 || COUNT == 2 || COUNT == 4, "as many as the instruction has");
    if (lane_number() < 8 * COUNT && (uintptr_t)row % 16 != 0) die("ldmatrix: a row is not aligned to 16 bytes");
    Loaded own = {to, row};
    meet(0xffffffffU, "ldmatrix", load_matrices<COUNT, TRANSPOSED>, &own);
}

} // namespace emulator

#endif
