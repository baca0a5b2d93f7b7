/* Checkpoint files that no row names any more: those of shorter versions of runs that were merged, now or by a process
 * that was killed before it could remove them. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "store/claim.h"
#include "store/merge.h"

typedef struct named { /* a run by an id that is the name of its files, or may have been */
    char name[SF_RUN_ID_SIZE];
    int64_t number;
    size_t last, best; /* epochs of the files with this name */
} named;

typedef struct names {
    named *each; /* [count], sorted */
    size_t count, room;
} names;

static int by_name(const void *a, const void *b) {
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

static sf_status add_name(names *all, sqlite3_stmt *row) {
    if (all->count == all->room) {
        const size_t room = 2 * all->room + 256;
        SF_TRY(SF_GROW(&all->each, all->count, room));
        all->room = room;
    }
    named *one = &all->each[all->count++];
    *one = (named){
        .number = sqlite3_column_int64(row, 1), .last = sf_column_count(row, 2), .best = sf_column_count(row, 3)};
    sf_column_text(one->name, sizeof one->name, row, 0);
    return SF_OK;
}

static sf_status list_names(names *out, const sf_store *store) {
    sqlite3_stmt *row;
    bool more = true;
    SF_TRY(sf_database_prepare(&row, &store->db,
                               "SELECT COALESCE(earlier_id, id), number, checkpoint_epoch, best_saved_epoch FROM runs"
                               " UNION ALL SELECT id, number, 0, 0 FROM runs WHERE earlier_id <> id",
                               ""));
    sf_status status;
    while ((status = sf_database_step(&store->db, row, &more)) == SF_OK && more) {
        status = add_name(out, row);
        if (status != SF_OK) break;
    }
    sf_database_release(&store->db, row);
    if (out->count > 0) qsort(out->each, out->count, sizeof *out->each, by_name);
    return status;
}

/* The run that a file belongs to by its name, NAME-EPOCH or NAME-best-EPOCH; NULL: none. */
static const named *owner_of(bool *best, size_t *epoch, const names *all, const char *file) {
    static const char mark[] = "-best", ending[] = ".safetensors";
    named wanted = {0};
    const size_t length = strspn(file, "0123456789abcdef");
    if (length >= sizeof wanted.name || all->count == 0) return NULL;
    memcpy(wanted.name, file, length);
    const char *at = file + length;
    *best = strncmp(at, mark, strlen(mark)) == 0;
    if (*best) at += strlen(mark);
    const size_t digits = *at == '-' ? strspn(at + 1, "0123456789") : 0;
    if (digits == 0 || strcmp(at + 1 + digits, ending) != 0) return NULL;
    *epoch = (size_t)strtoull(at + 1, NULL, 10);
    return bsearch(&wanted, all->each, all->count, sizeof *all->each, by_name);
}

static bool is_named(const sf_store *store, const sf_stored_run *run, const char *path) {
    char last[SF_CHECKPOINT_PATH_SIZE], best[SF_CHECKPOINT_PATH_SIZE];
    sf_store_checkpoint_path(last, store, run, false, run->checkpoint_epoch);
    sf_store_checkpoint_path(best, store, run, true, run->best_saved_epoch);
    return strcmp(path, last) == 0 || strcmp(path, best) == 0;
}

/* Under a claim, because a process that trains the run writes files before the row that names them. */
static void remove_if_unnamed(const sf_store *store, int64_t number, const char *path) {
    int claim = -1;
    sf_stored_run now;
    bool found = false;
    if (sf_claim_take(&claim, store->folder, number) != SF_OK || claim < 0) return;
    if (sf_run_read_number(&now, &found, store, number) == SF_OK && found && !is_named(store, &now, path)) unlink(path);
    sf_claim_give_back(claim);
}

static void remove_unnamed(const sf_store *store, const names *all) {
    char folder[SF_CHECKPOINT_PATH_SIZE];
    snprintf(folder, sizeof folder, "%s/checkpoints", store->folder);
    DIR *listing = opendir(folder);
    if (listing == NULL) return;
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        char path[SF_CHECKPOINT_PATH_SIZE + 300];
        size_t epoch;
        bool best;
        const named *owner = owner_of(&best, &epoch, all, entry->d_name);
        if (owner == NULL || epoch == (best ? owner->best : owner->last)) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        remove_if_unnamed(store, owner->number, path);
    }
    closedir(listing);
}

void sf_merge_tidy(const sf_store *store) {
    names all = {0};
    if (list_names(&all, store) == SF_OK) remove_unnamed(store, &all);
    sf_release(all.each);
}
