/* Internals of the store, for the files that read and write its tables.
 *
 * A run is changed in one transaction: sf_run_change() reads it and verifies its seal, the caller writes rows and
 * updates the run's summary of them, sf_run_changed() writes that, seals the run anew and commits. So damage is never
 * sealed over, and no reader sees rows without their seal. */
#ifndef SF_STORE_STORE_INSIDE_H
#define SF_STORE_STORE_INSIDE_H

#include <sys/types.h>

#include "store/database.h"
#include "store/seal.h"
#include "store/store.h"

struct sf_store {
    char folder[SF_PATH_SIZE], path[SF_PATH_SIZE + 16];
    sf_database db;
    dev_t device;
    ino_t inode, database_inode; /* of the folder, and of runs.db in it */
    const atomic_int *stop;
    bool sealed;          /* false: of an earlier version, whose rows have no seals */
    bool stands_in;       /* of an earlier schema, not converted: runs are sealed under their earlier ids */
    bool has_earlier_ids; /* some run still has its earlier id, because its data was missing */
    bool has_labels;      /* the database has a table of them; one of an earlier schema has an empty stand-in */
    bool shows_archived;
    bool frozen;
    struct sf_known_findings *findings; /* of the run that was asked for last */
};

/* Runs a batch of SQL without values. */
sf_status sf_store_execute(const sf_store *store, const char *sql);

/* What is sealed, then the seal. */
#define SF_RUN_COLUMNS                                                                                                 \
    "number, id, task, attention, seed, status, message, epochs, converged_epoch, train_accuracy, heldout_accuracy, "  \
    "best_epoch, best_accuracy, diverged_epoch, diverged_step, checkpoint_epoch, checkpoint_hash, best_saved_epoch, "  \
    "best_hash, weights, isa, settings, environment, asked_epochs, asked_stop_at, curve_seal, measures_seal, "         \
    "findings_seal, surfaces_seal, earlier_id, seal"
enum { SF_RUN_SEALED_COLUMNS = 30, SF_RUN_SEALED_COLUMNS_5 = 29 }; /* in schema 5 all but earlier_id */

/* A row of these columns, verified. */
sf_status sf_run_read(sf_stored_run *out, const sf_store *store, sqlite3_stmt *row);
sf_status sf_run_read_number(sf_stored_run *out, bool *found, const sf_store *store, int64_t number);

/* Runs are numbered 1, 2, ... as they are entered, or by their place in a plan. A run that came from another store by
 * merging has its number there in the upper bits, its rank, and a hash of its id in the lower ones. */
enum { SF_NUMBER_SHIFT = 32 };
bool sf_run_is_merged(int64_t number);
int64_t sf_run_rank(int64_t number);
sf_status sf_run_is_number_taken(bool *out, const sf_store *store, int64_t number);

void sf_column_text(char *out, size_t size, sqlite3_stmt *row, int column);
/* 64 bits in hexadecimal digits. */
uint64_t sf_column_hash(sqlite3_stmt *row, int column);
/* Numbers below 0 are 0. */
size_t sf_column_count(sqlite3_stmt *row, int column);

/* The settings of a run from the JSON of its row. */
sf_status sf_run_settings_read(sf_config *out, const char *id, const char *task, const char *text);
/* Within a transaction: sets `id` in the run's row and in the list of runs; the row must then be sealed. */
sf_status sf_run_rename(const sf_store *store, int64_t number, const char *from, const char *id);
/* The id under which the run is sealed in the list. */
const char *sf_run_listed_id(const sf_store *store, const sf_stored_run *run);

/* The error if the beginning of an id does not name exactly one run. */
sf_status sf_run_found_once(const char *id, bool found, bool another);

sf_status sf_run_change(sf_stored_run *now, sf_store *store, int64_t number);
/* Commits if `status` is SF_OK, else undoes everything; returns what went wrong first. */
sf_status sf_run_changed(sf_store *store, const sf_stored_run *now, sf_status status);
/* Computes the seal of a numbered row from the first columns that `select` gives of it, and writes it by `update`. */
sf_status sf_row_seal(const sf_store *store, sf_seal_kind kind, int columns, const char *select, const char *update,
                      int64_t number);
sf_status sf_run_seal(const sf_store *store, int64_t number);

/* Within a change of the run: deletes the rows that no checkpoint backs. */
sf_status sf_run_drop_unbacked(sf_store *store, sf_stored_run *now);

/* The run at the moment at which the caller then reads its rows; *frozen: the store must be unfrozen afterwards. Inside
 * a freeze, `run` must have been read there. */
sf_status sf_run_now(sf_stored_run *now, bool *frozen, sf_store *store, const sf_stored_run *run);

/* "run ID: WHAT; FIX" */
sf_status sf_run_damaged(const sf_store *store, const char *id, const char *what, ...)
    __attribute__((format(printf, 3, 4)));

/* Checks the rows of a run against its seals: curve, measures, findings, surfaces with their points. `run` must have
 * been read at the same moment. */
sf_status sf_run_verify_rows(sf_store *store, const sf_stored_run *run);
sf_status sf_measures_verify(sf_store *store, const sf_stored_run *run);
sf_status sf_findings_verify(sf_store *store, const sf_stored_run *run);
sf_status sf_surfaces_verify(sf_store *store, const sf_stored_run *run);

/* Seals everything as it is found: the rows of a store that had no seals. Within a transaction. */
sf_status sf_store_seal_all(sf_store *store);
/* The same for one run and what belongs to it; but for the list of runs. */
sf_status sf_run_seal_all(const sf_store *store, int64_t number);

uint64_t sf_epoch_seal(int64_t run, const sf_epoch *row);
/* The curve, verified: [run->epochs] rows. `run` must have been read at the same moment. Release *rows. */
sf_status sf_curve_read(sf_epoch **rows, sf_store *store, const sf_stored_run *run);

/* Whether there should be rows, according to the runs: a table that lost its rows looks empty. */
#define SF_ANY_MEASURES                                                                                                \
    "SELECT 1 FROM runs WHERE measures_seal <> 0 OR (seal IS NULL AND EXISTS (SELECT 1 FROM measures)) LIMIT 1"
#define SF_ANY_SURFACES                                                                                                \
    "SELECT 1 FROM runs WHERE surfaces_seal <> 0 OR (seal IS NULL AND EXISTS (SELECT 1 FROM surfaces)) LIMIT 1"

/* What tells the surfaces of a run apart; the sum in the run's row shows which ones exist. */
#define SF_SURFACE_KEY "number, run, weights, grid, samples, seed, extent"
sf_status sf_surface_seal(const sf_store *store, int64_t number);
sf_status sf_surface_key_seal(uint64_t *out, const sf_store *store, int64_t number);
/* Within a transaction in which points with these seals were added to it. */
sf_status sf_surface_add_points_seal(const sf_store *store, int64_t number, uint64_t added);

/* Checks the list of runs, in the table's index, and the tables' definitions against their seals. */
sf_status sf_list_verify(const sf_store *store);
uint64_t sf_listed_seal(int64_t number, const void *id, size_t length);
sf_status sf_list_damaged(const sf_store *store);
/* The stored seal of the list: runs entered, minus runs deleted. */
sf_status sf_list_read(uint64_t *seal, const sf_store *store);
sf_status sf_list_write(const sf_store *store, uint64_t seal);
/* The stored seal of the labels (store/labels.h). */
sf_status sf_labels_seal_read(uint64_t *seal, const sf_store *store);
sf_status sf_labels_seal_write(const sf_store *store, uint64_t seal);
/* Sets the list to what the table holds now. */
sf_status sf_list_seal(const sf_store *store);

#endif
