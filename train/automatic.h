/* --device auto: the GPU if there is one and the work is large enough to gain. In f32 both give the same bits, so the
 * choice changes nothing but the time. */
#ifndef SF_TRAIN_AUTOMATIC_H
#define SF_TRAIN_AUTOMATIC_H

#include "train/backend.h"

typedef struct sf_workload { /* as far as the choice depends on it */
    double flops;            /* of everything (train/flops.h) */
    double depth;  /* passes through a block that must follow one another; a training step makes three per block */
    size_t models; /* that are independent of each other */
} sf_workload;

/* Adds the training of a run for a number of epochs, each with its evaluation. */
void sf_workload_add_run(sf_workload *work, const sf_config *config, const char *attention, double epochs);
/* Adds the evaluation of `models` weights of this shape, each on `sequences`. */
void sf_workload_add_evaluation(sf_workload *work, const sf_shape *shape, size_t models, size_t sequences);

/* Whether a GPU with this peak (10^9 multiply-adds per second, times two) takes less than half the time of this many
 * threads. docs/cuda.md explains the estimate. */
bool sf_gpu_gains(const sf_workload *work, double peak_gflops, size_t threads);

/* Decides SF_AUTO, for work in f32; other devices, and a machine with a backend of its own, stay as they are. A note
 * says that the GPU was chosen. */
void sf_machine_decide(sf_machine *machine, const sf_workload *work);
/* The sentence of that note. */
const char *sf_gpu_chosen(void);

#endif
