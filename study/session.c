#include "semfocus/session.h"

#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "base/threads.h"
#include "study/session_run_on.h"
#include "study/session_state.h"

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
    for (size_t i = 0; i < state->count; i++) {
        sf_listed_run *run = &state->runs[i];
        const sf_planned_run *plan = run->plan = &state->session->runs[i];
        SF_TRY(sf_store_enter(&run->stored, state->store, plan->id, plan->task, plan->attention, &plan->config));
    }
    return drop_repeated(state);
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
    const size_t fleets = backend->fleets(state->machine.threads, count_open(state, backend, true));
    SF_TRY(sf_threads_start(fleets));
    if (fleets <= 1) { /* outside of a parallel region, so that the model can use all threads */
        sf_session_work(state, backend, 1, wait);
        return SF_OK;
    }
#pragma omp parallel num_threads((int)fleets)
    sf_session_work(state, backend, fleets, wait);
    return SF_OK;
}

/* First the runs that the machine's own backend takes, then those left to the CPU; repeats while runs that other
 * processes held become free. */
static sf_status train_all(sf_session_state *state) {
    const sf_backend *own = state->machine.backend;
    for (;;) {
        const sf_backend *const order[] = {own, &sf_backend_cpu};
        for (size_t b = 0; b < (own == &sf_backend_cpu ? 1 : 2); b++) {
            const sf_backend *other = order[1 - b];
            const bool alone = other == order[b] || count_open(state, other, false) == 0;
            if (count_open(state, order[b], false) > 0) SF_TRY(train_on(state, order[b], alone));
        }
        const bool over = state->fatal != SF_OK || sf_session_told_to_stop(state) ||
                          count_open(state, own, false) + count_open(state, &sf_backend_cpu, false) == 0;
        if (over) return SF_OK;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
}

static sf_status conclude(const sf_session_state *state) {
    size_t unfinished = 0;
    for (size_t i = 0; i < state->count; i++)
        unfinished += state->runs[i].progress != SF_RUN_OVER || state->runs[i].interrupted;
    if (state->fatal != SF_OK) return sf_fail(state->fatal, "%s", state->fatal_message);
    if (unfinished > 0) return sf_fail(SF_INTERRUPTED, "stopped on request");
    if (state->failed > 0)
        return sf_fail(SF_IO_ERROR, "%zu of %zu runs failed; the same command tries them again", state->failed,
                       state->count);
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
    sf_session_state state = {.store = store, .session = session, .machine = *machine, .count = session->count};
    if (session->count == 0) return SF_OK;
    state.machine.on_note = sf_session_note;
    state.machine.context = &state;
    state.machine.backend = sf_machine_backend(machine);
    state.threads = sf_threads_for(machine->threads);
    sf_execution_init(&state.execution);
    if (session->execution != NULL) state.execution = *session->execution;
    SF_TRY(SF_NEW(&state.runs, session->count));
    sf_store_obey(store, session->stop);
    sf_status status = enter_all(&state);
    if (status == SF_OK) {
        pthread_mutex_init(&state.lock, NULL);
        pass_over_unknown_version(&state);
        status = train_all(&state);
        pthread_mutex_destroy(&state.lock);
    }
    if (status == SF_OK) status = conclude(&state);
    sf_release(state.notes);
    sf_release(state.runs);
    return status;
}

sf_status sf_session_run(sf_store *store, const sf_session *session) {
    const sf_machine machine = sf_machine_of(session->execution);
    return sf_session_run_on(store, session, &machine);
}
