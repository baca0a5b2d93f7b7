/* One worker of a session: a fleet that is advanced epoch by epoch, whose members leave when they are done while others
 * join. */
#include <assert.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/sizes.h"
#include "store/claim.h"
#include "study/active_run.h"

static const double seconds_between_looks = 0.1; /* for runs that other processes held */

typedef struct worker {
    sf_session_state *session;
    const sf_backend *backend;
    size_t side_by_side;   /* workers like this one */
    sf_fleet *fleet;       /* NULL: none is open */
    const sf_config *like; /* settings and demand of the run that the fleet was opened for */
    sf_demand demand;
    sf_shape shape;         /* of the demand */
    sf_active_run **active; /* [capacity of the fleet]: by place; NULL where it is free */
    size_t active_count;
    double looked; /* when it last found no run to take */
    bool lost;     /* the backend failed; the rest is left to the CPU */
} worker;

static sf_listed_run *listed(const worker *w, size_t index) {
    return &w->session->runs[index];
}

static size_t places_of(const worker *w) {
    return w->fleet != NULL ? sf_fleet_capacity(w->fleet) : 0;
}

static void close_fleet(worker *w) {
    sf_fleet_destroy(w->fleet);
    sf_release(w->active);
    w->fleet = NULL;
    w->active = NULL;
    w->active_count = 0;
}

/* Gives back a run that was taken, so that another worker or process can take it. */
static void put_back(worker *w, size_t index, int claim) {
    pthread_mutex_lock(&w->session->lock);
    listed(w, index)->progress = SF_RUN_OPEN;
    pthread_mutex_unlock(&w->session->lock);
    sf_claim_give_back(claim);
}

static bool may_go_on_elsewhere(const worker *w, size_t index) {
    return sf_backend_may_fall_back(w->backend, (sf_precision)listed(w, index)->plan->config.precision);
}

/* From now on every run for which this is allowed is trained on the CPU; a note gives the reason. */
static void leave_to_the_cpu(worker *w, const char *reason) {
    sf_session_state *session = w->session;
    pthread_mutex_lock(&session->lock);
    for (size_t i = 0; i < session->count; i++)
        if (may_go_on_elsewhere(w, i)) w->lost = session->runs[i].on_cpu = true;
    pthread_mutex_unlock(&session->lock);
    if (!w->lost) return;
    char sentence[2 * SF_RUN_MESSAGE_SIZE];
    snprintf(sentence, sizeof sentence, "backend '%s' failed: %s; its runs go on on the CPU from their checkpoints",
             w->backend->name, reason);
    sf_session_note(session, sentence);
}

/* The backend failed with the message of this thread. Its runs continue on the CPU from what the store has, or fail if
 * the CPU would compute other bits. */
static void lose_fleet(worker *w, sf_status status) {
    char reason[SF_RUN_MESSAGE_SIZE];
    snprintf(reason, sizeof reason, "%s", sf_message());
    leave_to_the_cpu(w, reason);
    for (size_t s = 0; s < places_of(w); s++) {
        sf_active_run *run = w->active[s];
        if (run == NULL) continue;
        sf_active_run_close(run);
        if (may_go_on_elsewhere(w, run->index)) {
            put_back(w, run->index, run->claim);
        } else {
            sf_fail(status, "%s", reason);
            sf_session_end_run(w->session, run->index, status, run->begun);
            sf_claim_give_back(run->claim);
        }
        sf_release(run);
    }
    close_fleet(w);
}

/* Takes a run out of the fleet if it is in one, and forgets it. */
static void take_out(worker *w, sf_active_run *run) {
    const bool placed = run->state.fleet != NULL;
    const size_t s = run->state.s;
    sf_active_run_close(run);
    sf_release(run);
    if (!placed) return;
    assert(w->active != NULL);
    w->active[s] = NULL;
    w->active_count--;
    const sf_status status = sf_fleet_remove(w->fleet, s);
    if (status != SF_OK) lose_fleet(w, status);
}

/* The run is over for this session, with the message of this thread if it failed. */
static void end_run(worker *w, sf_active_run *run, sf_status status) {
    if (status == SF_INTERRUPTED) status = sf_active_run_stop(run);
    sf_session_end_run(w->session, run->index, status, run->begun);
    sf_claim_give_back(run->claim);
    take_out(w, run);
}

