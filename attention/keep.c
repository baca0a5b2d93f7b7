/* Calls the selectors and weightings, and checks their rules: the first violation is recorded with the model, and the
 * call still returns something that is safe to compute with. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "attention/attention.h"
#include "base/sizes.h"

enum { NO_FAULT, WRITING, WRITTEN };

static void note(const sf_attention *attention, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void note(const sf_attention *attention, const char *format, ...) {
    sf_fault *fault = attention->fault;
    int expected = NO_FAULT;
    if (fault == NULL || !atomic_compare_exchange_strong(&fault->state, &expected, WRITING)) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->message, sizeof fault->message, format, arguments);
    va_end(arguments);
    atomic_store(&fault->state, WRITTEN);
}

void sf_attention_record_fault(const sf_attention *attention, const char *sentence) {
    note(attention, "%s", sentence);
}

sf_status sf_attention_check_fault(const sf_attention *attention) {
    if (!sf_attention_is_faulty(attention)) return SF_OK;
    const bool written = atomic_load(&attention->fault->state) == WRITTEN; /* if not, another thread is writing it */
    return sf_fail(SF_BAD_INPUT, "%s",
                   written ? attention->fault->message : "a part of the attention mechanism breaks its rules");
}

/* Chosen during forward, but the number of keys is known before. */
static bool keeps_exactly(const sf_selector *selector) {
    return selector->keeps_k && selector->selects_by != SF_BY_POSITION;
}

/* Whether a selector followed its rules; if not, this is recorded. */
static bool is_in_order(const uint32_t *kept, size_t count, size_t most, const sf_attention *attention,
                        const sf_selector *selector, const sf_query *query) {
    const char *name = selector->name;
    const char *failure = count < 1 && selector->failure != NULL ? selector->failure(query->prepared) : NULL;
    if (failure != NULL) {
        note(attention, "the selector %s failed: %s", name, failure);
        return false;
    }
    if (count < 1) {
        note(attention, "the selector %s kept no key for query %zu of %zu; every query keeps at least one", name,
             query->query, query->keys);
        return false;
    }
    const bool exactly = keeps_exactly(selector);
    if (count > most || (exactly && count != most)) {
        note(attention, "the selector %s kept %zu keys for query %zu of %zu but states that it keeps %s%zu", name,
             count, query->query, query->keys, exactly ? "" : "at most ", most);
        return false;
    }
    for (size_t n = 0; n < count; n++) {
        if (kept[n] < query->visible && (n == 0 || kept[n] > kept[n - 1])) continue;
        note(attention, "the selector %s kept key %u for query %zu; kept keys must ascend and be below %zu", name,
             (unsigned)kept[n], query->query, query->visible);
        return false;
    }
    return true;
}

static bool looks_at_vectors(const sf_attention *attention) {
    return (attention->selector->selects_by & SF_BY_VECTORS) != 0;
}

static size_t keep_all(uint32_t *kept, size_t T) {
    for (size_t j = 0; j < T; j++) kept[j] = (uint32_t)j;
    return T;
}

/* The keys of the selector or of an extra. */
static size_t keep_one(uint32_t *kept, const sf_attention *attention, const sf_selector *selector,
                       const sf_query *query) {
    const size_t most =
        sf_smaller(sf_selector_most_kept(selector, query->keys, query->k, query->arguments), query->visible);
    const size_t count = selector->keep(kept, query);
    if (is_in_order(kept, count, most, attention, selector, query)) return count;
    const bool exactly = keeps_exactly(selector);
    for (size_t n = 0; exactly && n < most; n++) kept[n] = (uint32_t)n;
    if (!exactly) kept[0] = (uint32_t)query->query;
    return exactly ? most : 1;
}

enum { WORDS = (65536 + 1024) / 64 + 1 }; /* a bit for every position there may be */

/* Both lists ascend; `added` follows `kept`. Their union replaces them. */
static size_t unite(uint32_t *kept, size_t count, size_t added, size_t keys) {
    uint64_t bits[WORDS];
    memset(bits, 0, (keys / 64 + 1) * sizeof *bits);
    for (size_t n = 0; n < count + added; n++) bits[kept[n] / 64] |= UINT64_C(1) << kept[n] % 64;
    count = 0;
    for (size_t word = 0; word <= keys / 64; word++)
        for (uint64_t left = bits[word]; left != 0; left &= left - 1)
            kept[count++] = (uint32_t)(64 * word) + (uint32_t)__builtin_ctzll(left);
    return count;
}

static size_t keep_extras(uint32_t *kept, size_t count, const sf_attention *attention, sf_query query) {
    static const double none[SF_MOST_ARGUMENTS] = {0};
    query.arguments = none;
    query.head = NULL;
    query.prepared = NULL;
    for (size_t e = 0; e < SF_MOST_EXTRAS && attention->extras[e].part != NULL; e++) {
        query.k = attention->extras[e].k;
        const size_t added = keep_one(kept + count, attention, attention->extras[e].part, &query);
        count = unite(kept, count, added, query.keys);
    }
    return count;
}

