/* What the kernels need to know before and while keys are chosen. */
#ifndef SF_ATTENTION_ROOM_H
#define SF_ATTENTION_ROOM_H

#include "attention/attention.h"

/* Most keys that this query of a mechanism keeps among T positions, extras and globals included. */
size_t sf_attention_most_kept_by(const sf_attention *attention, size_t query, size_t T);

/* From now on, a prepare() of a built-in selector that this thread calls gives up once *stop is set: its scratch must
 * not be read then. NULL, the default: never. */
void sf_preparation_obey(const atomic_int *stop);
bool sf_preparation_is_stopped(void);

#endif
