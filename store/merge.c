#include "store/merge.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/stop.h"
#include "base/text.h"
#include "store/claim.h"
#include "store/labels.h"
#include "store/merge_sources.h"
#include "tasks/corpus.h"

enum { MOST_RUNS = 128, OTHER_FILES = 64 };       /* of a batch, which has twice as many files open; open otherwise */
static const size_t most_bytes = (size_t)1 << 26; /* of files, so that a stop need not wait long for the disk */

typedef struct merging {
    sf_merge_result *result;
    const char *into;
    sf_merge_watch watch;
    sf_sources sources;
    sf_store *target;    /* NULL: not there yet */
    sf_version *current; /* the run that is verified */
    size_t current_source;
    size_t done;
    size_t problems;
    char first_problem[SF_CONFLICT_SIZE];
} merging;

static sf_status check_stop(const merging *m) {
    return sf_stop_asked(m->watch.stop) ? sf_fail(SF_INTERRUPTED, "stopped on request") : SF_OK;
}

static void show(merging *m, const char *what) {
    m->done++;
    if (m->watch.on_progress != NULL) m->watch.on_progress(m->watch.context, what, m->done, m->sources.runs);
}

/* A single problem is the message of the whole call, so the first is told when there is a second. */
static void note_problem(merging *m, const char *sentence) {
    char text[SF_CONFLICT_SIZE]; /* it may be the message of this thread */
    snprintf(text, sizeof text, "%s", sentence);
    if (++m->problems == 1) {
        memcpy(m->first_problem, text, sizeof text);
        return;
    }
    if (m->watch.on_problem == NULL) return;
    if (m->problems == 2) m->watch.on_problem(m->watch.context, m->first_problem);
    m->watch.on_problem(m->watch.context, text);
}

/* Damage is a problem of the merge; a stop or a lack of memory ends it. */
static sf_status take_note(merging *m, sf_status status) {
    if (status == SF_OK || status == SF_INTERRUPTED || status == SF_NO_MEMORY) return status;
    note_problem(m, sf_message());
    return SF_OK;
}

static sf_status compare_with(merging *m, sf_store *other) {
    sf_version *known;
    bool found;
    sf_difference difference = {0};
    SF_TRY(SF_NEW(&known, 1));
    sf_status status = sf_version_find(known, &found, other, &m->current->run);
    if (status == SF_OK && found) status = sf_run_verify_rows(other, &known->run);
    if (status == SF_OK && found) status = sf_version_compare(&difference, known, m->current);
    sf_release(known);
    if (*difference.conflict != '\0') note_problem(m, difference.conflict);
    return status;
}

static sf_status compare_with_source(void *context, size_t i) {
    merging *m = context;
    sf_store *store;
    SF_TRY(sf_sources_lend(&store, &m->sources, i));
    SF_TRY(take_note(m, compare_with(m, store)));
    return sf_sources_lend(&store, &m->sources, m->current_source); /* so that it is not the next to be closed */
}

static bool is_under_way(const sf_stored_run *run) {
    return strcmp(run->status, "running") == 0;
}

/* One run of a source: its rows and files, and the same run in the target and in earlier sources. */
static sf_status verify_run(merging *m, size_t i, int64_t number) {
    sf_store *store;
    m->current_source = i;
    SF_TRY(sf_sources_lend(&store, &m->sources, i));
    SF_TRY(sf_version_read(m->current, store, number));
    if (is_under_way(&m->current->run)) return SF_OK;
    SF_TRY(sf_version_verify(m->current, m->watch.stop));
    if (m->target != NULL) SF_TRY(take_note(m, compare_with(m, m->target)));
    return sf_sources_each_holder(&m->sources, &m->current->run, i, compare_with_source, m);
}

static sf_status verify_sources(merging *m) {
    for (size_t i = 0; i < m->sources.count; i++) {
        const size_t problems = m->problems;
        for (size_t n = 0; n < m->sources.each[i].count; n++) {
            SF_TRY(check_stop(m));
            const sf_status status = verify_run(m, i, m->sources.each[i].numbers[n]);
            SF_TRY(take_note(m, status));
            show(m, "verified");
            if (status != SF_OK && m->problems > problems) break; /* one sentence for a damaged store is enough */
        }
    }
    if (m->problems == 0) return SF_OK;
    if (m->problems == 1) return sf_fail(SF_IO_ERROR, "%s; nothing was merged", m->first_problem);
    return sf_fail(SF_IO_ERROR, "nothing was merged because of these %zu problems", m->problems);
}

/* Advice about stores speaks of --store. */
static sf_status name_option(sf_status status, const char *before, const char *instead) {
    char message[SF_CONFLICT_SIZE];
    const char *at = strstr(sf_message(), before);
    if (status == SF_OK || at == NULL) return status;
    snprintf(message, sizeof message, "%.*s%s%s", (int)(at - sf_message()), sf_message(), instead, at + strlen(before));
    return sf_fail(status, "%s", message);
}

