#include "semfocus/session.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/threads.h"
#include "semfocus/labels.h"
#include "semfocus/ranks.h"
#include "study/clerk.h"
#include "study/job.h"
#include "study/recorder.h"
#include "study/session_device.h"
#include "study/session_run_on.h"
#include "study/session_state.h"
#include "train/automatic.h"
#include "train/ranks_backend.h"

static const double seconds_to_report = 10; /* for other ranks, after a stop */

static int by_number(const void *a, const void *b) {
    const sf_listed_run *left = *(sf_listed_run *const *)a, *right = *(sf_listed_run *const *)b;
    if (left->stored.number != right->stored.number) return left->stored.number < right->stored.number ? -1 : 1;
    return (left > right) - (left < right);
}

/* If a run is listed more than once, only the first counts as work. */
static sf_status drop_repeated(sf_session_state *state) {
    sf_listed_run **sorted;
    SF_TRY(SF_NEW(&sorted, state->count));
    for (size_t i = 0; i < state->count; i++) sorted[i] = &state->runs[i];
    qsort(sorted, state->count, sizeof *sorted, by_number);
    for (size_t i = 1; i < state->count; i++)
        if (sorted[i]->stored.number == sorted[i - 1]->stored.number) sorted[i]->progress = SF_RUN_OVER;
    sf_release(sorted);
    return SF_OK;
}

static sf_status enter_all(sf_session_state *state) {
    const size_t *places = state->session->places;
    const char *name = state->session->name != NULL ? state->session->name : "";
    SF_TRY(sf_label_check(SF_LABEL_NAME, name)); /* before a run is entered */
    for (size_t i = 0; i < state->count; i++) {
        state->runs[i].plan = &state->session->runs[i];
        state->order[i] = i;
        if (places != NULL && places[i] == 0) state->runs[i].progress = SF_RUN_OVER; /* another shard's */
    }
    SF_TRY(sf_session_refuse_foreign(state));
    for (size_t i = 0; i < state->count; i++) {
        sf_listed_run *run = &state->runs[i];
        const sf_planned_run *plan = run->plan;
        if (run->progress == SF_RUN_OVER) continue;
        SF_TRY(sf_store_enter_at(&run->stored, state->store, plan->id, plan->task, plan->attention, &plan->config,
                                 places != NULL ? places[i] : 0));
        if (*name != '\0') SF_TRY(sf_store_add_label(state->store, &run->stored, SF_LABEL_NAME, name));
    }
    return drop_repeated(state);
}

static double work_left(const sf_listed_run *run) {
    const sf_config *config = &run->plan->config;
    const double epochs = (double)config->epochs - (double)run->stored.checkpoint_epoch;
    sf_workload work = {0};
    sf_workload_add_run(&work, config, run->plan->attention, epochs > 0 ? epochs : 0);
    return work.flops;
}

typedef struct length {
    size_t index;
    double work;
} length;

static int by_length(const void *a, const void *b) {
    const length *left = a, *right = b;
    if (left->work != right->work) return left->work > right->work ? -1 : 1;
    return (left->index > right->index) - (left->index < right->index);
}

/* Without memory for it, they stay in the order of the list. */
static void sort_longest_first(sf_session_state *state) {
    length *lengths;
    if (SF_NEW(&lengths, state->count) != SF_OK) return;
    for (size_t i = 0; i < state->count; i++) lengths[i] = (length){i, work_left(&state->runs[i])};
    qsort(lengths, state->count, sizeof *lengths, by_length);
    for (size_t i = 0; i < state->count; i++) state->order[i] = lengths[i].index;
    sf_release(lengths);
}

static size_t count_open(const sf_session_state *state, const sf_backend *backend, bool unsatisfied) {
    size_t open = 0;
    for (size_t i = 0; i < state->count; i++) {
        bool satisfied = false;
        if (!sf_session_is_open_for(state, i, backend)) continue;
        open += !(unsatisfied && sf_session_is_satisfied(&satisfied, state, &state->runs[i]) == SF_OK && satisfied);
    }
    return open;
}

/* Trains every run that is open for the backend, with as many fleets side by side as the backend prefers. */
static sf_status train_on(sf_session_state *state, const sf_backend *backend, bool wait) {
    const size_t open = count_open(state, backend, true);
    const size_t fleets = backend->fleets(state->machine.threads, (open + sf_ranks_count() - 1) / sf_ranks_count());
    SF_TRY(sf_threads_start(fleets));
    state->workers = fleets > 1 ? fleets : 1;
    if (fleets <= 1) { /* outside of a parallel region, so that the model can use all threads */
        sf_session_work(state, backend, 1, wait);
        return SF_OK;
    }
#pragma omp parallel num_threads((int)fleets)
    sf_session_work(state, backend, fleets, wait);
    return SF_OK;
}

/* Other ranks have runs: they may finish them, or give them back. After a stop they have a moment to report. */
static bool others_work(sf_session_state *state, sf_clerk *clerk, double *stopped) {
    if (clerk == NULL || sf_clerk_under_way(clerk) == 0) return false;
    const double now = sf_clock_seconds();
    if (state->fatal == SF_OK && !sf_session_told_to_stop(state)) return true;
    if (*stopped == 0) *stopped = now;
    return now - *stopped < seconds_to_report;
}

