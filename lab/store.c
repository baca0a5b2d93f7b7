#include "lab/store.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/version.h"
#include "lab/claim.h"
#include "lab/condition.h"
#include "lab/database.h"
#include "train/data.h"

struct sf_store {
    char folder[SF_PATH_SIZE], path[SF_PATH_SIZE + 16];
    sf_database db;
    dev_t device;
    ino_t inode; /* of the folder */
    const atomic_int *stop;
};

void sf_store_obey(sf_store *store, const atomic_int *stop) {
    store->stop = stop;
}

/* Another process is writing: up to a minute, unless we are told to stop. */
static int wait_a_little(void *opaque, int tries) {
    const sf_store *store = opaque;
    const bool stop = store->stop != NULL && atomic_load(store->stop) != 0;
    if (tries >= 6000 || (stop && tries >= 100)) return 0;
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    return 1;
}

sf_status sf_store_check_place(const sf_store *store) {
    struct stat now;
    if (stat(store->folder, &now) == 0 && now.st_dev == store->device && now.st_ino == store->inode) return SF_OK;
    return sf_fail(SF_IO_ERROR, "the store '%s' is not there any more; put it back and the same command goes on",
                   store->folder);
}

/* Each entry brings the store from the schema before it to its own; entries are only ever appended. */
static const char *const migrations[] = {
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);"
    "CREATE TABLE runs ("
    "  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, task TEXT NOT NULL, attention TEXT NOT NULL,"
    "  seed INTEGER NOT NULL, status TEXT NOT NULL, message TEXT, epochs INTEGER NOT NULL DEFAULT 0,"
    "  converged_epoch INTEGER, train_accuracy REAL, heldout_accuracy REAL, best_epoch INTEGER, best_accuracy REAL,"
    "  diverged_epoch INTEGER, diverged_step INTEGER, checkpoint_epoch INTEGER, checkpoint_hash TEXT,"
    "  best_saved_epoch INTEGER, best_hash TEXT, weights TEXT, isa TEXT, settings TEXT NOT NULL, environment TEXT);"
    "CREATE TABLE epochs ("
    "  run INTEGER NOT NULL REFERENCES runs(number), epoch INTEGER NOT NULL, tr_ce REAL NOT NULL, tr_ac REAL NOT NULL,"
    "  va_ce REAL NOT NULL, va_ac REAL NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (run, epoch)) WITHOUT ROWID;",

    /* quantiles at 0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 100 %; block -1: all blocks; NULL: not defined */
    "CREATE TABLE measures ("
    "  run INTEGER NOT NULL REFERENCES runs(number), epoch INTEGER NOT NULL, block INTEGER NOT NULL,"
    "  measure TEXT NOT NULL, q0 REAL, q1 REAL, q5 REAL, q10 REAL, q25 REAL, q50 REAL, q75 REAL, q90 REAL, q95 REAL,"
    "  q99 REAL, q100 REAL, PRIMARY KEY (run, epoch, block, measure)) WITHOUT ROWID;",
    /* Loss surfaces; a loss that is not finite is NULL. */
    "CREATE TABLE IF NOT EXISTS surfaces ("
    "  number INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs(number), weights TEXT NOT NULL,"
    "  isa TEXT NOT NULL, grid INTEGER NOT NULL, samples INTEGER NOT NULL, seed INTEGER NOT NULL, extent REAL NOT NULL,"
    "  UNIQUE (run, weights, isa, grid, samples, seed, extent));"
    "CREATE TABLE IF NOT EXISTS surface_points ("
    "  surface INTEGER NOT NULL REFERENCES surfaces(number), point INTEGER NOT NULL, loss REAL,"
    "  correct INTEGER NOT NULL, PRIMARY KEY (surface, point)) WITHOUT ROWID;",
    /* Numbers measured at a run's weights; NULL: measured, and not defined. */
    "CREATE TABLE IF NOT EXISTS findings ("
    "  run INTEGER NOT NULL REFERENCES runs(number), weights TEXT NOT NULL, name TEXT NOT NULL, value REAL,"
    "  PRIMARY KEY (run, weights, name)) WITHOUT ROWID;",
};
enum { SCHEMA = sizeof migrations / sizeof *migrations };

