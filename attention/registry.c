#include <stdio.h>
#include <string.h>

#include "attention/attention.h"
#include "base/text.h"

static const sf_selector *const selectors[] = {&sf_selector_full, &sf_selector_banded,  &sf_selector_block,
                                               &sf_selector_topk, &sf_selector_bottomk, &sf_selector_random};
static const sf_weighting *const weightings[] = {&sf_weighting_softmax};

enum {
    SELECTORS = sizeof selectors / sizeof *selectors,
    WEIGHTINGS = sizeof weightings / sizeof *weightings,
    LARGEST_K = 65536,
    LARGEST_GLOBALS = 1024,
};

static const char *selector_name(const void *context, size_t i) {
    (void)context;
    return i < SELECTORS ? selectors[i]->name : NULL;
}

static sf_status unknown_selector(const char *name) {
    char quoted[SF_QUOTE_SIZE];
    sf_text_quote(quoted, name);
    const char *nearest = sf_text_nearest(name, selector_name, NULL);
    for (size_t i = 0; nearest != NULL && i < SELECTORS; i++)
        if (nearest == selectors[i]->name)
            return sf_fail(SF_BAD_INPUT,
                           "unknown attention '%s'; did you mean '%s%s'? 'semfocus list attention' names them all",
                           quoted, nearest, selectors[i]->takes_k ? ":5" : "");
    return sf_fail(SF_BAD_INPUT, "unknown attention '%s'; 'semfocus list attention' names them all", quoted);
}

static sf_status parse_count(size_t *out, const char *what, const char *digits, const char *whole, int64_t largest) {
    char quoted[SF_QUOTE_SIZE];
    int64_t value;
    if (!sf_text_integer(&value, digits) || value < 1 || value > largest)
        return sf_fail(SF_BAD_INPUT, "attention '%s': %s must be a whole number from 1 to %lld",
                       sf_text_quote(quoted, whole), what, (long long)largest);
    *out = (size_t)value;
    return SF_OK;
}

/* Cuts `text` at the first `mark` and returns what follows it, or NULL. */
static char *cut(char *text, char mark) {
    char *at = strchr(text, mark);
    if (at != NULL) *at++ = '\0';
    return at;
}

sf_status sf_attention_parse(sf_attention *out, const char *text) {
    char quoted[SF_QUOTE_SIZE], name[SF_SPELLING_SIZE];
    if (strlen(text) >= sizeof name) return unknown_selector(text);
    strcpy(name, text);
    char *weighting = cut(name, '/');
    char *extra = cut(name, '+');
    char *k = cut(name, ':');

    *out = (sf_attention){.weighting = &sf_weighting_softmax};
    for (size_t i = 0; i < SELECTORS; i++)
        if (strcmp(name, selectors[i]->name) == 0) out->selector = selectors[i];
    if (out->selector == NULL) return unknown_selector(name);

    if (out->selector->takes_k) {
        if (k == NULL)
            return sf_fail(SF_BAD_INPUT, "attention '%s' needs the number of kept keys, e.g. %s:5",
                           sf_text_quote(quoted, text), name);
        SF_TRY(parse_count(&out->k, "the number of kept keys", k, text, LARGEST_K));
    } else if (k != NULL) {
        return sf_fail(SF_BAD_INPUT, "attention '%s': %s takes no number; write %s", sf_text_quote(quoted, text), name,
                       name);
    }
    if (extra != NULL) {
        if (!out->selector->takes_globals)
            return sf_fail(SF_BAD_INPUT,
                           "attention '%s': only fixed sparse patterns take global tokens, e.g. banded:5+global:1",
                           sf_text_quote(quoted, text));
        char *globals = cut(extra, ':');
        if (strcmp(extra, "global") != 0 || globals == NULL)
            return sf_fail(SF_BAD_INPUT,
                           "attention '%s': only +global:N may follow the selector, e.g. banded:5+global:1",
                           sf_text_quote(quoted, text));
        SF_TRY(parse_count(&out->globals, "the number of global tokens", globals, text, LARGEST_GLOBALS));
    }
    if (weighting != NULL) {
        out->weighting = NULL;
        for (size_t i = 0; i < WEIGHTINGS; i++)
            if (strcmp(weighting, weightings[i]->name) == 0) out->weighting = weightings[i];
        if (out->weighting == NULL)
            return sf_fail(SF_BAD_INPUT,
                           "attention '%s': the weighting after '/' must be %s%s; 'semfocus list attention' names them "
                           "all",
                           sf_text_quote(quoted, text), weightings[0]->name, WEIGHTINGS > 1 ? " or another" : "");
    }
    return SF_OK;
}

void sf_attention_spell(char out[SF_SPELLING_SIZE], const sf_attention *attention) {
    size_t used = (size_t)snprintf(out, SF_SPELLING_SIZE, "%s", attention->selector->name);
    if (attention->selector->takes_k)
        used += (size_t)snprintf(out + used, SF_SPELLING_SIZE - used, ":%zu", attention->k);
    if (attention->globals > 0)
        used += (size_t)snprintf(out + used, SF_SPELLING_SIZE - used, "+global:%zu", attention->globals);
    if (attention->weighting != &sf_weighting_softmax)
        snprintf(out + used, SF_SPELLING_SIZE - used, "/%s", attention->weighting->name);
}

int sf_selector_describe(sf_part_info *out, size_t i) {
    if (i >= SELECTORS) return 0;
    const sf_selector *selector = selectors[i];
    *out = (sf_part_info){.name = selector->name,
                          .spelling = !selector->takes_k        ? ""
                                      : selector->takes_globals ? ":K[+global:G]"
                                                                : ":K",
                          .summary = selector->summary};
    return 1;
}

int sf_weighting_describe(sf_part_info *out, size_t i) {
    if (i >= WEIGHTINGS) return 0;
    *out = (sf_part_info){.name = weightings[i]->name, .spelling = "", .summary = weightings[i]->summary};
    return 1;
}
