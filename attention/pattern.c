#include "attention/attention.h"
#include "base/sizes.h"

/* A selector may keep fewer keys the larger k is: only those with keeps_all_from_k keep all. */
static bool keeps_all(const sf_attention *attention, size_t length) {
    const sf_selector *selector = attention->selector;
    return selector->takes_k && selector->keeps_all_from_k && attention->globals == 0 && attention->k >= length;
}

sf_attention sf_attention_resolve(sf_attention attention, size_t length) {
    if (keeps_all(&attention, length)) {
        attention.selector = &sf_selector_full;
        attention.k = 0;
        for (size_t i = 0; i < SF_MOST_ARGUMENTS; i++) attention.arguments[i] = 0;
    }
    return attention;
}

size_t sf_attention_positions(const sf_attention *attention, size_t length, bool pad_to_multiple) {
    const size_t k = attention->k;
    if (pad_to_multiple && k > 0) length = (length + k - 1) / k * k;
    return length + attention->globals;
}

static size_t most_kept_of_plain(const sf_attention *attention, size_t plain) {
    const sf_selector *selector = attention->selector;
    if (selector->keeps_k) return sf_smaller(attention->k, plain);
    if (selector->most_kept == NULL) return plain;
    const size_t most = selector->most_kept(plain, attention->k, attention->arguments);
    return most < 1 ? 1 : sf_smaller(most, plain);
}

size_t sf_attention_most_kept(const sf_attention *attention, size_t T) {
    return most_kept_of_plain(attention, T - attention->globals) + attention->globals;
}

/* Room for what is chosen during forward. */
static void make_room(sf_pattern *out, const sf_attention *attention, size_t T) {
    const size_t K = sf_attention_most_kept(attention, T), plain = T - attention->globals;
    for (size_t i = 0; i < T; i++) out->offsets[i + 1] = out->offsets[i] + (i < plain ? K : T);
    out->varies = !attention->selector->keeps_k;
}

/* keep() may use room for all T keys while it writes a row. */
static sf_status open_row(uint32_t **row, sf_pattern *out, size_t *room, size_t total, size_t T) {
    if (*room - total < T) {
        const size_t larger = 2 * *room + T;
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
    if (attention->selector->selects_by != SF_BY_POSITION) {
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