const char *sf_store_folder(const sf_store *store) {
    return store->folder;
}

const sf_database *sf_store_database(const sf_store *store) {
    return &store->db;
}

static sf_status execute(const sf_store *store, const char *sql) {
    return sqlite3_exec(store->db.handle, sql, NULL, NULL, NULL) == SQLITE_OK ? SF_OK : sf_database_error(&store->db);
}

sf_status sf_store_freeze(const sf_store *store) {
    return execute(store, "BEGIN");
}

void sf_store_unfreeze(const sf_store *store) {
    (void)execute(store, "ROLLBACK"); /* nothing was written */
}

static sf_status read_integer(int64_t *out, const sf_store *store, const char *sql) {
    sqlite3_stmt *statement;
    bool row = false;
    SF_TRY(sf_database_prepare(&statement, &store->db, sql, ""));
    const sf_status status = sf_database_step(&store->db, statement, &row);
    *out = row ? sqlite3_column_int64(statement, 0) : 0;
    sf_database_release(&store->db, statement);
    return status;
}

static sf_status migrate(const sf_store *store) {
    SF_TRY(sf_database_begin(&store->db));
    int64_t schema = 0;
    sf_status status = read_integer(&schema, store, "PRAGMA user_version"); /* another process may have been faster */
    for (int64_t i = schema; i < SCHEMA && status == SF_OK; i++) status = execute(store, migrations[i]);
    char sql[128];
    snprintf(sql, sizeof sql, "PRAGMA user_version = %d; INSERT OR IGNORE INTO facts VALUES ('numerics', '%d')",
             (int)SCHEMA, SF_NUMERICS_VERSION);
    if (status == SF_OK) status = execute(store, sql);
    return sf_database_end(&store->db, status);
}

static sf_status check_versions(const sf_store *store, sf_store_access access) {
    int64_t schema;
    SF_TRY(read_integer(&schema, store, "PRAGMA user_version"));
    if (schema > SCHEMA)
        return sf_fail(SF_UNSUPPORTED, "the store '%s' has schema %lld but this program knows %d; use a newer semfocus",
                       store->folder, (long long)schema, (int)SCHEMA);
    if (schema == 0 && access == SF_STORE_READ)
        return sf_fail(SF_BAD_INPUT, "the store '%s' is empty; train something, or name another with --store",
                       store->folder);
    if (schema < SCHEMA && access == SF_STORE_READ)
        return sf_fail(SF_UNSUPPORTED, "the store '%s' has schema %lld; train into it once and it is brought to %d",
                       store->folder, (long long)schema, (int)SCHEMA);
    if (schema < SCHEMA) SF_TRY(migrate(store));
    return access == SF_STORE_WRITE ? sf_store_check_numerics(store) : SF_OK;
}

sf_status sf_store_check_numerics(const sf_store *store) {
    int64_t numerics = 0;
    SF_TRY(read_integer(&numerics, store, "SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'numerics'"));
    if (numerics == SF_NUMERICS_VERSION) return SF_OK;
    return sf_fail(SF_UNSUPPORTED,
                   "the store '%s' holds runs of numerics version %lld but this program computes version %d; "
                   "name another folder with --store",
                   store->folder, (long long)numerics, SF_NUMERICS_VERSION);
}

static sf_status make_folder(const char *path) {
    struct stat about;
    if (mkdir(path, 0777) == 0) return SF_OK;
    const int why = errno;
    if (why == EEXIST && stat(path, &about) == 0 && S_ISDIR(about.st_mode)) return SF_OK;
    return sf_fail(SF_IO_ERROR, "cannot make the folder '%s': %s; %s name another with --store", path,
                   why == EEXIST ? "there is something else of that name" : strerror(why),
                   why == ENOENT ? "make the one above it, or" : "change that, or");
}

