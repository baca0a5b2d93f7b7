/* banded:k: every query keeps exactly k neighbours; the extra +window:w adds the same to what a selector keeps.
 *
 * The window of query i is [i - (k-1)/2, i - (k-1)/2 + k - 1], shifted inward at both ends so that it always holds k
 * keys; a causal model then drops the keys after i. Settings: k and w from 1. Cost: linear in T. Example:
 * semfocus train even-pairs --attention banded:5+global:1,topk:5+window:3 */
#include "attention/attention.h"

static size_t keep_window(uint32_t *kept, const sf_query *query) {
    const size_t width = query->k < query->keys ? query->k : query->keys;
    const size_t before = (query->k - 1) / 2;
    size_t first = query->query > before ? query->query - before : 0, count = 0;
    if (first > query->keys - width) first = query->keys - width;
    for (size_t j = first; j < first + width && j < query->visible; j++) kept[count++] = (uint32_t)j;
    return count;
}

#define FORMULA "j in [i-(K-1)/2, i-(K-1)/2+K-1], shifted inward at the ends"

const sf_selector sf_selector_banded = {
    SF_SELECTOR,
    .name = "banded",
    .summary = "the K nearest positions",
    .takes_k = true,
    .takes_globals = true,
    .selects_by = SF_BY_POSITION,
    .keeps_all_from_k = true,
    .keeps_k = true,
    .keep = keep_window,
    .formula = FORMULA,
    .cost = "K T d",
    .source = "Ram et al. 2025; sliding windows: Beltagy et al. 2020",
};

const sf_selector sf_extra_window = {
    SF_SELECTOR,
    .name = "window",
    .summary = "also the K nearest positions",
    .takes_k = true,
    .selects_by = SF_BY_POSITION,
    .keeps_all_from_k = true,
    .keeps_k = true,
    .keep = keep_window,
    .formula = FORMULA,
    .cost = "K T d",
    .source = "Beltagy et al. 2020; Zaheer et al. 2020 (BigBird)",
};
