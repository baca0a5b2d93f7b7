/* The kernels against the reference, for the instruction set SEMFOCUS_ISA names (the suite runs each). */
#include "both_paths.h"
#include "instruction_set.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One weight after the other: how far apart, beside its norm (a hundredth of all weights' at least). */
static void assert_alike(const sample *s, const outcome *ours, const outcome *theirs, double limit) {
    double whole = 0;
    for (size_t i = 0; i < s->model.size; i++) whole += theirs->gradient[i] * theirs->gradient[i];
    for (size_t p = 0; p < s->model.param_count; p++) {
        const sf_param *param = &s->model.params[p];
        double norm = 0, apart = 0;
        for (size_t i = 0; i < param->rows * param->columns; i++) {
            const size_t at = sf_param_index(param, i / param->columns, i % param->columns);
            norm += theirs->gradient[at] * theirs->gradient[at];
            apart += (ours->gradient[at] - theirs->gradient[at]) * (ours->gradient[at] - theirs->gradient[at]);
        }
        if (!(sqrt(apart) <= limit * fmax(sqrt(norm), 0.01 * sqrt(whole))))
            fail_msg("%s is %.3g away from a gradient of norm %.3g", param->name, sqrt(apart), sqrt(norm));
    }
}

static void check_case(const sample_case *c) {
    describe_case(c);
    sample s;
    sample_open(&s, c);
    check_sample(&s);
    sample_close(&s);
}

static void odd_shapes_match_the_reference(void **state) {
    (void)state;
    static const size_t lengths[] = {1, 13, 40};
    for (size_t i = 0; i < 3; i++) {
        const size_t T = lengths[i];
        const size_t kept[] = {1, 5, T > 1 ? T - 1 : 1};
        for (size_t H = 1; H <= 2; H++)
            for (size_t B = 1; B <= 3; B += 2) {
                check_case(&(sample_case){"full", T, 16, 24, H, 2, B, SF_RELU, SF_PRE_NORM, 0, 100});
                for (size_t n = 0; n < 3; n++) {
                    static const char *const forms[] = {
                        "banded:%zu", "banded:%zu+global:3", "block:%zu", "block:%zu+global:1",
                        "topk:%zu",   "bottomk:%zu",         "random:%zu"};
                    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
                        char attention[32];
                        snprintf(attention, sizeof attention, forms[f], kept[n]);
                        check_case(&(sample_case){attention, T, 16, 24, H, 2, B, SF_RELU, SF_PRE_NORM, 0,
                                                  200 + (uint32_t)(10 * f + n)});
                    }
                }
            }
    }
}

static const char *const mechanisms[] = {"full",   "banded:5",  "banded:4+global:2", "block:5", "block:3+global:1",
                                         "topk:5", "bottomk:5", "random:5"};
enum { MECHANISMS = sizeof mechanisms / sizeof *mechanisms };

/* Layers take long sequences a stretch at a time; keys may be within it, in the next one, or anywhere. */
static void stretches_of_rows_match_the_reference(void **state) {
    (void)state;
    static const struct {
        size_t T;
        sf_norm norm;
    } shapes[] = {{129, SF_PRE_NORM}, {129, SF_POST_NORM}, {270, SF_PRE_NORM}, {400, SF_PRE_NORM}};
    static const char *const wide[] = {"banded:201", "block:150", "topk:40"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (size_t m = 0; m < MECHANISMS; m++)
            check_case(&(sample_case){mechanisms[m], shapes[i].T, 20, 18, 2, 2, 1, SF_GELU, shapes[i].norm, 0.2,
                                      600 + (uint32_t)m});
        for (size_t m = 0; m < 3; m++)
            check_case(
                &(sample_case){wide[m], shapes[i].T, 16, 16, 1, 2, 1, SF_RELU, shapes[i].norm, 0.1, 700 + (uint32_t)m});
    }
}