static sf_status open_target(merging *m, sf_store_access access) {
    return name_option(sf_store_open(&m->target, m->into, access), "--store", "--into");
}

/* Compared as it is; an earlier schema is brought forward only when everything is found to be right. */
static sf_status look_at_target(merging *m) {
    char path[SF_PATH_SIZE + 16];
    struct stat about;
    snprintf(path, sizeof path, "%s/runs.db", m->into);
    if (stat(path, &about) != 0 || about.st_size == 0) return SF_OK;
    SF_TRY(open_target(m, SF_STORE_READ));
    sf_store_obey(m->target, m->watch.stop);
    return sf_store_freeze(m->target);
}

static sf_status verify_all(merging *m) {
    SF_TRY(look_at_target(m));
    m->done = 0;
    SF_TRY(SF_NEW(&m->current, 1));
    const sf_status status = verify_sources(m);
    sf_release(m->current);
    sf_store_close(m->target);
    m->target = NULL;
    return status;
}

/* Fewer where few files may be open. */
static size_t runs_of_a_batch(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= OTHER_FILES + SF_JOIN_FILES * MOST_RUNS)
        return MOST_RUNS;
    return limit.rlim_cur > OTHER_FILES + SF_JOIN_FILES ? (limit.rlim_cur - OTHER_FILES) / SF_JOIN_FILES : 1;
}

typedef struct batch { /* runs that are merged in one transaction */
    sf_join *joins;    /* [room] */
    size_t count, room;
    sf_atomic_file *files; /* [SF_JOIN_FILES * room] */
    size_t file_count;
    size_t bytes;
    int claims; /* on runs of the target that are changed */
} batch;

static void close_batch(batch *b) {
    for (size_t i = 0; i < b->file_count; i++) sf_atomic_abandon(&b->files[i]);
    sf_claim_give_back(b->claims);
    b->count = b->file_count = b->bytes = 0;
    b->claims = -1;
}

static void leave_out(merging *m, const sf_version *version) {
    if (m->result->left_out++ > 0) return;
    snprintf(m->first_problem, sizeof m->first_problem, "%s in the store '%.300s'", version->run.id,
             version->store->folder);
}

/* Adds what is to be done about a run, and copies its files; the target is frozen. */
static sf_status gather(merging *m, batch *b, sf_store *source, int64_t number) {
    sf_join *join = &b->joins[b->count];
    const size_t files = b->file_count;
    bool ours = true;
    *join = (sf_join){0};
    SF_TRY(sf_version_read(&join->source, source, number));
    if (is_under_way(&join->source.run)) {
        leave_out(m, &join->source);
        return SF_OK;
    }
    SF_TRY(sf_join_decide(join, m->target));
    if (!sf_join_changes(join)) {
        m->result->unchanged++;
        return SF_OK;
    }
    if (!join->is_new) SF_TRY(sf_claim_take_also(&ours, &b->claims, m->target->folder, join->target.run.number));
    if (!ours) {
        leave_out(m, &join->target);
        return SF_OK;
    }
    SF_TRY(sf_join_copy_files(b->files, &b->file_count, join, m->watch.stop));
    for (size_t i = files; i < b->file_count; i++) {
        struct stat about;
        if (fstat(fileno(b->files[i].stream), &about) == 0) b->bytes += (size_t)about.st_size;
    }
    b->count++;
    return SF_OK;
}

static sf_status write_joins(merging *m, batch *b) {
    sf_status status = sf_database_begin(&m->target->db);
    if (status != SF_OK) return status;
    for (size_t i = 0; i < b->count && status == SF_OK; i++) {
        status = sf_join_write(&b->joins[i]);
        if (status == SF_OK) status = check_stop(m);
    }
    return sf_database_end(&m->target->db, status);
}

/* Files first: rows never name what is not there. */
static sf_status write_batch(merging *m, batch *b) {
    SF_TRY(sf_store_check_place(m->target));
    SF_TRY(sf_atomic_commit_all(b->files, b->file_count));
    b->file_count = 0;
    SF_TRY(write_joins(m, b));
    for (size_t i = 0; i < b->count; i++) *(b->joins[i].is_new ? &m->result->added : &m->result->extended) += 1;
    return SF_OK;
}

/* The next runs of a source, from *n on. */
static sf_status merge_some(merging *m, batch *b, size_t i, size_t *n) {
    const sf_source *source = &m->sources.each[i];
    sf_store *store;
    SF_TRY(sf_sources_lend(&store, &m->sources, i));
    SF_TRY(sf_store_freeze(m->target));
    sf_status status = SF_OK;
    for (; *n < source->count && b->count < b->room && b->bytes < most_bytes && status == SF_OK; ++*n) {
        status = check_stop(m);
        if (status == SF_OK) status = gather(m, b, store, source->numbers[*n]);
        if (status == SF_OK) show(m, "merged");
    }
    sf_store_unfreeze(m->target);
    return status == SF_OK ? write_batch(m, b) : status;
}

