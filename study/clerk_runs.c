/* The runs of the clerk's session: which one a rank gets, and what it reports about it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "store/claim.h"
#include "study/clerk_inside.h"
#include "study/run_records.h"

/* Dealing */

static bool has_sizes_of(const sf_config *a, const sf_config *b) {
    return a->width == b->width && a->mlp_width == b->mlp_width && a->heads == b->heads && a->blocks == b->blocks &&
           a->precision == b->precision;
}

static bool is_wanted(const sf_listed_run *run, const sf_ask_message *ask) {
    const sf_config *config = &run->plan->config;
    if (run->progress != SF_RUN_OPEN || (run->on_cpu ? !ask->for_cpu : ask->for_rest)) return false;
    if (ask->has_like && !has_sizes_of(config, &ask->like)) return false;
    return *config->architecture == '\0' ? (ask->precisions >> config->precision & 1) != 0
                                         : strcmp(config->architecture, ask->architecture) == 0;
}

/* The next run that the worker may take, claimed. */
static bool claim_next(size_t *index, int *claim, sf_clerk *clerk, const sf_ask_message *ask) {
    sf_session_state *session = clerk->session;
    *index = 0;
    *claim = -1;
    pthread_mutex_lock(&session->lock);
    for (size_t i = 0; i < session->count && session->fatal == SF_OK && *claim < 0; i++) {
        *index = session->order[i];
        if (sf_session_told_to_stop(session)) break;
        if (!is_wanted(&session->runs[*index], ask)) continue;
        const sf_status status = sf_session_try_to_take(claim, session, *index);
        if (status != SF_OK) sf_session_fail_all(session, status);
    }
    pthread_mutex_unlock(&session->lock);
    return *claim >= 0;
}

static uint64_t open_per_rank(sf_clerk *clerk) {
    uint64_t open = 0;
    pthread_mutex_lock(&clerk->session->lock);
    for (size_t i = 0; i < clerk->session->count; i++) open += sf_clerk_run(clerk, i)->progress == SF_RUN_OPEN;
    pthread_mutex_unlock(&clerk->session->lock);
    return open / clerk->count;
}

static sf_status send_run(sf_clerk *clerk, size_t rank, const sf_ask_message *ask, size_t index) {
    const sf_listed_run *run = sf_clerk_run(clerk, index);
    sf_epoch *lost = NULL;
    char *environment = NULL;
    sf_continuation from = {0};
    sf_dealt_message dealt = {.worker = ask->worker,
                              .ref = {.index = index, .ticket = clerk->deals[index].ticket},
                              .open = open_per_rank(clerk),
                              .saving = clerk->saving * (double)clerk->under_way,
                              .plan = *run->plan,
                              .stored = run->stored};
    sf_status status = sf_record_look(&lost, &dealt.lost_count, clerk->session, index);
    if (status == SF_OK && lost == NULL) status = sf_record_continuation(&from, &environment, clerk->session, index);
    if (status == SF_OK) {
        dealt.lost = lost;
        if (from.checkpoint != NULL) dealt.checkpoint = sf_safetensors_bytes(from.checkpoint, &dealt.checkpoint_size);
        dealt.last = from.last;
        dealt.best = from.best;
        dealt.converged_epoch = from.converged_epoch;
        dealt.environment = environment;
        sf_coder message = sf_message_write(SF_RUN_DEALT);
        sf_code_dealt(&message, &dealt);
        status = clerk->outbox.send(clerk->outbox.context, rank, &message);
    }
    sf_continuation_close(&from);
    free(environment);
    sf_release(lost);
    return status;
}

/* The run is over for this session, with the message of this thread if it failed. */
static void end_run(sf_clerk *clerk, size_t index, sf_status status, bool begun) {
    sf_session_end_run(clerk->session, index, status, begun);
    sf_clerk_take_off(clerk, index);
}

