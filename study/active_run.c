#include "study/active_run.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "store/environment.h"

static sf_listed_run *listed(const sf_active_run *run) {
    return &run->session->runs[run->index];
}

static const sf_result *result_of(const sf_active_run *run) {
    return &sf_run_state_member(&run->state)->result;
}

static void announce(const sf_active_run *run, sf_event_kind kind) {
    sf_session_announce(run->session, (sf_event){.kind = kind, .run = run->index, .row = result_of(run)->last});
}

/* The rows of a run whose checkpoint is gone, up to the epoch of that checkpoint. */
static sf_status read_lost_rows(sf_active_run *run) {
    const sf_listed_run *of = listed(run);
    size_t count = 0;
    sf_status status;
    run->lost = of->stored.checkpoint_epoch;
    SF_LOCKED(run->session, status, sf_store_curve(&run->rows, &count, run->session->store, &of->stored));
    if (status == SF_OK && count < run->lost)
        status = sf_fail(SF_IO_ERROR, "run %s has %zu rows but had a checkpoint of epoch %zu", of->plan->id, count,
                         run->lost);
    return status;
}

sf_status sf_active_run_prepare(sf_member **out, sf_active_run *run, sf_member *const *others /* [count] */,
                                size_t count) {
    const sf_listed_run *of = listed(run);
    sf_config config = of->plan->config;
    bool gone;
    *out = NULL;
    SF_TRY(sf_store_look_for_files(&gone, run->session->store, &of->stored));
    if (gone) {
        SF_TRY(read_lost_rows(run));
        config.stop_at = 0; /* as long as it was, not as asked for now */
        if (config.epochs < (int64_t)run->lost) config.epochs = (int64_t)run->lost;
    }
    return sf_member_create(out, of->plan->task, &config, others, count, run->session->session->stop);
}

/* The caller holds the lock. */
static sf_status begin_in_store(sf_active_run *run, const sf_run_place *place) {
    const sf_listed_run *of = listed(run);
    sf_store *store = run->session->store;
    SF_TRY(sf_run_state_load(&run->state, store));
    const sf_environment now = {.backend = place->machine.backend,
                                .precision = (sf_precision)sf_run_state_member(&run->state)->config.precision,
                                .threads = run->session->threads,
                                .runs_at_a_time = place->runs_at_a_time};
    char *before = NULL;
    if (run->state.saved.epoch > 0) SF_TRY(sf_store_environment(&before, store, of->plan->id));
    char *environment = sf_environment_text(&now, before);
    free(before);
    if (environment == NULL) return sf_fail(SF_NO_MEMORY, "no memory left to begin run %s", of->plan->id);
    const sf_status status =
        sf_store_begin(store, &of->stored, &of->plan->config, now.backend->variant(now.precision), environment);
    free(environment);
    const bool begun_before = *of->stored.isa != '\0'; /* else it has no files */
    if (status == SF_OK && begun_before)
        sf_store_sweep(store, &of->stored, run->state.saved.epoch, run->state.saved.best_epoch);
    return status;
}

static sf_status take_measures(sf_active_run *run) {
    return sf_training_measures_take(&run->measures, run->state.fleet, run->state.s);
}

static sf_status record_beginning(sf_active_run *run) {
    if (!sf_training_measures_is_due(&run->measures, 0) || result_of(run)->last.epoch > 0) return SF_OK;
    SF_TRY(take_measures(run));
    sf_status status;
    SF_LOCKED(
        run->session, status,
        sf_store_append_measures(run->session->store, &listed(run)->stored, run->measures.points, run->measures.count));
    return status;
}

sf_status sf_active_run_begin(sf_active_run *run, const sf_run_place *place) {
    sf_status status = sf_run_state_open(&run->state, place->fleet, place->s, &listed(run)->stored);
    if (status == SF_OK && run->rows == NULL) {
        status = sf_training_measures_open(&run->measures, sf_run_state_member(&run->state),
                                           (size_t)run->session->execution.measure_every, &place->machine,
                                           run->session->session->stop);
        if (status == SF_OK) SF_LOCKED(run->session, status, begin_in_store(run, place));
        run->begun = status == SF_OK;
    }
    SF_TRY(status);
    run->epoch = result_of(run)->last.epoch;
    run->checkpointed = sf_clock_seconds();
    announce(run, SF_EVENT_STARTED);
    return run->rows == NULL ? record_beginning(run) : SF_OK;
}

static void remove_replaced(const sf_active_run *run, bool best, size_t before, size_t now) {
    char path[SF_CHECKPOINT_PATH_SIZE];
    if (before == 0 || before == now) return;
    sf_store_checkpoint_path(path, run->session->store, &listed(run)->stored, best, before);
    unlink(path);
}

static sf_status checkpoint(sf_active_run *run) {
    sf_store *store = run->session->store;
    const sf_saved before = run->state.saved;
    SF_TRY(sf_store_check_place(store));
    SF_TRY(sf_run_state_save(&run->state, store));
    sf_status status;
    SF_LOCKED(run->session, status, sf_store_saved(store, &listed(run)->stored, &run->state.saved));
    SF_TRY(status);
    remove_replaced(run, false, before.epoch, run->state.saved.epoch);
    remove_replaced(run, true, before.best_epoch, run->state.saved.best_epoch);
    run->checkpointed = sf_clock_seconds();
    return SF_OK;
}

