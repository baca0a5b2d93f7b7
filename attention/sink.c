/* +sink:m: every query also keeps the first m visible keys.
 *
 * The first positions of a sequence collect attention that has nowhere else to go; a sparse selector may cut them off.
 * Source: Xiao et al. 2023 (attention sinks). Settings: m from 1. Cost: m T d.
 * Example: semfocus train even-pairs --attention topk:5+sink:1 */
#include "attention/attention.h"

static size_t keep_first(uint32_t *kept, const sf_query *query) {
    const size_t count = query->k < query->visible ? query->k : query->visible;
    for (size_t j = 0; j < count; j++) kept[j] = (uint32_t)j;
    return count;
}

const sf_selector sf_extra_sink = {
    SF_SELECTOR,
    .name = "sink",
    .summary = "also the first K keys",
    .takes_k = true,
    .selects_by = SF_BY_POSITION,
    .keeps_all_from_k = true,
    .keeps_k = true,
    .keep = keep_first,
    .formula = "j < K",
    .cost = "K T d",
    .source = "Xiao et al. 2023, arXiv 2309.17453",
};
