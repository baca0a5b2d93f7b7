/* Verdicts: the numbers of known outcomes, and sentences that claim no more than they carry. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "study/verdict.h"

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

/* What is no finding must not look like one: no factor, no p-value, no interval, no word of comparison. */
static void assert_claims_nothing(const sf_verdict *v) {
    static const char *const claims[] = {"times", "p =", "interval", "equal", "higher", "lower", "slower"};
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
        if (strstr(v->sentence, claims[i]) != NULL) fail_msg("'%s' is in: %s", claims[i], v->sentence);
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
    assert_int_equal(v.speed, SF_BETTER);
    assert_says(&v,
                "topk:5 reaches 95 % training accuracy in 6 epochs, full in 50 (medians of 10 seeds): 8.3 times faster "
                "(median of the per-seed ratios, 95 % interval 6.1 to 9.2, p = 0.002)");
    assert_int_equal(v.accuracy, SF_EQUAL);
    assert_says(&v, "Held-out accuracy after the last epoch is equal within 1 point: 100.0 % and 100.0 %");
    const sf_verdict back = judge("full", full, SEEDS, "topk:5", topk, SEEDS, 95);
    assert_int_equal(back.speed, SF_WORSE);
    assert_says(
        &back, "full reaches 95 % training accuracy in 50 epochs, topk:5 in 6 (medians of 10 seeds): 8.3 times slower");
}

static void few_seeds_claim_nothing(void **state) {
    (void)state;
    sf_outcome full[SEEDS], topk[SEEDS];
    fill(full, full_epochs, 100);
    fill(topk, topk_epochs, 100);
    const sf_verdict v = judge("topk:5", topk, 3, "full", full, 3, 95);
    assert_int_equal(v.speed, SF_TOO_FEW_SEEDS);
    assert_int_equal(v.accuracy, SF_TOO_FEW_SEEDS);
    assert_says(&v,
                "in 6 epochs, full in 50 (medians of 3 seeds); 3 seeds are too few to test which is faster (at least 6 "
                "are needed)");
    assert_says(&v, "100.0 % and 100.0 %; too few seeds to test");
    assert_claims_nothing(&v);
    const sf_verdict one = judge("topk:5", topk, 1, "full", full, 1, 95);
    assert_says(&one, "in 6 epochs, full in 50 (1 seed); 1 seed is too few to test which is faster");
    assert_true(isnan(one.interval.low) && isnan(one.interval.high)); /* of one value there is no spread */
    assert_claims_nothing(&one);
    const sf_verdict five = judge("topk:5", topk, 5, "full", full, 5, 95);
    assert_true(isnan(five.interval.low)); /* five values hardly more */
    assert_claims_nothing(&five);
    const sf_verdict same = judge("full", full, 1, "full", full, 1, 95);
    assert_int_equal(same.speed, SF_TOO_FEW_SEEDS); /* one tie does not make them equal */
    assert_claims_nothing(&same);
}

static void censored_baseline_gives_a_bound(void **state) {
    (void)state;
    sf_outcome full[SEEDS], topk[SEEDS];
    fill(full, never, 50);
    fill(topk, topk_epochs, 99);
    const sf_verdict v = judge("topk:5", topk, SEEDS, "full", full, SEEDS, 95);
    printf("  %s\n", v.sentence);
    assert_says(
        &v, "topk:5 reaches 95 % training accuracy in 6 epochs (median of 10 seeds), full does not (10 seeds of 100 "
            "epochs): at least 17 times faster (median of the per-seed ratios, 95 % interval from 12, p = 0.002)");
    assert_says(
        &v, "Held-out accuracy after the last epoch is higher: 99.0 % against 50.0 % (median per-seed difference 49.0");
    const sf_verdict back = judge("full", full, SEEDS, "topk:5", topk, SEEDS, 95);
    assert_int_equal(back.speed, SF_WORSE);
    assert_says(&back,
                "full does not reach 95 % training accuracy (10 seeds of 100 epochs), topk:5 does in 6 epochs (median "
                "of 10 seeds): slower (p = 0.002)");
}

static void all_censored(void **state) {
    (void)state;
    sf_outcome full[SEEDS];
    fill(full, never, 50);
    const sf_verdict v = judge("banded:5", full, SEEDS, "block:5", full, SEEDS, 95);
    assert_says(&v,
                "Neither banded:5 nor block:5 reaches 95 % training accuracy (both: 10 seeds of 100 epochs). Held-out");
    assert_int_equal(v.speed, SF_UNTOLD);
    assert_true(isnan(v.speedup) && isnan(v.interval.low));
    assert_null(strstr(v.sentence, "speed"));
    assert_null(strstr(v.sentence, "fast"));
}

