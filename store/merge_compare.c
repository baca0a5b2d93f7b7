/* Two versions of a run: do they agree where both have something, and which one has more? */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/merge.h"

typedef struct side { /* the rows of one version's table, one at a time */
    const sf_version *of;
    int64_t owner;
    sqlite3_stmt *row;
    bool more;
} side;

static void write_value(char out[64], sqlite3_stmt *row, int column) {
    switch (sqlite3_column_type(row, column)) {
    case SQLITE_INTEGER:
        snprintf(out, 64, "%lld", (long long)sqlite3_column_int64(row, column));
        return;
    case SQLITE_FLOAT:
        snprintf(out, 64, "%.17g", sqlite3_column_double(row, column));
        return;
    case SQLITE_NULL:
        snprintf(out, 64, "not defined");
        return;
    default:
        snprintf(out, 64, "%.60s", (const char *)sqlite3_column_text(row, column));
    }
}

static int sign(int order) {
    return (order > 0) - (order < 0);
}

static int order_of_texts(sqlite3_stmt *a, sqlite3_stmt *b, int column) {
    const void *left = sqlite3_column_text(a, column), *right = sqlite3_column_text(b, column);
    const int a_size = sqlite3_column_bytes(a, column), b_size = sqlite3_column_bytes(b, column);
    const int order = memcmp(left, right, (size_t)(a_size < b_size ? a_size : b_size));
    return order != 0 ? sign(order) : sign(a_size - b_size);
}

/* Below 0: that of a comes first. 0 only if they are the same to the bit. */
static int order_of(sqlite3_stmt *a, sqlite3_stmt *b, int column) {
    static const int ranks[] = {
        [SQLITE_NULL] = 0, [SQLITE_INTEGER] = 1, [SQLITE_FLOAT] = 2, [SQLITE_TEXT] = 3, [SQLITE_BLOB] = 4};
    const int kind = sqlite3_column_type(a, column), other = sqlite3_column_type(b, column);
    if (kind != other) return sign(ranks[kind] - ranks[other]);
    if (kind == SQLITE_NULL) return 0;
    if (kind == SQLITE_INTEGER) {
        const int64_t left = sqlite3_column_int64(a, column), right = sqlite3_column_int64(b, column);
        return (left > right) - (left < right);
    }
    if (kind != SQLITE_FLOAT) return order_of_texts(a, b, column);
    const double left = sqlite3_column_double(a, column), right = sqlite3_column_double(b, column);
    return left == right ? 0 : left > right ? 1 : -1;
}

static void note_conflict(sf_difference *out, const sf_version *a, const sf_version *b, const char *where,
                          const char *column, const char *a_value, const char *b_value) {
    const char *id = a->run.id;
    const char *key = where + strspn(where, ", ");
    snprintf(out->where, sizeof out->where, "%.80s%s%.40s", key, *key != '\0' ? ": " : "", column);
    snprintf(out->values[0], sizeof out->values[0], "%s", a_value);
    snprintf(out->values[1], sizeof out->values[1], "%s", b_value);
    out->first = a;
    snprintf(out->conflict, sizeof out->conflict,
             "run %s%s: %s is %s in '%.200s' but %s in '%.200s'; a run has the same bits in every store, so one of "
             "them is wrong: delete the run there with 'semfocus delete %s --store STORE', then merge again",
             id, where, column, a_value, a->store->folder, b_value, b->store->folder, id);
}

static void note_row(sf_difference *out, const sf_child_table *table, const side *a, const side *b, int column) {
    char where[256] = "", values[2][64];
    size_t used = 0;
    for (int k = 1; k < table->keys && used < sizeof where; k++) {
        write_value(values[0], a->row, k);
        used +=
            (size_t)snprintf(where + used, sizeof where - used, ", %s %s", sqlite3_column_name(a->row, k), values[0]);
    }
    write_value(values[0], a->row, column);
    write_value(values[1], b->row, column);
    note_conflict(out, a->of, b->of, where, sqlite3_column_name(a->row, column), values[0], values[1]);
}

static sf_status open_side(side *out, const sf_child_table *table) {
    SF_TRY(sf_database_prepare(&out->row, &out->of->store->db, table->rows, "i", out->owner));
    return sf_database_step(&out->of->store->db, out->row, &out->more);
}

