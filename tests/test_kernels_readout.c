/* Readouts: the CPU kernels against the reference for any number of threads, batches without labels, many classes, and
 * what a causal model must not see. Finite differences of every readout are in test_kernels_reference.c. */
#include <string.h>

#include "both_paths.h"
#include "instruction_set.h"

static void check_case(const sample_case *c) {
    describe_case(c);
    sample s;
    sample_open(&s, c);
    outcome cpu, again, reference;
    run_reference(&reference, &s);
    run_cpu(&cpu, &s, 1);
    run_cpu(&again, &s, 3);
    assert_close(&s, &cpu, &reference, 2e-5);
    assert_true(cpu.loss == again.loss);
    assert_memory_equal(cpu.gradient, again.gradient, s.model.size * sizeof *cpu.gradient);
    assert_memory_equal(cpu.logits, again.logits, sample_logits(&s) * sizeof *cpu.logits);
    outcome_close(&cpu);
    outcome_close(&again);
    outcome_close(&reference);
    sample_close(&s);
}

static void every_readout_equals_the_reference(void **state) {
    (void)state;
    static const char *const readouts[] = {"full",
                                           "last full",
                                           "cls full",
                                           "each full",
                                           "cls topk:3",
                                           "each banded:3",
                                           "causal each full",
                                           "causal full",
                                           "causal last full",
                                           "each block:4+global:2",
                                           "cls banded:3+global:1"};
    for (uint32_t i = 0; i < sizeof readouts / sizeof *readouts; i++)
        for (int dropped = 0; dropped < 2; dropped++)
            check_case(&(sample_case){readouts[i], 19, 12, 10, 2, 2, 11, SF_GELU, i % 2 ? SF_POST_NORM : SF_PRE_NORM,
                                      dropped * 0.2, 40 + i});
    check_case(&(sample_case){"each full", 1, 7, 5, 1, 1, 1, SF_GELU, SF_PRE_NORM, 0, 60});
    check_case(&(sample_case){"cls full", 2, 7, 5, 1, 1, 1, SF_GELU, SF_PRE_NORM, 0, 61});
    check_case(&(sample_case){"causal each full", 211, 16, 8, 1, 1, 3, SF_GELU, SF_PRE_NORM, 0.1, 62});
}

/* The gradient of the embedding is that of both of its uses. */
static void tied_weights_equal_the_reference(void **state) {
    (void)state;
    check_case(&(sample_case){"tied full", 9, 10, 6, 1, 2, 11, SF_GELU, SF_PRE_NORM, 0, 64});
    check_case(&(sample_case){"tied last topk:3", 9, 17, 6, 2, 1, 5, SF_GELU, SF_POST_NORM, 0.1, 65});
    check_case(&(sample_case){"tied causal each full", 29, 12, 6, 1, 2, 9, SF_GELU, SF_PRE_NORM, 0.1, 66});
}

/* More classes than are added up in floats at a time, and more rows than a tile has. */
static void many_classes_equal_the_reference(void **state) {
    (void)state;
    check_case(&(sample_case){"many full", 9, 10, 6, 1, 1, 5, SF_GELU, SF_PRE_NORM, 0, 70});
    check_case(&(sample_case){"many each full", 9, 10, 6, 1, 1, 31, SF_GELU, SF_PRE_NORM, 0, 71});
    check_case(&(sample_case){"many causal each full", 173, 18, 6, 2, 1, 2, SF_GELU, SF_POST_NORM, 0.1, 72});
}

typedef struct computed {
    sf_evaluation sums;
    double loss;
    float *params, *gradient, *logits;
} computed;

static void compute(computed *out, const sample *s, const sf_batch *batch) {
    sf_cpu_plan *plan;
    sf_cpu_team *team;
    assert_int_equal(SF_NEW(&out->params, s->model.size), SF_OK);
    assert_int_equal(SF_NEW(&out->gradient, s->model.size), SF_OK);
    assert_int_equal(SF_NEW(&out->logits, sample_logits(s)), SF_OK);
    for (size_t i = 0; i < s->model.size; i++) out->params[i] = (float)s->params[i];
    assert_int_equal(sf_cpu_plan_create(&plan, &s->model, SF_F32), SF_OK);
    assert_int_equal(sf_cpu_team_create(&team, &plan, 1, 2, s->B), SF_OK);
    sf_cpu_evaluate(team, &out->sums, out->logits, plan, out->params, batch, &s->moment);
    sf_cpu_gradient(team, &out->loss, out->gradient, plan, out->params, batch, &s->moment);
    sf_cpu_team_destroy(team);
    sf_cpu_plan_destroy(plan);
}

static void computed_close(computed *c) {
    sf_release(c->params);
    sf_release(c->gradient);
    sf_release(c->logits);
}

static void a_batch_without_labels_contributes_nothing(void **state) {
    (void)state;
    sample s;
    computed c;
    outcome reference;
    sample_open(&s, &(sample_case){"each full", 9, 8, 6, 1, 2, 4, SF_GELU, SF_PRE_NORM, 0, 80});
    for (size_t i = 0; i < s.B * s.model.shape.T; i++) s.labels[i] = SF_NO_LABEL;
    const sf_batch batch = sample_batch(&s);
    compute(&c, &s, &batch);
    run_reference(&reference, &s);
    assert_int_equal(c.sums.labelled, 0);
    assert_int_equal(c.sums.correct, 0);
    assert_true(c.sums.loss == 0 && c.loss == 0 && reference.loss == 0);
    for (size_t i = 0; i < s.model.size; i++) assert_true(c.gradient[i] == 0 && reference.gradient[i] == 0);
    for (size_t i = 0; i < sample_logits(&s); i++) assert_true(fabs((double)c.logits[i] - reference.logits[i]) < 1e-4);
    computed_close(&c);
    outcome_close(&reference);
    sample_close(&s);
}

