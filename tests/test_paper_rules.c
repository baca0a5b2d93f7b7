/* Rules for questions beyond the paper: trends over many points, directions along a setting, "at most so many times as
 * slow", and explanations that compete. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "paper/rules.h"

enum { MOST_SEEDS = 10 };
static const double never[MOST_SEEDS] = {0};

static void assert_near(double value, double expected) {
    assert_true(fabs(value - expected) < 1e-12);
}

static sf_paper_row new_row(void) {
    return (sf_paper_row){.what = "made up", .word = SF_NOT_RUN, .p = NAN, .corrected = NAN};
}

/* By itself: a family of one. */
static sf_paper_word word_of(sf_paper_row *row) {
    sf_rules_correct(row, 1);
    return row->word;
}

/* Beyond eight points the orders are drawn: against the exact distribution of the number of inversions. */
static void trends_of_many_points(void **state) {
    (void)state;
    enum { POINTS = 12, PAIRS = POINTS * (POINTS - 1) / 2 };
    double x[POINTS], y[POINTS], share[PAIRS + 1] = {1};
    size_t falling = 0;
    for (size_t n = 2; n <= POINTS; n++) { /* a further point adds 0..n-1 inversions, all equally likely */
        double next[PAIRS + 1] = {0};
        for (size_t i = 0; i <= PAIRS; i++)
            for (size_t more = 0; more < n && i + more <= PAIRS; more++) next[i + more] += share[i] / (double)n;
        memcpy(share, next, sizeof share);
    }
    for (size_t i = 0; i < POINTS; i++) {
        x[i] = (double)i;
        y[i] = (double)((i * 5) % 12) + 0.53 * (double)i;
    }
    for (size_t i = 0; i < POINTS; i++)
        for (size_t j = 0; j < i; j++) falling += y[i] < y[j];
    double exact = 0;
    for (size_t i = 0; i <= PAIRS; i++)
        if (abs((int)PAIRS - 2 * (int)i) >= abs((int)PAIRS - 2 * (int)falling)) exact += share[i];
    sf_paper_row row = new_row(), again = new_row();
    assert_int_equal(sf_rule_rises(&row, x, y, POINTS), SF_OK);
    assert_true(exact > 0.01 && exact < 0.5);
    assert_true(fabs(row.p - exact) < 5 * sqrt(exact * (1 - exact) / SF_RANDOM_ORDERS));
    assert_int_equal(sf_rule_rises(&again, x, y, POINTS), SF_OK);
    assert_true(again.p == row.p); /* the same orders each time */
    for (size_t i = 0; i < POINTS; i++) y[i] = -x[i];
    row = new_row();
    assert_int_equal(sf_rule_rises(&row, x, y, POINTS), SF_OK);
    assert_near(row.p, 1.0 / (SF_RANDOM_ORDERS + 1));
    assert_int_equal(word_of(&row), SF_DISAGREES);
}

static void arrivals_of(sf_arrival *out, const double *epochs, size_t count) {
    for (size_t i = 0; i < count; i++)
        out[i] = (sf_arrival){.epochs = epochs[i] > 0 ? epochs[i] : 100, .reached = epochs[i] > 0};
}

static sf_paper_word not_later(const double *ours, const double *theirs, size_t count) {
    sf_arrival us[MOST_SEEDS] = {{0}}, them[MOST_SEEDS] = {{0}};
    sf_paper_row row = new_row();
    arrivals_of(us, ours, count);
    arrivals_of(them, theirs, count);
    sf_rule_not_later(&row, us, them, count, 1.5);
    return word_of(&row);
}

