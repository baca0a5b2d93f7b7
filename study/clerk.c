#include "study/clerk.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/version.h"
#include "semfocus/version.h"
#include "store/claim.h"
#include "study/clerk_inside.h"

static const double longest_pause = 5; /* seconds between two ticks of a process that is well */

const char *sf_clerk_program(void) {
    static char text[96];
    snprintf(text, sizeof text, "semfocus %s, numerics %d, layout %zu-%zu-%zu", SF_VERSION, SF_NUMERICS_VERSION,
             sizeof(sf_config), sizeof(sf_stored_run), sizeof(sf_curve_point));
    return text;
}

sf_status sf_clerk_create(sf_clerk **out, size_t ranks, const sf_outbox *outbox) {
    *out = NULL;
    sf_clerk *clerk;
    SF_TRY(SF_NEW(&clerk, 1));
    clerk->outbox = *outbox;
    clerk->count = ranks;
    clerk->next_ticket = 1;
    const sf_status status = SF_NEW(&clerk->ranks, ranks);
    if (status != SF_OK) {
        sf_release(clerk);
        return status;
    }
    pthread_mutex_init(&clerk->lock, NULL);
    *out = clerk;
    return SF_OK;
}

static void forget_waiting(sf_clerk *clerk) {
    for (sf_waiting *one = clerk->waiting, *next; one != NULL; one = next) {
        next = one->next;
        sf_release(one);
    }
    clerk->waiting = clerk->last_waiting = NULL;
}

void sf_clerk_destroy(sf_clerk *clerk) {
    if (clerk == NULL) return;
    forget_waiting(clerk);
    pthread_mutex_destroy(&clerk->lock);
    sf_release(clerk->deals);
    sf_release(clerk->ranks);
    sf_release(clerk);
}

/* A message that cannot be sent is like a rank that does not answer: after a while its runs are given to others. */
void sf_clerk_send(const sf_clerk *clerk, size_t to, sf_coder *message) {
    (void)clerk->outbox.send(clerk->outbox.context, to, message);
}

static void send_to_all(sf_clerk *clerk, sf_message_kind kind) {
    for (size_t r = 1; r < clerk->count; r++) {
        sf_coder message = sf_message_write(kind);
        sf_clerk_send(clerk, r, &message);
    }
}

static void note(sf_clerk *clerk, const char *sentence) {
    if (clerk->session != NULL) sf_session_note(clerk->session, sentence);
}

/* Sessions */

static void invite(sf_clerk *clerk, size_t rank) {
    const sf_session_state *session = clerk->session;
    sf_session_message opens = {.session = clerk->session_number,
                                .share = (session->count + clerk->count - 1) / clerk->count,
                                .threads = session->execution.threads,
                                .device = session->machine.backend == &sf_backend_cuda ? SF_CUDA : SF_CPU,
                                .checkpoint_seconds = session->execution.checkpoint_seconds,
                                .measure_every = session->execution.measure_every};
    sf_coder message = sf_message_write(SF_SESSION_OPENS);
    sf_code_session(&message, &opens);
    sf_clerk_send(clerk, rank, &message);
}

sf_status sf_clerk_open_session(sf_clerk *clerk, sf_session_state *session) {
    sf_deal *deals;
    SF_TRY(SF_NEW(&deals, session->count));
    pthread_mutex_lock(&clerk->lock);
    clerk->deals = deals;
    clerk->session = session;
    clerk->session_number++;
    clerk->under_way = 0;
    clerk->stop_sent = false;
    for (size_t r = 1; r < clerk->count; r++)
        if (clerk->ranks[r].here && !clerk->ranks[r].gone) invite(clerk, r);
    pthread_mutex_unlock(&clerk->lock);
    return SF_OK;
}

void sf_clerk_take_off(sf_clerk *clerk, size_t index) {
    sf_deal *deal = &clerk->deals[index];
    clerk->ranks[deal->rank].runs--;
    clerk->under_way--;
    sf_claim_give_back(deal->claim);
    *deal = (sf_deal){.claim = -1};
}