static void not_significant_is_no_finding(void **state) {
    (void)state;
    sf_outcome a[SEEDS], b[SEEDS];
    static const double one[] = {10, 30, 10, 30, 10, 30, 10, 30, 10, 30},
                        other[] = {30, 11, 29, 12, 28, 9, 31, 10, 33, 10};
    fill(a, one, 90);
    fill(b, other, 90);
    const sf_verdict v = judge("a", a, SEEDS, "b", b, SEEDS, 95);
    printf("  %s\n", v.sentence);
    assert_true(v.p_speed > 0.05);
    assert_int_equal(v.speed, SF_NO_DIFFERENCE);
    assert_says(&v, "no difference in speed found (95 % interval of the median per-seed ratio 0.33 to 3.00, p = 0.85)");
    assert_null(strstr(v.sentence, "times"));
    for (size_t i = 0; i < SEEDS; i++) a[i].last_heldout = 90 + (i % 2 ? 4 : -3);
    const sf_verdict accuracy = judge("a", a, SEEDS, "b", b, SEEDS, 95);
    assert_int_equal(accuracy.accuracy, SF_NO_DIFFERENCE);
    assert_says(&accuracy,
                "No difference found in held-out accuracy after the last epoch: 90.5 % and 90.0 % (95 % interval of "
                "the difference -3.0 to 4.0, p = ");
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
    assert_says(
        &some,
        "Held-out accuracy after the last epoch is lower: 70.0 % against 90.0 % (median per-seed difference -20.0, 95 "
        "% interval -20.0 to -20.0, p = 0.031), measured in 6 of 10 pairs");
    unmeasure(wild, SEEDS);
    assert_int_equal(sf_summarize(&summary, wild, SEEDS), SF_OK);
    assert_true(isnan(summary.best_heldout) && isnan(summary.last_heldout) && isnan(summary.gap));
    const sf_verdict none = judge("wild", wild, SEEDS, "tame", tame, SEEDS, 95);
    assert_true(none.measured == 0 && isnan(none.p_accuracy) && isnan(none.accuracy_difference));
    assert_says(&none, "wild diverged before its first evaluation");
    assert_null(strstr(none.sentence, "nan"));
    const sf_verdict both = judge("wild", wild, SEEDS, "wilder", wild, SEEDS, 95);
    assert_says(&both, "Both diverged before their first evaluation");
}

