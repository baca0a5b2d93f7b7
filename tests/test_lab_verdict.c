/* Verdicts: the numbers of known outcomes, and sentences that claim no more than they carry. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lab/verdict.h"

enum { SEEDS = 10 };

static void fill(sf_outcome *out, const double *epochs, double heldout) {
    for (size_t i = 0; i < SEEDS; i++) {
        const bool reached = epochs[i] > 0;
        out[i] = (sf_outcome){.seed = (int64_t)i,
                              .train = {reached ? epochs[i] : 100, reached},
                              .last_train = 100,
                              .last_heldout = heldout,
                              .best_heldout = heldout};
    }
}

static void assert_says(const sf_verdict *v, const char *text) {
    if (strstr(v->sentence, text) == NULL) fail_msg("'%s' is not in: %s", text, v->sentence);
}

static sf_verdict judge(const char *name, const sf_outcome *ours, size_t our_count, const char *baseline_name,
                        const sf_outcome *baseline, size_t baseline_count, double threshold) {
    sf_verdict v;
    assert_int_equal(sf_judge(&v, name, ours, our_count, baseline_name, baseline, baseline_count, threshold), SF_OK);
    return v;
}

static const double full_epochs[] = {50, 48, 60, 20, 79, 55, 45, 50, 52, 41};
static const double topk_epochs[] = {6, 5, 12, 3, 16, 6, 4, 7, 6, 5};
static const double never[SEEDS] = {0};

static void clear_difference(void **state) {
    (void)state;
    sf_outcome full[SEEDS], topk[SEEDS];
    fill(full, full_epochs, 100);
    fill(topk, topk_epochs, 100);
    const sf_verdict v = judge("topk:5", topk, SEEDS, "full", full, SEEDS, 95);
    printf("  %s\n", v.sentence);
    assert_int_equal(v.sooner, 10);
    assert_true(fabs(v.p_speed - 0.001953125) < 1e-12); /* 2 / 2^10, by hand */
    assert_true(v.speedup > 6 && v.speedup < 10 && v.interval.low <= v.speedup && v.speedup <= v.interval.high);
    assert_says(&v, "topk:5 reaches 95 % in 6 epochs (median of 10 seeds), full in 50 epochs");
    assert_says(&v, "times faster");
    assert_says(&v, "held-out accuracy equal (100.0 vs 100.0)");
    const sf_verdict back = judge("full", full, SEEDS, "topk:5", topk, SEEDS, 95);
    assert_says(&back, "times slower");
}

static void few_seeds_claim_nothing(void **state) {
    (void)state;
    sf_outcome full[SEEDS], topk[SEEDS];
    fill(full, full_epochs, 100);
    fill(topk, topk_epochs, 100);
    const sf_verdict v = judge("topk:5", topk, 3, "full", full, 3, 95);
    assert_says(&v, "3 seeds are too few for a test");
    assert_null(strstr(v.sentence, "p ="));
    const sf_verdict one = judge("topk:5", topk, 1, "full", full, 1, 95);
    assert_says(&one, "8.3 times faster, 1 seed is too few for a test");
    assert_true(isnan(one.interval.low) && isnan(one.interval.high)); /* of one value there is no spread */
    assert_null(strstr(one.sentence, "interval"));
    const sf_verdict same = judge("full", full, 1, "full", full, 1, 95);
    assert_says(&same, "no seed tells them apart");
    full[0].train.epochs = 6.1;
    const sf_verdict equal = judge("topk:5", topk, 1, "full", full, 1, 95);
    assert_says(&equal, "as fast (ratio 1.02), 1 seed is too few for a test");
}

static void censored_baseline_gives_a_bound(void **state) {
    (void)state;
    sf_outcome full[SEEDS], topk[SEEDS];
    fill(full, never, 50);
    fill(topk, topk_epochs, 99);
    const sf_verdict v = judge("topk:5", topk, SEEDS, "full", full, SEEDS, 95);
    printf("  %s\n", v.sentence);
    assert_says(&v, "full not (10 seeds of 100 epochs):");
    assert_says(&v, "at least 17 times faster");
    assert_says(&v, "held-out accuracy higher (99.0 vs 50.0");
    const sf_verdict back = judge("full", full, SEEDS, "topk:5", topk, SEEDS, 95);
    assert_says(&back, "full does not reach 95 % (10 seeds of 100 epochs), topk:5 in 6 epochs");
    const sf_verdict neither = judge("banded:5", full, SEEDS, "block:5", full, SEEDS, 95);
    assert_says(&neither, "neither banded:5 nor block:5 reaches 95 % (both: 10 seeds of 100 epochs)");
    assert_true(isnan(neither.speedup));
}