bool sf_clerk_deal(sf_clerk *clerk, size_t rank, sf_ask_message *ask) {
    size_t index;
    int claim;
    while (claim_next(&index, &claim, clerk, ask)) {
        const sf_stored_run *stored = &sf_clerk_run(clerk, index)->stored;
        clerk->deals[index] = (sf_deal){.rank = rank,
                                        .ticket = clerk->next_ticket++,
                                        .claim = claim,
                                        .saved = {.epoch = stored->checkpoint_epoch,
                                                  .hash = stored->checkpoint_hash,
                                                  .best_epoch = stored->best_saved_epoch,
                                                  .best_hash = stored->best_hash,
                                                  .weights_hash = stored->weights_hash}};
        clerk->ranks[rank].runs++;
        clerk->under_way++;
        const sf_status status = send_run(clerk, rank, ask, index);
        if (status == SF_OK) return true;
        end_run(clerk, index, status, false);
    }
    return false;
}

/* Reports */

static void announce(const sf_clerk *clerk, size_t index, sf_event_kind kind, const sf_epoch *row) {
    sf_session_announce(clerk->session, (sf_event){.kind = kind, .run = index, .row = *row});
}

static sf_status record_begun(sf_clerk *clerk, size_t index, sf_coder *message) {
    sf_begun_message begun;
    sf_code_begun(message, &begun);
    if (message->failed || begun.isa == NULL || begun.environment == NULL) return SF_OK;
    SF_TRY(sf_record_begin(clerk->session, index, begun.isa, begun.environment));
    clerk->deals[index].begun = true;
    announce(clerk, index, SF_EVENT_STARTED, &begun.last);
    return SF_OK;
}

/* What lies in a message is not aligned. */
static sf_status copy_points(sf_curve_point **out, const sf_row_message *row) {
    SF_TRY(SF_NEW(out, row->point_count));
    if (row->point_count > 0) memcpy(*out, row->points, row->point_count * sizeof **out);
    return SF_OK;
}

static sf_status record_row(sf_clerk *clerk, size_t index, sf_coder *message, bool has_row) {
    sf_row_message row;
    sf_curve_point *points;
    sf_code_row(message, &row);
    if (message->failed) return SF_OK;
    SF_TRY(copy_points(&points, &row));
    const sf_status status = has_row
                                 ? sf_record_row(clerk->session, index, &row.row, row.seconds, points, row.point_count)
                                 : sf_record_measures(clerk->session, index, points, row.point_count);
    sf_release(points);
    if (status == SF_OK && has_row) announce(clerk, index, SF_EVENT_EPOCH, &row.row);
    return status;
}

static sf_status record_checkpoint(sf_clerk *clerk, size_t index, sf_coder *message) {
    sf_deal *deal = &clerk->deals[index];
    sf_checkpoint_message sent;
    sf_code_checkpoint(message, &sent);
    if (message->failed || sent.last == NULL) return SF_OK;
    const sf_checkpoint_files files = {.saved = sent.saved,
                                       .last = (unsigned char *)sent.last,
                                       .last_size = sent.last_size,
                                       .best = (unsigned char *)sent.best,
                                       .best_size = sent.best_size};
    const double start = sf_clock_seconds();
    SF_TRY(sf_record_checkpoint(clerk->session, index, &files, &deal->saved));
    const double took = sf_clock_seconds() - start;
    clerk->saving = clerk->saving > 0 ? 0.9 * clerk->saving + 0.1 * took : took;
    deal->saved = sent.saved;
    return SF_OK;
}

static sf_status record_completed(sf_clerk *clerk, size_t index, sf_coder *message) {
    sf_completed_message completed;
    sf_code_completed(message, &completed);
    if (message->failed) return SF_OK;
    const sf_ending ending = {.status = completed.diverged ? "diverged" : "done",
                              .diverged_epoch = (size_t)completed.diverged_epoch,
                              .diverged_step = (size_t)completed.diverged_step};
    return sf_record_complete(clerk->session, index, &ending);
}

static void reopen(sf_clerk *clerk, size_t index, bool on_cpu) {
    sf_clerk_take_off(clerk, index);
    pthread_mutex_lock(&clerk->session->lock);
    sf_clerk_run(clerk, index)->progress = SF_RUN_OPEN;
    sf_clerk_run(clerk, index)->on_cpu |= on_cpu;
    pthread_mutex_unlock(&clerk->session->lock);
}

/* If it now continues, whoever is free takes it. */
static sf_status record_restored(sf_clerk *clerk, size_t index) {
    bool again;
    SF_TRY(sf_record_restored(&again, clerk->session, index));
    if (again) reopen(clerk, index, false);
    return SF_OK;
}