/* What is there in the place of the database, before SQLite opens it: it would wait for the writer of a pipe. */
static sf_status check_database(const sf_store *store) {
    struct stat about;
    if (stat(store->path, &about) == 0) {
        if (S_ISREG(about.st_mode) || S_ISDIR(about.st_mode)) return SF_OK; /* a folder is told of when it is opened */
        return sf_fail(SF_IO_ERROR, "'%s' is a pipe or a device but must be a file; name another store with --store",
                       store->path);
    }
    const int why = errno;
    if (why == ENOENT)
        return sf_fail(SF_BAD_INPUT, "there is no store at '%s'; train something, or name another with --store",
                       store->folder);
    if (why == ENOTDIR)
        return sf_fail(SF_BAD_INPUT, "there is no store at '%s', which is not a folder; name another with --store",
                       store->folder);
    return sf_fail(SF_IO_ERROR,
                   "the store '%s' cannot be read: %s; check its permissions, or name another with --store",
                   store->folder, strerror(why));
}

static sf_status open_for_writing(sf_store *store, int *turn) {
    char checkpoints[sizeof store->path + 16];
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", store->folder);
    SF_TRY(make_folder(store->folder));
    SF_TRY(make_folder(checkpoints));
    SF_TRY(
        sf_claim_store(turn, store->folder)); /* processes that start together make the database one after the other */
    struct stat about;
    if (stat(store->path, &about) == 0 || errno != ENOENT) SF_TRY(check_database(store));
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    SF_TRY(sf_database_open(&store->db, store->path, flags));
    sqlite3_busy_handler(store->db.handle, wait_a_little, store);
    /* NORMAL: a power cut may lose the newest rows, which are computed again; checkpoints commit with FULL. */
    return execute(store, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY");
}

static sf_status open_for_reading(sf_store *store) {
    struct stat about;
    SF_TRY(check_database(store));
    SF_TRY(sf_database_open(&store->db, store->path, SQLITE_OPEN_READONLY));
    sqlite3_busy_handler(store->db.handle, wait_a_little, store);
    int64_t ignored;
    if (read_integer(&ignored, store, "SELECT COUNT(*) FROM sqlite_master") == SF_OK) return SF_OK;
    const int why = sqlite3_errcode(store->db.handle) & 0xff;
    char log[sizeof store->path + 8];
    snprintf(log, sizeof log, "%s-wal", store->path);
    if ((why != SQLITE_CANTOPEN && why != SQLITE_READONLY) || (stat(log, &about) == 0 && about.st_size > 0))
        return sf_database_error(&store->db);
    /* A folder that cannot be written has no place for the log's index, and there is no log: read the database as it
     * is. */
    sf_database_close(&store->db);
    char uri[3 * sizeof store->path + 32];
    size_t used = (size_t)snprintf(uri, sizeof uri, "file:");
    for (const char *at = store->path; *at != '\0'; at++)
        used += (size_t)snprintf(uri + used, sizeof uri - used, strchr("%?#", *at) != NULL ? "%%%02x" : "%c", *at);
    snprintf(uri + used, sizeof uri - used, "?immutable=1");
    return sf_database_open(&store->db, uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
}

sf_status sf_store_open(sf_store **out, const char *folder, sf_store_access access) {
    *out = NULL;
    sf_store *store;
    if (*folder == '\0' || strlen(folder) >= sizeof store->folder)
        return sf_fail(SF_BAD_INPUT, "store must be a folder of 1 to %d characters", SF_PATH_SIZE - 1);
    SF_TRY(SF_NEW(&store, 1));
    strcpy(store->folder, folder);
    /* SQLite takes names that begin with "file:" for something else */
    snprintf(store->path, sizeof store->path, "%s%s/runs.db", *folder == '/' ? "" : "./", folder);
    store->db.path = store->folder;
    int turn = -1;
    sf_status status = access == SF_STORE_WRITE ? open_for_writing(store, &turn) : open_for_reading(store);
    if (status == SF_OK) status = check_versions(store, access);
    sf_claim_give_back(turn);
    struct stat about;
    if (status == SF_OK && stat(folder, &about) == 0) {
        store->device = about.st_dev;
        store->inode = about.st_ino;
    }
    if (status != SF_OK) {
        sf_store_close(store);
        return status;
    }
    *out = store;
    return SF_OK;
}

void sf_store_close(sf_store *store) {
    if (store == NULL) return;
    sf_database_close(&store->db);
    sf_release(store);
}

#define RUN_COLUMNS                                                                                                    \
    "number, id, task, attention, seed, status, message, epochs, converged_epoch, train_accuracy, heldout_accuracy, "  \
    "best_epoch, best_accuracy, diverged_epoch, diverged_step, checkpoint_epoch, checkpoint_hash, best_saved_epoch, "  \
    "best_hash, weights, isa"

static void copy_text(char *out, size_t size, sqlite3_stmt *row, int column) {
    const unsigned char *text = sqlite3_column_text(row, column);
    snprintf(out, size, "%s", text != NULL ? (const char *)text : "");
}

static size_t read_count(sqlite3_stmt *row, int column) {
    const sqlite3_int64 value = sqlite3_column_int64(row, column);
    return value > 0 ? (size_t)value : 0;
}

static uint64_t read_hash(sqlite3_stmt *row, int column) {
    const unsigned char *text = sqlite3_column_text(row, column);
    return text != NULL ? strtoull((const char *)text, NULL, 16) : 0;
}

static void read_run(sf_stored_run *out, const sf_store *store, sqlite3_stmt *row) {
    *out = (sf_stored_run){.number = sqlite3_column_int64(row, 0),
                           .seed = sqlite3_column_int64(row, 4),
                           .epochs = read_count(row, 7),
                           .converged_epoch = read_count(row, 8),
                           .train_accuracy = sqlite3_column_double(row, 9),
                           .heldout_accuracy = sqlite3_column_double(row, 10),
                           .best_epoch = read_count(row, 11),
                           .best_accuracy = sqlite3_column_double(row, 12),
                           .diverged_epoch = read_count(row, 13),
                           .diverged_step = read_count(row, 14),
                           .checkpoint_epoch = read_count(row, 15),
                           .checkpoint_hash = read_hash(row, 16),
                           .best_saved_epoch = read_count(row, 17),
                           .best_hash = read_hash(row, 18),
                           .weights_hash = read_hash(row, 19)};
    copy_text(out->id, sizeof out->id, row, 1);
    copy_text(out->task, sizeof out->task, row, 2);
    copy_text(out->attention, sizeof out->attention, row, 3);
    copy_text(out->status, sizeof out->status, row, 5);
    copy_text(out->message, sizeof out->message, row, 6);
    copy_text(out->isa, sizeof out->isa, row, 20);
    /* whose process died is not running any more */
    if (strcmp(out->status, "running") == 0 && !sf_claim_is_held(store->folder, out->number))
        strcpy(out->status, "pending");
}

sf_status sf_store_each_run(sf_store *store, const char *where, void (*each)(void *context, const sf_stored_run *run),
                            void *context) {
    sf_condition condition;
    sqlite3_stmt *statement;
    SF_TRY(sf_condition_open(&statement, &condition, &store->db, "SELECT " RUN_COLUMNS " FROM runs", where,
                             "ORDER BY number"));
    sf_stored_run *run = NULL; /* too large for a thread's stack frame */
    bool row = true;
    sf_status status = SF_NEW(&run, 1);
    while (status == SF_OK && (status = sf_condition_step(&condition, statement, &row)) == SF_OK && row) {
        read_run(run, store, statement);
        each(context, run);
    }
    sf_release(run);
    sf_condition_close(&condition, statement);
    return status;
}

sf_status sf_store_look_up(sf_stored_run *out, bool *found, sf_store *store, const char *id) {
    sqlite3_stmt *statement;
    SF_TRY(sf_database_prepare(&statement, &store->db, "SELECT " RUN_COLUMNS " FROM runs WHERE id = ?", "t", id));
    *found = false;
    const sf_status status = sf_database_step(&store->db, statement, found);
    if (*found) read_run(out, store, statement);
    sf_database_release(&store->db, statement);
    return status;
}

sf_status sf_store_find(sf_stored_run *out, sf_store *store, const char *id) {
    char quoted[SF_QUOTE_SIZE];
    if (strlen(id) == SF_RUN_ID_SIZE - 1) { /* whole: by the index */
        bool exact = false;
        SF_TRY(sf_store_look_up(out, &exact, store, id));
        if (exact) return SF_OK;
    }
    sqlite3_stmt *statement;
    SF_TRY(sf_database_prepare(&statement, &store->db,
                               "SELECT " RUN_COLUMNS " FROM runs WHERE substr(id, 1, length(?1)) = ?1 LIMIT 2", "t",
                               id));
    bool found = false, another = false;
    sf_status status = sf_database_step(&store->db, statement, &found);
    if (found) read_run(out, store, statement);
    if (found && status == SF_OK) status = sf_database_step(&store->db, statement, &another);
    sf_database_release(&store->db, statement);
    SF_TRY(status);
    if (!found || *id == '\0')
        return sf_fail(SF_BAD_INPUT, "no run begins with '%s'; 'semfocus runs' lists their ids",
                       sf_text_quote(quoted, id));
    if (another)
        return sf_fail(SF_BAD_INPUT, "more than one run begins with '%s'; give more of its id",
                       sf_text_quote(quoted, id));
    return SF_OK;
}

static sf_epoch read_epoch(sqlite3_stmt *row) {
    return (sf_epoch){.epoch = read_count(row, 0),
                      .train_loss = sqlite3_column_double(row, 1),
                      .train_accuracy = sqlite3_column_double(row, 2),
                      .heldout_loss = sqlite3_column_double(row, 3),
                      .heldout_accuracy = sqlite3_column_double(row, 4),
                      .seconds = sqlite3_column_double(row, 5)};
}

sf_status sf_store_each_epoch(sf_store *store, const sf_stored_run *run,
                              void (*each)(void *context, const sf_epoch *row), void *context) {
    sqlite3_stmt *statement;
    SF_TRY(sf_database_prepare(
        &statement, &store->db,
        "SELECT epoch, tr_ce, tr_ac, va_ce, va_ac, seconds FROM epochs WHERE run = ? ORDER BY epoch", "i",
        run->number));
    bool row = true;
    sf_status status = SF_OK;
    while ((status = sf_database_step(&store->db, statement, &row)) == SF_OK && row) {
        const sf_epoch epoch = read_epoch(statement);
        each(context, &epoch);
    }
    sf_database_release(&store->db, statement);
    return status;
}

sf_status sf_store_row(sf_epoch *out, sf_store *store, const sf_stored_run *run, size_t epoch) {
    sqlite3_stmt *statement;
    bool found = false;
    SF_TRY(
        sf_database_prepare(&statement, &store->db,
                            "SELECT epoch, tr_ce, tr_ac, va_ce, va_ac, seconds FROM epochs WHERE run = ? AND epoch = ?",
                            "iz", run->number, epoch));
    const sf_status status = sf_database_step(&store->db, statement, &found);
    if (found) *out = read_epoch(statement);
    sf_database_release(&store->db, statement);
    SF_TRY(status);
    if (!found) return sf_fail(SF_IO_ERROR, "run %s has a checkpoint of epoch %zu but no row for it", run->id, epoch);
    return SF_OK;
}

sf_status sf_store_first_epoch_at(size_t *out, sf_store *store, const sf_stored_run *run, double accuracy,
                                  size_t epochs) {
    sqlite3_stmt *statement;
    bool found = false;
    SF_TRY(sf_database_prepare(&statement, &store->db,
                               "SELECT MIN(epoch) FROM epochs WHERE run = ? AND tr_ac >= ? AND epoch <= ?", "irz",
                               run->number, accuracy, epochs));
    const sf_status status = sf_database_step(&store->db, statement, &found);
    *out = found ? read_count(statement, 0) : 0;
    sf_database_release(&store->db, statement);
    return status;
}

/* Every setting that makes the run, as the user would write it; NULL without memory, never a part of them. */
static char *settings_text(const sf_config *config) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) return NULL;
    const char *separator = "{";
    const sf_setting *setting;
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++) {
        if (!sf_setting_changes_numbers(setting, config)) continue;
        char value[SF_TEXT_SIZE];
        sf_config_text(value, config, setting);
        fputs(separator, out);
        sf_text_json(out, setting->name);
        fputc(':', out);
        sf_text_json(out, value);
        separator = ",";
    }
    fputc('}', out);
    const bool failed = ferror(out) != 0;
    if (fclose(out) == 0 && !failed) return text;
    free(text);
    return NULL;
}

