/* The side of rank 0 in a job of several ranks: it deals the runs of its session to the other ranks, and records in the
 * store what they report. It is fed with their messages one at a time, and never waits for any of them. */
#ifndef SF_STUDY_CLERK_H
#define SF_STUDY_CLERK_H

#include "study/rank_messages.h"
#include "study/session_state.h"

typedef struct sf_clerk sf_clerk;

typedef struct sf_outbox {
    sf_status (*send)(void *context, size_t to, sf_coder *message); /* takes the message over */
    void *context;
} sf_outbox;

sf_status sf_clerk_create(sf_clerk **out, size_t ranks, const sf_outbox *outbox);
void sf_clerk_destroy(sf_clerk *clerk); /* NULL is legal */

void sf_clerk_receive(sf_clerk *clerk, size_t from, const unsigned char *bytes, size_t size);
/* Several times per second: passes on a stop, serves ranks that wait for a run, and gives the runs of ranks that have
 * been silent for too long to others. */
void sf_clerk_tick(sf_clerk *clerk, double now /* seconds of base/clock.h */);

/* From now on until it is closed, the runs of this session are dealt. One at a time. */
sf_status sf_clerk_open_session(sf_clerk *clerk, sf_session_state *session);
/* Runs that other ranks still have are left as their checkpoints are. */
void sf_clerk_close_session(sf_clerk *clerk);
/* Runs of the session that other ranks have. */
size_t sf_clerk_under_way(sf_clerk *clerk);

/* Tells the other ranks to leave; then how many have not answered. */
void sf_clerk_dismiss(sf_clerk *clerk);
size_t sf_clerk_remaining(sf_clerk *clerk);

/* What must be equal on all ranks: version, numerics, and how values are laid out. */
const char *sf_clerk_program(void);

#endif
