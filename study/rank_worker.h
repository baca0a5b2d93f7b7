/* A rank other than 0: it trains runs that rank 0 deals to it, with the same workers as any session, and reports to
 * rank 0 what they would record in a store. */
#ifndef SF_STUDY_RANK_WORKER_H
#define SF_STUDY_RANK_WORKER_H

#include "study/rank_messages.h"
#include "study/session_state.h"

typedef struct sf_held_run { /* dealt to this rank and not over yet */
    bool used;
    bool dropped; /* given to others since */
    sf_run_ref ref;
    sf_planned_run plan;
    char *task;           /* its text */
    sf_continuation from; /* where it continues */
    sf_epoch *lost;       /* [lost_count]; NULL: none */
    size_t lost_count;
    char *environment; /* of its epochs so far; NULL: there are none */
    double saving;     /* seconds that rank 0 takes for one checkpoint of every run */
    size_t step, steps;
} sf_held_run;

typedef struct sf_asking { /* a worker of this rank that asked for a run */
    const void *worker;
    bool asked, answered; /* no answer but a run comes after that */
    bool like;            /* it asked for models of the same sizes as those it has */
    bool has_run;
    size_t run; /* index of the held run */
} sf_asking;

typedef struct sf_rank_worker {
    sf_session_state state; /* first: the recorder finds the rest from it */
    sf_session session;
    atomic_int stop;
    pthread_mutex_t lock; /* of what follows; taken after that of the session */
    pthread_cond_t changed;
    sf_held_run *held; /* [capacity] */
    size_t capacity;
    sf_asking *asking; /* [asking_room] */
    size_t asking_count, asking_room;
    uint64_t open;             /* runs that rank 0 still has for this rank, about */
    sf_session_message opened; /* the session in progress, or the one that begins next */
    uint64_t closed;           /* the last session that is over */
    bool pending, pending_stop, shares_model, dismissed;
    double reported; /* when rank 0 was last told that this rank is alive */
} sf_rank_worker;

extern const sf_recorder sf_rank_recorder;

static inline sf_rank_worker *sf_rank_worker_of(sf_session_state *state) {
    return (sf_rank_worker *)state;
}

/* Whether no further run comes in this session. The caller holds the lock. */
static inline bool sf_rank_worker_is_closing(const sf_rank_worker *self) {
    return self->dismissed || self->closed >= self->opened.session;
}

#endif
