#include "store/store_inside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/version.h"
#include "io/atomic_file.h"
#include "store/claim.h"
#include "store/condition.h"
#include "store/labels.h"
#include "store/new_ids.h"
#include "store/schema.h"
#include "tasks/corpus.h"

void sf_store_obey(sf_store *store, const atomic_int *stop) {
    store->stop = stop;
}

/* Waits while another process is writing: up to a minute, unless we are told to stop. */
static int wait_a_little(void *opaque, int tries) {
    const sf_store *store = opaque;
    const bool stop = store->stop != NULL && atomic_load(store->stop) != 0;
    if (tries >= 6000 || (stop && tries >= 100)) return 0;
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    return 1;
}

sf_status sf_store_check_place(const sf_store *store) {
    struct stat now;
    const bool same_folder =
        stat(store->folder, &now) == 0 && now.st_dev == store->device && now.st_ino == store->inode;
    if (same_folder && stat(store->path, &now) == 0 && now.st_ino == store->database_inode) return SF_OK;
    return sf_fail(SF_IO_ERROR, "the store '%s' no longer exists; restore it, then repeat the command to continue",
                   store->folder);
}

sf_status sf_store_check_room(const sf_store *store) {
    enum { BLOCK = 1 << 16, BLOCKS = 16 }; /* about a checkpoint */
    static const char block[BLOCK];
    char path[sizeof store->path + 32];
    sf_atomic_file file;
    SF_TRY(sf_store_check_place(store));
    snprintf(path, sizeof path, "%s/checkpoints/room", store->folder);
    SF_TRY(sf_atomic_open(&file, path));
    sf_status status = SF_OK;
    for (size_t i = 0; i < BLOCKS && status == SF_OK; i++) status = sf_atomic_append(&file, block, sizeof block);
    const bool full = status != SF_OK && (errno == ENOSPC || errno == EDQUOT);
    sf_atomic_abandon(&file);
    if (!full) return status;
    return sf_fail(SF_IO_ERROR,
                   "the disk of the store '%s' is full; free some space, then repeat the command to continue",
                   store->folder);
}

const char *sf_store_folder(const sf_store *store) {
    return store->folder;
}

const sf_database *sf_store_database(const sf_store *store) {
    return &store->db;
}

bool sf_store_is_sealed(const sf_store *store) {
    return store->sealed;
}

sf_status sf_store_execute(const sf_store *store, const char *sql) {
    return sqlite3_exec(store->db.handle, sql, NULL, NULL, NULL) == SQLITE_OK ? SF_OK : sf_database_error(&store->db);
}

sf_status sf_store_freeze(sf_store *store) {
    SF_TRY(sf_store_execute(store, "BEGIN"));
    store->frozen = true;
    return SF_OK;
}

void sf_store_unfreeze(sf_store *store) {
    (void)sf_store_execute(store, "ROLLBACK"); /* nothing was written */
    store->frozen = false;
}

static bool is_for_writing(sf_store_access access) {
    return access == SF_STORE_WRITE || access == SF_STORE_MEND;
}

/* Only the newest schema is written; an earlier one is read as it is. */
static sf_status open_earlier(sf_store *store, int64_t schema, sf_store_access access) {
    if (schema == 0 && !is_for_writing(access))
        return sf_fail(SF_BAD_INPUT, "the store '%s' is empty; train something, or name another with --store",
                       store->folder);
    if (sf_schema_is_newer_than(store, schema))
        return sf_fail(SF_IO_ERROR,
                       "the store '%s' is damaged (it says schema %lld, but its tables are newer); restore a copy of "
                       "runs.db",
                       store->folder, (long long)schema);
    if (!is_for_writing(access)) {
        SF_TRY(sf_schema_stand_in(store, schema));
        store->stands_in = schema < SF_SCHEMA_NEW_IDS;
        return SF_OK;
    }
    if (schema > 0) SF_TRY(sf_store_check_numerics(store)); /* before anything is changed */
    if (schema > 0 && sf_claim_is_any_held(store->folder))
        return sf_fail(SF_IO_ERROR,
                       "an earlier version of semfocus is training into the store '%s', which has to be brought to a "
                       "new schema; wait until that ends, then the same command goes on",
                       store->folder);
    SF_TRY(sf_schema_bring_forward(store, access == SF_STORE_WRITE));
    store->sealed = store->has_labels = true;
    return SF_OK;
}