static void record_ended(sf_clerk *clerk, size_t index, sf_coder *message) {
    sf_ended_message ended;
    sf_code_ended(message, &ended);
    if (message->failed) return;
    const sf_status status = (sf_status)ended.status;
    if (status != SF_OK) sf_fail(status, "%s", ended.message != NULL ? ended.message : "");
    end_run(clerk, index, status, ended.begun);
}

static void record_put_back(sf_clerk *clerk, size_t index, sf_coder *message) {
    sf_ended_message ended;
    sf_session_state *session = clerk->session;
    sf_code_ended(message, &ended);
    if (message->failed) return;
    if (!ended.left) {
        reopen(clerk, index, ended.on_cpu);
        return;
    }
    sf_clerk_take_off(clerk, index);
    pthread_mutex_lock(&session->lock);
    snprintf(session->lost_reason, sizeof session->lost_reason, "%s", ended.message != NULL ? ended.message : "");
    sf_session_leave_run(session, index, ended.begun);
    pthread_mutex_unlock(&session->lock);
}

static void hear_alive(const sf_clerk *clerk, size_t from, sf_coder *message) {
    sf_alive_message alive;
    sf_code_alive(message, &alive);
    for (size_t i = 0; i < alive.step_count && !message->failed; i++) {
        sf_step step;
        memcpy(&step, (const unsigned char *)alive.steps + i * sizeof step, sizeof step);
        const size_t index = (size_t)step.ref.index;
        if (index >= clerk->session->count || clerk->deals[index].rank != from) continue;
        sf_session_announce(
            clerk->session,
            (sf_event){.kind = SF_EVENT_STEP, .run = index, .step = (size_t)step.step, .steps = (size_t)step.steps});
    }
}

static void hear_note(const sf_clerk *clerk, sf_coder *message) {
    const char *sentence;
    sf_code_text(message, &sentence);
    if (!message->failed && sentence != NULL) sf_session_note(clerk->session, sentence);
}

static void refuse(const sf_clerk *clerk, size_t to, sf_run_ref ref) {
    sf_coder message = sf_message_write(SF_DROP_RUN);
    sf_code_ref(&message, &ref);
    sf_clerk_send(clerk, to, &message);
}

/* Every message about a run begins with its reference. */
static sf_run_ref peek_ref(const sf_coder *message) {
    sf_coder copy = *message;
    sf_run_ref ref;
    sf_code_ref(&copy, &ref);
    return ref;
}

void sf_clerk_record(sf_clerk *clerk, size_t from, sf_message_kind kind, sf_coder *message) {
    if (clerk->session == NULL) return;
    if (kind == SF_ALIVE) {
        hear_alive(clerk, from, message);
        return;
    }
    if (kind == SF_NOTE) {
        hear_note(clerk, message);
        return;
    }
    const sf_run_ref ref = peek_ref(message);
    const size_t index = (size_t)ref.index;
    const bool ends = kind == SF_ENDED || kind == SF_PUT_BACK;
    const bool valid =
        index < clerk->session->count && clerk->deals[index].rank == from && clerk->deals[index].ticket == ref.ticket;
    if (!valid) {
        if (!ends) refuse(clerk, from, ref);
        return;
    }
    sf_status status = SF_OK;
    if (kind == SF_BEGUN) status = record_begun(clerk, index, message);
    if (kind == SF_MEASURED || kind == SF_ROW) status = record_row(clerk, index, message, kind == SF_ROW);
    if (kind == SF_CHECKPOINT) status = record_checkpoint(clerk, index, message);
    if (kind == SF_COMPLETED) status = record_completed(clerk, index, message);
    if (kind == SF_RESTORED) status = record_restored(clerk, index);
    if (kind == SF_PAUSED) status = sf_record_pause(clerk->session, index);
    if (kind == SF_ENDED) record_ended(clerk, index, message);
    if (kind == SF_PUT_BACK) record_put_back(clerk, index, message);
    if (message->failed) status = sf_fail(SF_IO_ERROR, "rank %zu sent a message that ends too early", from);
    if (status == SF_OK) return;
    end_run(clerk, index, status, clerk->deals[index].begun);
    refuse(clerk, from, ref);
}
