/* Measures of the attention scores while a run trains, every so many epochs: what the setting every asks for.
 * On the first held-out sequences, so that a curve compares like with like. */
#ifndef SF_STUDY_SCORE_RECORDER_H
#define SF_STUDY_SCORE_RECORDER_H

#include "measure/scores.h"
#include "train/fleet.h"

enum { SF_RECORDED_SAMPLES = 100 };

typedef struct sf_recorder {
    size_t every; /* 0: never */
    sf_meter *meter;
    float *params;          /* [size] */
    sf_curve_point *points; /* [count]: all of one epoch */
    size_t count;
} sf_recorder;

/* For the first model of the fleet; nothing is allocated where nothing will be recorded. */
sf_status sf_recorder_open(sf_recorder *out, sf_fleet *fleet, const sf_execution *execution,
                           const atomic_int *stop /* ends a measurement */);
void sf_recorder_close(sf_recorder *recorder);

/* Epoch 0 is the initial state. */
bool sf_recorder_is_due(const sf_recorder *recorder, size_t epoch);
/* Fills the points from the weights as they are. */
sf_status sf_recorder_take(sf_recorder *recorder, sf_fleet *fleet);

#endif
