#include "study/active_run.h"

#include "base/clock.h"
#include "base/memory.h"
#include "semfocus/ranks.h"
#include "store/environment.h"
#include "study/recorder.h"
#include "train/ranks_backend.h"

static sf_listed_run *listed(const sf_active_run *run) {
    return &run->session->runs[run->index];
}

static const sf_result *result_of(const sf_active_run *run) {
    return &sf_run_state_member(&run->state)->result;
}

static void announce(const sf_active_run *run, sf_event_kind kind) {
    sf_session_announce(run->session, (sf_event){.kind = kind, .run = run->index, .row = result_of(run)->last});
}

static const sf_recorder *recorder_of(const sf_active_run *run) {
    return run->session->recorder;
}

sf_status sf_active_run_prepare(sf_member **out, sf_active_run *run, sf_member *const *others /* [count] */,
                                size_t count) {
    const sf_listed_run *of = listed(run);
    sf_config config = of->plan->config;
    *out = NULL;
    SF_TRY(recorder_of(run)->look(run));
    if (run->rows != NULL) {
        config.stop_at = 0; /* as long as it was, not as asked for now */
        if (config.epochs < (int64_t)run->lost) config.epochs = (int64_t)run->lost;
    }
    return sf_member_create(out, of->plan->task, &config, others, count, run->session->session->stop);
}

static sf_precision precision_of(const sf_active_run *run) {
    return (sf_precision)sf_run_state_member(&run->state)->config.precision;
}

const char *sf_active_run_variant(const sf_active_run *run, const sf_run_place *place) {
    return place->machine.backend->variant(precision_of(run));
}

sf_status sf_active_run_environment(char **environment, const sf_active_run *run, const sf_run_place *place,
                                    const char *before) {
    const sf_environment now = {.backend = place->machine.backend,
                                .precision = precision_of(run),
                                .threads = run->session->threads,
                                .own = sf_run_state_member(&run->state)->data->own,
                                .runs_at_a_time = place->runs_at_a_time,
                                .ranks = sf_ranks_share_model(&run->session->execution) ? (int)sf_ranks_count() : 1};
    *environment = sf_environment_text(&now, before);
    if (*environment != NULL) return SF_OK;
    return sf_fail(SF_NO_MEMORY, "no memory left to begin run %s", listed(run)->plan->id);
}

static sf_status take_measures(sf_active_run *run) {
    return sf_training_measures_take(&run->measures, run->state.fleet, run->state.s);
}

static sf_status record_beginning(sf_active_run *run) {
    if (!sf_training_measures_is_due(&run->measures, 0) || result_of(run)->last.epoch > 0) return SF_OK;
    SF_TRY(take_measures(run));
    return recorder_of(run)->measures(run);
}

sf_status sf_active_run_begin(sf_active_run *run, const sf_run_place *place) {
    sf_status status = sf_run_state_open(&run->state, place->fleet, place->s, &listed(run)->stored);
    if (status == SF_OK && run->rows == NULL) {
        status = sf_training_measures_open(&run->measures, sf_run_state_member(&run->state),
                                           (size_t)run->session->execution.measure_every, &place->machine,
                                           run->session->session->stop);
        if (status == SF_OK) status = recorder_of(run)->begin(run, place);
        run->begun = status == SF_OK;
    }
    SF_TRY(status);
    run->epoch = result_of(run)->last.epoch;
    run->checkpointed = sf_clock_seconds();
    announce(run, SF_EVENT_STARTED);
    return run->rows == NULL ? record_beginning(run) : SF_OK;
}

static sf_status checkpoint(sf_active_run *run) {
    const double start = sf_clock_seconds();
    SF_TRY(recorder_of(run)->checkpoint(run));
    run->checkpointed = sf_clock_seconds();
    run->saving = run->checkpointed - start;
    return SF_OK;
}

/* The members of a fleet wait for each other's checkpoints, and rank 0 for those of all ranks: they take at most a
 * twentieth of the time. */
static bool is_checkpoint_due(const sf_active_run *run) {
    const double asked = (double)run->session->execution.checkpoint_seconds;
    double all = run->saving * (double)sf_fleet_count(run->state.fleet);
    if (all < run->saving_elsewhere) all = run->saving_elsewhere;
    return sf_clock_seconds() - run->checkpointed >= (asked > 0 && 20 * all > asked ? 20 * all : asked);
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
    return recorder_of(run)->row(run, seconds, due ? run->measures.count : 0);
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
    return run->rows == NULL && is_checkpoint_due(run) && !sf_active_run_is_finished(run) ? checkpoint(run) : SF_OK;
}

bool sf_active_run_is_finished(const sf_active_run *run) {
    const sf_result *result = result_of(run);
    return run->rows != NULL ? result->last.epoch >= run->lost : result->status != SF_RUN_RUNNING;
}

sf_status sf_active_run_finish(bool *again, sf_active_run *run) {
    const sf_result *result = result_of(run);
    const bool diverged = result->status == SF_RUN_DIVERGED;
    const sf_ending ending = {.status = diverged ? "diverged" : "done",
                              .diverged_epoch = result->diverged_epoch,
                              .diverged_step = result->diverged_step};
    *again = false;
    if (run->rows != NULL) {
        SF_TRY(checkpoint(run));
        return recorder_of(run)->restored(again, run);
    }
    if (result->last.epoch > run->state.saved.epoch) SF_TRY(checkpoint(run));
    return recorder_of(run)->complete(run, &ending);
}

sf_status sf_active_run_stop(sf_active_run *run) {
    if (run->begun) {
        if (run->epoch == result_of(run)->last.epoch && run->epoch > run->state.saved.epoch) SF_TRY(checkpoint(run));
        SF_TRY(recorder_of(run)->pause(run));
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
