/* Measures of the attention scores while a run trains, as often as the setting `every` says. Always on the same first
 * held-out sequences, so that epochs can be compared. */
#ifndef SF_STUDY_TRAINING_MEASURES_H
#define SF_STUDY_TRAINING_MEASURES_H

#include "measure/scores.h"
#include "train/fleet.h"

enum { SF_TRAINING_MEASURE_SAMPLES = 100 };

typedef struct sf_training_measures {
    size_t every; /* 0: never */
    sf_meter *meter;
    float *params;          /* [size] */
    sf_curve_point *points; /* [count]: all of one epoch */
    size_t count;
} sf_training_measures;

/* For one member of a fleet; nothing is allocated where nothing will be measured. */
sf_status sf_training_measures_open(sf_training_measures *out, const sf_member *member, size_t every,
                                    const sf_machine *machine, const atomic_int *stop /* ends a measurement */);
void sf_training_measures_close(sf_training_measures *measures);

/* Epoch 0 is the initial state. */
bool sf_training_measures_is_due(const sf_training_measures *measures, size_t epoch);
/* Fills the points from the weights of the member as they are. */
sf_status sf_training_measures_take(sf_training_measures *measures, sf_fleet *fleet, size_t s);

#endif
