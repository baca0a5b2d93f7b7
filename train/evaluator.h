/* Evaluates and observes a model: weights and a batch in; losses, logits, gradients and the attention of every block on
 * every sequence out. Provided by the backend of the machine, or by the CPU if that cannot.
 *
 * Calls end with SF_INTERRUPTED soon after a stop is requested; what they wrote is then invalid. */
#ifndef SF_TRAIN_EVALUATOR_H
#define SF_TRAIN_EVALUATOR_H

#include "train/backend.h"

typedef struct sf_evaluator {
    const sf_backend *backend;
    void *state;
    size_t models; /* the most weights that are evaluated together */
} sf_evaluator;

/* Batches of up to `batch` sequences; the model must outlive the evaluator. It takes as many weights together as suits
 * the backend, but no more than most_models. */
sf_status sf_evaluator_open(sf_evaluator *out, const sf_machine *machine, sf_work work, const sf_model *model,
                            sf_precision precision, size_t batch, size_t most_models);
void sf_evaluator_close(sf_evaluator *evaluator); /* legal for a zeroed one that was not opened */
void sf_evaluator_obey(sf_evaluator *evaluator, const atomic_int *stop /* may be NULL: never stops */);
size_t sf_evaluator_workers(const sf_evaluator *evaluator); /* that call an observer, numbered from 0 */

/* Sums over the sequences, for each of S weights: over SF_EVALUATION_BATCH of them at a time, then of these. */
sf_status sf_evaluator_evaluate(const sf_evaluator *evaluator, sf_evaluation *out /* [S] */,
                                float *logits /* [S,B,labels,classes], may be NULL */,
                                const float *const *params /* [S][size] */, size_t S, const sf_batch *batch,
                                const sf_moment *moment);
sf_status sf_evaluator_observe(const sf_evaluator *evaluator, const sf_observer *observer,
                               const float *params /* [size] */, const sf_batch *batch, const sf_moment *moment);
sf_status sf_evaluator_gradient(const sf_evaluator *evaluator, double *loss, float *gradient /* [size] */,
                                const float *params /* [size] */, const sf_batch *batch, const sf_moment *moment);
/* One step of training, in place. */
sf_status sf_evaluator_step(const sf_evaluator *evaluator, double *loss, float *const *blocks /* [1 + moments] */,
                            const sf_update *update, const sf_batch *batch, const sf_moment *moment);

#endif
