/* topp:p: every query keeps its visible keys in descending score until their softmax mass reaches p.
 *
 * The mass is taken over the visible keys; the key that reaches p is kept, too; p = 1 keeps all. Ties go to the lower
 * index. How many keys that is depends on how sharp the scores are. Source: nucleus sampling (Holtzman et al. 2020),
 * here for keys. Settings: 0 < p <= 1. Cost: T^2 d for the scores, T log T per query at most; a query saves its least
 * kept score, not its keys. Example: semfocus train even-pairs --attention topp:0.9 */
#include <math.h>

#include "attention/attention.h"
#include "attention/order.h"
#include "base/elementary.h"

/* A heap of keys whose root goes before all others. */
static void sink_root(uint32_t *heap, size_t count, size_t at, const sf_order *by) {
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && sf_goes_before(by, heap[child + 1], heap[child])) child++;
        if (sf_goes_before(by, heap[at], heap[child])) return;
        const uint32_t key = heap[at];
        heap[at] = heap[child];
        heap[child] = key;
    }
}

static uint32_t pop(uint32_t *heap, size_t *count, const sf_order *by) {
    const uint32_t first = heap[0];
    heap[0] = heap[--*count];
    sink_root(heap, *count, 0, by);
    return first;
}

static size_t keep_mass(uint32_t *kept, const sf_query *query) {
    const double *scores = query->scores, p = query->arguments[0];
    const size_t visible = query->visible;
    const sf_order by = {scores, true};
    double largest = scores[0], total = 0, mass = 0;
    for (size_t j = 0; j < visible; j++) {
        kept[j] = (uint32_t)j;
        largest = scores[j] > largest ? scores[j] : largest;
    }
    if (p == 1) return visible;
    for (size_t j = 0; j < visible; j++) total += sf_exp(scores[j] - largest);
    for (size_t at = visible / 2; at-- > 0;) sink_root(kept, visible, at, &by);
    uint32_t last = 0;
    for (size_t left = visible; left > 0 && !(mass >= p * total);) {
        last = pop(kept, &left, &by);
        mass += sf_exp(scores[last] - largest);
    }
    return sf_keep_up_to(kept, visible, last, &by);
}

static bool keeps_all(size_t keys, size_t k, const double *arguments) {
    (void)keys;
    (void)k;
    return arguments[0] == 1;
}

const sf_selector sf_selector_topp = {
    SF_SELECTOR,
    .name = "topp",
    .summary = "the largest scores until their softmax mass reaches P",
    .selects_by = SF_BY_SCORE,
    .keep = keep_mass,
    .separates_scores = true,
    .arguments = {{.letter = "P",
                   .meaning = "the softmax mass to keep",
                   .low = 1e-9,
                   .high = 1,
                   .initial = 0.9,
                   .required = true}},
    .keeps_all = keeps_all,
    .formula = "keys in descending s_ij until sum e^s / sum over visible e^s >= P",
    .cost = "T^2 d for the scores; saves one threshold per query",
    .source = "Holtzman et al. 2020 (nucleus sampling)",
};
