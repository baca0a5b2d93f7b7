/* Computes kept keys again, for observers of mechanisms whose lists stay on the device. One thread at a time. */
#ifndef SF_KERNELS_CUDA_OBSERVED_H
#define SF_KERNELS_CUDA_OBSERVED_H

#include "kernels/kernels.h"

typedef struct sf_cuda_keeper sf_cuda_keeper;

sf_status sf_cuda_keeper_open(sf_cuda_keeper **out, const sf_shape *shape, float score_scale);
void sf_cuda_keeper_close(sf_cuda_keeper *keeper);
/* What the next calls are about: sequence `sequence` of the moment. */
void sf_cuda_keeper_look(sf_cuda_keeper *keeper, const sf_attention_view *view, const sf_moment *moment,
                         size_t sequence);
/* For sf_attention_view: `keep`, with the keeper as its context. */
size_t sf_cuda_keeper_keep(uint32_t *kept /* [2T] */, void *keeper, size_t head, size_t query);

#endif
