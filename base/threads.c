#include "base/threads.h"

#include <omp.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/memory.h"

static size_t by_default; /* 0: one per core */

/* OpenMP keeps the threads of a region for the next one of the same thread. In a process that this thread forks they do
 * not exist, and a region would wait for them forever. */
static _Thread_local bool has_threads, lost;
static pthread_once_t watched = PTHREAD_ONCE_INIT;

static void after_fork(void) {
    lost = has_threads;
}

static void watch_forks(void) {
    pthread_atfork(NULL, NULL, after_fork);
}

void sf_threads_by_default(size_t threads) {
    by_default = threads;
}

int sf_threads_for(size_t asked) {
    if (omp_in_parallel() || lost) return 1;
    if (asked == 0) asked = by_default;
    return asked > 0 ? (int)asked : omp_get_num_procs();
}

typedef struct gate { /* where threads wait until all are started: those of a region exist at the same time, too */
    pthread_mutex_t lock;
    pthread_cond_t opens;
    bool open;
} gate;

static void *wait_at(void *context) {
    gate *at = context;
    pthread_mutex_lock(&at->lock);
    while (!at->open) pthread_cond_wait(&at->opens, &at->lock);
    pthread_mutex_unlock(&at->lock);
    return NULL;
}

/* Starts the threads and lets them end again. Returns how many could be started, and the reason if not all. */
static size_t try_threads(int *why, pthread_t *threads, size_t count) {
    gate at = {.lock = PTHREAD_MUTEX_INITIALIZER, .opens = PTHREAD_COND_INITIALIZER};
    size_t started = 0;
    *why = 0;
    while (started < count && (*why = pthread_create(&threads[started], NULL, wait_at, &at)) == 0) started++;
    pthread_mutex_lock(&at.lock);
    at.open = true;
    pthread_cond_broadcast(&at.opens);
    pthread_mutex_unlock(&at.lock);
    for (size_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    return started;
}

sf_status sf_threads_start(size_t threads) {
    if (threads <= 1 || omp_in_parallel()) return SF_OK;
    if (lost)
        return sf_fail(SF_UNSUPPORTED,
                       "the threads of this work stayed in the process that was forked; open it again here");
    pthread_once(&watched, watch_forks);
    has_threads = true;
    pthread_t *tried;
    int why;
    SF_TRY(SF_NEW(&tried, threads - 1));
    const size_t started = try_threads(&why, tried, threads - 1);
    sf_release(tried);
    if (started < threads - 1)
        return sf_fail(SF_NO_MEMORY,
                       "%zu threads were asked for, but the system can start only %zu: %s; ask for fewer with "
                       "--threads, or raise the limit on processes (ulimit -u) or on memory (ulimit -v)",
                       threads, started + 1, strerror(why));
#pragma omp parallel num_threads((int)threads)
    (void)omp_get_thread_num(); /* OpenMP starts its own now, before others take memory and processes */
    return SF_OK;
}

int sf_threads_at_most(size_t asked) {
    const int threads = sf_threads_for(asked);
    return sf_threads_start((size_t)threads) == SF_OK ? threads : 1;
}
