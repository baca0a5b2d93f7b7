#include <stdio.h>
#include <string.h>

#include "attention/registry.h"

static const sf_selector *const built_in_selectors[] = {
    &sf_selector_full,      &sf_selector_banded, &sf_selector_block, &sf_selector_topk,
    &sf_selector_bottomk,   &sf_selector_random, &sf_selector_topp,  &sf_selector_within,
    &sf_selector_blocktopk, &sf_selector_kmeans, &sf_selector_lsh};
static const sf_selector *const built_in_extras[] = {/* sorted by name, as in the canonical spelling */
                                                     &sf_extra_global, &sf_extra_random, &sf_extra_sink, &sf_extra_st,
                                                     &sf_extra_window};
static const sf_weighting *const built_in_weightings[] = {
    &sf_weighting_softmax,  &sf_weighting_softmax1,  &sf_weighting_sigmoid,
    &sf_weighting_softplus, &sf_weighting_sparsemax, &sf_weighting_entmax15,
    &sf_weighting_entmax,   &sf_weighting_fastmax,   &sf_weighting_doubly};
static const sf_score_transform *const built_in_transforms[] = {/* those of queries and keys first, as they apply */
                                                                &sf_transform_rope, &sf_transform_qknorm,
                                                                &sf_transform_alibi, &sf_transform_softcap,
                                                                &sf_transform_logn};

enum {
    SELECTORS = sizeof built_in_selectors / sizeof *built_in_selectors,
    EXTRAS = sizeof built_in_extras / sizeof *built_in_extras,
    WEIGHTINGS = sizeof built_in_weightings / sizeof *built_in_weightings,
    TRANSFORMS = sizeof built_in_transforms / sizeof *built_in_transforms,
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

const sf_selector *sf_extra_at(size_t i) {
    return i < EXTRAS ? built_in_extras[i] : NULL;
}

const sf_score_transform *sf_score_transform_at(size_t i) {
    return i < TRANSFORMS ? built_in_transforms[i] : NULL;
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

const sf_selector *sf_extra_named(const char *name) {
    const sf_selector *extra;
    for (size_t i = 0; (extra = sf_extra_at(i)) != NULL && strcmp(extra->name, name) != 0; i++)
        ;
    return extra;
}

const sf_score_transform *sf_score_transform_named(const char *name) {
    const sf_score_transform *transform;
    for (size_t i = 0; (transform = sf_score_transform_at(i)) != NULL && strcmp(transform->name, name) != 0; i++)
        ;
    return transform;
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

static size_t remove_from(const void **list, size_t count, const void *part) {
    size_t left = 0;
    for (size_t i = 0; i < count; i++)
        if (list[i] != part) list[left++] = list[i];
    return left;
}

void sf_selector_unregister(const sf_selector *selector) {
    added.selector_count = remove_from((const void **)added.selectors, added.selector_count, selector);
}

void sf_weighting_unregister(const sf_weighting *weighting) {
    added.weighting_count = remove_from((const void **)added.weightings, added.weighting_count, weighting);
}

/* ":K:P" or, where the rest may be left out, ":K[:P]". */
static void spell_arguments(char *out, size_t size, bool takes_k, const sf_argument *arguments) {
    size_t used = takes_k ? (size_t)snprintf(out, size, ":K") : 0, open = 0;
    for (size_t i = 0; i < SF_MOST_ARGUMENTS && arguments[i].letter != NULL; i++) {
        open += !arguments[i].required;
        used +=
            (size_t)snprintf(out + used, size - used, "%s:%s", arguments[i].required ? "" : "[", arguments[i].letter);
    }
    while (open-- > 0) used += (size_t)snprintf(out + used, size - used, "]");
}

static int describe_selector(sf_part_info *out, const sf_selector *selector) {
    if (selector == NULL) return 0;
    *out = (sf_part_info){.name = selector->name,
                          .summary = selector->summary,
                          .part = selector,
                          .formula = selector->formula,
                          .cost = selector->cost,
                          .source = selector->source};
    spell_arguments(out->spelling, sizeof out->spelling, selector->takes_k, selector->arguments);
    return 1;
}

int sf_selector_describe(sf_part_info *out, size_t i) {
    return describe_selector(out, sf_selector_at(i));
}

int sf_extra_describe(sf_part_info *out, size_t i) {
    return describe_selector(out, sf_extra_at(i));
}

int sf_weighting_describe(sf_part_info *out, size_t i) {
    const sf_weighting *weighting = sf_weighting_at(i);
    if (weighting == NULL) return 0;
    *out = (sf_part_info){.name = weighting->name,
                          .summary = weighting->summary,
                          .part = weighting,
                          .formula = weighting->formula,
                          .cost = weighting->cost,
                          .source = weighting->source};
    spell_arguments(out->spelling, sizeof out->spelling, false, weighting->arguments);
    return 1;
}

int sf_score_transform_describe(sf_part_info *out, size_t i) {
    const sf_score_transform *transform = sf_score_transform_at(i);
    if (transform == NULL) return 0;
    *out = (sf_part_info){.name = transform->name,
                          .summary = transform->summary,
                          .part = transform,
                          .formula = transform->formula,
                          .cost = transform->cost,
                          .source = transform->source};
    spell_arguments(out->spelling, sizeof out->spelling, false, transform->arguments);
    return 1;
}
