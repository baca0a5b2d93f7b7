/* Attention mechanisms: a selector (which keys a query keeps) and a weighting (how the kept scores become weights),
 * spelled  selector[:number[:number]][+global:g][/weighting[:number[:number]]],  e.g. full, topk:5, banded:5+global:1,
 * topk:5/softmax. Arguments at their defaults and /softmax are left out of the canonical spelling. */
#ifndef SEMFOCUS_ATTENTION_H
#define SEMFOCUS_ATTENTION_H

#include <stddef.h>

#include "semfocus/api.h"
#include "semfocus/status.h"

SF_API_BEGIN

typedef struct sf_selector sf_selector;
typedef struct sf_weighting sf_weighting;

typedef struct sf_attention {
    const sf_selector *selector;
    const sf_weighting *weighting;
    size_t k;                      /* from the spelling; 0 where the selector takes none */
    size_t globals;                /* extra tokens that see all and are seen by all */
    double arguments[2];           /* of the selector, after k */
    double weighting_arguments[2]; /* of the weighting */
    struct sf_fault *fault;        /* records that a part broke its rules; NULL: not recorded */
} sf_attention;

typedef struct sf_part_info { /* a selector or a weighting, for listings */
    const char *name, *summary;
    char spelling[32]; /* what may follow the name: ":K[+global:G]" */
    const void *part;  /* for sf_plugin_file_of() */
} sf_part_info;

enum { SF_SPELLING_SIZE = 64 };

sf_status sf_attention_parse(sf_attention *out, const char *text);
void sf_attention_spell(char out[SF_SPELLING_SIZE], const sf_attention *attention);

/* The i-th entry of the registry; false past the end. */
int sf_selector_describe(sf_part_info *out, size_t i);
int sf_weighting_describe(sf_part_info *out, size_t i);

SF_API_END

#endif
