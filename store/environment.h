/* What a run is computed on, for its record. */
#ifndef SF_STORE_ENVIRONMENT_H
#define SF_STORE_ENVIRONMENT_H

#include <stdbool.h>

#include "semfocus/settings.h"

/* The name of the fact that says how many runs of the session trained at a time. */
#define SF_RUNS_AT_A_TIME "runs_at_a_time"

typedef struct sf_environment {
    const struct sf_backend *backend;
    sf_precision precision;
    int threads;
    int runs_at_a_time;             /* 0: runs of one fleet share their seconds, or conditions changed */
    int ranks;                      /* that train the run together */
    const struct sf_own_facts *own; /* of a user's data; NULL: a built-in task */
} sf_environment;

/* JSON text: version, compiler, cpu, gpu if it was used, backend, instruction set or architecture, threads, ranks
 * if several train the run together, runs at a time, precision with its architecture, numerics; of a user's data, what
 * it is called by (store/own_data_facts.h). `before` is the environment of the epochs that are trained already; NULL:
 * there are none. NULL without memory; free() it. */
char *sf_environment_text(const sf_environment *now, const char *before);

/* Whether all epochs of a run had the same share of the same machine, as far as its environment shows. */
bool sf_environment_is_steady(const char *text);
/* Whether this holds for both runs, with the same share: then their seconds may be compared. */
bool sf_environment_is_alike(const char *a, const char *b);

#endif
