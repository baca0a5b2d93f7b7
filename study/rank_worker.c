#include "study/rank_worker.h"

#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/sizes.h"
#include "base/threads.h"
#include "ranks/post.h"
#include "semfocus/ranks.h"
#include "study/clerk.h"
#include "study/recorder.h"
#include "train/ranks_backend.h"

enum { MOST_IN_A_FLEET = 512 };           /* of a GPU */
static const double report_seconds = 1;   /* between two signs of life */
static const double farewell_seconds = 5; /* that messages may take to leave at the end */

static void send(sf_coder *message) {
    (void)sf_post_send(0, message);
}

static void say_hello(void) {
    char host[64] = "";
    (void)gethostname(host, sizeof host - 1);
    sf_hello_message hello = {.program = sf_clerk_program(), .host = host, .threads = (uint64_t)sf_threads_for(0)};
    sf_coder message = sf_message_write(SF_HELLO);
    sf_code_hello(&message, &hello);
    send(&message);
}

static void send_text(sf_message_kind kind, const char *text) {
    sf_coder message = sf_message_write(kind);
    sf_code_text(&message, &text);
    send(&message);
}

/* Messages from rank 0; the lock is held. */

/* What lies in a message is gone after it. */
static sf_status keep(sf_held_run *held, const sf_dealt_message *dealt) {
    held->plan = dealt->plan;
    held->task = strdup(dealt->plan.task);
    held->plan.task = held->task;
    if (held->task == NULL) return sf_fail(SF_NO_MEMORY, "no memory left for run %s", dealt->plan.id);
    if (dealt->environment != NULL) held->environment = strdup(dealt->environment);
    held->from =
        (sf_continuation){.last = dealt->last, .best = dealt->best, .converged_epoch = (size_t)dealt->converged_epoch};
    if (dealt->checkpoint != NULL)
        SF_TRY(sf_safetensors_parse(&held->from.checkpoint, dealt->checkpoint, dealt->checkpoint_size));
    if (dealt->lost == NULL) return SF_OK;
    held->lost_count = dealt->lost_count;
    SF_TRY(SF_NEW(&held->lost, dealt->lost_count));
    memcpy(held->lost, dealt->lost, dealt->lost_count * sizeof *held->lost);
    return SF_OK;
}

static sf_held_run *find_free(const sf_rank_worker *self) {
    for (size_t i = 0; i < self->capacity; i++)
        if (!self->held[i].used) return &self->held[i];
    return NULL;
}

/* Without room for it, silence about it makes rank 0 deal it again. */
static void accept_run(sf_rank_worker *self, sf_coder *message) {
    sf_dealt_message dealt;
    sf_held_run *held = find_free(self);
    sf_code_dealt(message, &dealt);
    if (message->failed || held == NULL || dealt.plan.task == NULL || dealt.worker >= self->asking_count) return;
    const size_t index = (size_t)(held - self->held);
    *held = (sf_held_run){.used = true, .ref = dealt.ref, .saving = dealt.saving};
    if (keep(held, &dealt) != SF_OK) {
        sf_ended_message ended = {.ref = dealt.ref, .status = SF_NO_MEMORY, .message = sf_message()};
        sf_coder reply = sf_message_write(SF_ENDED);
        sf_code_ended(&reply, &ended);
        send(&reply);
        held->used = false;
        return;
    }
    self->state.runs[index] = (sf_listed_run){.plan = &held->plan, .stored = dealt.stored, .progress = SF_RUN_TAKEN};
    self->open = dealt.open;
    sf_asking *asking = &self->asking[dealt.worker];
    asking->has_run = true;
    asking->run = index;
}

static void note_answer(sf_rank_worker *self, sf_coder *message) {
    sf_no_run_message none;
    sf_code_no_run(message, &none);
    if (!message->failed && none.worker < self->asking_count) self->asking[none.worker].answered = true;
}

