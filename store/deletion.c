/* Removing a run: the only way to delete rows of a store without replacing them. */
#include <stdio.h>
#include <string.h>

#include "store/claim.h"
#include "store/labels.h"

/* Searches the rows, verified or not, without the index, which may be damaged. */
static sf_status find(sf_stored_run *out, sf_store *store, const char *id) {
    sqlite3_stmt *statement;
    bool found = false, another = false;
    *out = (sf_stored_run){0};
    SF_TRY(
        sf_database_prepare(&statement, &store->db,
                            "SELECT number, id, earlier_id FROM runs NOT INDEXED WHERE substr(id, 1, length(?1)) = ?1"
                            " OR substr(earlier_id, 1, length(?1)) = ?1 LIMIT 2",
                            "t", id));
    sf_status status = sf_database_step(&store->db, statement, &found);
    if (found) {
        out->number = sqlite3_column_int64(statement, 0);
        sf_column_text(out->id, sizeof out->id, statement, 1);
        sf_column_text(out->earlier_id, sizeof out->earlier_id, statement, 2);
        status = sf_database_step(&store->db, statement, &another);
    }
    sf_database_release(&store->db, statement);
    SF_TRY(status);
    return sf_run_found_once(id, found, another);
}

static sf_status delete_rows(sf_store *store, int64_t number) {
    static const char *const deletions[] = {
        "DELETE FROM surface_points WHERE surface IN (SELECT number FROM surfaces WHERE run = ?)",
        "DELETE FROM surfaces WHERE run = ?",
        "DELETE FROM findings WHERE run = ?",
        "DELETE FROM measures WHERE run = ?",
        "DELETE FROM epochs WHERE run = ?",
        "DELETE FROM labels WHERE run = ?",
        "DELETE FROM runs WHERE number = ?",
    };
    SF_TRY(sf_store_execute(store, "REINDEX")); /* else a damaged index keeps its entry */
    for (size_t i = 0; i < sizeof deletions / sizeof *deletions; i++)
        SF_TRY(sf_database_run(&store->db, deletions[i], "i", number));
    SF_TRY(sf_labels_seal(store));
    return sf_list_seal(store);
}

static sf_status delete_run(const sf_stored_run *run, sf_store *store) {
    SF_TRY(sf_store_execute(store, "PRAGMA synchronous = FULL"));
    SF_TRY(sf_database_begin(&store->db));
    SF_TRY(sf_database_end(&store->db, delete_rows(store, run->number)));
    sf_store_sweep(store, run, 0, 0);
    return SF_OK;
}

sf_status sf_store_delete(char removed[SF_RUN_ID_SIZE], sf_store *store, const char *id) {
    sf_stored_run run;
    int claim = -1;
    SF_TRY(find(&run, store, id));
    SF_TRY(sf_claim_take(&claim, store->folder, run.number));
    if (claim < 0)
        return sf_fail(SF_BAD_INPUT, "run %s is being trained by another process; stop that first, or wait for it",
                       run.id);
    const sf_status status = delete_run(&run, store);
    sf_claim_give_back(claim);
    if (status == SF_OK) memcpy(removed, run.id, SF_RUN_ID_SIZE);
    return status;
}
