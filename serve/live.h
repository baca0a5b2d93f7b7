/* What the server knows: the store, its runs and their report, each behind a lock. A thread of its own looks at the
 * store every second. */
#ifndef SF_SERVE_LIVE_H
#define SF_SERVE_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct sf_live sf_live;

sf_status sf_live_open(sf_live **out, const char *folder);
void sf_live_close(sf_live *live);
/* From now on, nobody waits any more. */
void sf_live_stop(sf_live *live);

/* Waits until the version is another than this one, at most for these seconds. False: the server ends. */
bool sf_live_wait(sf_live *live, uint64_t *version, double seconds);

/* Answers as text; free() them. `since`: see serve/snapshot.h. A run that is not there is SF_BAD_INPUT. */
sf_status sf_live_runs(char **out, size_t *size, sf_live *live, uint64_t since);
sf_status sf_live_run(char **out, size_t *size, sf_live *live, const char *id);
/* The report of all runs, whose style and scripts are separate files. Made again when runs have ended since. */
sf_status sf_live_report(char **out, size_t *size, sf_live *live);

#endif
