/* A fleet: models of one shape trained together. A backend advances all of them by one epoch and evaluates them. One
 * model is a fleet of size 1. A model gets the same bits alone or among others, and with any number of threads.
 *
 *   sf_fleet *fleet;
 *   sf_fleet_create(&fleet, "even-pairs", configs, count, NULL);   configs as from sf_config_set; recipes are filled in
 *   while (!sf_fleet_finished(fleet)) sf_fleet_advance(fleet);
 *   sf_fleet_result(fleet, 0).converged_epoch
 *   sf_fleet_destroy(fleet); */
#ifndef SEMFOCUS_FLEET_H
#define SEMFOCUS_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "semfocus/api.h"
#include "semfocus/attention.h"
#include "semfocus/settings.h"
#include "semfocus/status.h"

SF_API_BEGIN

typedef struct sf_fleet sf_fleet;

#define SF_CONVERGED_AT 95.0 /* percent of the training set */

typedef enum sf_run_status {
    SF_RUN_RUNNING,
    SF_RUN_DONE,    /* all epochs */
    SF_RUN_STOPPED, /* reached --stop-at */
    SF_RUN_DIVERGED /* a loss or gradient was not finite */
} sf_run_status;

typedef struct sf_epoch { /* after an epoch, without dropout, over the whole sets; accuracies in percent */
    size_t epoch;         /* from 1; 0 before the first */
    double train_loss, train_accuracy, heldout_loss, heldout_accuracy;
    double seconds; /* duration, if it was read from a store */
} sf_epoch;

typedef struct sf_result {
    sf_run_status status;
    sf_epoch last;
    size_t converged_epoch;               /* first epoch with training accuracy >= 95 %; 0: not yet */
    size_t diverged_epoch, diverged_step; /* both from 1; 0: not diverged. Step 0: found in evaluation */
    size_t parameters, positions;         /* of the model; positions include padding and globals */
    size_t train_count, heldout_count;    /* sequences */
    char attention[SF_SPELLING_SIZE];     /* as resolved: a mechanism that keeps every key is full */
} sf_result;

/* Polled or called during an epoch; every member may be NULL. */
typedef struct sf_watch {
    const sf_stop_flag *stop; /* not 0: give up the current epoch */
    /* Reports the progress of model s. Called from any thread: after every training step, or less often or never if
     * that suits the device. */
    void (*on_step)(void *context, size_t s, size_t step, size_t steps);
    void *context;
} sf_watch;

/* Uses only threads and device of `execution`; NULL: the defaults. */
sf_status sf_fleet_create(sf_fleet **out, const char *task, const sf_config *configs /* [count] */, size_t count,
                          const sf_execution *execution);
/* One epoch for every running model. SF_INTERRUPTED if the stop flag of the watch was set: each model is then as it was
 * after its last complete epoch. After any other failure the fleet can no longer be used. */
sf_status sf_fleet_advance(sf_fleet *fleet);
void sf_fleet_watch(sf_fleet *fleet, const sf_watch *watch); /* must outlive the fleet */
bool sf_fleet_finished(const sf_fleet *fleet);
size_t sf_fleet_count(const sf_fleet *fleet);
sf_result sf_fleet_result(const sf_fleet *fleet, size_t s);
/* Hash of the current weights: equal iff every bit is equal. */
sf_status sf_fleet_weights_hash(uint64_t *out, const sf_fleet *fleet, size_t s);
const sf_config *sf_fleet_config(const sf_fleet *fleet, size_t s); /* with the task's recipe */
const char *sf_fleet_backend(const sf_fleet *fleet);               /* cpu, even if another device was asked for */
void sf_fleet_destroy(sf_fleet *fleet);

/* Whether this machine has the device; SF_UNSUPPORTED with a sentence if not. */
sf_status sf_device_check(sf_device device);
/* Backends by index, for listings; false past the end. */
typedef struct sf_backend_info {
    const char *name, *summary;
} sf_backend_info;
bool sf_backend_describe(sf_backend_info *out, size_t i);

SF_API_END

#endif