static sf_status verify_list(sf_store *store) {
    SF_TRY(sf_store_freeze(store));
    sf_status status = sf_list_verify(store);
    if (status == SF_OK) status = sf_labels_verify(store);
    sf_store_unfreeze(store);
    return status;
}

static sf_status renew_ids(sf_store *store) {
    static const char any[] = "SELECT 1 FROM runs WHERE earlier_id = id LIMIT 1";
    SF_TRY(sf_database_any(&store->has_earlier_ids, &store->db, any));
    if (!store->has_earlier_ids) return SF_OK;
    SF_TRY(sf_ids_renew_rest(store));
    return sf_database_any(&store->has_earlier_ids, &store->db, any);
}

static sf_status check_versions(sf_store *store, sf_store_access access) {
    int64_t schema;
    SF_TRY(sf_schema_version(&schema, store));
    if (schema > SF_SCHEMA)
        return sf_fail(SF_UNSUPPORTED, "the store '%s' has schema %lld but this program knows %d; use a newer semfocus",
                       store->folder, (long long)schema, (int)SF_SCHEMA);
    store->sealed = schema >= SF_SCHEMA_SEALED;
    store->has_labels = schema >= SF_SCHEMA_LABELS;
    if (schema < SF_SCHEMA) SF_TRY(open_earlier(store, schema, access));
    if (store->sealed && (access == SF_STORE_READ || access == SF_STORE_WRITE)) SF_TRY(verify_list(store));
    if (access != SF_STORE_WRITE) return SF_OK;
    SF_TRY(sf_store_check_numerics(store));
    return renew_ids(store);
}

sf_status sf_store_numerics(int64_t *out, const sf_store *store) {
    sqlite3_stmt *statement;
    bool found = false;
    SF_TRY(sf_database_prepare(&statement, &store->db,
                               "SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'numerics'", ""));
    const sf_status status = sf_database_step(&store->db, statement, &found);
    *out = found ? sqlite3_column_int64(statement, 0) : 0;
    sf_database_release(&store->db, statement);
    return status;
}

sf_status sf_store_check_numerics(const sf_store *store) {
    int64_t numerics;
    SF_TRY(sf_store_numerics(&numerics, store));
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
    return sf_fail(SF_IO_ERROR, "cannot create the folder '%s': %s; %s name another with --store", path,
                   why == EEXIST ? "something else has that name" : strerror(why),
                   why == ENOENT ? "create its parent folder, or" : "change that, or");
}

