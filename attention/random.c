/* random:k: every query keeps k keys drawn uniformly without replacement, new ones at each step (a control); the extra
 * +random:r adds r keys drawn likewise to what a selector keeps.
 *
 * Drawn among the visible keys, from a separate random stream, and from another one in evaluation. Cost: linear in T,
 * k^2 per query. Example: semfocus train even-pairs --attention random:5,banded:5+global:1+random:2 */
#include "attention/attention.h"

/* Floyd's sampling: k draws give a uniform k-subset of 0..visible-1; the set is kept sorted as it grows. */
static size_t keep_random(uint32_t *kept, const sf_query *query) {
    const size_t K = query->k < query->visible ? query->k : query->visible;
    size_t count = 0;
    for (size_t last = query->visible - K; last < query->visible; last++) {
        uint32_t key = sf_draw_below(query->draws, (uint32_t)last + 1);
        size_t place = 0;
        while (place < count && kept[place] < key) place++;
        if (place < count && kept[place] == key) { /* taken: `last` itself is new and the largest so far */
            key = (uint32_t)last;
            place = count;
        }
        for (size_t i = count; i > place; i--) kept[i] = kept[i - 1];
        kept[place] = key;
        count++;
    }
    return count;
}

const sf_selector sf_selector_random = {
    SF_SELECTOR,
    .name = "random",
    .summary = "K keys at random, redrawn at every step (a control)",
    .takes_k = true,
    .selects_by = SF_BY_CHANCE,
    .keeps_all_from_k = true,
    .keeps_k = true,
    .keep = keep_random,
    .formula = "K visible keys, uniform without replacement, per query and step",
    .cost = "K T d",
    .source = "control of topk",
};

const sf_selector sf_extra_random = {
    SF_SELECTOR,
    .name = "random",
    .summary = "also K keys at random, redrawn at every step",
    .takes_k = true,
    .selects_by = SF_BY_CHANCE,
    .keeps_all_from_k = true,
    .keeps_k = true,
    .keep = keep_random,
    .formula = "K visible keys, uniform without replacement, per query and step",
    .cost = "K T d",
    .source = "Zaheer et al. 2020 (BigBird)",
};