void sf_clerk_close_session(sf_clerk *clerk) {
    pthread_mutex_lock(&clerk->lock);
    for (size_t i = 0; i < clerk->session->count; i++) {
        if (clerk->deals[i].rank == 0) continue;
        sf_clerk_run(clerk, i)->interrupted = true;
        sf_clerk_take_off(clerk, i);
    }
    send_to_all(clerk, SF_SESSION_CLOSES);
    forget_waiting(clerk);
    sf_release(clerk->deals);
    clerk->deals = NULL;
    clerk->session = NULL;
    pthread_mutex_unlock(&clerk->lock);
}

size_t sf_clerk_under_way(sf_clerk *clerk) {
    pthread_mutex_lock(&clerk->lock);
    const size_t count = clerk->under_way;
    pthread_mutex_unlock(&clerk->lock);
    return count;
}

/* Who comes and goes */

static void greet(sf_clerk *clerk, size_t from, sf_coder *message) {
    sf_rank *rank = &clerk->ranks[from];
    sf_hello_message hello;
    char sentence[320];
    sf_code_hello(message, &hello);
    if (message->failed || hello.program == NULL || hello.host == NULL) return;
    snprintf(rank->host, sizeof rank->host, "%s", hello.host);
    rank->here = strcmp(hello.program, sf_clerk_program()) == 0;
    if (rank->here && clerk->session != NULL) invite(clerk, from);
    if (rank->here) return;
    snprintf(sentence, sizeof sentence, "rank %zu on %s takes no part: it runs %s, rank 0 runs %s", from, rank->host,
             hello.program, sf_clerk_program());
    note(clerk, sentence);
}

static void hear_unable(sf_clerk *clerk, size_t from, sf_coder *message) {
    const char *reason;
    char sentence[SF_RUN_MESSAGE_SIZE];
    sf_code_text(message, &reason);
    if (message->failed || reason == NULL) return;
    snprintf(sentence, sizeof sentence, "rank %zu takes no part: %s", from, reason);
    note(clerk, sentence);
}

/* What it says about runs that others have now is refused one by one (sf_clerk_record). */
static void welcome_back(sf_clerk *clerk, size_t from) {
    sf_rank *rank = &clerk->ranks[from];
    char sentence[160];
    rank->heard = sf_clock_seconds();
    if (!rank->silent) return;
    rank->silent = false;
    snprintf(sentence, sizeof sentence, "rank %zu on %s answers again", from, rank->host);
    note(clerk, sentence);
}

/* Its runs are open again, and continue from their checkpoints. */
static void give_up_on(sf_clerk *clerk, size_t r, double seconds) {
    sf_rank *rank = &clerk->ranks[r];
    const size_t runs = rank->runs;
    char sentence[256];
    rank->silent = true;
    for (size_t i = 0; i < clerk->session->count; i++) {
        if (clerk->deals[i].rank != r) continue;
        sf_clerk_take_off(clerk, i);
        pthread_mutex_lock(&clerk->session->lock);
        sf_clerk_run(clerk, i)->progress = SF_RUN_OPEN;
        pthread_mutex_unlock(&clerk->session->lock);
    }
    snprintf(sentence, sizeof sentence,
             "rank %zu on %s has not answered for %.0f seconds; its %zu run%s from the last checkpoint elsewhere", r,
             rank->host, seconds, runs, runs == 1 ? " continues" : "s continue");
    note(clerk, sentence);
}

/* After a time in which this process itself did nothing (its disk did not answer, or it was stopped), what the others
 * said meanwhile is still to be read. */
static void excuse_silence(sf_clerk *clerk, double now) {
    const double absent = clerk->ticked > 0 ? now - clerk->ticked : 0;
    clerk->ticked = now;
    if (absent < longest_pause) return;
    for (size_t r = 1; r < clerk->count; r++) clerk->ranks[r].heard += absent;
}

static void look_for_silent(sf_clerk *clerk, double now) {
    const double patience = (double)clerk->session->execution.rank_timeout;
    for (size_t r = 1; r < clerk->count; r++) {
        const sf_rank *rank = &clerk->ranks[r];
        if (rank->runs > 0 && !rank->silent && now - rank->heard > patience) give_up_on(clerk, r, now - rank->heard);
    }
}

/* Workers that wait for a run */

