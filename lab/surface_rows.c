#include "lab/surface_rows.h"

#include <math.h>

#include "lab/database.h"
#include "measure/landscape.h"

static const char key_kinds[] = "ihtiiir";
#define KEY(surface, isa)                                                                                              \
    (surface)->run.number, (surface)->weights_hash, (isa), (int64_t)(surface)->grid, (int64_t)(surface)->samples,      \
        (int64_t)(surface)->seed, (surface)->extent

static sf_status find(int64_t *number, sf_store *store, const sf_surface *surface, const char *isa) {
    const sf_database *db = sf_store_database(store);
    sqlite3_stmt *statement;
    bool found = false;
    SF_TRY(sf_database_prepare(&statement, db,
                               "SELECT number FROM surfaces WHERE run = ? AND weights = ? AND isa = ? AND grid = ?"
                               " AND samples = ? AND seed = ? AND extent = ?",
                               key_kinds, KEY(surface, isa)));
    const sf_status status = sf_database_step(db, statement, &found);
    *number = found ? sqlite3_column_int64(statement, 0) : 0;
    sf_database_release(db, statement);
    return status;
}

sf_status sf_surface_enter(int64_t *number, sf_store *store, const sf_surface *surface, const char *isa) {
    SF_TRY(find(number, store, surface, isa));
    if (*number > 0) return SF_OK;
    SF_TRY(sf_database_run(sf_store_database(store),
                           "INSERT OR IGNORE INTO surfaces (run, weights, isa, grid, samples, seed, extent)"
                           " VALUES (?, ?, ?, ?, ?, ?, ?)",
                           key_kinds, KEY(surface, isa)));
    SF_TRY(find(number, store, surface, isa));
    if (*number > 0) return SF_OK;
    return sf_fail(SF_IO_ERROR, "the store '%s' lost the surface of run %s", sf_store_folder(store), surface->run.id);
}

sf_status sf_surface_each_complete(sf_store *store, const sf_stored_run *run,
                                   void (*each)(void *context, const sf_surface *surface, int64_t number),
                                   void *context) {
    const sf_database *db = sf_store_database(store);
    sqlite3_stmt *statement;
    SF_TRY(sf_database_prepare(&statement, db,
                               "SELECT number, grid, samples, seed, extent,"
                               " (SELECT count(*) FROM surface_points WHERE surface = number)"
                               " FROM surfaces WHERE run = ? AND weights = ? ORDER BY number",
                               "ih", run->number, run->weights_hash));
    sf_status status;
    bool row = true;
    while ((status = sf_database_step(db, statement, &row)) == SF_OK && row) {
        const sf_surface surface = {.run = *run,
                                    .epoch = run->checkpoint_epoch,
                                    .weights_hash = run->weights_hash,
                                    .grid = (size_t)sqlite3_column_int64(statement, 1),
                                    .samples = (size_t)sqlite3_column_int64(statement, 2),
                                    .seed = (uint32_t)sqlite3_column_int64(statement, 3),
                                    .extent = sqlite3_column_double(statement, 4)};
        const sf_lattice lattice = {.grid = surface.grid, .extent = surface.extent};
        if ((size_t)sqlite3_column_int64(statement, 5) == sf_lattice_points(&lattice))
            each(context, &surface, sqlite3_column_int64(statement, 0));
    }
    sf_database_release(db, statement);
    return status;
}

sf_status sf_surface_each_point(sf_store *store, int64_t number,
                                void (*each)(void *context, const sf_surface_point *point), void *context) {
    const sf_database *db = sf_store_database(store);
    sqlite3_stmt *statement;
    SF_TRY(sf_database_prepare(&statement, db, "SELECT point, loss, correct FROM surface_points WHERE surface = ?", "i",
                               number));
    sf_status status;
    bool row = true;
    while ((status = sf_database_step(db, statement, &row)) == SF_OK && row) {
        const bool finite = sqlite3_column_type(statement, 1) != SQLITE_NULL;
        const sf_surface_point point = {.point = (size_t)sqlite3_column_int64(statement, 0),
                                        .loss = finite ? sqlite3_column_double(statement, 1) : NAN,
                                        .correct = (size_t)sqlite3_column_int64(statement, 2)};
        each(context, &point);
    }
    sf_database_release(db, statement);
    return status;
}

sf_status sf_surface_keep(sf_store *store, int64_t number, const sf_surface_point *points /* [count] */, size_t count) {
    const sf_database *db = sf_store_database(store);
    SF_TRY(sf_database_begin(db));
    sf_status status = SF_OK;
    for (size_t i = 0; i < count && status == SF_OK;
         i++) /* another process may have been there: the value is the same */
        status = sf_database_run(db, "INSERT OR IGNORE INTO surface_points VALUES (?, ?, ?, ?)", "iiri", number,
                                 (int64_t)points[i].point, points[i].loss, (int64_t)points[i].correct);
    return sf_database_end(db, status);
}
