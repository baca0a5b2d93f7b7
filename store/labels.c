#include "store/labels.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "semfocus/labels.h"
#include "store/merge.h"
#include "store/schema.h"

static const char *const words[SF_LABEL_KINDS] = {"name", "tag", "note", "archived"};

const char *sf_label_word(int kind) {
    return words[kind];
}

void sf_store_show_archived(sf_store *store) {
    store->shows_archived = true;
}

static sf_status sum_up(uint64_t *out, const sf_store *store) {
    sqlite3_stmt *row;
    bool more = true;
    sf_status status;
    *out = 0;
    SF_TRY(sf_database_prepare(&row, &store->db, "SELECT run, kind, value FROM labels", ""));
    while ((status = sf_database_step(&store->db, row, &more)) == SF_OK && more)
        *out += sf_seal_columns(SF_SEAL_LABEL, row, 3);
    sf_database_release(&store->db, row);
    return status;
}

sf_status sf_labels_verify(const sf_store *store) {
    uint64_t written, found;
    if (!store->has_labels) return SF_OK;
    SF_TRY(sf_labels_seal_read(&written, store));
    SF_TRY(sum_up(&found, store));
    if (found == written) return SF_OK;
    return sf_fail(SF_IO_ERROR,
                   "the store '%s' is damaged (names, tags or notes of its runs are not what was written); restore a "
                   "copy of runs.db",
                   store->folder);
}

sf_status sf_labels_seal(const sf_store *store) {
    uint64_t found;
    SF_TRY(sum_up(&found, store));
    return sf_labels_seal_write(store, found);
}

sf_status sf_store_labels(sf_run_labels *out, sf_store *store, const sf_stored_run *run) {
    sqlite3_stmt *row;
    bool more = true;
    sf_status status;
    size_t used = 0;
    *out = (sf_run_labels){0};
    SF_TRY(sf_database_prepare(&row, &store->db, "SELECT kind, value FROM labels WHERE run = ? ORDER BY kind, value",
                               "i", run->number));
    while ((status = sf_database_step(&store->db, row, &more)) == SF_OK && more) {
        char kind[16];
        sf_column_text(kind, sizeof kind, row, 0);
        if (strcmp(kind, words[SF_LABEL_NAME]) == 0) sf_column_text(out->name, sizeof out->name, row, 1);
        if (strcmp(kind, words[SF_LABEL_NOTE]) == 0) sf_column_text(out->note, sizeof out->note, row, 1);
        if (strcmp(kind, words[SF_LABEL_ARCHIVED]) == 0) out->archived = true;
        if (strcmp(kind, words[SF_LABEL_TAG]) == 0 && used + SF_TAG_SIZE + 2 < sizeof out->tags)
            used += (size_t)snprintf(out->tags + used, sizeof out->tags - used, "%s%.*s", used > 0 ? ", " : "",
                                     SF_TAG_SIZE - 1, (const char *)sqlite3_column_text(row, 1));
    }
    sf_database_release(&store->db, row);
    return status;
}

sf_status sf_label_check(sf_label kind, const char *text) {
    static const size_t sizes[SF_LABEL_KINDS] = {SF_NAME_SIZE, SF_TAG_SIZE, SF_NOTE_SIZE, 1};
    char quoted[SF_QUOTE_SIZE];
    sf_text_quote(quoted, text);
    if (strlen(text) >= sizes[kind] || (kind == SF_LABEL_TAG && *text == '\0'))
        return sf_fail(SF_BAD_INPUT, "%s is '%s' but must have %d to %zu characters", words[kind], quoted,
                       kind == SF_LABEL_TAG, sizes[kind] - 1);
    if (sf_text_is_line(text) && (kind != SF_LABEL_TAG || strchr(text, ',') == NULL)) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "%s is '%s' but must be one line of text%s; leave that character out", words[kind],
                   quoted, kind == SF_LABEL_TAG ? " without commas" : "");
}

