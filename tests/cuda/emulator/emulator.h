/* CUDA without a GPU, for tests: the kernels of kernels/cuda are compiled as C++ and run on the CPU, with the bits that
 * a GPU gives them in f32. include/ stands in for CUDA's headers, runtime.cpp for its runtime, block.cpp runs the
 * blocks of a grid, as many at a time as SEMFOCUS_EMULATE_THREADS says (default: one per core). The threads of a block
 * take turns on one core: each runs until it has to wait for others.
 *
 * What it finds: threads that wait for each other for ever; warp functions whose threads disagree or read a lane that
 * has exited; launches that a GPU would refuse; copies beyond an allocation; shared and device memory that is read
 * before it is written, since both begin as NaN; and with -fsanitize=address all accesses outside of allocations and of
 * shared memory. Threads run in ascending order from one barrier to the next, or with SEMFOCUS_EMULATE_ORDER=descending
 * in descending order: a barrier that is missing changes the result of one of the two. Races between blocks are not
 * found.
 *
 * What kernels have to do for it:
 *   - include "kernels/cuda/device.cuh", launch with launch_kernel() instead of <<< >>>, and declare dynamic shared
 *     memory with SF_DYNAMIC_SHARED; static shared memory is __shared__ as usual;
 *   - hide what is not C++ (asm) behind functions that have a second body under #ifdef SF_CUDA_EMULATED: tensor.h has
 *     bodies for mma, ldmatrix and cp.async, barrier_sync() below is bar.sync, and meet() is what a new warp-wide
 *     function is made of;
 *   - neither spin until another thread or block writes something, nor synchronize a whole grid: blocks run to their
 *     end one after the other.
 *
 * Failures on purpose, as environment variables: SEMFOCUS_EMULATE_NO_DEVICE (there is no GPU),
 * SEMFOCUS_EMULATE_OLD_DRIVER, SEMFOCUS_EMULATE_MEMORY (bytes of device memory, default 1 GiB),
 * SEMFOCUS_EMULATE_LOST_AFTER (so many kernels run; from then on every call fails), SEMFOCUS_EMULATE_DEVICES (how many
 * GPUs, default 1), SEMFOCUS_EMULATE_PROCESSORS (multiprocessors of each, default 132). */
#ifndef EMULATOR_EMULATOR_H
#define EMULATOR_EMULATOR_H

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <tuple>
#include <type_traits>

#if defined(__SANITIZE_ADDRESS__)
#define EMULATOR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATOR_ASAN 1
#endif
#endif

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __managed__  static
#ifdef EMULATOR_ASAN /* it sees accesses outside of static variables, but not of thread-local ones */
#define __shared__ static
#else
#define __shared__ static __thread
#endif
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__    __attribute__((noinline))
#define __align__(n)    __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __grid_constant__

extern __thread uint3 threadIdx, blockIdx;
extern __thread dim3 blockDim, gridDim;
enum { warpSize = 32 };

namespace emulator {

[[noreturn]] void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The thread's number in its block, its lane, and the memory that the launch asked for. */
extern __thread uint32_t thread_number;
inline uint32_t lane_number() {
    return thread_number % warpSize;
}
void *dynamic_shared();

/* bar.sync, bar.arrive: `threads` take part, 0: all that have not exited. */
void barrier_sync(uint32_t barrier, uint32_t threads);
void barrier_arrive(uint32_t barrier, uint32_t threads);

/* Waits for the lanes of the mask that have not exited. The last of them calls `perform` for all, with what each gave
 * as `own` and the mask of those that came. */
typedef void Perform(void *const *lanes /* [32] */, uint32_t came);
void meet(uint32_t mask, const char *name, Perform *perform, void *own);

/* cp.async and its commit_group, wait_group, wait_all: a copy is made as late as it may be, when the thread waits for
 * it. What lies beyond bytes_of_source becomes 0. */
void copy_async(void *to, const void *from, size_t bytes, size_t bytes_of_source);
void copy_commit();
void copy_wait(size_t groups_left);
void copy_wait_all();

struct Launch {
    const void *kernel;
    dim3 grid, threads;
    size_t shared;
    std::function<void()> run; /* as one thread */
};

/* stream.cpp. */
void launch(Launch launch, cudaStream_t stream);
/* block.cpp: runs all blocks. */
void run_grid(const Launch &launch);

template <typename... Parameters, typename... Arguments>
inline void launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 threads, size_t shared, cudaStream_t stream,
                          Arguments... arguments) {
    const std::tuple<std::decay_t<Parameters>...> values(arguments...);
    launch({reinterpret_cast<const void *>(kernel), grid, threads, shared, [=] { std::apply(kernel, values); }},
           stream);
}

} // namespace emulator

#endif
