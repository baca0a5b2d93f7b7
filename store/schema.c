#include "store/schema.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/version.h"
#include "store/new_ids.h"

#define FACTS "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);"
#define RUNS                                                                                                           \
    "number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, task TEXT NOT NULL, attention TEXT NOT NULL,"                \
    " seed INTEGER NOT NULL, status TEXT NOT NULL, message TEXT, epochs INTEGER NOT NULL DEFAULT 0,"                   \
    " converged_epoch INTEGER, train_accuracy REAL, heldout_accuracy REAL, best_epoch INTEGER, best_accuracy REAL,"    \
    " diverged_epoch INTEGER, diverged_step INTEGER, checkpoint_epoch INTEGER, checkpoint_hash TEXT,"                  \
    " best_saved_epoch INTEGER, best_hash TEXT, weights TEXT, isa TEXT, settings TEXT NOT NULL, environment TEXT"
#define EPOCHS                                                                                                         \
    "CREATE TABLE epochs ("                                                                                            \
    "  run INTEGER NOT NULL REFERENCES runs(number), epoch INTEGER NOT NULL, tr_ce REAL NOT NULL,"                     \
    "  tr_ac REAL NOT NULL,"                                                                                           \
    "  va_ce REAL NOT NULL, va_ac REAL NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (run, epoch)) WITHOUT ROWID;"
/* quantiles at 0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 100 %; block -1: all blocks; NULL: not defined */
#define MEASURES                                                                                                       \
    "CREATE TABLE measures ("                                                                                          \
    "  run INTEGER NOT NULL REFERENCES runs(number), epoch INTEGER NOT NULL, block INTEGER NOT NULL,"                  \
    "  measure TEXT NOT NULL, q0 REAL, q1 REAL, q5 REAL, q10 REAL, q25 REAL, q50 REAL, q75 REAL, q90 REAL, q95 REAL,"  \
    "  q99 REAL, q100 REAL, PRIMARY KEY (run, epoch, block, measure)) WITHOUT ROWID;"
/* Loss surfaces; a loss that is not finite is NULL. */
#define SURFACES                                                                                                       \
    "number INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs(number), weights TEXT NOT NULL,"                 \
    " isa TEXT NOT NULL, grid INTEGER NOT NULL, samples INTEGER NOT NULL, seed INTEGER NOT NULL, extent REAL NOT NULL"
#define SURFACES_KEY "UNIQUE (run, weights, isa, grid, samples, seed, extent)"
#define POINTS                                                                                                         \
    "CREATE TABLE IF NOT EXISTS surface_points ("                                                                      \
    "  surface INTEGER NOT NULL REFERENCES surfaces(number), point INTEGER NOT NULL, loss REAL,"                       \
    "  correct INTEGER NOT NULL, PRIMARY KEY (surface, point)) WITHOUT ROWID;"
/* Numbers measured at a run's weights; NULL: measured, and not defined. */
#define FINDINGS                                                                                                       \
    "CREATE TABLE IF NOT EXISTS findings ("                                                                            \
    "  run INTEGER NOT NULL REFERENCES runs(number), weights TEXT NOT NULL, name TEXT NOT NULL, value REAL,"           \
    "  PRIMARY KEY (run, weights, name)) WITHOUT ROWID;"
/* Since schema 5: how long a run was asked to be, and seals (store/seal.h). */
#define SINCE_5(each, next)                                                                                            \
    each "asked_epochs INTEGER" next each "asked_stop_at REAL" next each                                               \
         "curve_seal INTEGER NOT NULL DEFAULT 0" next each "measures_seal INTEGER NOT NULL DEFAULT 0" next each        \
         "findings_seal INTEGER NOT NULL DEFAULT 0" next each "surfaces_seal INTEGER NOT NULL DEFAULT 0" next each     \
         "seal INTEGER"
#define SURFACES_SINCE_5(each, next) each "points_seal INTEGER NOT NULL DEFAULT 0" next each "seal INTEGER"

