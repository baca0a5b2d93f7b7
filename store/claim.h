/* Claims: a run under way is locked by its process, and the kernel drops the lock when the process dies. One byte of
 * the file `claims` per run, under an open-file-description lock, so threads of one process exclude each other too. */
#ifndef SF_STORE_CLAIM_H
#define SF_STORE_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* *claim is a file descriptor to release, or -1 if another process holds the run. */
sf_status sf_claim_take(int *claim, const char *folder, int64_t run);
/* Locks the whole store while it is opened; waits until it is free. Byte 0, which no run has. */
sf_status sf_claim_store(int *claim, const char *folder);
/* Several runs under one descriptor, which is opened for the first of them (*claim is -1); *taken: whether this one is
 * ours now. */
sf_status sf_claim_take_also(bool *taken, int *claim, const char *folder, int64_t run);
/* So that one process at a time merges into a store; *claim as above. A byte that no run has. */
sf_status sf_claim_merging(int *claim, const char *folder);
void sf_claim_give_back(int claim);
bool sf_claim_is_held(const char *folder, int64_t run);
bool sf_claim_is_any_held(const char *folder);

#endif
