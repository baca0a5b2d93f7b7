/* What the workers of a session share: the runs and which worker has them, the store, events. */
#ifndef SF_STUDY_SESSION_STATE_H
#define SF_STUDY_SESSION_STATE_H

#include <pthread.h>

#include "semfocus/session.h"
#include "store/store.h"
#include "train/backend.h"

typedef enum sf_session_progress { SF_RUN_OPEN, SF_RUN_TAKEN, SF_RUN_OVER } sf_session_progress;

typedef struct sf_listed_run { /* one run of the list */
    const sf_planned_run *plan;
    sf_stored_run stored; /* as it was when it was taken */
    sf_session_progress progress;
    bool interrupted;
    bool on_cpu; /* its own backend does not support it, or was lost, or it does not fit into its memory */
    bool has_demand;
    sf_demand demand; /* known once its data was looked at */
    sf_shape shape;
} sf_listed_run;

typedef struct sf_recorder sf_recorder;

typedef struct sf_session_state { /* store, runs and events under the lock */
    sf_store *store;
    const sf_recorder *recorder;
    const sf_session *session;
    sf_execution execution;
    sf_machine machine; /* its notes become events */
    pthread_mutex_t lock;
    sf_listed_run *runs; /* [count] */
    size_t count;
    size_t *order; /* [count]: in which runs are taken */
    bool waiting_said;
    uint64_t *notes; /* [note_count]: hashes of the sentences that were said */
    size_t note_count, note_room;
    int threads; /* that the session may use: how many work on a run is no property of the run */
    size_t failed;
    size_t workers; /* of the backend in use: those whose device is not lost */
    bool lost;      /* no worker has its device any more: runs of its arithmetic are left as they are */
    char lost_reason[SF_RUN_MESSAGE_SIZE];
    size_t left;     /* runs that were */
    sf_status fatal; /* the store itself failed: all workers stop */
    char fatal_message[SF_RUN_MESSAGE_SIZE];
} sf_session_state;

/* Store calls of a worker. */
#define SF_LOCKED(state, status, call)                                                                                 \
    do {                                                                                                               \
        pthread_mutex_lock(&(state)->lock);                                                                            \
        (status) = (call);                                                                                             \
        pthread_mutex_unlock(&(state)->lock);                                                                          \
    } while (0)

bool sf_session_told_to_stop(const sf_session_state *state);

/* Sends an event to the caller of the session. The first is for code that holds the lock. */
void sf_session_emit(const sf_session_state *state, sf_event event);
void sf_session_announce(sf_session_state *state, sf_event event);
/* An event for a sentence, once per sentence. */
void sf_session_note(void *state, const char *sentence);

/* The run is over: done, stopped (SF_INTERRUPTED) or failed with the message of this thread. `begun`: the store says
 * that it is under way. */
void sf_session_end_run(sf_session_state *state, size_t index, sf_status status, bool begun);

/* The store failed with the message of this thread: all workers stop. The caller holds the lock. */
void sf_session_fail_all(sf_session_state *state, sf_status status);

/* The device is lost and the CPU would compute other bits: the run stays as its checkpoint left it. The caller holds
 * the lock. */
void sf_session_leave_run(sf_session_state *state, size_t index, bool begun);

/* Runs that are open for this kind of backend: those that its own takes, or those that are left to the CPU. */
bool sf_session_is_open_for(const sf_session_state *state, size_t index, const sf_backend *backend);

/* Claims run `index` if it is free and still needs work; *claim stays -1 otherwise. The caller holds the lock. A run
 * that needs no work is over. */
sf_status sf_session_try_to_take(int *claim, sf_session_state *state, size_t index);
/* Whether the store already has what is asked for. A run whose files cannot be reached is not satisfied: the worker
 * that takes it reports why. */
sf_status sf_session_is_satisfied(bool *out, const sf_session_state *state, const sf_listed_run *run);
/* Removes what a process that died after a checkpoint left behind; the caller holds the lock. */
sf_status sf_session_tidy(sf_session_state *state, const sf_listed_run *run);

/* Trains fleets on a backend until no run is left for it. `wait`: also waits for runs that other processes hold.
 * `side_by_side` says how many such workers there are. */
void sf_session_work(sf_session_state *state, const sf_backend *backend, size_t side_by_side, bool wait);

#endif
