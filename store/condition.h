/* A user's SQL condition on runs: it may read the store and compute, for a limited time, and nothing else. */
#ifndef SF_STORE_CONDITION_H
#define SF_STORE_CONDITION_H

#include "store/database.h"

enum { SF_CONDITION_SECONDS = 10 }; /* the help of --where names it, too */

typedef struct sf_condition {
    const sf_database *db;
    const char *where;   /* as the user wrote it */
    char *text;          /* as SQLite reads it */
    double began, spent; /* when the current step began; seconds of the steps before it */
    int length_before;   /* SQLite's limit on the length of a value */
    bool limited, late;
    bool reads_rows; /* of other tables than runs */
} sf_condition;

/* Prepares `select` FROM the runs, as store/described_runs.h has them, WHERE (where) `order`; NULL or "" selects every
 * run, without a time limit. Text that is not one valid condition is SF_BAD_INPUT with SQLite's reason. Until
 * sf_condition_close(), only this statement may use the database. */
sf_status sf_condition_open(sqlite3_stmt **out, sf_condition *condition, const sf_database *db, const char *select,
                            const char *where, const char *order);
/* The next row; *row false: there is none. SF_BAD_INPUT where the condition cannot be computed or takes too long. */
sf_status sf_condition_step(sf_condition *condition, sqlite3_stmt *statement, bool *row);
void sf_condition_close(sf_condition *condition, sqlite3_stmt *statement);

#endif
