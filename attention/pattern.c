#include "attention/room.h"
#include "base/sizes.h"

/* A selector may keep fewer keys the larger k is: only those with keeps_all_from_k keep all. */
static bool part_keeps_all(const sf_selector *selector, size_t k, const double *arguments, size_t length) {
    if (selector->takes_k && selector->keeps_all_from_k && k >= length) return true;
    return selector->keeps_all != NULL && selector->keeps_all(length, k, arguments);
}

static bool keeps_all(const sf_attention *attention, size_t length) {
    if (attention->selector == &sf_selector_full) return true;
    if (attention->globals == 0 && part_keeps_all(attention->selector, attention->k, attention->arguments, length))
        return true;
    for (size_t e = 0; e < SF_MOST_EXTRAS && attention->extras[e].part != NULL; e++)
        if (part_keeps_all(attention->extras[e].part, attention->extras[e].k, NULL, length)) return true;
    return false;
}

sf_attention sf_attention_resolve(sf_attention attention, size_t length) {
    if (keeps_all(&attention, length)) {
        attention.selector = &sf_selector_full;
        attention.k = 0;
        for (size_t i = 0; i < SF_MOST_ARGUMENTS; i++) attention.arguments[i] = 0;
        for (size_t e = 0; e < SF_MOST_EXTRAS; e++) attention.extras[e] = (sf_attention_extra){0};
        attention.straight_through = false; /* backward is that of all visible keys anyway */
    }
    return attention;
}

unsigned sf_attention_selects_by(const sf_attention *attention) {
    unsigned by = attention->selector->selects_by;
    if (sf_attention_keeps_visible(attention)) return by; /* extras add nothing to it */
    for (size_t e = 0; e < SF_MOST_EXTRAS && attention->extras[e].part != NULL; e++)
        by |= attention->extras[e].part->selects_by;
    return by;
}

sf_status sf_attention_set_causal(sf_attention *attention, bool causal) {
    attention->causal = causal;
    if (!causal) return SF_OK;
    const char *kind = attention->globals > 0             ? "extra"
                       : attention->selector->not_causal  ? "selector"
                       : attention->weighting->not_causal ? "weighting"
                                                          : NULL;
    if (kind == NULL) return SF_OK;
    const char *name = attention->globals > 0            ? sf_extra_global.name
                       : attention->selector->not_causal ? attention->selector->name
                                                         : attention->weighting->name;
    return sf_fail_on(SF_BAD_INPUT, "attention",
                      "the %s %s lets later tokens leak into earlier ones; leave it or causal out", kind, name);
}

size_t sf_attention_positions(const sf_attention *attention, size_t length, bool pad_to_multiple) {
    const size_t k = attention->k;
    if (pad_to_multiple && k > 0) length = (length + k - 1) / k * k;
    return length + attention->globals;
}

size_t sf_selector_most_kept(const sf_selector *selector, size_t keys, size_t k, const double *arguments) {
    if (selector->keeps_k) return sf_smaller(k, keys);
    if (selector->most_kept == NULL) return keys;
    const size_t most = selector->most_kept(keys, k, arguments);
    return most < 1 ? 1 : sf_smaller(most, keys);
}

size_t sf_attention_most_kept_by(const sf_attention *attention, size_t query, size_t T) {
    const size_t plain = T - attention->globals;
    if (query >= plain) return T;
    size_t most = sf_selector_most_kept(attention->selector, plain, attention->k, attention->arguments);
    for (size_t e = 0; e < SF_MOST_EXTRAS && attention->extras[e].part != NULL; e++)
        most += sf_selector_most_kept(attention->extras[e].part, plain, attention->extras[e].k, NULL);
    return sf_smaller(most, plain) + attention->globals;
}

size_t sf_attention_most_kept(const sf_attention *attention, size_t T) {
    return sf_attention_most_kept_by(attention, T - 1, T); /* globals are the last positions */
}

/* Room for what is chosen during forward. */
static void make_room(sf_pattern *out, const sf_attention *attention, size_t T) {
    for (size_t i = 0; i < T; i++) out->offsets[i + 1] = out->offsets[i] + sf_attention_most_kept_by(attention, i, T);
    out->varies = !attention->selector->keeps_k || sf_attention_has_extras(attention) || attention->causal;
}

/* sf_attention_keep() may use room for 2 T keys while it writes a row. */
static sf_status open_row(uint32_t **row, sf_pattern *out, size_t *room, size_t total, size_t T) {
    if (*room - total < 2 * T) {
        const size_t larger = 2 * *room + 2 * T;
        SF_TRY(SF_GROW(&out->keys, total, larger));
        *room = larger;
    }
    *row = out->keys + total;
    return SF_OK;
}

static sf_status fill_in(sf_pattern *out, const sf_attention *attention, size_t T) {
    size_t room = 0;
    for (size_t i = 0; i < T; i++) {
        uint32_t *row;
        SF_TRY(open_row(&row, out, &room, out->offsets[i], T));
        out->offsets[i + 1] = out->offsets[i] + sf_attention_keep(row, attention, i, T, NULL, NULL);
    }
    return sf_attention_check_fault(attention);
}

sf_status sf_pattern_create(sf_pattern *out, const sf_attention *attention, size_t T) {
    *out = (sf_pattern){0};
    SF_TRY(SF_NEW(&out->offsets, T + 1));
    if (sf_attention_selects_by(attention) != SF_BY_POSITION) {
        make_room(out, attention, T);
        return SF_OK;
    }
    const sf_status status = fill_in(out, attention, T);
    if (status != SF_OK) sf_pattern_destroy(out);
    return status;
}

void sf_pattern_destroy(sf_pattern *pattern) {
    sf_release(pattern->offsets);
    sf_release(pattern->keys);
    *pattern = (sf_pattern){0};
}
