/* A request to stop, a flag that long work polls. The caller owns the flag; once set, it stays set until the work has
 * ended. */
#ifndef SF_BASE_STOP_H
#define SF_BASE_STOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

static inline bool sf_stop_asked(const atomic_int *stop /* may be NULL: never stops */) {
    return stop != NULL && atomic_load_explicit(stop, memory_order_relaxed) != 0;
}

#endif
