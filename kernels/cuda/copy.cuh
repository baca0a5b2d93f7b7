/* Copies from global to shared memory that go on while the threads compute. */
#ifndef SF_KERNELS_CUDA_COPY_CUH
#define SF_KERNELS_CUDA_COPY_CUH

#include "kernels/cuda/device.cuh"

namespace sf {

/* 16 bytes; both addresses are multiples of 16. */
__device__ inline void copy_async(float *to, const float *from) {
#ifdef SF_CUDA_EMULATED
    emulator::copy_async(to, from, 16, 16);
#else
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
#endif
}

/* Waits until the thread's copies are done; a barrier shows them to the other threads. */
__device__ inline void wait_for_copies() {
#ifdef SF_CUDA_EMULATED
    emulator::copy_wait_all();
#else
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/* The 128 bytes at an address will be read soon. */
__device__ inline void expect(const float *at) {
#ifdef SF_CUDA_EMULATED
    (void)at;
#else
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
#endif
}

} // namespace sf

#endif