/* Since schema 6: the id of a run that an earlier version entered, under another rule (store/identity.c). */
#define SINCE_6 "earlier_id TEXT"

/* Since schema 7: what people write on runs (store/labels.h). */
#define LABELS                                                                                                         \
    "CREATE TABLE labels ("                                                                                            \
    "  run INTEGER NOT NULL REFERENCES runs(number), kind TEXT NOT NULL, value TEXT NOT NULL,"                         \
    "  PRIMARY KEY (run, kind, value)) WITHOUT ROWID;"

#define NEW_RUNS     "CREATE TABLE runs (" RUNS "," SINCE_5(" ", ",") ", " SINCE_6 ");"
#define NEW_SURFACES "CREATE TABLE surfaces (" SURFACES "," SURFACES_SINCE_5(" ", ",") "," SURFACES_KEY ");"

static const char newest[] = FACTS NEW_RUNS EPOCHS MEASURES NEW_SURFACES POINTS FINDINGS LABELS;

/* Each entry brings a store from the schema before it to its own; entries are only ever appended. */
static const char *const migrations[] = {
    FACTS "CREATE TABLE runs (" RUNS ");" EPOCHS,
    MEASURES,
    "CREATE TABLE IF NOT EXISTS surfaces (" SURFACES "," SURFACES_KEY ");" POINTS,
    FINDINGS,
    SINCE_5("ALTER TABLE runs ADD COLUMN ", ";") ";" SURFACES_SINCE_5("ALTER TABLE surfaces ADD COLUMN ", ";"),
    ("ALTER TABLE runs ADD COLUMN " SINCE_6), /* in parentheses: one string on purpose */
    LABELS,
};
static_assert(sizeof migrations / sizeof *migrations == SF_SCHEMA, "a migration per schema");

/* Runs of an earlier schema, read by the same statements: with the ids they would get, and with substitutes for columns
 * that they lack. A run that is entered meanwhile has only its earlier id. */
#define RUNS_AFTER_ID                                                                                                  \
    " r.task, r.attention, r.seed, r.status, r.message, r.epochs, r.converged_epoch, r.train_accuracy,"                \
    " r.heldout_accuracy, r.best_epoch, r.best_accuracy, r.diverged_epoch, r.diverged_step, r.checkpoint_epoch,"       \
    " r.checkpoint_hash, r.best_saved_epoch, r.best_hash, r.weights, r.isa, r.settings, r.environment,"
#define SEALS "asked_epochs, asked_stop_at, curve_seal, measures_seal, findings_seal, surfaces_seal, seal"
#define NO_SEALS                                                                                                       \
    "NULL AS asked_epochs, NULL AS asked_stop_at, 0 AS curve_seal, 0 AS measures_seal, 0 AS findings_seal,"            \
    " 0 AS surfaces_seal, NULL AS seal"
#define RUNS_VIEW(seals)                                                                                               \
    "CREATE TEMP VIEW runs AS"                                                                                         \
    " SELECT r.number, n.id AS id," RUNS_AFTER_ID seals ", r.id AS earlier_id"                                         \
    " FROM main.runs r JOIN temp.new_ids n ON n.number = r.number UNION ALL"                                           \
    " SELECT r.number, r.id," RUNS_AFTER_ID seals ", r.id FROM main.runs r"                                            \
    " WHERE r.number NOT IN (SELECT number FROM temp.new_ids)"
static const char new_ids[] = "CREATE TEMP TABLE new_ids (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE)";
static const char runs_without_seals[] = RUNS_VIEW(NO_SEALS), runs_with_seals[] = RUNS_VIEW(SEALS);
static const char surfaces_without_seals[] =
    "CREATE TEMP VIEW surfaces AS SELECT *, 0 AS points_seal, NULL AS seal FROM main.surfaces";
static const char no_surfaces[] =
    "ALTER TABLE temp.surfaces ADD COLUMN points_seal INTEGER; ALTER TABLE temp.surfaces ADD COLUMN seal INTEGER";

