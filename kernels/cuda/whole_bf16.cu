/* Whole sequences in bf16: products of linear layers on tensor cores. */
#include "kernels/cuda/whole_kernels.cuh"

namespace sf {
namespace whole {

template cudaError_t prepare<SF_BF16>();
template void launch_whole<SF_BF16>(const sf_cuda_launch *launch, const sf_cuda_pass *pass);
template void launch_arrange<SF_BF16>(const sf_cuda_launch *launch);

} // namespace whole
} // namespace sf
