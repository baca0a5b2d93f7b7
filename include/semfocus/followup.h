/* Questions beyond a run's own curve: how its model does on sequences of other lengths, and how far apart two runs are.
 *
 *   sf_length_result result;
 *   sf_length_request request = {.at = SF_AT_LAST, .length = 100, .count = 2000};      trained at 40, tested at 100
 *   sf_length_generalization(&result, store, &run, &request);
 *
 *   sf_run_distance_result apart;
 *   sf_run_distance(&apart, store, &run, &swapped);      the same run except for --swap-sample 17 */
#ifndef SEMFOCUS_FOLLOWUP_H
#define SEMFOCUS_FOLLOWUP_H

#include "semfocus/api.h"
#include "semfocus/store.h"

SF_API_BEGIN

typedef struct sf_length_request {
    sf_weights_at at;
    size_t length, count;   /* 0: the run's own */
    sf_execution execution; /* only threads, device and notes are used */
} sf_length_request;

typedef struct sf_length_result {
    size_t trained_length; /* for tsv: data, the length of its longest sequence */
    size_t length, count;
    double loss, accuracy; /* mean cross-entropy; per cent */
} sf_length_result;

/* Evaluates the stored model on the first `count` held-out sequences of its task at another length, under the run's
 * data seed. It keeps its weights, its k and its global tokens; positions, padding and kept keys are those of a run of
 * that length (a k that covers it is full attention). At the run's own length and held-out count the result is its
 * held-out loss bit by bit, under the same instruction set. Lengths the task cannot sample are SF_BAD_INPUT; for tsv:
 * data, so is any length but its own, and a count above the number of held-out sequences. The result does not depend on
 * threads. */
sf_status sf_length_generalization(sf_length_result *out, sf_store *store, const sf_stored_run *run,
                                   const sf_length_request *request);

typedef struct sf_run_distance_result {
    size_t epoch;
    double distance;       /* l2, over all weights */
    double relative;       /* to the mean of the two norms */
    double norm_a, norm_b; /* l2 */
    double train_loss_a, train_loss_b, heldout_loss_a, heldout_loss_b;
} sf_run_distance_result;

/* The distance between the weights of two runs at their last checkpoints, with the losses of that epoch. Runs whose
 * weights differ in shape or epoch are SF_BAD_INPUT. */
sf_status sf_run_distance(sf_run_distance_result *out, sf_store *store, const sf_stored_run *a, const sf_stored_run *b);

SF_API_END

#endif
