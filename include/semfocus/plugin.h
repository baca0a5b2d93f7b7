/* Plug-ins: selectors, weightings and tasks of your own, in a shared library that semfocus loads at run time.
 *
 *   #include <semfocus/plugin.h>
 *
 *   static size_t keep_strided(uint32_t *kept, const sf_query *query) {
 *       size_t count = 0;
 *       for (size_t j = query->query % query->k; j < query->visible; j += query->k) kept[count++] = (uint32_t)j;
 *       return count;
 *   }
 *   static const sf_selector strided = {SF_SELECTOR, .name = "strided", .summary = "every K-th key",
 *                                       .takes_k = true, .selects_by = SF_BY_POSITION, .keep = keep_strided};
 *   static const sf_plugin plugin = {SF_PLUGIN, .selectors = (const sf_selector *const[]){&strided, NULL}};
 *   const sf_plugin *sf_plugin_entry(const sf_plugin_host *host) { return &plugin; }
 *
 *   cc -shared -fPIC -O2 -ffp-contract=off -I INCLUDE -o strided.so strided.c
 *   semfocus train even-pairs --attention strided:5 --plugin ./strided.so
 *
 * The parts that come with semfocus are written against the same structures. A plug-in needs no symbol of semfocus:
 * what it may call is in the table that its entry point receives.
 *
 * Rules. The functions of a part may be called by any number of threads at once. They keep no state between calls, and
 * compute the same bits from the same input on every machine: random numbers come from the draws they are given, exp
 * and similar functions from the host. They do not allocate: a call may be one of millions.
 *
 * Versions. Every structure begins with its version and its size; SF_SELECTOR and similar macros fill in both. Members
 * are only ever appended, and each time the version goes up by one. semfocus takes every version up to its own, and
 * refuses a newer one. A member that is left out is 0: the default. sf_argument and sf_task_info do not change. */
#ifndef SEMFOCUS_PLUGIN_H
#define SEMFOCUS_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "semfocus/api.h"
#include "semfocus/attention.h"
#include "semfocus/status.h"
#include "semfocus/task.h"

SF_API_BEGIN

typedef struct sf_draws sf_draws; /* random numbers, a function of seed, purpose, epoch, step, sample, block and head */

typedef struct sf_plugin_host { /* what a plug-in may call; valid until the process ends */
    unsigned version;           /* SF_PLUGIN_HOST_VERSION of the program that loads the plug-in, or a later one */
    size_t size;
    /* Random numbers. bound > 0; the unit is uniform on (0,1), the normal has mean 0 and deviation 1. */
    uint32_t (*draw_word)(sf_draws *draws);
    uint32_t (*draw_below)(sf_draws *draws, uint32_t bound); /* uniform on 0..bound-1 */
    double (*draw_unit)(sf_draws *draws);
    double (*draw_normal)(sf_draws *draws);
    /* The same bits on every machine, which libm does not promise. sin and cos: |x| <= 2^20; pow: x >= 0. */
    double (*exp)(double x);
    double (*log)(double x);
    double (*log1p)(double x);
    double (*pow)(double x, double y);
    double (*hypot)(double x, double y);
    double (*erfc)(double x);
    double (*sin)(double x);
    double (*cos)(double x);
    /* Stores a sentence (the value, the rule, the fix) and returns `code`: return host->fail(SF_BAD_INPUT, "..."). */
    sf_status (*fail)(sf_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));
} sf_plugin_host;
#define SF_PLUGIN_HOST_VERSION 1

/* A number after the name of a part: topp:0.9 has one. */
typedef struct sf_argument {
    const char *letter;  /* how listings show it, e.g. "P"; NULL: there is no such argument */
    const char *meaning; /* for messages, e.g. "the mass to keep" */
    double low, high;    /* bounds, both included */
    double initial;      /* its value where the spelling leaves it out */
    bool required;       /* the spelling must have it */
    bool whole;          /* a whole number */
} sf_argument;

enum { SF_MOST_ARGUMENTS = 2 }; /* of a part; the k of `takes_k` is one of them */

/* What a selector looks at; may be combined. */
enum {
    SF_BY_POSITION = 0,   /* at positions alone: a fixed pattern, built once per length */
    SF_BY_SCORE = 1,      /* at the query's scores */
    SF_BY_CHANCE = 2,     /* at random draws */
    SF_BY_VECTORS = 4,    /* at the queries and keys of its head */
    SF_BY_ALL_SCORES = 8, /* in prepare(), at the scores of all queries of its head; with SF_BY_SCORE, which says that
                             scores are computed */
};