static void chance_is_called_chance(void **state) {
    (void)state;
    sf_outcome a[SEEDS], b[SEEDS];
    static const double one[] = {10, 30, 10, 30, 10, 30, 10, 30, 10, 30},
                        other[] = {30, 11, 29, 12, 28, 9, 31, 10, 33, 10};
    fill(a, one, 90);
    fill(b, other, 90);
    const sf_verdict v = judge("a", a, SEEDS, "b", b, SEEDS, 95);
    printf("  %s\n", v.sentence);
    assert_true(v.p_speed > 0.05);
    assert_says(&v, "may be chance");
}

static void seeds_pair_by_value(void **state) {
    (void)state;
    sf_outcome full[SEEDS], topk[SEEDS];
    fill(full, full_epochs, 100);
    fill(topk, topk_epochs, 100);
    for (size_t i = 0; i < SEEDS; i++) topk[i].seed += 7; /* three in common */
    const sf_verdict v = judge("topk:5", topk, SEEDS, "full", full, SEEDS, 95);
    assert_int_equal(v.pairs, 3);
}

static void unmeasure(sf_outcome *out, size_t count) {
    for (size_t i = 0; i < count; i++) {
        out[i].diverged = true;
        out[i].last_train = out[i].last_heldout = out[i].best_heldout = out[i].epoch_seconds = NAN;
    }
}

static void what_was_never_measured_is_no_zero(void **state) {
    (void)state;
    sf_outcome wild[SEEDS], tame[SEEDS];
    sf_summary summary;
    fill(wild, never, 70);
    fill(tame, full_epochs, 90);
    unmeasure(wild, 4); /* six pairs are left */
    assert_int_equal(sf_summarize(&summary, wild, SEEDS), SF_OK);
    assert_true(summary.best_heldout == 70 && summary.last_heldout == 70 && summary.gap == 30);
    const sf_verdict some = judge("wild", wild, SEEDS, "tame", tame, SEEDS, 95);
    assert_int_equal(some.pairs, SEEDS);
    assert_int_equal(some.measured, 6);
    assert_true(fabs(some.p_accuracy - 0.03125) < 1e-12); /* 2 / 2^6 */
    assert_says(&some, "held-out accuracy lower (70.0 vs 90.0, p = 0.031), measured in 6 of 10 pairs");
    unmeasure(wild, SEEDS);
    assert_int_equal(sf_summarize(&summary, wild, SEEDS), SF_OK);
    assert_true(isnan(summary.best_heldout) && isnan(summary.last_heldout) && isnan(summary.gap));
    const sf_verdict none = judge("wild", wild, SEEDS, "tame", tame, SEEDS, 95);
    assert_true(none.measured == 0 && isnan(none.p_accuracy) && isnan(none.accuracy_difference));
    assert_says(&none, "wild diverged before its first evaluation");
    assert_null(strstr(none.sentence, "nan"));
    const sf_verdict both = judge("wild", wild, SEEDS, "wilder", wild, SEEDS, 95);
    assert_says(&both, "both diverged before their first evaluation");
}

static void diverged_runs_are_later_than_the_longest_curve(void **state) {
    (void)state;
    sf_outcome wild[SEEDS], tame[SEEDS];
    fill(wild, never, 70);
    fill(tame, full_epochs, 90);
    for (size_t i = 0; i < SEEDS; i++) {
        wild[i].diverged = true;
        wild[i].train.epochs = (double)(wild[i].epochs = i); /* the first before its first epoch */
        tame[i].epochs = 200;                                /* it went on after it got there */
    }
    const sf_verdict v = judge("tame", tame, SEEDS, "wild", wild, SEEDS, 95);
    assert_int_equal(v.sooner, SEEDS);
    assert_true(v.at_least && v.speedup == 200.0 / 50); /* 50: the median of full_epochs */
    const sf_verdict back = judge("wild", wild, SEEDS, "tame", tame, SEEDS, 95);
    assert_int_equal(back.later, SEEDS);
    assert_true(back.at_most && back.speedup == 50.0 / 200);
}

