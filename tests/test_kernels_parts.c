/* Parts of plug-ins on both paths: selectors that keep any number of keys and look at anything, weightings with
 * arguments, and those that break their rules. */
#include "both_paths.h"
#include "instruction_set.h"

#include <string.h>

/* Selectors that keep as many keys as they like. Scores in f32 and double may differ in what they keep where they are
 * close to the limit: this one looks at halves of them that are far apart. */
static size_t keep_larger_half(uint32_t *kept, const sf_query *query) {
    double mean = 0;
    for (size_t j = 0; j < query->visible; j++) mean += query->scores[j] / (double)query->visible;
    size_t count = 0;
    for (size_t j = 0; j < query->visible; j++)
        if (query->scores[j] > mean + query->arguments[0] * (query->scores[0] - mean)) kept[count++] = (uint32_t)j;
    if (count == 0) kept[count++] = (uint32_t)query->query;
    return count;
}

/* As the last, among the keys before a place that is drawn. */
static size_t keep_larger_by_chance(uint32_t *kept, const sf_query *query) {
    const size_t count = keep_larger_half(kept, query), end = 1 + sf_draw_below(query->draws, (uint32_t)query->keys);
    size_t left = 0;
    while (left < count && kept[left] < end) left++;
    return left > 0 ? left : 1;
}

/* The keys whose sign is that of the query, of a channel that is drawn for the step; prepared for all queries. */
static size_t signs_size(const sf_head_input *head) {
    return head->T + 1;
}

static void prepare_signs(void *scratch, const sf_head_input *head) {
    unsigned char *signs = scratch;
    const size_t channel = sf_draw_below(head->step_draws, (uint32_t)head->D);
    signs[head->T] = (unsigned char)channel;
    for (size_t j = 0; j < head->T; j++) signs[j] = head->keys[j * head->stride + channel] > 0;
}

static size_t keep_same_sign(uint32_t *kept, const sf_query *query) {
    const unsigned char *signs = query->prepared;
    const sf_head_input *head = query->head;
    const bool sign = head->queries[query->query * head->stride + signs[head->T]] > 0;
    size_t count = 0;
    for (size_t j = 0; j < query->visible; j++)
        if (signs[j] == sign) kept[count++] = (uint32_t)j;
    if (count == 0) kept[count++] = (uint32_t)query->query;
    return count;
}

/* Softmax of arguments[0] * s, times the share of the keys that are kept. */
static void scaled_weigh(double *weights, const double *scores, const sf_weighing *row) {
    double total = 0;
    for (size_t j = 0; j < row->kept; j++) total += weights[j] = exp(row->arguments[0] * scores[j]);
    for (size_t j = 0; j < row->kept; j++) weights[j] *= (double)row->kept / (double)row->visible / total;
}

static void scaled_backward(double *dscores, const double *dweights, const double *weights, const double *scores,
                            const sf_weighing *row) {
    (void)scores;
    double mean = 0;
    for (size_t j = 0; j < row->kept; j++) mean += weights[j] * dweights[j] * (double)row->visible / (double)row->kept;
    for (size_t j = 0; j < row->kept; j++) dscores[j] = row->arguments[0] * weights[j] * (dweights[j] - mean);
}

static void any_number_of_keys_needs_no_kernel(void **state) {
    (void)state;
    const sf_selector selectors[] = {
        {SF_SELECTOR, .name = "larger", .selects_by = SF_BY_SCORE, .keep = keep_larger_half},
        {SF_SELECTOR, .name = "chance", .selects_by = SF_BY_SCORE | SF_BY_CHANCE, .keep = keep_larger_by_chance},
        {SF_SELECTOR, .name = "signs", .selects_by = SF_BY_VECTORS | SF_BY_CHANCE, .keep = keep_same_sign,
         .scratch_size = signs_size, .prepare = prepare_signs}};
    const sf_weighting scaled = {SF_WEIGHTING, .name = "scaled", .weigh = scaled_weigh,
                                 .weigh_backward = scaled_backward};
    static const size_t lengths[] = {1, 13, 101, 200};
    for (size_t i = 0; i < 48; i++) { /* every combination of what follows */
        sample s;
        const bool globals = i % 2 != 0;
        const sample_case c = {globals ? "banded:1+global:2" : "topk:1",
                               lengths[i / 2 % 4],
                               16,
                               16,
                               2,
                               2,
                               3,
                               SF_RELU,
                               SF_PRE_NORM,
                               0.1,
                               970};
        sample_open(&s, &c);
        sf_attention *attention = &s.model.shape.attention;
        attention->selector = &selectors[i / 8 % 3];
        attention->k = 0;
        attention->arguments[0] = 0.25;
        if (i / 24 == 1) {
            attention->weighting = &scaled;
            attention->weighting_arguments[0] = 1.5;
        }
        describe_case(&c);
        check_sample(&s);
        outcome alone, shared;
        run_cpu(&alone, &s, 1);
        run_cpu(&shared, &s, 3);
        assert_memory_equal(alone.gradient, shared.gradient, s.model.size * sizeof *alone.gradient);
        outcome_close(&alone);
        outcome_close(&shared);
        assert_int_equal(sf_attention_check_fault(attention), SF_OK);
        sample_close(&s);
    }
}