/* Checks what kind of file the database is before SQLite opens it: SQLite would wait for the writer of a pipe. */
static sf_status check_database(const sf_store *store) {
    struct stat about;
    if (stat(store->path, &about) == 0) {
        if (S_ISREG(about.st_mode) || S_ISDIR(about.st_mode)) return SF_OK; /* opening a folder fails later */
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

/* An existing store always has a folder of checkpoints. If it is missing, making an empty one would look as if every
 * file had been deleted. */
static sf_status make_folders(const sf_store *store) {
    char checkpoints[sizeof store->path + 16];
    struct stat about;
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", store->folder);
    SF_TRY(make_folder(store->folder));
    const bool is_made = stat(store->path, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0;
    if (!is_made) return make_folder(checkpoints);
    const int why = stat(checkpoints, &about) != 0 ? errno : S_ISDIR(about.st_mode) ? 0 : ENOTDIR;
    if (why == 0) return SF_OK;
    if (why == ENOENT)
        return sf_fail(SF_IO_ERROR,
                       "the folder '%s' does not exist; restore it (is its disk mounted?), or create an empty folder "
                       "there and the runs that a command names will be computed again",
                       checkpoints);
    return sf_fail(SF_IO_ERROR, "the folder '%s' cannot be used: %s; restore the folder with this store's checkpoints",
                   checkpoints, strerror(why));
}

static sf_status open_for_writing(sf_store *store, int *turn) {
    SF_TRY(make_folders(store));
    SF_TRY(
        sf_claim_store(turn, store->folder)); /* processes that start together make the database one after the other */
    struct stat about;
    if (stat(store->path, &about) == 0 || errno != ENOENT) SF_TRY(check_database(store));
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    SF_TRY(sf_database_open(&store->db, store->path, flags));
    sqlite3_busy_handler(store->db.handle, wait_a_little, store);
    /* NORMAL: a power cut may lose the newest rows, which are computed again; checkpoints commit with FULL. */
    return sf_store_execute(store,
                            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY");
}

static sf_status open_for_reading(sf_store *store) {
    struct stat about;
    SF_TRY(check_database(store));
    SF_TRY(sf_database_open(&store->db, store->path, SQLITE_OPEN_READONLY));
    sqlite3_busy_handler(store->db.handle, wait_a_little, store);
    if (sf_store_execute(store, "SELECT COUNT(*) FROM sqlite_master") == SF_OK) return SF_OK;
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
    /* SQLite takes names that begin with "file:" for URIs */
    snprintf(store->path, sizeof store->path, "%s%s/runs.db", *folder == '/' ? "" : "./", folder);
    store->db.path = store->folder;
    int turn = -1;
    sf_status status = is_for_writing(access) ? open_for_writing(store, &turn) : open_for_reading(store);
    if (status == SF_OK) status = check_versions(store, access);
    sf_claim_give_back(turn);
    struct stat about;
    if (status == SF_OK && stat(folder, &about) == 0) {
        store->device = about.st_dev;
        store->inode = about.st_ino;
    }
    if (status == SF_OK && stat(store->path, &about) == 0) store->database_inode = about.st_ino;
    if (status != SF_OK) {
        sf_store_close(store);
        return status;
    }
    sf_corpus_keep_in(folder, is_for_writing(access));
    *out = store;
    return SF_OK;
}

void sf_store_close(sf_store *store) {
    if (store == NULL) return;
    sf_corpus_leave(store->folder);
    sf_release(store->findings);
    sf_database_close(&store->db);
    sf_release(store);
}

/* What follows a condition. */
static const char in_order[] = "ORDER BY number", not_archived[] = "AND NOT archived ORDER BY number";

/* Verifies the runs it goes through; *listed is the seal of their list. */
static sf_status go_through(uint64_t *listed, sf_store *store, const char *where, const char *and_more, bool rows,
                            void (*each)(void *context, const sf_stored_run *run), void *context) {
    sf_condition condition;
    sqlite3_stmt *statement;
    SF_TRY(sf_condition_open(&statement, &condition, &store->db, "SELECT " SF_RUN_COLUMNS, where, and_more));
    sf_stored_run *run = NULL; /* too large for a thread's stack frame */
    bool row = true;
    sf_status status = SF_NEW(&run, 1);
    *listed = 0;
    while (status == SF_OK && (status = sf_condition_step(&condition, statement, &row)) == SF_OK && row) {
        status = sf_run_read(run, store, statement);
        if (status == SF_OK && rows) status = sf_run_verify_rows(store, run);
        if (status == SF_OK)
            *listed += sf_listed_seal(run->number, sf_run_listed_id(store, run), strlen(sf_run_listed_id(store, run)));
        if (status == SF_OK && each != NULL) each(context, run);
    }
    sf_release(run);
    sf_condition_close(&condition, statement);
    return status;
}

/* `each` may be NULL; `rows`: also verifies the rows that belong to the runs. */
static sf_status go_through_all(sf_store *store, bool rows, void (*each)(void *context, const sf_stored_run *run),
                                void *context) {
    uint64_t found, listed;
    SF_TRY(go_through(&found, store, NULL, in_order, rows, each, context));
    if (!store->sealed) return SF_OK;
    SF_TRY(sf_list_read(&listed, store));
    return found == listed ? SF_OK : sf_list_damaged(store);
}

/* A condition may leave out a run because of damage: so all runs are verified first, and their rows too if the
 * condition reads them. */
static sf_status go_through_some(sf_store *store, const char *where,
                                 void (*each)(void *context, const sf_stored_run *run), void *context) {
    sf_condition condition;
    sqlite3_stmt *statement;
    uint64_t ignored;
    SF_TRY(sf_condition_open(&statement, &condition, &store->db, "SELECT number", where, ""));
    sf_condition_close(&condition, statement);
    SF_TRY(go_through_all(store, condition.reads_rows, NULL, NULL));
    return go_through(&ignored, store, where, store->shows_archived ? in_order : not_archived, false, each, context);
}

sf_status sf_store_each_run(sf_store *store, const char *where, void (*each)(void *context, const sf_stored_run *run),
                            void *context) {
    const bool every = where == NULL || *where == '\0', freezes = !store->frozen;
    bool hides = false;
    if (freezes) SF_TRY(sf_store_freeze(store));
    sf_status status = SF_OK;
    if (!store->shows_archived)
        status = sf_database_any(&hides, &store->db, "SELECT 1 FROM labels WHERE kind = 'archived' LIMIT 1");
    if (status == SF_OK)
        status = every && !hides ? go_through_all(store, false, each, context)
                                 : go_through_some(store, where, each, context);
    if (freezes) sf_store_unfreeze(store);
    return status;
}

sf_status sf_store_each_id(sf_store *store, const char *where, void (*each)(void *context, const char *id),
                           void *context) {
    sf_condition condition;
    sqlite3_stmt *statement;
    bool row = true;
    sf_status status;
    SF_TRY(sf_condition_open(&statement, &condition, &store->db, "SELECT id", where,
                             store->shows_archived ? in_order : not_archived));
    while ((status = sf_condition_step(&condition, statement, &row)) == SF_OK && row) {
        char id[SF_RUN_ID_SIZE];
        sf_column_text(id, sizeof id, statement, 0);
        each(context, id);
    }
    sf_condition_close(&condition, statement);
    return status;
}

sf_status sf_store_look_up(sf_stored_run *out, bool *found, sf_store *store, const char *id) {
    sqlite3_stmt *statement;
    SF_TRY(sf_database_prepare(&statement, &store->db, "SELECT " SF_RUN_COLUMNS " FROM runs WHERE id = ?", "t", id));
    *found = false;
    sf_status status = sf_database_step(&store->db, statement, found);
    if (*found) status = sf_run_read(out, store, statement);
    sf_database_release(&store->db, statement);
    return status;
}

sf_status sf_run_found_once(const char *id, bool found, bool another) {
    char quoted[SF_QUOTE_SIZE];
    if (!found || *id == '\0')
        return sf_fail(SF_BAD_INPUT, "no run begins with '%s'; 'semfocus runs' lists their ids",
                       sf_text_quote(quoted, id));
    if (another)
        return sf_fail(SF_BAD_INPUT, "more than one run begins with '%s'; give more of its id",
                       sf_text_quote(quoted, id));
    return SF_OK;
}

sf_status sf_store_find(sf_stored_run *out, sf_store *store, const char *id) {
    if (strlen(id) == SF_RUN_ID_SIZE - 1) { /* complete: by the index */
        bool exact = false;
        SF_TRY(sf_store_look_up(out, &exact, store, id));
        if (exact) return SF_OK;
    }
    sqlite3_stmt *statement;
    SF_TRY(sf_database_prepare(&statement, &store->db,
                               "SELECT " SF_RUN_COLUMNS " FROM runs WHERE substr(id, 1, length(?1)) = ?1"
                               " OR substr(earlier_id, 1, length(?1)) = ?1 LIMIT 2",
                               "t", id));
    bool found = false, another = false;
    sf_status status = sf_database_step(&store->db, statement, &found);
    if (found) status = sf_run_read(out, store, statement);
    if (found && status == SF_OK) status = sf_database_step(&store->db, statement, &another);
    sf_database_release(&store->db, statement);
    SF_TRY(status);
    return sf_run_found_once(id, found, another);
}
