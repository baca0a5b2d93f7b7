/* Joining stores, for studies whose runs were trained in several: runs, curves, measures, findings, loss surfaces and
 * checkpoint files.
 *
 *   const char *shards[] = {"shard-1", "shard-2", "shard-3"};
 *   sf_merge_result merged;
 *   sf_store_merge(&merged, "all", shards, 3, NULL);
 *
 * The result does not depend on the order of the stores, and merging a store a second time changes nothing. Of a run
 * that several stores have, the target gets the longest curve, the latest checkpoint, and everything that was measured.
 *
 * First everything in the sources is verified, and compared where a run is in more than one store. Nothing is written
 * if anything is damaged or differs in a single bit. Then runs are written in batches, each in one transaction after
 * its checkpoint files are complete and synced: after a crash, the same call continues. The sources are only read. */
#ifndef SEMFOCUS_MERGE_H
#define SEMFOCUS_MERGE_H

#include <stddef.h>

#include "semfocus/api.h"
#include "semfocus/status.h"

SF_API_BEGIN

typedef struct sf_merge_watch {
    const sf_stop_flag *stop; /* not 0: keep what is merged and return; may be NULL */
    /* `what` is "verified" or "merged"; may be NULL, like the others. */
    void (*on_progress)(void *context, const char *what, size_t done, size_t total);
    void (*on_note)(void *context, const char *sentence);
    /* Each damage or conflict, if there are several; a single one is the message of the call. */
    void (*on_problem)(void *context, const char *sentence);
    void *context;
} sf_merge_watch;

typedef struct sf_merge_result {
    size_t runs;      /* of the sources; one that two of them have counts twice */
    size_t added;     /* that the target did not have */
    size_t extended;  /* that it had, but shorter, or with less measured */
    size_t unchanged; /* that it had already */
    size_t left_out;  /* that a process is training right now */
    size_t total;     /* runs of the target afterwards */
} sf_merge_result;

/* The target is created if it does not exist. SF_BAD_INPUT: a source is not a store, is named twice or is the target.
 * SF_UNSUPPORTED: its runs are of another numerics version. SF_IO_ERROR: damage, a conflict, a full disk, or runs were
 * left out; *out then says what was merged. SF_INTERRUPTED: stopped; what was merged is kept. `watch` may be NULL. */
sf_status sf_store_merge(sf_merge_result *out, const char *into, const char *const *sources /* [count] */, size_t count,
                         const sf_merge_watch *watch);

SF_API_END

#endif
