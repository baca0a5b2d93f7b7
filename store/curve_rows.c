/* The rows of a run: its epochs, and what was measured after them. */
#include <math.h>

#include "base/memory.h"
#include "store/store_inside.h"

#define EPOCH_COLUMNS "epoch, tr_ce, tr_ac, va_ce, va_ac, seconds"

static sf_epoch read_epoch(sqlite3_stmt *row) {
    return (sf_epoch){.epoch = sf_column_count(row, 0),
                      .train_loss = sqlite3_column_double(row, 1),
                      .train_accuracy = sqlite3_column_double(row, 2),
                      .heldout_loss = sqlite3_column_double(row, 3),
                      .heldout_accuracy = sqlite3_column_double(row, 4),
                      .seconds = sqlite3_column_double(row, 5)};
}

uint64_t sf_epoch_seal(int64_t run, const sf_epoch *row) {
    uint64_t seal = sf_seal_word(sf_seal_start(SF_SEAL_EPOCH), (uint64_t)run);
    seal = sf_seal_word(seal, row->epoch);
    seal = sf_seal_real(seal, row->train_loss);
    seal = sf_seal_real(seal, row->train_accuracy);
    seal = sf_seal_real(seal, row->heldout_loss);
    seal = sf_seal_real(seal, row->heldout_accuracy);
    return sf_seal_end(sf_seal_real(seal, row->seconds));
}

static sf_status check_row(const sf_store *store, const sf_stored_run *run, const sf_epoch *row, size_t number) {
    if (row->epoch != number)
        return sf_run_damaged(store, run->id, "the row of epoch %zu is missing from its curve", number);
    if (!(row->train_accuracy >= 0 && row->train_accuracy <= 100 && row->heldout_accuracy >= 0 &&
          row->heldout_accuracy <= 100))
        return sf_run_damaged(store, run->id, "epoch %zu has accuracies of %.6g and %.6g %%, which must be 0 to 100",
                              number, row->train_accuracy, row->heldout_accuracy);
    if (!(row->train_loss >= 0 && row->train_loss < INFINITY && row->heldout_loss >= 0 && row->heldout_loss < INFINITY))
        return sf_run_damaged(store, run->id, "epoch %zu has losses of %.6g and %.6g, which must be 0 or more", number,
                              row->train_loss, row->heldout_loss);
    if (!(row->seconds >= 0 && row->seconds < INFINITY))
        return sf_run_damaged(store, run->id, "epoch %zu took %.6g seconds", number, row->seconds);
    return SF_OK;
}

/* At most `room` rows, from a curve that should have as many. */
static sf_status read_rows(sf_epoch *rows, size_t *count, uint64_t *seal, const sf_store *store,
                           const sf_stored_run *run) {
    sqlite3_stmt *statement;
    SF_TRY(sf_database_prepare(&statement, &store->db,
                               "SELECT " EPOCH_COLUMNS " FROM epochs WHERE run = ? ORDER BY epoch", "i", run->number));
    sf_status status = SF_OK;
    *count = 0;
    *seal = 0;
    for (bool row = true; status == SF_OK;) {
        status = sf_database_step(&store->db, statement, &row);
        if (status != SF_OK || !row) break;
        if (*count == run->epochs) {
            status =
                sf_run_damaged(store, run->id, "its curve has more than the %zu rows that were written", run->epochs);
            break;
        }
        rows[*count] = read_epoch(statement);
        *seal += sf_epoch_seal(run->number, &rows[*count]);
        status = check_row(store, run, &rows[*count], *count + 1);
        ++*count;
    }
    sf_database_release(&store->db, statement);
    return status;
}