static const char no_labels[] = "CREATE TEMP TABLE labels (run INTEGER, kind TEXT, value TEXT)";

#define OUR_TABLES "('facts', 'runs', 'epochs', 'measures', 'surfaces', 'surface_points', 'findings', 'labels')"

static sf_status read_integer(int64_t *out, const sf_store *store, const char *sql) {
    sqlite3_stmt *statement;
    bool row = false;
    SF_TRY(sf_database_prepare(&statement, &store->db, sql, ""));
    const sf_status status = sf_database_step(&store->db, statement, &row);
    *out = row ? sqlite3_column_int64(statement, 0) : 0;
    sf_database_release(&store->db, statement);
    return status;
}

sf_status sf_schema_version(int64_t *out, const sf_store *store) {
    return read_integer(out, store, "PRAGMA user_version");
}

static bool can_read(const sf_store *store, const char *sql) {
    sqlite3_stmt *statement = NULL;
    const int code = sqlite3_prepare_v2(store->db.handle, sql, -1, &statement, NULL);
    sqlite3_finalize(statement);
    return code == SQLITE_OK;
}

bool sf_schema_is_newer_than(const sf_store *store, int64_t schema) {
    if (schema == 0) return false;
    return (schema < SF_SCHEMA_SEALED && can_read(store, "SELECT seal FROM main.runs")) ||
           (schema < SF_SCHEMA_NEW_IDS && can_read(store, "SELECT earlier_id FROM main.runs")) ||
           (schema < SF_SCHEMA_LABELS && can_read(store, "SELECT run FROM main.labels"));
}

static sf_status seal_definitions(uint64_t *out, const sf_store *store) {
    sqlite3_stmt *statement;
    SF_TRY(sf_database_prepare(&statement, &store->db,
                               "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name IN " OUR_TABLES, ""));
    bool row = true;
    sf_status status;
    *out = 0;
    while ((status = sf_database_step(&store->db, statement, &row)) == SF_OK && row)
        *out += sf_seal_columns(SF_SEAL_SCHEMA, statement, 2);
    sf_database_release(&store->db, statement);
    return status;
}

static sf_status write_fact(const sf_store *store, const char *name, uint64_t value) {
    return sf_database_run(&store->db, "INSERT OR REPLACE INTO facts VALUES (?, ?)", "th", name, value);
}

/* SF_IO_ERROR where there is none, or something else in its place. */
static sf_status read_fact(uint64_t *out, const sf_store *store, const char *name) {
    sqlite3_stmt *statement;
    bool found = false;
    SF_TRY(sf_database_prepare(&statement, &store->db, "SELECT value FROM facts WHERE name = ?", "t", name));
    const sf_status status = sf_database_step(&store->db, statement, &found);
    const char *text = found ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    char *end = NULL;
    *out = text != NULL ? strtoull(text, &end, 16) : 0;
    const bool whole = text != NULL && strlen(text) == 16 && *end == '\0';
    sf_database_release(&store->db, statement);
    SF_TRY(status);
    if (whole) return SF_OK;
    return sf_fail(SF_IO_ERROR, "the store '%s' is damaged (its fact '%s' is lost); restore a copy of runs.db",
                   store->folder, name);
}

sf_status sf_list_read(uint64_t *seal, const sf_store *store) {
    return read_fact(seal, store, "runs");
}

sf_status sf_list_write(const sf_store *store, uint64_t seal) {
    return write_fact(store, "runs", seal);
}

sf_status sf_labels_seal_read(uint64_t *seal, const sf_store *store) {
    return read_fact(seal, store, "labels");
}

sf_status sf_labels_seal_write(const sf_store *store, uint64_t seal) {
    return write_fact(store, "labels", seal);
}