/* One head of one block, for one sequence. */
typedef struct sf_head_input {
    size_t T;                /* positions, without global tokens */
    size_t D;                /* channels of a query or key */
    size_t k;                /* from the spelling */
    const double *arguments; /* [SF_MOST_ARGUMENTS], from the spelling, without k */
    size_t block, head, heads;
    bool causal;           /* a query sees only the keys up to its own position */
    const double *queries; /* SF_BY_VECTORS: [T,D], rows `stride` apart */
    const double *keys;    /* SF_BY_VECTORS: [T,D], rows `stride` apart */
    size_t stride;
    sf_draws *sequence_draws; /* SF_BY_CHANCE, in prepare(): of this sequence, step, block and head */
    sf_draws *step_draws;     /* SF_BY_CHANCE, in prepare(): the same for all sequences of a step */
    const double *scores;     /* SF_BY_ALL_SCORES, in prepare(): [T,T], 0 for keys that a query does not see */
    double score_scale;       /* what products of queries and keys are multiplied by */
} sf_head_input;

typedef struct sf_query {
    size_t query, keys;        /* its position, and the number of keys T (without global tokens) */
    size_t k;                  /* from the spelling */
    const double *scores;      /* [keys], SF_BY_SCORE only */
    sf_draws *draws;           /* SF_BY_CHANCE only: of this query, sequence, step, block and head */
    size_t visible;            /* keys 0..visible-1 may be kept; at least 1 */
    const double *arguments;   /* [SF_MOST_ARGUMENTS], from the spelling, without k */
    const sf_head_input *head; /* SF_BY_VECTORS only */
    const void *prepared;      /* what prepare() wrote, or NULL */
} sf_query;

#define SF_SELECTOR_VERSION 4
#define SF_SELECTOR         .version = SF_SELECTOR_VERSION, .size = sizeof(sf_selector)

/* Which keys a query keeps. In the backward pass the kept set is a constant. */
struct sf_selector {
    unsigned version;
    size_t size;
    const char *name, *summary;
    bool takes_k;       /* the first number of the spelling is k, a whole number from 1; T may be rounded up to a
                         * multiple of it */
    bool takes_globals; /* no longer read: +global:G may follow every selector */
    unsigned selects_by;
    /* Writes the kept keys in ascending order and returns how many: at least one, all of them visible. `kept` has room
     * for all keys. */
    size_t (*keep)(uint32_t *kept /* [keys] */, const sf_query *query);
    bool keeps_all_from_k; /* keeps every key if k is at least their number: it is then full attention */
    bool keeps_k;          /* keeps min(k, keys) keys; with SF_BY_POSITION, at most that many */
    bool separates_scores; /* SF_BY_SCORE: no other score lies between kept ones; measures of separation need it */
    sf_argument arguments[SF_MOST_ARGUMENTS]; /* after k */
    /* The largest number of keys that a query can keep, if less than all: saves memory. May be NULL. */
    size_t (*most_kept)(size_t keys, size_t k, const double *arguments);
    /* Called once per block, head and sequence, before keep(): writes `scratch`, which keep() reads as
     * query->prepared. scratch_size says how many bytes that takes, from T, D, k, arguments and heads alone. Both or
     * neither. */
    size_t (*scratch_size)(const sf_head_input *head);
    void (*prepare)(void *scratch /* aligned to 64 bytes */, const sf_head_input *head);
    bool not_causal; /* a query depends on later positions: not for causal models */
    /* From version 2 on. Whether every query keeps all keys: it is then full attention. May be NULL. */
    bool (*keeps_all)(size_t keys, size_t k, const double *arguments);
    /* NULL, or the rule that these numbers break: "the number of buckets must be even". May be NULL. */
    const char *(*refuse)(size_t k, const double *arguments);
    const char *formula, *cost, *source; /* one line each, for listings; may be NULL */
    /* From version 3 on. Called when keep() returned 0: why the run cannot continue. May be NULL. */
    const char *(*failure)(const void *prepared);
    /* From version 4 on. Instead of prepare(), with SF_BY_ALL_SCORES and neither vectors nor draws: called once per
     * batch, block and head, for `count` sequences. The scores and the scratch of a sequence lie behind those of the
     * sequence before, at equal distances. May be NULL. */
    void (*prepare_batch)(void *const *scratch /* [count] */, const sf_head_input *heads /* [count] */, size_t count);
};

