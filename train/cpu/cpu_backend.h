/* The parts of the CPU backend: fleets and evaluators, over the workers of kernels/cpu. */
#ifndef SF_TRAIN_CPU_CPU_BACKEND_H
#define SF_TRAIN_CPU_CPU_BACKEND_H

#include "kernels/cpu/cpu.h"
#include "train/backend.h"
#include "train/cpu/exchange.h"

/* How the cores are shared: one model per core if there are enough models, otherwise all cores on one model. Both
 * compute the same bits. */
typedef struct sf_cpu_layout {
    size_t workspaces; /* models at a time */
    size_t workers;    /* threads per model */
} sf_cpu_layout;

sf_cpu_layout sf_cpu_layout_for(size_t models, size_t threads);

typedef struct sf_cpu_step { /* what a training step did */
    double loss, norm;       /* norm of the gradient; if either is not finite, the weights are unchanged */
} sf_cpu_step;

/* Gradient, clipping and update; a batch without any label changes nothing. SF_INTERRUPTED, and nothing is changed, if
 * *stop was set or the mechanism broke its rules. `exchange`: all ranks compute the gradient together; NULL: this
 * process alone. */
sf_status sf_cpu_train_step(sf_cpu_team *team, sf_cpu_step *out, float *gradient /* [size] */, const sf_cpu_plan *plan,
                            const sf_model *model, float *const *blocks /* [1 + moments] */, const sf_update *update,
                            const sf_batch *batch, const sf_moment *moment, const atomic_int *stop,
                            sf_exchange *exchange);

sf_status sf_cpu_fleet_open(void **out, const sf_demand *demand, size_t capacity, size_t threads);
/* Before the first member joins: every rank has such a fleet with the same member, and all advance and evaluate it
 * together. A rank that failed waits for others for so many seconds. */
void sf_cpu_fleet_share(void *fleet, double patience);
/* Of a shared fleet: whether a GPU computes members that join from now on, at every rank; and what its member
 * exchanges with the other ranks. */
void sf_cpu_fleet_compute_on(void *fleet, bool gpu);
sf_exchange *sf_cpu_fleet_exchange(void *fleet);
void sf_cpu_fleet_close(void *fleet);
sf_status sf_cpu_fleet_add(void *fleet, size_t s, sf_member *member);
sf_status sf_cpu_fleet_remove(void *fleet, size_t s);
sf_status sf_cpu_fleet_advance(void *fleet, const sf_watch *watch);
sf_status sf_cpu_fleet_read(void *fleet, size_t s, size_t block, float *values /* [size] */);
sf_status sf_cpu_fleet_write(void *fleet, size_t s, size_t block, const float *values /* [size] */);
sf_status sf_cpu_fleet_evaluate(void *fleet, size_t s, sf_epoch *out);
uint64_t sf_cpu_fleet_hash(void *fleet, size_t s);                  /* of all blocks of a member */
sf_status sf_cpu_fleet_bytes(size_t *out, const sf_demand *demand); /* per model */

sf_status sf_cpu_evaluator_open(void **out, const sf_demand *demand, const sf_model *model, size_t models,
                                size_t threads);
void sf_cpu_evaluator_close(void *evaluator);
void sf_cpu_evaluator_obey(void *evaluator, const atomic_int *stop);
size_t sf_cpu_evaluator_workers(const void *evaluator);
sf_status sf_cpu_evaluator_evaluate(void *evaluator, sf_evaluation *out /* [S] */,
                                    float *logits /* [S,B,labels,classes] */,
                                    const float *const *params /* [S][size] */, size_t S, const sf_batch *batch,
                                    const sf_moment *moment);
sf_status sf_cpu_evaluator_observe(void *evaluator, const sf_observer *observer, const float *params /* [size] */,
                                   const sf_batch *batch, const sf_moment *moment);
sf_status sf_cpu_evaluator_gradient(void *evaluator, double *loss, float *gradient /* [size] */,
                                    const float *params /* [size] */, const sf_batch *batch, const sf_moment *moment);
sf_status sf_cpu_evaluator_step(void *evaluator, double *loss, float *const *blocks /* [1 + moments] */,
                                const sf_update *update, const sf_batch *batch, const sf_moment *moment);

#endif
