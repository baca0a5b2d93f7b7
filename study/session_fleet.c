/* One worker of a session: a fleet that is advanced epoch by epoch, whose members leave when they are done while others
 * join. */
#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/sizes.h"
#include "study/recorder.h"
#include "train/numerics.h"

static const double seconds_between_looks = 0.1; /* for runs that other processes held */

typedef struct worker {
    sf_session_state *session;
    const sf_backend *backend;
    size_t side_by_side; /* workers like this one */
    sf_fleet *fleet;     /* NULL: none is open */
    sf_config like;      /* settings and demand of the run that the fleet was opened for */
    sf_demand demand;
    sf_shape shape;         /* of the demand */
    sf_active_run **active; /* [capacity of the fleet]: by place; NULL where it is free */
    size_t active_count;
    bool full;     /* a run did not fit beside the others: none joins before one leaves */
    double looked; /* when it last found no run to take */
    bool lost;     /* its device is */
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

static bool may_go_on_elsewhere(const worker *w, size_t index) {
    return w->backend != &sf_backend_cpu && !w->backend->is_last &&
           sf_backend_computes(&sf_backend_cpu, &listed(w, index)->plan->config);
}

/* Gives back a run that was taken, so that another worker or process can take it. */
static void put_back(worker *w, size_t index, int claim, bool begun) {
    w->session->recorder->put_back(w->session, index, claim, begun);
}

static void end_taken(worker *w, size_t index, int claim, sf_status status, bool begun) {
    w->session->recorder->end(w->session, index, claim, status, begun);
}

static void leave_to_the_cpu(worker *w, size_t index, const char *reason) {
    char sentence[2 * SF_RUN_MESSAGE_SIZE];
    listed(w, index)->on_cpu = true;
    snprintf(sentence, sizeof sentence, "%s; it is computed on the CPU instead", reason);
    sf_session_note(w->session, sentence);
}

/* No worker of the backend is left. Every run that the CPU computes with the same bits is open for it from now on; the
 * others stay as they are. Says whether there are any of the first kind. The caller holds the lock. */
static bool close_backend(worker *w) {
    sf_session_state *session = w->session;
    bool any = false;
    session->lost = true;
    for (size_t i = 0; i < session->count; i++) {
        sf_listed_run *run = &session->runs[i];
        if (run->progress == SF_RUN_OVER || run->on_cpu) continue;
        if (may_go_on_elsewhere(w, i))
            any = run->on_cpu = true;
        else if (run->progress == SF_RUN_OPEN)
            sf_session_leave_run(session, i, false);
    }
    return any;
}

/* The device failed with the message of this thread: this worker has ended, and its runs continue from what the store
 * has, on the other devices if there are any, else on the CPU if that computes the same bits. */
static void lose_fleet(worker *w) {
    sf_session_state *session = w->session;
    char reason[SF_RUN_MESSAGE_SIZE], sentence[2 * SF_RUN_MESSAGE_SIZE];
    snprintf(reason, sizeof reason, "backend '%s' failed: %s", w->backend->name, sf_message());
    pthread_mutex_lock(&session->lock);
    w->lost = true;
    const bool others = --session->workers > 0;
    const bool on_cpu = !others && close_backend(w);
    if (!others) snprintf(session->lost_reason, sizeof session->lost_reason, "%s", reason);
    pthread_mutex_unlock(&session->lock);
    snprintf(sentence, sizeof sentence, "%s; its runs continue on %s from their checkpoints", reason,
             others ? "the other devices" : "the CPU");
    if (others || on_cpu) sf_session_note(session, sentence);
    for (size_t s = 0; s < places_of(w); s++) {
        sf_active_run *run = w->active[s];
        if (run == NULL) continue;
        sf_active_run_close(run);
        put_back(w, run->index, run->claim, run->begun);
        sf_release(run);
    }
    close_fleet(w);
}

/* A call for one member failed with the message of this thread: was it the member's failure or the device's? */
static bool has_lost_device(const worker *w) {
    char message[SF_RUN_MESSAGE_SIZE];
    snprintf(message, sizeof message, "%s", sf_message());
    if (w->fleet != NULL && sf_fleet_alive(w->fleet) != SF_OK) return true;
    sf_fail(SF_IO_ERROR, "%s", message);
    return false;
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
    w->full = false;
    if (sf_fleet_remove(w->fleet, s) != SF_OK) lose_fleet(w);
}

/* The run is over for this session, with the message of this thread if it failed. */
static void end_run(worker *w, sf_active_run *run, sf_status status) {
    if (status == SF_INTERRUPTED) status = sf_active_run_stop(run);
    end_taken(w, run->index, run->claim, status, run->begun);
    take_out(w, run);
}

static sf_status try_to_open(worker *w, const sf_listed_run *first, size_t capacity) {
    SF_TRY(SF_NEW(&w->active, capacity));
    const sf_status status =
        sf_fleet_open(&w->fleet, w->backend, &first->demand, capacity, w->session->machine.threads);
    if (status != SF_OK) close_fleet(w);
    return status;
}

/* With room for as many as the backend prefers, but no more than this worker's share of what is left; for fewer where
 * memory is short. */
static sf_status open_fleet(worker *w, const sf_listed_run *first) {
    const size_t share = 1 + w->session->recorder->count_open(w->session, w->backend) / w->side_by_side;
    const size_t models = w->backend->models(&first->demand, w->session->machine.threads);
    size_t capacity = sf_larger(1, sf_smaller(models, share));
    sf_status status = try_to_open(w, first, capacity);
    while (status == SF_NO_MEMORY && capacity > 1) status = try_to_open(w, first, capacity /= 2);
    w->full = false;
    w->like = first->plan->config;
    w->shape = first->shape;
    w->demand = first->demand;
    w->demand.shape = &w->shape;
    return status;
}

/* As far as is known: what depends on the data of a run is known once the data was read. */
static bool may_join(const worker *w, const sf_listed_run *run) {
    if (w->active_count == 0) return true;
    const sf_config *a = &w->like, *b = &run->plan->config;
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

/* There was no memory for the run, with the message of this thread: it waits for others to leave, or the CPU takes it.
 * SF_NO_MEMORY if neither is possible. */
static sf_status find_room_elsewhere(worker *w, size_t index) {
    char reason[SF_RUN_MESSAGE_SIZE];
    snprintf(reason, sizeof reason, "%s", sf_message());
    w->full = w->active_count > 0;
    if (w->full) return SF_OK;
    if (!may_go_on_elsewhere(w, index)) return sf_fail(SF_NO_MEMORY, "%s", reason);
    leave_to_the_cpu(w, index, reason);
    return SF_OK;
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
    if (*here || w->backend == &sf_backend_cpu) return status;
    if (status == SF_NO_MEMORY) return find_room_elsewhere(w, index);
    lose_fleet(w);
    return SF_OK;
}

/* Likewise, once there is a fleet. */
static sf_status enter_fleet(bool *here, worker *w, sf_active_run *run,
                             sf_member **member /* NULL once the fleet has it */) {
    sf_run_place place = {.fleet = w->fleet, .machine = w->session->machine};
    place.machine.backend = w->backend;
    place.runs_at_a_time = sf_fleet_capacity(w->fleet) == 1 ? (int)w->side_by_side : 0;
    const sf_status status = sf_fleet_add(w->fleet, &place.s, *member);
    *here = status == SF_OK;
    if (status == SF_NO_MEMORY && w->backend != &sf_backend_cpu) return find_room_elsewhere(w, run->index);
    SF_TRY(status);
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
    if (status != SF_OK && status != SF_INTERRUPTED && has_lost_device(w)) {
        lose_fleet(w);
        return;
    }
    if (!again) {
        end_run(w, run, status);
        return;
    }
    const size_t index = run->index;
    const int claim = run->claim;
    const bool begun = run->begun;
    take_out(w, run);
    if (w->lost)
        put_back(w, index, claim, begun);
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
        end_taken(w, index, claim, status, false);
        return;
    }
    *run = (sf_active_run){.session = w->session, .index = index, .claim = claim};
    status = sf_active_run_prepare(&member, run, w->fleet != NULL ? sf_fleet_members(w->fleet) : NULL, places_of(w));
    if (status == SF_OK) {
        remember_demand(listed(w, index), member);
        status = admit(&here, w, index);
    }
    if (status == SF_OK && here) status = enter_fleet(&here, w, run, &member);
    sf_member_destroy(member);
    const bool lost = status != SF_OK && status != SF_INTERRUPTED && has_lost_device(w);
    const bool placed = run->state.fleet != NULL;
    if (lost) lose_fleet(w); /* and the run with it, if it has its place there */
    if (lost && placed) return;
    if (status == SF_OK && here && sf_active_run_is_finished(run)) {
        settle(w, run, 0);
    } else if (status != SF_OK && !lost) {
        end_run(w, run, status);
    } else if (!here || lost) {
        take_out(w, run);
        put_back(w, index, claim, false);
    }
}

static bool fits(const void *w, const sf_listed_run *run) {
    return may_join(w, run);
}

static sf_wanted wanted_by(const worker *w) {
    return (sf_wanted){.backend = w->backend, .like = w->active_count > 0 ? &w->like : NULL, .fits = fits, .worker = w};
}

static void fill(worker *w) {
    size_t index;
    int claim;
    if (w->active_count > 0 && sf_clock_seconds() - w->looked < seconds_between_looks) return;
    while (!w->lost && !w->full && (w->fleet == NULL || w->active_count < places_of(w))) {
        const sf_wanted wanted = wanted_by(w);
        if (!w->session->recorder->take(&index, &claim, w->session, &wanted)) {
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
        lose_fleet(w);
        return;
    }
    const double seconds = sf_clock_seconds() - start;
    for (size_t s = 0; s < places_of(w); s++)
        if (w->active[s] != NULL) settle(w, w->active[s], seconds);
}

static bool wait_for_runs(const worker *w) {
    const sf_wanted wanted = wanted_by(w);
    return w->session->recorder->wait(w->session, &wanted);
}

void sf_session_work(sf_session_state *session, const sf_backend *backend, size_t side_by_side, bool wait) {
    worker w = {.session = session, .backend = backend, .side_by_side = side_by_side};
    while (!w.lost) {
        fill(&w);
        if (w.active_count > 0)
            advance(&w);
        else if (w.lost || !wait || !wait_for_runs(&w))
            break;
    }
    close_fleet(&w);
}
