/* The stores that are merged: which they are, which of them are open, and which runs several of them have. */
#ifndef SF_STORE_MERGE_SOURCES_H
#define SF_STORE_MERGE_SOURCES_H

#include <sys/types.h>

#include "store/merge.h"

typedef struct sf_source {
    const char *folder;
    dev_t device;
    ino_t inode;      /* of runs.db */
    sf_store *store;  /* NULL: not open */
    size_t used;      /* when it was lent last */
    int64_t *numbers; /* [count]: of its runs */
    size_t count;
} sf_source;

typedef struct sf_holder { /* a store that has a run of this id, now or earlier */
    uint64_t key;          /* hash of the id */
    size_t source;
} sf_holder;

typedef struct sf_sources {
    sf_source *each; /* [count] */
    size_t count, runs;
    size_t lent;        /* how often one was */
    sf_holder *holders; /* [holder_count], sorted by key, then by source */
    size_t holder_count, holder_room;
    const sf_merge_watch *watch;
} sf_sources;

/* Looks at every store: whether it is one, of our numerics, named once and not the target; which runs it has. */
sf_status sf_sources_open(sf_sources *out, const char *const *folders, size_t count, const char *into,
                          const sf_merge_watch *watch);
void sf_sources_close(sf_sources *sources);

/* The store, as it is at one moment from when it is opened. Only a few are open at a time: those that were lent last.
 */
sf_status sf_sources_lend(sf_store **out, sf_sources *sources, size_t i);

/* Calls `each` for every source before this one that may have the run. */
sf_status sf_sources_each_holder(const sf_sources *sources, const sf_stored_run *run, size_t before,
                                 sf_status (*each)(void *context, size_t source), void *context);

#endif
