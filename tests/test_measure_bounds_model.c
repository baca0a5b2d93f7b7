/* Bounds of whole models: the domain they hold on, gradients of the loss below the composed constants, the edges. */
#include "sample_subject.h"

#include <math.h>

#include "kernels/reference/reference.h"
#include "measure/bounds.h"
#include "measure/domain.h"

enum { MOST_TOKENS = 32 };

/* The domain measured on the f32 path against scores and kept sets of the double one. */
static void domains_are_those_of_the_reference(void **state) {
    (void)state;
    static const char *const mechanisms[] = {"full",   "banded:3",  "banded:3+global:2", "block:3",
                                             "topk:3", "bottomk:2", "random:3"};
    for (size_t m = 0; m < sizeof mechanisms / sizeof *mechanisms; m++) {
        const sample_case c = {mechanisms[m], 11, 8, 6, 2, 2, 4, SF_RELU, SF_PRE_NORM, 0, 300 + (uint32_t)m};
        describe_case(&c);
        sample_subject it;
        sf_bound_domain domains[2];
        sf_reference *reference;
        size_t samples;
        int32_t tokens[MOST_TOKENS], label;
        double loss, logits[3];
        subject_open(&it, &c);
        it.subject.samples = 99; /* there are only 4 */
        it.subject.machine.threads = 2;
        assert_int_equal(sf_domain_measure(domains, &samples, &it.subject, 1), SF_OK);
        assert_int_equal(samples, 4);
        assert_int_equal(sf_reference_create(&reference, &it.s.model), SF_OK);
        const sf_shape *s = &it.s.model.shape;
        double dispersion[2] = {0}, separation[2] = {INFINITY, INFINITY}, in_degree[2] = {0};
        double fewest = INFINITY, most = 0;
        for (size_t n = 0; n < 4; n++) {
            const sf_batch batch = subject_batch(&it, n, tokens, &label);
            const sf_moment moment = subject_moment(&it, n, 0);
            sf_reference_run(reference, &loss, logits, NULL, it.s.params, &batch, &moment);
            for (size_t l = 0; l < 2; l++)
                for (size_t h = 0; h < s->H; h++)
                    for (size_t i = 0; i < s->T; i++) {
                        const double *scores = sf_reference_scores(reference, l) + (h * s->T + i) * s->T;
                        const bool *kept = sf_reference_kept(reference, l) + (h * s->T + i) * s->T;
                        double count = 0, degree = 0;
                        for (size_t j = 0; j < s->T; j++) {
                            count += kept[j];
                            degree += sf_reference_kept(reference, l)[(h * s->T + j) * s->T + i];
                            for (size_t o = 0; o < s->T && kept[j]; o++) {
                                if (kept[o])
                                    dispersion[l] = fmax(dispersion[l], scores[j] - scores[o]);
                                else if (m == 4 || m == 5)
                                    separation[l] = fmin(separation[l], fabs(scores[j] - scores[o]));
                            }
                        }
                        in_degree[l] = fmax(in_degree[l], degree);
                        fewest = fmin(fewest, count);
                        most = fmax(most, count);
                    }
        }
        for (size_t l = 0; l < 2; l++) {
            assert_true(fabs(domains[l].dispersion - dispersion[l]) <= 1e-4 * dispersion[l]);
            assert_true(separation[l] == INFINITY ? domains[l].separation == INFINITY
                                                  : fabs(domains[l].separation - separation[l]) <= 1e-4);
            assert_true(domains[l].in_degree == in_degree[l]);
            assert_true(domains[l].fewest_kept == fewest && domains[l].most_kept == most);
            assert_true(domains[l].token_norm <= sqrt((double)s->C) * (1 + 1e-5));
            assert_true(domains[l].attention_deviation > 0 && domains[l].mlp_deviation > 0);
        }
        sf_bound_domain half[2];
        assert_int_equal(sf_domain_measure(half, &samples, &it.subject, 0.5), SF_OK);
        assert_true(half[1].dispersion < domains[1].dispersion && half[1].separation >= domains[1].separation);
        assert_int_equal(sf_domain_measure(half, &samples, &it.subject, 0), SF_BAD_INPUT);
        assert_int_equal(sf_domain_measure(half, &samples, &it.subject, 1.5), SF_BAD_INPUT);
        sf_reference_destroy(reference);
        subject_close(&it);
    }
}

