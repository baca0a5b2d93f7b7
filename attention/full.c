/* full: every query keeps every key, or those up to its own position in a causal model.
 *
 * The baseline of every comparison. Cost: T^2 d per block and head.
 * Example: semfocus train even-pairs --attention full */
#include "attention/attention.h"

static size_t keep_all(uint32_t *kept, const sf_query *query) {
    for (size_t j = 0; j < query->visible; j++) kept[j] = (uint32_t)j;
    return query->visible;
}

const sf_selector sf_selector_full = {
    SF_SELECTOR,
    .name = "full",
    .summary = "every key",
    .selects_by = SF_BY_POSITION,
    .keep = keep_all,
    .formula = "all visible j",
    .cost = "T^2 d",
    .source = "Vaswani et al. 2017",
};
