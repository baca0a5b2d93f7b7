#include "store/findings.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "store/store_inside.h"

#define FINDINGS "SELECT run, weights, name, value FROM findings WHERE run = ?"
enum { COLUMNS = 4 };

typedef struct known {
    char weights[17];
    sf_finding finding;
} known;

struct sf_known_findings { /* all of one run, verified */
    int64_t run;
    uint64_t seal; /* the run's, when they were read */
    size_t count;
    known each[];
};

static void take(known *out, sqlite3_stmt *row) {
    sf_column_text(out->weights, sizeof out->weights, row, 1);
    sf_column_text(out->finding.name, sizeof out->finding.name, row, 2);
    out->finding.value = sqlite3_column_type(row, 3) == SQLITE_NULL ? NAN : sqlite3_column_double(row, 3);
}

/* Goes through the findings of a run; `out` may be NULL, or has room for `room`. */
static sf_status go_through(uint64_t *seal, size_t *count, known *out, size_t room, const sf_store *store,
                            int64_t run) {
    sqlite3_stmt *statement;
    SF_TRY(sf_database_prepare(&statement, &store->db, FINDINGS, "i", run));
    bool row = true;
    sf_status status;
    *seal = 0;
    *count = 0;
    while ((status = sf_database_step(&store->db, statement, &row)) == SF_OK && row) {
        *seal += sf_seal_columns(SF_SEAL_FINDING, statement, COLUMNS);
        if (*count < room) take(&out[*count], statement);
        ++*count;
    }
    sf_database_release(&store->db, statement);
    return status;
}

static sf_status damaged(const sf_store *store, const sf_stored_run *run) {
    return sf_run_damaged(store, run->id, "what was measured at its weights (table findings) is not what was written");
}

sf_status sf_findings_verify(sf_store *store, const sf_stored_run *run) {
    uint64_t seal;
    size_t count;
    SF_TRY(go_through(&seal, &count, NULL, 0, store, run->number));
    return !store->sealed || seal == run->findings_seal ? SF_OK : damaged(store, run);
}

static sf_status read_all(sf_store *store, const sf_stored_run *run) {
    uint64_t seal;
    size_t count, again;
    void *block;
    sf_release(store->findings);
    store->findings = NULL;
    SF_TRY(go_through(&seal, &count, NULL, 0, store, run->number));
    SF_TRY(sf_allocate(&block, 1, sizeof *store->findings + count * sizeof(known)));
    struct sf_known_findings *all = block;
    sf_status status = go_through(&seal, &again, all->each, count, store, run->number);
    all->run = run->number;
    all->seal = run->findings_seal;
    all->count = count;
    if (status == SF_OK && store->sealed && (seal != run->findings_seal || count != again))
        status = damaged(store, run);
    if (status == SF_OK)
        store->findings = all;
    else
        sf_release(all);
    return status;
}

/* Looked up by run and seal: if another process has added findings, the seal differs. */
static bool are_known(const sf_store *store, const sf_stored_run *run) {
    const struct sf_known_findings *all = store->findings;
    return all != NULL && store->sealed && all->run == run->number && all->seal == run->findings_seal;
}

sf_status sf_findings_read(double *out, bool *found, sf_store *store, const sf_stored_run *run, const char *name) {
    char weights[17];
    *found = false;
    *out = NAN;
    if (!are_known(store, run)) {
        sf_stored_run now;
        bool frozen;
        SF_TRY(sf_run_now(&now, &frozen, store, run));
        const sf_status status = read_all(store, &now);
        if (frozen) sf_store_unfreeze(store);
        SF_TRY(status);
    }
    sqlite3_snprintf(sizeof weights, weights, "%016llx", (unsigned long long)run->weights_hash);
    for (size_t i = 0; i < store->findings->count && !*found; i++) {
        const known *one = &store->findings->each[i];
        if (strcmp(one->finding.name, name) != 0 || strcmp(one->weights, weights) != 0) continue;
        *found = true;
        *out = one->finding.value;
    }
    return SF_OK;
}

static sf_status keep_one(const sf_store *store, sf_stored_run *now, uint64_t weights, const sf_finding *finding) {
    SF_TRY(sf_database_run(&store->db, "INSERT OR IGNORE INTO findings VALUES (?, ?, ?, ?)", "ihtr", now->number,
                           weights, finding->name, finding->value));
    if (sqlite3_changes(store->db.handle) == 0) return SF_OK;
    sqlite3_stmt *statement;
    bool found = false;
    SF_TRY(sf_database_prepare(&statement, &store->db, FINDINGS " AND weights = ? AND name = ?", "iht", now->number,
                               weights, finding->name));
    const sf_status status = sf_database_step(&store->db, statement, &found);
    if (found) now->findings_seal += sf_seal_columns(SF_SEAL_FINDING, statement, COLUMNS);
    sf_database_release(&store->db, statement);
    return status;
}

sf_status sf_findings_keep(sf_store *store, const sf_stored_run *run, const sf_finding *findings, size_t count) {
    sf_stored_run now;
    SF_TRY(sf_run_change(&now, store, run->number));
    sf_status status = SF_OK;
    for (size_t i = 0; i < count && status == SF_OK; i++)
        status = keep_one(store, &now, run->weights_hash, &findings[i]);
    return sf_run_changed(store, &now, status);
}