sf_status sf_store_enter(sf_stored_run *out, sf_store *store, const char *id, const char *task, const char *attention,
                         const sf_config *config) {
    bool found = false;
    char place[SF_PATH_SIZE];
    task = sf_run_data_place(place, task);
    SF_TRY(sf_store_look_up(out, &found, store, id));
    if (found && strcmp(out->task, task) == 0) return SF_OK;
    if (found) { /* the same data from another place */
        SF_TRY(sf_database_run(&store->db, "UPDATE runs SET task = ? WHERE id = ?", "tt", task, id));
        return sf_store_look_up(out, &found, store, id);
    }
    char *settings = settings_text(config);
    if (settings == NULL) return sf_fail(SF_NO_MEMORY, "no memory left to enter run %s", id);
    const sf_status status = sf_database_run(&store->db,
                                             "INSERT OR IGNORE INTO runs (id, task, attention, seed, status, settings)"
                                             " VALUES (?, ?, ?, ?, 'pending', ?)",
                                             "tttit", id, task, attention, config->seed, settings);
    free(settings);
    SF_TRY(status);
    SF_TRY(sf_store_look_up(out, &found, store, id));
    return found ? SF_OK : sf_fail(SF_IO_ERROR, "the store '%s' lost run %s", store->folder, id);
}

