#include "store/database.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum { KEPT = 64 };

struct sf_kept_statement {
    const char *sql;
    sqlite3_stmt *statement;
    bool lent;
};

sf_status sf_database_open(sf_database *db, const char *file, int flags) {
    if (db->kept == NULL) SF_TRY(SF_NEW(&db->kept, KEPT));
    const int code = sqlite3_open_v2(file, &db->handle, flags | SQLITE_OPEN_NOMUTEX, NULL);
    return code == SQLITE_OK ? SF_OK : sf_database_error(db);
}

void sf_database_close(sf_database *db) {
    for (size_t i = 0; db->kept != NULL && i < KEPT; i++) sqlite3_finalize(db->kept[i].statement);
    sf_release(db->kept);
    sqlite3_close(db->handle);
    db->kept = NULL;
    db->handle = NULL;
}

/* The system's error number where it is the reason for SQLite's error, else 0. SQLite does not record it for a failing
 * commit; then it is still in errno. */
static int system_reason(const sf_database *db, int code) {
    const int now = errno;
    if (code != SQLITE_IOERR && code != SQLITE_CANTOPEN) return 0;
    const int noted = sqlite3_system_errno(db->handle);
    return noted != 0 ? noted : now;
}

sf_status sf_database_error(const sf_database *db) {
    const int code = db->handle != NULL ? sqlite3_errcode(db->handle) & 0xff : SQLITE_NOMEM;
    const int reason = system_reason(db, code);
    if (code == SQLITE_FULL || reason == ENOSPC || reason == EDQUOT)
        return sf_fail(SF_IO_ERROR,
                       "the disk of the store '%s' is full; free some space, then repeat the command to continue",
                       db->path);
    if (reason == EISDIR)
        return sf_fail(SF_IO_ERROR,
                       "'%s/runs.db' is a folder but must be a file; move it away or name another store with --store",
                       db->path);
    if (reason == EMFILE || reason == ENFILE || reason == EFBIG || reason == EACCES || reason == EPERM ||
        reason == EROFS)
        return sf_fail(SF_IO_ERROR, "the store '%s' cannot be %s: %s; %s", db->path,
                       code == SQLITE_CANTOPEN ? "opened" : "written", strerror(reason),
                       reason == EMFILE || reason == ENFILE ? "raise the limit on open files (ulimit -n)"
                       : reason == EFBIG                    ? "raise the limit on the size of files (ulimit -f)"
                                                            : "check its permissions, or name another with --store");
    switch (code) {
    case SQLITE_NOMEM:
        return sf_fail(SF_NO_MEMORY, "no memory left for the store '%s'", db->path);
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return sf_fail(SF_IO_ERROR,
                       "the store '%s' cannot be written; change its permissions or name another with --store",
                       db->path);
    case SQLITE_CANTOPEN:
        return sf_fail(SF_IO_ERROR, "the store '%s' cannot be opened: %s; check the path and its permissions", db->path,
                       reason != 0 ? strerror(reason) : sqlite3_errmsg(db->handle));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return sf_fail(SF_IO_ERROR, "the store '%s' is damaged (%s); restore a copy of it", db->path,
                       sqlite3_errmsg(db->handle));
    case SQLITE_BUSY:
        return sf_fail(SF_IO_ERROR, "the store '%s' was busy for a minute; try again when other processes are done",
                       db->path);
    default:
        return sf_fail(SF_IO_ERROR, "the store '%s' failed: %s%s%s%s", db->path, sqlite3_errmsg(db->handle),
                       reason != 0 ? " (" : "", reason != 0 ? strerror(reason) : "", reason != 0 ? ")" : "");
    }
}

