/* The runs of a store as the live page shows them, and since when each has been as it is.
 *
 * Versions count the changes that were seen. A page that knows version V asks for the rows that changed after it; after
 * a run disappeared, it gets all of them. */
#ifndef SF_SERVE_SNAPSHOT_H
#define SF_SERVE_SNAPSHOT_H

#include <stdint.h>
#include <stdio.h>

#include "semfocus/store.h"

typedef struct sf_live_row {
    int64_t number;
    char id[SF_RUN_ID_SIZE];
    char *text; /* JSON */
    uint64_t version;
    size_t first_epochs; /* when it was first seen running, in this stretch; for the time left */
    double first_seen;   /* seconds; 0: it is not running */
} sf_live_row;

typedef struct sf_snapshot { /* start with {0} */
    sf_live_row *rows;       /* [count], by number */
    size_t count, room;
    uint64_t version, reset; /* reset: pages that are older get everything */
    uint64_t finished;       /* the version at which a run last ended: the report has something new */
    size_t ended;            /* runs that are over */
    char problem[512];       /* why the store cannot be read; empty: it can */
} sf_snapshot;

/* Reads the store; NULL: there is none yet. *changed: whether the version did. */
sf_status sf_snapshot_update(sf_snapshot *snapshot, sf_store *store, double now, bool *changed);
/* A store that cannot be read is a change, too. */
void sf_snapshot_fail(sf_snapshot *snapshot, const char *problem, bool *changed);
void sf_snapshot_write(FILE *out, const sf_snapshot *snapshot, uint64_t since);
void sf_snapshot_close(sf_snapshot *snapshot);

/* Settings, labels, environment and curve of one run as JSON. */
sf_status sf_live_run_write(FILE *out, sf_store *store, const char *id);

#endif
