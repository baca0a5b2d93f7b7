/* Tensor cores, asynchronous copies and the roundings they need. All functions named after an instruction are called by
 * whole warps.
 *
 * Fragments, as the PTX manual lays them out. With g = lane / 4 and t = lane % 4:
 *
 *   d [16,8], f32:   d[0], d[1]: row g, columns 2 t and 2 t + 1;  d[2], d[3]: row g + 8, the same columns
 *   a [16,8], tf32:  a[0]: row g, depth t;  a[1]: row g + 8, depth t;  a[2]: row g, depth t + 4;  a[3]: row g + 8,
 *                    depth t + 4
 *   b [8,8], tf32:   b[0]: depth t, column g;  b[1]: depth t + 4, column g
 *   a [16,16], bf16: a[0]: row g, depths 2 t and 2 t + 1 (the lower half of the register is the lower depth);
 *                    a[1]: row g + 8, the same depths;  a[2], a[3]: the same rows, depths 2 t + 8 and 2 t + 9
 *   b [16,8], bf16:  b[0]: depths 2 t and 2 t + 1, column g;  b[1]: depths 2 t + 8 and 2 t + 9
 *
 * The order of the depths does not matter as long as a and b agree, nor does that of the columns: kernels choose what a
 * "depth" or a "column" stands for so that every thread loads 16 bytes at a time. */
#ifndef SF_KERNELS_CUDA_MMA_CUH
#define SF_KERNELS_CUDA_MMA_CUH

#include <cstdint>

#include "kernels/cuda/device.cuh"

namespace sf {

#ifdef SF_CUDA_EMULATED

__device__ inline void mma_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    emulator::mma_tf32_16x8x8(d, a, b);
}
__device__ inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    emulator::mma_bf16_16x8x16(d, a, b);
}
__device__ inline uint32_t to_tf32(float x) {
    return emulator::to_tf32(x);
}
__device__ inline uint32_t rounded_to_bf16(float x) { /* to the nearest, ties to even; NaN stays NaN */
    const uint32_t bits = __float_as_uint(x);
    return isnan(x) ? 0x7fffU : (bits + 0x7fffU + (bits >> 16 & 1)) >> 16;
}
__device__ inline uint32_t pack_bf16(float low, float high) {
    return rounded_to_bf16(high) << 16 | rounded_to_bf16(low);
}
__device__ inline void ldmatrix_x4(uint32_t (&to)[4], const void *row) {
    emulator::ldmatrix<4>(to, row);
}
__device__ inline void ldmatrix_x4_trans(uint32_t (&to)[4], const void *row) {
    emulator::ldmatrix<4, true>(to, row);
}
__device__ inline void copy_async(void *to, const void *from, bool real) {
    emulator::copy_async(to, from, 16, real ? 16 : 0);
}
__device__ inline void copy_commit() {
    emulator::copy_commit();
}
template <int GROUPS_LEFT> __device__ inline void copy_wait() {
    emulator::copy_wait(GROUPS_LEFT);
}
__device__ inline float exp2_of(float x) {
    return exp2f(x);
}
__device__ inline float log2_of(float x) {
    return log2f(x);
}

#else

/* d += a b, m16n8k8. */
__device__ inline void mma_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* d += a b, m16n8k16. */
__device__ inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* To the nearest, ties away from zero. */
__device__ inline uint32_t to_tf32(float x) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

/* Two floats, each to the nearest bf16, ties to even. */
__device__ inline uint32_t pack_bf16(float low, float high) {
    uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

/* Four matrices of 8 x 8 numbers of 16 bits; lanes 8 m .. 8 m + 7 give the addresses of the rows of matrix m, which
 * are multiples of 16 bytes in shared memory. to[m]: row g, columns 2 t and 2 t + 1 of matrix m. */
__device__ inline void ldmatrix_x4(uint32_t (&to)[4], const void *row) {
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
}

/* The same of the transposed matrices: to[m]: rows 2 t and 2 t + 1, column g. */
__device__ inline void ldmatrix_x4_trans(uint32_t (&to)[4], const void *row) {
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
}

/* 16 bytes from global to shared memory, or 16 zeros where they are not real; `from` is not read then, but must be an
 * address. */
__device__ inline void copy_async(void *to, const void *from, bool real) {
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(real ? 16 : 0) : "memory");
}

/* The thread's copies since the last commit become a group; later it waits until few groups are under way. */
__device__ inline void copy_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int GROUPS_LEFT> __device__ inline void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS_LEFT) : "memory");
}

/* 2^x, to within two units in the last place; below 2^-126 it is 0. */
__device__ inline float exp2_of(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
/* The logarithm to base 2, to within 2^-22. */
__device__ inline float log2_of(float x) {
    float result;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

#endif

} // namespace sf

#endif
