/* What becomes of a run of the target when a source has it, too: whose entry, whose checkpoints; and the files. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/stop.h"
#include "store/merge.h"
#include "train/checkpoint.h"

static size_t epoch_of(const sf_stored_run *run, bool best) {
    return best ? run->best_saved_epoch : run->checkpoint_epoch;
}

static bool is_gone(const sf_version *version, bool best) {
    char path[SF_CHECKPOINT_PATH_SIZE];
    const size_t epoch = epoch_of(&version->run, best);
    if (epoch == 0) return false;
    sf_store_checkpoint_path(path, version->store, &version->run, best, epoch);
    return access(path, F_OK) != 0 && errno == ENOENT;
}

/* A checkpoint of the same epoch is the same; one whose file was deleted comes back. */
static void choose_checkpoints(sf_join *join) {
    const sf_stored_run *ours = &join->target.run, *theirs = &join->source.run;
    const bool later = theirs->checkpoint_epoch > ours->checkpoint_epoch;
    const bool same_last = theirs->checkpoint_epoch == ours->checkpoint_epoch,
               same_best = theirs->best_saved_epoch == ours->best_saved_epoch;
    join->takes_last = later || (same_last && is_gone(&join->target, false));
    join->takes_best = same_best ? (later || same_last) && is_gone(&join->target, true) : later;
}

/* An id of today rather than an earlier one; the earlier id of either, because users may know the run by it. */
static void join_ids(sf_join *join) {
    const sf_stored_run *ours = &join->target.run, *theirs = &join->source.run;
    const bool renewed = strcmp(ours->id, ours->earlier_id) == 0;
    if (renewed) memcpy(join->joined.id, theirs->id, sizeof join->joined.id);
    if (strcmp(theirs->earlier_id, ours->earlier_id) > 0)
        memcpy(join->joined.earlier_id, theirs->earlier_id, sizeof join->joined.earlier_id);
}

static sf_status decide_on_known(sf_join *join) {
    sf_difference difference;
    SF_TRY(sf_run_verify_rows(join->target.store, &join->target.run));
    SF_TRY(sf_version_compare(&difference, &join->target, &join->source));
    if (*difference.conflict != '\0') return sf_fail(SF_IO_ERROR, "%s", difference.conflict);
    join->takes_entry = difference.preferred > 0;
    join->adds_rows = difference.missing > 0;
    join->moves = sf_run_is_merged(join->target.run.number) &&
                  sf_run_rank(join->source.run.number) < sf_run_rank(join->target.run.number);
    choose_checkpoints(join);
    join->joined = join->target.run;
    join_ids(join);
    if (join->takes_last) join->joined.checkpoint_epoch = join->source.run.checkpoint_epoch;
    if (join->takes_best) join->joined.best_saved_epoch = join->source.run.best_saved_epoch;
    return SF_OK;
}

sf_status sf_join_decide(sf_join *join, sf_store *target) {
    bool found;
    SF_TRY(sf_version_find(&join->target, &found, target, &join->source.run));
    join->target.store = target;
    join->is_new = !found;
    if (found) return decide_on_known(join);
    join->takes_entry = join->takes_last = join->takes_best = join->adds_rows = true;
    join->joined = join->source.run;
    return SF_OK;
}

static bool has_new_ids(const sf_join *join) {
    return strcmp(join->joined.id, join->target.run.id) != 0 ||
           strcmp(join->joined.earlier_id, join->target.run.earlier_id) != 0;
}

bool sf_join_changes(const sf_join *join) {
    return join->is_new || join->takes_entry || join->takes_last || join->takes_best || join->adds_rows ||
           join->moves || has_new_ids(join);
}

typedef struct copy {
    sf_atomic_file *to;
    const atomic_int *stop;
} copy;

static sf_status write_piece(void *context, const void *bytes, size_t count) {
    const copy *c = context;
    if (sf_stop_asked(c->stop)) return sf_fail(SF_INTERRUPTED, "stopped on request");
    return sf_atomic_append(c->to, bytes, count);
}

static sf_status copy_file(sf_atomic_file *file, const char *from, uint64_t hash, const char *to,
                           const atomic_int *stop) {
    SF_TRY(sf_atomic_open(file, to));
    const sf_status status = sf_checkpoint_each_piece(from, hash, write_piece, &(copy){file, stop});
    if (status != SF_OK) sf_atomic_abandon(file);
    return status;
}

/* From the source, or under another name from the target itself. */
static sf_status copy_if_needed(sf_atomic_file *files, size_t *count, const sf_join *join, bool best,
                                const atomic_int *stop) {
    char from[SF_CHECKPOINT_PATH_SIZE], to[SF_CHECKPOINT_PATH_SIZE];
    const bool takes = best ? join->takes_best : join->takes_last;
    const sf_version *holder = takes ? &join->source : &join->target;
    const size_t epoch = epoch_of(&join->joined, best);
    if (epoch == 0) return SF_OK;
    sf_store_checkpoint_path(from, holder->store, &holder->run, best, epoch);
    sf_store_checkpoint_path(to, join->target.store, &join->joined, best, epoch);
    if (!takes && (strcmp(from, to) == 0 || is_gone(holder, best))) return SF_OK;
    SF_TRY(sf_fail_in(
        copy_file(&files[*count], from, best ? holder->run.best_hash : holder->run.checkpoint_hash, to, stop), "run %s",
        join->joined.id));
    ++*count;
    return SF_OK;
}

sf_status sf_join_copy_files(sf_atomic_file *files, size_t *count, const sf_join *join, const atomic_int *stop) {
    SF_TRY(copy_if_needed(files, count, join, false, stop));
    return copy_if_needed(files, count, join, true, stop);
}
