/* A session whose runs are trained by ranks that exist only as messages: for the test and the benchmark of the clerk.
 */
#ifndef SF_TESTS_SIMULATED_RANKS_H
#define SF_TESTS_SIMULATED_RANKS_H

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "study/clerk.h"
#include "study/recorder.h"

typedef struct simulated_rank {
    bool has_run;
    sf_dealt_message run; /* what it was dealt last; its pointers are not valid */
    size_t none, dropped, invited, stopped;
} simulated_rank;

typedef struct simulation {
    sf_store *store;
    sf_planned_run *plans; /* [runs] */
    sf_session session;
    sf_session_state state;
    sf_clerk *clerk;
    simulated_rank *ranks; /* [count], from 1 */
    size_t count;
    size_t notes;
    char note[512];
} simulation;

static inline simulated_rank *simulation_rank(const simulation *s, size_t rank) {
    assert(s->ranks != NULL && rank < s->count);
    return &s->ranks[rank];
}

static inline sf_status simulated_send(void *context, size_t to, sf_coder *message) {
    simulation *s = context;
    simulated_rank *rank = simulation_rank(s, to);
    sf_coder coder = sf_coder_reading(message->bytes, message->size);
    const sf_message_kind kind = sf_message_read(&coder);
    if (kind == SF_RUN_DEALT) {
        sf_code_dealt(&coder, &rank->run);
        rank->has_run = !coder.failed;
    }
    rank->none += kind == SF_NO_RUN;
    rank->dropped += kind == SF_DROP_RUN;
    rank->invited += kind == SF_SESSION_OPENS;
    rank->stopped += kind == SF_STOP_RUNS;
    sf_release(message->bytes);
    *message = (sf_coder){0};
    return SF_OK;
}

static inline void simulated_event(void *context, const sf_event *event) {
    simulation *s = context;
    if (event->kind != SF_EVENT_NOTE && event->kind != SF_EVENT_FAILED) return;
    s->notes++;
    snprintf(s->note, sizeof s->note, "%s", event->message);
}

/* `runs` runs of even-pairs that differ in their seeds, and `ranks` ranks besides rank 0. */
static inline sf_status simulation_open(simulation *s, const char *folder, size_t runs, size_t ranks) {
    *s = (simulation){.count = ranks + 1};
    SF_TRY(sf_store_open(&s->store, folder, SF_STORE_WRITE));
    SF_TRY(SF_NEW(&s->plans, runs));
    SF_TRY(SF_NEW(&s->ranks, s->count));
    s->session = (sf_session){.runs = s->plans, .count = runs, .on_event = simulated_event, .context = s};
    s->state =
        (sf_session_state){.store = s->store, .recorder = &sf_store_recorder, .session = &s->session, .count = runs};
    s->state.machine.backend = &sf_backend_cpu;
    sf_execution_init(&s->state.execution);
    pthread_mutex_init(&s->state.lock, NULL);
    SF_TRY(SF_NEW(&s->state.runs, runs));
    SF_TRY(SF_NEW(&s->state.order, runs));
    for (size_t i = 0; i < runs; i++) {
        assert(s->plans != NULL && s->state.runs != NULL && s->state.order != NULL);
        sf_planned_run *plan = &s->plans[i];
        plan->task = "even-pairs";
        sf_config_init(&plan->config);
        plan->config.seed = (int64_t)i;
        SF_TRY(sf_run_identify(plan->id, plan->attention, &plan->config, plan->task));
        s->state.runs[i].plan = plan;
        s->state.order[i] = i;
        SF_TRY(
            sf_store_enter(&s->state.runs[i].stored, s->store, plan->id, plan->task, plan->attention, &plan->config));
    }
    SF_TRY(sf_clerk_create(&s->clerk, s->count, &(sf_outbox){.send = simulated_send, .context = s}));
    return sf_clerk_open_session(s->clerk, &s->state);
}

static inline void simulation_close(simulation *s) {
    sf_clerk_close_session(s->clerk);
    sf_clerk_destroy(s->clerk);
    pthread_mutex_destroy(&s->state.lock);
    sf_release(s->state.notes);
    sf_release(s->state.order);
    sf_release(s->state.runs);
    sf_release(s->ranks);
    sf_release(s->plans);
    sf_store_close(s->store);
}

/* What a rank says. */
static inline void simulation_say(simulation *s, size_t from, sf_coder *message) {
    sf_clerk_receive(s->clerk, from, message->bytes, message->size);
    sf_release(message->bytes);
    *message = (sf_coder){0};
}

static inline void simulation_hello(simulation *s, size_t rank) {
    sf_hello_message hello = {.program = sf_clerk_program(), .host = "simulated", .threads = 1};
    sf_coder message = sf_message_write(SF_HELLO);
    sf_code_hello(&message, &hello);
    simulation_say(s, rank, &message);
}

static inline void simulation_ask(simulation *s, size_t rank) {
    sf_ask_message ask = {.session = 1, .for_cpu = true, .precisions = 1};
    sf_coder message = sf_message_write(SF_ASK);
    sf_code_ask(&message, &ask);
    simulation_say(s, rank, &message);
}

static inline void simulation_begin(simulation *s, size_t rank) {
    sf_begun_message begun = {.ref = simulation_rank(s, rank)->run.ref, .isa = "avx2", .environment = "{}"};
    sf_coder message = sf_message_write(SF_BEGUN);
    sf_code_begun(&message, &begun);
    simulation_say(s, rank, &message);
}

/* Any numbers that a run could have. */
static inline sf_epoch simulated_row(size_t run, size_t epoch) {
    return (sf_epoch){.epoch = epoch,
                      .train_loss = 1.0 / (double)(epoch + run + 1),
                      .train_accuracy = (double)(run % 90) + 0.01 * (double)epoch,
                      .heldout_loss = 2.0 / (double)(epoch + run + 1),
                      .heldout_accuracy = (double)(run % 80),
                      .seconds = 1};
}

static inline void simulation_row(simulation *s, size_t rank, size_t epoch) {
    const sf_run_ref ref = simulation_rank(s, rank)->run.ref;
    sf_row_message row = {.ref = ref, .row = simulated_row((size_t)ref.index, epoch), .seconds = 1};
    sf_coder message = sf_message_write(SF_ROW);
    sf_code_row(&message, &row);
    simulation_say(s, rank, &message);
}

static inline void simulation_checkpoint(simulation *s, size_t rank, size_t epoch, const void *file, size_t size) {
    sf_checkpoint_message sent = {
        .ref = simulation_rank(s, rank)->run.ref,
        .saved = {.epoch = epoch, .best_epoch = 1, .hash = 1, .best_hash = 1, .weights_hash = 1},
        .last = file,
        .last_size = size,
        .best = file,
        .best_size = size};
    sf_coder message = sf_message_write(SF_CHECKPOINT);
    sf_code_checkpoint(&message, &sent);
    simulation_say(s, rank, &message);
}

static inline void simulation_complete(simulation *s, size_t rank) {
    sf_completed_message completed = {.ref = simulation_rank(s, rank)->run.ref};
    sf_coder message = sf_message_write(SF_COMPLETED);
    sf_code_completed(&message, &completed);
    simulation_say(s, rank, &message);
    sf_ended_message ended = {.ref = simulation_rank(s, rank)->run.ref, .begun = true};
    message = sf_message_write(SF_ENDED);
    sf_code_ended(&message, &ended);
    simulation_say(s, rank, &message);
    simulation_rank(s, rank)->has_run = false;
}

#endif
