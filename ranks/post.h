/* Messages between the ranks of a job. A thread of its own sends and receives them, so that nobody waits for a message
 * to leave, and a rank that computes still answers. It sleeps while there is nothing to do: MPI's own waiting would
 * keep a core busy. */
#ifndef SF_RANKS_POST_H
#define SF_RANKS_POST_H

#include "ranks/coder.h"

typedef struct sf_listener { /* called from the thread of the post, one call at a time */
    void (*on_message)(void *context, size_t from, const unsigned char *bytes, size_t size);
    void (*on_tick)(void *context); /* about ten times per second */
    void *context;
} sf_listener;

sf_status sf_post_open(const sf_listener *listener);
/* Sends what the coder has written and takes its bytes over. Messages from one rank to another arrive in order. */
sf_status sf_post_send(size_t to, sf_coder *message);
/* Waits until every message has left, but no longer than this; then no further call of the listener is made. */
void sf_post_close(double seconds);

#endif
