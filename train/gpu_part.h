/* A rank's part of a model that several ranks train together, on a GPU (kernels/cuda/part.h). In a build without CUDA,
 * sf_gpu_part_check() says so, and nothing else is called. */
#ifndef SF_TRAIN_GPU_PART_H
#define SF_TRAIN_GPU_PART_H

#include <stdatomic.h>

#include "train/backend.h"

enum { SF_GPU_DEALT = 8 };                                        /* chunks of a batch, at most */
enum { SF_LINK_ID = 128, SF_GPU_NAME = 32, SF_GPU_REASON = 256 }; /* bytes */

typedef struct sf_gpu_part sf_gpu_part;

typedef struct sf_gpu_dealt { /* who does what of a batch */
    size_t B, chunks;
    size_t bounds[SF_GPU_DEALT + 1];    /* sequences of each chunk */
    size_t summing, place;              /* chunk c belongs to place c mod summing; place >= summing: none of them */
    size_t stretches[SF_GPU_DEALT + 1]; /* parameters that each place adds up */
    size_t ranks, rank, rank_at[SF_GPU_DEALT]; /* of every place */
} sf_gpu_dealt;

typedef struct sf_gpu_about { /* what decides how gradients travel */
    int nccl;                 /* its version; 0: it cannot be used */
    char why[SF_GPU_REASON];  /* a clause: why not */
    char name[SF_GPU_NAME];   /* of the GPU, on its machine */
} sf_gpu_about;

/* SF_UNSUPPORTED with a clause if GPUs do not compute it together. */
sf_status sf_gpu_part_check(const sf_demand *demand);

/* On the GPU with this number, modulo how many there are. `places`: ranks that compute, at most. */
sf_status sf_gpu_part_open(sf_gpu_part **out, const sf_member *member, size_t number, size_t places);
void sf_gpu_part_close(sf_gpu_part *part); /* NULL is legal */
/* NCCL's library; SF_UNSUPPORTED with a clause if there is none that can be used. */
sf_status sf_gpu_part_find_nccl(int *version);
sf_status sf_gpu_part_describe(sf_gpu_about *out, sf_gpu_part *part);

/* What one rank makes and all need for sf_gpu_part_link(), which all call at the same time: gradients then go from GPU
 * to GPU. SF_UNSUPPORTED after so many seconds if others do not come. */
sf_status sf_gpu_part_link_id(char *id /* [SF_LINK_ID] */);
sf_status sf_gpu_part_link(sf_gpu_part *part, const char *id /* [SF_LINK_ID] */, size_t ranks, size_t rank,
                           double seconds);
void sf_gpu_part_cut(sf_gpu_part *part);
bool sf_gpu_part_is_linked(const sf_gpu_part *part);

/* Chunk c's gradient lies at c / summing * size, unless there is a link. */
float *sf_gpu_part_staged(sf_gpu_part *part);
/* Where their sum belongs, unless there is a link. */
float *sf_gpu_part_sum(sf_gpu_part *part);

/* Weights and moments to the GPU, for an epoch of training, from 1, or for an evaluation, 0. */
sf_status sf_gpu_part_begin(sf_gpu_part *part, float *const *blocks /* [1 + moments][size] */, size_t epoch);
/* And back. */
sf_status sf_gpu_part_end(sf_gpu_part *part, float *const *blocks /* [1 + moments][size] */);

/* The chunks of this rank; on_done is called for each once its gradient is there. After a stop they are incomplete. */
sf_status sf_gpu_part_compute(sf_gpu_part *part, const sf_gpu_dealt *dealt,
                              void (*on_done)(void *context, size_t chunk, const double *losses), void *context,
                              const atomic_int *stop);
/* With a link: whether the sum has arrived. */
sf_status sf_gpu_part_poll(sf_gpu_part *part, bool *arrived);
/* *finite is false, and no weight changes, if the gradient's norm is not finite. */
sf_status sf_gpu_part_update(sf_gpu_part *part, bool *finite);

/* Losses of `count` sequences of a set. After a stop they are incomplete. */
sf_status sf_gpu_part_evaluate(sf_gpu_part *part, double *losses /* [count] */, uint32_t *correct /* [count] */,
                               sf_split split, size_t first, size_t count, const atomic_int *stop);

#endif
