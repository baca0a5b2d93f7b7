#include "store/surface_rows.h"

#include <math.h>

#include "measure/landscape.h"
#include "store/store_inside.h"

/* In the order of the table; the seal comes last. */
#define SURFACE_COLUMNS "number, run, weights, isa, grid, samples, seed, extent, points_seal, seal"
#define POINTS          "SELECT surface, point, loss, correct FROM surface_points WHERE surface = ?"
enum { SEALED_COLUMNS = 9, KEY_COLUMNS = 7, POINT_COLUMNS = 4 };

typedef struct stored_surface {
    int64_t number;
    size_t grid, samples;
    uint32_t seed;
    double extent;
    uint64_t points_seal;
} stored_surface;

static sf_status damaged(const sf_store *store, const sf_stored_run *run, int64_t number) {
    return sf_run_damaged(store, run->id, "its loss surface number %lld is not what was written", (long long)number);
}

/* A row of SURFACE_COLUMNS, verified. */
static sf_status read_surface(stored_surface *out, const sf_store *store, const sf_stored_run *run, sqlite3_stmt *row) {
    *out = (stored_surface){.number = sqlite3_column_int64(row, 0),
                            .grid = sf_column_count(row, 4),
                            .samples = sf_column_count(row, 5),
                            .seed = (uint32_t)sqlite3_column_int64(row, 6),
                            .extent = sqlite3_column_double(row, 7),
                            .points_seal = (uint64_t)sqlite3_column_int64(row, 8)};
    const uint64_t seal = (uint64_t)sqlite3_column_int64(row, 9);
    if (store->sealed && sf_seal_columns(SF_SEAL_SURFACE, row, SEALED_COLUMNS) != seal)
        return damaged(store, run, out->number);
    return SF_OK;
}

sf_status sf_surface_seal(const sf_store *store, int64_t number) {
    return sf_row_seal(store, SF_SEAL_SURFACE, SEALED_COLUMNS,
                       "SELECT " SURFACE_COLUMNS " FROM surfaces WHERE number = ?",
                       "UPDATE surfaces SET seal = ? WHERE number = ?", number);
}

/* The instruction set is a column because it once changed the numbers; now it is empty. */
#define KEY(surface)                                                                                                   \
    (surface)->run.number, (surface)->weights_hash, (int64_t)(surface)->grid, (int64_t)(surface)->samples,             \
        (int64_t)(surface)->seed, (surface)->extent

/* Searches the rows themselves, which are verified, and not their index. */
static sf_status find(int64_t *number, const sf_store *store, const sf_surface *surface) {
    sqlite3_stmt *statement;
    bool found = false;
    SF_TRY(sf_database_prepare(&statement, &store->db,
                               "SELECT number FROM surfaces NOT INDEXED WHERE run = ? AND weights = ? AND grid = ?"
                               " AND samples = ? AND seed = ? AND extent = ? ORDER BY number LIMIT 1",
                               "ihiiir", KEY(surface)));
    const sf_status status = sf_database_step(&store->db, statement, &found);
    *number = found ? sqlite3_column_int64(statement, 0) : 0;
    sf_database_release(&store->db, statement);
    return status;
}

sf_status sf_surface_key_seal(uint64_t *out, const sf_store *store, int64_t number) {
    sqlite3_stmt *statement;
    bool found = false;
    SF_TRY(sf_database_prepare(&statement, &store->db, "SELECT " SF_SURFACE_KEY " FROM surfaces WHERE number = ?", "i",
                               number));
    const sf_status status = sf_database_step(&store->db, statement, &found);
    *out = found ? sf_seal_columns(SF_SEAL_LISTED, statement, KEY_COLUMNS) : 0;
    sf_database_release(&store->db, statement);
    return status;
}

sf_status sf_surface_add_points_seal(const sf_store *store, int64_t number, uint64_t added) {
    sqlite3_stmt *statement;
    bool found = false;
    SF_TRY(
        sf_database_prepare(&statement, &store->db, "SELECT points_seal FROM surfaces WHERE number = ?", "i", number));
    const sf_status status = sf_database_step(&store->db, statement, &found);
    const uint64_t seal = added + (found ? (uint64_t)sqlite3_column_int64(statement, 0) : 0);
    sf_database_release(&store->db, statement);
    SF_TRY(status);
    SF_TRY(sf_database_run(&store->db, "UPDATE surfaces SET points_seal = ? WHERE number = ?", "ii", (int64_t)seal,
                           number));
    return sf_surface_seal(store, number);
}

