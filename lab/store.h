/* The writing side of the run store, used by sessions. Calls on one store must not overlap. */
#ifndef SF_LAB_STORE_H
#define SF_LAB_STORE_H

#include <stdatomic.h>

#include "semfocus/measure.h"
#include "semfocus/store.h"

const char *sf_store_folder(const sf_store *store);
/* For the files that keep tables of their own in it. */
const struct sf_database *sf_store_database(const sf_store *store);
/* Refuses a store whose runs another numerics version computed. */
sf_status sf_store_check_numerics(const sf_store *store);
/* Waiting for a busy store ends when *stop is set; may be NULL. */
void sf_store_obey(sf_store *store, const atomic_int *stop);
/* Whether the folder is still the one that was opened: a store that was moved away must not get files. */
sf_status sf_store_check_place(const sf_store *store);

/* Between the two calls everything read is of one moment, and reading is faster. */
sf_status sf_store_freeze(const sf_store *store);
void sf_store_unfreeze(const sf_store *store);

/* The run of this whole id, if there is one. */
sf_status sf_store_look_up(sf_stored_run *out, bool *found, sf_store *store, const char *id);
/* The run's entry, made as `pending` if it is new. */
sf_status sf_store_enter(sf_stored_run *out, sf_store *store, const char *id, const char *task, const char *attention,
                         const sf_config *config);

/* Rows after the checkpoint are dropped, the run is `running` under this environment (JSON) and instruction set. */
sf_status sf_store_begin(sf_store *store, const sf_stored_run *run, const char *isa, const char *environment);
/* Forgets checkpoint and curve: the run starts anew. */
sf_status sf_store_begin_anew(sf_store *store, const sf_stored_run *run);
/* Drops the rows that no checkpoint backs. */
sf_status sf_store_drop_unbacked(sf_store *store, const sf_stored_run *run);
sf_status sf_store_append(sf_store *store, const sf_stored_run *run, const sf_epoch *row, double seconds);
/* The row of an epoch together with what was measured after it, all of it or nothing. */
sf_status sf_store_append_measured(sf_store *store, const sf_stored_run *run, const sf_epoch *row, double seconds,
                                   const sf_curve_point *points /* [count] */, size_t count);
/* What was measured before the first epoch. */
sf_status sf_store_append_measures(sf_store *store, const sf_stored_run *run,
                                   const sf_curve_point *points /* [count] */, size_t count);

typedef struct sf_saved { /* checkpoints that are on the disk, whole and synced */
    size_t epoch, best_epoch;
    uint64_t hash, best_hash, weights_hash;
} sf_saved;
/* Makes them the run's valid ones; durable on return. */
sf_status sf_store_saved(sf_store *store, const sf_stored_run *run, const sf_saved *saved);

/* Removes every checkpoint file of a run but its valid ones: what a crash left behind. */
void sf_store_sweep(const sf_store *store, const char *id, size_t epoch, size_t best_epoch);

sf_status sf_store_finish(sf_store *store, const sf_stored_run *run, const char *status, const char *message,
                          size_t diverged_epoch, size_t diverged_step);

/* Whether the run already has what these settings ask for, so that nothing is left to train. Only what a checkpoint
 * backs counts, and only while its files are there. */
sf_status sf_store_satisfies(bool *out, sf_store *store, const sf_stored_run *run, const sf_config *config);

/* First epoch, up to `epochs`, with at least this training accuracy; 0: none. */
sf_status sf_store_first_epoch_at(size_t *out, sf_store *store, const sf_stored_run *run, double accuracy,
                                  size_t epochs);
sf_status sf_store_row(sf_epoch *out, sf_store *store, const sf_stored_run *run, size_t epoch);

/* Paths of checkpoint files: of the last state, and of the best weights. */
enum { SF_CHECKPOINT_PATH_SIZE = SF_PATH_SIZE + 96 };
void sf_store_checkpoint_path(char out[SF_CHECKPOINT_PATH_SIZE], const sf_store *store, const char *id, bool best,
                              size_t epoch);

/* The settings of a run whose data still is what it was trained on. */
sf_status sf_run_trained_config(sf_config *out, sf_store *store, const sf_stored_run *run);

#endif
