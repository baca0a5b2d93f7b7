#include "study/session_state.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/stop.h"
#include "store/claim.h"

bool sf_session_told_to_stop(const sf_session_state *state) {
    return sf_stop_asked(state->session->stop);
}

void sf_session_emit(const sf_session_state *state, sf_event event) {
    if (state->session->on_event == NULL) return;
    event.id = state->runs[event.run].plan->id;
    state->session->on_event(state->session->context, &event);
}

void sf_session_announce(sf_session_state *state, sf_event event) {
    pthread_mutex_lock(&state->lock);
    sf_session_emit(state, event);
    pthread_mutex_unlock(&state->lock);
}

/* Without memory to remember it, a sentence may be repeated. */
static bool is_new(sf_session_state *state, const char *sentence) {
    const uint64_t hash = sf_hash(SF_HASH_START, sentence, strlen(sentence));
    for (size_t i = 0; i < state->note_count; i++)
        if (state->notes[i] == hash) return false;
    if (state->note_count == state->note_room) {
        const size_t room = 2 * state->note_room + 8;
        if (SF_GROW(&state->notes, state->note_count, room) != SF_OK) return true;
        state->note_room = room;
    }
    state->notes[state->note_count++] = hash;
    return true;
}

void sf_session_note(void *opaque, const char *sentence) {
    sf_session_state *state = opaque;
    char text[SF_RUN_MESSAGE_SIZE]; /* the sentence may be the message of this thread, which others overwrite */
    snprintf(text, sizeof text, "%s", sentence);
    pthread_mutex_lock(&state->lock);
    if (is_new(state, text)) sf_session_emit(state, (sf_event){.kind = SF_EVENT_NOTE, .message = text});
    pthread_mutex_unlock(&state->lock);
}

/* A failure of the store is that of all runs: one sentence, and the same command continues them. */
static bool is_the_stores(sf_session_state *state, sf_status failure) {
    if (failure != SF_IO_ERROR) return false;
    const sf_status status = sf_store_check_room(state->store);
    if (status != SF_OK) sf_session_fail_all(state, status);
    return status != SF_OK;
}

void sf_session_end_run(sf_session_state *state, size_t index, sf_status status, bool begun) {
    sf_listed_run *run = &state->runs[index];
    char message[SF_RUN_MESSAGE_SIZE];
    snprintf(message, sizeof message, "%s", sf_message());
    pthread_mutex_lock(&state->lock);
    run->progress = SF_RUN_OVER;
    if (status == SF_OK) {
        sf_session_emit(state, (sf_event){.kind = SF_EVENT_FINISHED, .run = index});
    } else if (status == SF_INTERRUPTED || is_the_stores(state, status)) {
        run->interrupted = true;
        sf_session_emit(state, (sf_event){.kind = SF_EVENT_STOPPED, .run = index});
    } else {
        state->failed++;
        /* A run that was refused before it began stays as it was. Where the store cannot be written either, the run
         * stays unfinished, and the next command continues it. */
        if (begun)
            (void)sf_store_finish(state->store, &run->stored, &(sf_ending){.status = "failed", .message = message});
        sf_session_emit(state, (sf_event){.kind = SF_EVENT_FAILED, .run = index, .message = message});
    }
    pthread_mutex_unlock(&state->lock);
}

void sf_session_fail_all(sf_session_state *state, sf_status status) {
    if (state->fatal != SF_OK) return;
    state->fatal = status;
    snprintf(state->fatal_message, sizeof state->fatal_message, "%s", sf_message());
}

void sf_session_leave_run(sf_session_state *state, size_t index, bool begun) {
    sf_listed_run *run = &state->runs[index];
    run->progress = SF_RUN_OVER;
    state->left++;
    if (begun) (void)sf_store_finish(state->store, &run->stored, &(sf_ending){.status = "pending"});
}

bool sf_session_is_open_for(const sf_session_state *state, size_t index, const sf_backend *backend) {
    const sf_listed_run *run = &state->runs[index];
    if (run->progress != SF_RUN_OPEN) return false; /* only the worker that took it knows the rest */
    return backend == (run->on_cpu ? &sf_backend_cpu : state->machine.backend);
}

sf_status sf_session_is_satisfied(bool *out, const sf_session_state *state, const sf_listed_run *run) {
    bool gone;
    *out = false;
    if (sf_store_look_for_files(&gone, state->store, &run->stored) != SF_OK) return SF_OK;
    return sf_store_satisfies(out, state->store, &run->stored, &run->plan->config);
}

static bool needs_tidying(const sf_stored_run *run) {
    return run->epochs > run->checkpoint_epoch ||
           (strcmp(run->status, "done") != 0 && strcmp(run->status, "diverged") != 0);
}

sf_status sf_session_tidy(sf_session_state *state, const sf_listed_run *run) {
    const sf_stored_run *stored = &run->stored;
    if (!needs_tidying(stored)) return SF_OK;
    const bool diverged = strcmp(stored->status, "diverged") == 0;
    const sf_ending ending = {.status = diverged ? "diverged" : "done",
                              .diverged_epoch = stored->diverged_epoch,
                              .diverged_step = stored->diverged_step};
    SF_TRY(sf_store_complete(state->store, stored, &run->plan->config, &ending));
    sf_store_sweep(state->store, stored, stored->checkpoint_epoch, stored->best_saved_epoch);
    return SF_OK;
}

/* What is already in the store is used even while another process continues the run. */
sf_status sf_session_try_to_take(int *claim, sf_session_state *state, size_t index) {
    sf_listed_run *run = &state->runs[index];
    bool satisfied;
    SF_TRY(sf_store_find(&run->stored, state->store, run->plan->id));
    SF_TRY(sf_session_is_satisfied(&satisfied, state, run));
    sf_status status = SF_OK;
    if (!satisfied || needs_tidying(&run->stored)) {
        SF_TRY(sf_claim_take(claim, sf_store_folder(state->store), run->stored.number));
        if (*claim < 0 && !satisfied) return SF_OK;
        if (*claim >= 0) { /* it may have been trained further before it was ours */
            status = sf_store_find(&run->stored, state->store, run->plan->id);
            if (status == SF_OK) status = sf_session_is_satisfied(&satisfied, state, run);
            if (status == SF_OK && !satisfied) {
                run->progress = SF_RUN_TAKEN;
                return SF_OK;
            }
            if (status == SF_OK) status = sf_session_tidy(state, run);
            sf_claim_give_back(*claim);
            *claim = -1;
        }
    }
    SF_TRY(status);
    run->progress = SF_RUN_OVER;
    sf_session_emit(state, (sf_event){.kind = SF_EVENT_FINISHED, .run = index});
    return SF_OK;
}
