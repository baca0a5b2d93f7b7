#include "semfocus/session.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/threads.h"
#include "kernels/cpu/cpu.h"
#include "store/claim.h"
#include "store/environment.h"
#include "store/run_state.h"
#include "study/training_measures.h"

typedef enum job_state { OPEN, TAKEN, OVER } job_state;

typedef struct job { /* one run of the list */
    const sf_planned_run *plan;
    sf_stored_run run;
    job_state state;
    bool stopped;
} job;

typedef struct hall { /* what the workers share; store, states and events under the lock */
    sf_store *store;
    const sf_session *session;
    sf_execution execution;
    pthread_mutex_t lock;
    job *jobs; /* [count] */
    size_t count;
    bool waiting_said;
    int threads; /* that the session may use: how many work at a run is no property of the run */
    int workers; /* runs that are trained at a time: what their seconds depend on */
    size_t failed;
    sf_status fatal; /* the store itself fails: nobody goes on */
    char fatal_message[SF_RUN_MESSAGE_SIZE];
} hall;

static bool told_to_stop(const hall *h) {
    return h->session->stop != NULL && atomic_load(h->session->stop) != 0;
}

static void emit(const hall *h, sf_event event) {
    if (h->session->on_event == NULL) return;
    event.id = h->jobs[event.run].plan->id;
    h->session->on_event(h->session->context, &event);
}

/* A run whose files cannot be reached is not: whoever takes it says why. */
static sf_status is_satisfied(bool *out, const hall *h, const job *j) {
    bool gone;
    *out = false;
    if (sf_store_look_for_files(&gone, h->store, &j->run) != SF_OK) return SF_OK;
    return sf_store_satisfies(out, h->store, &j->run, &j->plan->config);
}

static bool needs_tidying(const sf_stored_run *run) {
    return run->epochs > run->checkpoint_epoch ||
           (strcmp(run->status, "done") != 0 && strcmp(run->status, "diverged") != 0);
}

/* What a process left that died after a checkpoint: rows the checkpoint does not back, files, a wrong status. */
static sf_status tidy(hall *h, const job *j) {
    const bool diverged = strcmp(j->run.status, "diverged") == 0;
    const sf_ending ending = {.status = diverged ? "diverged" : "done",
                              .diverged_epoch = j->run.diverged_epoch,
                              .diverged_step = j->run.diverged_step};
    SF_TRY(sf_store_complete(h->store, &j->run, &j->plan->config, &ending));
    sf_store_sweep(h->store, &j->run, j->run.checkpoint_epoch, j->run.best_saved_epoch);
    return SF_OK;
}

/* Claims job i if it is free and still needs work; *claim stays -1 otherwise. What is there already is taken from the
 * store even while another process goes on with the run. */
static sf_status try_to_take(int *claim, hall *h, size_t i) {
    job *j = &h->jobs[i];
    bool satisfied;
    SF_TRY(sf_store_find(&j->run, h->store, j->plan->id));
    SF_TRY(is_satisfied(&satisfied, h, j));
    sf_status status = SF_OK;
    if (!satisfied || needs_tidying(&j->run)) {
        SF_TRY(sf_claim_take(claim, sf_store_folder(h->store), j->run.number));
        if (*claim < 0 && !satisfied) return SF_OK;
        if (*claim >= 0) { /* it may have moved on before it was ours */
            status = sf_store_find(&j->run, h->store, j->plan->id);
            if (status == SF_OK) status = is_satisfied(&satisfied, h, j);
            if (status == SF_OK && !satisfied) {
                j->state = TAKEN;
                return SF_OK;
            }
            if (status == SF_OK && needs_tidying(&j->run)) status = tidy(h, j);
            sf_claim_give_back(*claim);
            *claim = -1;
        }
    }
    SF_TRY(status);
    j->state = OVER;
    emit(h, (sf_event){.kind = SF_EVENT_FINISHED, .run = i});
    return SF_OK;
}

