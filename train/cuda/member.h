/* A member of a fleet as kernels/cuda takes it. */
#ifndef SF_TRAIN_CUDA_MEMBER_H
#define SF_TRAIN_CUDA_MEMBER_H

#include "kernels/cuda/cuda.h"
#include "train/batch.h"
#include "train/member.h"

typedef struct sf_gpu_model {
    sf_cuda_model model;
    sf_batch_room training, heldout; /* what it points to */
} sf_gpu_model;

sf_status sf_gpu_model_open(sf_gpu_model *out, const sf_member *member);
void sf_gpu_model_close(sf_gpu_model *model); /* legal for a zeroed one, and after a failure to open it */

typedef struct sf_gpu_epoch { /* what the training of an epoch, from 1, needs */
    uint32_t *order;          /* [training sequences] */
    sf_cuda_step *rates;      /* [steps] */
} sf_gpu_epoch;

sf_status sf_gpu_epoch_open(sf_gpu_epoch *out, const sf_member *member, size_t epoch);
void sf_gpu_epoch_close(sf_gpu_epoch *epoch); /* likewise */

#endif
