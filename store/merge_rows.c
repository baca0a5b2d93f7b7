/* Writing a joined run into the target: its rows are copied as the source has them, verified by their seals, and sealed
 * under the run's number there. */
#include <string.h>

#include "base/hash.h"
#include "store/labels.h"
#include "store/merge.h"

#define QUANTILES "q0, q1, q5, q10, q25, q50, q75, q90, q95, q99, q100"
const sf_child_table sf_child_epochs = {
    .rows = "SELECT run, epoch, tr_ce, tr_ac, va_ce, va_ac, seconds FROM epochs WHERE run = ? ORDER BY epoch",
    .insert = "INSERT OR IGNORE INTO epochs VALUES (?, ?, ?, ?, ?, ?, ?)",
    .kind = SF_SEAL_EPOCH,
    .columns = 7,
    .keys = 2,
    .compared = 6};
const sf_child_table sf_child_measures = {
    .rows =
        "SELECT run, epoch, block, measure, " QUANTILES " FROM measures WHERE run = ? ORDER BY epoch, block, measure",
    .insert = "INSERT OR IGNORE INTO measures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    .kind = SF_SEAL_MEASURE,
    .columns = 15,
    .keys = 4,
    .compared = 15};
const sf_child_table sf_child_findings = {
    .rows = "SELECT run, weights, name, value FROM findings WHERE run = ? ORDER BY weights, name",
    .insert = "INSERT OR IGNORE INTO findings VALUES (?, ?, ?, ?)",
    .kind = SF_SEAL_FINDING,
    .columns = 4,
    .keys = 3,
    .compared = 4};
const sf_child_table sf_child_points = {
    .rows = "SELECT surface, point, loss, correct FROM surface_points WHERE surface = ? ORDER BY point",
    .insert = "INSERT OR IGNORE INTO surface_points VALUES (?, ?, ?, ?)",
    .kind = SF_SEAL_POINT,
    .columns = 4,
    .keys = 2,
    .compared = 4};

/* Runs a statement whose first value is `owner` and whose others are the columns of a row from `first` on. */
static sf_status run_with_row(const sf_database *db, const char *sql, int64_t owner, sqlite3_stmt *row, int first,
                              int columns) {
    sqlite3_stmt *statement;
    bool more = true;
    SF_TRY(sf_database_prepare(&statement, db, sql, "i", owner));
    sf_status status = SF_OK;
    for (int i = first; i < columns && status == SF_OK; i++)
        if (sqlite3_bind_value(statement, i - first + 2, sqlite3_column_value(row, i)) != SQLITE_OK)
            status = sf_database_error(db);
    while (status == SF_OK && more) status = sf_database_step(db, statement, &more);
    sf_database_release(db, statement);
    return status;
}

static uint64_t seal_under(const sf_child_table *table, int64_t owner, sqlite3_stmt *row) {
    uint64_t seal = sf_seal_word(sf_seal_start(table->kind), (uint64_t)owner);
    for (int i = 1; i < table->columns; i++) seal = sf_seal_column(seal, row, i);
    return sf_seal_end(seal);
}

typedef struct owner { /* of rows: a run, or a surface */
    const sf_store *store;
    int64_t number;
} owner;

/* Copies the rows that the target does not have. *added: the seals of these; *all: those of all rows as the source has
 * them. */
static sf_status copy_rows(uint64_t *added, uint64_t *all, const sf_child_table *table, owner to, owner from) {
    sqlite3_stmt *row;
    bool more = true;
    *added = *all = 0;
    SF_TRY(sf_database_prepare(&row, &from.store->db, table->rows, "i", from.number));
    sf_status status;
    while ((status = sf_database_step(&from.store->db, row, &more)) == SF_OK && more) {
        status = run_with_row(&to.store->db, table->insert, to.number, row, 1, table->columns);
        if (status != SF_OK) break;
        *all += seal_under(table, from.number, row);
        if (sqlite3_changes(to.store->db.handle) > 0) *added += seal_under(table, to.number, row);
    }
    sf_database_release(&from.store->db, row);
    return status;
}

