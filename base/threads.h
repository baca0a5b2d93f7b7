/* How many threads a parallel region uses. Results never depend on the answer.
 *
 * OpenMP's runtime ends the process when it cannot start a thread, so threads are tried first: call sf_threads_start()
 * before the first region of that many threads. */
#ifndef SF_BASE_THREADS_H
#define SF_BASE_THREADS_H

#include <stddef.h>

#include "base/status.h"

/* `asked` threads, or one per available core where asked is 0; one inside a parallel region, and in the thread that
 * goes on in a forked process. */
int sf_threads_for(size_t asked);
/* Where asked is 0, this many from now on: several processes share the cores. */
void sf_threads_by_default(size_t threads);

/* Starts the threads of regions of this size, which OpenMP keeps from then on. SF_NO_MEMORY if a limit on processes or
 * memory prevents it. */
sf_status sf_threads_start(size_t threads);

/* As many as sf_threads_for() says if they can be started, one otherwise: for work that a single thread can also do. */
int sf_threads_at_most(size_t asked);

#endif
