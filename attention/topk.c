/* topk:k and bottomk:k: every query keeps its k largest (smallest) scores; ties go to the lower position.
 *
 * top-k is the mechanism of "Transformers Learn Faster with Semantic Focus" (Ram et al. 2025); bottom-k is its control.
 * Always exactly min(k, T) keys; the kept set is a constant in the backward pass.
 * Cost: T^2 d for the scores, the rest linear in k T. Example: semfocus train even-pairs --attention topk:5 */
#include "attention/attention.h"
#include "attention/order.h"

static void swap(uint32_t *a, uint32_t *b) {
    const uint32_t old = *a;
    *a = *b;
    *b = old;
}

/* Hoare's selection: afterwards the first k of `keys` go before all others, in no particular order. */
static void move_first_k_forward(uint32_t *keys, size_t count, size_t k, const sf_order *by) {
    size_t low = 0, high = count;
    while (high - low > 1) {
        swap(&keys[low], &keys[low + (high - low) / 2]);
        const uint32_t pivot = keys[low];
        size_t boundary = low;
        for (size_t i = low + 1; i < high; i++)
            if (sf_goes_before(by, keys[i], pivot)) swap(&keys[++boundary], &keys[i]);
        swap(&keys[low], &keys[boundary]);
        if (boundary == k) return;
        if (boundary < k)
            low = boundary + 1;
        else
            high = boundary;
    }
}

/* The first k of `kept` by position. The C library's qsort takes memory, and a training step must not: few keys are
 * inserted one by one, many are found again by comparing every key with the last of them in order. */
static void sort_few(uint32_t *kept, size_t k) {
    for (size_t i = 1; i < k; i++) {
        const uint32_t key = kept[i];
        size_t place = i;
        for (; place > 0 && kept[place - 1] > key; place--) kept[place] = kept[place - 1];
        kept[place] = key;
    }
}

static size_t sort_many(uint32_t *kept, size_t k, size_t keys, const sf_order *by) {
    uint32_t last = kept[0];
    for (size_t i = 1; i < k; i++)
        if (sf_goes_before(by, last, kept[i])) last = kept[i];
    return sf_keep_up_to(kept, keys, last, by);
}

static size_t keep_extreme(uint32_t *kept, const sf_query *query, bool largest_first) {
    enum { FEW = 32 };
    const sf_order by = {query->scores, largest_first};
    for (size_t j = 0; j < query->visible; j++) kept[j] = (uint32_t)j;
    if (query->k >= query->visible) return query->visible;
    move_first_k_forward(kept, query->visible, query->k, &by);
    if (query->k > FEW) return sort_many(kept, query->k, query->visible, &by);
    sort_few(kept, query->k);
    return query->k;
}

static size_t keep_largest(uint32_t *kept, const sf_query *query) {
    return keep_extreme(kept, query, true);
}

static size_t keep_smallest(uint32_t *kept, const sf_query *query) {
    return keep_extreme(kept, query, false);
}

const sf_selector sf_selector_topk = {
    SF_SELECTOR,
    .name = "topk",
    .summary = "the K largest scores",
    .takes_k = true,
    .selects_by = SF_BY_SCORE,
    .keeps_all_from_k = true,
    .keeps_k = true,
    .separates_scores = true,
    .keep = keep_largest,
    .formula = "the K keys of largest s_ij; ties to the lower index",
    .cost = "T^2 d for the scores, K T d for the rest",
    .source = "Ram et al. 2025, arXiv 2506.14095",
};

const sf_selector sf_selector_bottomk = {
    SF_SELECTOR,
    .name = "bottomk",
    .summary = "the K smallest scores (a control)",
    .takes_k = true,
    .selects_by = SF_BY_SCORE,
    .keeps_all_from_k = true,
    .keeps_k = true,
    .separates_scores = true,
    .keep = keep_smallest,
    .formula = "the K keys of smallest s_ij; ties to the lower index",
    .cost = "T^2 d for the scores, K T d for the rest",
    .source = "control of topk",
};