/* The kept keys of one query. */
typedef struct sf_weighing {
    size_t kept;             /* how many */
    size_t visible;          /* of how many */
    const double *arguments; /* [SF_MOST_ARGUMENTS], from the spelling */
} sf_weighing;

/* The kept keys of all queries of a head: those of query i are keys[offsets[i] .. offsets[i + 1] - 1]. */
typedef struct sf_weighing_matrix {
    size_t T;
    const size_t *offsets; /* [T+1] */
    const uint32_t *keys;  /* [offsets[T]] */
    const double *arguments;
    double *scratch; /* [matrix_scratch()]: backward sees what forward wrote */
} sf_weighing_matrix;

#define SF_WEIGHTING_VERSION 4
#define SF_WEIGHTING         .version = SF_WEIGHTING_VERSION, .size = sizeof(sf_weighting)

/* How kept scores become weights. */
struct sf_weighting {
    unsigned version;
    size_t size;
    const char *name, *summary;
    sf_argument arguments[SF_MOST_ARGUMENTS];
    void (*weigh)(double *weights /* [kept] */, const double *scores /* [kept] */, const sf_weighing *row);
    /* dscores may be the array of dweights. */
    void (*weigh_backward)(double *dscores /* [kept] */, const double *dweights /* [kept] */,
                           const double *weights /* [kept] */, const double *scores /* [kept] */,
                           const sf_weighing *row);
    /* The theory of softmax holds: stability xi, conditions W and X, Lipschitz bounds. Otherwise they are not defined.
     * Only for softmax itself. */
    bool has_softmax_theory;
    bool not_causal;
    /* Instead of the two above, for weights that depend on other queries, or to be called once per head and sequence.
     * Memory grows with T x T. dscores may be the array of dweights. */
    void (*weigh_matrix)(double *weights, const double *scores, const sf_weighing_matrix *rows);
    void (*weigh_matrix_backward)(double *dscores, const double *dweights, const double *weights, const double *scores,
                                  const sf_weighing_matrix *rows);
    /* From version 2 on: how many doubles the two of them need. */
    size_t (*matrix_scratch)(size_t T, const double *arguments);
    const char *formula, *cost, *source; /* one line each, for listings; may be NULL */
    /* From version 3 on. Called when weigh_matrix() or its backward wrote a NaN: why the run cannot continue; NULL: it
     * is a number like any other. May be NULL. */
    const char *(*failure)(const double *scratch);
    /* From version 4 on. Instead of weigh_matrix() and its backward: called once per batch, block and head, for `count`
     * sequences. Each array of a sequence lies behind that of the sequence before, at equal distances. May be NULL. */
    void (*weigh_batch)(double *const *weights /* [count] */, const double *const *scores /* [count] */,
                        const sf_weighing_matrix *rows /* [count] */, size_t count);
    void (*weigh_batch_backward)(double *const *dscores, const double *const *dweights, const double *const *weights,
                                 const double *const *scores, const sf_weighing_matrix *rows, size_t count);
};

/* A query's scores as a transform sees them. */
typedef struct sf_score_row {
    size_t query, count;
    const uint32_t *keys; /* [count]: the keys of the scores */
    size_t visible;       /* keys of the query */
    size_t head, heads;
    const double *arguments;
} sf_score_row;

/* A query or key as a transform sees it. */
typedef struct sf_vector_place {
    size_t position, D;
    bool is_key;
    size_t head, heads;
    const double *arguments;
} sf_vector_place;

#define SF_SCORE_TRANSFORM_VERSION 2
#define SF_SCORE_TRANSFORM         .version = SF_SCORE_TRANSFORM_VERSION, .size = sizeof(sf_score_transform)

/* Changes scores before the selection (transform), or queries and keys before their product (turn). Not yet for
 * plug-ins. */
struct sf_score_transform {
    unsigned version;
    size_t size;
    const char *name, *summary;
    sf_argument arguments[SF_MOST_ARGUMENTS];
    void (*transform)(double *out /* [count] */, const double *scores /* [count] */, const sf_score_row *row);
    void (*transform_backward)(double *dscores, const double *dout, const double *scores, const sf_score_row *row);
    void (*turn)(double *out /* [D] */, const double *vector /* [D] */, const sf_vector_place *place);
    void (*turn_backward)(double *dvector, const double *dout, const double *vector, const sf_vector_place *place);
    const char *formula, *cost, *source; /* from version 2 on; one line each, for listings */
};

#define SF_TASK_VERSION 2
#define SF_TASK         .version = SF_TASK_VERSION, .size = sizeof(sf_task)

