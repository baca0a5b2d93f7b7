/* Internals of merging (semfocus/merge.h).
 *
 * A run has one curve: two stores that trained it have the same rows, as far as both go. So of two versions of a run,
 * the merged one has the longer curve with the entry that belongs to it, the later checkpoint, and the union of what
 * was measured. This does not depend on which version comes first, nor on what was merged before. */
#ifndef SF_STORE_MERGE_H
#define SF_STORE_MERGE_H

#include "io/atomic_file.h"
#include "semfocus/merge.h"
#include "store/store_inside.h"

typedef struct sf_version { /* a run as one store has it */
    sf_store *store;
    sf_stored_run run;
} sf_version;

/* The run with this number, verified, under its id of today if its data is here. */
sf_status sf_version_read(sf_version *out, sf_store *store, int64_t number);
/* The same run in another store, also if one of them knows it by its earlier id only. */
sf_status sf_version_find(sf_version *out, bool *found, sf_store *store, const sf_stored_run *run);
/* Its rows against their seals, and its checkpoint files. *stop as for sf_stop_asked(). */
sf_status sf_version_verify(const sf_version *version, const atomic_int *stop);

enum { SF_CONFLICT_SIZE = 1024 };
typedef struct sf_difference {       /* between two versions of a run */
    char conflict[SF_CONFLICT_SIZE]; /* a sentence about the first bit in which they differ; empty: none */
    char where[128], values[2][64];  /* its parts: "epoch 3: tr_ce", and both values */
    const struct sf_version *first;  /* whose value is the first */
    int preferred;                   /* whose entry and curve the merged run gets: below 0 a, above 0 b, 0 the same */
    size_t missing;                  /* measures, findings and points of surfaces that only b has */
} sf_difference;
/* Both must have been verified. */
sf_status sf_version_compare(sf_difference *out, const sf_version *a, const sf_version *b);

typedef struct sf_join { /* what becomes of a run of the target */
    sf_version source, target;
    bool is_new;                 /* then there is no target */
    bool takes_entry;            /* and the curve, from the source */
    bool takes_last, takes_best; /* which checkpoints come from the source */
    bool adds_rows;              /* of measures, findings, surfaces */
    bool moves;                  /* to a lower number, because it came earlier in the source */
    sf_stored_run joined;        /* id, earlier id, epochs of checkpoints and number */
} sf_join;
sf_status sf_join_decide(sf_join *join, sf_store *target);
bool sf_join_changes(const sf_join *join);

/* The checkpoint files that the joined run needs and the target does not have, not yet committed: at most two, added to
 * files[*count]. */
enum { SF_JOIN_FILES = 2 };
sf_status sf_join_copy_files(sf_atomic_file *files, size_t *count, const sf_join *join, const atomic_int *stop);
/* Within a transaction of the target. */
sf_status sf_join_write(sf_join *join);

/* Removes checkpoint files that the rows of their runs do not name, or no longer. Failures do no harm. */
void sf_merge_tidy(const sf_store *store);

typedef struct sf_child_table { /* rows that belong to a run, or to a surface */
    const char *rows;           /* of one owner, whose number is the first column, in the order of their keys */
    const char *insert;         /* unless there is one with this key */
    sf_seal_kind kind;
    int columns, keys; /* the first `keys` columns tell rows apart, and the owner is one of them */
    int compared;      /* columns from this one on may differ: times */
} sf_child_table;
extern const sf_child_table sf_child_epochs, sf_child_measures, sf_child_findings, sf_child_points;

/* The surfaces of a run; their keys follow the first two columns. */
#define SF_MERGED_SURFACES                                                                                             \
    "SELECT number, run, weights, isa, grid, samples, seed, extent FROM surfaces WHERE run = ? ORDER BY number"
/* The surface of this run with the key of the row; 0: there is none. */
sf_status sf_surface_with_key(int64_t *number, const sf_store *store, int64_t run, sqlite3_stmt *key);

#endif
