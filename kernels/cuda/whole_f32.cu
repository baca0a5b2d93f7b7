/* Whole sequences in f32, with the bits of the CPU. */
#include "kernels/cuda/whole_kernels.cuh"

namespace sf {
namespace whole {

template cudaError_t prepare<SF_F32>();
template void launch_whole<SF_F32>(const sf_cuda_launch *launch, const sf_cuda_pass *pass);
template void launch_arrange<SF_F32>(const sf_cuda_launch *launch);

} // namespace whole
} // namespace sf
