/* Runs a model on sequences of its data and shows its attention to an observer, one batch at a time: memory does not
 * grow with their number. Without dropout, at the addresses of an evaluation. */
#ifndef SF_MEASURE_OBSERVATION_H
#define SF_MEASURE_OBSERVATION_H

#include "train/batch.h"
#include "train/evaluator.h"

typedef struct sf_subject { /* what is observed */
    const sf_model *model;
    const float *params; /* [size] */
    const sf_run_data *data;
    sf_split split;
    size_t samples; /* how many sequences, from the first of the split on, or all if it has fewer */
    uint32_t seed;  /* of the run */
    sf_machine machine;
} sf_subject;

typedef struct sf_observation {
    sf_subject subject; /* with the actual number of samples */
    size_t batch;       /* sequences at a time, at most */
    size_t first, now;  /* the sequences loaded */
    sf_evaluator evaluator;
    size_t workers; /* that call the observer */
    sf_batch_room room;
} sf_observation;

sf_status sf_observation_open(sf_observation *out, const sf_subject *subject, size_t batch);
void sf_observation_close(sf_observation *observation);

/* Loads the next sequences; false when there are none left. The call after that starts again. */
bool sf_observation_next(sf_observation *observation);

/* Runs the loaded sequences. `noise` is the deviation of Gaussian noise on the embedded tokens. An observer's
 * view.sequence counts from observation->first. */
sf_status sf_observation_run(const sf_observation *observation, const sf_observer *observer, double noise);

/* Scores of one query of a view, as the kernels see them but in double. */
void sf_view_scores(double *scores /* [T] */, const sf_attention_view *view, const sf_shape *shape, size_t head,
                    size_t query);

/* The keys that the query keeps given those scores, in ascending order; returns their number. */
size_t sf_view_keep(uint32_t *kept /* [2T] */, const sf_observation *observation, const sf_attention_view *view,
                    const double *scores /* [T] */, size_t head, size_t query);

/* Least kept score minus the largest other one; the other way round for a selector that keeps the smallest. Infinite if
 * every key is kept. */
double sf_separation(const double *scores /* [T] */, const uint32_t *kept /* [count], ascending */, size_t count,
                     size_t T);

#endif
