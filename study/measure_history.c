#include "study/measure_history.h"

#include <math.h>
#include <string.h>

#include "attention/attention.h"
#include "base/memory.h"
#include "store/store_inside.h"
#include "study/comparison.h"

static sf_status grow_rows(sf_measure_history *out) {
    const size_t room = out->row_room > 0 ? 2 * out->row_room : 64;
    SF_TRY(SF_GROW(&out->rows, out->row_count, room));
    out->row_room = room;
    return SF_OK;
}

static sf_status add_row(sf_measure_history *out, size_t run, size_t epoch) {
    if (out->row_count == out->row_room) SF_TRY(grow_rows(out));
    sf_measure_row *row = &out->rows[out->row_count++];
    row->epoch = epoch;
    for (size_t m = 0; m < SF_HISTORY_MEASURES; m++)
        for (size_t i = 0; i < SF_QUANTILES; i++) row->at[m][i] = NAN;
    out->runs[run].count++;
    return SF_OK;
}

static void take_measure(sf_measure_row *row, sqlite3_stmt *statement) {
    const char *name = (const char *)sqlite3_column_text(statement, 1);
    for (int m = 0; m < SF_HISTORY_MEASURES; m++) {
        if (name == NULL || strcmp(name, sf_measure_name((sf_measure)m)) != 0) continue;
        for (int i = 0; i < SF_QUANTILES; i++)
            if (sqlite3_column_type(statement, 2 + i) != SQLITE_NULL)
                row->at[m][i] = sqlite3_column_double(statement, 2 + i);
    }
}

/* Up to the epoch where the study's curve of the run ends. */
static sf_status read_run(sf_measure_history *out, sf_store *store, size_t run, const sf_stored_run *stored,
                          size_t last_epoch) {
    const sf_database *db = sf_store_database(store);
    sqlite3_stmt *statement;
    bool found = true;
    out->runs[run].first = out->row_count;
    SF_TRY(sf_measures_verify(store, stored));
    SF_TRY(sf_database_prepare(&statement, db,
                               "SELECT epoch, measure, q0, q1, q5, q10, q25, q50, q75, q90, q95, q99, q100"
                               " FROM measures WHERE run = ? AND block = -1 ORDER BY epoch",
                               "i", stored->number));
    sf_status status = SF_OK;
    while (status == SF_OK && (status = sf_database_step(db, statement, &found)) == SF_OK && found) {
        const size_t epoch = (size_t)sqlite3_column_int64(statement, 0);
        if (epoch > last_epoch) break;
        if (out->runs[run].count == 0 || out->rows[out->row_count - 1].epoch != epoch)
            status = add_row(out, run, epoch);
        if (status == SF_OK) take_measure(&out->rows[out->row_count - 1], statement);
    }
    sf_database_release(db, statement);
    return status;
}

static sf_status read_member(sf_measure_history *out, sf_store *store, size_t run) {
    size_t rows, count;
    bool finished, found;
    const sf_epoch *curve = sf_study_curve(out->study, run, &rows, &finished);
    sf_stored_run stored;
    if (!finished || out->runs[run].count > 0) return SF_OK;
    SF_TRY(sf_store_look_up(&stored, &found, store, sf_study_runs(out->study, &count)[run].id));
    return found ? read_run(out, store, run, &stored, rows > 0 ? curve[rows - 1].epoch : 0) : SF_OK;
}

static sf_status read_groups(sf_measure_history *out, sf_store *store) {
    for (size_t g = out->from; g < out->to; g++)
        for (size_t m = 0; m < sf_study_group(out->study, g)->runs; m++)
            SF_TRY(read_member(out, store, sf_study_member(out->study, g, m)));
    return SF_OK;
}