static sf_status advance(side *at) {
    return sf_database_step(&at->of->store->db, at->row, &at->more);
}

static int order_of_keys(const sf_child_table *table, const side *a, const side *b) {
    int order = 0;
    if (!a->more || !b->more) return a->more ? -1 : 1;
    for (int k = 1; k < table->keys && order == 0; k++) order = order_of(a->row, b->row, k);
    return order;
}

/* Rows with the same key. The first difference of times decides, if nothing else does. */
static void compare_row(sf_difference *out, int *times, const sf_child_table *table, const side *a, const side *b) {
    for (int column = table->keys; column < table->columns && *out->conflict == '\0'; column++) {
        const int order = order_of(a->row, b->row, column);
        if (order == 0) continue;
        if (column < table->compared)
            note_row(out, table, a, b, column);
        else if (*times == 0)
            *times = -order;
    }
}

/* Both come in the order of their keys. *extra: rows that only b has. */
static sf_status compare_rows(sf_difference *out, int *times, size_t *extra, const sf_child_table *table, side *a,
                              side *b) {
    sf_status status = open_side(a, table);
    if (status == SF_OK) status = open_side(b, table);
    while (status == SF_OK && (a->more || b->more) && *out->conflict == '\0') {
        const int order = order_of_keys(table, a, b);
        if (order == 0) compare_row(out, times, table, a, b);
        *extra += order > 0;
        if (order <= 0) status = advance(a);
        if (order >= 0 && status == SF_OK) status = advance(b);
    }
    sf_database_release(&a->of->store->db, a->row);
    sf_database_release(&b->of->store->db, b->row);
    return status;
}

static sf_status compare_table(sf_difference *out, const sf_child_table *table, const sf_version *a,
                               const sf_version *b) {
    int times = 0;
    side left = {.of = a, .owner = a->run.number}, right = {.of = b, .owner = b->run.number};
    if (*out->conflict != '\0') return SF_OK;
    return compare_rows(out, &times, &out->missing, table, &left, &right);
}

static sf_status compare_surface(sf_difference *out, const sf_version *a, const sf_version *b, sqlite3_stmt *row) {
    int times = 0;
    side left = {.of = a}, right = {.of = b, .owner = sqlite3_column_int64(row, 0)};
    SF_TRY(sf_surface_with_key(&left.owner, a->store, a->run.number, row));
    out->missing += left.owner == 0; /* then all of its points are, too */
    return compare_rows(out, &times, &out->missing, &sf_child_points, &left, &right);
}

static sf_status compare_surfaces(sf_difference *out, const sf_version *a, const sf_version *b) {
    sqlite3_stmt *row;
    bool found = true;
    SF_TRY(sf_database_prepare(&row, &b->store->db, SF_MERGED_SURFACES, "i", b->run.number));
    sf_status status;
    while ((status = sf_database_step(&b->store->db, row, &found)) == SF_OK && found && *out->conflict == '\0') {
        status = compare_surface(out, a, b, row);
        if (status != SF_OK) break;
    }
    sf_database_release(&b->store->db, row);
    return status;
}

static bool is_diverged(const sf_stored_run *run) {
    return strcmp(run->status, "diverged") == 0;
}

/* One that diverged in an epoch has no row of it. */
static void compare_divergence(sf_difference *out, const sf_version *a, const sf_version *b) {
    char values[2][64];
    const sf_version *diverged = is_diverged(&a->run) ? a : b, *other = diverged == a ? b : a;
    const sf_stored_run *one = &diverged->run, *two = &other->run;
    if (!is_diverged(one)) return;
    snprintf(values[0], sizeof values[0], "%zu", one->diverged_epoch);
    snprintf(values[1], sizeof values[1], "%zu", two->diverged_epoch);
    if (!is_diverged(two)) {
        snprintf(values[1], sizeof values[1], "not defined (it has %zu epochs)", two->epochs);
        if (two->epochs >= one->diverged_epoch)
            note_conflict(out, diverged, other, "", "diverged_epoch", values[0], values[1]);
        return;
    }
    if (one->diverged_epoch != two->diverged_epoch) {
        note_conflict(out, diverged, other, "", "diverged_epoch", values[0], values[1]);
    } else if (one->diverged_step != two->diverged_step) {
        snprintf(values[0], sizeof values[0], "%zu", one->diverged_step);
        snprintf(values[1], sizeof values[1], "%zu", two->diverged_step);
        note_conflict(out, diverged, other, "", "diverged_step", values[0], values[1]);
    }
}