static sf_status remove_rows(const sf_store *store, int64_t run, sf_label kind, const char *text) {
    return kind == SF_LABEL_TAG
               ? sf_database_run(&store->db, "DELETE FROM labels WHERE run = ? AND kind = ? AND value = ?", "itt", run,
                                 words[kind], text)
               : sf_database_run(&store->db, "DELETE FROM labels WHERE run = ? AND kind = ?", "it", run, words[kind]);
}

/* The rows are verified before they are changed, so that damage is never sealed over. */
static sf_status change(sf_store *store, const sf_stored_run *run, sf_label kind, const char *text, bool add) {
    sf_stored_run now;
    bool found = false;
    SF_TRY(sf_labels_verify(store));
    SF_TRY(sf_run_read_number(&now, &found, store, run->number));
    if (!found) return sf_fail(SF_IO_ERROR, "run %s is no longer in the store '%s'", run->id, store->folder);
    SF_TRY(remove_rows(store, run->number, kind, text));
    if (add)
        SF_TRY(
            sf_database_run(&store->db, "INSERT INTO labels VALUES (?, ?, ?)", "itt", run->number, words[kind], text));
    return sf_labels_seal(store);
}

static sf_status change_at_once(sf_store *store, const sf_stored_run *run, sf_label kind, const char *text, bool add) {
    SF_TRY(sf_label_check(kind, text));
    SF_TRY(sf_database_begin(&store->db));
    return sf_database_end(&store->db, change(store, run, kind, text, add));
}

sf_status sf_store_add_label(sf_store *store, const sf_stored_run *run, sf_label kind, const char *text) {
    return change_at_once(store, run, kind, text, kind == SF_LABEL_ARCHIVED || *text != '\0');
}

sf_status sf_store_remove_label(sf_store *store, const sf_stored_run *run, sf_label kind, const char *text) {
    return change_at_once(store, run, kind, text, false);
}

/* The same run in the target; 0: it is not there, because a process is training it. */
static sf_status find_in_target(int64_t *out, sf_store *target, sf_store *source, int64_t number) {
    sf_version theirs, ours;
    bool found;
    *out = 0;
    SF_TRY(sf_version_read(&theirs, source, number));
    SF_TRY(sf_version_find(&ours, &found, target, &theirs.run));
    if (found) *out = ours.run.number;
    return SF_OK;
}

/* Unless the run has it already, or a name or note that stays: merging again changes nothing. */
static sf_status add_merged(const sf_store *target, int64_t number, const char *kind, const char *value) {
    return sf_database_run(&target->db,
                           "INSERT OR IGNORE INTO labels SELECT ?1, ?2, ?3 WHERE ?2 NOT IN ('name', 'note')"
                           " OR NOT EXISTS (SELECT 1 FROM labels WHERE run = ?1 AND kind = ?2 AND value <= ?3)",
                           "itt", number, kind, value);
}

sf_status sf_labels_merge(sf_store *target, sf_store *source) {
    sqlite3_stmt *row;
    bool more = true;
    sf_status status;
    int64_t before = 0, number = 0;
    const int changes = sqlite3_total_changes(target->db.handle);
    SF_TRY(sf_labels_verify(target));
    SF_TRY(sf_labels_verify(source));
    SF_TRY(sf_database_prepare(&row, &source->db, "SELECT run, kind, value FROM labels ORDER BY run", ""));
    while ((status = sf_database_step(&source->db, row, &more)) == SF_OK && more) {
        if (sqlite3_column_int64(row, 0) != before)
            status = find_in_target(&number, target, source, sqlite3_column_int64(row, 0));
        before = sqlite3_column_int64(row, 0);
        if (status == SF_OK && number > 0)
            status = add_merged(target, number, (const char *)sqlite3_column_text(row, 1),
                                (const char *)sqlite3_column_text(row, 2));
        if (status != SF_OK) break;
    }
    sf_database_release(&source->db, row);
    SF_TRY(status);
    SF_TRY(sf_database_run(&target->db,
                           "DELETE FROM labels WHERE kind IN ('name', 'note') AND value >"
                           " (SELECT MIN(l.value) FROM labels l WHERE l.run = labels.run AND l.kind = labels.kind)",
                           ""));
    return sqlite3_total_changes(target->db.handle) != changes ? sf_labels_seal(target) : SF_OK;
}
