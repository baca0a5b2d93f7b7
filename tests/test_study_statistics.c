/* Statistics against SciPy 1.17 (numbers below), brute force over all sign patterns, and known coverage. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"
#include "study/statistics.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void assert_near(double got, double expected, double tolerance) {
    if (!(fabs(got - expected) <= tolerance)) fail_msg("%.15g, expected %.15g", got, expected);
}

static void quantiles_interpolate(void **state) {
    (void)state;
    static const double q[] = {0, .25, .5, .75, .9, 1}, expected[] = {3, 4.75, 6, 10, 14, 17};
    for (size_t i = 0; i < COUNT(q); i++) {
        double values[] = {3, 6, 4, 12, 17, 8, 5.5};
        assert_near(sf_quantile(values, COUNT(values), q[i]), expected[i], 1e-12);
    }
    double one[] = {4};
    assert_near(sf_quantile(one, 1, 0.5), 4, 0);
    assert_true(isnan(sf_quantile(one, 0, 0.5)));
}

static void never_counts_as_later_than_all(void **state) {
    (void)state;
    double most_arrive[] = {INFINITY, 5, 7}, half_arrive[] = {5, INFINITY, INFINITY, 7};
    assert_near(sf_quantile(most_arrive, 3, 0.5), 7, 0);
    assert_true(isinf(sf_quantile(half_arrive, 4, 0.5)));
}

static void censoring_decides_only_what_it_can(void **state) {
    (void)state;
    const sf_arrival at6 = {6, true}, at50 = {50, true}, never100 = {100, false}, never5 = {5, false};
    bool bounded;
    assert_int_equal(sf_arrival_compare(&at6, &at50), SF_SOONER);
    assert_int_equal(sf_arrival_compare(&at50, &at6), SF_LATER);
    assert_int_equal(sf_arrival_compare(&at50, &at50), SF_UNDECIDED);
    assert_int_equal(sf_arrival_compare(&at50, &never100), SF_SOONER);
    assert_int_equal(sf_arrival_compare(&never100, &at50), SF_LATER);
    assert_int_equal(sf_arrival_compare(&never100, &never5), SF_UNDECIDED);
    assert_int_equal(sf_arrival_compare(&at6, &never5), SF_UNDECIDED); /* five epochs say nothing about the sixth */
    assert_near(sf_arrival_ratio(&at6, &at50, &bounded), 50.0 / 6, 1e-12);
    assert_false(bounded);
    assert_near(sf_arrival_ratio(&at50, &never100, &bounded), 2, 1e-12);
    assert_true(bounded);
    assert_true(isnan(sf_arrival_ratio(&never5, &never100, &bounded)));
}

static void sign_test_is_scipys(void **state) {
    (void)state;
    static const struct {
        size_t wins, losses;
        double p;
    } cases[] = {{5, 0, 0.0625}, {6, 0, 0.03125},      {9, 1, 0.021484375},          {7, 3, 0.34375},
                 {5, 5, 1},      {0, 10, 0.001953125}, {16, 4, 0.01181793212890625}, {0, 0, 1}};
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_near(sf_sign_test(cases[i].wins, cases[i].losses), cases[i].p, 1e-12);
    assert_near(sf_sign_test(1000, 1100), 0.030720707864242296, 1e-15); /* Python's exact fractions */
    assert_near(sf_sign_test(0, 1060), 0x1p-1059, 0);
    assert_near(sf_sign_test(1500, 1500), 1, 0);
    assert_near(sf_smallest_p(5), 0.0625, 0);
    assert_near(sf_smallest_p(6), sf_sign_test(6, 0), 1e-15);
    assert_near(sf_smallest_p(0), 1, 0);
}

static void wilcoxon_is_scipys(void **state) {
    (void)state;
    double depression[] = {0.952, -0.147, 1.022, 0.43, 0.62, 0.59, 0.49, -0.08, 0.01};
    double darwin[] = {6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75};
    assert_near(sf_wilcoxon_test(depression, COUNT(depression)), 0.0390625, 1e-12);
    assert_near(sf_wilcoxon_test(darwin, COUNT(darwin)), 0.041259765625, 1e-12);
    double zeros[] = {0, 0};
    assert_near(sf_wilcoxon_test(zeros, 2), 1, 0);
}

