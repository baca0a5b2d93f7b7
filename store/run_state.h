/* One run under way: its fleet of one, and its way to and from the checkpoints of the store. */
#ifndef SF_STORE_RUN_STATE_H
#define SF_STORE_RUN_STATE_H

#include <time.h>

#include "store/store.h"
#include "train/fleet.h"

enum { SF_MOST_BLOCKS = 3 };

typedef struct sf_run_state {
    sf_fleet *fleet;
    sf_stored_run run;
    size_t block_count;
    float *blocks[SF_MOST_BLOCKS]; /* copies of weights and moments, to be written to or read from a file */
    float *best;                   /* weights of the best epoch so far */
    size_t best_epoch;
    double best_accuracy;
    sf_saved saved;
} sf_run_state;

static inline sf_precision sf_run_state_precision(const sf_run_state *state) {
    return (sf_precision)sf_fleet_config(state->fleet, 0)->precision;
}

/* SF_INTERRUPTED once *stop is not 0. execution may be NULL (the defaults), and stop. */
sf_status sf_run_state_open(sf_run_state *out, const char *task, const sf_config *config, const sf_execution *execution,
                            const sf_stored_run *run, const atomic_int *stop);
void sf_run_state_close(sf_run_state *state);

/* Takes the state after the run's checkpoint, if it has one. */
sf_status sf_run_state_load(sf_run_state *state, sf_store *store);

/* After each epoch: remembers the weights if it was the best. */
void sf_run_state_note(sf_run_state *state);

/* Writes the files only; sf_store_saved() then makes them valid. */
sf_status sf_run_state_save(sf_run_state *state, const sf_store *store);

#endif
