/* Fleets whose members join and leave between epochs, and what checkpoints and checks need of a fleet beyond its public
 * face. */
#ifndef SF_TRAIN_FLEET_H
#define SF_TRAIN_FLEET_H

#include "train/backend.h"

/* An empty fleet with room for `capacity` members that may share a fleet with this demand. */
sf_status sf_fleet_open(sf_fleet **out, const sf_backend *backend, const sf_demand *demand, size_t capacity,
                        size_t threads);
/* Takes the member over, at its initial weights, and gives its place. On failure the member stays the caller's. */
sf_status sf_fleet_add(sf_fleet *fleet, size_t *s, sf_member *member);
/* Destroys the member, whatever the backend answers. */
sf_status sf_fleet_remove(sf_fleet *fleet, size_t s);

/* sf_fleet_advance() where a member whose mechanism breaks its rules is no failure of the fleet: sf_member_check() says
 * which it is. */
sf_status sf_fleet_advance_members(sf_fleet *fleet);

size_t sf_fleet_capacity(const sf_fleet *fleet);
sf_member *sf_fleet_member(sf_fleet *fleet, size_t s);     /* NULL where a place is free */
sf_member *const *sf_fleet_members(const sf_fleet *fleet); /* [capacity] */

/* Block 0 is the weights, the others the optimizer's moments. */
sf_status sf_fleet_read(const sf_fleet *fleet, size_t s, size_t block, float *values /* [size] */);

/* Puts a model where a checkpoint left it: after epoch last->epoch. */
sf_status sf_fleet_resume(sf_fleet *fleet, size_t s, const sf_epoch *last, size_t converged_epoch,
                          float *const *blocks /* [1 + moments] */);

/* Losses and accuracies of the weights as they are. */
sf_status sf_fleet_evaluate(sf_epoch *out, sf_fleet *fleet, size_t s);

#endif
