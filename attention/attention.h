/* The built-in mechanisms, and the functions through which the kernels use one. semfocus/plugin.h defines what the file
 * of a selector or a weighting provides; CONTRIBUTING.md walks through adding one. */
#ifndef SF_ATTENTION_ATTENTION_H
#define SF_ATTENTION_ATTENTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/random.h"
#include "semfocus/attention.h"
#include "semfocus/plugin.h"

extern const sf_selector sf_selector_full, sf_selector_banded, sf_selector_block, sf_selector_topk, sf_selector_bottomk,
    sf_selector_random, sf_selector_topp, sf_selector_within, sf_selector_blocktopk, sf_selector_kmeans,
    sf_selector_lsh;
extern const sf_selector sf_extra_global, sf_extra_random, sf_extra_sink, sf_extra_st, sf_extra_window;
extern const sf_weighting sf_weighting_softmax, sf_weighting_softmax1, sf_weighting_sigmoid, sf_weighting_softplus,
    sf_weighting_sparsemax, sf_weighting_entmax15, sf_weighting_entmax, sf_weighting_fastmax, sf_weighting_doubly;
extern const sf_score_transform sf_transform_rope, sf_transform_qknorm, sf_transform_alibi, sf_transform_softcap,
    sf_transform_logn;

/* As the ids of runs have it, which stay what they were: with 1e01 for 10 and the like. */
void sf_attention_spell_in_ids(char out[SF_SPELLING_SIZE], const sf_attention *attention);

/* What the selector and the extras look at, together: SF_BY_... */
unsigned sf_attention_selects_by(const sf_attention *attention);
/* Whether every query keeps all keys that it sees. */
static inline bool sf_attention_keeps_visible(const sf_attention *attention) {
    return attention->selector == &sf_selector_full;
}
static inline bool sf_attention_has_extras(const sf_attention *attention) {
    return attention->extras[0].part != NULL;
}
/* Keys 0..visible-1 of T are visible to a query. */
static inline size_t sf_attention_visible(const sf_attention *attention, size_t query, size_t T) {
    return attention->causal ? query + 1 : T;
}
/* Makes the mechanism that of a causal model, or not. SF_BAD_INPUT if a part would let later tokens leak into earlier
 * ones. */
sf_status sf_attention_set_causal(sf_attention *attention, bool causal);

/* The angle of @rope for channels 2 * pair and 2 * pair + 1, and what @qknorm multiplies normalized vectors by. */
double sf_rope_angle(size_t position, size_t pair, size_t D);
double sf_qknorm_factor(const double *arguments, size_t D, bool is_key);

/* The blocks that a query of blocktopk keeps, ascending; returns their number. */
size_t sf_blocktopk_choose(uint32_t *blocks /* [m] */, const sf_query *query);

/* Whether the theory of softmax holds for the mechanism: the weighting is softmax and the kept set is fixed, drawn by
 * chance, or a given number of extreme scores. */
bool sf_attention_has_theory(const sf_attention *attention);
/* Because of what it does not: "weighting", "sigmoid". NULL if it does. */
typedef struct sf_theory_gap {
    const char *kind, *name;
} sf_theory_gap;
sf_theory_gap sf_attention_theory_gap(const sf_attention *attention);
/* SF_UNSUPPORTED, "`what` not defined for ...", if it does not. */
sf_status sf_attention_check_theory(const sf_attention *attention, const char *what);

/* A mechanism that keeps every key of `length` anyway becomes full. */
sf_attention sf_attention_resolve(sf_attention attention, size_t length);

/* Positions the model sees for sequences of `length`: rounded up to a multiple of k if requested, plus the globals. */
size_t sf_attention_positions(const sf_attention *attention, size_t length, bool pad_to_multiple);

/* Most keys that any query of a mechanism keeps among T positions: global tokens keep all (see attention/room.h). */
size_t sf_attention_most_kept(const sf_attention *attention, size_t T);
/* The same of a selector or extra alone. */
size_t sf_selector_most_kept(const sf_selector *selector, size_t keys, size_t k, const double *arguments);

/* What the queries of a head have in common, for selectors that use vectors or prepare(). */
typedef struct sf_head_state {
    sf_head_input input;
    void *scratch; /* [sf_head_scratch_size] */
} sf_head_state;

/* The kept keys of one query among T positions, the last `globals` of which are global tokens: those of the selector
 * and of the extras. If a part breaks its rules, this is recorded and the query keeps its own key. `head` is for
 * selectors that use vectors or prepare(); may be NULL for others. */
size_t sf_attention_keep(uint32_t *kept /* [2T] */, const sf_attention *attention, size_t query, size_t T,
                         const double *scores /* [T] */, sf_draws *draws);
size_t sf_attention_keep_in(uint32_t *kept /* [2T] */, const sf_attention *attention, const sf_head_state *head,
                            size_t query, size_t T, const double *scores /* [T] */, sf_draws *draws);

/* Weights of kept scores and gradients of the scores. A weighting that turns finite numbers into NaN or infinity is
 * recorded. */
void sf_attention_weigh(double *weights /* [kept] */, const sf_attention *attention, const double *scores /* [kept] */,
                        size_t kept, size_t visible);
void sf_attention_weigh_backward(double *dscores /* [kept] */, const sf_attention *attention,
                                 const double *dweights /* [kept] */, const double *weights /* [kept] */,
                                 const double *scores /* [kept] */, size_t kept, size_t visible);