/* Mean ranks and all 2^n sign patterns, straight from the definition. */
static double brute_force(const double *differences, size_t count) {
    double sizes[16], ranks[16], observed = 0, total = 0;
    size_t n = 0, extreme = 0;
    bool positive[16];
    for (size_t i = 0; i < count; i++)
        if (differences[i] != 0) {
            positive[n] = differences[i] > 0;
            sizes[n++] = fabs(differences[i]);
        }
    for (size_t i = 0; i < n; i++) {
        ranks[i] = 0.5;
        for (size_t j = 0; j < n; j++) ranks[i] += sizes[j] < sizes[i] ? 1 : sizes[j] == sizes[i] ? 0.5 : 0;
        total += ranks[i];
        if (positive[i]) observed += ranks[i];
    }
    const double far = fabs(observed - total / 2);
    for (size_t pattern = 0; pattern < (size_t)1 << n; pattern++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++) sum += pattern >> i & 1 ? ranks[i] : 0;
        extreme += fabs(sum - total / 2) >= far - 1e-9;
    }
    return (double)extreme / (double)((size_t)1 << n);
}

static void wilcoxon_with_ties_is_exact(void **state) {
    (void)state;
    sf_draws draws = sf_draws_at((sf_index){.seed = 5, .stream = 99});
    for (int trial = 0; trial < 300; trial++) {
        double differences[12];
        const size_t count = 1 + sf_draw_below(&draws, 12);
        for (size_t i = 0; i < count; i++) differences[i] = (double)sf_draw_below(&draws, 9) - 4;
        const double expected = brute_force(differences, count);
        assert_near(sf_wilcoxon_test(differences, count), expected, 1e-12);
    }
}

/* scipy.stats.wilcoxon(d, correction=True, mode="approx") of the same differences. */
static void many_pairs_are_scipys(void **state) {
    (void)state;
    double ties[300], plain[250];
    for (int i = 0; i < 300; i++) ties[i] = i * 7 % 41 - 18;
    for (int i = 0; i < 250; i++) plain[i] = (i + 1) * (i % 5 < 3 ? 1.0 : -1.0);
    assert_near(sf_wilcoxon_test(ties, COUNT(ties)), 0.0088348281571608, 1e-12);
    assert_near(sf_wilcoxon_test(plain, COUNT(plain)), 0.00905826184700848, 1e-12);
}

/* A 95 % interval of the median holds the true median in about 95 of 100 samples (a little less for small ones). */
static void bootstrap_covers(void **state) {
    (void)state;
    enum { TRIALS = 400, SIZE = 15 };
    sf_draws draws = sf_draws_at((sf_index){.seed = 6, .stream = 99});
    uint32_t scratch[SIZE];
    size_t covered = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        double values[SIZE];
        for (size_t i = 0; i < SIZE; i++) values[i] = sf_draw_unit(&draws);
        const sf_interval interval = sf_bootstrap_median(values, SIZE, (uint32_t)trial, scratch);
        covered += interval.low <= 0.5 && 0.5 <= interval.high;
        assert_true(interval.low <= interval.high);
    }
    printf("  %zu of %d intervals cover the median\n", covered, (int)TRIALS);
    assert_true(covered >= TRIALS * 90 / 100 && covered <= TRIALS * 99 / 100);
    double same[] = {2, 2, 2};
    const sf_interval point = sf_bootstrap_median(same, 3, 1, scratch);
    assert_true(point.low == 2 && point.high == 2);
    assert_true(isnan(sf_bootstrap_median(same, 0, 1, scratch).low));
}