size_t sf_attention_keep_in(uint32_t *kept /* [2T] */, const sf_attention *attention, const sf_head_state *head,
                            size_t query, size_t T, const double *scores /* [T] */, sf_draws *draws) {
    const size_t plain = T - attention->globals;
    if (query >= plain) return keep_all(kept, T);
    const sf_query asked = {.query = query,
                            .keys = plain,
                            .k = attention->k,
                            .scores = scores,
                            .draws = draws,
                            .visible = sf_attention_visible(attention, query, plain),
                            .arguments = attention->arguments,
                            .head = head != NULL && looks_at_vectors(attention) ? &head->input : NULL,
                            .prepared = head != NULL ? head->scratch : NULL};
    size_t count = keep_one(kept, attention, attention->selector, &asked);
    if (sf_attention_has_extras(attention) && !sf_attention_keeps_visible(attention))
        count = keep_extras(kept, count, attention, asked);
    for (size_t j = plain; j < T; j++) kept[count++] = (uint32_t)j;
    return count;
}

size_t sf_attention_keep(uint32_t *kept /* [2T] */, const sf_attention *attention, size_t query, size_t T,
                         const double *scores /* [T] */, sf_draws *draws) {
    return sf_attention_keep_in(kept, attention, NULL, query, T, scores, draws);
}

static bool are_finite(const double *x, size_t count) {
    double zero = 0; /* becomes NaN at the first NaN or infinity */
    for (size_t i = 0; i < count; i++) zero += 0 * x[i];
    return zero == 0;
}

void sf_attention_weigh(double *weights /* [kept] */, const sf_attention *attention, const double *scores /* [kept] */,
                        size_t kept, size_t visible) {
    const sf_weighing row = {.kept = kept, .visible = visible, .arguments = attention->weighting_arguments};
    attention->weighting->weigh(weights, scores, &row);
    if (!are_finite(weights, kept) && are_finite(scores, kept))
        note(attention, "the weighting %s made a weight that is not finite of %zu finite scores",
             attention->weighting->name, kept);
}

void sf_attention_weigh_backward(double *dscores /* [kept] */, const sf_attention *attention,
                                 const double *dweights /* [kept] */, const double *weights /* [kept] */,
                                 const double *scores /* [kept] */, size_t kept, size_t visible) {
    const sf_weighing row = {.kept = kept, .visible = visible, .arguments = attention->weighting_arguments};
    const bool from_finite = are_finite(dweights, kept) && are_finite(weights, kept) && are_finite(scores, kept);
    attention->weighting->weigh_backward(dscores, dweights, weights, scores, &row);
    if (from_finite && !are_finite(dscores, kept))
        note(attention, "the weighting %s made a gradient that is not finite of %zu finite scores and gradients",
             attention->weighting->name, kept);
}

size_t sf_attention_matrix_scratch(const sf_attention *attention, size_t T) {
    if (!sf_attention_weighs_matrix(attention)) return 0;
    return attention->weighting->matrix_scratch(T, attention->weighting_arguments);
}

static void check_matrix(const double *numbers, const sf_attention *attention, const sf_weighing_matrix *rows) {
    const sf_weighting *weighting = attention->weighting;
    if (weighting->failure == NULL || are_finite(numbers, rows->offsets[rows->T])) return;
    const char *failure = weighting->failure(rows->scratch);
    if (failure != NULL) note(attention, "the weighting %s failed: %s", weighting->name, failure);
}

void sf_attention_weigh_matrix(double *weights, const sf_attention *attention, const double *scores,
                               sf_weighing_matrix *rows) {
    rows->arguments = attention->weighting_arguments;
    if (sf_attention_weighs_batch(attention))
        attention->weighting->weigh_batch(&weights, &scores, rows, 1);
    else
        attention->weighting->weigh_matrix(weights, scores, rows);
    check_matrix(weights, attention, rows);
}

void sf_attention_weigh_matrix_backward(double *dscores, const sf_attention *attention, const double *dweights,
                                        const double *weights, const double *scores, sf_weighing_matrix *rows) {
    rows->arguments = attention->weighting_arguments;
    if (sf_attention_weighs_batch(attention))
        attention->weighting->weigh_batch_backward(&dscores, &dweights, &weights, &scores, rows, 1);
    else
        attention->weighting->weigh_matrix_backward(dscores, dweights, weights, scores, rows);
    check_matrix(dscores, attention, rows);
}

void sf_attention_weigh_batch(const sf_weighed_batch *batch, const sf_attention *attention) {
    for (size_t n = 0; n < batch->count; n++) batch->rows[n].arguments = attention->weighting_arguments;
    attention->weighting->weigh_batch(batch->weights, batch->scores, batch->rows, batch->count);
    for (size_t n = 0; n < batch->count; n++) check_matrix(batch->weights[n], attention, &batch->rows[n]);
}

void sf_attention_weigh_batch_backward(const sf_weighed_batch *batch, const sf_attention *attention) {
    const double *const *dweights = (const double *const *)batch->slopes;
    attention->weighting->weigh_batch_backward(batch->slopes, dweights, (const double *const *)batch->weights,
                                               batch->scores, batch->rows, batch->count);
    for (size_t n = 0; n < batch->count; n++) check_matrix(batch->slopes[n], attention, &batch->rows[n]);
}