static void an_early_end_is_no_never(void **state) {
    (void)state;
    sf_outcome stopped[SEEDS], full[SEEDS];
    sf_summary summary;
    fill(full, full_epochs, 100);
    fill(stopped, never, 80);
    for (size_t i = 0; i < SEEDS; i++) stopped[i].train.epochs = (double)(3 + i); /* stopped at a lower accuracy */
    assert_int_equal(sf_summarize(&summary, stopped, SEEDS), SF_OK);
    for (int q = 0; q < 3; q++) assert_true(isnan(summary.quartiles[q])); /* anything later than 3 to 12 epochs */
    const sf_verdict v = judge("stopped", stopped, SEEDS, "full", full, SEEDS, 95);
    assert_true(v.sooner == 0 && v.later == 0); /* all of full came later than these were looked at */
    assert_says(&v, "stopped does not reach 95 % (10 seeds of 3 to 12 epochs), full in 50 epochs");
    assert_null(strstr(v.sentence, "never"));
    const sf_verdict back = judge("full", full, SEEDS, "stopped", stopped, SEEDS, 95);
    assert_says(&back, "full reaches 95 % in 50 epochs (median of 10 seeds), stopped not (10 seeds of 3 to 12 epochs)");
    assert_says(&back, "no seed tells them apart");

    fill(full, full_epochs, 100); /* 20, 41, 45, 48, 50, 50, 52, 55, 60, 79 */
    full[4].train = (sf_arrival){.epochs = 70};
    full[4].epochs = 70; /* instead of 79, the last: hides no quartile */
    full[0].epochs = 200;
    assert_int_equal(sf_summarize(&summary, full, SEEDS), SF_OK);
    assert_true(summary.quartiles[0] == 45.75 && summary.quartiles[1] == 50 && summary.quartiles[2] == 54.25);
    full[4].train.epochs = 47;
    full[4].epochs = 47; /* it may have come next, or never */
    assert_int_equal(sf_summarize(&summary, full, SEEDS), SF_OK);
    assert_true(summary.quartiles[0] == 45.75 && isnan(summary.quartiles[1]) && isnan(summary.quartiles[2]));
    for (size_t i = 0; i < SEEDS; i++) full[i].train.reached = i < 3, full[i].epochs = 200;
    for (size_t i = 3; i < SEEDS; i++) full[i].train.epochs = 200;
    const sf_verdict some = judge("some", full, SEEDS, "some", full, SEEDS, 95);
    assert_says(&some, "some reaches 95 % in 3 of 10 seeds, some in 3 of 10 seeds");
}

static void an_early_end_hides_only_what_it_must(void **state) {
    (void)state;
    const sf_outcome three[] = {{.train = {5, true}, .epochs = 9},
                                {.train = {5, false}, .epochs = 5}, /* in epoch 6 at the earliest */
                                {.train = {6, true}, .epochs = 9}};
    sf_summary summary;
    assert_int_equal(sf_summarize(&summary, three, 3), SF_OK);
    assert_true(summary.quartiles[1] == 6);
}

static void a_bound_near_one_is_not_as_fast(void **state) {
    (void)state;
    sf_outcome ours[SEEDS], theirs[SEEDS];
    fill(ours, never, 80);
    fill(theirs, never, 80);
    for (size_t i = 0; i < SEEDS; i++) {
        ours[i].train = (sf_arrival){.epochs = i % 2 ? 34 : 35, .reached = true};
        theirs[i].train = (sf_arrival){.epochs = 35};
        ours[i].epochs = theirs[i].epochs = 35;
    }
    const sf_verdict v = judge("topk:5", ours, SEEDS, "full", theirs, SEEDS, 95);
    assert_says(&v, "full not (10 seeds of 35 epochs): at least 1.01 times faster");
    assert_null(strstr(v.sentence, "as fast"));
}

static void a_run_that_stopped_on_arrival_may_still_generalize(void **state) {
    (void)state;
    sf_outcome one = {.train = {7, true}, .heldout = {7, false}, .epochs = 7, .stopped = true};
    sf_summary summary;
    assert_int_equal(sf_summarize(&summary, &one, 1), SF_OK);
    assert_true(summary.quartiles[1] == 7 && isnan(summary.heldout_median));
    one.stopped = false; /* it was its last epoch anyway */
    assert_int_equal(sf_summarize(&summary, &one, 1), SF_OK);
    assert_true(isinf(summary.heldout_median));
    one.epochs = 40; /* it went on */
    one.heldout.epochs = 40;
    assert_int_equal(sf_summarize(&summary, &one, 1), SF_OK);
    assert_true(isinf(summary.heldout_median));
    one.diverged = true;
    one.epochs = 7;
    assert_int_equal(sf_summarize(&summary, &one, 1), SF_OK);
    assert_true(isinf(summary.heldout_median)); /* no further epoch would bring it there */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clear_difference),
        cmocka_unit_test(few_seeds_claim_nothing),
        cmocka_unit_test(censored_baseline_gives_a_bound),
        cmocka_unit_test(chance_is_called_chance),
        cmocka_unit_test(seeds_pair_by_value),
        cmocka_unit_test(what_was_never_measured_is_no_zero),
        cmocka_unit_test(diverged_runs_are_later_than_the_longest_curve),
        cmocka_unit_test(an_early_end_is_no_never),
        cmocka_unit_test(an_early_end_hides_only_what_it_must),
        cmocka_unit_test(a_bound_near_one_is_not_as_fast),
        cmocka_unit_test(a_run_that_stopped_on_arrival_may_still_generalize),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
