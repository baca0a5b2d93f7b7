/* How fast a device trains a fleet. */
#ifndef SF_TRAIN_FLEET_BENCHMARK_H
#define SF_TRAIN_FLEET_BENCHMARK_H

#include "train/backend.h"

typedef struct sf_fleet_case {
    const char *task;
    const char *const *mechanisms; /* [kinds]: models take them in turn */
    size_t kinds, models, steps;   /* steps: of an epoch */
    sf_precision precision;
    const sf_execution *execution;
    double seconds; /* how long to measure, approximately */
} sf_fleet_case;

typedef struct sf_fleet_times {
    const char *device;
    size_t epochs;     /* that were timed, at least 3 */
    double step;       /* seconds per model and step: median */
    double evaluation; /* seconds per model and evaluated sequence: median */
    double flops;      /* of a model's step, on average */
} sf_fleet_times;

/* Arithmetic of a training step of 25 sequences. */
sf_status sf_step_flops(double *out, const sf_shape *shape);

/* SF_UNSUPPORTED if the device cannot train this fleet, or does not tell the times. */
sf_status sf_fleet_benchmark(sf_fleet_times *out, const sf_fleet_case *what);

#endif