/* The same for the rows of the run, which must be those that its entry in the source was sealed with. */
static sf_status copy_table(uint64_t *seal, const sf_join *join, const sf_child_table *table, uint64_t sealed) {
    uint64_t added, all;
    const sf_version *source = &join->source;
    SF_TRY(copy_rows(&added, &all, table, (owner){join->target.store, join->joined.number},
                     (owner){source->store, source->run.number}));
    *seal += added;
    if (!source->store->sealed || all == sealed) return SF_OK;
    return sf_run_damaged(source->store, source->run.id, "its rows are not what was written");
}

sf_status sf_surface_with_key(int64_t *number, const sf_store *store, int64_t run, sqlite3_stmt *key) {
    sqlite3_stmt *row;
    bool found = false;
    SF_TRY(sf_database_prepare(&row, &store->db,
                               "SELECT number FROM surfaces WHERE run = ? AND weights = ? AND isa = ? AND grid = ?"
                               " AND samples = ? AND seed = ? AND extent = ?",
                               "i", run));
    sf_status status = SF_OK;
    for (int i = 2; i < sqlite3_column_count(key) && status == SF_OK; i++)
        if (sqlite3_bind_value(row, i, sqlite3_column_value(key, i)) != SQLITE_OK)
            status = sf_database_error(&store->db);
    if (status == SF_OK) status = sf_database_step(&store->db, row, &found);
    *number = found ? sqlite3_column_int64(row, 0) : 0;
    sf_database_release(&store->db, row);
    return status;
}

/* The surface in the target, entered if it is new; *key is then its seal in the run's list of surfaces. */
static sf_status enter_surface(int64_t *number, uint64_t *key, const sf_join *join, sqlite3_stmt *row) {
    const sf_store *target = join->target.store;
    *key = 0;
    SF_TRY(sf_surface_with_key(number, target, join->joined.number, row));
    if (*number > 0) return SF_OK;
    SF_TRY(run_with_row(&target->db,
                        "INSERT INTO surfaces (run, weights, isa, grid, samples, seed, extent)"
                        " VALUES (?, ?, ?, ?, ?, ?, ?)",
                        join->joined.number, row, 2, sqlite3_column_count(row)));
    *number = sqlite3_last_insert_rowid(target->db.handle);
    return sf_surface_key_seal(key, target, *number);
}

static sf_status copy_surface(uint64_t *keys, const sf_join *join, sqlite3_stmt *row) {
    const sf_store *target = join->target.store;
    uint64_t key, added, all;
    int64_t number;
    SF_TRY(enter_surface(&number, &key, join, row));
    SF_TRY(copy_rows(&added, &all, &sf_child_points, (owner){target, number},
                     (owner){join->source.store, sqlite3_column_int64(row, 0)}));
    *keys += key;
    return sf_surface_add_points_seal(target, number, added);
}

static sf_status copy_surfaces(uint64_t *keys, const sf_join *join) {
    sqlite3_stmt *row;
    sf_store *source = join->source.store;
    bool more = true;
    SF_TRY(sf_surfaces_verify(source, &join->source.run));
    SF_TRY(sf_database_prepare(&row, &source->db, SF_MERGED_SURFACES, "i", join->source.run.number));
    sf_status status;
    while ((status = sf_database_step(&source->db, row, &more)) == SF_OK && more) {
        status = copy_surface(keys, join, row);
        if (status != SF_OK) break;
    }
    sf_database_release(&source->db, row);
    return status;
}

static sf_status copy_curve(sf_stored_run *now, const sf_join *join) {
    SF_TRY(sf_database_run(&join->target.store->db, "DELETE FROM epochs WHERE run = ?", "i", now->number));
    now->curve_seal = 0;
    return copy_table(&now->curve_seal, join, &sf_child_epochs, join->source.run.curve_seal);
}

static sf_status copy_all_rows(sf_stored_run *now, const sf_join *join) {
    const sf_stored_run *theirs = &join->source.run;
    if (join->takes_entry) SF_TRY(copy_curve(now, join));
    if (!join->adds_rows) return SF_OK;
    SF_TRY(copy_table(&now->measures_seal, join, &sf_child_measures, theirs->measures_seal));
    SF_TRY(copy_table(&now->findings_seal, join, &sf_child_findings, theirs->findings_seal));
    return copy_surfaces(&now->surfaces_seal, join);
}