static void drop_run(sf_rank_worker *self, sf_coder *message) {
    sf_run_ref ref;
    sf_code_ref(message, &ref);
    for (size_t i = 0; i < self->capacity; i++)
        if (self->held[i].used && self->held[i].ref.ticket == ref.ticket) self->held[i].dropped = true;
}

static void open_session(sf_rank_worker *self, sf_coder *message) {
    sf_code_session(message, &self->opened);
    self->pending = !message->failed;
    self->pending_stop = false;
}

static void stop_runs(sf_rank_worker *self) {
    if (self->pending)
        self->pending_stop = true;
    else
        atomic_store(&self->stop, 1);
}

static void on_message(void *context, size_t from, const unsigned char *bytes, size_t size) {
    sf_rank_worker *self = context;
    sf_coder message = sf_coder_reading(bytes, size);
    const sf_message_kind kind = sf_message_read(&message);
    (void)from;
    pthread_mutex_lock(&self->lock);
    if (kind == SF_SESSION_OPENS) open_session(self, &message);
    if (kind == SF_RUN_DEALT) accept_run(self, &message);
    if (kind == SF_NO_RUN) note_answer(self, &message);
    if (kind == SF_DROP_RUN) drop_run(self, &message);
    if (kind == SF_STOP_RUNS || kind == SF_DISMISS) stop_runs(self);
    if (kind == SF_SESSION_CLOSES) self->closed = self->opened.session;
    if (kind == SF_DISMISS) self->dismissed = true;
    if (kind == SF_SHARE_MODEL) self->shares_model = true;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
}

/* A sign of life, with the steps of the runs. */
static void on_tick(void *context) {
    sf_rank_worker *self = context;
    const double now = sf_clock_seconds();
    sf_step *steps;
    if (now - self->reported < report_seconds || SF_NEW(&steps, self->capacity) != SF_OK) return;
    self->reported = now;
    sf_alive_message alive = {.steps = steps};
    pthread_mutex_lock(&self->lock);
    for (size_t i = 0; i < self->capacity; i++) {
        const sf_held_run *held = &self->held[i];
        if (!held->used || held->steps == 0) continue;
        steps[alive.step_count++] = (sf_step){.ref = held->ref, .step = held->step, .steps = held->steps};
    }
    pthread_mutex_unlock(&self->lock);
    sf_coder message = sf_message_write(SF_ALIVE);
    sf_code_alive(&message, &alive);
    sf_release(steps);
    send(&message);
}

/* What the workers of this rank would show a user. */
static void on_event(void *context, const sf_event *event) {
    sf_rank_worker *self = context;
    if (event->kind == SF_EVENT_NOTE) send_text(SF_NOTE, event->message);
    if (event->kind != SF_EVENT_STEP) return;
    pthread_mutex_lock(&self->lock);
    self->held[event->run].step = event->step;
    self->held[event->run].steps = event->steps;
    pthread_mutex_unlock(&self->lock);
}

/* Sessions */

static void prepare_session(sf_rank_worker *self, const sf_session_message *opened, bool stop) {
    sf_session_state *state = &self->state;
    sf_execution_init(&state->execution);
    state->execution.checkpoint_seconds = opened->checkpoint_seconds;
    state->execution.measure_every = opened->measure_every;
    state->execution.threads = opened->threads;
    state->threads = sf_threads_for((size_t)opened->threads);
    state->machine = (sf_machine){.threads = (size_t)state->threads, .on_note = sf_session_note, .context = state};
    const bool gpu = opened->device == SF_CUDA && sf_backend_cuda.check(SF_F32) == SF_OK;
    state->machine.backend = gpu ? &sf_backend_cuda : &sf_backend_cpu;
    state->lost = false;
    self->asking_count = 0;
    atomic_store(&self->stop, stop);
}