static void sigmoid_weigh(double *weights, const double *scores, const sf_weighing *row) {
    for (size_t j = 0; j < row->kept; j++) weights[j] = 1 / (1 + exp(-scores[j]));
}

static void sigmoid_backward(double *dscores, const double *dweights, const double *weights, const double *scores,
                             const sf_weighing *row) {
    (void)scores;
    for (size_t j = 0; j < row->kept; j++) dscores[j] = dweights[j] * weights[j] * (1 - weights[j]);
}

static size_t keep_first_two(uint32_t *kept, const sf_query *query) {
    (void)query;
    kept[0] = 0;
    kept[1] = 1;
    return 2;
}

/* Parts that break their rules are found out by either path, and nothing else happens. */
static size_t keep_none(uint32_t *kept, const sf_query *query) {
    (void)kept, (void)query;
    return 0;
}

static size_t keep_beyond(uint32_t *kept, const sf_query *query) {
    kept[0] = (uint32_t)query->keys;
    return 1;
}

static size_t keep_backwards(uint32_t *kept, const sf_query *query) {
    for (size_t j = 0; j < query->keys; j++) kept[j] = (uint32_t)(query->keys - 1 - j);
    return query->keys;
}

static size_t at_most_one(size_t keys, size_t k, const double *arguments) {
    (void)keys, (void)k, (void)arguments;
    return 1;
}

static void weigh_nan(double *weights, const double *scores, const sf_weighing *row) {
    sigmoid_weigh(weights, scores, row);
    weights[row->kept - 1] = NAN;
}

static void backward_infinite(double *dscores, const double *dweights, const double *weights, const double *scores,
                              const sf_weighing *row) {
    sigmoid_backward(dscores, dweights, weights, scores, row);
    dscores[0] = INFINITY;
}

static void check_is_found_out(const sf_selector *selector, const sf_weighting *weighting, const char *words) {
    for (int reference = 0; reference < 2; reference++) {
        sample s;
        outcome got;
        sample_open(&s, &(sample_case){"topk:3", 13, 16, 16, 2, 2, 3, SF_RELU, SF_PRE_NORM, 0.1, 980});
        if (selector != NULL) s.model.shape.attention.selector = selector;
        if (weighting != NULL) s.model.shape.attention.weighting = weighting;
        if (reference)
            run_reference(&got, &s);
        else
            run_cpu(&got, &s, 2);
        assert_int_equal(sf_attention_check_fault(&s.model.shape.attention), SF_BAD_INPUT);
        if (strstr(sf_message(), words) == NULL) fail_msg("'%s' lacks '%s'", sf_message(), words);
        outcome_close(&got);
        sample_close(&s);
    }
}

static void what_breaks_its_rules_is_found_out(void **state) {
    (void)state;
    check_is_found_out(&(sf_selector){SF_SELECTOR, .name = "none", .selects_by = SF_BY_SCORE, .keep = keep_none}, NULL,
                       "none kept no key");
    check_is_found_out(&(sf_selector){SF_SELECTOR, .name = "beyond", .selects_by = SF_BY_CHANCE, .keep = keep_beyond},
                       NULL, "kept key 13 for query");
    check_is_found_out(
        &(sf_selector){SF_SELECTOR, .name = "backwards", .selects_by = SF_BY_SCORE, .keep = keep_backwards}, NULL,
        "must ascend");
    check_is_found_out(&(sf_selector){SF_SELECTOR, .name = "more", .selects_by = SF_BY_SCORE, .keep = keep_backwards,
                                      .most_kept = at_most_one},
                       NULL, "kept 13 keys for query 0 of 13 but states that it keeps at most 1");
    check_is_found_out(&(sf_selector){SF_SELECTOR, .name = "other", .selects_by = SF_BY_SCORE, .takes_k = true,
                                      .keeps_k = true, .keep = keep_first_two},
                       NULL, "kept 2 keys for query 0 of 13 but states that it keeps 3");
    check_is_found_out(
        NULL, &(sf_weighting){SF_WEIGHTING, .name = "nan", .weigh = weigh_nan, .weigh_backward = sigmoid_backward},
        "nan made a weight that is not finite");
    check_is_found_out(
        NULL,
        &(sf_weighting){SF_WEIGHTING, .name = "infinite", .weigh = sigmoid_weigh, .weigh_backward = backward_infinite},
        "infinite made a gradient that is not finite");
}

int main(void) {
    if (!has_instruction_set(SF_F32)) return SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_keys_needs_no_kernel),
        cmocka_unit_test(what_breaks_its_rules_is_found_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
