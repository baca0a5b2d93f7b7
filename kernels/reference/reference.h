/* The oracle: the model in double precision, one sequence at a time, written as simply as possible. Every fast kernel
 * is tested against it; it is tested against finite differences and tensors computed by other programs. */
#ifndef SF_KERNELS_REFERENCE_REFERENCE_H
#define SF_KERNELS_REFERENCE_REFERENCE_H

#include "kernels/kernels.h"

typedef struct sf_reference sf_reference;

sf_status sf_reference_create(sf_reference **out, const sf_model *model);
void sf_reference_destroy(sf_reference *reference);

/* Mean loss over the labels of the batch and its logits; with `gradient` (not NULL) also the gradient of the mean loss,
 * overwritten. */
void sf_reference_run(sf_reference *reference, double *loss, double *logits /* [B,labels,classes] */,
                      double *gradient /* [size] */, const double *params /* [size] */, const sf_batch *batch,
                      const sf_moment *moment);

/* Choices that rounding may change: of the sequences of a batch, in every block. */
typedef struct sf_reference_choices {
    const bool *kept;   /* [B,L,H,T,T]: keys that queries keep; NULL: as the mechanism chooses */
    const bool *active; /* [B,L,T,F]: where a ReLU passes its input on; NULL: where that is positive */
} sf_reference_choices;

/* Makes these choices from now on; they must outlive their use. */
void sf_reference_follow(sf_reference *reference, const sf_reference_choices *choices);

/* Scores and kept keys of `block` for the last sequence that was run, both [H,T,T]. */
const double *sf_reference_scores(const sf_reference *reference, size_t block);
const bool *sf_reference_kept(const sf_reference *reference, size_t block);

#endif