/* The same for all queries of a head at once, for weightings over the whole matrix. */
static inline bool sf_attention_weighs_matrix(const sf_attention *attention) {
    return attention->weighting->weigh_matrix != NULL || attention->weighting->weigh_batch != NULL;
}
size_t sf_attention_matrix_scratch(const sf_attention *attention, size_t T); /* doubles; 0 for other weightings */
void sf_attention_weigh_matrix(double *weights, const sf_attention *attention, const double *scores,
                               sf_weighing_matrix *rows);
void sf_attention_weigh_matrix_backward(double *dscores, const sf_attention *attention, const double *dweights,
                                        const double *weights, const double *scores, sf_weighing_matrix *rows);

/* The same for the sequences of a batch, for weightings that are called once for all of them. */
typedef struct sf_weighed_batch {
    double **weights, **slopes; /* [count]; slopes: dweights, and then dscores in their place */
    const double **scores;      /* [count] */
    sf_weighing_matrix *rows;   /* [count] */
    size_t count;
} sf_weighed_batch;
static inline bool sf_attention_weighs_batch(const sf_attention *attention) {
    return attention->weighting->weigh_batch != NULL;
}
void sf_attention_weigh_batch(const sf_weighed_batch *batch, const sf_attention *attention);
void sf_attention_weigh_batch_backward(const sf_weighed_batch *batch, const sf_attention *attention);

/* The scores of some keys of a query after the score transforms, and back; those of queries and keys are not among
 * them. `steps` holds the scores before each transform and after the last. */
typedef struct sf_scored_keys {
    size_t query, count, T;
    const uint32_t *keys; /* [count] */
    size_t head, heads;
} sf_scored_keys;
size_t sf_attention_score_steps(const sf_attention *attention); /* how many score transforms there are */
void sf_attention_transform_scores(double *steps /* [score steps + 1, count] */, const sf_attention *attention,
                                   const sf_scored_keys *row);
void sf_attention_transform_scores_backward(double *dscores /* [count], in place */, const double *steps,
                                            const sf_attention *attention, const sf_scored_keys *row);

/* Queries or keys of a head after the transforms that turn them, in place, and back. */
bool sf_attention_turns(const sf_attention *attention);
void sf_attention_turn(double *rows /* [T,D], `stride` apart */, const sf_attention *attention,
                       const sf_head_input *head, bool are_keys, double *scratch /* [D] */);
void sf_attention_turn_backward(double *drows, const double *rows /* before they were turned */,
                                const sf_attention *attention, const sf_head_input *head, bool are_keys,
                                double *scratch /* [SF_MOST_TRANSFORMS+2,D] */);

/* How a part broke its rules, recorded by the first thread that saw it. */
typedef struct sf_fault {
    atomic_int state;
    char message[480]; /* the traceback of a part written in Python needs room */
} sf_fault;
/* One that another process saw. */
void sf_attention_record_fault(const sf_attention *attention, const char *sentence);
/* SF_OK, or SF_BAD_INPUT and the sentence: the results computed since then are invalid. */
sf_status sf_attention_check_fault(const sf_attention *attention);
/* The same without the sentence; cheap. */
static inline bool sf_attention_is_faulty(const sf_attention *attention) {
    return attention->fault != NULL && atomic_load_explicit(&attention->fault->state, memory_order_relaxed) != 0;
}

/* Whether a mechanism needs an sf_head_state. */
static inline bool sf_attention_needs_head(const sf_attention *attention) {
    const sf_selector *selector = attention->selector;
    return (selector->selects_by & SF_BY_VECTORS) != 0 || selector->prepare != NULL || selector->prepare_batch != NULL;
}
size_t sf_head_scratch_size(const sf_attention *attention, size_t T, size_t D, size_t heads);
/* Fills in the rest of state->input (vectors, stride, D, block, head and heads are set) and calls prepare(). */
void sf_head_prepare(sf_head_state *state, const sf_attention *attention, size_t T, sf_index key_index);
/* Of selectors that prepare a batch at once: for each sequence its scores (and the rest of the input, as above), then
 * what all of them keep. */
static inline bool sf_attention_prepares_batch(const sf_attention *attention) {
    return attention->selector->prepare_batch != NULL;
}
void sf_head_score(double *scores /* [T,T] without globals */, sf_head_state *state, const sf_attention *attention,
                   size_t T);
/* Bytes that such a selector writes for a sequence, a multiple of SF_ALIGNMENT. */
size_t sf_head_choice_size(const sf_attention *attention, size_t T, size_t D, size_t heads);

/* The draws of one query for a selector by chance: at most 2^15 calls of Philox per query. */
static inline sf_draws sf_query_draws(sf_index index, size_t query) {
    sf_draws draws = sf_draws_at(index);
    draws.next_draw = (uint32_t)query << 15;
    return draws;
}

/* Kept keys of all T queries: those of query i are keys[offsets[i] .. offsets[i + 1] - 1], or the first of these if the
 * number of kept keys varies. */
typedef struct sf_pattern {
    size_t *offsets; /* [T+1] */
    uint32_t *keys;  /* SF_BY_POSITION: the kept keys; NULL otherwise (chosen during forward) */
    bool varies;     /* how many keys a query keeps is only known during forward */
} sf_pattern;

sf_status sf_pattern_create(sf_pattern *out, const sf_attention *attention, size_t T);
void sf_pattern_destroy(sf_pattern *pattern);

#endif
