/* One model of a fleet: its settings, its shape, its data and its progress. The backend owns the weights. */
#ifndef SF_TRAIN_MEMBER_H
#define SF_TRAIN_MEMBER_H

#include "model/model.h"
#include "semfocus/fleet.h"
#include "train/data.h"

typedef struct sf_member {
    sf_config config; /* with the task's recipe */
    sf_model model;
    const sf_run_data *data;
    sf_result result; /* status decides whether the member takes part in the next epoch */
    struct sf_shared_data *shared;
} sf_member;

/* Fills in the recipe, samples or reads the data, resolves the mechanism and sizes the model. Data that one of the
 * others already has is shared with it (they must be of the same thread); others may hold NULL. SF_INTERRUPTED once
 * *stop is not 0; stop may be NULL. */
sf_status sf_member_create(sf_member **out, const char *task, const sf_config *config,
                           sf_member *const *others /* [count] */, size_t count, const atomic_int *stop);
/* The same on data that is there already, and becomes the member's. */
sf_status sf_member_create_on(sf_member **out, const char *task, const sf_config *config, sf_run_data *data);
void sf_member_destroy(sf_member *member); /* NULL is legal */

/* The task as it was given. */
const char *sf_member_task(const sf_member *member);

/* Of both sets. */
uint64_t sf_member_data_hash(const sf_member *member);

/* Whether the parts of its mechanism followed their rules; a plug-in's may not. If not, the member cannot continue. */
sf_status sf_member_check(const sf_member *member);

/* After an epoch: has it converged, is it done? */
void sf_member_settle(sf_member *member);

#endif
