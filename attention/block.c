/* block:k: positions are cut into blocks of k; every query keeps the keys of its own block.
 *
 * The last block is shorter where k does not divide T; a causal model drops the keys after the query.
 * Settings: k from 1; +global:g adds g tokens that see all and are seen by all.
 * Cost: linear in T. Example: semfocus train even-pairs --attention block:5 */
#include "attention/attention.h"

static size_t keep_own_block(uint32_t *kept, const sf_query *query) {
    const size_t first = query->query / query->k * query->k;
    size_t count = 0;
    for (size_t j = first; j < first + query->k && j < query->visible; j++) kept[count++] = (uint32_t)j;
    return count;
}

const sf_selector sf_selector_block = {
    SF_SELECTOR,
    .name = "block",
    .summary = "the query's own block of K positions",
    .takes_k = true,
    .takes_globals = true,
    .selects_by = SF_BY_POSITION,
    .keeps_all_from_k = true,
    .keeps_k = true,
    .keep = keep_own_block,
    .formula = "j with floor(j/K) = floor(i/K)",
    .cost = "K T d",
    .source = "Ram et al. 2025; Child et al. 2019",
};
