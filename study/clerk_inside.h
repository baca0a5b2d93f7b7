/* What the files of the clerk share. */
#ifndef SF_STUDY_CLERK_INSIDE_H
#define SF_STUDY_CLERK_INSIDE_H

#include "study/clerk.h"

typedef struct sf_waiting { /* a worker of a rank for which no run was open */
    struct sf_waiting *next;
    size_t rank;
    sf_ask_message ask;
} sf_waiting;

typedef struct sf_rank { /* as far as rank 0 knows */
    bool here;           /* it has said hello, and is the same program */
    bool silent;         /* for too long: its runs were given to others */
    bool gone;           /* it has left */
    double heard;        /* when, last */
    size_t runs;         /* that it has */
    char host[64];
} sf_rank;

typedef struct sf_deal { /* one run of the session */
    size_t rank;         /* 0: no other rank has it */
    uint64_t ticket;
    int claim;
    bool begun;
    sf_saved saved;
} sf_deal;

struct sf_clerk {
    pthread_mutex_t lock; /* taken before that of the session */
    sf_outbox outbox;
    sf_rank *ranks; /* [count]; that of rank 0 is not used */
    size_t count;
    sf_session_state *session; /* NULL: none is open */
    uint64_t session_number, next_ticket;
    sf_deal *deals; /* [runs of the session] */
    size_t under_way;
    sf_waiting *waiting, *last_waiting;
    bool stop_sent;
    double ticked; /* when, last; 0: never */
    double saving; /* seconds that a checkpoint takes here, smoothed */
};

static inline sf_listed_run *sf_clerk_run(const sf_clerk *clerk, size_t index) {
    return &clerk->session->runs[index];
}

void sf_clerk_send(const sf_clerk *clerk, size_t to, sf_coder *message);
/* Sends a run to the worker that asks; false: none is open that it could take. */
bool sf_clerk_deal(sf_clerk *clerk, size_t rank, sf_ask_message *ask);
/* No rank has the run any more. */
void sf_clerk_take_off(sf_clerk *clerk, size_t index);
/* Records what a rank reports about a run that was dealt to it. */
void sf_clerk_record(sf_clerk *clerk, size_t from, sf_message_kind kind, sf_coder *message);

#endif