/* Within a change of the run. */
static sf_status enter(int64_t *number, sf_store *store, sf_stored_run *now, const sf_surface *surface) {
    SF_TRY(sf_surfaces_verify(store, now)); /* one that is missing must not be entered a second time */
    SF_TRY(find(number, store, surface));   /* another process may have been faster */
    if (*number > 0) return SF_OK;
    SF_TRY(sf_database_run(&store->db,
                           "INSERT INTO surfaces (run, weights, isa, grid, samples, seed, extent)"
                           " VALUES (?, ?, '', ?, ?, ?, ?)",
                           "ihiiir", KEY(surface)));
    *number = sqlite3_last_insert_rowid(store->db.handle);
    uint64_t key;
    SF_TRY(sf_surface_seal(store, *number));
    SF_TRY(sf_surface_key_seal(&key, store, *number));
    now->surfaces_seal += key;
    return SF_OK;
}

sf_status sf_surface_enter(int64_t *number, sf_store *store, const sf_surface *surface) {
    SF_TRY(find(number, store, surface));
    if (*number > 0) return SF_OK;
    sf_stored_run now;
    SF_TRY(sf_run_change(&now, store, surface->run.number));
    return sf_run_changed(store, &now, enter(number, store, &now, surface));
}

/* The points of a surface with their seal; `each` may be NULL. */
static sf_status go_through(uint64_t *seal, size_t *count, const sf_store *store, int64_t number,
                            void (*each)(void *context, const sf_surface_point *point), void *context) {
    sqlite3_stmt *statement;
    SF_TRY(sf_database_prepare(&statement, &store->db, POINTS, "i", number));
    sf_status status;
    bool row = true;
    *seal = 0;
    *count = 0;
    while ((status = sf_database_step(&store->db, statement, &row)) == SF_OK && row) {
        *seal += sf_seal_columns(SF_SEAL_POINT, statement, POINT_COLUMNS);
        ++*count;
        if (each == NULL) continue;
        const bool finite = sqlite3_column_type(statement, 2) != SQLITE_NULL;
        const sf_surface_point point = {.point = (size_t)sqlite3_column_int64(statement, 1),
                                        .loss = finite ? sqlite3_column_double(statement, 2) : NAN,
                                        .correct = (size_t)sqlite3_column_int64(statement, 3)};
        each(context, &point);
    }
    sf_database_release(&store->db, statement);
    return status;
}

typedef sf_status visitor(void *context, const stored_surface *surface, size_t points);

/* The surfaces of a run, all of them verified with their points, in an order that does not depend on which was computed
 * first. `run` must have been read at the same moment. */
static sf_status visit(sf_store *store, const sf_stored_run *run, visitor *each, void *context) {
    sqlite3_stmt *statement;
    if (store->sealed && run->surfaces_seal == 0) /* none were entered */
        return SF_OK;
    SF_TRY(sf_database_prepare(&statement, &store->db,
                               "SELECT " SURFACE_COLUMNS " FROM surfaces WHERE run = ?"
                               " ORDER BY grid DESC, samples DESC, seed, extent, weights, isa",
                               "i", run->number));
    sf_status status;
    uint64_t keys = 0;
    bool row = true;
    while ((status = sf_database_step(&store->db, statement, &row)) == SF_OK && row) {
        stored_surface surface;
        uint64_t key, seal;
        size_t points;
        status = read_surface(&surface, store, run, statement);
        if (status == SF_OK) status = sf_surface_key_seal(&key, store, surface.number);
        if (status == SF_OK) status = go_through(&seal, &points, store, surface.number, NULL, NULL);
        if (status == SF_OK && store->sealed && seal != surface.points_seal)
            status = damaged(store, run, surface.number);
        if (status == SF_OK && each != NULL && run->weights_hash == sf_column_hash(statement, 2))
            status = each(context, &surface, points);
        if (status != SF_OK) break;
        keys += key;
    }
    sf_database_release(&store->db, statement);
    if (status == SF_OK && store->sealed && keys != run->surfaces_seal)
        status = sf_run_damaged(store, run->id, "one of its loss surfaces is missing or changed");
    return status;
}

sf_status sf_surfaces_verify(sf_store *store, const sf_stored_run *run) {
    return visit(store, run, NULL, NULL);
}

typedef struct completes {
    const sf_stored_run *run;
    void (*each)(void *context, const sf_surface *surface, int64_t number);
    void *context;
} completes;