/* First the runs that the machine's own backend takes, then those left to the CPU; repeats while runs that other
 * processes or ranks held become free. */
static sf_status train_all(sf_session_state *state, sf_clerk *clerk) {
    const sf_backend *own = state->machine.backend;
    double stopped = 0;
    for (;;) {
        const sf_backend *const order[] = {own, &sf_backend_cpu};
        for (size_t b = 0; b < (own == &sf_backend_cpu ? 1 : 2); b++) {
            const sf_backend *other = order[1 - b];
            const bool alone = other == order[b] || count_open(state, other, false) == 0;
            if (count_open(state, order[b], false) > 0) SF_TRY(train_on(state, order[b], alone));
        }
        const bool over = state->fatal != SF_OK || sf_session_told_to_stop(state) ||
                          count_open(state, own, false) + count_open(state, &sf_backend_cpu, false) == 0;
        if (over && !others_work(state, clerk, &stopped)) return SF_OK;
        nanosleep(&(struct timespec){.tv_nsec = clerk != NULL ? 10000000 : 100000000}, NULL);
    }
}

/* One run at a time, on all ranks. */
static sf_status train_together(sf_session_state *state) {
    SF_TRY(sf_job_share_model());
    sf_ranks_note_to(sf_session_note, state);
    const sf_status status = train_all(state, NULL);
    sf_ranks_note_to(NULL, NULL);
    sf_ranks_release();
    return status;
}

/* Over all ranks, if there are others; longest first then, so that no rank is left with a long run at the end. */
static sf_status train_on_ranks(sf_session_state *state) {
    sf_clerk *clerk;
    if (state->machine.backend->is_last) return train_together(state);
    SF_TRY(sf_job_clerk(&clerk));
    if (clerk == NULL) return train_all(state, NULL);
    sort_longest_first(state);
    SF_TRY(sf_clerk_open_session(clerk, state));
    const sf_status status = train_all(state, clerk);
    sf_clerk_close_session(clerk);
    return status;
}

static sf_status conclude(const sf_session_state *state) {
    size_t unfinished = 0, ours = 0;
    for (size_t i = 0; i < state->count; i++) {
        unfinished += state->runs[i].progress != SF_RUN_OVER || state->runs[i].interrupted;
        ours += state->session->places == NULL || state->session->places[i] > 0;
    }
    if (state->fatal != SF_OK) return sf_fail(state->fatal, "%s", state->fatal_message);
    if (unfinished > 0) return sf_fail(SF_INTERRUPTED, "stopped on request");
    if (state->left > 0)
        return sf_fail(SF_IO_ERROR, "%s; %zu run%s not finished%s: the same command continues from the checkpoints",
                       state->lost_reason, state->left, state->left == 1 ? " was" : "s were",
                       state->machine.backend->is_last ? ""
                       : state->left == 1              ? ", and only such a device computes its bits"
                                                       : ", and only such a device computes their bits");
    if (state->failed > 0)
        return sf_fail(SF_IO_ERROR, "%zu of %zu runs failed; the same command tries them again", state->failed, ours);
    return SF_OK;
}

static void pass_over_unknown_version(sf_session_state *state) {
    const sf_status status = sf_backend_check_version(state->machine.backend);
    if (status == SF_OK) return;
    sf_fail(status, "%s; runs are computed on the CPU instead", sf_message());
    sf_session_note(state, sf_message());
    state->machine.backend = &sf_backend_cpu;
}

sf_status sf_session_run_on(sf_store *store, const sf_session *session, const sf_machine *machine) {
    sf_session_state state = {.store = store,
                              .recorder = &sf_store_recorder,
                              .session = session,
                              .machine = *machine,
                              .count = session->count};
    if (session->count == 0) return SF_OK;
    state.machine.on_note = sf_session_note;
    state.machine.context = &state;
    state.threads = sf_threads_for(machine->threads);
    sf_execution_init(&state.execution);
    if (session->execution != NULL) state.execution = *session->execution;
    sf_status status = SF_NEW(&state.runs, session->count);
    if (status == SF_OK) status = SF_NEW(&state.order, session->count);
    sf_store_obey(store, session->stop);
    if (status == SF_OK) status = enter_all(&state);
    if (status == SF_OK) {
        pthread_mutex_init(&state.lock, NULL);
        sf_session_choose_backend(&state);
        pass_over_unknown_version(&state);
        status = train_on_ranks(&state);
        pthread_mutex_destroy(&state.lock);
    }
    if (status == SF_OK) status = conclude(&state);
    sf_release(state.notes);
    sf_release(state.order);
    sf_release(state.runs);
    return status;
}

sf_status sf_session_run(sf_store *store, const sf_session *session) {
    sf_machine machine = sf_machine_of(session->execution);
    if (sf_ranks_share_model(session->execution)) {
        SF_TRY(sf_ranks_device(&machine.device));
        machine.backend = sf_ranks_backend(session->stop, (double)session->execution->rank_timeout, machine.device);
    }
    return sf_session_run_on(store, session, &machine);
}
