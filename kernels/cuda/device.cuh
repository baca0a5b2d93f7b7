/* How a kernel is launched and reaches the shared memory that its launch asks for. tests/cuda/emulator has its own. */
#ifndef SF_KERNELS_CUDA_DEVICE_CUH
#define SF_KERNELS_CUDA_DEVICE_CUH

#include <cuda_runtime.h>

#define SF_DYNAMIC_SHARED(type, name) extern __shared__ type name[]

namespace sf {

template <typename... Parameters, typename... Arguments>
inline void launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 threads, size_t shared, cudaStream_t stream,
                          Arguments... arguments) {
    kernel<<<grid, threads, shared, stream>>>(arguments...);
}

} // namespace sf

#endif