static size_t count_open(const worker *w) {
    size_t open = 0;
    for (size_t i = 0; i < w->session->count; i++) open += sf_session_is_open_for(w->session, i, w->backend);
    return open;
}

/* With room for as many as the backend prefers, but no more than this worker's share of what is left. */
static sf_status open_fleet(worker *w, const sf_listed_run *first) {
    const size_t threads = w->session->machine.threads;
    pthread_mutex_lock(&w->session->lock);
    const size_t share = 1 + count_open(w) / w->side_by_side;
    pthread_mutex_unlock(&w->session->lock);
    const size_t capacity = sf_larger(1, sf_smaller(w->backend->models(&first->demand, threads), share));
    SF_TRY(SF_NEW(&w->active, capacity));
    const sf_status status = sf_fleet_open(&w->fleet, w->backend, &first->demand, capacity, threads);
    if (status != SF_OK) close_fleet(w);
    w->like = &first->plan->config;
    w->shape = first->shape;
    w->demand = first->demand;
    w->demand.shape = &w->shape;
    return status;
}

/* As far as is known: what depends on the data of a run is known once the data was read. */
static bool may_join(const worker *w, const sf_listed_run *run) {
    if (w->active_count == 0) return true;
    const sf_config *a = w->like, *b = &run->plan->config;
    if (a->width != b->width || a->mlp_width != b->mlp_width || a->heads != b->heads || a->blocks != b->blocks ||
        a->precision != b->precision)
        return false;
    return !run->has_demand || w->backend->share_fleet(&w->demand, &run->demand);
}

static void remember_demand(sf_listed_run *run, const sf_member *member) {
    run->shape = member->model.shape;
    run->shape.attention.fault = NULL; /* the model's */
    run->demand = sf_member_demand(member);
    run->demand.shape = &run->shape;
    run->has_demand = true;
}

/* Whether the run is trained *here: the backend supports it, and there is a fleet with room for it or one was opened.
 */
static sf_status admit(bool *here, worker *w, size_t index) {
    sf_listed_run *run = listed(w, index);
    sf_machine machine = w->session->machine;
    const sf_backend *chosen;
    *here = false;
    machine.backend = w->backend;
    SF_TRY(sf_backend_choose(&chosen, &machine, &run->demand));
    if (chosen != w->backend) {
        run->on_cpu = true;
        return SF_OK;
    }
    if (w->fleet != NULL && !w->backend->share_fleet(&w->demand, &run->demand)) {
        if (w->active_count > 0) return SF_OK;
        close_fleet(w);
    }
    const sf_status status = w->fleet == NULL ? open_fleet(w, run) : SF_OK;
    *here = status == SF_OK;
    if (*here || !may_go_on_elsewhere(w, index)) return status;
    lose_fleet(w, status);
    return SF_OK;
}

static sf_status enter_fleet(worker *w, sf_active_run *run, sf_member **member /* NULL once the fleet has it */) {
    sf_run_place place = {.fleet = w->fleet, .machine = w->session->machine};
    place.machine.backend = w->backend;
    place.runs_at_a_time = sf_fleet_capacity(w->fleet) == 1 ? (int)w->side_by_side : 0;
    SF_TRY(sf_fleet_add(w->fleet, &place.s, *member));
    *member = NULL;
    w->active[place.s] = run;
    w->active_count++;
    return sf_active_run_begin(run, &place);
}

static void join(worker *w, size_t index, int claim);

/* After an epoch, or none: stores what is new, and takes out a run that is over. */
static void settle(worker *w, sf_active_run *run, double seconds) {
    bool again = false;
    sf_status status = sf_active_run_record(run, seconds);
    if (status == SF_OK && sf_active_run_is_finished(run))
        status = sf_active_run_finish(&again, run);
    else if (status == SF_OK && sf_session_told_to_stop(w->session))
        status = SF_INTERRUPTED;
    else if (status == SF_OK)
        return;
    if (!again) {
        end_run(w, run, status);
        return;
    }
    const size_t index = run->index;
    const int claim = run->claim;
    take_out(w, run);
    if (w->lost)
        put_back(w, index, claim);
    else
        join(w, index, claim);
}

