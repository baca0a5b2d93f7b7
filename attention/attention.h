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
    sf_selector_random;
extern const sf_weighting sf_weighting_softmax;

/* Whether the theory of softmax holds for the mechanism: the weighting is softmax and the kept set is fixed, drawn by
 * chance, or a given number of extreme scores. */
bool sf_attention_has_theory(const sf_attention *attention);
/* SF_UNSUPPORTED, "`what` not defined for ...", if it does not. */
sf_status sf_attention_check_theory(const sf_attention *attention, const char *what);

/* A mechanism that keeps every key of `length` anyway becomes full. */
sf_attention sf_attention_resolve(sf_attention attention, size_t length);

/* Positions the model sees for sequences of `length`: rounded up to a multiple of k if requested, plus the globals. */
size_t sf_attention_positions(const sf_attention *attention, size_t length, bool pad_to_multiple);

/* Most keys that a query of a mechanism keeps among T positions, globals included. */
size_t sf_attention_most_kept(const sf_attention *attention, size_t T);

/* What the queries of a head have in common, for selectors that use vectors or prepare(). */
typedef struct sf_head_state {
    sf_head_input input;
    void *scratch; /* [sf_head_scratch_size] */
} sf_head_state;

/* The kept keys of one query among T positions, the last `globals` of which are global tokens. If a selector breaks its
 * rules, this is recorded and the query keeps its own key. `head` is for selectors that use vectors or prepare(); may
 * be NULL for others. */
size_t sf_attention_keep(uint32_t *kept /* [T] */, const sf_attention *attention, size_t query, size_t T,
                         const double *scores /* [T] */, sf_draws *draws);
size_t sf_attention_keep_in(uint32_t *kept /* [T] */, const sf_attention *attention, const sf_head_state *head,
                            size_t query, size_t T, const double *scores /* [T] */, sf_draws *draws);

/* Weights of kept scores and gradients of the scores. A weighting that turns finite numbers into NaN or infinity is
 * recorded. */
void sf_attention_weigh(double *weights /* [kept] */, const sf_attention *attention, const double *scores /* [kept] */,
                        size_t kept, size_t visible);
void sf_attention_weigh_backward(double *dscores /* [kept] */, const sf_attention *attention,
                                 const double *dweights /* [kept] */, const double *weights /* [kept] */,
                                 const double *scores /* [kept] */, size_t kept, size_t visible);

/* How a part broke its rules, recorded by the first thread that saw it. */
typedef struct sf_fault {
    atomic_int state;
    char message[256];
} sf_fault;
/* SF_OK, or SF_BAD_INPUT and the sentence: the results computed since then are invalid. */
sf_status sf_attention_check_fault(const sf_attention *attention);
/* The same without the sentence; cheap. */
static inline bool sf_attention_is_faulty(const sf_attention *attention) {
    return attention->fault != NULL && atomic_load_explicit(&attention->fault->state, memory_order_relaxed) != 0;
}

/* Whether a mechanism needs an sf_head_state. */
static inline bool sf_attention_needs_head(const sf_attention *attention) {
    return (attention->selector->selects_by & SF_BY_VECTORS) != 0 || attention->selector->prepare != NULL;
}
size_t sf_head_scratch_size(const sf_attention *attention, size_t T, size_t D, size_t heads);
/* Fills in the rest of state->input (vectors, stride, D, block, head and heads are set) and calls prepare(). */
void sf_head_prepare(sf_head_state *state, const sf_attention *attention, size_t T, sf_index key_index);

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