/* A new run's number has its place in the study that trained it above, and a hash of its id below: so runs come in the
 * same order whichever store is merged first, and the shards of a study in the order of its plan. */
static sf_status choose_number(int64_t *out, const sf_join *join) {
    const sf_stored_run *theirs = &join->source.run;
    const uint64_t hash = sf_hash(SF_HASH_START, theirs->id, strlen(theirs->id));
    *out = sf_run_rank(theirs->number) << SF_NUMBER_SHIFT | (int64_t)((hash ^ hash >> SF_NUMBER_SHIFT) & UINT32_MAX);
    for (bool taken = true;; ++*out) {
        SF_TRY(sf_run_is_number_taken(&taken, join->target.store, *out));
        if (!taken) return SF_OK;
    }
}

/* Which version a column of the entry comes from, in the order of SF_RUN_COLUMNS: the one whose curve it is (e), whose
 * last (l) or best (b) checkpoint it names; or it is written here (.): number, id, status, seals, earlier id. */
static const char column_kinds[] = "..eee.eeeeeeeeellbbleeeee.....";
_Static_assert(sizeof column_kinds - 1 == SF_RUN_SEALED_COLUMNS, "a letter per column");
enum { NUMBER, ID, STATUS = 5, CURVE_SEAL = 25, MEASURES_SEAL, FINDINGS_SEAL, SURFACES_SEAL, EARLIER_ID };

static bool is_taken_from_source(const sf_join *join, char kind) {
    return kind == 'e' ? join->takes_entry : kind == 'l' ? join->takes_last : join->takes_best;
}

static int bind_columns(sqlite3_stmt *write, const sf_join *join, const sf_stored_run *now, sqlite3_stmt *theirs,
                        sqlite3_stmt *ours /* NULL: the run is new */) {
    const int64_t numbers[][2] = {{NUMBER, now->number},
                                  {CURVE_SEAL, (int64_t)now->curve_seal},
                                  {MEASURES_SEAL, (int64_t)now->measures_seal},
                                  {FINDINGS_SEAL, (int64_t)now->findings_seal},
                                  {SURFACES_SEAL, (int64_t)now->surfaces_seal}};
    const char *status = join->takes_entry ? join->source.run.status : join->target.run.status;
    int code = SQLITE_OK;
    for (int i = 0; column_kinds[i] != '\0' && code == SQLITE_OK; i++) {
        if (column_kinds[i] == '.') continue;
        sqlite3_stmt *from = is_taken_from_source(join, column_kinds[i]) ? theirs : ours;
        code = sqlite3_bind_value(write, i + 1, sqlite3_column_value(from, i));
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && code == SQLITE_OK; i++)
        code = sqlite3_bind_int64(write, (int)numbers[i][0] + 1, numbers[i][1]);
    if (code == SQLITE_OK) code = sqlite3_bind_text(write, ID + 1, join->joined.id, -1, SQLITE_STATIC);
    if (code == SQLITE_OK) code = sqlite3_bind_text(write, STATUS + 1, status, -1, SQLITE_STATIC);
    if (code == SQLITE_OK && *join->joined.earlier_id != '\0')
        code = sqlite3_bind_text(write, EARLIER_ID + 1, join->joined.earlier_id, -1, SQLITE_STATIC);
    return code;
}

#define VALUES                                                                                                         \
    "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24,"  \
    " ?25, ?26, ?27, ?28, ?29, ?30, NULL)"

/* Values are copied when they are bound, so the row that is replaced need not stay as it is. */
static sf_status write_bound(const sf_join *join, const sf_stored_run *now, sqlite3_stmt *theirs, sqlite3_stmt *ours) {
    const sf_database *db = &join->target.store->db;
    sqlite3_stmt *write;
    bool more = true;
    SF_TRY(sf_database_prepare(&write, db,
                               join->is_new ? "INSERT INTO runs (" SF_RUN_COLUMNS ") VALUES " VALUES
                                            : "UPDATE runs SET (" SF_RUN_COLUMNS ") = " VALUES " WHERE number = ?1",
                               ""));
    sf_status status = bind_columns(write, join, now, theirs, ours) == SQLITE_OK ? SF_OK : sf_database_error(db);
    while (status == SF_OK && more) status = sf_database_step(db, write, &more);
    sf_database_release(db, write);
    return status;
}