/* A run that was taken joins the fleet, or is left to others, or fails. */
static void join(worker *w, size_t index, int claim) {
    sf_active_run *run;
    sf_member *member = NULL;
    bool here = true;
    sf_status status = SF_NEW(&run, 1);
    if (status != SF_OK) {
        sf_session_end_run(w->session, index, status, false);
        sf_claim_give_back(claim);
        return;
    }
    *run = (sf_active_run){.session = w->session, .index = index, .claim = claim};
    status = sf_active_run_prepare(&member, run, w->fleet != NULL ? sf_fleet_members(w->fleet) : NULL, places_of(w));
    if (status == SF_OK) {
        remember_demand(listed(w, index), member);
        status = admit(&here, w, index);
    }
    if (status == SF_OK && here) status = enter_fleet(w, run, &member);
    sf_member_destroy(member);
    if (status == SF_OK && here && sf_active_run_is_finished(run)) {
        settle(w, run, 0);
    } else if (status != SF_OK) {
        end_run(w, run, status);
    } else if (!here) {
        take_out(w, run);
        put_back(w, index, claim);
    }
}

/* Takes a run that may join the fleet, under a claim. */
static bool take_next(size_t *index, int *claim, worker *w) {
    sf_session_state *session = w->session;
    *index = 0;
    *claim = -1;
    pthread_mutex_lock(&session->lock);
    for (size_t i = 0; i < session->count && session->fatal == SF_OK && *claim < 0; i++) {
        if (sf_session_told_to_stop(session)) break;
        if (!sf_session_is_open_for(session, i, w->backend) || !may_join(w, &session->runs[i])) continue;
        session->fatal = sf_session_try_to_take(claim, session, i);
        if (session->fatal != SF_OK)
            snprintf(session->fatal_message, sizeof session->fatal_message, "%s", sf_message());
        *index = i;
    }
    pthread_mutex_unlock(&session->lock);
    return *claim >= 0;
}

static void fill(worker *w) {
    size_t index;
    int claim;
    if (w->active_count > 0 && sf_clock_seconds() - w->looked < seconds_between_looks) return;
    while (!w->lost && (w->fleet == NULL || w->active_count < places_of(w))) {
        if (!take_next(&index, &claim, w)) {
            w->looked = sf_clock_seconds();
            return;
        }
        join(w, index, claim);
    }
}

static void on_step(void *context, size_t s, size_t step, size_t steps) {
    const worker *w = context;
    const sf_event event = {.kind = SF_EVENT_STEP, .run = w->active[s]->index, .step = step, .steps = steps};
    sf_session_announce(w->session, event);
}

static void advance(worker *w) {
    const sf_watch watch = {.stop = w->session->session->stop, .on_step = on_step, .context = w};
    const double start = sf_clock_seconds();
    sf_status status = SF_OK;
    if (!sf_session_told_to_stop(w->session)) {
        sf_fleet_watch(w->fleet, &watch);
        status = sf_fleet_advance_members(w->fleet);
    }
    if (status != SF_OK && status != SF_INTERRUPTED) {
        lose_fleet(w, status);
        return;
    }
    const double seconds = sf_clock_seconds() - start;
    for (size_t s = 0; s < places_of(w); s++)
        if (w->active[s] != NULL) settle(w, w->active[s], seconds);
}

/* Waits a moment if other processes still hold runs, since one of them may become free; false if none does. */
static bool wait_for_others(worker *w) {
    sf_session_state *session = w->session;
    pthread_mutex_lock(&session->lock);
    const bool wait = session->fatal == SF_OK && !sf_session_told_to_stop(session) && count_open(w) > 0;
    if (wait && !session->waiting_said) {
        session->waiting_said = true;
        sf_session_emit(session, (sf_event){.kind = SF_EVENT_WAITING});
    }
    pthread_mutex_unlock(&session->lock);
    if (wait) nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    return wait;
}

void sf_session_work(sf_session_state *session, const sf_backend *backend, size_t side_by_side, bool wait) {
    worker w = {.session = session, .backend = backend, .side_by_side = side_by_side};
    while (!w.lost) {
        fill(&w);
        if (w.active_count > 0)
            advance(&w);
        else if (w.lost || !wait || !wait_for_others(&w))
            break;
    }
    close_fleet(&w);
}