/* What the table of runs says of a curve, from the curve itself. */
static sf_status refresh(const sf_store *store, const sf_stored_run *run) {
    return sf_database_run(
        &store->db,
        "UPDATE runs SET"
        " epochs = (SELECT COUNT(*) FROM epochs WHERE run = number),"
        " converged_epoch = (SELECT MIN(epoch) FROM epochs WHERE run = number AND tr_ac >= 95.0),"
        " train_accuracy = (SELECT tr_ac FROM epochs WHERE run = number ORDER BY epoch DESC LIMIT 1),"
        " heldout_accuracy = (SELECT va_ac FROM epochs WHERE run = number ORDER BY epoch DESC LIMIT 1),"
        " best_epoch = (SELECT epoch FROM epochs WHERE run = number ORDER BY va_ac DESC, epoch LIMIT 1),"
        " best_accuracy = (SELECT MAX(va_ac) FROM epochs WHERE run = number)"
        " WHERE number = ?",
        "i", run->number);
}

static sf_status drop_unbacked(const sf_store *store, const sf_stored_run *run) {
    SF_TRY(sf_database_run(&store->db,
                           "DELETE FROM epochs WHERE run = ?1 AND epoch >"
                           " (SELECT COALESCE(checkpoint_epoch, 0) FROM runs WHERE number = ?1)",
                           "i", run->number));
    SF_TRY(sf_database_run(&store->db,
                           "DELETE FROM measures WHERE run = ?1 AND epoch >"
                           " (SELECT COALESCE(checkpoint_epoch, 0) FROM runs WHERE number = ?1)",
                           "i", run->number));
    return refresh(store, run);
}

