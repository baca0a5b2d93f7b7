/* One run under way: its place in a fleet, and saving and loading its checkpoints. */
#ifndef SF_STORE_RUN_STATE_H
#define SF_STORE_RUN_STATE_H

#include <time.h>

#include "store/store.h"
#include "train/fleet.h"

typedef struct sf_run_state {
    sf_fleet *fleet; /* not owned */
    size_t s;        /* the run's place in it */
    sf_stored_run run;
    size_t block_count;
    float *blocks[SF_MOST_BLOCKS]; /* copies of weights and moments, to be written to or read from a file */
    float *best;                   /* weights of the best epoch so far */
    size_t best_epoch;
    double best_accuracy;
    sf_saved saved;
} sf_run_state;

static inline sf_member *sf_run_state_member(const sf_run_state *state) {
    return sf_fleet_member(state->fleet, state->s);
}

sf_status sf_run_state_open(sf_run_state *out, sf_fleet *fleet, size_t s, const sf_stored_run *run);
void sf_run_state_close(sf_run_state *state);

/* Loads the state of the run's checkpoint, if it has one. */
sf_status sf_run_state_load(sf_run_state *state, sf_store *store);

/* After each epoch: remembers the weights if it was the best. */
sf_status sf_run_state_note(sf_run_state *state);

/* Writes the files only; sf_store_saved() then makes them valid. */
sf_status sf_run_state_save(sf_run_state *state, const sf_store *store);

#endif