static sf_status open_row(sqlite3_stmt **out, const sf_version *version) {
    const sf_database *db = &version->store->db;
    bool found = false;
    SF_TRY(
        sf_database_prepare(out, db, "SELECT " SF_RUN_COLUMNS " FROM runs WHERE number = ?", "i", version->run.number));
    SF_TRY(sf_database_step(db, *out, &found));
    if (found) return SF_OK;
    return sf_fail(SF_IO_ERROR, "run %s is no longer in the store '%s'", version->run.id, version->store->folder);
}

static sf_status write_entry(const sf_join *join, const sf_stored_run *now) {
    sqlite3_stmt *theirs = NULL, *ours = NULL;
    sf_status status = open_row(&theirs, &join->source);
    if (status == SF_OK && !join->is_new) status = open_row(&ours, &join->target);
    if (status == SF_OK) status = write_bound(join, now, theirs, ours);
    sf_database_release(&join->source.store->db, theirs);
    sf_database_release(&join->target.store->db, ours);
    return status == SF_OK ? sf_run_seal(join->target.store, now->number) : status;
}

/* The list of runs with the joined run's id. */
static sf_status write_list(const sf_join *join, int64_t number) {
    const char *id = join->joined.id, *before = join->target.run.id;
    uint64_t listed;
    if (!join->is_new && strcmp(id, before) == 0) return SF_OK;
    SF_TRY(sf_list_read(&listed, join->target.store));
    listed += sf_listed_seal(number, id, strlen(id));
    if (!join->is_new) listed -= sf_listed_seal(number, before, strlen(before));
    return sf_list_write(join->target.store, listed);
}

/* Everything is verified by now, so that it may be sealed as it is found. */
static sf_status move_run(sf_join *join) {
    static const char *const moves[] = {
        "UPDATE runs SET number = ? WHERE number = ?", "UPDATE epochs SET run = ? WHERE run = ?",
        "UPDATE measures SET run = ? WHERE run = ?",   "UPDATE findings SET run = ? WHERE run = ?",
        "UPDATE surfaces SET run = ? WHERE run = ?",   "UPDATE labels SET run = ? WHERE run = ?"};
    const sf_store *store = join->target.store;
    const char *id = join->joined.id;
    const int64_t before = join->joined.number;
    uint64_t listed;
    SF_TRY(choose_number(&join->joined.number, join));
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        SF_TRY(sf_database_run(&store->db, moves[i], "ii", join->joined.number, before));
    SF_TRY(sf_list_read(&listed, store));
    listed += sf_listed_seal(join->joined.number, id, strlen(id)) - sf_listed_seal(before, id, strlen(id));
    SF_TRY(sf_list_write(store, listed));
    SF_TRY(sf_labels_seal(store));
    return sf_run_seal_all(store, join->joined.number);
}

/* The target's run as it is now must be the one that was looked at before. */
static sf_status check_unchanged(sf_stored_run *now, const sf_join *join) {
    bool found = false;
    const sf_stored_run *before = &join->target.run;
    SF_TRY(sf_store_look_up(now, &found, join->target.store, join->is_new ? join->joined.id : before->id));
    if (join->is_new && !found) return SF_OK;
    if (!join->is_new && found && now->epochs == before->epochs && now->curve_seal == before->curve_seal &&
        now->checkpoint_epoch == before->checkpoint_epoch)
        return sf_run_verify_rows(join->target.store, now);
    return sf_fail(SF_IO_ERROR,
                   "another process changed run %s in the store '%s' while it was merged; repeat the command to "
                   "continue",
                   join->joined.id, join->target.store->folder);
}

sf_status sf_join_write(sf_join *join) {
    sf_stored_run now = {0};
    SF_TRY(check_unchanged(&now, join));
    if (join->is_new) SF_TRY(choose_number(&now.number, join));
    join->joined.number = now.number;
    SF_TRY(copy_all_rows(&now, join));
    SF_TRY(write_entry(join, &now));
    SF_TRY(write_list(join, now.number));
    return join->moves ? move_run(join) : SF_OK;
}