sf_status sf_curve_read(sf_epoch **rows, sf_store *store, const sf_stored_run *run) {
    size_t count;
    uint64_t seal;
    SF_TRY(SF_NEW(rows, run->epochs));
    sf_status status = read_rows(*rows, &count, &seal, store, run);
    if (status == SF_OK && count != run->epochs)
        status = sf_run_damaged(store, run->id, "its curve has %zu rows, but %zu were written", count, run->epochs);
    if (status == SF_OK && store->sealed && seal != run->curve_seal)
        status = sf_run_damaged(store, run->id, "the %zu rows of its curve are not what was written", count);
    if (status == SF_OK) return SF_OK;
    sf_release(*rows);
    *rows = NULL;
    return status;
}

sf_status sf_store_curve(sf_epoch **rows, size_t *count, sf_store *store, const sf_stored_run *run) {
    sf_stored_run now;
    bool frozen;
    *rows = NULL;
    SF_TRY(sf_run_now(&now, &frozen, store, run));
    const sf_status status = sf_curve_read(rows, store, &now);
    if (frozen) sf_store_unfreeze(store);
    *count = status == SF_OK ? now.epochs : 0;
    return status;
}

sf_status sf_store_each_epoch(sf_store *store, const sf_stored_run *run,
                              void (*each)(void *context, const sf_epoch *row), void *context) {
    sf_epoch *rows;
    size_t count;
    SF_TRY(sf_store_curve(&rows, &count, store, run));
    for (size_t i = 0; i < count; i++) each(context, &rows[i]);
    sf_release(rows);
    return SF_OK;
}

sf_status sf_store_row(sf_epoch *out, sf_store *store, const sf_stored_run *run, size_t epoch) {
    sf_epoch *rows;
    size_t count;
    SF_TRY(sf_store_curve(&rows, &count, store, run));
    const bool found = epoch >= 1 && epoch <= count;
    if (found) *out = rows[epoch - 1];
    sf_release(rows);
    if (!found) return sf_fail(SF_IO_ERROR, "run %s has a checkpoint of epoch %zu but no row for it", run->id, epoch);
    return SF_OK;
}

sf_status sf_store_first_epoch_at(size_t *out, sf_store *store, const sf_stored_run *run, double accuracy,
                                  size_t epochs) {
    sf_epoch *rows;
    size_t count;
    *out = 0;
    SF_TRY(sf_store_curve(&rows, &count, store, run));
    for (size_t i = 0; i < count && i < epochs && *out == 0; i++)
        if (rows[i].train_accuracy >= accuracy) *out = rows[i].epoch;
    sf_release(rows);
    return SF_OK;
}

/* Updates the run's summary of its curve with one more row. */
static void sum_up(sf_stored_run *now, const sf_epoch *row) {
    now->epochs = row->epoch;
    if (now->converged_epoch == 0 && row->train_accuracy >= SF_CONVERGED_AT) now->converged_epoch = row->epoch;
    if (now->best_epoch == 0 || row->heldout_accuracy > now->best_accuracy) {
        now->best_epoch = row->epoch;
        now->best_accuracy = row->heldout_accuracy;
    }
    now->train_accuracy = row->train_accuracy;
    now->heldout_accuracy = row->heldout_accuracy;
    now->curve_seal += sf_epoch_seal(now->number, row);
}

static void sum_up_all(sf_stored_run *now, const sf_epoch *rows, size_t count) {
    now->epochs = now->converged_epoch = now->best_epoch = 0;
    now->curve_seal = 0;
    for (size_t i = 0; i < count; i++) sum_up(now, &rows[i]);
}

static sf_status write_row(const sf_store *store, int64_t run, const sf_epoch *row) {
    return sf_database_run(&store->db, "INSERT OR REPLACE INTO epochs VALUES (?, ?, ?, ?, ?, ?, ?)", "izrrrrr", run,
                           row->epoch, row->train_loss, row->train_accuracy, row->heldout_loss, row->heldout_accuracy,
                           row->seconds);
}

