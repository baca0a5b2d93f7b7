/* A fleet of models on one GPU: their data, weights, optimizers and workspaces live there, and an epoch of all of them
 * runs without the host. One thread at a time may use a fleet. */
#ifndef SF_KERNELS_CUDA_CUDA_H
#define SF_KERNELS_CUDA_CUDA_H

#include <stdatomic.h>

#include "base/status.h"
#include "kernels/kernels.h"

typedef struct sf_cuda_fleet sf_cuda_fleet;

typedef struct sf_cuda_set { /* sequences as the model reads them */
    const int32_t *tokens;   /* [count,T] */
    const int32_t *labels;   /* [count,sf_shape_labels()] */
    size_t count;
    const uint32_t *last; /* [count]: the position that the readout `last` reads; others do not look at it */
} sf_cuda_set;

typedef enum sf_cuda_role { /* what a model in device memory has room for */
                            SF_CUDA_TRAINS,
                            SF_CUDA_OBSERVES,  /* forward alone, and every block is kept */
                            SF_CUDA_EVALUATES, /* forward alone */
                            SF_CUDA_ATTENDS    /* attention alone, between arrays of a caller (raw.h) */
} sf_cuda_role;

typedef struct sf_cuda_model { /* a member to be */
    const sf_model *model;
    sf_precision precision; /* a fleet takes its own instead */
    sf_cuda_role role;
    size_t sequences; /* at a time; 0: as many as training and its evaluations need */
    sf_cuda_set training, heldout;
    uint32_t seed;
    size_t batch;
    sf_optimizer optimizer;
    size_t moments; /* blocks of optimizer state */
    double momentum, weight_decay, beta1, beta2, epsilon, clip;
} sf_cuda_model;

typedef struct sf_cuda_result {
    double train_loss, heldout_loss;
    size_t train_correct, heldout_correct, train_labelled, heldout_labelled;
    size_t diverged_step; /* from 1; 0: not */
} sf_cuda_result;

typedef struct sf_cuda_step { /* what an optimizer takes for one step */
    float lr, rate, widen, keep;
} sf_cuda_step;

/* Whether there is a GPU that this build can use; else SF_UNSUPPORTED and a clause says what is missing. */
sf_status sf_cuda_check(void);
/* How many GPUs there are of the architecture of the first. */
size_t sf_cuda_devices(void);
/* All later calls of this thread are for this GPU; the first one otherwise. */
sf_status sf_cuda_use(size_t device);
/* Whether the GPU in use still answers. */
sf_status sf_cuda_alive(void);
/* After a failure that is dealt with: the next kernel that is launched must not be blamed for it. */
void sf_cuda_forget_error(void);
/* Memory of the GPU in use, in bytes: what nobody uses, and all of it; 0 where that cannot be told. */
size_t sf_cuda_free_memory(void);
size_t sf_cuda_all_memory(void);
/* Of the first GPU: architecture, such as sm_90, and product name. */
const char *sf_cuda_architecture(void);
const char *sf_cuda_name(void);
/* Multiply-adds, times two, in 10^9 per second: f32 outside of tensor cores, tf32 and bf16 on them; 0: not known. */
double sf_cuda_peak_gflops(sf_precision precision);
/* SF_UNSUPPORTED where a model of this shape has no kernel, with a sentence. */
sf_status sf_cuda_supports(const sf_shape *shape, sf_precision precision);
/* Whether the kernels for whole sequences serve it: such models share no fleet with others. */
bool sf_cuda_takes_whole(const sf_shape *shape);
/* Device memory that a member takes. */
size_t sf_cuda_bytes(const sf_cuda_model *model);

sf_status sf_cuda_fleet_open(sf_cuda_fleet **out, size_t capacity, sf_precision precision);
void sf_cuda_fleet_close(sf_cuda_fleet *fleet);
/* Between epochs. The member starts from its initial weights; the arrays of `model` are copied. */
sf_status sf_cuda_fleet_add(sf_cuda_fleet *fleet, size_t s, const sf_cuda_model *model);
void sf_cuda_fleet_remove(sf_cuda_fleet *fleet, size_t s);

