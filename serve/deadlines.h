/* How long clients may take to say what they want. An idle timeout alone is not enough: every byte begins it anew. */
#ifndef SF_SERVE_DEADLINES_H
#define SF_SERVE_DEADLINES_H

#include <stddef.h>

#include "base/status.h"

typedef struct sf_deadlines sf_deadlines;
typedef struct sf_deadline sf_deadline; /* of one connection */

/* A thread closes connections that have been waiting for a complete request for more than `seconds`. */
sf_status sf_deadlines_open(sf_deadlines **out, size_t most_connections, double seconds);
/* When all connections have ended. */
void sf_deadlines_close(sf_deadlines *deadlines);

/* A connection waits for its first request; NULL: there are too many. */
sf_deadline *sf_deadline_begin(sf_deadlines *deadlines, int socket);
/* Its request is complete; then, its answer is, and it waits for the next request. */
void sf_deadline_pause(sf_deadline *deadline);
void sf_deadline_renew(sf_deadline *deadline);
/* Before the socket is closed. */
void sf_deadline_end(sf_deadline *deadline);

#endif
