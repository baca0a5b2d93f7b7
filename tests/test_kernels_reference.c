/* The reference against finite differences of its own loss, and its definitions at the edges. */
#include "sample_model.h"

#include <math.h>
#include <string.h>

#include "kernels/reference/reference.h"

static double loss_of(sf_reference *reference, const sample *s, double *logits) {
    const sf_batch batch = sample_batch(s);
    double loss;
    sf_reference_run(reference, &loss, logits, NULL, s->params, &batch, &s->moment);
    return loss;
}

/* Central differences of every parameter. Top-k and ReLU are smooth but for a null set; the step is small enough not to
 * cross it in these cases. */
static void check_gradient(const sample_case *c) {
    describe_case(c);
    sample s;
    sample_open(&s, c);
    sf_reference *reference;
    double *gradient, *logits, loss;
    assert_int_equal(sf_reference_create(&reference, &s.model), SF_OK);
    assert_int_equal(SF_NEW(&gradient, s.model.size), SF_OK);
    assert_int_equal(SF_NEW(&logits, s.B * sf_shape_labels(&s.model.shape) * s.model.shape.classes), SF_OK);
    const sf_batch batch = sample_batch(&s);
    sf_reference_run(reference, &loss, logits, gradient, s.params, &batch, &s.moment);
    double norm = 0;
    for (size_t i = 0; i < s.model.size; i++) norm += gradient[i] * gradient[i];
    norm = sqrt(norm);
    assert_true(norm > 1e-3 && isfinite(norm));
    const double h = 1e-6;
    for (size_t p = 0; p < s.model.param_count; p++) {
        const sf_param *param = &s.model.params[p];
        for (size_t r = 0; r < param->rows; r++)
            for (size_t k = 0; k < param->columns; k++) {
                const size_t at = sf_param_index(param, r, k);
                const double value = s.params[at];
                s.params[at] = value + h;
                const double above = loss_of(reference, &s, logits);
                s.params[at] = value - h;
                const double below = loss_of(reference, &s, logits);
                s.params[at] = value;
                const double measured = (above - below) / (2 * h);
                if (fabs(measured - gradient[at]) > 1e-7 * norm)
                    fail_msg("%s[%zu,%zu]: gradient %.12g, finite difference %.12g (norm %.3g)", param->name, r, k,
                             gradient[at], measured, norm);
            }
    }
    sf_release(gradient);
    sf_release(logits);
    sf_reference_destroy(reference);
    sample_close(&s);
}

static const char *const mechanisms[] = {"full",
                                         "banded:3",
                                         "banded:4",
                                         "banded:3+global:2",
                                         "block:3",
                                         "block:2+global:1",
                                         "topk:3",
                                         "bottomk:2",
                                         "random:3",
                                         "topp:0.6",
                                         "within:0.7",
                                         "blocktopk:2:2",
                                         "kmeans:3:2",
                                         "lsh:4:2",
                                         "topk:2+sink:1",
                                         "topk:2+window:3",
                                         "block:2+random:1",
                                         "topk:2+global:1",
                                         "topp:0.5+global:1+random:1+sink:1+window:2",
                                         "full/softmax1",
                                         "full/sigmoid",
                                         "topk:3/softplus",
                                         "full/softplus:3",
                                         "full/sparsemax",
                                         "topk:4/entmax15",
                                         "full/entmax:1.3",
                                         "full/fastmax",
                                         "full/doubly",
                                         "topk:3/doubly:3",
                                         "full@rope",
                                         "full@qknorm:4",
                                         "topk:3@alibi",
                                         "full@softcap:2",
                                         "full@logn",
                                         "within:1/sigmoid@rope@qknorm:3@softcap:2@alibi@logn:0.5",
                                         "causal full",
                                         "causal last topk:3",
                                         "causal last block:3",
                                         "last banded:3",
                                         "causal blocktopk:2:2/sigmoid@logn",
                                         "causal random:2+sink:1",
                                         "causal lsh:4:1@rope",
                                         "last full+global:1",
                                         "cls full",
                                         "cls topk:3+global:1",
                                         "each full",
                                         "each topk:3+global:2",
                                         "causal each full@rope",
                                         "causal each topk:2/entmax15",
                                         "tied full",
                                         "tied causal each full",
                                         "narrow full@rope@qknorm:3",
                                         "wide topk:3",
                                         "narrow kmeans:3:2",
                                         "wide full/fastmax"};