/* The order of member s's training sequences and its rates, for the next epoch. */
sf_status sf_cuda_fleet_prepare(sf_cuda_fleet *fleet, size_t s, size_t epoch, const uint32_t *order /* [count] */,
                                const sf_cuda_step *steps /* [steps] */);
/* Trains every member that was prepared for one epoch and evaluates it. SF_INTERRUPTED soon after *stop is not 0 (it
 * may be NULL): members are then somewhere in the epoch. */
sf_status sf_cuda_fleet_advance(sf_cuda_fleet *fleet, const atomic_int *stop);
/* Puts a member back to where it was prepared. */
sf_status sf_cuda_fleet_undo(sf_cuda_fleet *fleet, size_t s);
/* Evaluates the weights of a member as they are. */
sf_status sf_cuda_fleet_evaluate(sf_cuda_fleet *fleet, size_t s);
/* Of the last epoch or evaluation. */
sf_status sf_cuda_fleet_result(sf_cuda_result *out, sf_cuda_fleet *fleet, size_t s);

/* How long the last epoch took. */
sf_status sf_cuda_fleet_seconds(double *training, double *evaluation, const sf_cuda_fleet *fleet);

/* Block 0 is the weights, the others the optimizer's moments. */
sf_status sf_cuda_fleet_read(sf_cuda_fleet *fleet, size_t s, size_t block, float *values /* [size] */);
sf_status sf_cuda_fleet_write(sf_cuda_fleet *fleet, size_t s, size_t block, const float *values /* [size] */);

/* One batch with weights that the host passes: what train/backend.h asks of an evaluator. One thread at a time. */
typedef struct sf_cuda_evaluator sf_cuda_evaluator;

typedef struct sf_cuda_needs { /* of an evaluator */
    const sf_model *model;     /* must outlive it */
    sf_precision precision;
    sf_cuda_role role;
    size_t batch, models; /* sequences and weights of a call, at most; models: 1 unless it only evaluates */
    size_t workers;       /* threads that call an observer */
} sf_cuda_needs;

/* How many weights to evaluate at once; `models` is not looked at. */
size_t sf_cuda_evaluator_models(const sf_cuda_needs *needs);
sf_status sf_cuda_evaluator_open(sf_cuda_evaluator **out, const sf_cuda_needs *needs);
void sf_cuda_evaluator_close(sf_cuda_evaluator *evaluator);
/* The calls below return SF_INTERRUPTED soon after *stop is not 0; it may be NULL. */
void sf_cuda_evaluator_obey(sf_cuda_evaluator *evaluator, const atomic_int *stop);

sf_status sf_cuda_evaluator_evaluate(sf_cuda_evaluator *evaluator, sf_evaluation *out /* [S] */,
                                     float *logits /* [S,B,labels,classes], may be NULL */,
                                     const float *const *params /* [S][size] */, size_t S, const sf_batch *batch,
                                     const sf_moment *moment);
sf_status sf_cuda_evaluator_observe(sf_cuda_evaluator *evaluator, const sf_observer *observer,
                                    const float *params /* [size] */, const sf_batch *batch, const sf_moment *moment);
sf_status sf_cuda_evaluator_gradient(sf_cuda_evaluator *evaluator, double *loss, float *gradient /* [size] */,
                                     const float *params /* [size] */, const sf_batch *batch, const sf_moment *moment);
/* Of `how`, only the optimizer and its constants are looked at. Where the loss or the gradient is not finite, the
 * blocks do not change. */
sf_status sf_cuda_evaluator_step(sf_cuda_evaluator *evaluator, double *loss,
                                 float *const *blocks /* [1 + moments][size] */, const sf_cuda_model *how,
                                 const sf_cuda_step *rates, const sf_batch *batch, const sf_moment *moment);

#endif