static void activations_norms_and_dropout_match(void **state) {
    (void)state;
    for (size_t m = 0; m < MECHANISMS; m++)
        for (int activation = SF_RELU; activation <= SF_MISH; activation++)
            for (int norm = SF_PRE_NORM; norm <= SF_POST_NORM; norm++)
                check_case(&(sample_case){mechanisms[m], 21, 20, 18, 2, 2, 3, (sf_activation)activation, (sf_norm)norm,
                                          0.2, 300 + (uint32_t)m});
}

static void widths_that_are_no_multiple_of_a_vector_match(void **state) {
    (void)state;
    static const size_t widths[][3] = {{1, 1, 1}, {7, 5, 3}, {17, 33, 2}, {64, 64, 1}, {65, 100, 1}};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (size_t m = 0; m < MECHANISMS; m++)
            check_case(&(sample_case){mechanisms[m], 11, widths[i][0], widths[i][1], widths[i][2], 2, 2, SF_GELU,
                                      SF_PRE_NORM, 0.1, 400 + (uint32_t)m});
}

/* More than one query tile, more than one group of 64 dropout columns, the generic selection (k > 32). */
static void long_sequences_match(void **state) {
    (void)state;
    static const char *const longer[] = {"full",    "banded:7+global:1", "block:9", "topk:9",
                                         "topk:40", "bottomk:33",        "random:9"};
    for (size_t m = 0; m < sizeof longer / sizeof *longer; m++)
        check_case(&(sample_case){longer[m], 149, 8, 8, 1, 1, 2, SF_RELU, SF_PRE_NORM, 0.1, 500 + (uint32_t)m});
}

/* More keys than the dense kernel keeps dropout for. */
static void dropout_of_far_keys_matches(void **state) {
    (void)state;
    check_case(&(sample_case){"full", SF_DRAWN_KEYS + 131, 6, 6, 2, 2, 1, SF_RELU, SF_PRE_NORM, 0.3, 550});
}

static void batches_of_any_size_match(void **state) {
    (void)state;
    for (size_t B = 1; B <= 26; B += 5)
        check_case(&(sample_case){"topk:3", 6, 8, 8, 1, 1, B, SF_RELU, SF_PRE_NORM, 0.1, 600});
}

/* Noise on the embedded tokens has the same address on both paths, and a model without it does not notice. */
static void noise_matches(void **state) {
    (void)state;
    for (size_t m = 0; m < MECHANISMS; m++) {
        sample s;
        outcome quiet, noisy, reference;
        sample_open(&s, &(sample_case){mechanisms[m], 13, 17, 8, 2, 2, 5, SF_RELU, SF_PRE_NORM, 0, 650});
        run_cpu(&quiet, &s, 1);
        s.moment.noise = 0.1;
        run_reference(&reference, &s);
        for (size_t workers = 1; workers <= 3; workers += 2) {
            run_cpu(&noisy, &s, workers);
            assert_close(&s, &noisy, &reference, f32_limit);
            assert_true(fabs(noisy.loss - quiet.loss) > 1e-4);
            outcome_close(&noisy);
        }
        outcome_close(&quiet);
        outcome_close(&reference);
        sample_close(&s);
    }
}

static void check_workers(const sample_case *c, sf_precision precision) {
    sample s;
    outcome one, several;
    describe_case(c);
    sample_open(&s, c);
    run_cpu_in(precision, &one, &s, 1);
    for (size_t workers = 2; workers <= 5; workers++) {
        run_cpu_in(precision, &several, &s, workers);
        assert_true(one.loss == several.loss);
        assert_memory_equal(one.gradient, several.gradient, s.model.size * sizeof *one.gradient);
        outcome_close(&several);
    }
    outcome_close(&one);
    sample_close(&s);
}

/* Same bits for any number of workers. */
static void workers_do_not_change_a_bit(void **state) {
    (void)state;
    for (size_t m = 0; m < MECHANISMS; m++)
        check_workers(&(sample_case){mechanisms[m], 13, 16, 16, 2, 2, 11, SF_RELU, SF_PRE_NORM, 0.1, 700}, SF_F32);
}

