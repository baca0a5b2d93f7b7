/* Runs of this process, recorded in its own store. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "store/claim.h"
#include "store/environment.h"
#include "study/recorder.h"
#include "study/run_records.h"

static bool take(size_t *index, int *claim, sf_session_state *session, const sf_wanted *wanted) {
    *index = 0;
    *claim = -1;
    pthread_mutex_lock(&session->lock);
    for (size_t i = 0; i < session->count && session->fatal == SF_OK && *claim < 0; i++) {
        const size_t next = session->order[i];
        if (sf_session_told_to_stop(session)) break;
        if (!sf_session_is_open_for(session, next, wanted->backend) ||
            !wanted->fits(wanted->worker, &session->runs[next]))
            continue;
        const sf_status status = sf_session_try_to_take(claim, session, next);
        if (status != SF_OK) sf_session_fail_all(session, status);
        *index = next;
    }
    pthread_mutex_unlock(&session->lock);
    return *claim >= 0;
}

static size_t count_open(sf_session_state *session, const sf_backend *backend) {
    size_t open = 0;
    pthread_mutex_lock(&session->lock);
    for (size_t i = 0; i < session->count; i++) open += sf_session_is_open_for(session, i, backend);
    pthread_mutex_unlock(&session->lock);
    return open;
}

/* Other processes hold runs, and one of them may become free. */
static bool wait_for_others(sf_session_state *session, const sf_wanted *wanted) {
    const bool open = count_open(session, wanted->backend) > 0;
    pthread_mutex_lock(&session->lock);
    const bool wait = open && session->fatal == SF_OK && !sf_session_told_to_stop(session);
    if (wait && !session->waiting_said) {
        session->waiting_said = true;
        sf_session_emit(session, (sf_event){.kind = SF_EVENT_WAITING});
    }
    pthread_mutex_unlock(&session->lock);
    if (wait) nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    return wait;
}

static void put_back(sf_session_state *session, size_t index, int claim, bool begun) {
    pthread_mutex_lock(&session->lock);
    if (session->lost && !session->runs[index].on_cpu)
        sf_session_leave_run(session, index, begun);
    else
        session->runs[index].progress = SF_RUN_OPEN;
    pthread_mutex_unlock(&session->lock);
    sf_claim_give_back(claim);
}

static void end(sf_session_state *session, size_t index, int claim, sf_status status, bool begun) {
    sf_session_end_run(session, index, status, begun);
    sf_claim_give_back(claim);
}

static sf_status look(sf_active_run *run) {
    return sf_record_look(&run->rows, &run->lost, run->session, run->index);
}

static sf_status begin(sf_active_run *run, const sf_run_place *place) {
    sf_continuation from;
    char *before, *environment = NULL;
    SF_TRY(sf_record_continuation(&from, &before, run->session, run->index));
    sf_status status = sf_run_state_continue(&run->state, &from);
    if (status == SF_OK) status = sf_active_run_environment(&environment, run, place, before);
    if (status == SF_OK)
        status = sf_record_begin(run->session, run->index, sf_active_run_variant(run, place), environment);
    free(environment);
    free(before);
    sf_continuation_close(&from);
    return status;
}

static sf_status measures(sf_active_run *run) {
    return sf_record_measures(run->session, run->index, run->measures.points, run->measures.count);
}

static sf_status row(sf_active_run *run, double seconds, size_t points) {
    return sf_record_row(run->session, run->index, &sf_run_state_member(&run->state)->result.last, seconds,
                         run->measures.points, points);
}

static sf_status checkpoint(sf_active_run *run) {
    sf_checkpoint_files files;
    SF_TRY(sf_run_state_collect(&files, &run->state));
    const sf_status status = sf_record_checkpoint(run->session, run->index, &files, &run->state.saved);
    if (status == SF_OK) run->state.saved = files.saved;
    sf_checkpoint_files_close(&files);
    return status;
}

static sf_status complete(sf_active_run *run, const sf_ending *ending) {
    return sf_record_complete(run->session, run->index, ending);
}

static sf_status restored(bool *again, sf_active_run *run) {
    return sf_record_restored(again, run->session, run->index);
}

static sf_status pause_run(sf_active_run *run) {
    return sf_record_pause(run->session, run->index);
}

const sf_recorder sf_store_recorder = {
    .take = take,
    .wait = wait_for_others,
    .count_open = count_open,
    .put_back = put_back,
    .end = end,
    .look = look,
    .begin = begin,
    .measures = measures,
    .row = row,
    .checkpoint = checkpoint,
    .complete = complete,
    .restored = restored,
    .pause = pause_run,
};