sf_status sf_store_drop_unbacked(sf_store *store, const sf_stored_run *run) {
    SF_TRY(sf_database_begin(&store->db));
    return sf_database_end(&store->db, drop_unbacked(store, run));
}

sf_status sf_store_begin(sf_store *store, const sf_stored_run *run, const char *isa, const char *environment) {
    SF_TRY(sf_database_begin(&store->db));
    sf_status status = drop_unbacked(store, run);
    if (status == SF_OK)
        status = sf_database_run(&store->db,
                                 "UPDATE runs SET status = 'running', message = NULL, diverged_epoch = NULL,"
                                 " diverged_step = NULL, isa = ?, environment = ? WHERE number = ?",
                                 "tti", isa, environment, run->number);
    return sf_database_end(&store->db, status);
}

sf_status sf_store_begin_anew(sf_store *store, const sf_stored_run *run) {
    return sf_database_run(&store->db,
                           "UPDATE runs SET checkpoint_epoch = NULL, checkpoint_hash = NULL, best_saved_epoch = NULL,"
                           " best_hash = NULL, weights = NULL WHERE number = ?",
                           "i", run->number);
}

static sf_status write_measures(const sf_store *store, const sf_stored_run *run, const sf_curve_point *points,
                                size_t count) {
    for (const sf_curve_point *p = points; p < points + count; p++)
        SF_TRY(sf_database_run(
            &store->db, "INSERT OR REPLACE INTO measures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            "iiitrrrrrrrrrrr", run->number, (int64_t)p->epoch, p->block, p->measure, p->at[0], p->at[1], p->at[2],
            p->at[3], p->at[4], p->at[5], p->at[6], p->at[7], p->at[8], p->at[9], p->at[10]));
    return SF_OK;
}