static void remember_waiting(sf_clerk *clerk, size_t rank, const sf_ask_message *ask) {
    for (sf_waiting *one = clerk->waiting; one != NULL; one = one->next) {
        if (one->rank != rank || one->ask.worker != ask->worker) continue;
        one->ask = *ask;
        return;
    }
    sf_waiting *one;
    if (SF_NEW(&one, 1) != SF_OK) return; /* the worker stays idle */
    *one = (sf_waiting){.rank = rank, .ask = *ask};
    if (clerk->last_waiting != NULL)
        clerk->last_waiting->next = one;
    else
        clerk->waiting = one;
    clerk->last_waiting = one;
}

static bool is_any_open(sf_clerk *clerk) {
    bool open = false;
    pthread_mutex_lock(&clerk->session->lock);
    for (size_t i = 0; i < clerk->session->count && !open; i++) open = sf_clerk_run(clerk, i)->progress == SF_RUN_OPEN;
    pthread_mutex_unlock(&clerk->session->lock);
    return open;
}

static void serve_waiting(sf_clerk *clerk) {
    if (clerk->waiting == NULL || !is_any_open(clerk)) return;
    clerk->last_waiting = NULL;
    for (sf_waiting **at = &clerk->waiting; *at != NULL;) {
        sf_waiting *one = *at;
        if (clerk->ranks[one->rank].silent || !sf_clerk_deal(clerk, one->rank, &one->ask)) {
            clerk->last_waiting = one;
            at = &one->next;
            continue;
        }
        *at = one->next;
        sf_release(one);
    }
}

static void answer(sf_clerk *clerk, size_t from, sf_coder *message) {
    sf_ask_message ask;
    sf_code_ask(message, &ask);
    if (message->failed || clerk->session == NULL || ask.session != clerk->session_number) return;
    if (sf_clerk_deal(clerk, from, &ask)) return;
    remember_waiting(clerk, from, &ask);
    sf_no_run_message none = {.worker = ask.worker};
    sf_coder reply = sf_message_write(SF_NO_RUN);
    sf_code_no_run(&reply, &none);
    sf_clerk_send(clerk, from, &reply);
}

void sf_clerk_receive(sf_clerk *clerk, size_t from, const unsigned char *bytes, size_t size) {
    sf_coder message = sf_coder_reading(bytes, size);
    const sf_message_kind kind = sf_message_read(&message);
    if (from == 0 || from >= clerk->count || message.failed) return;
    pthread_mutex_lock(&clerk->lock);
    welcome_back(clerk, from);
    switch (kind) {
    case SF_HELLO:
        greet(clerk, from, &message);
        break;
    case SF_UNABLE:
        hear_unable(clerk, from, &message);
        break;
    case SF_LEAVES:
        clerk->ranks[from].gone = true;
        break;
    case SF_ASK:
        answer(clerk, from, &message);
        break;
    default:
        sf_clerk_record(clerk, from, kind, &message);
        break;
    }
    pthread_mutex_unlock(&clerk->lock);
}

void sf_clerk_tick(sf_clerk *clerk, double now) {
    pthread_mutex_lock(&clerk->lock);
    excuse_silence(clerk, now);
    if (clerk->session != NULL) {
        const bool stop = sf_session_told_to_stop(clerk->session) || clerk->session->fatal != SF_OK;
        if (stop && !clerk->stop_sent) send_to_all(clerk, SF_STOP_RUNS);
        clerk->stop_sent |= stop;
        look_for_silent(clerk, now);
        if (!stop) serve_waiting(clerk);
    }
    pthread_mutex_unlock(&clerk->lock);
}

void sf_clerk_dismiss(sf_clerk *clerk) {
    pthread_mutex_lock(&clerk->lock);
    send_to_all(clerk, SF_DISMISS);
    pthread_mutex_unlock(&clerk->lock);
}

size_t sf_clerk_remaining(sf_clerk *clerk) {
    size_t count = 0;
    pthread_mutex_lock(&clerk->lock);
    for (size_t r = 1; r < clerk->count; r++) count += !clerk->ranks[r].gone;
    pthread_mutex_unlock(&clerk->lock);
    return count;
}
