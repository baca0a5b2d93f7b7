/* Every measure of the attention scores against the reference in double, value by value and sorted. */
#include "instruction_set.h"
#include "sample_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/reference/reference.h"
#include "measure/scores.h"

typedef struct heap { /* all values of one measure of one block */
    double *values;
    size_t count, room;
} heap;

static void push(heap *h, double value) {
    if (h->count == h->room) {
        double *larger;
        assert_int_equal(SF_NEW(&larger, h->room = h->room > 0 ? 2 * h->room : 256), SF_OK);
        if (h->count > 0) memcpy(larger, h->values, h->count * sizeof *larger);
        sf_release(h->values);
        h->values = larger;
    }
    h->values[h->count++] = value;
}

typedef struct expected {
    heap heaps[SF_MEASURES];
    size_t queries, holds_w, holds_x;
} expected;

static const double percents[SF_QUANTILES] = {0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 100};

static int ascending(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double quantile(heap *h, double percent) {
    if (h->count == 0) return NAN;
    qsort(h->values, h->count, sizeof *h->values, ascending);
    const double place = percent / 100 * (double)(h->count - 1);
    const size_t below = (size_t)floor(place), above = (size_t)ceil(place);
    return h->values[below] + (place - (double)below) * (h->values[above] - h->values[below]);
}

static bool chooses_by_score(const sf_shape *s) {
    return strncmp(s->attention.selector->name, "topk", 4) == 0 ||
           strncmp(s->attention.selector->name, "bottomk", 7) == 0;
}

/* One head of one sequence, straight from the definitions. */
static void expect_head(expected *out, const double *scores /* [T,T] */, const bool *kept /* [T,T] */,
                        const sf_shape *s) {
    const size_t T = s->T;
    const bool lowest = strcmp(s->attention.selector->name, "bottomk") == 0;
    double most = 0;
    for (size_t j = 0; j < T; j++) {
        double degree = 0;
        for (size_t i = 0; i < T; i++) degree += kept[i * T + j];
        push(&out->heaps[SF_IN_DEGREE], degree);
        most = fmax(most, degree);
    }
    for (size_t i = 0; i < T; i++) {
        double high = -INFINITY, low = INFINITY, kept_high = -INFINITY, kept_low = INFINITY;
        double other_high = -INFINITY, other_low = INFINITY, count = 0;
        for (size_t j = 0; j < T; j++) {
            const double d = scores[i * T + j];
            high = fmax(high, d);
            low = fmin(low, d);
            if (kept[i * T + j]) {
                kept_high = fmax(kept_high, d);
                kept_low = fmin(kept_low, d);
                count++;
            } else {
                other_high = fmax(other_high, d);
                other_low = fmin(other_low, d);
            }
        }
        const double all = high - low, ours = kept_high - kept_low;
        double total = 0, squares = 0, entropy = 0;
        for (size_t j = 0; j < T; j++) total += kept[i * T + j] ? exp(scores[i * T + j] - kept_high) : 0;
        for (size_t j = 0; j < T; j++) {
            if (!kept[i * T + j]) continue;
            const double w = exp(scores[i * T + j] - kept_high) / total;
            squares += w * w;
            entropy -= w * log(w);
        }
        push(&out->heaps[SF_EFFECTIVE_KEYS], 1 / squares);
        push(&out->heaps[SF_ENTROPY], entropy);
        push(&out->heaps[SF_DISPERSION], all);
        push(&out->heaps[SF_KEPT_DISPERSION], ours);
        if (!chooses_by_score(s) || count == (double)T) {
            push(&out->heaps[SF_LN_STABILITY], log(exp(ours) / count));
            continue;
        }
        const double gap = lowest ? other_low - kept_high : kept_low - other_high;
        const double c1 = ours / all, c2 = gap / all, beta = most / count;
        const double w = c1 + log(2 * (1 + 1 / (c2 * all))) / all;
        const double x = c1 + log(all * (1 + beta) * (1 + 1 / (c2 * all)) + beta) / all - log(all + 1) / all;
        push(&out->heaps[SF_SEPARATION], gap);
        push(&out->heaps[SF_LN_STABILITY], log(exp(ours) / count * (1 + 1 / gap)));
        push(&out->heaps[SF_CONDITION_W], w);
        push(&out->heaps[SF_CONDITION_X], x);
        out->queries++;
        out->holds_w += w < 1;
        out->holds_x += x < 1;
    }
}

enum { MOST_BLOCKS = 4, SAMPLES = 7 };

static void expect_all(expected *out /* [L+1] */, const sample *s, const sf_run_data *data, sf_split split,
                       size_t samples) {
    const sf_shape *shape = &s->model.shape;
    const size_t T = shape->T, plain = T - shape->attention.globals;
    sf_reference *reference;
    assert_int_equal(sf_reference_create(&reference, &s->model), SF_OK);
    int32_t *row;
    assert_int_equal(SF_NEW(&row, T), SF_OK);
    const sf_dataset *set = split == SF_TRAINING ? data->training : data->heldout;
    for (size_t n = 0; n < samples; n++) {
        size_t count;
        const int32_t *tokens = sf_dataset_tokens(set, n, &count), label = 0;
        for (size_t t = 0; t < T; t++)
            row[t] = t < count ? tokens[t] : t < plain ? data->pad : data->pad + 1 + (int32_t)(t - plain);
        const sf_moment moment = {
            .seed = s->moment.seed, .step = split == SF_TRAINING ? 0 : 1, .first_sample = (uint32_t)n};
        double loss, logits[3];
        sf_reference_run(reference, &loss, logits, NULL, s->params,
                         &(sf_batch){.tokens = row, .labels = &label, .B = 1}, &moment);
        for (size_t l = 0; l < shape->L; l++)
            for (size_t h = 0; h < shape->H; h++)
                for (size_t where = l;; where = shape->L) { /* its block, then all of them */
                    expect_head(&out[where], sf_reference_scores(reference, l) + h * T * T,
                                sf_reference_kept(reference, l) + h * T * T, shape);
                    if (where == shape->L) break;
                }
    }
    sf_release(row);
    sf_reference_destroy(reference);
}

/* Scores in f32 are off by a few 1e-7 of their size; what divides by the separation, by that over the separation. */
static double allowed(sf_measure measure, double value) {
    switch (measure) {
    case SF_IN_DEGREE:
        return 0;
    case SF_LN_STABILITY:
    case SF_CONDITION_W:
    case SF_CONDITION_X:
        return 5e-3 * (1 + fabs(value));
    default:
        return 2e-5 * (1 + fabs(value));
    }
}

static void assert_as_expected(const sf_block_measures *got, expected *wanted, size_t block) {
    for (size_t m = 0; m < SF_MEASURES; m++) {
        assert_int_equal(got->measures[m].count, wanted->heaps[m].count);
        assert_int_equal(got->measures[m].not_numbers, 0);
        for (size_t i = 0; i < SF_QUANTILES; i++) {
            const double value = quantile(&wanted->heaps[m], percents[i]), ours = got->measures[m].at[i];
            if (isnan(value) ? !isnan(ours) : !(fabs(ours - value) <= allowed((sf_measure)m, value)))
                fail_msg("block %zu, %s at %g %%: %.9g, expected %.9g", block, sf_measure_name((sf_measure)m),
                         percents[i], ours, value);
        }
    }
    assert_int_equal(got->queries, wanted->queries);
    assert_int_equal(got->holds_w, wanted->holds_w);
    assert_int_equal(got->holds_x, wanted->holds_x);
}

static void open_data(sf_run_data *data, size_t length, size_t count) {
    sf_config config;
    char text[24];
    sf_config_init(&config);
    snprintf(text, sizeof text, "%zu", length);
    assert_int_equal(sf_config_set(&config, "length", text), SF_OK);
    snprintf(text, sizeof text, "%zu", count);
    assert_int_equal(sf_config_set(&config, "train-count", text), SF_OK);
    assert_int_equal(sf_config_set(&config, "heldout-count", text), SF_OK);
    assert_int_equal(sf_run_data_open(data, "cycle-navigation", &config, NULL), SF_OK);
}

static float *single(const sample *s) {
    float *params;
    assert_int_equal(SF_NEW(&params, s->model.size), SF_OK);
    for (size_t i = 0; i < s->model.size; i++) params[i] = (float)s->params[i];
    return params;
}

static void check_case(const sample_case *c, size_t padding, sf_split split) {
    describe_case(c);
    sample s;
    sf_run_data data;
    sf_meter *meter;
    expected wanted[MOST_BLOCKS + 1];
    memset(wanted, 0, sizeof wanted);
    sample_open(&s, c);
    open_data(&data, c->T - padding, SAMPLES);
    float *params = single(&s);
    assert_int_equal(sf_meter_create(&meter, &s.model, &(sf_machine){.threads = 2}), SF_OK);
    const sf_measured_data what = {.data = &data, .split = split, .seed = c->seed};
    for (int again = 0; again < 2; again++) assert_int_equal(sf_meter_measure(meter, params, &what), SF_OK);
    expect_all(wanted, &s, &data, split, SAMPLES);
    for (size_t block = 0; block <= c->L; block++) {
        sf_block_measures got;
        assert_int_equal(sf_meter_read(&got, meter, block), SF_OK);
        assert_as_expected(&got, &wanted[block], block);
        for (size_t m = 0; m < SF_MEASURES; m++) sf_release(wanted[block].heaps[m].values);
    }
    sf_meter_destroy(meter);
    sf_release(params);
    sf_run_data_close(&data);
    sample_close(&s);
}

static const char *const mechanisms[] = {"full",     "banded:5",  "banded:4+global:2", "block:5", "block:3+global:1",
                                         "topk:5",   "bottomk:5", "random:5",          "topk:1",  "narrow topk:4",
                                         "wide full"};
enum { MECHANISMS = sizeof mechanisms / sizeof *mechanisms };

static void every_mechanism_and_head_count(void **state) {
    (void)state;
    for (size_t m = 0; m < MECHANISMS; m++)
        for (size_t H = 1; H <= 3; H++)
            check_case(&(sample_case){mechanisms[m], 13, 10, 12, H, 3, 1, SF_RELU, SF_PRE_NORM, 0, 900 + (uint32_t)m},
                       H == 2 ? 3 : 0, H == 3 ? SF_TRAINING : SF_HELDOUT);
}

static void post_norm_and_other_shapes(void **state) {
    (void)state;
    for (size_t m = 0; m < MECHANISMS; m++)
        check_case(&(sample_case){mechanisms[m], 9, 7, 5, 2, 2, 1, SF_GELU, SF_POST_NORM, 0, 950 + (uint32_t)m}, 0,
                   SF_HELDOUT);
    check_case(&(sample_case){"topk:40", 71, 6, 6, 1, 1, 1, SF_RELU, SF_PRE_NORM, 0, 970}, 0, SF_HELDOUT);
}

/* One position, and as many kept keys as there are: no separation, the dispersion of full attention. */
static void degenerate_lengths(void **state) {
    (void)state;
    static const char *const all[] = {"full", "topk:1", "topk:9", "bottomk:9", "random:9", "banded:9", "block:9"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        check_case(&(sample_case){all[i], 1, 8, 8, 2, 2, 1, SF_RELU, SF_PRE_NORM, 0, 980}, 0, SF_HELDOUT);
        if (i != 1) check_case(&(sample_case){all[i], 9, 8, 8, 2, 2, 1, SF_RELU, SF_PRE_NORM, 0, 990}, 0, SF_HELDOUT);
    }
}

/* More values than are kept exactly; the same bits for any number of workers. */
static void workers_change_nothing(void **state) {
    (void)state;
    sample s;
    sf_run_data data;
    sample_open(&s, &(sample_case){"topk:4", 11, 8, 8, 2, 2, 1, SF_RELU, SF_PRE_NORM, 0, 995});
    open_data(&data, 11, 700);
    float *params = single(&s);
    sf_block_measures first[3], got;
    for (size_t workers = 1; workers <= 5; workers += 2) {
        sf_meter *meter;
        assert_int_equal(sf_meter_create(&meter, &s.model, &(sf_machine){.threads = workers}), SF_OK);
        const sf_measured_data what = {.data = &data, .split = SF_HELDOUT, .seed = 1};
        assert_int_equal(sf_meter_measure(meter, params, &what), SF_OK);
        for (size_t block = 0; block < 3; block++) {
            memset(&got, 0, sizeof got);
            assert_int_equal(sf_meter_read(&got, meter, block), SF_OK);
            assert_int_equal(got.measures[SF_DISPERSION].count, 700 * 11 * 2 * (block == 2 ? 2 : 1));
            if (workers == 1) first[block] = got;
            assert_memory_equal(&first[block], &got, sizeof got);
        }
        sf_meter_destroy(meter);
    }
    sf_release(params);
    sf_run_data_close(&data);
    sample_close(&s);
}

/* Xi of block 0 from embedding and positions; deeper blocks read normed rows, which are no longer than sqrt(C). */
static void largest_tokens(void **state) {
    (void)state;
    for (int norm = SF_PRE_NORM; norm <= SF_POST_NORM; norm++) {
        sample s;
        sf_run_data data;
        sf_meter *meter;
        sample_open(&s, &(sample_case){"banded:3+global:1", 6, 9, 5, 1, 2, 1, SF_RELU, (sf_norm)norm, 0, 996});
        open_data(&data, 6, SAMPLES);
        float *params = single(&s);
        const size_t T = s.model.shape.T, C = s.model.shape.C;
        double positions[64], largest = 0;
        assert_true(T * C <= 64);
        sf_positions(positions, T, C);
        for (size_t n = 0; n < SAMPLES; n++)
            for (size_t t = 0; t < T; t++) {
                size_t count;
                const int32_t *tokens = sf_dataset_tokens(data.heldout, n, &count);
                const size_t id = t < count ? (size_t)tokens[t] : (size_t)data.pad + 1;
                double x[9], mean = 0, variance = 0, square = 0;
                for (size_t c = 0; c < C; c++) {
                    x[c] = s.params[sf_param_index(sf_model_embedding(&s.model), id, c)] * sqrt((double)C) +
                           positions[t * C + c];
                    mean += x[c] / (double)C;
                }
                for (size_t c = 0; c < C; c++) variance += (x[c] - mean) * (x[c] - mean) / (double)C;
                for (size_t c = 0; c < C; c++) {
                    const double seen = norm == SF_PRE_NORM ? (x[c] - mean) / sqrt(variance) : x[c];
                    square += seen * seen;
                }
                largest = fmax(largest, sqrt(square));
            }
        assert_int_equal(sf_meter_create(&meter, &s.model, &(sf_machine){.threads = 1}), SF_OK);
        const sf_measured_data what = {.data = &data, .split = SF_HELDOUT, .seed = 1};
        assert_int_equal(sf_meter_measure(meter, params, &what), SF_OK);
        sf_block_measures got[3];
        for (size_t block = 0; block < 3; block++) assert_int_equal(sf_meter_read(&got[block], meter, block), SF_OK);
        assert_true(fabs(got[0].largest_token - largest) <= 1e-5 * largest);
        assert_true(got[1].largest_token <= sqrt((double)C) * (1 + 1e-6) &&
                    got[1].largest_token > 0.99 * sqrt((double)C));
        assert_true(got[2].largest_token == fmax(got[0].largest_token, got[1].largest_token));
        sf_meter_destroy(meter);
        sf_release(params);
        sf_run_data_close(&data);
        sample_close(&s);
    }
}

/* Weights that are not numbers give counts, not quantiles. */
static void not_a_number_is_counted(void **state) {
    (void)state;
    sample s;
    sf_run_data data;
    sf_meter *meter;
    sample_open(&s, &(sample_case){"topk:3", 6, 8, 8, 1, 1, 1, SF_RELU, SF_PRE_NORM, 0, 997});
    open_data(&data, 6, SAMPLES);
    float *params = single(&s);
    params[sf_param_index(&sf_model_block(&s.model, 0)[SF_WQ], 0, 0)] = NAN;
    assert_int_equal(sf_meter_create(&meter, &s.model, &(sf_machine){.threads = 1}), SF_OK);
    const sf_measured_data what = {.data = &data, .split = SF_HELDOUT, .samples = 5, .seed = 1};
    assert_int_equal(sf_meter_measure(meter, params, &what), SF_OK);
    sf_block_measures got;
    assert_int_equal(sf_meter_read(&got, meter, 1), SF_OK);
    assert_int_equal(got.measures[SF_DISPERSION].not_numbers, 5 * 6);
    assert_int_equal(got.measures[SF_DISPERSION].count, 0);
    assert_int_equal(got.holds_w, 0);
    sf_meter_destroy(meter);
    sf_release(params);
    sf_run_data_close(&data);
    sample_close(&s);
}

int main(void) {
    if (!has_instruction_set(SF_F32)) return SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mechanism_and_head_count),
        cmocka_unit_test(post_norm_and_other_shapes),
        cmocka_unit_test(degenerate_lengths),
        cmocka_unit_test(workers_change_nothing),
        cmocka_unit_test(largest_tokens),
        cmocka_unit_test(not_a_number_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
