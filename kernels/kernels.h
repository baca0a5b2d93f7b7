/* What every implementation of the model computes: from parameters and a batch to loss, logits and gradient. */
#ifndef SF_KERNELS_KERNELS_H
#define SF_KERNELS_KERNELS_H

#include <stdbool.h>

#include "model/model.h"

typedef struct sf_batch {
    const int32_t *tokens; /* [B,T], padding and global tokens included */
    const int32_t *labels; /* [B] */
    size_t B;
} sf_batch;

/* When a batch is computed: the address of its dropout and of its random keys. */
typedef struct sf_moment {
    uint32_t seed, epoch, step;
    uint32_t first_sample; /* index of the batch's first sequence within the step */
    bool training;         /* dropout only in training */
    double noise;          /* deviation of Gaussian noise on the embedded tokens; 0: none */
} sf_moment;

/* The address of sample `sample` of the batch for one purpose, block and head. */
static inline sf_index sf_moment_index(const sf_moment *moment, sf_purpose purpose, size_t block, size_t head,
                                       size_t sample) {
    return (sf_index){.seed = moment->seed,
                      .stream = sf_stream(purpose, block, head),
                      .epoch = moment->epoch,
                      .step = moment->step,
                      .sample = moment->first_sample + (uint32_t)sample};
}

static inline sf_purpose sf_moment_random_keys(const sf_moment *moment) {
    return moment->training ? SF_RANDOM_KEYS : SF_RANDOM_KEYS_EVALUATION;
}

typedef struct sf_evaluation { /* sums over sequences */
    double loss;
    size_t correct;
} sf_evaluation;

typedef struct sf_attention_view { /* the attention of a block on one sequence; rows are `stride` floats apart */
    size_t block, sequence;        /* sequence: within the batch */
    const float *input;            /* [T,Cp]: what q, k and v are computed from */
    const float *q, *k, *v;        /* [T,H,Cp], rows `stride` apart */
    size_t stride;
    const uint32_t *chosen;                 /* [H,offsets[T]]: keys chosen during forward; NULL: by position */
    const size_t *offsets;                  /* [T+1]: where those of a query begin */
    const uint32_t *counts;                 /* [H,T]: how many a query keeps; NULL: all up to the next */
    const float *context;                   /* [T,H,Cp] */
    const float *attention_rstd, *mlp_rstd; /* [T]: what the two norms multiplied their rows by */
} sf_attention_view;

/* The keys that a query keeps, where they were chosen during forward. */
static inline const uint32_t *sf_view_chosen(size_t *count, const sf_attention_view *view, size_t T, size_t head,
                                             size_t query) {
    const size_t begin = view->offsets[query];
    *count = view->counts != NULL ? view->counts[head * T + query] : view->offsets[query + 1] - begin;
    return view->chosen + head * view->offsets[T] + begin;
}

typedef struct sf_observer { /* called by all workers concurrently, for each block of each sequence */
    void (*observe)(void *context, size_t worker, const sf_attention_view *view);
    void *context;
} sf_observer;

#endif
