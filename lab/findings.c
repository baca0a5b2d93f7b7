#include "lab/findings.h"

#include <math.h>

#include "lab/database.h"

sf_status sf_findings_keep(sf_store *store, const sf_stored_run *run, const sf_finding *findings, size_t count) {
    const sf_database *db = sf_store_database(store);
    SF_TRY(sf_database_begin(db));
    sf_status status = SF_OK;
    for (size_t i = 0; i < count && status == SF_OK; i++)
        status = sf_database_run(db, "INSERT OR IGNORE INTO findings VALUES (?, ?, ?, ?)", "ihtr", run->number,
                                 run->weights_hash, findings[i].name, findings[i].value);
    return sf_database_end(db, status);
}

sf_status sf_findings_read(double *out, bool *found, sf_store *store, const sf_stored_run *run, const char *name) {
    const sf_database *db = sf_store_database(store);
    sqlite3_stmt *statement;
    *found = false;
    *out = NAN;
    SF_TRY(sf_database_prepare(&statement, db, "SELECT value FROM findings WHERE run = ? AND weights = ? AND name = ?",
                               "iht", run->number, run->weights_hash, name));
    const sf_status status = sf_database_step(db, statement, found);
    if (*found && sqlite3_column_type(statement, 0) != SQLITE_NULL) *out = sqlite3_column_double(statement, 0);
    sf_database_release(db, statement);
    return status;
}