static void as_soon_as_another(void **state) {
    (void)state;
    static const double two[] = {2, 2, 2, 2, 2, 2, 2, 2}, three[] = {3, 3, 3, 3, 3, 3, 3, 3};
    static const double four[] = {4, 4, 4, 4, 4, 4, 4, 4}, late[] = {80, 80, 80, 80, 80, 80, 80, 80};
    assert_int_equal(not_later(two, four, 8), SF_AGREES);
    assert_int_equal(not_later(three, two, 8), SF_AGREES); /* 1.5 times is still within it */
    assert_int_equal(not_later(four, two, 8), SF_DISAGREES);
    assert_int_equal(not_later(never, two, 8), SF_DISAGREES);
    assert_int_equal(not_later(two, never, 8), SF_AGREES);
    assert_int_equal(not_later(never, never, 8), SF_NOT_ENOUGH_RUNS);
    assert_int_equal(not_later(never, late, 8), SF_NOT_ENOUGH_RUNS); /* 100 epochs are not 1.5 times 80 */
    assert_int_equal(not_later(two, four, 5), SF_NOT_ENOUGH_RUNS);
    assert_int_equal(not_later(two, four, 0), SF_NOT_RUN);
}

static sf_paper_word direction(const double *epochs /* [3] */, size_t seeds, bool more_is_stated) {
    sf_arrival arrivals[3 * MOST_SEEDS] = {{0}};
    for (size_t s = 0; s < seeds; s++) arrivals_of(arrivals + 3 * s, epochs, 3);
    sf_paper_row row = new_row();
    sf_rule_direction(&row, arrivals, seeds, 3, more_is_stated);
    return word_of(&row);
}

static void directions(void **state) {
    (void)state;
    static const double falling[] = {30, 10, 3}, rising[] = {3, 10, 0}, flat[] = {5, 5, 5}, bent[] = {3, 2, 3};
    assert_int_equal(direction(falling, 8, false), SF_AGREES);
    assert_int_equal(direction(falling, 8, true), SF_DISAGREES);
    assert_int_equal(direction(rising, 8, true), SF_AGREES); /* the last is never reached */
    assert_int_equal(direction(rising, 8, false), SF_DISAGREES);
    assert_int_equal(direction(flat, 8, true), SF_NOT_ENOUGH_RUNS); /* every seed is a tie */
    assert_int_equal(direction(bent, 8, true), SF_NOT_ENOUGH_RUNS);
    assert_int_equal(direction(falling, 4, false), SF_NOT_ENOUGH_RUNS);
    assert_int_equal(direction(falling, 0, false), SF_NOT_RUN);
}

/* Two explanations with two predictions each. */
static void rivals(void **state) {
    (void)state;
    static const struct {
        sf_paper_word rows[4], expected;
        const char *says[2];
    } cases[] = {
        {{SF_AGREES, SF_AGREES, SF_DISAGREES, SF_NO_DIFFERENCE_FOUND},
         SF_AGREES,
         {"the runs fit the explanation by a (of its predictions 2 agree, 0 disagree",
          ", and contradict the explanation by b (of its predictions 0 agree, 1 disagree, 1 show no difference"}},
        {{SF_DISAGREES, SF_NO_DIFFERENCE_FOUND, SF_AGREES, SF_AGREES},
         SF_DISAGREES,
         {"the runs contradict the explanation by a", ", and fit the explanation by b"}},
        {{SF_AGREES, SF_DISAGREES, SF_AGREES, SF_NOT_ENOUGH_RUNS},
         SF_MIXED,
         {"the runs partly fit and partly contradict", ", and do not decide about the explanation by b"}},
        {{SF_NOT_RUN, SF_NOT_RUN, SF_NOT_RUN, SF_NOT_RUN}, SF_NOT_ENOUGH_RUNS, {"do not decide", "by b"}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sf_paper_row rows[5];
        char sentence[2 * SF_PAPER_TEXT_SIZE];
        for (size_t r = 0; r < 4; r++) {
            rows[r] = new_row();
            rows[r].word = cases[i].rows[r];
            rows[r].of = r < 2 ? "a" : "b";
        }
        rows[4] = new_row(); /* what nobody predicts does not count */
        rows[4].word = SF_SHOWN;
        assert_int_equal(sf_rule_rivals(sentence, rows, 5), cases[i].expected);
        for (size_t s = 0; s < 2; s++)
            if (strstr(sentence, cases[i].says[s]) == NULL) fail_msg("%s", sentence);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trends_of_many_points),
        cmocka_unit_test(as_soon_as_another),
        cmocka_unit_test(directions),
        cmocka_unit_test(rivals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
