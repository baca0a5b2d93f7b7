/* One run under way: its place in a fleet, and what its checkpoints hold. */
#ifndef SF_STORE_RUN_STATE_H
#define SF_STORE_RUN_STATE_H

#include "io/safetensors.h"
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

/* What a run continues from: its last checkpoint, and what its rows say about the epochs up to it. */
typedef struct sf_continuation {
    sf_safetensors *checkpoint; /* NULL: the run begins */
    sf_epoch last, best;        /* the rows of the last state and of the best weights; epoch 0: there is none */
    size_t converged_epoch;
} sf_continuation;

sf_status sf_continuation_read(sf_continuation *out, sf_store *store, const sf_stored_run *run);
void sf_continuation_close(sf_continuation *from);

/* Puts the run's model where the checkpoint left it. */
sf_status sf_run_state_continue(sf_run_state *state, const sf_continuation *from);

/* After each epoch: remembers the weights if it was the best. */
sf_status sf_run_state_note(sf_run_state *state);

/* The files of a checkpoint: the last state, and the best weights where they are new. */
typedef struct sf_checkpoint_files {
    sf_saved saved; /* with them */
    unsigned char *last, *best;
    size_t last_size, best_size; /* 0: no new file */
} sf_checkpoint_files;

sf_status sf_run_state_collect(sf_checkpoint_files *out, sf_run_state *state);
void sf_checkpoint_files_close(sf_checkpoint_files *files);
/* Writes them, whole and synced; sf_store_saved() then makes them valid. */
sf_status sf_checkpoint_files_write(const sf_checkpoint_files *files, const sf_store *store, const sf_stored_run *run);

#endif
