/* Evaluators of the CUDA backend; train/backend.h says what they do. */
#ifndef SF_TRAIN_CUDA_EVALUATOR_H
#define SF_TRAIN_CUDA_EVALUATOR_H

#include "kernels/cuda/cuda.h"
#include "train/backend.h"

/* What an optimizer takes for one step; updates are counted from 1. */
sf_cuda_step sf_gpu_rates(const sf_config *config, double lr, size_t updates);

size_t sf_gpu_evaluator_models(const sf_demand *demand);
sf_status sf_gpu_evaluator_open(void **out, const sf_demand *demand, const sf_model *model, size_t models,
                                size_t threads);
void sf_gpu_evaluator_close(void *evaluator);
void sf_gpu_evaluator_obey(void *evaluator, const atomic_int *stop);
size_t sf_gpu_evaluator_workers(const void *evaluator);
sf_status sf_gpu_evaluator_evaluate(void *evaluator, sf_evaluation *out /* [S] */, float *logits /* [S,B,classes] */,
                                    const float *const *params /* [S][size] */, size_t S, const sf_batch *batch,
                                    const sf_moment *moment);
sf_status sf_gpu_evaluator_observe(void *evaluator, const sf_observer *observer, const float *params /* [size] */,
                                   const sf_batch *batch, const sf_moment *moment);
sf_status sf_gpu_evaluator_gradient(void *evaluator, double *loss, float *gradient /* [size] */,
                                    const float *params /* [size] */, const sf_batch *batch, const sf_moment *moment);
sf_status sf_gpu_evaluator_step(void *evaluator, double *loss, float *const *blocks /* [1 + moments] */,
                                const sf_update *update, const sf_batch *batch, const sf_moment *moment);

#endif