/* The gradient of a sequence's loss is no longer than the composed local constant, in all weights and in each block. */
static void gradients_stay_below(void **state) {
    (void)state;
    static const char *const mechanisms[] = {"full",   "banded:3+global:2", "topk:3",
                                             "topk:1", "last full",         "cls topk:3"};
    for (size_t m = 0; m < sizeof mechanisms / sizeof *mechanisms; m++)
        for (int norm = SF_PRE_NORM; norm <= SF_POST_NORM; norm++) {
            const sample_case c = {mechanisms[m], 9, 6, 5, 2, 3, 8, SF_MISH, (sf_norm)norm, 0, 400 + (uint32_t)m};
            describe_case(&c);
            sample_subject it;
            sf_bound_domain domains[3];
            sf_bounds *bounds;
            sf_reference *reference;
            size_t samples;
            int32_t tokens[MOST_TOKENS], label;
            double loss, logits[3], *gradient;
            subject_open(&it, &c);
            assert_int_equal(sf_domain_measure(domains, &samples, &it.subject, 1), SF_OK);
            assert_int_equal(sf_bounds_create(&bounds, &it.s.model, it.params, domains), SF_OK);
            assert_int_equal(sf_reference_create(&reference, &it.s.model), SF_OK);
            assert_int_equal(SF_NEW(&gradient, it.s.model.size), SF_OK);
            for (size_t n = 0; n < samples; n++) {
                const sf_batch batch = subject_batch(&it, n, tokens, &label);
                const sf_moment moment = subject_moment(&it, n, 0);
                sf_reference_run(reference, &loss, logits, gradient, it.s.params, &batch, &moment);
                double sum = 0;
                for (size_t i = 0; i < it.s.model.size; i++) sum += gradient[i] * gradient[i];
                for (sf_bound_kind kind = 0; kind < SF_BOUND_KINDS; kind++)
                    assert_true(log10(sum) / 2 <= bounds->log10_loss_weights[kind]);
            }
            assert_true(isfinite(bounds->log10_loss_embedding[SF_BOUND_LOCAL]));
            sf_release(gradient);
            sf_reference_destroy(reference);
            sf_bounds_destroy(bounds);
            subject_close(&it);
        }
}

/* One position: a softmax over a single key never moves. A separation of 0 has no constant, and dispersions beyond
 * what e^x can hold leave the others finite. */
static void edges_are_defined(void **state) {
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        const sample_case c = {m == 0 ? "full" : "topk:2", m == 0 ? 1 : 5, 4, 3, 1, 1, 2, SF_RELU, SF_PRE_NORM, 0, 500};
        sample_subject it;
        sf_bound_domain domain;
        sf_bounds *bounds;
        size_t samples;
        subject_open(&it, &c);
        assert_int_equal(sf_domain_measure(&domain, &samples, &it.subject, 1), SF_OK);
        if (m == 1) {
            domain.separation = 0;
            domain.dispersion = 2000;
        }
        assert_int_equal(sf_bounds_create(&bounds, &it.s.model, it.params, &domain), SF_OK);
        const sf_block_bounds *b = &bounds->blocks[0];
        if (m == 0) {
            assert_true(domain.dispersion == 0 && domain.separation == INFINITY && domain.in_degree == 1);
            assert_true(b->softmax[SF_BOUND_PROVEN] == 0);
            assert_true(fabs(b->attention_input[SF_BOUND_PROVEN] - b->wo * b->upsilon) <= 1e-12 * b->wo * b->upsilon);
        } else {
            assert_true(isinf(b->attention_input[SF_BOUND_PUBLISHED]) && isinf(b->attention_input[SF_BOUND_PROVEN]));
            assert_true(isfinite(b->attention_input[SF_BOUND_LOCAL]) &&
                        isfinite(bounds->log10_loss_weights[SF_BOUND_LOCAL]));
        }
        sf_bounds_destroy(bounds);
        subject_close(&it);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(domains_are_those_of_the_reference),
        cmocka_unit_test(gradients_stay_below),
        cmocka_unit_test(edges_are_defined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
