#include "store/condition.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "store/condition_text.h"
#include "store/described_runs.h"

enum { LONGEST_VALUE = 1 << 20, STEPS_BETWEEN_LOOKS = 10000 };

/* Allows reading and computing. Everything else (writing, other databases, pragmas, extensions) is refused. */
static int allow(void *context, int action, const char *first, const char *second, const char *database,
                 const char *trigger) {
    (void)database, (void)trigger;
    sf_condition *condition = context;
    if (action == SQLITE_READ && first != NULL && *first != '\0' && strcmp(first, "runs") != 0 &&
        strcmp(first, "labels") != 0)
        condition->reads_rows = true;
    if (action == SQLITE_FUNCTION)
        return strcmp(second, "load_extension") == 0 || strcmp(second, "fts3_tokenizer") == 0 ? SQLITE_DENY : SQLITE_OK;
    return action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_RECURSIVE ? SQLITE_OK : SQLITE_DENY;
}

static int is_late(void *context) {
    sf_condition *condition = context;
    condition->late =
        condition->limited && condition->spent + sf_clock_seconds() - condition->began > SF_CONDITION_SECONDS;
    return condition->late;
}

static void guard(sf_condition *condition) {
    sqlite3 *handle = condition->db->handle;
    sqlite3_set_authorizer(handle, allow, condition);
    sqlite3_progress_handler(handle, STEPS_BETWEEN_LOOKS, is_late, condition);
    condition->length_before = sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, LONGEST_VALUE);
}

void sf_condition_close(sf_condition *condition, sqlite3_stmt *statement) {
    sqlite3 *handle = condition->db->handle;
    sqlite3_finalize(statement);
    sqlite3_set_authorizer(handle, NULL, NULL);
    sqlite3_progress_handler(handle, 0, NULL, NULL);
    sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, condition->length_before);
    sf_release(condition->text);
    condition->text = NULL;
}

static sf_status refuse(const sf_condition *condition, const char *why) {
    char quoted[SF_QUOTE_SIZE];
    return sf_fail(SF_BAD_INPUT, "where is '%s' but must be one SQL condition on the columns of runs: %s",
                   sf_text_quote(quoted, condition->where), why);
}

/* SQLite's reason, with the column that was meant where none has the name. */
static sf_status refuse_as_sqlite(const sf_condition *condition) {
    static const char no_column[] = "no such column: ";
    const char *reason = sqlite3_errmsg(condition->db->handle);
    char why[SF_QUOTE_SIZE + 128], quoted[SF_QUOTE_SIZE], column[SF_COLUMN_SIZE];
    if (strncmp(reason, no_column, strlen(no_column)) != 0) return refuse(condition, reason);
    const char *name = reason + strlen(no_column), *point = strrchr(name, '.');
    const char *meant = sf_condition_column(column, point != NULL ? point + 1 : name);
    if (meant == NULL) return refuse(condition, reason);
    snprintf(why, sizeof why, "%s%s; did you mean '%s'?", no_column, sf_text_quote(quoted, name), meant);
    return refuse(condition, why);
}

/* Whether the error is about the store itself, not about the condition. */
static bool is_damage(int code) {
    return code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_IOERR || code == SQLITE_CANTOPEN ||
           code == SQLITE_BUSY || code == SQLITE_LOCKED || code == SQLITE_NOMEM || code == SQLITE_PROTOCOL;
}

static sf_status failure(const sf_condition *condition) {
    const int code = sqlite3_errcode(condition->db->handle) & 0xff;
    if (is_damage(code)) return sf_database_error(condition->db);
    if (code == SQLITE_AUTH) return refuse(condition, "it may only read the store and compute");
    char quoted[SF_QUOTE_SIZE];
    if (condition->late)
        return sf_fail(SF_BAD_INPUT, "where is '%s', which took more than %d seconds; simplify it",
                       sf_text_quote(quoted, condition->where), SF_CONDITION_SECONDS);
    return refuse_as_sqlite(condition);
}

/* The text is pasted between parentheses. It cannot close them early, since it must also be valid without them; a
 * comment at its end cannot hide the closing one, since that is on a line of its own. */
static bool is_condition(const sf_condition *condition) {
    char *sql = sqlite3_mprintf("SELECT CASE WHEN %s\n THEN 1 END FROM %s", condition->text, sf_described_runs());
    sqlite3_stmt *statement = NULL;
    const int code = sql != NULL ? sqlite3_prepare_v2(condition->db->handle, sql, -1, &statement, NULL) : SQLITE_NOMEM;
    sqlite3_finalize(statement);
    sqlite3_free(sql);
    return code == SQLITE_OK;
}

static sf_status prepare(sqlite3_stmt **out, sf_condition *condition, const char *select, const char *order) {
    const char *rest = "";
    condition->began = sf_clock_seconds();
    char *sql = sf_described_runs() != NULL
                    ? sqlite3_mprintf("%s FROM %s WHERE (%s\n) %s", select, sf_described_runs(), condition->text, order)
                    : NULL;
    if (sql == NULL) return sf_fail(SF_NO_MEMORY, "no memory left to look for runs");
    const int code = sqlite3_prepare_v2(condition->db->handle, sql, -1, out, &rest);
    const bool is_all = *rest == '\0';
    sqlite3_free(sql);
    if (code != SQLITE_OK) return failure(condition);
    if (is_all && sqlite3_stmt_readonly(*out) != 0 && is_condition(condition)) return SF_OK;
    if (is_damage(sqlite3_errcode(condition->db->handle) & 0xff)) return failure(condition);
    return refuse(condition, "this is more than one condition, or another kind of statement");
}

sf_status sf_condition_open(sqlite3_stmt **out, sf_condition *condition, const sf_database *db, const char *select,
                            const char *where, const char *order) {
    *out = NULL;
    const bool all = where == NULL || *where == '\0';
    *condition = (sf_condition){.db = db, .where = all ? "1" : where, .limited = !all};
    SF_TRY(sf_condition_text(&condition->text, condition->where));
    guard(condition);
    const sf_status status = prepare(out, condition, select, order);
    if (status == SF_OK) return status;
    sf_condition_close(condition, *out);
    *out = NULL;
    return status;
}

sf_status sf_condition_step(sf_condition *condition, sqlite3_stmt *statement, bool *row) {
    condition->began = sf_clock_seconds();
    const int code = sqlite3_step(statement);
    condition->spent += sf_clock_seconds() - condition->began;
    *row = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? SF_OK : failure(condition);
}