sf_status sf_measure_history_open(sf_measure_history *out, const sf_study *study, sf_store *store, size_t from,
                                  size_t to) {
    size_t count;
    bool found = false;
    *out = (sf_measure_history){.study = study, .from = from, .to = to};
    sf_study_runs(study, &count);
    SF_TRY(SF_NEW(&out->runs, count));
    SF_TRY(sf_store_freeze(store));
    sf_status status = sf_database_any(&found, sf_store_database(store), SF_ANY_MEASURES);
    if (status == SF_OK && found) status = read_groups(out, store);
    sf_store_unfreeze(store);
    return status;
}

void sf_measure_history_close(sf_measure_history *history) {
    sf_release(history->runs);
    sf_release(history->rows);
    *history = (sf_measure_history){0};
}

typedef struct row_pair { /* of one epoch; both NULL: none */
    const sf_measure_row *full, *own;
} row_pair;

/* The newest epoch that both have. */
static row_pair newest_of_both(const sf_measure_history *history, size_t full, size_t own) {
    const sf_measure_row *theirs = history->rows + history->runs[full].first;
    const sf_measure_row *ours = history->rows + history->runs[own].first;
    size_t i = history->runs[full].count, j = history->runs[own].count;
    while (i > 0 && j > 0) {
        const size_t theirs_at = theirs[i - 1].epoch, ours_at = ours[j - 1].epoch;
        if (theirs_at == ours_at) return (row_pair){&theirs[i - 1], &ours[j - 1]};
        if (theirs_at > ours_at)
            i--;
        else
            j--;
    }
    return (row_pair){NULL, NULL};
}

/* With the run with full attention that this one is compared with. */
static row_pair pair_up(const sf_measure_history *history, size_t baseline, size_t own) {
    size_t count;
    const sf_planned_run *runs = sf_study_runs(history->study, &count);
    for (size_t m = 0; m < sf_study_group(history->study, baseline)->runs; m++) {
        const size_t run = sf_study_member(history->study, baseline, m);
        if (runs[run].config.seed != runs[own].config.seed || strcmp(runs[run].attention, "full") != 0 ||
            !sf_same_but_for_the_mechanism(&runs[run].config, &runs[own].config))
            continue;
        const row_pair rows = newest_of_both(history, run, own);
        if (rows.full != NULL) return rows;
    }
    return (row_pair){NULL, NULL};
}

static bool compare(sf_measure_pair *out, const sf_measure_history *history, size_t group, size_t run) {
    size_t count;
    const sf_planned_run *own = &sf_study_runs(history->study, &count)[run];
    const size_t baseline = sf_study_group(history->study, group)->baseline;
    sf_attention attention;
    if (baseline == group) return false;
    const row_pair rows = pair_up(history, baseline, run);
    if (rows.full == NULL || isnan(rows.own->at[SF_SEPARATION][0])) return false;
    const sf_run_code *missing = sf_study_missing_code(history->study, run);
    if (missing != NULL && missing->lacks_attention) return false;
    if (sf_attention_parse(&attention, own->attention) != SF_OK || !sf_attention_has_theory(&attention))
        return false; /* conditions W and X are of softmax */
    *out = (sf_measure_pair){.group = group, .run = run};
    sf_compare_quantiles(out->at, &(sf_compared){.dispersion = rows.full->at[SF_DISPERSION],
                                                 .kept_dispersion = rows.own->at[SF_KEPT_DISPERSION],
                                                 .separation = rows.own->at[SF_SEPARATION],
                                                 .in_degree = rows.own->at[SF_IN_DEGREE],
                                                 .k = (double)attention.k});
    return true;
}

sf_status sf_measure_history_pairs(sf_measure_pair **out, size_t *count, const sf_measure_history *history) {
    size_t most = 0;
    for (size_t g = history->from; g < history->to; g++) most += sf_study_group(history->study, g)->runs;
    *count = 0;
    SF_TRY(SF_NEW(out, most));
    for (size_t g = history->from; g < history->to; g++)
        for (size_t m = 0; m < sf_study_group(history->study, g)->runs; m++)
            *count += compare(&(*out)[*count], history, g, sf_study_member(history->study, g, m)) ? 1 : 0;
    return SF_OK;
}