/* With one label per sequence, at its end, `each` is `last` in other arithmetic. */
static void each_with_one_label_is_last(void **state) {
    (void)state;
    const size_t T = 13, B = 9;
    sample s, last;
    outcome each_found, last_found;
    sample_open(&s, &(sample_case){"causal each full", T, 12, 8, 2, 2, B, SF_GELU, SF_PRE_NORM, 0, 81});
    sample_open(&last, &(sample_case){"causal last full", T, 12, 8, 2, 2, B, SF_GELU, SF_PRE_NORM, 0, 81});
    memcpy(last.params, s.params, s.model.size * sizeof *s.params);
    memcpy(last.tokens, s.tokens, B * T * sizeof *s.tokens);
    for (size_t i = 0; i < B * T; i++) s.labels[i] = i % T + 1 == T ? last.labels[i / T] : SF_NO_LABEL;
    run_cpu(&each_found, &s, 1);
    run_cpu(&last_found, &last, 1);
    assert_true(fabs(each_found.loss - last_found.loss) < 1e-5);
    for (size_t i = 0; i < s.model.size; i++) assert_true(fabs(each_found.gradient[i] - last_found.gradient[i]) < 1e-5);
    outcome_close(&each_found);
    outcome_close(&last_found);
    sample_close(&s);
    sample_close(&last);
}

/* Correct labels are those of the first largest logit; losses are those of the logits. */
static void labels_are_counted_one_by_one(void **state) {
    (void)state;
    sample s;
    computed c;
    sample_open(&s, &(sample_case){"each topk:3", 10, 8, 6, 1, 1, 17, SF_GELU, SF_PRE_NORM, 0, 82});
    const size_t classes = s.model.shape.classes, rows = s.B * s.model.shape.T;
    const sf_batch batch = sample_batch(&s);
    compute(&c, &s, &batch);
    size_t labelled = 0, correct = 0;
    double loss = 0;
    for (size_t r = 0; r < rows; r++) {
        if (s.labels[r] == SF_NO_LABEL) continue;
        const float *logits = c.logits + r * classes;
        double total = 0;
        size_t guess = 0;
        for (size_t i = 0; i < classes; i++) {
            total += exp((double)logits[i]);
            if (logits[i] > logits[guess]) guess = i;
        }
        labelled++;
        correct += guess == (size_t)s.labels[r];
        loss += log(total) - (double)logits[s.labels[r]];
    }
    assert_true(labelled > rows / 2 && labelled < rows);
    assert_int_equal(c.sums.labelled, labelled);
    assert_int_equal(c.sums.correct, correct);
    assert_true(fabs(c.sums.loss - loss) < 1e-4);
    assert_true(fabs(c.loss - loss / (double)labelled) < 1e-6);
    computed_close(&c);
    sample_close(&s);
}

/* Outputs before position t have the same bits whatever comes after, for every kernel of a causal model. */
static void causal_outputs_do_not_depend_on_later_tokens(void **state) {
    (void)state;
    static const char *const mechanisms[] = {"causal each full",
                                             "causal each topk:5",
                                             "causal each banded:5",
                                             "causal each block:8",
                                             "causal each within:0.8",
                                             "causal each full@rope",
                                             "causal each blocktopk:4:2",
                                             "causal each full/sigmoid@alibi",
                                             "causal each topp:0.8+sink:1",
                                             "causal each lsh:4:2",
                                             "causal each random:4"};
    for (uint32_t i = 0; i < sizeof mechanisms / sizeof *mechanisms; i++) {
        const size_t T = i % 2 ? 150 : 23, cut = i % 2 ? 97 : 11;
        const sample_case c = {mechanisms[i], T, 12, 8, 2, 2, 2, SF_GELU, SF_PRE_NORM, 0, 90 + i};
        describe_case(&c);
        sample s;
        computed one, other;
        sample_open(&s, &c);
        const size_t classes = s.model.shape.classes;
        const sf_batch batch = sample_batch(&s);
        compute(&one, &s, &batch);
        for (size_t r = 0; r < s.B * T; r++)
            if (r % T >= cut) s.tokens[r] = (s.tokens[r] + 1 + (int32_t)(r % 3)) % 5;
        compute(&other, &s, &batch);
        bool differs = false;
        for (size_t r = 0; r < s.B * T; r++) {
            const bool same =
                memcmp(one.logits + r * classes, other.logits + r * classes, classes * sizeof *one.logits) == 0;
            if (r % T < cut && !same) fail_msg("position %zu sees what comes at %zu", r % T, cut);
            differs |= !same;
        }
        assert_true(differs);
        computed_close(&one);
        computed_close(&other);
        sample_close(&s);
    }
}

int main(void) {
    if (!has_instruction_set(SF_F32)) return SKIPPED;
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_readout_equals_the_reference),
                                       cmocka_unit_test(many_classes_equal_the_reference),
                                       cmocka_unit_test(tied_weights_equal_the_reference),
                                       cmocka_unit_test(a_batch_without_labels_contributes_nothing),
                                       cmocka_unit_test(each_with_one_label_is_last),
                                       cmocka_unit_test(labels_are_counted_one_by_one),
                                       cmocka_unit_test(causal_outputs_do_not_depend_on_later_tokens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