/* A row that no checkpoint backs is computed again: the rest of the curve stays. */
static sf_status replace_row(sf_store *store, sf_stored_run *now, const sf_epoch *row) {
    sf_epoch *rows;
    SF_TRY(sf_curve_read(&rows, store, now));
    rows[row->epoch - 1] = *row;
    sum_up_all(now, rows, now->epochs);
    sf_release(rows);
    return write_row(store, now->number, row);
}

static sf_status add_row(sf_store *store, sf_stored_run *now, const sf_epoch *row) {
    if (row->epoch >= 1 && row->epoch <= now->epochs) return replace_row(store, now, row);
    if (row->epoch != now->epochs + 1)
        return sf_fail(SF_IO_ERROR, "run %s has %zu epochs in the store, so another process must have changed it",
                       now->id, now->epochs);
    sum_up(now, row);
    return write_row(store, now->number, row);
}

enum { MEASURE_COLUMNS = 15 };
#define MEASURES                                                                                                       \
    "SELECT run, epoch, block, measure, q0, q1, q5, q10, q25, q50, q75, q90, q95, q99, q100 FROM measures WHERE run "  \
    "= "

/* The seal of a row of measures that is there; 0: there is none. */
static sf_status seal_of_measure(uint64_t *out, const sf_store *store, int64_t run, const sf_curve_point *point) {
    sqlite3_stmt *statement;
    bool found = false;
    SF_TRY(sf_database_prepare(&statement, &store->db, MEASURES "? AND epoch = ? AND block = ? AND measure = ?", "iiit",
                               run, (int64_t)point->epoch, point->block, point->measure));
    const sf_status status = sf_database_step(&store->db, statement, &found);
    *out = found ? sf_seal_columns(SF_SEAL_MEASURE, statement, MEASURE_COLUMNS) : 0;
    sf_database_release(&store->db, statement);
    return status;
}

static sf_status write_measure(const sf_store *store, sf_stored_run *now, const sf_curve_point *p) {
    uint64_t before, after;
    SF_TRY(seal_of_measure(&before, store, now->number, p));
    SF_TRY(sf_database_run(&store->db,
                           "INSERT OR REPLACE INTO measures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                           "iiitrrrrrrrrrrr", now->number, (int64_t)p->epoch, p->block, p->measure, p->at[0], p->at[1],
                           p->at[2], p->at[3], p->at[4], p->at[5], p->at[6], p->at[7], p->at[8], p->at[9], p->at[10]));
    SF_TRY(seal_of_measure(&after, store, now->number, p));
    now->measures_seal += after - before;
    return SF_OK;
}

static sf_status write_measures(const sf_store *store, sf_stored_run *now, const sf_curve_point *points, size_t count) {
    for (const sf_curve_point *p = points; p < points + count; p++) SF_TRY(write_measure(store, now, p));
    return SF_OK;
}

sf_status sf_store_append_measures(sf_store *store, const sf_stored_run *run, const sf_curve_point *points,
                                   size_t count) {
    sf_stored_run now;
    SF_TRY(sf_run_change(&now, store, run->number));
    return sf_run_changed(store, &now, write_measures(store, &now, points, count));
}

sf_status sf_store_append(sf_store *store, const sf_stored_run *run, const sf_epoch *row, double seconds) {
    return sf_store_append_measured(store, run, row, seconds, NULL, 0);
}

sf_status sf_store_append_measured(sf_store *store, const sf_stored_run *run, const sf_epoch *row, double seconds,
                                   const sf_curve_point *points, size_t count) {
    sf_stored_run now;
    sf_epoch timed = *row;
    timed.seconds = seconds;
    SF_TRY(sf_run_change(&now, store, run->number));
    sf_status status = add_row(store, &now, &timed);
    if (status == SF_OK) status = write_measures(store, &now, points, count);
    return sf_run_changed(store, &now, status);
}

static double read_real_or_nan(sqlite3_stmt *row, int column) {
    return sqlite3_column_type(row, column) == SQLITE_NULL ? NAN : sqlite3_column_double(row, column);
}