static int ascending(const void *a, const void *b) {
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* The same resamples, each sorted and its median taken from the definition; even counts have a mean in the middle. */
static void bootstrap_is_brute_force(void **state) {
    (void)state;
    double values[] = {1, 2, 4, 8, 16, 32}, medians[SF_RESAMPLES];
    enum { SIZE = COUNT(values) };
    uint32_t scratch[SIZE];
    for (size_t r = 0; r < SF_RESAMPLES; r++) {
        sf_draws draws =
            sf_draws_at((sf_index){.seed = 3, .stream = sf_stream(SF_BOOTSTRAP, 0, 0), .sample = (uint32_t)r});
        double sample[SIZE];
        for (size_t i = 0; i < SIZE; i++) sample[i] = values[sf_draw_below(&draws, SIZE)];
        qsort(sample, SIZE, sizeof *sample, ascending);
        medians[r] = 0.5 * (sample[SIZE / 2 - 1] + sample[SIZE / 2]);
    }
    const sf_interval got = sf_bootstrap_median(values, SIZE, 3, scratch);
    assert_near(got.low, sf_quantile(medians, SF_RESAMPLES, 0.025), 1e-12);
    assert_near(got.high, sf_quantile(medians, SF_RESAMPLES, 0.975), 1e-12);
}

static void quartiles_are_quantiles(void **state) {
    (void)state;
    sf_draws draws = sf_draws_at((sf_index){.seed = 7, .stream = 99});
    for (int trial = 0; trial < 2000; trial++) {
        double values[40], copy[40], got[3];
        const size_t count = 1 + sf_draw_below(&draws, COUNT(values));
        const uint32_t distinct = 1 + sf_draw_below(&draws, 50); /* many ties, or few */
        for (size_t i = 0; i < count; i++) values[i] = copy[i] = sf_draw_below(&draws, distinct);
        sf_quartiles(values, count, &got[0], &got[1], &got[2]);
        for (int q = 0; q < 3; q++) assert_near(got[q], sf_quantile(copy, count, 0.25 * (q + 1)), 1e-12);
    }
}

/* All 6^6 resamples, by Python's itertools and numpy's quantiles: 1.5 and 24. Our 4000 find the same steps. */
static void bootstrap_is_that_of_all_resamples(void **state) {
    (void)state;
    double values[] = {1, 2, 4, 8, 16, 32};
    uint32_t scratch[COUNT(values)];
    for (uint32_t seed = 1; seed <= 5; seed++) {
        const sf_interval got = sf_bootstrap_median(values, COUNT(values), seed, scratch);
        assert_near(got.low, 1.5, 0);
        assert_near(got.high, 24, 0);
    }
}

/* multipletests(p, method='holm') of statsmodels 0.15 */
static void holm_is_statsmodels(void **state) {
    (void)state;
    double nine[] = {0.012, 0.2, 0.31, 0.04, 0.5, 0.62, 0.07, 0.9, 0.33};
    static const double corrected_nine[] = {0.108, 1, 1, 0.32, 1, 1, 0.49, 1, 1};
    double six[] = {0.01, 0.02, 0.03, 0.005, 0.5, 1}, three[] = {0.015625, 0.0078125, 0.04};
    static const double corrected_six[] = {0.05, 0.08, 0.09, 0.03, 1, 1},
                        corrected_three[] = {0.03125, 0.0234375, 0.04};
    assert_int_equal(sf_holm(nine, COUNT(nine)), SF_OK);
    for (size_t i = 0; i < COUNT(nine); i++) assert_near(nine[i], corrected_nine[i], 1e-12);
    assert_int_equal(sf_holm(six, COUNT(six)), SF_OK);
    for (size_t i = 0; i < COUNT(six); i++) assert_near(six[i], corrected_six[i], 1e-12);
    assert_int_equal(sf_holm(three, COUNT(three)), SF_OK);
    for (size_t i = 0; i < COUNT(three); i++) assert_near(three[i], corrected_three[i], 1e-12);
    double ties[] = {0.03125, NAN, 0.03125}; /* what was not tested does not count */
    assert_int_equal(sf_holm(ties, COUNT(ties)), SF_OK);
    assert_true(ties[0] == 0.0625 && isnan(ties[1]) && ties[2] == 0.0625);
}

/* 2 / 2^n times the number of tests must not pass 0.05, by hand. */
static void fewest_pairs(void **state) {
    (void)state;
    static const size_t tests[] = {1, 2, 3, 4, 6, 7, 9, 12, 13, 14, 25, 26},
                        pairs[] = {6, 7, 7, 8, 8, 9, 9, 9, 10, 10, 10, 11};
    for (size_t i = 0; i < COUNT(tests); i++) assert_int_equal(sf_fewest_pairs(tests[i], 0.05), pairs[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_interpolate),
        cmocka_unit_test(never_counts_as_later_than_all),
        cmocka_unit_test(censoring_decides_only_what_it_can),
        cmocka_unit_test(sign_test_is_scipys),
        cmocka_unit_test(wilcoxon_is_scipys),
        cmocka_unit_test(wilcoxon_with_ties_is_exact),
        cmocka_unit_test(many_pairs_are_scipys),
        cmocka_unit_test(bootstrap_covers),
        cmocka_unit_test(bootstrap_is_brute_force),
        cmocka_unit_test(bootstrap_is_that_of_all_resamples),
        cmocka_unit_test(holm_is_statsmodels),
        cmocka_unit_test(fewest_pairs),
        cmocka_unit_test(quartiles_are_quantiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
