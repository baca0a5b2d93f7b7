/* The run store: a folder with runs.db (SQLite) and the checkpoints of its runs.
 *
 * A run's id is the hash of everything that changes its numbers. Its curve, its status and its checkpoint can never
 * disagree after a crash: the database names the valid checkpoint, and rows newer than it are computed again.
 *
 * Rows are sealed when they are written and verified when they are read: a call returns exactly what was written, or
 * SF_IO_ERROR with a sentence that names the run, what disagrees and what to do. */
#ifndef SEMFOCUS_STORE_H
#define SEMFOCUS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "semfocus/api.h"
#include "semfocus/attention.h"
#include "semfocus/fleet.h"
#include "semfocus/settings.h"
#include "semfocus/status.h"

SF_API_BEGIN

typedef struct sf_store sf_store;
typedef enum sf_store_access {
    SF_STORE_READ,
    SF_STORE_WRITE,
    SF_STORE_INSPECT, /* to read, even if the list of runs is damaged, which sf_store_check_list() reports */
    SF_STORE_MEND     /* to write, likewise; for sf_store_delete() */
} sf_store_access;

enum { SF_RUN_ID_SIZE = 17, SF_RUN_MESSAGE_SIZE = 512 };

typedef struct sf_stored_run {
    int64_t number; /* of the run within the store */
    char id[SF_RUN_ID_SIZE];
    char earlier_id[SF_RUN_ID_SIZE]; /* given by an earlier version, and used in its file names; empty: none */
    char task[SF_PATH_SIZE], attention[SF_SPELLING_SIZE];
    int64_t seed;
    char status[16];                         /* pending, running, done, diverged, failed */
    char message[SF_RUN_MESSAGE_SIZE];       /* why it failed, or empty */
    size_t epochs;                           /* rows of its curve */
    size_t converged_epoch;                  /* 0: not yet */
    double train_accuracy, heldout_accuracy; /* of the last row */
    size_t best_epoch;                       /* first row with the best held-out accuracy; 0: none */
    double best_accuracy;
    size_t diverged_epoch, diverged_step;
    size_t checkpoint_epoch; /* 0: none */
    size_t best_saved_epoch; /* of the best checkpoint; 0: none */
    uint64_t checkpoint_hash, best_hash, weights_hash;
    char isa[16];         /* of the session that trained it last; the numbers do not depend on it */
    size_t asked_epochs;  /* that the session was asked for; 0: not known */
    double asked_stop_at; /* training accuracy that ended it sooner; 0: none */
    uint64_t curve_seal, measures_seal, findings_seal, surfaces_seal; /* of its rows; the store verifies them */
} sf_stored_run;

/* A store opened for writing is created if it does not exist. */
sf_status sf_store_open(sf_store **out, const char *folder, sf_store_access access);
void sf_store_close(sf_store *store);
/* False: the store is of an earlier version, whose rows have no seals; only the ranges of values are checked. */
bool sf_store_is_sealed(const sf_store *store);

/* Calls `each` for every run, or those for which the SQL condition `where` (may be NULL or "") holds, oldest first. */
sf_status sf_store_each_run(sf_store *store, const char *where, void (*each)(void *context, const sf_stored_run *run),
                            void *context);
/* The ids alone, not verified: for callers that then look at the runs one by one. */
sf_status sf_store_each_id(sf_store *store, const char *where, void (*each)(void *context, const char *id),
                           void *context);
/* By id, by the id that an earlier version gave, or by an unambiguous prefix of either. */
sf_status sf_store_find(sf_stored_run *out, sf_store *store, const char *id);
sf_status sf_store_each_epoch(sf_store *store, const sf_stored_run *run,
                              void (*each)(void *context, const sf_epoch *row), void *context);
/* The settings a run was made with, and its environment as JSON text (release with free()). */
sf_status sf_store_config(sf_config *out, sf_store *store, const sf_stored_run *run);
/* The settings for a listing: also of runs whose plug-ins are not loaded, which cannot be computed with. */
sf_status sf_store_list_config(sf_config *out, sf_store *store, const sf_stored_run *run);
sf_status sf_store_environment(char **out, sf_store *store, const char *id);

enum { SF_RUN_PART_SIZE = 256 };
typedef struct sf_run_code {          /* the code of plug-ins that a run was trained with */
    uint64_t hash;                    /* of their files; 0: all parts of the run are built in */
    bool lacks_attention, lacks_task; /* not loaded: the run can be shown, but not computed with */
    char missing[SF_RUN_PART_SIZE];   /* the first part that is not loaded: "the selector near of the plug-in ..." */
} sf_run_code;
sf_status sf_store_code(sf_run_code *out, sf_store *store, const sf_stored_run *run);

/* Plain weights under their published names, of the last checkpoint or the best; "-" is standard output. */
sf_status sf_store_export_weights(sf_store *store, const sf_stored_run *run, bool best, const char *path);

/* The curve as CSV: epoch,tr-ce,tr-ac,va-ce,va-ac. */
sf_status sf_store_export_curve(sf_store *store, const sf_stored_run *run, const char *path);

/* Verifies that a run's curve and checkpoints agree: it has the epochs that were asked for, its rows are what was
 * written, so are its files, and evaluating the saved weights gives the row of their epoch bit by bit. SF_IO_ERROR with
 * a sentence if not. SF_UNSUPPORTED if everything else is right, but the run cannot be evaluated here: this machine
 * does not have its arithmetic (bf16 and tf32), or the code of a plug-in it uses is not loaded. */
sf_status sf_store_check(sf_store *store, const sf_stored_run *run);
/* The same for what belongs to no run: the database file, its tables, the list of runs. */
sf_status sf_store_check_list(sf_store *store);

/* Removes a run, its rows and its checkpoints, damaged or not, and repairs the list of runs. `id` is the id in the
 * store or an unambiguous prefix of it; *removed is the whole id. A run that a process is training is refused. */
sf_status sf_store_delete(char removed[SF_RUN_ID_SIZE], sf_store *store, const char *id);

/* The id a run of this task with these settings has; fills the settings with the task's recipe. It is the hash of the
 * numerics version, the data, and every setting that changes the run's numbers and is not at its default. */
sf_status sf_run_identify(char id[SF_RUN_ID_SIZE], char attention[SF_SPELLING_SIZE], sf_config *config,
                          const char *task);

SF_API_END

#endif
