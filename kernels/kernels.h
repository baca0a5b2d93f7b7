/* What every implementation of the model computes: from parameters and a batch to loss, logits and gradient. */
#ifndef SF_KERNELS_KERNELS_H
#define SF_KERNELS_KERNELS_H

#include <stdbool.h>

#include "model/model.h"

typedef struct sf_batch {
    const int32_t *tokens; /* [B,T], padding, global tokens and CLS included */
    const int32_t *labels; /* [B,sf_shape_labels()] */
    size_t B;
    const uint32_t *last; /* [B]: the position that the readout `last` reads; NULL: the last one before the globals */
} sf_batch;

/* The position that the readouts `last` and `cls` read of a sequence. */
static inline size_t sf_batch_last(const sf_batch *batch, const sf_shape *shape, size_t n) {
    if (shape->readout == SF_READ_CLS) return 0;
    return batch->last != NULL ? batch->last[n] : shape->T - shape->attention.globals - 1;
}

/* The sequences of a batch from `first` on. */
static inline sf_batch sf_batch_part(const sf_batch *batch, const sf_shape *shape, size_t first, size_t B) {
    return (sf_batch){.tokens = batch->tokens + first * shape->T,
                      .labels = batch->labels + first * sf_shape_labels(shape),
                      .B = B,
                      .last = batch->last != NULL ? batch->last + first : NULL};
}

/* How many labels the batch has: what its loss is the mean over. */
static inline size_t sf_batch_labelled(const sf_batch *batch, const sf_shape *shape) {
    if (shape->readout != SF_READ_EACH) return batch->B;
    size_t labelled = 0;
    for (size_t i = 0; i < batch->B * shape->T; i++) labelled += batch->labels[i] != SF_NO_LABEL;
    return labelled;
}

/* A sum over this many labels as a mean; 0 without any. */
static inline double sf_mean_over(double sum, size_t labelled) {
    return labelled > 0 ? sum / (double)labelled : 0;
}

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

typedef struct sf_evaluation { /* sums over labels */
    double loss;
    size_t correct;
    size_t labelled; /* how many there are */
} sf_evaluation;

typedef struct sf_attention_view { /* the attention of a block on one sequence; rows are `stride` floats apart */
    size_t block, sequence;        /* sequence: within the batch */
    const float *input;            /* [T,Cp]: what q, k and v are computed from */
    const float *q, *k, *v;        /* [T,H,Dp], rows `stride` apart */
    size_t stride;
    const uint32_t *chosen; /* [H,offsets[T]]: keys chosen during forward; NULL: by position */
    const size_t *offsets;  /* [T+1]: where those of a query begin */
    const uint32_t *counts; /* [H,T]: how many a query keeps; NULL: all up to the next */
    /* Instead of `chosen`, where the lists are not stored: computes them again and returns their number. */
    size_t (*keep)(uint32_t *kept /* [2T] */, void *keeper, size_t head, size_t query);
    void *keeper;
    const float *context;                   /* [T,H,Dp] */
    const float *hidden;                    /* [T,Fp]: what the MLP's activation is applied to */
    const float *attention_rstd, *mlp_rstd; /* [T]: what the two norms multiplied their rows by */
} sf_attention_view;

/* Whether the view says which keys queries keep; if not, they depend on positions alone. */
static inline bool sf_view_has_choices(const sf_attention_view *view) {
    return view->chosen != NULL || view->keep != NULL;
}

/* The keys that a query keeps, where they were chosen during forward; `room` is used where lists are not stored. */
static inline const uint32_t *sf_view_chosen(size_t *count, uint32_t *room /* [2T] */, const sf_attention_view *view,
                                             size_t T, size_t head, size_t query) {
    if (view->keep != NULL) {
        *count = view->keep(room, view->keeper, head, query);
        return room;
    }
    const size_t begin = view->offsets[query];
    *count = view->counts != NULL ? view->counts[head * T + query] : view->offsets[query + 1] - begin;
    return view->chosen + head * view->offsets[T] + begin;
}

typedef struct sf_observer { /* called by all workers concurrently, for each block of each sequence */
    void (*observe)(void *context, size_t worker, const sf_attention_view *view);
    void *context;
} sf_observer;

#endif
