/* A thin layer over SQLite: statements with bound values, errors as sentences. */
#ifndef SF_STORE_DATABASE_H
#define SF_STORE_DATABASE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct sf_database {
    sqlite3 *handle;
    const char *path;               /* for messages */
    struct sf_kept_statement *kept; /* prepared ones, for reuse */
} sf_database;

/* `file` is opened with SQLite's flags; calls on one database must not overlap. */
sf_status sf_database_open(sf_database *db, const char *file, int flags);
void sf_database_close(sf_database *db);

/* The last error of the database as a status with a sentence. */
sf_status sf_database_error(const sf_database *db);

/* Prepares and binds. `sql` is a literal: equal addresses mean equal statements. `kinds` has one letter per value: i
 * int64_t, z size_t (0 becomes NULL), r double, t text (NULL too), h uint64_t as hexadecimal text. */
sf_status sf_database_prepare(sqlite3_stmt **out, const sf_database *db, const char *sql, const char *kinds, ...);
/* One row, or the end: *row says which. */
sf_status sf_database_step(const sf_database *db, sqlite3_stmt *statement, bool *row);
void sf_database_release(const sf_database *db, sqlite3_stmt *statement);
/* Prepares, binds, runs to the end. */
sf_status sf_database_run(const sf_database *db, const char *sql, const char *kinds, ...);

/* Whether a SELECT without values gives any row. */
sf_status sf_database_any(bool *found, const sf_database *db, const char *sql);

sf_status sf_database_begin(const sf_database *db);
/* Commits if `status` is SF_OK, else rolls back; returns what went wrong first. */
sf_status sf_database_end(const sf_database *db, sf_status status);

#endif
