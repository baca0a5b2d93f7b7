/* A part of every batch of a model, on one GPU; other processes compute the rest. The model's weights are on every one
 * of these GPUs, and every one updates them.
 *
 * A chunk of a batch is dealt to one process, its place: chunk c to place c mod `summing`. The GPU takes its chunks in
 * waves, each as large as keeps it busy, so that the gradients of one wave leave while the next one is computed: to
 * memory of the host, or over a link (kernels/cuda/link.h) to the other GPUs. One thread at a time may use a part. */
#ifndef SF_KERNELS_CUDA_PART_H
#define SF_KERNELS_CUDA_PART_H

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/link.h"

enum { SF_CUDA_DEALT = 8 }; /* chunks of a batch, at most, and places */

typedef struct sf_cuda_part sf_cuda_part;

typedef struct sf_cuda_dealt { /* who does what of a batch */
    size_t B, chunks;
    size_t bounds[SF_CUDA_DEALT + 1];           /* sequences of each chunk */
    size_t summing, place;                      /* place >= summing: this process computes no chunk */
    size_t stretches[SF_CUDA_DEALT + 1];        /* parameters that each place adds up */
    size_t ranks, rank, rank_at[SF_CUDA_DEALT]; /* of every place */
} sf_cuda_dealt;

typedef struct sf_cuda_listener {
    /* A chunk was computed, and its gradient is in sf_cuda_part_staged() unless there is a link. */
    void (*on_done)(void *context, size_t chunk, const double *losses /* of its sequences */);
    void *context;
} sf_cuda_listener;

/* On the GPU in use. `places`: how many there are at most. */
sf_status sf_cuda_part_open(sf_cuda_part **out, const sf_cuda_model *model, size_t places);
void sf_cuda_part_close(sf_cuda_part *part); /* NULL is legal */
/* From now on gradients go over the link, which is closed with the part. */
sf_status sf_cuda_part_use(sf_cuda_part *part, sf_cuda_link *link);
/* Ends the link at once, with what is under way. */
void sf_cuda_part_cut(sf_cuda_part *part);

/* In memory that GPU and host share: chunk c's gradient lies at c / summing * size. */
float *sf_cuda_part_staged(sf_cuda_part *part);
/* The same for their sum, which the host provides where there is no link. */
float *sf_cuda_part_sum(sf_cuda_part *part);

/* Weights and moments, and for an epoch of training, from 1, the order of its sequences and its rates. */
sf_status sf_cuda_part_begin(sf_cuda_part *part, float *const *blocks /* [1 + moments][size] */, size_t epoch,
                             const uint32_t *order /* [count] */, const sf_cuda_step *rates /* [steps] */);
sf_status sf_cuda_part_end(sf_cuda_part *part, float *const *blocks /* [1 + moments][size] */);

/* The chunks of this place. After a stop they are incomplete. With a link, also begins to add up. */
sf_status sf_cuda_part_compute(sf_cuda_part *part, const sf_cuda_dealt *dealt, const sf_cuda_listener *listener,
                               const atomic_int *stop);
/* With a link: whether the sum has arrived. */
sf_status sf_cuda_part_poll(sf_cuda_part *part, bool *arrived);
/* Updates the weights. *finite is false, and nothing is changed, if the norm of the gradient is not finite. */
sf_status sf_cuda_part_update(sf_cuda_part *part, bool *finite);

/* Losses of `count` sequences of a set. After a stop they are incomplete. */
sf_status sf_cuda_part_evaluate(sf_cuda_part *part, double *losses /* [count] */, uint32_t *correct /* [count] */,
                                size_t split, size_t first, size_t count, const atomic_int *stop);

#endif