static sf_status tell_complete(void *context, const stored_surface *found, size_t points) {
    const completes *c = context;
    const sf_surface surface = {.run = *c->run,
                                .epoch = c->run->checkpoint_epoch,
                                .weights_hash = c->run->weights_hash,
                                .grid = found->grid,
                                .samples = found->samples,
                                .seed = found->seed,
                                .extent = found->extent};
    const sf_lattice lattice = {.grid = surface.grid, .extent = surface.extent};
    if (points == sf_lattice_points(&lattice)) c->each(c->context, &surface, found->number);
    return SF_OK;
}

sf_status sf_surface_each_complete(sf_store *store, const sf_stored_run *run,
                                   void (*each)(void *context, const sf_surface *surface, int64_t number),
                                   void *context) {
    sf_stored_run now;
    bool frozen;
    SF_TRY(sf_run_now(&now, &frozen, store, run));
    completes c = {.run = &now, .each = each, .context = context};
    const sf_status status = visit(store, &now, tell_complete, &c);
    if (frozen) sf_store_unfreeze(store);
    return status;
}

/* The surface's own row, verified. */
static sf_status look_up(stored_surface *out, const sf_store *store, const sf_stored_run *run, int64_t number) {
    sqlite3_stmt *statement;
    bool found = false;
    *out = (stored_surface){0};
    SF_TRY(sf_database_prepare(&statement, &store->db, "SELECT " SURFACE_COLUMNS " FROM surfaces WHERE number = ?", "i",
                               number));
    sf_status status = sf_database_step(&store->db, statement, &found);
    if (status == SF_OK) status = found ? read_surface(out, store, run, statement) : damaged(store, run, number);
    sf_database_release(&store->db, statement);
    return status;
}

static sf_status each_point(sf_store *store, const sf_stored_run *run, int64_t number,
                            void (*each)(void *context, const sf_surface_point *point), void *context) {
    stored_surface surface;
    uint64_t seal;
    size_t count;
    SF_TRY(look_up(&surface, store, run, number));
    SF_TRY(go_through(&seal, &count, store, number, NULL, NULL));
    if (store->sealed && seal != surface.points_seal) return damaged(store, run, number);
    return go_through(&seal, &count, store, number, each, context);
}

sf_status sf_surface_each_point(sf_store *store, const sf_stored_run *run, int64_t number,
                                void (*each)(void *context, const sf_surface_point *point), void *context) {
    const bool freezes = !store->frozen;
    if (freezes) SF_TRY(sf_store_freeze(store));
    const sf_status status = each_point(store, run, number, each, context);
    if (freezes) sf_store_unfreeze(store);
    return status;
}

static sf_status keep_one(uint64_t *points_seal, const sf_store *store, int64_t number, const sf_surface_point *point) {
    /* another process may have stored it: the value is the same */
    SF_TRY(sf_database_run(&store->db, "INSERT OR IGNORE INTO surface_points VALUES (?, ?, ?, ?)", "iiri", number,
                           (int64_t)point->point, point->loss, (int64_t)point->correct));
    if (sqlite3_changes(store->db.handle) == 0) return SF_OK;
    sqlite3_stmt *statement;
    bool found = false;
    SF_TRY(sf_database_prepare(&statement, &store->db, POINTS " AND point = ?", "ii", number, (int64_t)point->point));
    const sf_status status = sf_database_step(&store->db, statement, &found);
    if (found) *points_seal += sf_seal_columns(SF_SEAL_POINT, statement, POINT_COLUMNS);
    sf_database_release(&store->db, statement);
    return status;
}

static sf_status keep(sf_store *store, const sf_stored_run *run, int64_t number, const sf_surface_point *points,
                      size_t count) {
    stored_surface surface;
    SF_TRY(look_up(&surface, store, run, number));
    for (size_t i = 0; i < count; i++) SF_TRY(keep_one(&surface.points_seal, store, number, &points[i]));
    SF_TRY(sf_database_run(&store->db, "UPDATE surfaces SET points_seal = ? WHERE number = ?", "ii",
                           (int64_t)surface.points_seal, number));
    return sf_surface_seal(store, number);
}

sf_status sf_surface_keep(sf_store *store, const sf_stored_run *run, int64_t number,
                          const sf_surface_point *points /* [count] */, size_t count) {
    SF_TRY(sf_database_begin(&store->db));
    return sf_database_end(&store->db, keep(store, run, number, points, count));
}