static int bind_one(sqlite3_stmt *statement, int at, char kind, va_list *values) {
    switch (kind) {
    case 'i':
        return sqlite3_bind_int64(statement, at, va_arg(*values, int64_t));
    case 'z': {
        const size_t value = va_arg(*values, size_t);
        return value == 0 ? sqlite3_bind_null(statement, at) : sqlite3_bind_int64(statement, at, (sqlite3_int64)value);
    }
    case 'r':
        return sqlite3_bind_double(statement, at, va_arg(*values, double));
    case 'h': {
        char text[17];
        snprintf(text, sizeof text, "%016" PRIx64, va_arg(*values, uint64_t));
        return sqlite3_bind_text(statement, at, text, -1, SQLITE_TRANSIENT);
    }
    default: { /* 't' */
        const char *text = va_arg(*values, const char *);
        return text == NULL ? sqlite3_bind_null(statement, at)
                            : sqlite3_bind_text(statement, at, text, -1, SQLITE_TRANSIENT);
    }
    }
}

/* The statement of this SQL, kept or new; a second use while the first is under way gets its own. */
static int compile(sqlite3_stmt **out, const sf_database *db, const char *sql) {
    struct sf_kept_statement *place = NULL;
    for (size_t i = 0; i < KEPT && place == NULL; i++)
        if (db->kept[i].sql == sql || db->kept[i].sql == NULL) place = &db->kept[i];
    if (place == NULL || place->lent) return sqlite3_prepare_v2(db->handle, sql, -1, out, NULL);
    if (place->sql == NULL) {
        const int code = sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &place->statement, NULL);
        if (code != SQLITE_OK) return code;
        place->sql = sql;
    }
    place->lent = true;
    *out = place->statement;
    return SQLITE_OK;
}

void sf_database_release(const sf_database *db, sqlite3_stmt *statement) {
    for (size_t i = 0; i < KEPT && statement != NULL; i++) {
        if (db->kept[i].statement != statement) continue;
        sqlite3_reset(statement);
        sqlite3_clear_bindings(statement);
        db->kept[i].lent = false;
        return;
    }
    sqlite3_finalize(statement);
}

static sf_status prepare(sqlite3_stmt **out, const sf_database *db, const char *sql, const char *kinds,
                         va_list *values) {
    *out = NULL;
    if (compile(out, db, sql) != SQLITE_OK) return sf_database_error(db);
    for (int i = 0; kinds[i] != '\0'; i++)
        if (bind_one(*out, i + 1, kinds[i], values) != SQLITE_OK) {
            const sf_status status = sf_database_error(db);
            sf_database_release(db, *out);
            *out = NULL;
            return status;
        }
    return SF_OK;
}

sf_status sf_database_prepare(sqlite3_stmt **out, const sf_database *db, const char *sql, const char *kinds, ...) {
    va_list values;
    va_start(values, kinds);
    const sf_status status = prepare(out, db, sql, kinds, &values);
    va_end(values);
    return status;
}

sf_status sf_database_step(const sf_database *db, sqlite3_stmt *statement, bool *row) {
    const int code = sqlite3_step(statement);
    *row = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? SF_OK : sf_database_error(db);
}

sf_status sf_database_run(const sf_database *db, const char *sql, const char *kinds, ...) {
    sqlite3_stmt *statement;
    va_list values;
    va_start(values, kinds);
    sf_status status = prepare(&statement, db, sql, kinds, &values);
    va_end(values);
    for (bool row = true; row && status == SF_OK;) status = sf_database_step(db, statement, &row);
    sf_database_release(db, statement);
    return status;
}

sf_status sf_database_any(bool *found, const sf_database *db, const char *sql) {
    sqlite3_stmt *statement;
    *found = false;
    SF_TRY(sf_database_prepare(&statement, db, sql, ""));
    const sf_status status = sf_database_step(db, statement, found);
    sf_database_release(db, statement);
    return status;
}

sf_status sf_database_begin(const sf_database *db) {
    return sf_database_run(db, "BEGIN IMMEDIATE", "");
}

sf_status sf_database_end(const sf_database *db, sf_status status) {
    if (status == SF_OK) status = sf_database_run(db, "COMMIT", "");
    if (status != SF_OK && sqlite3_get_autocommit(db->handle) == 0)
        sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    return status;
}
