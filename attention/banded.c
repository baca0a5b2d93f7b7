/* banded:k: every query keeps exactly k neighbours.
 *
 * The window of query i is [i - (k-1)/2, i - (k-1)/2 + k - 1], shifted inward at both ends so that it always holds k
 * keys. Settings: k from 1; +global:g adds g tokens that see all and are seen by all. Cost: linear in T. Example:
 * semfocus train even-pairs --attention banded:5+global:1 */
#include "attention/attention.h"

static size_t keep_window(uint32_t *kept, const sf_query *query) {
    const size_t width = query->k < query->keys ? query->k : query->keys;
    const size_t before = (query->k - 1) / 2;
    size_t first = query->query > before ? query->query - before : 0;
    if (first > query->keys - width) first = query->keys - width;
    for (size_t j = 0; j < width; j++) kept[j] = (uint32_t)(first + j);
    return width;
}

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
};
