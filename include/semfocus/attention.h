/* Attention mechanisms: a selector (which keys a query keeps), extras that add to what it keeps, a weighting (how the
 * kept scores become weights) and transforms of the scores, spelled
 *
 *   SELECTOR[:number[:number]][+EXTRA[:number]]...[/WEIGHTING[:number]][@SCORES[:number]]...
 *
 * e.g. full, topk:5, banded:5+global:1, topk:5+sink:1/entmax15@rope. In the canonical spelling arguments at their
 * defaults and /softmax are left out, and extras are sorted. */
#ifndef SEMFOCUS_ATTENTION_H
#define SEMFOCUS_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>

#include "semfocus/api.h"
#include "semfocus/status.h"

SF_API_BEGIN

typedef struct sf_selector sf_selector;
typedef struct sf_weighting sf_weighting;
typedef struct sf_score_transform sf_score_transform;

enum { SF_MOST_EXTRAS = 4, SF_MOST_TRANSFORMS = 6 };

typedef struct sf_attention_extra { /* keys that every query keeps besides */
    const sf_selector *part;        /* NULL past the last */
    size_t k;
} sf_attention_extra;

typedef struct sf_attention_transform {
    const sf_score_transform *part; /* NULL past the last */
    double arguments[2];
} sf_attention_transform;

typedef struct sf_attention {
    const sf_selector *selector;
    const sf_weighting *weighting;
    size_t k;                      /* from the spelling; 0 where the selector takes none */
    size_t globals;                /* extra tokens that see all and are seen by all */
    double arguments[2];           /* of the selector, after k */
    double weighting_arguments[2]; /* of the weighting */
    struct sf_fault *fault;        /* records that a part broke its rules; NULL: not recorded */
    sf_attention_extra extras[SF_MOST_EXTRAS];
    sf_attention_transform transforms[SF_MOST_TRANSFORMS]; /* those of queries and keys first */
    bool straight_through; /* backward as if the weights had been the softmax over all visible keys */
    bool causal;           /* a query sees only the keys up to its own position; not part of the spelling */
} sf_attention;

typedef struct sf_part_info { /* a part of a mechanism, for listings */
    const char *name, *summary;
    char spelling[32];                   /* what may follow the name: ":K" */
    const void *part;                    /* for sf_plugin_file_of() */
    const char *formula, *cost, *source; /* one line each; NULL: not stated */
} sf_part_info;

enum { SF_SPELLING_SIZE = 128 };

sf_status sf_attention_parse(sf_attention *out, const char *text);
void sf_attention_spell(char out[SF_SPELLING_SIZE], const sf_attention *attention);

enum { SF_WORDS_SIZE = 1024 };
/* The mechanism in words, as one sentence without a capital and a full stop: "each query keeps the keys with the 5
 * largest scores, weighted by softmax". */
void sf_attention_say(char out[SF_WORDS_SIZE], const sf_attention *attention);

/* The i-th entry of the registry; false past the end. */
int sf_selector_describe(sf_part_info *out, size_t i);
int sf_extra_describe(sf_part_info *out, size_t i);
int sf_weighting_describe(sf_part_info *out, size_t i);
int sf_score_transform_describe(sf_part_info *out, size_t i);

SF_API_END

#endif
