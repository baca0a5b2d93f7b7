/* random:k: every query keeps k keys drawn uniformly without replacement, new ones at each step (a control).
 *
 * Drawn from a separate random stream, and from another one in evaluation. Cost: linear in T, k^2 per query.
 * Example: semfocus train even-pairs --attention random:5 */
#include "attention/attention.h"

/* Floyd's sampling: k draws give a uniform k-subset of 0..keys-1; the set is kept sorted as it grows. */
static size_t keep_random(uint32_t *kept, const sf_query *query) {
    const size_t K = query->k < query->keys ? query->k : query->keys;
    size_t count = 0;
    for (size_t last = query->keys - K; last < query->keys; last++) {
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
    SF_SELECTOR,     .name = "random",           .summary = "K keys at random, redrawn at every step (a control)",
    .takes_k = true, .selects_by = SF_BY_CHANCE, .keeps_all_from_k = true,
    .keeps_k = true, .keep = keep_random,
};
