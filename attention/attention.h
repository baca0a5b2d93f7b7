/* What a mechanism's file provides, and the questions the kernels ask. Adding a selector or a weighting: one file with
 * its vtable, one line in attention/registry.c; CONTRIBUTING.md walks through it. */
#ifndef SF_ATTENTION_ATTENTION_H
#define SF_ATTENTION_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/random.h"
#include "semfocus/attention.h"

typedef enum sf_selects_by {
    SF_BY_POSITION, /* a fixed pattern, built once per length */
    SF_BY_SCORE,    /* from the query's scores, during forward */
    SF_BY_CHANCE,   /* from random draws, during forward */
} sf_selects_by;

typedef struct sf_query {
    size_t query, keys;   /* position and number of keys T */
    size_t k;             /* from the spelling */
    const double *scores; /* [keys], SF_BY_SCORE only */
    sf_draws *draws;      /* SF_BY_CHANCE only */
} sf_query;

struct sf_selector {
    unsigned version; /* 1; members are only ever appended */
    const char *name, *summary;
    bool takes_k, takes_globals;
    sf_selects_by selects_by;
    /* Writes the kept keys in ascending order and returns how many; `kept` has room for all keys. All but
     * SF_BY_POSITION keep exactly min(k, keys). */
    size_t (*keep)(uint32_t *kept /* [keys] */, const sf_query *query);
    bool keeps_all_from_k; /* SF_BY_POSITION: keeps every key where k is their number or more, as all others do */
};

struct sf_weighting {
    unsigned version; /* 1; members are only ever appended */
    const char *name, *summary;
    void (*weigh)(double *weights /* [kept] */, const double *scores /* [kept] */, size_t kept);
    /* dscores may be the array of dweights. */
    void (*weigh_backward)(double *dscores /* [kept] */, const double *dweights /* [kept] */,
                           const double *weights /* [kept] */, const double *scores /* [kept] */, size_t kept);
    /* What is proven of softmax holds: stability xi, conditions W and X, Lipschitz bounds. Else they are not defined.
     */
    bool has_softmax_theory;
};

extern const sf_selector sf_selector_full, sf_selector_banded, sf_selector_block, sf_selector_topk, sf_selector_bottomk,
    sf_selector_random;
extern const sf_weighting sf_weighting_softmax;

/* SF_UNSUPPORTED, "`what` not defined for the weighting ...", where the theory of softmax does not hold. */
sf_status sf_attention_check_theory(const sf_attention *attention, const char *what);

/* A mechanism that keeps every key of `length` anyway becomes full. */
sf_attention sf_attention_resolve(sf_attention attention, size_t length);

/* Positions the model sees for sequences of `length`: rounded up to a multiple of k if asked, plus the globals. */
size_t sf_attention_positions(const sf_attention *attention, size_t length, bool pad_to_multiple);

/* The kept keys of one query among T positions, the last `globals` of which are global tokens. */
size_t sf_attention_keep(uint32_t *kept /* [T] */, const sf_attention *attention, size_t query, size_t T,
                         const double *scores /* [T] */, sf_draws *draws);

/* The draws of one query for a selector by chance: room for 2^15 calls of Philox each. */
static inline sf_draws sf_query_draws(sf_index index, size_t query) {
    sf_draws draws = sf_draws_at(index);
    draws.next_draw = (uint32_t)query << 15;
    return draws;
}

/* Kept keys of all T queries: those of query i are keys[offsets[i] .. offsets[i + 1] - 1]. */
typedef struct sf_pattern {
    size_t *offsets; /* [T+1] */
    uint32_t *keys;  /* SF_BY_POSITION: the kept keys; NULL otherwise (chosen during forward) */
} sf_pattern;

sf_status sf_pattern_create(sf_pattern *out, const sf_attention *attention, size_t T);
void sf_pattern_destroy(sf_pattern *pattern);

#endif
