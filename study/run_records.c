#include "study/run_records.h"

#include <unistd.h>

static const sf_stored_run *stored(const sf_session_state *session, size_t index) {
    return &session->runs[index].stored;
}

sf_status sf_record_look(sf_epoch **rows, size_t *count, sf_session_state *session, size_t index) {
    const sf_stored_run *run = stored(session, index);
    size_t all = 0;
    bool gone;
    sf_status status;
    *rows = NULL;
    *count = 0;
    SF_TRY(sf_store_look_for_files(&gone, session->store, run));
    if (!gone) return SF_OK;
    *count = run->checkpoint_epoch;
    SF_LOCKED(session, status, sf_store_curve(rows, &all, session->store, run));
    if (status == SF_OK && all < *count)
        status = sf_fail(SF_IO_ERROR, "run %s has %zu rows but had a checkpoint of epoch %zu", run->id, all, *count);
    return status;
}

sf_status sf_record_continuation(sf_continuation *out, char **environment, sf_session_state *session, size_t index) {
    const sf_stored_run *run = stored(session, index);
    *environment = NULL;
    pthread_mutex_lock(&session->lock);
    sf_status status = sf_continuation_read(out, session->store, run);
    if (status == SF_OK && out->checkpoint != NULL) status = sf_store_environment(environment, session->store, run->id);
    pthread_mutex_unlock(&session->lock);
    return status;
}

sf_status sf_record_begin(sf_session_state *session, size_t index, const char *isa, const char *environment) {
    const sf_stored_run *run = stored(session, index);
    sf_status status;
    SF_LOCKED(session, status,
              sf_store_begin(session->store, run, &session->runs[index].plan->config, isa, environment));
    const bool begun_before = *run->isa != '\0'; /* else it has no files */
    if (status == SF_OK && begun_before)
        sf_store_sweep(session->store, run, run->checkpoint_epoch, run->best_saved_epoch);
    return status;
}

sf_status sf_record_measures(sf_session_state *session, size_t index, const sf_curve_point *points /* [count] */,
                             size_t count) {
    sf_status status;
    SF_LOCKED(session, status, sf_store_append_measures(session->store, stored(session, index), points, count));
    return status;
}

sf_status sf_record_row(sf_session_state *session, size_t index, const sf_epoch *row, double seconds,
                        const sf_curve_point *points /* [count] */, size_t count) {
    sf_status status;
    SF_LOCKED(session, status,
              sf_store_append_measured(session->store, stored(session, index), row, seconds, points, count));
    return status;
}

static void remove_replaced(const sf_session_state *session, size_t index, bool best, size_t before, size_t now) {
    char path[SF_CHECKPOINT_PATH_SIZE];
    if (before == 0 || before == now) return;
    sf_store_checkpoint_path(path, session->store, stored(session, index), best, before);
    unlink(path);
}

sf_status sf_record_checkpoint(sf_session_state *session, size_t index, const sf_checkpoint_files *files,
                               const sf_saved *before) {
    sf_status status;
    SF_TRY(sf_store_check_place(session->store));
    SF_TRY(sf_checkpoint_files_write(files, session->store, stored(session, index)));
    SF_LOCKED(session, status, sf_store_saved(session->store, stored(session, index), &files->saved));
    SF_TRY(status);
    remove_replaced(session, index, false, before->epoch, files->saved.epoch);
    remove_replaced(session, index, true, before->best_epoch, files->saved.best_epoch);
    return SF_OK;
}

sf_status sf_record_complete(sf_session_state *session, size_t index, const sf_ending *ending) {
    const sf_listed_run *run = &session->runs[index];
    sf_status status;
    SF_LOCKED(session, status, sf_store_complete(session->store, &run->stored, &run->plan->config, ending));
    return status;
}

sf_status sf_record_restored(bool *again, sf_session_state *session, size_t index) {
    sf_listed_run *run = &session->runs[index];
    bool satisfied = false;
    pthread_mutex_lock(&session->lock);
    sf_status status = sf_store_find(&run->stored, session->store, run->plan->id);
    if (status == SF_OK) status = sf_store_satisfies(&satisfied, session->store, &run->stored, &run->plan->config);
    if (status == SF_OK && satisfied) status = sf_session_tidy(session, run);
    pthread_mutex_unlock(&session->lock);
    *again = status == SF_OK && !satisfied;
    return status;
}

sf_status sf_record_pause(sf_session_state *session, size_t index) {
    const sf_ending pending = {.status = "pending"};
    sf_status status;
    SF_LOCKED(session, status, sf_store_finish(session->store, stored(session, index), &pending));
    return status;
}
