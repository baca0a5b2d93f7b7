#include "store/new_ids.h"

#include <string.h>

#include "store/identity.h"

typedef struct entered { /* a run as an earlier version entered it */
    int64_t number;
    char id[SF_RUN_ID_SIZE];
    bool whole; /* the row is not damaged */
    char new_id[SF_RUN_ID_SIZE];
} entered;

enum { ID = 1, TASK = 2, SETTINGS = 21, SEAL = 30 }; /* places among SF_RUN_COLUMNS */

/* *out is empty if the run cannot be identified. */
static sf_status find_new_id(char out[SF_RUN_ID_SIZE], const char *id, const char *task, const char *settings) {
    sf_config config;
    sf_run_ids ids;
    *out = '\0';
    sf_status status = sf_run_settings_read(&config, id, task, settings);
    if (status == SF_OK) status = sf_run_identify_both(&ids, &config, task);
    if (status == SF_NO_MEMORY) return status;
    if (status == SF_OK && strcmp(ids.earlier, id) == 0) memcpy(out, ids.id, SF_RUN_ID_SIZE);
    return SF_OK;
}

static const char *text_at(sqlite3_stmt *row, int column) {
    const char *text = (const char *)sqlite3_column_text(row, column);
    return text != NULL ? text : "";
}

/* The next run after run->number; *found: whether there is one. */
static sf_status read_next(entered *run, bool *found, const sf_store *store, int sealed_columns, bool all) {
    sqlite3_stmt *row;
    SF_TRY(sf_database_prepare(&row, &store->db,
                               "SELECT " SF_RUN_COLUMNS " FROM runs WHERE number > ? AND (? OR earlier_id = id)"
                               " ORDER BY number LIMIT 1",
                               "ii", run->number, (int64_t)all));
    sf_status status = sf_database_step(&store->db, row, found);
    if (*found) {
        run->number = sqlite3_column_int64(row, 0);
        sf_column_text(run->id, sizeof run->id, row, ID);
        run->whole = sf_seal_columns(SF_SEAL_RUN, row, sealed_columns) == (uint64_t)sqlite3_column_int64(row, SEAL);
        status = find_new_id(run->new_id, run->id, text_at(row, TASK), text_at(row, SETTINGS));
    }
    sf_database_release(&store->db, row);
    return status;
}

static sf_status is_taken(bool *out, const sf_store *store, const char *id) {
    sqlite3_stmt *row;
    *out = false;
    SF_TRY(sf_database_prepare(&row, &store->db, "SELECT 1 FROM runs WHERE id = ?", "t", id));
    const sf_status status = sf_database_step(&store->db, row, out);
    sf_database_release(&store->db, row);
    return status;
}

static sf_status renew(const sf_store *store, const entered *run, bool all) {
    bool keeps = *run->new_id == '\0';
    if (keeps && !all) return SF_OK;
    if (!keeps) SF_TRY(is_taken(&keeps, store, run->new_id));
    SF_TRY(sf_run_rename(store, run->number, run->id, keeps ? run->id : run->new_id));
    return sf_run_seal(store, run->number);
}

static sf_status renew_each(const sf_store *store, int sealed_columns, bool all) {
    entered run = {0};
    bool found = true;
    for (;;) {
        SF_TRY(read_next(&run, &found, store, sealed_columns, all));
        if (!found) return SF_OK;
        if (run.whole) SF_TRY(renew(store, &run, all));
    }
}

sf_status sf_ids_renew(const sf_store *store, int sealed_columns) {
    return renew_each(store, sealed_columns, true);
}

sf_status sf_ids_renew_rest(const sf_store *store) {
    SF_TRY(sf_database_begin(&store->db));
    return sf_database_end(&store->db, renew_each(store, SF_RUN_SEALED_COLUMNS, false));
}

sf_status sf_ids_find_new(char out[SF_RUN_ID_SIZE], const sf_store *store, int64_t number) {
    sqlite3_stmt *row;
    bool found = false;
    *out = '\0';
    SF_TRY(sf_database_prepare(&row, &store->db, "SELECT id, task, settings FROM runs WHERE number = ?", "i", number));
    sf_status status = sf_database_step(&store->db, row, &found);
    if (found) status = find_new_id(out, text_at(row, 0), text_at(row, 1), text_at(row, 2));
    sf_database_release(&store->db, row);
    return status;
}

static sf_status foretell_one(const sf_store *store, sqlite3_stmt *row) {
    char id[SF_RUN_ID_SIZE], new_id[SF_RUN_ID_SIZE];
    sf_column_text(id, sizeof id, row, 1);
    SF_TRY(find_new_id(new_id, id, text_at(row, 2), text_at(row, 3)));
    if (*new_id == '\0') return SF_OK;
    return sf_database_run(&store->db, "INSERT OR IGNORE INTO temp.new_ids VALUES (?, ?)", "it",
                           sqlite3_column_int64(row, 0), new_id);
}

sf_status sf_ids_foretell(const sf_store *store) {
    sqlite3_stmt *row;
    SF_TRY(sf_database_prepare(&row, &store->db, "SELECT number, id, task, settings FROM main.runs", ""));
    bool found = true;
    sf_status status;
    while ((status = sf_database_step(&store->db, row, &found)) == SF_OK && found) {
        status = foretell_one(store, row);
        if (status != SF_OK) break;
    }
    sf_database_release(&store->db, row);
    return status;
}
