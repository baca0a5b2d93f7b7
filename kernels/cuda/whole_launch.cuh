/* Launches of the kernels for whole sequences, by precision. */
#ifndef SF_KERNELS_CUDA_WHOLE_LAUNCH_CUH
#define SF_KERNELS_CUDA_WHOLE_LAUNCH_CUH

#include "kernels/cuda/launch.h"

namespace sf {
namespace whole {

/* Positions of a sequence, by eights, at most: kernels have them as a constant, and each class a launch of its own. */
static __host__ __device__ inline int class_of(uint32_t T) {
    return T <= 40 ? 5 : 8;
}

template <sf_precision P> cudaError_t prepare();
template <sf_precision P> void launch_whole(const sf_cuda_launch *launch, const sf_cuda_pass *pass);
template <sf_precision P> void launch_arrange(const sf_cuda_launch *launch);

} // namespace whole
} // namespace sf

#endif
