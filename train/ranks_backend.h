/* --data-parallel: all ranks train one model together. */
#ifndef SF_TRAIN_RANKS_BACKEND_H
#define SF_TRAIN_RANKS_BACKEND_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/status.h"
#include "semfocus/settings.h"

struct sf_backend;

/* Whether the settings ask for it and there are other ranks. */
bool sf_ranks_share_model(const sf_execution *execution);

/* Which device that is: GPUs only if they were asked for. SF_UNSUPPORTED if this rank has none. */
sf_status sf_ranks_device(sf_device *device);

/* The backend, at rank 0. Work of other ranks ends soon after *stop is set; stop may be NULL. A rank that gives no sign
 * of life for `timeout` seconds is lost, and the backend with it. */
const struct sf_backend *sf_ranks_backend(const atomic_int *stop, double timeout, sf_device device);
/* Where sentences for the user go. */
void sf_ranks_note_to(void (*say_it)(void *context, const char *sentence), void *context);

/* The other ranks: do what the backend orders, until it releases them. */
void sf_ranks_follow(void);
/* At rank 0. */
void sf_ranks_release(void);

#endif
