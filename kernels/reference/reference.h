/* The oracle: the model in double precision, one sequence at a time, as plainly as it can be written. Every fast kernel
 * is tested against it; it is tested against finite differences and tensors computed elsewhere. */
#ifndef SF_KERNELS_REFERENCE_REFERENCE_H
#define SF_KERNELS_REFERENCE_REFERENCE_H

#include "kernels/kernels.h"

typedef struct sf_reference sf_reference;

sf_status sf_reference_create(sf_reference **out, const sf_model *model);
void sf_reference_destroy(sf_reference *reference);

/* Mean loss over the batch and its logits; with `gradient` (not NULL) also the gradient of the mean loss, overwritten.
 */
void sf_reference_run(sf_reference *reference, double *loss, double *logits /* [B,classes] */,
                      double *gradient /* [size] */, const double *params /* [size] */, const sf_batch *batch,
                      const sf_moment *moment);

/* Positions of `block` after the last sequence run: scores and the keys kept, both [H,T,T] (what the mechanism did). */
const double *sf_reference_scores(const sf_reference *reference, size_t block);
const bool *sf_reference_kept(const sf_reference *reference, size_t block);

#endif
