/* Fleets whose members join and leave between epochs, and what checkpoints and checks need besides the public functions
 * of a fleet. */
#ifndef SF_TRAIN_FLEET_H
#define SF_TRAIN_FLEET_H

#include "train/backend.h"

/* An empty fleet with room for `capacity` members that may share a fleet with this demand. */
sf_status sf_fleet_open(sf_fleet **out, const sf_backend *backend, const sf_demand *demand, size_t capacity,
                        size_t threads);
/* Takes ownership of the member, at its initial weights; *s is its index. On failure the caller still owns it. */
sf_status sf_fleet_add(sf_fleet *fleet, size_t *s, sf_member *member);
/* Destroys the member, even if the backend fails. */
sf_status sf_fleet_remove(sf_fleet *fleet, size_t s);

/* Like sf_fleet_advance(), but a member whose mechanism breaks its rules is not a failure: sf_member_check() finds
 * it. */
sf_status sf_fleet_advance_members(sf_fleet *fleet);

/* After a call for one member failed: SF_OK if only that call did, a sentence if the device is lost. */
sf_status sf_fleet_alive(const sf_fleet *fleet);

size_t sf_fleet_capacity(const sf_fleet *fleet);
sf_member *sf_fleet_member(sf_fleet *fleet, size_t s);     /* NULL where a place is free */
sf_member *const *sf_fleet_members(const sf_fleet *fleet); /* [capacity] */

/* Block 0 is the weights, the others the optimizer's moments. */
sf_status sf_fleet_read(const sf_fleet *fleet, size_t s, size_t block, float *values /* [size] */);

/* Puts a model where a checkpoint left it: after epoch last->epoch. */
sf_status sf_fleet_resume(sf_fleet *fleet, size_t s, const sf_epoch *last, size_t converged_epoch,
                          float *const *blocks /* [1 + moments] */);

/* Of the last epoch; SF_UNSUPPORTED if the backend does not tell. */
sf_status sf_fleet_seconds(sf_epoch_seconds *out, const sf_fleet *fleet);

/* Losses and accuracies of the current weights. */
sf_status sf_fleet_evaluate(sf_epoch *out, sf_fleet *fleet, size_t s);

#endif