/* What is learned. */
struct sf_task {
    unsigned version;
    size_t size;
    sf_task_info info;
    /* Writes one sequence (1 to `length` tokens, each 0..pad) and its label. Length lies in info.shortest..longest. */
    void (*sample)(int32_t *tokens /* [length] */, size_t *count, int32_t *label, size_t length, sf_draws *draws);
    /* Shares no code with sample. Fails with SF_BAD_INPUT and a sentence on a sequence the task cannot produce. */
    sf_status (*solve)(int32_t *label, const int32_t *tokens /* [count] */, size_t count);
    /* Share, in 0..1, of the most frequent label among sequences of this length; NULL: all labels are equally
     * frequent. */
    double (*chance)(size_t length);
    /* Instead of sample and solve, for one label per position (-1: none here). */
    void (*sample_each)(int32_t *tokens /* [length] */, int32_t *labels /* [length] */, size_t *count, size_t length,
                        sf_draws *draws);
    sf_status (*solve_each)(int32_t *labels /* [count] */, const int32_t *tokens /* [count] */, size_t count);
    /* From version 2 on, instead of the functions above: for tasks that come in variants. Names of the settings that
     * say which (of those of sf_task_options), and NULL; others are refused. */
    const char *const *settings;
    /* Changes pad, classes, shortest and longest of a copy of `info` to those of the variant. SF_BAD_INPUT and a
     * sentence if there is no such variant. May be NULL. */
    sf_status (*adapt)(sf_task_info *info, const sf_task_options *options);
    bool labels_each; /* they write one label per position; otherwise labels[0] alone */
    void (*sample_with)(int32_t *tokens /* [length] */, int32_t *labels /* [length] */, size_t *count, size_t length,
                        const sf_task_options *options, sf_draws *draws);
    sf_status (*solve_with)(int32_t *labels /* [count] */, const int32_t *tokens /* [count] */, size_t count,
                            const sf_task_options *options);
    double (*chance_with)(size_t length, const sf_task_options *options); /* NULL: as `chance` */
};

#define SF_PLUGIN_VERSION 1
#define SF_PLUGIN         .version = SF_PLUGIN_VERSION, .size = sizeof(sf_plugin)

/* What a plug-in registers: lists that end with NULL; a list that is left out is empty. Names are lower-case letters,
 * digits and '-', and begin with a letter. */
typedef struct sf_plugin {
    unsigned version;
    size_t size;
    const sf_selector *const *selectors;
    const sf_weighting *const *weightings;
    const sf_task *const *tasks;
    const sf_selector *const *extras; /* their kept keys are added to a selector's; not yet for plug-ins */
    const sf_score_transform *const *score_transforms; /* not yet for plug-ins */
} sf_plugin;

/* What a plug-in exports: called once. The table and all that it points to stay valid. NULL: the plug-in cannot work
 * with this host. */
const sf_plugin *sf_plugin_entry(const sf_plugin_host *host);

/* For programs that load plug-ins. Load them first: no other function of the library may run at the same time, on any
 * thread. A file that is already loaded is skipped. SF_BAD_INPUT, with a sentence and nothing registered, if the file
 * is not a plug-in that this version can run. */
sf_status sf_plugin_load(const char *path);
/* Every file of a list. */
sf_status sf_plugin_load_all(const char *paths, char separator);

/* The same for parts that are compiled into the program. `file` is the file with their code, "/proc/self/exe" for the
 * program; its hash enters the ids of runs that use them. The table and all that it points to stay valid. */
sf_status sf_plugin_register(const sf_plugin *plugin, const char *file);
/* The same for parts whose code is no file for this machine, as those written in Python: the hash of `source` enters
 * the ids of runs. `name` is shown where others show their file. A table of the same name replaces the earlier one;
 * runs of the earlier parts must have ended. */
sf_status sf_plugin_register_text(const sf_plugin *plugin, const char *name, const char *source);
/* What a plug-in's entry point receives. */
const sf_plugin_host *sf_plugin_host_table(void);

/* The file that a part came from; NULL: it is built in. */
typedef struct sf_plugin_file {
    const char *path; /* absolute */
    const char *name; /* without its folder */
    uint64_t hash;    /* of its bytes: enters the id of runs that use a part of it */
} sf_plugin_file;
const sf_plugin_file *sf_plugin_file_of(const void *part /* an sf_selector, sf_weighting or sf_task */);
const sf_plugin_file *sf_plugin_file_at(size_t i); /* the i-th loaded, NULL past the end */

SF_API_END

#endif
