/* The emulator's kernels/cuda/device.cuh. */
#ifndef SF_KERNELS_CUDA_DEVICE_CUH
#define SF_KERNELS_CUDA_DEVICE_CUH

#include <cuda_runtime.h>

#define SF_DYNAMIC_SHARED(type, name) type *const name = static_cast<type *>(emulator::dynamic_shared())

namespace sf {

using emulator::launch_kernel;

} // namespace sf

#endif