/* One long sequence, or three: workers without one take queries of the others'. */
static void check_helpers(sf_precision precision) {
    static const char *const chosen[] = {"full", "topk:5", "bottomk:40", "random:5"};
    for (size_t m = 0; m < sizeof chosen / sizeof *chosen; m++)
        for (size_t B = 1; B <= 3; B += 2)
            check_workers(&(sample_case){chosen[m], 500, 16, 16, 2, 2, B, SF_RELU, SF_PRE_NORM, 0.1, 750}, precision);
}

static void helpers_do_not_change_a_bit(void **state) {
    (void)state;
    check_helpers(SF_F32);
}

static void need_bf16(void) {
    if (sf_cpu_check_isa(SF_BF16) == SF_OK) return;
    print_message("skipped: %s\n", sf_message());
    skip();
}

static void helpers_do_not_change_a_bit_of_bf16(void **state) {
    (void)state;
    need_bf16();
    check_helpers(SF_BF16);
}

/* Not where keys are chosen by score: rounding makes nearly equal ones change places; see test_kernels_bf16.c. */
static void bf16_is_near_the_reference(void **state) {
    (void)state;
    need_bf16();
    static const char *const chosen[] = {"full", "banded:5", "block:5"};
    static const size_t lengths[] = {31, 33, 64, 97, 129, 230};
    for (size_t m = 0; m < sizeof chosen / sizeof *chosen; m++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            for (size_t H = 1; H <= 2; H++) {
                const sample_case c = {chosen[m],   lengths[i], 40 / H,           30, H, 2, 2, SF_GELU,
                                       SF_PRE_NORM, 0.1,        760 + (uint32_t)i};
                sample s;
                outcome bf16, reference;
                describe_case(&c);
                sample_open(&s, &c);
                run_reference(&reference, &s);
                run_cpu_in(SF_BF16, &bf16, &s, 1);
                assert_alike(&s, &bf16, &reference, 0.05);
                outcome_close(&bf16);
                outcome_close(&reference);
                sample_close(&s);
            }
}

/* The kept kernel with every key kept equals the dense one, for every mechanism and through the generic weighting. */
static void generic_kernel_with_every_key_equals_dense(void **state) {
    (void)state;
    static const char *const limits[] = {"banded:13", "block:13", "topk:13",  "bottomk:13",
                                         "random:13", "topk:99",  "banded:99"};
    const sf_weighting same_but_generic = sf_weighting_softmax;
    sample dense;
    outcome expected, got;
    const sample_case full = {"full", 13, 16, 16, 2, 2, 3, SF_RELU, SF_PRE_NORM, 0.1, 800};
    sample_open(&dense, &full);
    run_cpu(&expected, &dense, 1);
    for (int generic = 0; generic < 2; generic++)
        for (size_t i = 0; i <= sizeof limits / sizeof *limits; i++) {
            sample s;
            sample_case c = full;
            if (i < sizeof limits / sizeof *limits) c.attention = limits[i];
            describe_case(&c);
            sample_open(&s, &c);
            if (generic) s.model.shape.attention.weighting = &same_but_generic;
            run_cpu(&got, &s, 1);
            assert_close(&s, &got, &expected, 2e-6);
            outcome_close(&got);
            sample_close(&s);
        }
    outcome_close(&expected);
    sample_close(&dense);
}

/* A weighting that is not softmax works on both paths without any kernel knowing it. */
static void sigmoid_weigh(double *weights, const double *scores, const sf_weighing *row) {
    for (size_t j = 0; j < row->kept; j++) weights[j] = 1 / (1 + exp(-scores[j]));
}

static void sigmoid_backward(double *dscores, const double *dweights, const double *weights, const double *scores,
                             const sf_weighing *row) {
    (void)scores;
    for (size_t j = 0; j < row->kept; j++) dscores[j] = dweights[j] * weights[j] * (1 - weights[j]);
}

static void a_new_weighting_needs_no_kernel(void **state) {
    (void)state;
    const sf_weighting sigmoid = {SF_WEIGHTING, .name = "sigmoid", .weigh = sigmoid_weigh,
                                  .weigh_backward = sigmoid_backward};
    for (size_t m = 0; m < MECHANISMS; m++) {
        sample s;
        sample_open(&s, &(sample_case){mechanisms[m], 13, 16, 16, 2, 2, 3, SF_RELU, SF_PRE_NORM, 0.1, 900});
        s.model.shape.attention.weighting = &sigmoid;
        check_sample(&s);
        sample_close(&s);
    }
}

/* Patterns that never keep a query's own key, nor any after it: no other query covers the rows of its stretch. */
static size_t keep_before(uint32_t *kept, const sf_query *query) {
    const size_t last = query->query > 0 ? query->query : 1;
    size_t count = 0;
    for (size_t key = last > query->k ? last - query->k : 0; key < last; key++) kept[count++] = (uint32_t)key;
    return count;
}

static size_t keep_first_two(uint32_t *kept, const sf_query *query) {
    (void)query;
    kept[0] = 0;
    kept[1] = 1;
    return 2;
}

static void a_new_pattern_needs_no_kernel(void **state) {
    (void)state;
    const sf_selector before = {SF_SELECTOR, .name = "before", .takes_k = true, .selects_by = SF_BY_POSITION,
                                .keep = keep_before};
    const sf_selector first = {SF_SELECTOR, .name = "first", .takes_k = true, .selects_by = SF_BY_POSITION,
                               .keep = keep_first_two};
    const sf_selector *const selectors[] = {&before, &first};
    static const size_t lengths[] = {13, 128, 129, 300};
    for (size_t i = 0; i < 8; i++) {
        sample s;
        const sample_case c = {"banded:3", lengths[i / 2], 16, 16, 2, 2, 1, SF_RELU, SF_PRE_NORM, 0.1, 950};
        describe_case(&c);
        sample_open(&s, &c);
        s.model.shape.attention.selector = selectors[i % 2];
        check_sample(&s);
        sample_close(&s);
    }
}

/* The K best, one after the other; NaN is the worst score, and of equals the first is better. */
static void select_plainly(uint32_t *keys, const float *scores, bool greatest, size_t T, size_t K) {
    bool taken[300] = {false};
    for (size_t k = 0; k < K; k++) {
        size_t best = T;
        float best_score = 0;
        for (size_t j = 0; j < T; j++) {
            const float score = isnan(scores[j]) ? -INFINITY : greatest ? scores[j] : -scores[j];
            if (!taken[j] && (best == T || score > best_score)) {
                best = j;
                best_score = score;
            }
        }
        taken[best] = true;
    }
    for (size_t j = 0; j < T; j++)
        if (taken[j]) *keys++ = (uint32_t)j;
}

static float awkward_score(sf_draws *draws, uint32_t kind) {
    const float plain = (float)sf_draw_unit(draws) - 0.5F;
    const uint32_t chance = sf_draw_below(draws, 8);
    switch (kind) {
    case 0:
        return plain;
    case 1:
        return (float)(int)(6 * plain);
    case 2:
        return chance % 2 ? 0.0F : -0.0F;
    case 3:
        return chance < 2 ? -INFINITY : chance == 2 ? INFINITY : (float)(int)(6 * plain);
    case 4:
        return chance < 5 ? NAN : plain;
    default:
        return chance < 6 ? -INFINITY : chance == 6 ? NAN : plain;
    }
}

static void selection_matches_brute_force(void **state) {
    (void)state;
    enum { ROW = 320, MOST_QUERIES = 40 };
    static float scores[MOST_QUERIES * ROW];
    static uint32_t keys[MOST_QUERIES * SF_FAST_TOPK_MOST];
    const sf_cpu_kernels *kernels = sf_cpu_kernels_for(SF_F32);
    sf_draws draws = sf_draws_at((sf_index){.seed = 4, .stream = 78});
    for (size_t round = 0; round < 2000; round++) {
        const size_t T = 1 + sf_draw_below(&draws, 300), queries = 1 + sf_draw_below(&draws, MOST_QUERIES);
        const size_t most = T < SF_FAST_TOPK_MOST ? T : SF_FAST_TOPK_MOST;
        const size_t K = 1 + sf_draw_below(&draws, (uint32_t)most);
        const uint32_t kind = sf_draw_below(&draws, 6);
        const bool greatest = sf_draw_below(&draws, 2) == 1;
        const size_t hole = sf_draw_below(&draws, (uint32_t)T); /* a vector of NaN now and then */
        for (size_t i = 0; i < queries * ROW; i++) scores[i] = awkward_score(&draws, kind);
        for (size_t j = hole / 16 * 16; round % 3 == 0 && j < T && j < hole / 16 * 16 + 16; j++)
            for (size_t query = 0; query < queries; query += 1 + query % 2) scores[query * ROW + j] = NAN;
        kernels->select(keys, scores, ROW, greatest, queries, T, K);
        for (size_t query = 0; query < queries; query++) {
            uint32_t expected[SF_FAST_TOPK_MOST] = {0};
            select_plainly(expected, scores + query * ROW, greatest, T, K);
            if (memcmp(keys + query * K, expected, K * sizeof *keys) != 0)
                fail_msg("round %zu, T %zu, K %zu, kind %u, greatest %d: query %zu of %zu", round, T, K, kind,
                         (int)greatest, query, queries);
        }
    }
}

typedef struct witness { /* of a sequence that is longer than a stretch */
    const sample *s;
    const sf_reference *reference;
    size_t views;
} witness;

static void assert_near(double value, double expected, double limit_here) {
    if (!(fabs(value - expected) <= limit_here * (1 + fabs(expected))))
        fail_msg("%.9g, expected %.9g", value, expected);
}

static double param_at(const sample *s, size_t block, size_t which, size_t row, size_t column) {
    return s->params[sf_param_index(&sf_model_block(&s->model, block)[which], row, column)];
}

/* Row t of what a layer [out,in] makes of `in`. */
static double layer_at(const sample *s, size_t block, size_t weight, const float *in, size_t inputs, size_t out) {
    double sum = param_at(s, block, weight + 1, 0, out);
    for (size_t c = 0; c < inputs; c++) sum += param_at(s, block, weight, out, c) * (double)in[c];
    return sum;
}

static double rstd_of(const double *x, size_t C, double epsilon) {
    double mean = 0, variance = 0;
    for (size_t c = 0; c < C; c++) mean += x[c] / (double)C;
    for (size_t c = 0; c < C; c++) variance += (x[c] - mean) * (x[c] - mean) / (double)C;
    return 1 / sqrt(variance + epsilon);
}

static void check_norms_of_the_first_block(const sample *s, const sf_attention_view *view) {
    const sf_shape *shape = &s->model.shape;
    const size_t C = shape->C, T = shape->T;
    double x[16], *positions;
    assert_int_equal(SF_NEW(&positions, T * C), SF_OK);
    sf_positions(positions, T, C);
    const sf_param *embedding = &s->model.params[0];
    for (size_t t = 0; t < T; t++) {
        for (size_t c = 0; c < C; c++)
            x[c] =
                sqrt((double)C) * s->params[sf_param_index(embedding, (size_t)s->tokens[t], c)] + positions[t * C + c];
        assert_near((double)view->attention_rstd[t], rstd_of(x, C, sf_norm_epsilon(0, 1)), 1e-4);
        for (size_t c = 0; c < C; c++) x[c] += layer_at(s, 0, SF_WO, view->context + t * sf_padded(C), C, c);
        assert_near((double)view->mlp_rstd[t], rstd_of(x, C, sf_norm_epsilon(0, 0)), 1e-4);
    }
    sf_release(positions);
}

static void see_long_sequence(void *context, size_t worker, const sf_attention_view *view) {
    (void)worker;
    witness *at = context;
    const sf_shape *shape = &at->s->model.shape;
    const size_t C = shape->C, Cp = sf_padded(C), T = shape->T;
    const double *scores = sf_reference_scores(at->reference, view->block);
    at->views++;
    for (size_t t = 0; t < T; t++)
        for (size_t c = 0; c < C; c++)
            assert_near((double)view->q[t * view->stride + c],
                        layer_at(at->s, view->block, SF_WQ, view->input + t * Cp, C, c), 1e-4);
    for (size_t i = 0; i < T; i += 7)
        for (size_t j = 0; j < T; j += 5) {
            double score = 0;
            for (size_t c = 0; c < C; c++)
                score += (double)view->q[i * view->stride + c] * (double)view->k[j * view->stride + c];
            assert_near(score * shape->inverse_temperature / sqrt((double)C), scores[i * T + j], 1e-3);
        }
    if (view->block == 0) check_norms_of_the_first_block(at->s, view);
}

/* An observer sees all rows of a long sequence, not only those of its last stretch. */
static void observers_see_long_sequences_whole(void **state) {
    (void)state;
    static const char *const chosen[] = {"full", "topk:5", "banded:5"};
    for (size_t i = 0; i < 6; i++) {
        sample s;
        outcome reference_outcome;
        sf_reference *reference;
        sf_cpu_plan *plan;
        sf_cpu_team *team;
        float *params;
        const sample_case c = {chosen[i / 2], 300, 16, 16, 1, 2, 1, SF_RELU, SF_PRE_NORM, 0, 970};
        describe_case(&c);
        sample_open(&s, &c);
        outcome_open(&reference_outcome, &s);
        const sf_batch batch = sample_batch(&s);
        assert_int_equal(sf_reference_create(&reference, &s.model), SF_OK);
        sf_reference_run(reference, &reference_outcome.loss, reference_outcome.logits, NULL, s.params, &batch,
                         &s.moment);
        assert_int_equal(sf_cpu_plan_create(&plan, &s.model, SF_F32), SF_OK);
        assert_int_equal(sf_cpu_team_create(&team, &plan, 1, 1 + 2 * (i % 2), 1), SF_OK);
        assert_int_equal(SF_NEW(&params, s.model.size), SF_OK);
        for (size_t n = 0; n < s.model.size; n++) params[n] = (float)s.params[n];
        witness at = {.s = &s, .reference = reference};
        sf_cpu_observe(team, &(sf_observer){see_long_sequence, &at}, plan, params, &batch, &s.moment);
        assert_int_equal(at.views, 2);
        sf_release(params);
        sf_cpu_team_destroy(team);
        sf_cpu_plan_destroy(plan);
        sf_reference_destroy(reference);
        outcome_close(&reference_outcome);
        sample_close(&s);
    }
}

/* Every other case would pass with the scalar kernels, too. */
static void the_named_set_computes(void **state) {
    (void)state;
    const char *name = getenv("SEMFOCUS_ISA");
    if (name == NULL)
        skip();
    else
        assert_string_equal(sf_cpu_isa_name(SF_F32), strcmp(name, "amx") == 0 ? "avx512" : name);
}

int main(void) {
    if (!has_instruction_set(SF_F32)) return SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_named_set_computes),
        cmocka_unit_test(odd_shapes_match_the_reference),
        cmocka_unit_test(stretches_of_rows_match_the_reference),
        cmocka_unit_test(activations_norms_and_dropout_match),
        cmocka_unit_test(widths_that_are_no_multiple_of_a_vector_match),
        cmocka_unit_test(long_sequences_match),
        cmocka_unit_test(dropout_of_far_keys_matches),
        cmocka_unit_test(batches_of_any_size_match),
        cmocka_unit_test(noise_matches),
        cmocka_unit_test(workers_do_not_change_a_bit),
        cmocka_unit_test(helpers_do_not_change_a_bit),
        cmocka_unit_test(helpers_do_not_change_a_bit_of_bf16),
        cmocka_unit_test(bf16_is_near_the_reference),
        cmocka_unit_test(generic_kernel_with_every_key_equals_dense),
        cmocka_unit_test(a_new_weighting_needs_no_kernel),
        cmocka_unit_test(a_new_pattern_needs_no_kernel),
        cmocka_unit_test(selection_matches_brute_force),
        cmocka_unit_test(observers_see_long_sequences_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
