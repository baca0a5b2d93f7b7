/* What nvcc gives every .cu file. */
#ifndef EMULATOR_CUDA_RUNTIME_H
#define EMULATOR_CUDA_RUNTIME_H

#include "../emulator.h"
#include "../intrinsics.h"
#include "../tensor.h"
#include "../warp.h"

namespace emulator {
cudaError_t reserve_shared(const void *kernel, cudaFuncAttribute attribute, int value);
}

template <typename Kernel>
inline cudaError_t cudaFuncSetAttribute(Kernel *kernel, cudaFuncAttribute attribute, int value) {
    return emulator::reserve_shared(reinterpret_cast<const void *>(kernel), attribute, value);
}
template <typename T> inline cudaError_t cudaMalloc(T **out, size_t bytes) {
    return cudaMalloc(reinterpret_cast<void **>(out), bytes);
}

#endif
