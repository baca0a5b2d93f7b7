/* Seals of a whole store: verifying the list of runs and the rows of a run, sealing rows that had no seals. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "store/schema.h"

sf_status sf_run_damaged(const sf_store *store, const char *id, const char *what, ...) {
    char text[256];
    va_list values;
    va_start(values, what);
    vsnprintf(text, sizeof text, what, values);
    va_end(values);
    return sf_fail(SF_IO_ERROR,
                   "run %s: %s; restore a copy of '%s/runs.db', or delete the run with 'semfocus delete %s' and train "
                   "it again",
                   id, text, store->folder, id);
}

uint64_t sf_listed_seal(int64_t number, const void *id, size_t length) {
    const uint64_t seal = sf_seal_word(sf_seal_start(SF_SEAL_LISTED), (uint64_t)number);
    return sf_seal_end(sf_seal_text(seal, id, length));
}

sf_status sf_list_damaged(const sf_store *store) {
    return sf_fail(SF_IO_ERROR,
                   "the store '%s' is damaged (its list of runs is not what was written: a run is missing or changed); "
                   "restore a copy of runs.db; 'semfocus check' lists the damaged runs",
                   store->folder);
}

/* Through the index that runs are looked up by: in order, and each with its number. */
sf_status sf_list_verify(const sf_store *store) {
    sqlite3_stmt *statement;
    uint64_t written, found = 0;
    SF_TRY(sf_schema_verify(store));
    SF_TRY(sf_list_read(&written, store));
    SF_TRY(sf_database_prepare(&statement, &store->db,
                               "SELECT id, number FROM main.runs INDEXED BY sqlite_autoindex_runs_1 ORDER BY id", ""));
    char before[SF_RUN_ID_SIZE] = "";
    bool row = true, ordered = true;
    sf_status status;
    while ((status = sf_database_step(&store->db, statement, &row)) == SF_OK && row) {
        char id[SF_RUN_ID_SIZE];
        sf_column_text(id, sizeof id, statement, 0);
        ordered = ordered && strcmp(before, id) < 0;
        memcpy(before, id, sizeof before);
        found += sf_listed_seal(sqlite3_column_int64(statement, 1), sqlite3_column_text(statement, 0),
                                (size_t)sqlite3_column_bytes(statement, 0));
    }
    sf_database_release(&store->db, statement);
    SF_TRY(status);
    return ordered && found == written ? SF_OK : sf_list_damaged(store);
}

sf_status sf_run_verify_rows(sf_store *store, const sf_stored_run *run) {
    sf_epoch *rows;
    SF_TRY(sf_curve_read(&rows, store, run));
    sf_release(rows);
    SF_TRY(sf_measures_verify(store, run));
    SF_TRY(sf_findings_verify(store, run));
    return sf_surfaces_verify(store, run);
}

/* The sum of the seals of a run's rows in one table. */
static sf_status sum_rows(uint64_t *out, const sf_store *store, const char *sql, sf_seal_kind kind, int64_t number) {
    sqlite3_stmt *statement;
    SF_TRY(sf_database_prepare(&statement, &store->db, sql, "i", number));
    bool row = true;
    sf_status status;
    *out = 0;
    while ((status = sf_database_step(&store->db, statement, &row)) == SF_OK && row)
        *out += sf_seal_columns(kind, statement, sqlite3_column_count(statement));
    sf_database_release(&store->db, statement);
    return status;
}

/* The next number after this one; 0: there is none. `of`: whose rows, or 0. */
static sf_status next_number(int64_t *number, const sf_store *store, const char *sql, int64_t of) {
    sqlite3_stmt *statement;
    bool found = false;
    SF_TRY(sf_database_prepare(&statement, &store->db, sql, of != 0 ? "ii" : "i", *number, of));
    const sf_status status = sf_database_step(&store->db, statement, &found);
    *number = found ? sqlite3_column_int64(statement, 0) : 0;
    sf_database_release(&store->db, statement);
    return status;
}

static sf_status seal_surface(const sf_store *store, int64_t number) {
    uint64_t points;
    SF_TRY(sum_rows(&points, store, "SELECT * FROM surface_points WHERE surface = ?", SF_SEAL_POINT, number));
    SF_TRY(sf_database_run(&store->db, "UPDATE surfaces SET points_seal = ? WHERE number = ?", "ii", (int64_t)points,
                           number));
    return sf_surface_seal(store, number);
}

static sf_status seal_each(const sf_store *store, const char *next, int64_t of,
                           sf_status (*seal)(const sf_store *store, int64_t number)) {
    int64_t number = 0;
    for (;;) {
        SF_TRY(next_number(&number, store, next, of));
        if (number == 0) return SF_OK;
        SF_TRY(seal(store, number));
    }
}

sf_status sf_run_seal_all(const sf_store *store, int64_t number) {
    SF_TRY(seal_each(store, "SELECT number FROM surfaces WHERE number > ? AND run = ? ORDER BY number LIMIT 1", number,
                     seal_surface));
    uint64_t curve, measures, findings, surfaces;
    SF_TRY(sum_rows(&curve, store, "SELECT * FROM epochs WHERE run = ?", SF_SEAL_EPOCH, number));
    SF_TRY(sum_rows(&measures, store, "SELECT * FROM measures WHERE run = ?", SF_SEAL_MEASURE, number));
    SF_TRY(sum_rows(&findings, store, "SELECT * FROM findings WHERE run = ?", SF_SEAL_FINDING, number));
    SF_TRY(sum_rows(&surfaces, store, "SELECT " SF_SURFACE_KEY " FROM surfaces WHERE run = ?", SF_SEAL_LISTED, number));
    SF_TRY(sf_database_run(&store->db,
                           "UPDATE runs SET curve_seal = ?, measures_seal = ?, findings_seal = ?, surfaces_seal = ?"
                           " WHERE number = ?",
                           "iiiii", (int64_t)curve, (int64_t)measures, (int64_t)findings, (int64_t)surfaces, number));
    return sf_run_seal(store, number);
}

sf_status sf_list_seal(const sf_store *store) {
    sqlite3_stmt *statement;
    SF_TRY(sf_database_prepare(&statement, &store->db, "SELECT number, id FROM runs NOT INDEXED", ""));
    uint64_t listed = 0;
    bool row = true;
    sf_status status;
    while ((status = sf_database_step(&store->db, statement, &row)) == SF_OK && row)
        listed += sf_listed_seal(sqlite3_column_int64(statement, 0), sqlite3_column_text(statement, 1),
                                 (size_t)sqlite3_column_bytes(statement, 1));
    sf_database_release(&store->db, statement);
    return status == SF_OK ? sf_list_write(store, listed) : status;
}

sf_status sf_store_seal_all(sf_store *store) {
    SF_TRY(seal_each(store, "SELECT number FROM runs WHERE number > ? ORDER BY number LIMIT 1", 0, sf_run_seal_all));
    return sf_list_seal(store);
}
