#include "attention/attention.h"

/* Fixed patterns, a number of keys by chance, and a number of extreme scores. */
static bool has_known_mask(const sf_selector *selector) {
    if (selector->selects_by == SF_BY_POSITION) return true;
    return selector->keeps_k && (selector->selects_by == SF_BY_CHANCE || selector->separates_scores);
}

bool sf_attention_has_theory(const sf_attention *attention) {
    return attention->weighting->has_softmax_theory && has_known_mask(attention->selector);
}

sf_status sf_attention_check_theory(const sf_attention *attention, const char *what) {
    if (sf_attention_has_theory(attention)) return SF_OK;
    const bool of_weighting = !attention->weighting->has_softmax_theory;
    return sf_fail(SF_UNSUPPORTED, "%s not defined for the %s %s", what, of_weighting ? "weighting" : "selector",
                   of_weighting ? attention->weighting->name : attention->selector->name);
}