static void compare_hashes(sf_difference *out, const sf_version *a, const sf_version *b, size_t epoch,
                           const char *column, uint64_t left, uint64_t right) {
    char where[64], values[2][64];
    if (left == right || *out->conflict != '\0') return;
    snprintf(where, sizeof where, ", epoch %zu", epoch);
    snprintf(values[0], sizeof values[0], "%016" PRIx64, left);
    snprintf(values[1], sizeof values[1], "%016" PRIx64, right);
    note_conflict(out, a, b, where, column, values[0], values[1]);
}

/* Files contain the id that the run had when they were written; a run that began under an earlier one may have other
 * files with the same weights. */
static void compare_checkpoints(sf_difference *out, const sf_version *a, const sf_version *b) {
    const sf_stored_run *one = &a->run, *two = &b->run;
    const bool same_label = *one->earlier_id == '\0' && *two->earlier_id == '\0';
    const size_t last = one->checkpoint_epoch, best = one->best_saved_epoch;
    if (last > 0 && last == two->checkpoint_epoch) {
        compare_hashes(out, a, b, last, "weights", one->weights_hash, two->weights_hash);
        if (same_label) compare_hashes(out, a, b, last, "checkpoint_hash", one->checkpoint_hash, two->checkpoint_hash);
    }
    if (best > 0 && best == two->best_saved_epoch && same_label)
        compare_hashes(out, a, b, best, "best_hash", one->best_hash, two->best_hash);
}

static int rank_of(const sf_stored_run *run) {
    static const char *const statuses[] = {"failed", "done", "diverged"}; /* pending and running come before */
    int rank = 0;
    for (int i = 0; i < (int)(sizeof statuses / sizeof *statuses); i++)
        if (strcmp(run->status, statuses[i]) == 0) rank = i + 1;
    return rank;
}

/* What says how it was trained and asked for, in any fixed order: merging is not to depend on who comes first. */
static sf_status compare_texts(int *order, const sf_version *a, const sf_version *b) {
    static const char select[] = "SELECT task, settings, environment, isa, message, asked_epochs, asked_stop_at"
                                 " FROM runs WHERE number = ?";
    sqlite3_stmt *left, *right = NULL;
    bool found;
    SF_TRY(sf_database_prepare(&left, &a->store->db, select, "i", a->run.number));
    sf_status status = sf_database_step(&a->store->db, left, &found);
    if (status == SF_OK) status = sf_database_prepare(&right, &b->store->db, select, "i", b->run.number);
    if (status == SF_OK) status = sf_database_step(&b->store->db, right, &found);
    for (int i = sqlite3_column_count(left); status == SF_OK && i-- > 0 && *order == 0;)
        *order = order_of(left, right, i);
    sf_database_release(&a->store->db, left);
    sf_database_release(&b->store->db, right);
    return status;
}

/* Whose entry the merged run gets: that of the longer curve, then of the run that is over. */
static sf_status prefer(int *out, const sf_version *a, const sf_version *b, int times) {
    int order = (a->run.epochs > b->run.epochs) - (a->run.epochs < b->run.epochs);
    if (order == 0) order = sign(rank_of(&a->run) - rank_of(&b->run));
    if (order == 0) SF_TRY(compare_texts(&order, a, b));
    *out = order != 0 ? -order : times;
    return SF_OK;
}

sf_status sf_version_compare(sf_difference *out, const sf_version *a, const sf_version *b) {
    int times = 0;
    size_t longer = 0;
    side left = {.of = a, .owner = a->run.number}, right = {.of = b, .owner = b->run.number};
    *out = (sf_difference){0};
    SF_TRY(compare_rows(out, &times, &longer, &sf_child_epochs, &left, &right));
    if (*out->conflict == '\0') compare_divergence(out, a, b);
    if (*out->conflict == '\0') compare_checkpoints(out, a, b);
    SF_TRY(compare_table(out, &sf_child_measures, a, b));
    SF_TRY(compare_table(out, &sf_child_findings, a, b));
    if (*out->conflict == '\0') SF_TRY(compare_surfaces(out, a, b));
    return *out->conflict == '\0' ? prefer(&out->preferred, a, b, times) : SF_OK;
}
