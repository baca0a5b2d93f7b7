/* Launches of the kernels on tensor cores, for fleets whose models have width and MLP width 64 or less. launch.h
 * decides when they are used. */
#ifndef SF_KERNELS_CUDA_TENSOR_LAUNCH_H
#define SF_KERNELS_CUDA_TENSOR_LAUNCH_H

#include "kernels/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t sf_cuda_prepare_tensor_rows(const sf_cuda_launch *launch);
cudaError_t sf_cuda_prepare_tensor_dense(void);
cudaError_t sf_cuda_prepare_tensor_kept(void);
cudaError_t sf_cuda_prepare_tensor_gradients(void);

/* Before a forward pass: the weights, rounded and in the order that products read them. */
void sf_cuda_pack_weights(const sf_cuda_launch *launch, const sf_cuda_pass *pass);
void sf_cuda_tensor_rows_forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block);
void sf_cuda_tensor_rows_backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block);
void sf_cuda_tensor_dense_forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block);
void sf_cuda_tensor_dense_backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block);
void sf_cuda_tensor_kept_forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block);
void sf_cuda_tensor_kept_backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block);
void sf_cuda_tensor_gradients(const sf_cuda_launch *launch, const sf_cuda_pass *pass);

#ifdef __cplusplus
}
#endif

#endif