/* The next run to work at, under a claim; false when there is none left. Waits for runs that others are at. */
static bool next_job(size_t *index, int *claim, hall *h) {
    for (;;) {
        size_t open = 0;
        pthread_mutex_lock(&h->lock);
        for (size_t i = 0; i < h->count && h->fatal == SF_OK && !told_to_stop(h); i++) {
            if (h->jobs[i].state != OPEN) continue;
            h->fatal = try_to_take(claim, h, i);
            if (h->fatal != SF_OK) snprintf(h->fatal_message, sizeof h->fatal_message, "%s", sf_message());
            if (h->fatal == SF_OK && *claim >= 0) {
                *index = i;
                pthread_mutex_unlock(&h->lock);
                return true;
            }
            open += h->jobs[i].state == OPEN;
        }
        const bool stop = h->fatal != SF_OK || told_to_stop(h) || open == 0;
        if (!stop && !h->waiting_said) {
            h->waiting_said = true;
            emit(h, (sf_event){.kind = SF_EVENT_WAITING});
        }
        pthread_mutex_unlock(&h->lock);
        if (stop) return false;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
}

typedef struct step_context {
    hall *h;
    size_t run;
} step_context;

static void on_step(void *context, size_t step, size_t steps) {
    const step_context *at = context;
    pthread_mutex_lock(&at->h->lock);
    emit(at->h, (sf_event){.kind = SF_EVENT_STEP, .run = at->run, .step = step, .steps = steps});
    pthread_mutex_unlock(&at->h->lock);
}

/* Store calls of a worker. */
#define LOCKED(h, status, call)                                                                                        \
    do {                                                                                                               \
        pthread_mutex_lock(&(h)->lock);                                                                                \
        (status) = (call);                                                                                             \
        pthread_mutex_unlock(&(h)->lock);                                                                              \
    } while (0)

static sf_status begin(hall *h, const job *j, sf_run_state *state) {
    SF_TRY(sf_run_state_load(state, h->store));
    const sf_precision precision = sf_run_state_precision(state);
    char *before = NULL;
    if (state->saved.epoch > 0) SF_TRY(sf_store_environment(&before, h->store, j->plan->id));
    char *environment = sf_environment_text(h->threads, h->workers, precision, before);
    free(before);
    if (environment == NULL) return sf_fail(SF_NO_MEMORY, "no memory left to begin run %s", j->plan->id);
    const sf_status status =
        sf_store_begin(h->store, &j->run, &j->plan->config, sf_cpu_isa_name(precision), environment);
    free(environment);
    const bool begun_before = *j->run.isa != '\0'; /* else there is nothing to find among everybody's files */
    if (status == SF_OK && begun_before) sf_store_sweep(h->store, &j->run, state->saved.epoch, state->saved.best_epoch);
    return status;
}

static void remove_replaced(const hall *h, const sf_stored_run *run, bool best, size_t before, size_t now) {
    char path[SF_CHECKPOINT_PATH_SIZE];
    if (before == 0 || before == now) return;
    sf_store_checkpoint_path(path, h->store, run, best, before);
    unlink(path);
}

static sf_status checkpoint(hall *h, const job *j, sf_run_state *state) {
    const sf_saved before = state->saved;
    SF_TRY(sf_store_check_place(h->store));
    SF_TRY(sf_run_state_save(state, h->store));
    sf_status status;
    LOCKED(h, status, sf_store_saved(h->store, &j->run, &state->saved));
    SF_TRY(status);
    remove_replaced(h, &j->run, false, before.epoch, state->saved.epoch);
    remove_replaced(h, &j->run, true, before.best_epoch, state->saved.best_epoch);
    return SF_OK;
}

static sf_status record_beginning(hall *h, const job *j, sf_training_measures *measures, const sf_run_state *state) {
    if (!sf_training_measures_is_due(measures, 0) || sf_fleet_member(state->fleet, 0)->result.last.epoch > 0)
        return SF_OK;
    SF_TRY(sf_training_measures_take(measures, state->fleet));
    sf_status status;
    LOCKED(h, status, sf_store_append_measures(h->store, &j->run, measures->points, measures->count));
    return status;
}

/* The epoch's row, and what is due to be measured after it. */
static sf_status record_epoch(hall *h, const job *j, sf_training_measures *measures, const sf_run_state *state,
                              double seconds) {
    const sf_epoch *row = &sf_fleet_member(state->fleet, 0)->result.last;
    const bool due = sf_training_measures_is_due(measures, row->epoch);
    if (due) SF_TRY(sf_training_measures_take(measures, state->fleet));
    sf_status status;
    LOCKED(h, status,
           sf_store_append_measured(h->store, &j->run, row, seconds, measures->points, due ? measures->count : 0));
    return status;
}

/* Trains to the end, or until told to stop (SF_INTERRUPTED). */
static sf_status train(hall *h, job *j, size_t index, sf_run_state *state, sf_training_measures *measures) {
    const sf_result *result = &sf_fleet_member(state->fleet, 0)->result;
    double checkpointed = sf_clock_seconds();
    sf_status status = record_beginning(h, j, measures, state);
    while (status == SF_OK && !sf_fleet_finished(state->fleet)) {
        const double start = sf_clock_seconds();
        const size_t before = result->last.epoch;
        status = sf_fleet_advance(state->fleet);
        if (result->last.epoch == before) continue;
        sf_run_state_note(state);
        const double end = sf_clock_seconds();
        SF_TRY(record_epoch(h, j, measures, state, end - start));
        pthread_mutex_lock(&h->lock);
        emit(h, (sf_event){.kind = SF_EVENT_EPOCH, .run = index, .row = result->last});
        pthread_mutex_unlock(&h->lock);
        if (end - checkpointed < (double)h->execution.checkpoint_seconds || sf_fleet_finished(state->fleet)) continue;
        SF_TRY(checkpoint(h, j, state));
        checkpointed = sf_clock_seconds();
    }
    if (status != SF_OK && status != SF_INTERRUPTED) return status;
    if (result->last.epoch > state->saved.epoch) SF_TRY(checkpoint(h, j, state));
    return status;
}

static void announce(hall *h, size_t index, sf_event_kind kind, const sf_epoch *row) {
    pthread_mutex_lock(&h->lock);
    emit(h, (sf_event){.kind = kind, .run = index, .row = *row});
    pthread_mutex_unlock(&h->lock);
}

static bool same_numbers(const sf_epoch *a, const sf_epoch *b) {
    return a->epoch == b->epoch && a->train_loss == b->train_loss && a->train_accuracy == b->train_accuracy &&
           a->heldout_loss == b->heldout_loss && a->heldout_accuracy == b->heldout_accuracy;
}

static sf_status gives_other_numbers(const sf_run_state *state, const sf_epoch *got, const sf_epoch *stored) {
    return sf_fail(
        SF_IO_ERROR,
        "run %s: its checkpoint is gone, and computed again it has training loss %.17g after epoch %zu where "
        "the store has %.17g after epoch %zu; the store is left as it is: put back the checkpoint, or delete "
        "the run with 'semfocus delete %s' and train it again",
        state->run.id, got->train_loss, got->epoch, stored->train_loss, stored->epoch, state->run.id);
}

/* Computes a run whose checkpoint is gone again, up to the epoch of that checkpoint. The store says what it said
 * before: each epoch must give the row that it has. */
static sf_status recompute(sf_run_state *state, hall *h, size_t index, const sf_epoch *rows /* [lost] */, size_t lost) {
    const sf_result *result = &sf_fleet_member(state->fleet, 0)->result;
    announce(h, index, SF_EVENT_STARTED, &result->last);
    for (size_t i = 0; i < lost; i++) {
        SF_TRY(sf_fleet_advance(state->fleet));
        if (!same_numbers(&result->last, &rows[i])) return gives_other_numbers(state, &result->last, &rows[i]);
        sf_run_state_note(state);
        announce(h, index, SF_EVENT_EPOCH, &result->last);
    }
    return checkpoint(h, &h->jobs[index], state);
}

static sf_status replace_lost(hall *h, size_t index, const sf_watch *watch) {
    job *j = &h->jobs[index];
    const size_t lost = j->run.checkpoint_epoch;
    sf_config config = j->plan->config; /* as long as it was, whatever is asked for now */
    config.stop_at = 0;
    if (config.epochs < (int64_t)lost) config.epochs = (int64_t)lost;
    sf_epoch *rows = NULL;
    size_t count = 0;
    sf_run_state state = {0};
    sf_status status;
    LOCKED(h, status, sf_store_curve(&rows, &count, h->store, &j->run));
    if (status == SF_OK && count < lost)
        status =
            sf_fail(SF_IO_ERROR, "run %s has %zu rows but had a checkpoint of epoch %zu", j->plan->id, count, lost);
    if (status == SF_OK)
        status = sf_run_state_open(&state, j->plan->task, &config, &h->execution, &j->run, h->session->stop);
    if (status == SF_OK) {
        sf_fleet_watch(state.fleet, watch);
        status = recompute(&state, h, index, rows, lost);
    }
    sf_release(rows);
    sf_run_state_close(&state);
    if (status == SF_OK) LOCKED(h, status, sf_store_find(&j->run, h->store, j->plan->id));
    return status;
}

/* From where the run is to where it should be. *begun: whether the store says that it is under way. */
static sf_status go_on(bool *begun, hall *h, size_t index, const sf_watch *watch) {
    job *j = &h->jobs[index];
    sf_run_state state;
    sf_training_measures measures = {0};
    sf_status status =
        sf_run_state_open(&state, j->plan->task, &j->plan->config, &h->execution, &j->run, h->session->stop);
    if (status == SF_OK) status = sf_training_measures_open(&measures, state.fleet, &h->execution, h->session->stop);
    if (status == SF_OK) LOCKED(h, status, begin(h, j, &state));
    *begun = status == SF_OK;
    if (*begun) {
        const sf_result *result = &sf_fleet_member(state.fleet, 0)->result;
        sf_fleet_watch(state.fleet, watch);
        announce(h, index, SF_EVENT_STARTED, &result->last);
        status = train(h, j, index, &state, &measures);
        const bool diverged = result->status == SF_RUN_DIVERGED;
        const sf_ending ending = {.status = diverged ? "diverged" : "done",
                                  .diverged_epoch = result->diverged_epoch,
                                  .diverged_step = result->diverged_step};
        sf_status stored = SF_OK;
        if (status == SF_OK) LOCKED(h, stored, sf_store_complete(h->store, &j->run, &j->plan->config, &ending));
        if (status == SF_INTERRUPTED)
            LOCKED(h, stored, sf_store_finish(h->store, &j->run, &(sf_ending){.status = "pending"}));
        if (stored != SF_OK) status = stored;
    }
    sf_training_measures_close(&measures);
    sf_run_state_close(&state);
    return status;
}

static sf_status execute(bool *begun, hall *h, size_t index) {
    job *j = &h->jobs[index];
    step_context at = {h, index};
    const sf_watch watch = {.stop = h->session->stop, .on_step = on_step, .context = &at};
    bool gone, satisfied = false;
    *begun = false;
    SF_TRY(sf_store_look_for_files(&gone, h->store, &j->run));
    if (gone) {
        sf_status status = replace_lost(h, index, &watch);
        SF_TRY(status);
        LOCKED(h, status, sf_store_satisfies(&satisfied, h->store, &j->run, &j->plan->config));
        SF_TRY(status);
    }
    if (!satisfied) return go_on(begun, h, index, &watch);
    sf_status status = SF_OK;
    if (needs_tidying(&j->run)) LOCKED(h, status, tidy(h, j));
    return status;
}

static void work(hall *h) {
    size_t index;
    int claim = -1;
    while (next_job(&index, &claim, h)) {
        bool begun;
        const sf_status status = execute(&begun, h, index);
        pthread_mutex_lock(&h->lock);
        job *j = &h->jobs[index];
        j->state = OVER;
        if (status == SF_OK) {
            emit(h, (sf_event){.kind = SF_EVENT_FINISHED, .run = index});
        } else if (status == SF_INTERRUPTED) {
            j->stopped = true;
            emit(h, (sf_event){.kind = SF_EVENT_STOPPED, .run = index});
        } else {
            char message[SF_RUN_MESSAGE_SIZE];
            snprintf(message, sizeof message, "%s", sf_message());
            h->failed++;
            /* A run that was refused before it began stays as it was. Where the store cannot be written either, the run
             * is unfinished as it stands there, and the next command goes on with it. */
            if (begun) (void)sf_store_finish(h->store, &j->run, &(sf_ending){.status = "failed", .message = message});
            emit(h, (sf_event){.kind = SF_EVENT_FAILED, .run = index, .message = message});
        }
        pthread_mutex_unlock(&h->lock);
        sf_claim_give_back(claim);
        claim = -1;
    }
}

static int by_number(const void *a, const void *b) {
    const job *left = *(job *const *)a, *right = *(job *const *)b;
    if (left->run.number != right->run.number) return left->run.number < right->run.number ? -1 : 1;
    return (left > right) - (left < right);
}

/* Of a run that is listed more than once, only the first is work. */
static sf_status drop_repeated(hall *h) {
    job **sorted;
    SF_TRY(SF_NEW(&sorted, h->count));
    for (size_t i = 0; i < h->count; i++) sorted[i] = &h->jobs[i];
    qsort(sorted, h->count, sizeof *sorted, by_number);
    for (size_t i = 1; i < h->count; i++)
        if (sorted[i]->run.number == sorted[i - 1]->run.number) sorted[i]->state = OVER;
    sf_release(sorted);
    return SF_OK;
}

static sf_status enter_all(hall *h) {
    for (size_t i = 0; i < h->count; i++) {
        job *j = &h->jobs[i];
        j->plan = &h->session->runs[i];
        SF_TRY(sf_store_enter(&j->run, h->store, j->plan->id, j->plan->task, j->plan->attention, &j->plan->config));
    }
    return drop_repeated(h);
}

sf_status sf_session_run(sf_store *store, const sf_session *session) {
    hall h = {.store = store, .session = session, .count = session->count};
    if (session->count == 0) return SF_OK;
    sf_execution_init(&h.execution);
    if (session->execution != NULL) h.execution = *session->execution;
    SF_TRY(SF_NEW(&h.jobs, session->count));
    sf_store_obey(store, session->stop);
    sf_status status = enter_all(&h);
    if (status == SF_OK) {
        pthread_mutex_init(&h.lock, NULL);
        h.threads = sf_threads_for((size_t)h.execution.threads);
        const size_t threads = (size_t)h.threads;
        size_t open = 0;
        for (size_t i = 0; i < h.count; i++) {
            bool satisfied = false;
            open += h.jobs[i].state == OPEN && !(is_satisfied(&satisfied, &h, &h.jobs[i]) == SF_OK && satisfied);
        }
        /* One model a core where there are enough of them, the cores inside one model otherwise. */
        const size_t workers = open >= threads ? threads : 1;
        h.workers = (int)workers;
        status = sf_threads_start(workers);
#pragma omp parallel num_threads((int)workers) if (workers > 1 && status == SF_OK)
        if (status == SF_OK) work(&h);
        pthread_mutex_destroy(&h.lock);
        size_t unfinished = 0;
        for (size_t i = 0; i < h.count; i++) unfinished += h.jobs[i].state != OVER || h.jobs[i].stopped;
        if (h.fatal != SF_OK) status = sf_fail(h.fatal, "%s", h.fatal_message);
        if (status == SF_OK && unfinished > 0) status = sf_fail(SF_INTERRUPTED, "stopped on request");
        if (status == SF_OK && h.failed > 0)
            status =
                sf_fail(SF_IO_ERROR, "%zu of %zu runs failed; the same command tries them again", h.failed, h.count);
    }
    sf_release(h.jobs);
    return status;
}