sf_status sf_store_append_measures(sf_store *store, const sf_stored_run *run, const sf_curve_point *points,
                                   size_t count) {
    SF_TRY(sf_database_begin(&store->db));
    return sf_database_end(&store->db, write_measures(store, run, points, count));
}

static double read_real_or_nan(sqlite3_stmt *row, int column) {
    return sqlite3_column_type(row, column) == SQLITE_NULL ? NAN : sqlite3_column_double(row, column);
}

sf_status sf_store_each_measure(sf_store *store, const sf_stored_run *run,
                                void (*each)(void *context, const sf_curve_point *point), void *context) {
    sqlite3_stmt *statement;
    SF_TRY(sf_database_prepare(&statement, &store->db,
                               "SELECT epoch, block, measure, q0, q1, q5, q10, q25, q50, q75, q90, q95, q99, q100"
                               " FROM measures WHERE run = ? ORDER BY epoch, block, measure",
                               "i", run->number));
    bool row = true;
    sf_status status = SF_OK;
    while ((status = sf_database_step(&store->db, statement, &row)) == SF_OK && row) {
        sf_curve_point point = {.epoch = read_count(statement, 0), .block = sqlite3_column_int64(statement, 1)};
        copy_text(point.measure, sizeof point.measure, statement, 2);
        for (int i = 0; i < SF_QUANTILES; i++) point.at[i] = read_real_or_nan(statement, 3 + i);
        each(context, &point);
    }
    sf_database_release(&store->db, statement);
    return status;
}

sf_status sf_store_count_measured(size_t *count, sf_store *store, const sf_stored_run *run, size_t every, size_t last) {
    sqlite3_stmt *statement;
    bool row = false;
    *count = 0;
    SF_TRY(sf_database_prepare(&statement, &store->db,
                               "SELECT COUNT(DISTINCT epoch) FROM measures WHERE run = ? AND epoch % ? = 0"
                               " AND epoch <= ?",
                               "izz", run->number, every, last));
    const sf_status status = sf_database_step(&store->db, statement, &row);
    if (status == SF_OK && row) *count = read_count(statement, 0);
    sf_database_release(&store->db, statement);
    return status;
}

sf_status sf_store_append(sf_store *store, const sf_stored_run *run, const sf_epoch *row, double seconds) {
    return sf_store_append_measured(store, run, row, seconds, NULL, 0);
}

sf_status sf_store_append_measured(sf_store *store, const sf_stored_run *run, const sf_epoch *row, double seconds,
                                   const sf_curve_point *points, size_t count) {
    SF_TRY(sf_database_begin(&store->db));
    sf_status status = sf_database_run(&store->db, "INSERT INTO epochs VALUES (?, ?, ?, ?, ?, ?, ?)", "izrrrrr",
                                       run->number, row->epoch, row->train_loss, row->train_accuracy, row->heldout_loss,
                                       row->heldout_accuracy, seconds);
    if (status == SF_OK) status = write_measures(store, run, points, count);
    if (status == SF_OK) status = refresh(store, run);
    return sf_database_end(&store->db, status);
}

