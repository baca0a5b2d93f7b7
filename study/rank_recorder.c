/* Runs that rank 0 dealt to this rank, recorded by telling rank 0. Nothing here waits for it but a worker without a
 * run. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "ranks/post.h"
#include "store/environment.h"
#include "store/identity.h"
#include "study/rank_worker.h"
#include "study/recorder.h"
#include "train/numerics.h"

static const double patience = 0.2; /* seconds that a worker with other runs waits for an answer */

static sf_held_run *held_by(const sf_active_run *run) {
    return &sf_rank_worker_of(run->session)->held[run->index];
}

static sf_status send(sf_coder *message) {
    return sf_post_send(0, message);
}

/* Whether the run is still this rank's. */
static sf_status check_ours(const sf_active_run *run) {
    if (!held_by(run)->dropped) return SF_OK;
    return sf_fail(SF_IO_ERROR, "run %s was given to another rank", held_by(run)->plan.id);
}

/* Asking for runs */

static sf_asking *asking_of(sf_rank_worker *self, const void *worker) {
    for (size_t i = 0; i < self->asking_count; i++)
        if (self->asking[i].worker == worker) return &self->asking[i];
    if (self->asking_count == self->asking_room) return NULL;
    self->asking[self->asking_count] = (sf_asking){.worker = worker};
    return &self->asking[self->asking_count++];
}

static uint64_t precisions_of(const sf_backend *backend) {
    uint64_t bits = 0;
    for (int precision = SF_F32; precision <= SF_TF32; precision++) {
        sf_config config;
        sf_config_init(&config);
        config.precision = precision;
        if (sf_backend_computes(backend, &config)) bits |= UINT64_C(1) << precision;
    }
    return bits;
}

static void ask(const sf_rank_worker *self, const sf_asking *asking, const sf_wanted *wanted) {
    const bool cpu = wanted->backend == &sf_backend_cpu;
    sf_ask_message asks = {.session = self->opened.session,
                           .worker = (uint64_t)(asking - self->asking),
                           .for_cpu = cpu,
                           .for_rest = cpu && self->state.machine.backend != &sf_backend_cpu,
                           .has_like = wanted->like != NULL,
                           .precisions = precisions_of(wanted->backend)};
    if (wanted->like != NULL) asks.like = *wanted->like;
    if (!cpu) snprintf(asks.architecture, sizeof asks.architecture, "%s", wanted->backend->variant(SF_F32));
    sf_coder message = sf_message_write(SF_ASK);
    sf_code_ask(&message, &asks);
    (void)send(&message);
}

/* Until something changes, but no longer than this. The caller holds the lock. */
static bool wait_for_change(sf_rank_worker *self, const struct timespec *until) {
    return pthread_cond_timedwait(&self->changed, &self->lock, until) != ETIMEDOUT;
}

static struct timespec after(double seconds) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    const double fraction = (double)until.tv_nsec * 1e-9 + seconds;
    until.tv_sec += (time_t)fraction;
    until.tv_nsec = (long)((fraction - (double)(time_t)fraction) * 1e9);
    return until;
}

static bool is_answered(const sf_rank_worker *self, const sf_asking *asking) {
    return asking->has_run || asking->answered || sf_rank_worker_is_closing(self);
}

static void give_back(sf_session_state *session, size_t index, bool begun, bool left);

static bool take(size_t *index, int *claim, sf_session_state *session, const sf_wanted *wanted) {
    sf_rank_worker *self = sf_rank_worker_of(session);
    *claim = -1;
    pthread_mutex_lock(&self->lock);
    sf_asking *asking = asking_of(self, wanted->worker);
    bool taken = false;
    if (asking != NULL && !sf_rank_worker_is_closing(self) && !sf_session_told_to_stop(session)) {
        if (!asking->has_run && (!asking->asked || asking->like != (wanted->like != NULL))) {
            *asking = (sf_asking){.worker = wanted->worker, .asked = true, .like = wanted->like != NULL};
            ask(self, asking, wanted);
        }
        const struct timespec until = after(wanted->like != NULL ? patience : 3600);
        while (!is_answered(self, asking) && wait_for_change(self, &until)) continue;
        taken = asking->has_run;
        *index = asking->run;
        if (taken) *asking = (sf_asking){.worker = wanted->worker};
    }
    pthread_mutex_unlock(&self->lock);
    if (!taken) return false;
    if (wanted->fits(wanted->worker, &session->runs[*index])) return true;
    give_back(session, *index, false, false);
    return false;
}

/* A run that becomes open is sent to those who asked. */
static bool wait_for_run(sf_session_state *session, const sf_wanted *wanted) {
    sf_rank_worker *self = sf_rank_worker_of(session);
    pthread_mutex_lock(&self->lock);
    const sf_asking *asking = asking_of(self, wanted->worker);
    const struct timespec until = after(1);
    while (asking != NULL && !asking->has_run && !sf_rank_worker_is_closing(self) && wait_for_change(self, &until))
        continue;
    const bool more = asking != NULL && !sf_rank_worker_is_closing(self);
    pthread_mutex_unlock(&self->lock);
    return more;
}

static size_t count_open(sf_session_state *session, const sf_backend *backend) {
    sf_rank_worker *self = sf_rank_worker_of(session);
    (void)backend;
    pthread_mutex_lock(&self->lock);
    const size_t open = (size_t)self->open;
    pthread_mutex_unlock(&self->lock);
    return open;
}

/* Ending */

static void forget(sf_rank_worker *self, size_t index) {
    sf_held_run *held = &self->held[index];
    pthread_mutex_lock(&self->lock);
    sf_continuation_close(&held->from);
    sf_release(held->lost);
    free(held->task);
    free(held->environment);
    *held = (sf_held_run){0};
    pthread_mutex_unlock(&self->lock);
}

