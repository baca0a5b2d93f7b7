#include "attention/attention.h"

sf_status sf_attention_check_theory(const sf_attention *attention, const char *what) {
    if (attention->weighting->has_softmax_theory) return SF_OK;
    return sf_fail(SF_UNSUPPORTED, "%s not defined for the weighting %s", what, attention->weighting->name);
}

/* A selector by position may keep fewer keys the larger k is: only those that say otherwise keep all. */
static bool keeps_all(const sf_attention *attention, size_t length) {
    const sf_selector *selector = attention->selector;
    return selector->takes_k && attention->globals == 0 && attention->k >= length &&
           (selector->selects_by != SF_BY_POSITION || selector->keeps_all_from_k);
}

sf_attention sf_attention_resolve(sf_attention attention, size_t length) {
    if (keeps_all(&attention, length)) {
        attention.selector = &sf_selector_full;
        attention.k = 0;
    }
    return attention;
}

size_t sf_attention_positions(const sf_attention *attention, size_t length, bool pad_to_multiple) {
    const size_t k = attention->k;
    if (pad_to_multiple && k > 0) length = (length + k - 1) / k * k;
    return length + attention->globals;
}

size_t sf_attention_keep(uint32_t *kept /* [T] */, const sf_attention *attention, size_t query, size_t T,
                         const double *scores /* [T] */, sf_draws *draws) {
    const size_t plain = T - attention->globals;
    if (query >= plain) {
        for (size_t j = 0; j < T; j++) kept[j] = (uint32_t)j;
        return T;
    }
    size_t count = attention->selector->keep(
        kept, &(sf_query){.query = query, .keys = plain, .k = attention->k, .scores = scores, .draws = draws});
    for (size_t j = plain; j < T; j++) kept[count++] = (uint32_t)j;
    return count;
}

sf_status sf_pattern_create(sf_pattern *out, const sf_attention *attention, size_t T) {
    *out = (sf_pattern){0};
    SF_TRY(SF_NEW(&out->offsets, T + 1));
    if (attention->selector->selects_by != SF_BY_POSITION) {
        const size_t K = attention->k < T ? attention->k : T;
        for (size_t i = 0; i <= T; i++) out->offsets[i] = i * K;
        return SF_OK;
    }
    uint32_t *row = NULL;
    sf_status status = SF_NEW(&row, T);
    for (int fill = 0; fill < 2 && status == SF_OK; fill++) { /* count first, then write */
        size_t total = 0;
        for (size_t i = 0; i < T; i++) {
            const size_t count = sf_attention_keep(fill ? out->keys + total : row, attention, i, T, NULL, NULL);
            total += count;
            out->offsets[i + 1] = total;
        }
        /* keep() may use room for all T keys while it writes the last row */
        if (!fill) status = SF_NEW(&out->keys, total + T);
    }
    sf_release(row);
    if (status != SF_OK) sf_pattern_destroy(out);
    return status;
}

void sf_pattern_destroy(sf_pattern *pattern) {
    sf_release(pattern->offsets);
    sf_release(pattern->keys);
    *pattern = (sf_pattern){0};
}
