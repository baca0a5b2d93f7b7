/* Evaluators: batches of any size have the sums of a run's own evaluation. */
#include "sample_model.h"

#include <string.h>

#include "base/sizes.h"
#include "train/evaluator.h"

static const size_t B = 2 * (size_t)SF_EVALUATION_BATCH + 41;
enum { S = 3 };

typedef struct weights {
    float *values;          /* [S,size] */
    const float *params[S]; /* where they lie */
} weights;

static void weights_open(weights *out, const sample *s) {
    assert_int_equal(SF_NEW(&out->values, S * s->model.size), SF_OK);
    for (size_t m = 0; m < S; m++) {
        float *values = out->values + m * s->model.size;
        for (size_t i = 0; i < s->model.size; i++) values[i] = (float)((1 + 0.1 * (double)m) * s->params[i]);
        out->params[m] = values;
    }
}

static void check_parts(const char *mechanism) {
    sample s;
    weights w;
    float *logits;
    sf_evaluator evaluator;
    sample_open(&s, &(sample_case){mechanism, 7, 8, 8, 2, 1, B, SF_RELU, SF_PRE_NORM, 0, 5});
    weights_open(&w, &s);
    const size_t classes = s.model.shape.classes * sf_shape_labels(&s.model.shape); /* logits of a sequence */
    assert_int_equal(SF_NEW(&logits, (S + 1) * B * classes), SF_OK);
    for (size_t threads = 1; threads <= 3; threads++) {
        assert_int_equal(sf_evaluator_open(&evaluator, &(sf_machine){.threads = threads}, SF_EVALUATION_WORK, &s.model,
                                           SF_F32, B, S),
                         SF_OK);
        const sf_batch batch = sample_batch(&s);
        sf_evaluation sums[S];
        assert_true(evaluator.models >= 1);
        for (size_t m = 0; m < S; m += evaluator.models)
            assert_int_equal(sf_evaluator_evaluate(&evaluator, sums + m, logits + m * B * classes, w.params + m,
                                                   sf_smaller(evaluator.models, S - m), &batch, &s.moment),
                             SF_OK);
        for (size_t m = 0; m < S; m++) {
            sf_evaluation expected = {0};
            for (size_t first = 0; first < B; first += SF_EVALUATION_BATCH) {
                const sf_batch part =
                    sf_batch_part(&batch, &s.model.shape, first, sf_smaller(B - first, SF_EVALUATION_BATCH));
                sf_moment moment = s.moment;
                moment.first_sample = (uint32_t)first;
                sf_evaluation sum;
                assert_int_equal(sf_evaluator_evaluate(&evaluator, &sum, logits + (S * B + first) * classes,
                                                       w.params + m, 1, &part, &moment),
                                 SF_OK);
                expected.loss += sum.loss;
                expected.correct += sum.correct;
                expected.labelled += sum.labelled;
            }
            assert_memory_equal(&sums[m].loss, &expected.loss, sizeof expected.loss);
            assert_int_equal(sums[m].correct, expected.correct);
            assert_int_equal(sums[m].labelled, expected.labelled);
            assert_memory_equal(logits + m * B * classes, logits + S * B * classes, B * classes * sizeof *logits);
        }
        sf_evaluator_close(&evaluator);
    }
    sf_release(logits);
    sf_release(w.values);
    sample_close(&s);
}

static void a_large_batch_is_the_sum_of_its_parts(void **state) {
    (void)state;
    check_parts("random:3");
    check_parts("each random:3");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_large_batch_is_the_sum_of_its_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
