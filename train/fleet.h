/* What checkpoints and checks need of a fleet beyond its public face. */
#ifndef SF_TRAIN_FLEET_H
#define SF_TRAIN_FLEET_H

#include "train/backend.h"

/* sf_fleet_create() that ends with SF_INTERRUPTED once *stop is not 0; stop may be NULL. */
sf_status sf_fleet_create_until(sf_fleet **out, const char *task, const sf_config *configs /* [count] */, size_t count,
                                const sf_execution *execution, const atomic_int *stop);

sf_member *sf_fleet_member(sf_fleet *fleet, size_t s);

/* Block 0 is the weights, the others the optimizer's moments. */
void sf_fleet_read(const sf_fleet *fleet, size_t s, size_t block, float *values /* [size] */);

/* Puts a model where a checkpoint left it: after epoch last->epoch. */
void sf_fleet_resume(sf_fleet *fleet, size_t s, const sf_epoch *last, size_t converged_epoch, float *const *blocks);

/* Losses and accuracies of the weights as they are. */
sf_epoch sf_fleet_evaluate(sf_fleet *fleet, size_t s);

#endif
