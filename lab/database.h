/* A thin layer over SQLite: statements with bound values, errors as sentences. */
#ifndef SF_LAB_DATABASE_H
#define SF_LAB_DATABASE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct sf_database {
    sqlite3 *handle;
    const char *path; /* for messages */
} sf_database;

/* The last error of the database as a status with a sentence. */
sf_status sf_database_error(const sf_database *db);

/* Prepares and binds. `kinds` has one letter per value: i int64_t, z size_t (0 becomes NULL), r double, t text (NULL
 * too), h uint64_t as hexadecimal text. */
sf_status sf_database_prepare(sqlite3_stmt **out, const sf_database *db, const char *sql, const char *kinds, ...);
/* One row, or the end: *row says which. The caller finalizes. */
sf_status sf_database_step(const sf_database *db, sqlite3_stmt *statement, bool *row);
/* Prepares, binds, runs to the end. */
sf_status sf_database_run(const sf_database *db, const char *sql, const char *kinds, ...);

sf_status sf_database_begin(const sf_database *db);
/* Commits if `status` is SF_OK, else rolls back; returns what went wrong first. */
sf_status sf_database_end(const sf_database *db, sf_status status);

#endif
