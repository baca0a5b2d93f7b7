/* Kept keys under noise, against the reference: two runs of the double path, kept sets compared key by key. */
#include "sample_subject.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/reference/reference.h"
#include "measure/mask_stability.h"

enum { L = 2, SCALES = 3, ROWS = L * SCALES };
static const double scales[SCALES] = {0, 0.02, 0.5};

typedef struct expected {
    double keys, masks, queries;
    double bin_queries[SF_SEPARATION_BINS], bin_keys[SF_SEPARATION_BINS];
} expected;

static double separation_of(const double *scores, const bool *kept, size_t T) {
    double least = INFINITY;
    for (size_t i = 0; i < T; i++)
        for (size_t j = 0; j < T; j++)
            if (kept[i] && !kept[j]) least = fmin(least, fabs(scores[i] - scores[j]));
    return least;
}

static void compare_by_reference(expected out[L], const sample_subject *it, double noise) {
    const sf_shape *s = &it->s.model.shape;
    const size_t HTT = s->H * s->T * s->T, k = s->attention.k;
    sf_reference *reference;
    bool *clean;
    double *scores, loss, logits[3];
    int32_t tokens[64], label;
    memset(out, 0, L * sizeof *out);
    assert_int_equal(sf_reference_create(&reference, &it->s.model), SF_OK);
    assert_int_equal(SF_NEW(&clean, L * HTT), SF_OK);
    assert_int_equal(SF_NEW(&scores, L * HTT), SF_OK);
    for (size_t n = 0; n < it->subject.samples; n++) {
        const sf_batch batch = subject_batch(it, n, tokens, &label);
        sf_moment moment = subject_moment(it, n, 0);
        sf_reference_run(reference, &loss, logits, NULL, it->s.params, &batch, &moment);
        for (size_t l = 0; l < L; l++) {
            memcpy(clean + l * HTT, sf_reference_kept(reference, l), HTT * sizeof *clean);
            memcpy(scores + l * HTT, sf_reference_scores(reference, l), HTT * sizeof *scores);
        }
        moment = subject_moment(it, n, noise);
        sf_reference_run(reference, &loss, logits, NULL, it->s.params, &batch, &moment);
        for (size_t l = 0; l < L; l++)
            for (size_t query = 0; query < s->H * s->T; query++) {
                const bool *before = clean + l * HTT + query * s->T;
                const bool *after = sf_reference_kept(reference, l) + query * s->T;
                size_t same = 0, bin = SF_SEPARATION_BINS - 1;
                for (size_t j = 0; j < s->T; j++) same += before[j] && after[j];
                const double separation = separation_of(scores + l * HTT + query * s->T, before, s->T);
                while (separation < sf_separation_bin_start(bin)) bin--;
                out[l].queries++;
                out[l].keys += (double)same / (double)k;
                out[l].masks += same == k;
                out[l].bin_queries[bin]++;
                out[l].bin_keys[bin] += (double)same / (double)k;
            }
    }
    sf_release(clean);
    sf_release(scores);
    sf_reference_destroy(reference);
}

static void shares_are_those_of_the_reference(void **state) {
    (void)state;
    static const char *const mechanisms[] = {"topk:1", "topk:4", "bottomk:3",
                                             "topk:40"}; /* 40: the generic selection */
    for (size_t m = 0; m < 4; m++) {
        const size_t T = m == 3 ? 47 : 14;
        const sample_case c = {mechanisms[m],    T, 8, 6, 2, L, 70, SF_RELU, m == 1 ? SF_POST_NORM : SF_PRE_NORM, 0,
                               900 + (uint32_t)m};
        describe_case(&c);
        sample_subject it;
        sf_mask_stability *stability;
        expected by_reference[L];
        subject_open(&it, &c);
        assert_int_equal(sf_mask_stability_measure(&stability, &it.subject, scales, SCALES), SF_OK);
        assert_true(!stability->fixed && stability->k == it.s.model.shape.attention.k && stability->samples == 70);
        for (size_t i = 0; i < SCALES; i++) {
            compare_by_reference(by_reference, &it, scales[i]);
            for (size_t l = 0; l < L; l++) {
                const sf_block_stability *got = &stability->blocks[l * SCALES + i];
                const expected *want = &by_reference[l];
                assert_true(got->noise == scales[i] && (double)got->all.queries == want->queries);
                /* f32 may decide a near tie differently */
                assert_true(fabs(got->all.keys_unchanged - want->keys / want->queries) <= 2e-3);
                assert_true(fabs(got->all.masks_unchanged - want->masks / want->queries) <= 4e-3);
                if (i == 0) assert_true(got->all.keys_unchanged == 1 && got->all.masks_unchanged == 1);
                if (i > 0) assert_true(got->all.keys_unchanged < 1);
                for (size_t bin = 0; bin < SF_SEPARATION_BINS; bin++) {
                    const sf_kept_shares *shares = &got->by_separation[bin];
                    assert_true(fabs((double)shares->queries - want->bin_queries[bin]) <= 4);
                    if (want->bin_queries[bin] > 50)
                        assert_true(fabs(shares->keys_unchanged - want->bin_keys[bin] / want->bin_queries[bin]) <=
                                    0.02);
                    if (shares->queries == 0) assert_true(isnan(shares->keys_unchanged));
                }
            }
        }
        sf_mask_stability_destroy(stability);
        subject_close(&it);
    }
}

