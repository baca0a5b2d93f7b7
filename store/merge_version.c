/* The versions of a run in the stores that are merged: finding them, and verifying rows and files. */
#include <string.h>

#include "base/stop.h"
#include "store/merge.h"
#include "store/new_ids.h"
#include "train/checkpoint.h"

static bool has_earlier_id_only(const sf_stored_run *run) {
    return *run->id != '\0' && strcmp(run->id, run->earlier_id) == 0;
}

/* As opening the store for writing would do. */
static sf_status renew_id(sf_version *version) {
    char id[SF_RUN_ID_SIZE];
    if (!has_earlier_id_only(&version->run) || version->store->stands_in) return SF_OK;
    SF_TRY(sf_ids_find_new(id, version->store, version->run.number));
    if (*id != '\0') memcpy(version->run.id, id, sizeof id);
    return SF_OK;
}

sf_status sf_version_read(sf_version *out, sf_store *store, int64_t number) {
    bool found = false;
    out->store = store;
    SF_TRY(sf_run_read_number(&out->run, &found, store, number));
    if (!found)
        return sf_fail(SF_IO_ERROR, "run number %lld is no longer in the store '%s'", (long long)number, store->folder);
    return renew_id(out);
}

static sf_status find_by_earlier_id(sf_stored_run *out, bool *found, sf_store *store, const char *id) {
    sqlite3_stmt *row;
    SF_TRY(sf_database_prepare(&row, &store->db, "SELECT " SF_RUN_COLUMNS " FROM runs WHERE earlier_id = ?", "t", id));
    sf_status status = sf_database_step(&store->db, row, found);
    if (*found) status = sf_run_read(out, store, row);
    sf_database_release(&store->db, row);
    return status;
}

sf_status sf_version_find(sf_version *out, bool *found, sf_store *store, const sf_stored_run *run) {
    *found = false;
    out->store = store;
    SF_TRY(sf_store_look_up(&out->run, found, store, run->id));
    if (*found || *run->earlier_id == '\0') return SF_OK;
    if (has_earlier_id_only(run)) return find_by_earlier_id(&out->run, found, store, run->earlier_id);
    SF_TRY(sf_store_look_up(&out->run, found, store, run->earlier_id));
    *found = *found && has_earlier_id_only(&out->run);
    return SF_OK;
}

static sf_status go_on(void *stop, const void *bytes, size_t count) {
    (void)bytes, (void)count;
    return sf_stop_asked(*(const atomic_int **)stop) ? sf_fail(SF_INTERRUPTED, "stopped on request") : SF_OK;
}

static sf_status verify_file(const sf_version *version, bool best, const atomic_int *stop) {
    const sf_stored_run *run = &version->run;
    const size_t epoch = best ? run->best_saved_epoch : run->checkpoint_epoch;
    char path[SF_CHECKPOINT_PATH_SIZE];
    if (epoch == 0) return SF_OK;
    sf_store_checkpoint_path(path, version->store, run, best, epoch);
    return sf_fail_in(sf_checkpoint_each_piece(path, best ? run->best_hash : run->checkpoint_hash, go_on, &stop),
                      "run %s", run->id);
}

sf_status sf_version_verify(const sf_version *version, const atomic_int *stop) {
    SF_TRY(sf_run_verify_rows(version->store, &version->run));
    SF_TRY(verify_file(version, false, stop));
    return verify_file(version, true, stop);
}