static void gradients_match_finite_differences(void **state) {
    (void)state;
    for (size_t m = 0; m < sizeof mechanisms / sizeof *mechanisms; m++)
        for (int activation = SF_RELU; activation <= SF_MISH; activation++)
            for (int norm = SF_PRE_NORM; norm <= SF_POST_NORM; norm++)
                check_gradient(&(sample_case){mechanisms[m], 7, 6, 5, 2, 2, 2, (sf_activation)activation, (sf_norm)norm,
                                              0, 11 + (uint32_t)m});
}

static void gradients_match_with_dropout(void **state) {
    (void)state;
    for (size_t m = 0; m < sizeof mechanisms / sizeof *mechanisms; m++)
        for (int norm = SF_PRE_NORM; norm <= SF_POST_NORM; norm++)
            check_gradient(
                &(sample_case){mechanisms[m], 7, 6, 5, 2, 2, 2, SF_GELU, (sf_norm)norm, 0.3, 31 + (uint32_t)m});
}

static void gradients_match_at_edges(void **state) {
    (void)state;
    check_gradient(&(sample_case){"full", 1, 4, 3, 1, 1, 1, SF_RELU, SF_PRE_NORM, 0, 5});
    check_gradient(&(sample_case){"topk:1", 5, 3, 4, 3, 1, 1, SF_MISH, SF_PRE_NORM, 0, 6});
    check_gradient(&(sample_case){"topk:12", 13, 5, 1, 1, 3, 1, SF_GELU, SF_POST_NORM, 0, 7});
}

/* Width 1 has no variance: block 0's attention norm (epsilon 0) gives 0, and no NaN appears. */
static void norm_without_variance_is_zero(void **state) {
    (void)state;
    sample s;
    sample_open(&s, &(sample_case){"full", 4, 1, 3, 1, 2, 2, SF_RELU, SF_PRE_NORM, 0, 9});
    sf_reference *reference;
    double gradient[4096], logits[6], loss;
    assert_true(s.model.size <= 4096);
    assert_int_equal(sf_reference_create(&reference, &s.model), SF_OK);
    const sf_batch batch = sample_batch(&s);
    sf_reference_run(reference, &loss, logits, gradient, s.params, &batch, &s.moment);
    for (size_t i = 0; i < s.model.size; i++) assert_true(isfinite(gradient[i]));
    const sf_param *query = &sf_model_block(&s.model, 0)[SF_WQ];
    assert_true(gradient[query->offset] == 0);
    sf_reference_destroy(reference);
    sample_close(&s);
}

/* At its limit every mechanism keeps every key and equals full attention. */
static void every_mechanism_at_its_limit_is_full(void **state) {
    (void)state;
    static const char *const limits[] = {"banded:9", "banded:30", "block:9",  "block:30",
                                         "topk:9",   "bottomk:9", "random:9", "topk:30"};
    double logits[6], full_logits[6], loss, full_loss;
    sample full;
    sample_open(&full, &(sample_case){"full", 9, 8, 8, 2, 2, 2, SF_RELU, SF_PRE_NORM, 0.1, 21});
    sf_reference *reference;
    assert_int_equal(sf_reference_create(&reference, &full.model), SF_OK);
    const sf_batch full_batch = sample_batch(&full);
    sf_reference_run(reference, &full_loss, full_logits, NULL, full.params, &full_batch, &full.moment);
    sf_reference_destroy(reference);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        sample s;
        sample_open(&s, &(sample_case){limits[i], 9, 8, 8, 2, 2, 2, SF_RELU, SF_PRE_NORM, 0.1, 21});
        assert_int_equal(sf_reference_create(&reference, &s.model), SF_OK);
        const sf_batch batch = sample_batch(&s);
        sf_reference_run(reference, &loss, logits, NULL, s.params, &batch, &s.moment);
        for (size_t n = 0; n < 6; n++) assert_true(fabs(logits[n] - full_logits[n]) <= 1e-13);
        sf_reference_destroy(reference);
        sample_close(&s);
    }
    sample_close(&full);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_finite_differences),
        cmocka_unit_test(gradients_match_with_dropout),
        cmocka_unit_test(gradients_match_at_edges),
        cmocka_unit_test(norm_without_variance_is_zero),
        cmocka_unit_test(every_mechanism_at_its_limit_is_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