sf_status sf_schema_verify(const sf_store *store) {
    uint64_t made, found;
    SF_TRY(read_fact(&made, store, "schema"));
    SF_TRY(seal_definitions(&found, store));
    if (found == made) return SF_OK;
    return sf_fail(SF_IO_ERROR,
                   "the store '%s' is damaged (the definition of a table is not what was written); restore a copy of "
                   "runs.db",
                   store->folder);
}

sf_status sf_schema_bring_forward(sf_store *store, bool verified) {
    SF_TRY(sf_database_begin(&store->db));
    int64_t schema = 0;
    sf_status status = sf_schema_version(&schema, store); /* another process may have been faster */
    if (status == SF_OK && schema >= SF_SCHEMA_SEALED && schema < SF_SCHEMA && verified) status = sf_list_verify(store);
    if (status == SF_OK && schema == 0) status = sf_store_execute(store, newest);
    for (int64_t i = schema; i > 0 && i < SF_SCHEMA && status == SF_OK; i++)
        status = sf_store_execute(store, migrations[i]);
    char sql[128];
    snprintf(sql, sizeof sql, "PRAGMA user_version = %d; INSERT OR IGNORE INTO facts VALUES ('numerics', '%d')",
             (int)SF_SCHEMA, SF_NUMERICS_VERSION);
    if (status == SF_OK) status = sf_store_execute(store, sql);
    uint64_t definitions;
    if (status == SF_OK) status = seal_definitions(&definitions, store);
    if (status == SF_OK) status = write_fact(store, "schema", definitions);
    if (status == SF_OK && schema < SF_SCHEMA_SEALED) status = sf_store_seal_all(store);
    if (status == SF_OK && schema < SF_SCHEMA_LABELS) status = sf_labels_seal_write(store, 0);
    if (status == SF_OK && schema > 0 && schema < SF_SCHEMA_NEW_IDS)
        status = sf_ids_renew(store, schema < SF_SCHEMA_SEALED ? SF_RUN_SEALED_COLUMNS : SF_RUN_SEALED_COLUMNS_5);
    return sf_database_end(&store->db, status);
}

/* The migrations that the store lacks, made as temporary tables. */
static sf_status make_missing_tables(const sf_store *store, int64_t schema) {
    static const char create[] = "CREATE TABLE", temporary[] = "CREATE TEMP TABLE";
    sf_status status = SF_OK;
    for (int64_t i = schema; i < SF_SCHEMA_SEALED - 1 && status == SF_OK; i++) {
        sqlite3_str *sql = sqlite3_str_new(store->db.handle);
        const char *from = migrations[i];
        for (const char *at; (at = strstr(from, create)) != NULL; from = at + strlen(create)) {
            sqlite3_str_append(sql, from, (int)(at - from));
            sqlite3_str_appendall(sql, temporary);
        }
        sqlite3_str_appendall(sql, from);
        char *text = sqlite3_str_finish(sql);
        status = text != NULL ? sf_store_execute(store, text)
                              : sf_fail(SF_NO_MEMORY, "no memory left to open the store '%s'", store->folder);
        sqlite3_free(text);
    }
    return status;
}

static sf_status stand_in_for_seals(const sf_store *store, int64_t schema) {
    enum { WITH_SURFACES = 3 };
    SF_TRY(make_missing_tables(store, schema));
    return sf_store_execute(store, schema >= WITH_SURFACES ? surfaces_without_seals : no_surfaces);
}

sf_status sf_schema_stand_in(const sf_store *store, int64_t schema) {
    SF_TRY(sf_store_execute(store, "PRAGMA temp_store = MEMORY"));
    SF_TRY(sf_store_execute(store, no_labels));
    if (schema >= SF_SCHEMA_NEW_IDS) return SF_OK;
    if (schema < SF_SCHEMA_SEALED) SF_TRY(stand_in_for_seals(store, schema));
    SF_TRY(sf_store_execute(store, new_ids));
    SF_TRY(sf_ids_foretell(store));
    return sf_store_execute(store, schema < SF_SCHEMA_SEALED ? runs_without_seals : runs_with_seals);
}