sf_status sf_store_saved(sf_store *store, const sf_stored_run *run, const sf_saved *saved) {
    SF_TRY(execute(store, "PRAGMA synchronous = FULL"));
    const sf_status status = sf_database_run(
        &store->db,
        "UPDATE runs SET checkpoint_epoch = ?, checkpoint_hash = ?, best_saved_epoch = ?, best_hash = ?,"
        " weights = ? WHERE number = ?",
        "zhzhhi", saved->epoch, saved->hash, saved->best_epoch, saved->best_hash, saved->weights_hash, run->number);
    SF_TRY(sf_fail_in(status, "run %s", run->id));
    return execute(store, "PRAGMA synchronous = NORMAL");
}

sf_status sf_store_finish(sf_store *store, const sf_stored_run *run, const char *status, const char *message,
                          size_t diverged_epoch, size_t diverged_step) {
    return sf_database_run(
        &store->db, "UPDATE runs SET status = ?, message = ?, diverged_epoch = ?, diverged_step = ? WHERE number = ?",
        "ttzzi", status, message, diverged_epoch, diverged_step, run->number);
}

static sf_status read_text(char **out, sf_store *store, const char *id, const char *sql) {
    sqlite3_stmt *statement;
    bool found = false;
    *out = NULL;
    SF_TRY(sf_database_prepare(&statement, &store->db, sql, "t", id));
    const sf_status status = sf_database_step(&store->db, statement, &found);
    const char *text = found ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    if (status == SF_OK) *out = strdup(text != NULL ? text : "{}");
    sf_database_release(&store->db, statement);
    if (status != SF_OK) return status;
    return *out != NULL ? SF_OK : sf_fail(SF_NO_MEMORY, "no memory left to read run %s", id);
}

sf_status sf_store_environment(char **out, sf_store *store, const char *id) {
    return read_text(out, store, id, "SELECT environment FROM runs WHERE id = ?");
}

sf_status sf_store_config(sf_config *out, sf_store *store, const sf_stored_run *run) {
    char *text;
    const sf_status read = read_text(&text, store, run->id, "SELECT settings FROM runs WHERE id = ?");
    if (read != SF_OK) {
        free(text);
        return read;
    }
    json_t *settings = json_loads(text, 0, NULL);
    free(text);
    sf_config_init(out);
    sf_status status = json_is_object(settings)
                           ? sf_run_data_recipe(out, run->task)
                           : sf_fail(SF_IO_ERROR, "the settings of run %s cannot be read", run->id);
    const sf_setting *setting;
    for (size_t i = 0; status == SF_OK && (setting = sf_setting_at(i)) != NULL; i++) {
        const char *value = json_string_value(json_object_get(settings, setting->name));
        char now[SF_TEXT_SIZE];
        sf_config_text(now, out, setting);
        if (value != NULL && strcmp(value, now) != 0) status = sf_config_set(out, setting->name, value);
    }
    json_decref(settings);
    return status;
}

void sf_store_checkpoint_path(char out[SF_CHECKPOINT_PATH_SIZE], const sf_store *store, const char *id, bool best,
                              size_t epoch) {
    snprintf(out, SF_CHECKPOINT_PATH_SIZE, "%s/checkpoints/%s-%s%zu.safetensors", store->folder, id,
             best ? "best-" : "", epoch);
}

void sf_store_sweep(const sf_store *store, const char *id, size_t epoch, size_t best_epoch) {
    char last[SF_CHECKPOINT_PATH_SIZE], best[SF_CHECKPOINT_PATH_SIZE], folder[SF_CHECKPOINT_PATH_SIZE];
    sf_store_checkpoint_path(last, store, id, false, epoch);
    sf_store_checkpoint_path(best, store, id, true, best_epoch);
    snprintf(folder, sizeof folder, "%s/checkpoints", store->folder);
    DIR *listing = opendir(folder);
    if (listing == NULL) return; /* left-overs do no harm */
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        char path[SF_CHECKPOINT_PATH_SIZE + 300];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (strncmp(entry->d_name, id, strlen(id)) == 0 && strcmp(path, last) != 0 && strcmp(path, best) != 0)
            unlink(path);
    }
    closedir(listing);
}