static void diverged_runs_are_later_than_the_longest_curve(void **state) {
    (void)state;
    sf_outcome wild[SEEDS], tame[SEEDS];
    fill(wild, never, 70);
    fill(tame, full_epochs, 90);
    for (size_t i = 0; i < SEEDS; i++) {
        wild[i].diverged = true;
        wild[i].train.epochs = (double)(wild[i].epochs = i); /* the first before its first epoch */
        tame[i].epochs = 200;                                /* it trained on after it got there */
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
    assert_says(&v,
                "stopped does not reach 95 % training accuracy (10 seeds of 3 to 12 epochs), full does in 50 epochs "
                "(median of 10 seeds); no seed shows which is faster");
    assert_null(strstr(v.sentence, "never"));
    const sf_verdict back = judge("full", full, SEEDS, "stopped", stopped, SEEDS, 95);
    assert_says(
        &back, "full reaches 95 % training accuracy in 50 epochs (median of 10 seeds), stopped does not (10 seeds of 3 "
               "to 12 epochs); no seed shows which is faster");

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
    assert_says(&some, "some reaches 95 % training accuracy in 3 of 10 seeds, some in 3 of 10 seeds");
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
    assert_says(&v, "full does not (10 seeds of 35 epochs): at least 1.01 times faster");
    assert_null(strstr(v.sentence, "equally fast"));
    for (size_t i = 0; i < SEEDS; i++) ours[i].train.epochs = 35; /* all of them in the last epoch */
    const sf_verdict last = judge("topk:5", ours, SEEDS, "full", theirs, SEEDS, 95);
    assert_int_equal(last.speed, SF_BETTER);
    assert_says(&last, "full does not (10 seeds of 35 epochs): faster (p = 0.002)");
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
    one.epochs = 40; /* it trained on */
    one.heldout.epochs = 40;
    assert_int_equal(sf_summarize(&summary, &one, 1), SF_OK);
    assert_true(isinf(summary.heldout_median));
    one.diverged = true;
    one.epochs = 7;
    assert_int_equal(sf_summarize(&summary, &one, 1), SF_OK);
    assert_true(isinf(summary.heldout_median)); /* no further epoch would bring it there */
}

/* A verdict once quoted medians of 6 and 5 epochs and said "1.4 times faster". */
static void numbers_of_a_sentence_agree(void **state) {
    (void)state;
    enum { THREE = 3 };
    sf_outcome ours[SEEDS], theirs[SEEDS];
    static const double six[SEEDS] = {6, 3, 7}, five[SEEDS] = {5, 4.2, 10};
    fill(ours, six, 100);
    fill(theirs, five, 100);
    const sf_verdict few = judge("topk:5", ours, THREE, "full", theirs, THREE, 95);
    printf("  %s\n", few.sentence);
    assert_true(fabs(few.speedup - 1.4) < 1e-12);
    assert_says(
        &few, "topk:5 reaches 95 % training accuracy in 6 epochs, full in 5 (medians of 3 seeds); 3 seeds are too few");
    assert_claims_nothing(&few);

    /* Significant (p by SciPy 1.17), though the medians of the epochs are 12.5 and 12: they would contradict it. */
    static const double later[] = {6, 6, 4, 20, 6, 23, 30, 28, 8, 17}, sooner[] = {8, 8, 5, 24, 7, 32, 42, 39, 9, 15};
    fill(ours, later, 100);
    fill(theirs, sooner, 100);
    const sf_verdict v = judge("topk:5", ours, SEEDS, "full", theirs, SEEDS, 95);
    printf("  %s\n", v.sentence);
    assert_true(fabs(v.p_speed - 0.005859375) < 1e-12 && fabs(v.speedup - 1.2916666666666665) < 1e-12);
    assert_int_equal(v.speed, SF_BETTER);
    assert_says(
        &v, "topk:5 reaches 95 % training accuracy sooner than full in 9 of 10 seeds and later in 1: 1.3 times faster");
    assert_null(strstr(v.sentence, "12"));
}

static void the_last_epoch_is_quoted_and_tested(void **state) {
    (void)state;
    sf_outcome ours[SEEDS], theirs[SEEDS];
    fill(ours, full_epochs, 51.6);
    fill(theirs, full_epochs, 60);
    for (size_t i = 0; i < SEEDS; i++) ours[i].best_heldout = 80 + (double)i; /* the held-out set chose it */
    const sf_verdict v = judge("banded:5", ours, SEEDS, "full", theirs, SEEDS, 95);
    assert_int_equal(v.accuracy, SF_WORSE);
    assert_true(fabs(v.accuracy_difference + 8.4) < 1e-9);
    assert_says(&v, "after the last epoch is lower: 51.6 % against 60.0 % (median per-seed difference -8.4");
    assert_null(strstr(v.sentence, "84"));
}

static void equal_is_within_a_stated_margin(void **state) {
    (void)state;
    sf_outcome ours[SEEDS], theirs[SEEDS];
    static const double base[] = {100, 120, 90, 110, 95, 105, 100, 130, 85, 115};
    double near[SEEDS];
    for (size_t i = 0; i < SEEDS; i++) near[i] = base[i] + (i % 2 ? 3 : -3);
    fill(ours, near, 97);
    fill(theirs, base, 97);
    for (size_t i = 0; i < SEEDS; i++) ours[i].last_heldout += i % 2 ? 0.9 : -0.8;
    const sf_verdict v = judge("a", ours, SEEDS, "b", theirs, SEEDS, 95);
    printf("  %s\n", v.sentence);
    assert_int_equal(v.speed, SF_EQUAL);
    assert_says(&v, "equally fast within 10 % (median per-seed ratio");
    assert_int_equal(v.accuracy, SF_EQUAL);
    assert_says(&v, "equal within 1 point: 97.1 % and 97.0 % (95 % interval of the difference -0.8 to 0.9)");
    for (size_t i = 0; i < SEEDS; i++) { /* as close in the median, but uncertain */
        ours[i].last_heldout = 97 + (i % 2 ? 2.0 : -1.9);
        ours[i].train.epochs = base[i] * (i % 2 ? 1.3 : 0.8);
    }
    const sf_verdict wide = judge("a", ours, SEEDS, "b", theirs, SEEDS, 95);
    assert_int_equal(wide.speed, SF_NO_DIFFERENCE);
    assert_int_equal(wide.accuracy, SF_NO_DIFFERENCE);
    assert_null(strstr(wide.sentence, "equal"));
    assert_says(&wide, "95 % interval of the difference -1.9 to 2.0");
    const sf_verdict five = judge("a", theirs, 5, "b", theirs, 5, 95); /* alike, but five seeds have no interval */
    assert_null(strstr(five.sentence, "equal"));
}

static sf_verdict judge_sides(const sf_side *ours, const sf_side *theirs) {
    sf_verdict v, *all = &v;
    assert_int_equal(sf_compare(&v, ours, theirs), SF_OK);
    assert_int_equal(sf_correct_together(&all, 1), SF_OK);
    assert_int_equal(sf_conclude(&v, ours, theirs, &(sf_criterion){.value = 95}), SF_OK);
    return v;
}

/* 2000 guesses of one in five have a standard error of 0.894 points: 21.75 is within 1.96 of them, 21.76 is not. */
static void at_chance(void **state) {
    (void)state;
    assert_true(sf_is_at_chance(21.75, 20, 2000));
    assert_false(sf_is_at_chance(21.76, 20, 2000));
    assert_true(sf_is_at_chance(11, 20, 2000)); /* worse than guessing is no learning either */
    assert_true(sf_is_at_chance(56, 50, 250));
    assert_false(sf_is_at_chance(57, 50, 250));
    assert_false(sf_is_at_chance(20, NAN, 2000));
    assert_false(sf_is_at_chance(NAN, 20, 2000));
    sf_outcome low[SEEDS], other[SEEDS], high[SEEDS];
    fill(low, never, 20.4);
    fill(other, never, 19.1);
    fill(high, full_epochs, 99);
    sf_side us = {.name = "banded:5", .outcomes = low, .count = SEEDS, .chance = 20, .heldout_size = 2000};
    sf_side them = {.name = "full", .outcomes = other, .count = SEEDS, .chance = 20, .heldout_size = 2000};
    const sf_verdict both = judge_sides(&us, &them);
    printf("  %s\n", both.sentence);
    assert_int_equal(both.accuracy, SF_BOTH_AT_CHANCE); /* though all ten seeds differ the same way */
    assert_true(both.p_accuracy < 0.01);
    assert_says(&both, "Both are at chance, 20 % (held-out accuracy after the last epoch 20.4 and 19.1 %)");
    assert_null(strstr(both.sentence, "higher"));
    them.outcomes = high;
    const sf_verdict one = judge_sides(&us, &them);
    assert_says(&one, "lower: 20.4 % (at chance, 20 %) against 99.0 % (median per-seed difference");
    us.chance = them.chance = NAN; /* a user's file that is not there any more */
    assert_null(strstr(judge_sides(&us, &them).sentence, "chance"));
}

/* Nine mechanisms against one baseline. One is sooner in nine of ten seeds, with p = 0.0098 by SciPy 1.17 if it stood
 * alone; statsmodels' Holm makes 0.088 of it, and there is no finding among the nine. */
static void nine_comparisons(void **state) {
    (void)state;
    enum { NINE = 9 };
    sf_outcome full[SEEDS], ours[NINE][SEEDS];
    sf_verdict verdicts[NINE], *family[NINE];
    sf_side them = {.name = "full", .outcomes = full, .count = SEEDS, .chance = NAN}, us[NINE];
    fill(full, full_epochs, 90);
    for (size_t m = 0; m < NINE; m++) {
        double epochs[SEEDS];
        for (size_t i = 0; i < SEEDS; i++) /* half of them sooner, half later, each by an amount of its own */
            epochs[i] = full_epochs[i] * (1 + (i % 2 ? 0.3 : -0.25) * (1 + 0.1 * (double)((i + m) % SEEDS)));
        if (m == 4)
            for (size_t i = 0; i < SEEDS; i++)
                epochs[i] = full_epochs[i] / (i < 2 ? 0.9 - 0.05 * (double)i : 1.5 + 0.1 * (double)i);
        fill(ours[m], epochs, 90);
        us[m] = (sf_side){.name = "mechanism", .outcomes = ours[m], .count = SEEDS, .chance = NAN};
        family[m] = &verdicts[m];
        assert_int_equal(sf_compare(&verdicts[m], &us[m], &them), SF_OK);
    }
    assert_int_equal(sf_correct_together(family, NINE), SF_OK);
    for (size_t m = 0; m < NINE; m++) {
        assert_int_equal(sf_conclude(&verdicts[m], &us[m], &them, &(sf_criterion){.value = 95}), SF_OK);
        assert_int_equal(verdicts[m].speed_tests, NINE);
        assert_int_equal(verdicts[m].speed, SF_NO_DIFFERENCE);
        assert_null(strstr(verdicts[m].sentence, "times"));
    }
    printf("  %s\n", verdicts[4].sentence);
    assert_true(fabs(verdicts[4].p_speed - 0.009765625) < 1e-12);
    assert_true(fabs(verdicts[4].corrected_p_speed - 0.087890625) < 1e-12);
    assert_says(&verdicts[4], "no difference in speed found (95 % interval of the median per-seed ratio ");
    assert_says(&verdicts[4], "p = 0.088 after correction for 9 comparisons, 0.0098 before)");
    const sf_verdict alone = judge_sides(&us[4], &them);
    assert_int_equal(alone.speed, SF_BETTER);
    assert_says(&alone, "times faster");
}

/* More comparisons take more seeds: six for one, seven for two or three, eight for four to six. */
static void too_few_seeds_for_so_many_comparisons(void **state) {
    (void)state;
    sf_outcome full[SEEDS], topk[SEEDS];
    fill(full, full_epochs, 90);
    fill(topk, topk_epochs, 100);
    for (size_t seeds = 6; seeds <= 7; seeds++) {
        const sf_side us = {.name = "topk:5", .outcomes = topk, .count = seeds, .chance = NAN};
        const sf_side them = {.name = "full", .outcomes = full, .count = seeds, .chance = NAN};
        sf_verdict two[2], *family[] = {&two[0], &two[1]};
        for (size_t i = 0; i < 2; i++) assert_int_equal(sf_compare(&two[i], &us, &them), SF_OK);
        assert_int_equal(sf_correct_together(family, 2), SF_OK);
        assert_int_equal(sf_conclude(&two[0], &us, &them, &(sf_criterion){.value = 95}), SF_OK);
        assert_int_equal(two[0].speed, seeds < 7 ? SF_TOO_FEW_SEEDS : SF_BETTER);
        assert_int_equal(two[0].accuracy, seeds < 7 ? SF_TOO_FEW_SEEDS : SF_BETTER);
        assert_says(&two[0],
                    seeds < 7 ? "6 seeds are too few to test which is faster (at least 7 are needed for 2 comparisons)"
                              : "p = 0.031 after correction for 2 comparisons)");
    }
}

static void a_loss_is_named(void **state) {
    (void)state;
    sf_outcome full[SEEDS], topk[SEEDS];
    fill(full, full_epochs, 100);
    fill(topk, topk_epochs, 100);
    const sf_side us = {.name = "topk:5", .outcomes = topk, .count = SEEDS, .chance = NAN};
    const sf_side them = {.name = "full", .outcomes = full, .count = SEEDS, .chance = NAN};
    sf_verdict v, *all = &v;
    assert_int_equal(sf_compare(&v, &us, &them), SF_OK);
    assert_int_equal(sf_correct_together(&all, 1), SF_OK);
    sf_criterion criterion;
    assert_int_equal(sf_criterion_parse(&criterion, "loss:0.1"), SF_OK);
    assert_int_equal(sf_conclude(&v, &us, &them, &criterion), SF_OK);
    assert_says(&v, "topk:5 reaches a training loss of 0.1 in 6 epochs");
    const sf_epoch row = {.train_loss = 0.1, .heldout_loss = 0.11, .train_accuracy = 97, .heldout_accuracy = 94};
    assert_true(sf_criterion_met(&criterion, &row, SF_TRAINING));
    assert_false(sf_criterion_met(&criterion, &row, SF_HELDOUT));
    assert_int_equal(sf_criterion_parse(&criterion, "97"), SF_OK);
    assert_true(sf_criterion_met(&criterion, &row, SF_TRAINING));
    assert_false(sf_criterion_met(&criterion, &row, SF_HELDOUT));
    static const char *const bad[] = {
        "", "0", "101", "-5", "loss", "loss:", "loss:0", "loss:-1", "loss:nan", "95 %", "nan"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(sf_criterion_parse(&criterion, bad[i]), SF_BAD_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clear_difference),
        cmocka_unit_test(few_seeds_claim_nothing),
        cmocka_unit_test(censored_baseline_gives_a_bound),
        cmocka_unit_test(all_censored),
        cmocka_unit_test(not_significant_is_no_finding),
        cmocka_unit_test(numbers_of_a_sentence_agree),
        cmocka_unit_test(the_last_epoch_is_quoted_and_tested),
        cmocka_unit_test(equal_is_within_a_stated_margin),
        cmocka_unit_test(at_chance),
        cmocka_unit_test(nine_comparisons),
        cmocka_unit_test(too_few_seeds_for_so_many_comparisons),
        cmocka_unit_test(a_loss_is_named),
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