static void tell_end(sf_session_state *session, size_t index, sf_message_kind kind, sf_ended_message *ended) {
    sf_rank_worker *self = sf_rank_worker_of(session);
    sf_held_run *held = &self->held[index];
    ended->ref = held->ref;
    session->runs[index].progress = SF_RUN_OVER;
    if (!held->dropped) {
        sf_coder message = sf_message_write(kind);
        sf_code_ended(&message, ended);
        (void)send(&message);
    }
    forget(self, index);
}

static void give_back(sf_session_state *session, size_t index, bool begun, bool left) {
    sf_ended_message ended = {.begun = begun,
                              .on_cpu = session->runs[index].on_cpu,
                              .left = left,
                              .message = left ? session->lost_reason : NULL};
    tell_end(session, index, SF_PUT_BACK, &ended);
}

static void put_back(sf_session_state *session, size_t index, int claim, bool begun) {
    (void)claim;
    give_back(session, index, begun, session->lost && !session->runs[index].on_cpu);
}

static void end(sf_session_state *session, size_t index, int claim, sf_status status, bool begun) {
    char message[SF_RUN_MESSAGE_SIZE];
    (void)claim;
    snprintf(message, sizeof message, "%s", sf_message());
    sf_ended_message ended = {.status = status, .begun = begun, .message = status != SF_OK ? message : NULL};
    tell_end(session, index, SF_ENDED, &ended);
}

/* The steps of a run */

/* Files and plug-ins are this machine's own, and may not be what rank 0 has. */
static sf_status check_same_run(const sf_held_run *held) {
    sf_run_ids ids;
    char host[64] = "";
    SF_TRY(sf_run_identify_both(&ids, &held->plan.config, held->plan.task));
    if (strcmp(ids.id, held->plan.id) == 0) return SF_OK;
    (void)gethostname(host, sizeof host - 1);
    return sf_fail(SF_BAD_INPUT,
                   "its data file or plug-in on %s is not the one that rank 0 has; give all machines the same files",
                   host);
}

static sf_status look(sf_active_run *run) {
    sf_held_run *held = held_by(run);
    SF_TRY(check_same_run(held));
    run->rows = held->lost;
    run->lost = held->lost_count;
    held->lost = NULL;
    run->saving_elsewhere = held->saving;
    return SF_OK;
}

static sf_status begin(sf_active_run *run, const sf_run_place *place) {
    sf_held_run *held = held_by(run);
    char *environment;
    SF_TRY(check_ours(run));
    SF_TRY(sf_run_state_continue(&run->state, &held->from));
    SF_TRY(sf_active_run_environment(&environment, run, place, held->environment));
    sf_begun_message begun = {.ref = held->ref,
                              .isa = sf_active_run_variant(run, place),
                              .environment = environment,
                              .last = sf_run_state_member(&run->state)->result.last};
    sf_coder message = sf_message_write(SF_BEGUN);
    sf_code_begun(&message, &begun);
    free(environment);
    return send(&message);
}

static sf_status tell_row(sf_active_run *run, sf_message_kind kind, double seconds, size_t points) {
    sf_row_message row = {.ref = held_by(run)->ref,
                          .row = sf_run_state_member(&run->state)->result.last,
                          .seconds = seconds,
                          .points = run->measures.points,
                          .point_count = points};
    SF_TRY(check_ours(run));
    sf_coder message = sf_message_write(kind);
    sf_code_row(&message, &row);
    return send(&message);
}

static sf_status measures(sf_active_run *run) {
    return tell_row(run, SF_MEASURED, 0, run->measures.count);
}

static sf_status row(sf_active_run *run, double seconds, size_t points) {
    return tell_row(run, SF_ROW, seconds, points);
}

static sf_status checkpoint(sf_active_run *run) {
    sf_checkpoint_files files;
    SF_TRY(check_ours(run));
    SF_TRY(sf_run_state_collect(&files, &run->state));
    sf_checkpoint_message sent = {.ref = held_by(run)->ref,
                                  .saved = files.saved,
                                  .last = files.last,
                                  .last_size = files.last_size,
                                  .best = files.best,
                                  .best_size = files.best_size};
    sf_coder message = sf_message_write(SF_CHECKPOINT);
    sf_code_checkpoint(&message, &sent);
    const sf_status status = send(&message);
    if (status == SF_OK) run->state.saved = files.saved;
    sf_checkpoint_files_close(&files);
    return status;
}

static sf_status complete(sf_active_run *run, const sf_ending *ending) {
    sf_completed_message completed = {.ref = held_by(run)->ref,
                                      .diverged = strcmp(ending->status, "diverged") == 0,
                                      .diverged_epoch = ending->diverged_epoch,
                                      .diverged_step = ending->diverged_step};
    SF_TRY(check_ours(run));
    sf_coder message = sf_message_write(SF_COMPLETED);
    sf_code_completed(&message, &completed);
    return send(&message);
}

static sf_status tell_ref(sf_active_run *run, sf_message_kind kind) {
    SF_TRY(check_ours(run));
    sf_coder message = sf_message_write(kind);
    sf_code_ref(&message, &held_by(run)->ref);
    return send(&message);
}

/* If the run continues, rank 0 deals it anew. */
static sf_status restored(bool *again, sf_active_run *run) {
    *again = false;
    return tell_ref(run, SF_RESTORED);
}

static sf_status pause_run(sf_active_run *run) {
    return tell_ref(run, SF_PAUSED);
}

const sf_recorder sf_rank_recorder = {
    .take = take,
    .wait = wait_for_run,
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