static sf_status merge_sources(merging *m) {
    batch b = {.claims = -1, .room = runs_of_a_batch()};
    sf_status status = SF_NEW(&b.joins, b.room);
    if (status == SF_OK) status = SF_NEW(&b.files, SF_JOIN_FILES * b.room);
    m->done = 0;
    for (size_t i = 0; i < m->sources.count; i++) {
        size_t n = 0;
        while (n < m->sources.each[i].count && status == SF_OK) {
            status = merge_some(m, &b, i, &n);
            close_batch(&b);
        }
    }
    sf_release(b.joins);
    sf_release(b.files);
    return status;
}

static sf_status merge_tokenizers(merging *m) {
    sf_store *store;
    for (size_t i = 0; i < m->sources.count; i++) {
        SF_TRY(sf_sources_lend(&store, &m->sources, i));
        SF_TRY(sf_corpus_copy_tokenizers(m->target->folder, store->folder));
    }
    return SF_OK;
}

/* In one transaction, after the runs: labels that were merged are those of all sources or of none. */
static sf_status merge_labels(merging *m) {
    sf_store *store;
    sf_status status = sf_database_begin(&m->target->db);
    if (status != SF_OK) return status;
    for (size_t i = 0; i < m->sources.count && status == SF_OK; i++) {
        status = sf_sources_lend(&store, &m->sources, i);
        if (status == SF_OK) status = sf_labels_merge(m->target, store);
    }
    return sf_database_end(&m->target->db, status);
}

static sf_status count_target(merging *m) {
    sqlite3_stmt *row;
    bool found = false;
    SF_TRY(sf_database_prepare(&row, &m->target->db, "SELECT COUNT(*) FROM runs", ""));
    const sf_status status = sf_database_step(&m->target->db, row, &found);
    m->result->total = found ? sf_column_count(row, 0) : 0;
    sf_database_release(&m->target->db, row);
    return status;
}

static sf_status say_what_was_left_out(const merging *m) {
    const size_t count = m->result->left_out;
    if (count == 0) return SF_OK;
    return sf_fail(SF_IO_ERROR,
                   "%zu run%s being trained right now and %s left out (the first is %s); when that has ended, repeat "
                   "the command to add %s",
                   count, count == 1 ? " is" : "s are", count == 1 ? "was" : "were", m->first_problem,
                   count == 1 ? "it" : "them");
}

/* Commits are synced, because files that the rows named before are removed after them. */
static sf_status merge_into(merging *m) {
    int claim = -1;
    sf_store_obey(m->target, m->watch.stop);
    SF_TRY(sf_claim_merging(&claim, m->target->folder));
    if (claim < 0)
        return sf_fail(SF_IO_ERROR,
                       "another process is merging into the store '%s'; when that has ended, repeat the command",
                       m->target->folder);
    sf_status status = sf_store_execute(m->target, "PRAGMA synchronous = FULL");
    if (status == SF_OK) {
        status = merge_tokenizers(m);
        if (status == SF_OK) status = merge_sources(m);
        if (status == SF_OK) status = merge_labels(m);
        char message[SF_CONFLICT_SIZE];
        snprintf(message, sizeof message, "%s", sf_message());
        sf_merge_tidy(m->target);
        if (status != SF_OK) sf_fail(status, "%s", message);
    }
    if (status == SF_OK) status = count_target(m);
    sf_claim_give_back(claim);
    return status == SF_OK ? say_what_was_left_out(m) : status;
}

static sf_status merge(merging *m, const char *const *folders, size_t count) {
    SF_TRY(name_option(sf_sources_open(&m->sources, folders, count, m->into, &m->watch), " with --store", ""));
    m->result->runs = m->sources.runs;
    SF_TRY(verify_all(m));
    SF_TRY(open_target(m, SF_STORE_WRITE));
    const sf_status status = merge_into(m);
    const size_t merged = m->result->added + m->result->extended;
    if (status == SF_IO_ERROR && merged > 0 && m->result->left_out == 0)
        return sf_fail(status, "%s (%zu of %zu runs were merged before that and are kept; the same command continues)",
                       sf_message(), merged, m->sources.runs);
    return status;
}

sf_status sf_store_merge(sf_merge_result *out, const char *into, const char *const *sources, size_t count,
                         const sf_merge_watch *watch) {
    merging m = {.result = out, .into = into};
    *out = (sf_merge_result){0};
    if (watch != NULL) m.watch = *watch;
    if (*into == '\0' || strlen(into) >= SF_PATH_SIZE)
        return sf_fail(SF_BAD_INPUT, "into must be a folder of 1 to %d characters", SF_PATH_SIZE - 1);
    if (count == 0) return sf_fail(SF_BAD_INPUT, "there is no store to merge; name one or more");
    const sf_status status = merge(&m, sources, count);
    sf_store_close(m.target);
    sf_sources_close(&m.sources);
    return status;
}