static sf_curve_point read_point(sqlite3_stmt *row) {
    sf_curve_point point = {.epoch = sf_column_count(row, 1), .block = sqlite3_column_int64(row, 2)};
    sf_column_text(point.measure, sizeof point.measure, row, 3);
    for (int i = 0; i < SF_QUANTILES; i++) point.at[i] = read_real_or_nan(row, 4 + i);
    return point;
}

/* All rows of measures with their seal, by epoch; `each` may be NULL. */
static sf_status go_through_measures(uint64_t *seal, sf_store *store, int64_t run,
                                     void (*each)(void *context, const sf_curve_point *point), void *context) {
    sqlite3_stmt *statement;
    SF_TRY(sf_database_prepare(&statement, &store->db, MEASURES "? ORDER BY epoch, block, measure", "i", run));
    bool row = true;
    sf_status status = SF_OK;
    *seal = 0;
    while ((status = sf_database_step(&store->db, statement, &row)) == SF_OK && row) {
        *seal += sf_seal_columns(SF_SEAL_MEASURE, statement, MEASURE_COLUMNS);
        if (each == NULL) continue;
        const sf_curve_point point = read_point(statement);
        each(context, &point);
    }
    sf_database_release(&store->db, statement);
    return status;
}

sf_status sf_measures_verify(sf_store *store, const sf_stored_run *run) {
    uint64_t seal;
    SF_TRY(go_through_measures(&seal, store, run->number, NULL, NULL));
    if (!store->sealed || seal == run->measures_seal) return SF_OK;
    return sf_run_damaged(store, run->id, "the measures recorded while it was trained are not what was written");
}

/* Verifies first, so that no damaged value is passed on. */
sf_status sf_store_each_measure(sf_store *store, const sf_stored_run *run,
                                void (*each)(void *context, const sf_curve_point *point), void *context) {
    sf_stored_run now;
    bool frozen;
    uint64_t ignored;
    SF_TRY(sf_run_now(&now, &frozen, store, run));
    sf_status status = sf_measures_verify(store, &now);
    if (status == SF_OK) status = go_through_measures(&ignored, store, now.number, each, context);
    if (frozen) sf_store_unfreeze(store);
    return status;
}

sf_status sf_store_count_measured(size_t *count, sf_store *store, const sf_stored_run *run, size_t every, size_t last) {
    sqlite3_stmt *statement;
    bool row = false;
    *count = 0;
    SF_TRY(sf_database_prepare(&statement, &store->db,
                               "SELECT COUNT(DISTINCT epoch) FROM measures WHERE run = ? AND epoch % ? = 0"
                               " AND epoch <= ?",
                               "izz", run->number, every, last));
    const sf_status status = sf_database_step(&store->db, statement, &row);
    if (status == SF_OK && row) *count = sf_column_count(statement, 0);
    sf_database_release(&store->db, statement);
    return status;
}

sf_status sf_run_drop_unbacked(sf_store *store, sf_stored_run *now) {
    sf_epoch *rows;
    if (now->epochs <= now->checkpoint_epoch) return SF_OK;
    SF_TRY(sf_curve_read(&rows, store, now)); /* damaged rows must not be sealed anew */
    sf_status status = sf_measures_verify(store, now);
    if (status == SF_OK) sum_up_all(now, rows, now->checkpoint_epoch);
    sf_release(rows);
    static const char *const deletions[] = {"DELETE FROM epochs WHERE run = ? AND epoch > ?",
                                            "DELETE FROM measures WHERE run = ? AND epoch > ?"};
    for (size_t i = 0; i < sizeof deletions / sizeof *deletions && status == SF_OK; i++)
        status = sf_database_run(&store->db, deletions[i], "ii", now->number, (int64_t)now->checkpoint_epoch);
    if (status == SF_OK) status = go_through_measures(&now->measures_seal, store, now->number, NULL, NULL);
    return status;
}
