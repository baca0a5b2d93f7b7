#include "attention/attention.h"

/* Fixed patterns, a number of keys by chance, and a number of extreme scores. */
static bool has_known_mask(const sf_selector *selector) {
    return selector->selects_by == SF_BY_POSITION ||
           (selector->keeps_k && (selector->selects_by == SF_BY_CHANCE || selector->separates_scores));
}

sf_theory_gap sf_attention_theory_gap(const sf_attention *attention) {
    const sf_selector *selector = attention->selector;
    if (!attention->weighting->has_softmax_theory) return (sf_theory_gap){"weighting", attention->weighting->name};
    if (!has_known_mask(selector)) return (sf_theory_gap){"selector", selector->name};
    if (attention->transforms[0].part != NULL)
        return (sf_theory_gap){"score transform", attention->transforms[0].part->name};
    if (attention->straight_through) return (sf_theory_gap){"extra", sf_extra_st.name};
    if (attention->causal) return (sf_theory_gap){"setting", "causal"};
    if (sf_attention_selects_by(attention) == SF_BY_POSITION) return (sf_theory_gap){NULL, NULL};
    if (sf_attention_has_extras(attention)) return (sf_theory_gap){"extra", attention->extras[0].part->name};
    if (attention->globals > 0) return (sf_theory_gap){"extra", sf_extra_global.name};
    return (sf_theory_gap){NULL, NULL};
}

bool sf_attention_has_theory(const sf_attention *attention) {
    return sf_attention_theory_gap(attention).kind == NULL;
}

sf_status sf_attention_check_theory(const sf_attention *attention, const char *what) {
    const sf_theory_gap gap = sf_attention_theory_gap(attention);
    if (gap.kind == NULL) return SF_OK;
    return sf_fail(SF_UNSUPPORTED, "%s not defined for the %s %s", what, gap.kind, gap.name);
}