/* The CPU takes what the GPU leaves to it. */
static void work_on_gpu(sf_rank_worker *self) {
    sf_session_state *state = &self->state;
    const size_t gpus = state->machine.backend->fleets(state->machine.threads, SIZE_MAX);
    const size_t cpus = (size_t)state->threads;
    state->workers = gpus;
    if (sf_threads_start(gpus + cpus) != SF_OK) return;
#pragma omp parallel num_threads((int)(gpus + cpus))
    {
        const bool gpu = (size_t)omp_get_thread_num() < gpus;
        sf_session_work(state, gpu ? state->machine.backend : &sf_backend_cpu, gpu ? gpus : cpus, true);
    }
}

static void work_on_cpu(sf_rank_worker *self, size_t share) {
    sf_session_state *state = &self->state;
    const size_t fleets = sf_backend_cpu.fleets(state->machine.threads, sf_larger(1, share));
    state->workers = fleets;
    if (sf_threads_start(fleets) != SF_OK) return;
    if (fleets <= 1) { /* outside of a parallel region, so that the model can use all threads */
        sf_session_work(state, &sf_backend_cpu, 1, true);
        return;
    }
#pragma omp parallel num_threads((int)fleets)
    sf_session_work(state, &sf_backend_cpu, fleets, true);
}

/* While the lock is not held: rank 0 and all others train one model. */
static void share_model(sf_rank_worker *self) {
    self->shares_model = false;
    pthread_mutex_unlock(&self->lock);
    sf_ranks_follow();
    pthread_mutex_lock(&self->lock);
}

static bool wait_for_session(sf_session_message *opened, bool *stop, sf_rank_worker *self) {
    pthread_mutex_lock(&self->lock);
    while (!self->pending && !self->dismissed) {
        if (self->shares_model)
            share_model(self);
        else
            pthread_cond_wait(&self->changed, &self->lock);
    }
    const bool opens = !self->dismissed;
    *opened = self->opened;
    *stop = self->pending_stop;
    if (opens) prepare_session(self, opened, *stop);
    self->pending = false;
    pthread_mutex_unlock(&self->lock);
    return opens;
}

static sf_status open_worker(sf_rank_worker *self) {
    self->state.recorder = &sf_rank_recorder;
    self->state.session = &self->session;
    self->session = (sf_session){.stop = &self->stop, .on_event = on_event, .context = self};
    self->asking_room = MOST_IN_A_FLEET + (size_t)sf_threads_for(0);
    self->capacity = self->state.count = 2 * self->asking_room;
    pthread_mutex_init(&self->state.lock, NULL);
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->changed, NULL);
    SF_TRY(SF_NEW(&self->asking, self->asking_room));
    SF_TRY(SF_NEW(&self->held, self->capacity));
    SF_TRY(SF_NEW(&self->state.runs, self->capacity));
    for (size_t i = 0; i < self->capacity; i++)
        self->state.runs[i] = (sf_listed_run){.plan = &self->held[i].plan, .progress = SF_RUN_OVER};
    return SF_OK;
}

static void close_worker(sf_rank_worker *self) {
    sf_release(self->state.notes);
    sf_release(self->state.runs);
    sf_release(self->held);
    sf_release(self->asking);
    sf_release(self);
}

/* Rank 0 decides when to end: a signal that all ranks get must not end this one before it has reported. */
static void leave_signals_to_rank_0(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], SIG_IGN);
}

sf_status sf_ranks_work(const char *unable) {
    sf_rank_worker *self;
    sf_session_message opened;
    bool stop;
    SF_TRY(SF_NEW(&self, 1));
    leave_signals_to_rank_0();
    sf_status status = open_worker(self);
    if (status == SF_OK)
        status = sf_post_open(&(sf_listener){.on_message = on_message, .on_tick = on_tick, .context = self});
    if (status == SF_OK) {
        if (unable == NULL)
            say_hello();
        else
            send_text(SF_UNABLE, unable);
        while (wait_for_session(&opened, &stop, self)) {
            if (self->state.machine.backend == &sf_backend_cpu)
                work_on_cpu(self, (size_t)opened.share);
            else
                work_on_gpu(self);
        }
        sf_coder message = sf_message_write(SF_LEAVES);
        send(&message);
        sf_post_close(farewell_seconds);
    }
    close_worker(self);
    return status;
}