static void threads_change_nothing(void **state) {
    (void)state;
    sample_subject it;
    sf_mask_stability *one, *three;
    subject_open(&it, &(sample_case){"topk:3", 14, 8, 6, 2, L, 100, SF_RELU, SF_PRE_NORM, 0, 950});
    assert_int_equal(sf_mask_stability_measure(&one, &it.subject, scales, SCALES), SF_OK);
    it.subject.machine.threads = 3;
    assert_int_equal(sf_mask_stability_measure(&three, &it.subject, scales, SCALES), SF_OK);
    for (size_t i = 0; i < ROWS; i++) {
        assert_true(one->blocks[i].all.keys_unchanged == three->blocks[i].all.keys_unchanged);
        for (size_t bin = 0; bin < SF_SEPARATION_BINS; bin++) {
            const sf_kept_shares *a = &one->blocks[i].by_separation[bin], *b = &three->blocks[i].by_separation[bin];
            assert_true(a->queries == b->queries);
            assert_true(a->queries == 0 || a->keys_unchanged == b->keys_unchanged);
        }
    }
    /* wide separations hold where narrow ones do not: block 0, small noise */
    const sf_kept_shares *bins = one->blocks[1].by_separation;
    assert_true(bins[3].queries > 100 && bins[2].queries > 20 && bins[3].masks_unchanged > bins[2].masks_unchanged);
    sf_mask_stability_destroy(one);
    sf_mask_stability_destroy(three);
    subject_close(&it);
}

static void fixed_patterns_and_bad_scales_are_answered(void **state) {
    (void)state;
    static const char *const mechanisms[] = {"full", "banded:3+global:1", "block:3", "random:3"};
    sf_mask_stability *stability;
    for (size_t m = 0; m < 4; m++) {
        sample_subject it;
        subject_open(&it, &(sample_case){mechanisms[m], 9, 8, 6, 1, L, 4, SF_RELU, SF_PRE_NORM, 0, 960});
        assert_int_equal(sf_mask_stability_measure(&stability, &it.subject, scales, SCALES), SF_OK);
        assert_true(stability->fixed);
        for (size_t i = 0; i < ROWS; i++) {
            assert_true(stability->blocks[i].noise == scales[i % SCALES]);
            assert_true(stability->blocks[i].all.keys_unchanged == 1 && stability->blocks[i].all.masks_unchanged == 1);
        }
        sf_mask_stability_destroy(stability);
        subject_close(&it);
    }
    sample_subject it;
    subject_open(&it, &(sample_case){"topk:3", 9, 8, 6, 1, L, 4, SF_RELU, SF_PRE_NORM, 0, 961});
    assert_int_equal(sf_mask_stability_measure(&stability, &it.subject, (double[]){-1}, 1), SF_BAD_INPUT);
    assert_int_equal(sf_mask_stability_measure(&stability, &it.subject, (double[]){NAN}, 1), SF_BAD_INPUT);
    it.subject.samples = 0;
    assert_int_equal(sf_mask_stability_measure(&stability, &it.subject, scales, SCALES), SF_BAD_INPUT);
    subject_close(&it);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_those_of_the_reference),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(fixed_patterns_and_bad_scales_are_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
