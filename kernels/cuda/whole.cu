/* Which kernels for whole sequences serve a precision. */
#include "kernels/cuda/whole_launch.cuh"

using namespace sf;

cudaError_t sf_cuda_prepare_whole(void) {
    cudaError_t error = whole::prepare<SF_F32>();
    if (error == cudaSuccess) error = whole::prepare<SF_TF32>();
    if (error == cudaSuccess) error = whole::prepare<SF_BF16>();
    return error;
}

void sf_cuda_whole(const sf_cuda_launch *launch, const sf_cuda_pass *pass) {
    if (launch->precision == SF_F32) whole::launch_whole<SF_F32>(launch, pass);
    if (launch->precision == SF_TF32) whole::launch_whole<SF_TF32>(launch, pass);
    if (launch->precision == SF_BF16) whole::launch_whole<SF_BF16>(launch, pass);
}

void sf_cuda_arrange(const sf_cuda_launch *launch) {
    if (launch->precision == SF_F32) whole::launch_arrange<SF_F32>(launch);
    if (launch->precision == SF_TF32) whole::launch_arrange<SF_TF32>(launch);
    if (launch->precision == SF_BF16) whole::launch_arrange<SF_BF16>(launch);
}

int sf_cuda_whole_class(uint32_t T) {
    return whole::class_of(T);
}
