/* Seconds of a monotonic clock, for durations. */
#ifndef SF_BASE_CLOCK_H
#define SF_BASE_CLOCK_H

#include <time.h>

static inline double sf_clock_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
