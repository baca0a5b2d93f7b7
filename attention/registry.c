#include <stdio.h>
#include <string.h>

#include "attention/registry.h"

static const sf_selector *const built_in_selectors[] = {&sf_selector_full, &sf_selector_banded,  &sf_selector_block,
                                                        &sf_selector_topk, &sf_selector_bottomk, &sf_selector_random};
static const sf_weighting *const built_in_weightings[] = {&sf_weighting_softmax};

enum {
    SELECTORS = sizeof built_in_selectors / sizeof *built_in_selectors,
    WEIGHTINGS = sizeof built_in_weightings / sizeof *built_in_weightings,
};

static struct { /* of plug-ins */
    const sf_selector **selectors;
    const sf_weighting **weightings;
    size_t selector_count, weighting_count;
} added;

const sf_selector *sf_selector_at(size_t i) {
    if (i < SELECTORS) return built_in_selectors[i];
    return i - SELECTORS < added.selector_count ? added.selectors[i - SELECTORS] : NULL;
}

const sf_weighting *sf_weighting_at(size_t i) {
    if (i < WEIGHTINGS) return built_in_weightings[i];
    return i - WEIGHTINGS < added.weighting_count ? added.weightings[i - WEIGHTINGS] : NULL;
}

const sf_selector *sf_selector_named(const char *name) {
    const sf_selector *selector;
    for (size_t i = 0; (selector = sf_selector_at(i)) != NULL && strcmp(selector->name, name) != 0; i++)
        ;
    return selector;
}

const sf_weighting *sf_weighting_named(const char *name) {
    const sf_weighting *weighting;
    for (size_t i = 0; (weighting = sf_weighting_at(i)) != NULL && strcmp(weighting->name, name) != 0; i++)
        ;
    return weighting;
}

sf_status sf_selector_register(const sf_selector *selector) {
    SF_TRY(SF_GROW(&added.selectors, added.selector_count, added.selector_count + 1));
    added.selectors[added.selector_count++] = selector;
    return SF_OK;
}

sf_status sf_weighting_register(const sf_weighting *weighting) {
    SF_TRY(SF_GROW(&added.weightings, added.weighting_count, added.weighting_count + 1));
    added.weightings[added.weighting_count++] = weighting;
    return SF_OK;
}

/* ":K:P" or, where the rest may be left out, ":K[:P]". */
static size_t spell_arguments(char *out, size_t size, bool takes_k, const sf_argument *arguments) {
    size_t used = takes_k ? (size_t)snprintf(out, size, ":K") : 0, open = 0;
    for (size_t i = 0; i < SF_MOST_ARGUMENTS && arguments[i].letter != NULL; i++) {
        open += !arguments[i].required;
        used +=
            (size_t)snprintf(out + used, size - used, "%s:%s", arguments[i].required ? "" : "[", arguments[i].letter);
    }
    while (open-- > 0) used += (size_t)snprintf(out + used, size - used, "]");
    return used;
}

int sf_selector_describe(sf_part_info *out, size_t i) {
    const sf_selector *selector = sf_selector_at(i);
    if (selector == NULL) return 0;
    *out = (sf_part_info){.name = selector->name, .summary = selector->summary, .part = selector};
    const size_t used = spell_arguments(out->spelling, sizeof out->spelling, selector->takes_k, selector->arguments);
    if (selector->takes_globals) snprintf(out->spelling + used, sizeof out->spelling - used, "[+global:G]");
    return 1;
}

int sf_weighting_describe(sf_part_info *out, size_t i) {
    const sf_weighting *weighting = sf_weighting_at(i);
    if (weighting == NULL) return 0;
    *out = (sf_part_info){.name = weighting->name, .summary = weighting->summary, .part = weighting};
    spell_arguments(out->spelling, sizeof out->spelling, false, weighting->arguments);
    return 1;
}
