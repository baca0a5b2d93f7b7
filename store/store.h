/* The writing side of the run store, used by sessions. Calls on one store must not overlap. */
#ifndef SF_STORE_STORE_H
#define SF_STORE_STORE_H

#include <stdatomic.h>

#include "semfocus/measure.h"
#include "semfocus/store.h"

const char *sf_store_folder(const sf_store *store);
/* For the files that keep tables of their own in it. */
const struct sf_database *sf_store_database(const sf_store *store);
/* The numerics version of its runs. */
sf_status sf_store_numerics(int64_t *out, const sf_store *store);
/* Refuses a store whose runs another numerics version computed. */
sf_status sf_store_check_numerics(const sf_store *store);
/* Waiting for a busy store ends when *stop is set; may be NULL. */
void sf_store_obey(sf_store *store, const atomic_int *stop);
/* Whether the folder is still the one that was opened: a store that was moved away must not get files. */
sf_status sf_store_check_place(const sf_store *store);
/* After a failure: whether the store is still there and takes another checkpoint. If not, no run can go on. */
sf_status sf_store_check_room(const sf_store *store);

/* Between the two calls, all reads see the store at one moment, and reading is faster. */
sf_status sf_store_freeze(sf_store *store);
void sf_store_unfreeze(sf_store *store);

/* The run with this complete id, if there is one. */
sf_status sf_store_look_up(sf_stored_run *out, bool *found, sf_store *store, const char *id);
/* The run's entry, made as `pending` if it is new. */
sf_status sf_store_enter(sf_stored_run *out, sf_store *store, const char *id, const char *task, const char *attention,
                         const sf_config *config);
/* A new one under this number if that is free; 0: under the next one. */
sf_status sf_store_enter_at(sf_stored_run *out, sf_store *store, const char *id, const char *task,
                            const char *attention, const sf_config *config, size_t number);

/* Marks the run as `running`, with these settings as its goal, under this environment (JSON) and instruction set. Rows
 * that no checkpoint backs stay until epochs that are computed again replace them. */
sf_status sf_store_begin(sf_store *store, const sf_stored_run *run, const sf_config *config, const char *isa,
                         const char *environment);
/* The row of the next epoch, or one that takes the place of an epoch's row that no checkpoint backs. */
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
void sf_store_sweep(const sf_store *store, const sf_stored_run *run, size_t epoch, size_t best_epoch);
/* The files that the store names as the run's checkpoints. *gone: one of them does not exist, in a folder that can be
 * read. Any other problem with them or their folder is SF_IO_ERROR with the reason. */
sf_status sf_store_look_for_files(bool *gone, const sf_store *store, const sf_stored_run *run);

typedef struct sf_ending {
    const char *status, *message;
    size_t diverged_epoch, diverged_step;
} sf_ending;
sf_status sf_store_finish(sf_store *store, const sf_stored_run *run, const sf_ending *ending);
/* The same for a run that has what these settings ask for; rows after its checkpoint are deleted. */
sf_status sf_store_complete(sf_store *store, const sf_stored_run *run, const sf_config *config,
                            const sf_ending *ending);

/* Whether the run already has what these settings ask for, so that nothing is left to train. Only what a checkpoint
 * backs counts. */
sf_status sf_store_satisfies(bool *out, sf_store *store, const sf_stored_run *run, const sf_config *config);

/* The whole curve, [*count] rows; release *rows. */
sf_status sf_store_curve(sf_epoch **rows, size_t *count, sf_store *store, const sf_stored_run *run);
/* First epoch, up to `epochs`, with at least this training accuracy; 0: none. */
sf_status sf_store_first_epoch_at(size_t *out, sf_store *store, const sf_stored_run *run, double accuracy,
                                  size_t epochs);
sf_status sf_store_row(sf_epoch *out, sf_store *store, const sf_stored_run *run, size_t epoch);

/* Paths of checkpoint files: of the last state, and of the best weights. */
enum { SF_CHECKPOINT_PATH_SIZE = SF_PATH_SIZE + 96 };
void sf_store_checkpoint_path(char out[SF_CHECKPOINT_PATH_SIZE], const sf_store *store, const sf_stored_run *run,
                              bool best, size_t epoch);

/* The settings of a run whose data still is what it was trained on. */
sf_status sf_run_trained_config(sf_config *out, sf_store *store, const sf_stored_run *run);

#endif