static bool same_numbers(const sf_epoch *a, const sf_epoch *b) {
    return a->epoch == b->epoch && a->train_loss == b->train_loss && a->train_accuracy == b->train_accuracy &&
           a->heldout_loss == b->heldout_loss && a->heldout_accuracy == b->heldout_accuracy;
}

/* The store keeps its rows: each epoch that is computed again must give the row that is stored. */
static sf_status compare_with_lost(const sf_active_run *run) {
    const sf_epoch *got = &result_of(run)->last, *stored = &run->rows[run->epoch];
    if (same_numbers(got, stored)) return SF_OK;
    const char *id = listed(run)->plan->id;
    return sf_fail(
        SF_IO_ERROR,
        "run %s: its checkpoint is gone, and computed again it has training loss %.17g after epoch %zu where "
        "the store has %.17g after epoch %zu; the store is left as it is: put back the checkpoint, or delete "
        "the run with 'semfocus delete %s' and train it again",
        id, got->train_loss, got->epoch, stored->train_loss, stored->epoch, id);
}

/* The epoch's row, and what is due to be measured after it. */
static sf_status append_row(sf_active_run *run, double seconds) {
    const sf_epoch *row = &result_of(run)->last;
    const bool due = sf_training_measures_is_due(&run->measures, row->epoch);
    if (due) SF_TRY(take_measures(run));
    sf_status status;
    SF_LOCKED(run->session, status,
              sf_store_append_measured(run->session->store, &listed(run)->stored, row, seconds, run->measures.points,
                                       due ? run->measures.count : 0));
    return status;
}

sf_status sf_active_run_record(sf_active_run *run, double seconds) {
    const sf_result *result = result_of(run);
    const bool diverged = result->status == SF_RUN_DIVERGED;
    SF_TRY(sf_member_check(sf_run_state_member(&run->state)));
    if (run->rows != NULL && (diverged || result->last.epoch > run->epoch)) SF_TRY(compare_with_lost(run));
    if (result->last.epoch == run->epoch) return SF_OK;
    SF_TRY(sf_run_state_note(&run->state));
    if (run->rows == NULL) SF_TRY(append_row(run, seconds));
    run->epoch = result->last.epoch;
    announce(run, SF_EVENT_EPOCH);
    const bool due = sf_clock_seconds() - run->checkpointed >= (double)run->session->execution.checkpoint_seconds;
    return due && run->rows == NULL && !sf_active_run_is_finished(run) ? checkpoint(run) : SF_OK;
}

bool sf_active_run_is_finished(const sf_active_run *run) {
    const sf_result *result = result_of(run);
    return run->rows != NULL ? result->last.epoch >= run->lost : result->status != SF_RUN_RUNNING;
}

/* The lost checkpoint has been computed again. */
static sf_status finish_lost(bool *again, sf_active_run *run) {
    sf_listed_run *of = listed(run);
    bool satisfied = false;
    SF_TRY(checkpoint(run));
    pthread_mutex_lock(&run->session->lock);
    sf_status status = sf_store_find(&of->stored, run->session->store, of->plan->id);
    if (status == SF_OK) status = sf_store_satisfies(&satisfied, run->session->store, &of->stored, &of->plan->config);
    if (status == SF_OK && satisfied) status = sf_session_tidy(run->session, of);
    pthread_mutex_unlock(&run->session->lock);
    *again = status == SF_OK && !satisfied;
    return status;
}

sf_status sf_active_run_finish(bool *again, sf_active_run *run) {
    *again = false;
    if (run->rows != NULL) return finish_lost(again, run);
    const sf_result *result = result_of(run);
    const sf_listed_run *of = listed(run);
    const bool diverged = result->status == SF_RUN_DIVERGED;
    const sf_ending ending = {.status = diverged ? "diverged" : "done",
                              .diverged_epoch = result->diverged_epoch,
                              .diverged_step = result->diverged_step};
    if (result->last.epoch > run->state.saved.epoch) SF_TRY(checkpoint(run));
    sf_status status;
    SF_LOCKED(run->session, status, sf_store_complete(run->session->store, &of->stored, &of->plan->config, &ending));
    return status;
}

sf_status sf_active_run_stop(sf_active_run *run) {
    if (run->begun) {
        const sf_ending pending = {.status = "pending"};
        if (run->epoch == result_of(run)->last.epoch && run->epoch > run->state.saved.epoch) SF_TRY(checkpoint(run));
        sf_status status;
        SF_LOCKED(run->session, status, sf_store_finish(run->session->store, &listed(run)->stored, &pending));
        SF_TRY(status);
    }
    return sf_fail(SF_INTERRUPTED, "stopped on request");
}

void sf_active_run_close(sf_active_run *run) {
    sf_training_measures_close(&run->measures);
    sf_run_state_close(&run->state);
    sf_release(run->rows);
    run->rows = NULL;
    run->lost = 0;
    run->state = (sf_run_state){0};
}
