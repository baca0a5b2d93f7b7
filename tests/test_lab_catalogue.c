/* The catalogue: its entries can be planned, and its rules say each of their three words on made-up numbers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lab/catalogue.h"
#include "lab/catalogue_rules.h"

enum { MOST_SEEDS = 10 };
static const double full_epochs[] = {50, 48, 60, 20, 79, 55, 45, 50, 52, 41};
static const double soon[] = {6, 5, 12, 3, 16, 6, 4, 7, 6, 5};
static const double mixed[] = {40, 50, 70, 18, 90, 40, 40, 60, 40, 40}; /* sooner for six, later for four */
static const double half[] = {40, 70, 50, 30, 90, 70, 60, 40, 60, 50};  /* sooner for three, later for seven */
static const double never[MOST_SEEDS] = {0};

typedef struct sides {
    sf_verdict verdict;
    sf_summary us, them;
} sides;

static void fill(sf_outcome *out, const double *epochs, double heldout, size_t count) {
    for (size_t i = 0; i < count; i++)
        out[i] = (sf_outcome){.seed = (int64_t)i,
                              .train = {epochs[i] > 0 ? epochs[i] : 100, epochs[i] > 0},
                              .last_heldout = heldout + (double)i / 100,
                              .best_heldout = heldout + (double)i / 100};
}

static sides compare(const double *ours, double our_heldout, const double *theirs, double their_heldout, size_t count) {
    sf_outcome us[MOST_SEEDS] = {{0}}, them[MOST_SEEDS] = {{0}};
    sides out;
    fill(us, ours, our_heldout, count);
    fill(them, theirs, their_heldout, count);
    assert_int_equal(sf_judge(&out.verdict, "topk:5", us, count, "full", them, count, 95), SF_OK);
    assert_int_equal(sf_summarize(&out.us, us, count), SF_OK);
    assert_int_equal(sf_summarize(&out.them, them, count), SF_OK);
    return out;
}

static sf_paper_word sooner(const double *ours, const double *theirs, size_t count, size_t fewest) {
    const sides s = compare(ours, 90, theirs, 90, count);
    sf_paper_row row = {.what = "made up"};
    sf_rule_sooner(&row, &s.verdict, &s.us, &s.them, fewest);
    assert_true(*row.numbers != '\0');
    return row.word;
}

static sf_paper_word not_sooner(const double *ours, const double *theirs, size_t count, size_t fewest) {
    const sides s = compare(ours, 90, theirs, 90, count);
    sf_paper_row row = {.what = "made up"};
    sf_rule_not_sooner(&row, &s.verdict, &s.us, &s.them, fewest);
    return row.word;
}

static sf_paper_word as_accurate(double ours, double theirs, size_t count, size_t fewest) {
    const sides s = compare(soon, ours, soon, theirs, count);
    sf_paper_row row = {.what = "made up"};
    sf_rule_as_accurate(&row, &s.verdict, &s.us, &s.them, fewest);
    return row.word;
}

static void convergence(void **state) {
    (void)state;
    assert_int_equal(sooner(soon, full_epochs, 10, 6), SF_AGREES);
    assert_int_equal(sooner(soon, never, 10, 6), SF_AGREES);
    assert_int_equal(sooner(full_epochs, soon, 10, 6), SF_DISAGREES);
    assert_int_equal(sooner(never, full_epochs, 10, 6), SF_DISAGREES);
    assert_int_equal(sooner(half, full_epochs, 10, 6), SF_DISAGREES);
    assert_int_equal(sooner(full_epochs, full_epochs, 10, 6), SF_DISAGREES); /* no sooner */
    assert_int_equal(sooner(mixed, full_epochs, 10, 6), SF_NOT_ENOUGH_RUNS); /* the right way, but p is large */
    assert_int_equal(sooner(soon, full_epochs, 5, 6), SF_NOT_ENOUGH_RUNS);
    assert_int_equal(sooner(soon, full_epochs, 3, 3), SF_AGREES); /* too few for a test: the direction */
    assert_int_equal(sooner(never, never, 10, 6), SF_NOT_ENOUGH_RUNS);
    assert_int_equal(sooner(soon, full_epochs, 0, 0), SF_NOT_ENOUGH_RUNS);
}

static void no_convergence(void **state) {
    (void)state;
    assert_int_equal(not_sooner(never, full_epochs, 10, 6), SF_AGREES);
    assert_int_equal(not_sooner(half, full_epochs, 10, 6), SF_AGREES);
    assert_int_equal(not_sooner(soon, full_epochs, 10, 6), SF_DISAGREES);
    assert_int_equal(not_sooner(soon, full_epochs, 3, 3), SF_DISAGREES);
    assert_int_equal(not_sooner(mixed, full_epochs, 10, 6), SF_NOT_ENOUGH_RUNS);
    assert_int_equal(not_sooner(never, full_epochs, 2, 3), SF_NOT_ENOUGH_RUNS);
}

static void accuracy(void **state) {
    (void)state;
    assert_int_equal(as_accurate(96, 96, 6, 6), SF_AGREES);
    assert_int_equal(as_accurate(99, 60, 6, 6), SF_AGREES);
    assert_int_equal(as_accurate(95.5, 96, 6, 6), SF_AGREES); /* within a point */
    assert_int_equal(as_accurate(80, 96, 6, 6), SF_DISAGREES);
    assert_int_equal(as_accurate(80, 96, 3, 3), SF_DISAGREES);
    assert_int_equal(as_accurate(80, 96, 5, 6), SF_NOT_ENOUGH_RUNS);
}

static sf_paper_word fits(const double *accuracies, size_t count, size_t fewest) {
    sf_paper_row row = {.what = "made up"};
    sf_rule_fits(&row, accuracies, count, fewest);
    return row.word;
}

static void levels(void **state) {
    (void)state;
    assert_int_equal(fits((const double[]){100, 99.95, 80}, 3, 3), SF_AGREES);
    assert_int_equal(fits((const double[]){100, 99.8, 80}, 3, 3), SF_DISAGREES);
    assert_int_equal(fits((const double[]){100, 100}, 2, 3), SF_NOT_ENOUGH_RUNS);
    static const struct {
        double heldout;
        bool should;
        size_t count;
        sf_paper_word generalizes, near_guess;
    } cases[] = {{96, true, 6, SF_AGREES, SF_DISAGREES},
                 {96, false, 6, SF_DISAGREES, SF_DISAGREES},
                 {52, true, 6, SF_DISAGREES, SF_AGREES},
                 {52, false, 6, SF_AGREES, SF_AGREES},
                 {44, false, 6, SF_AGREES, SF_DISAGREES},
                 {96, true, 2, SF_NOT_ENOUGH_RUNS, SF_NOT_ENOUGH_RUNS},
                 {NAN, true, 0, SF_NOT_ENOUGH_RUNS, SF_NOT_ENOUGH_RUNS},
                 {NAN, true, 6, SF_NOT_ENOUGH_RUNS, SF_NOT_ENOUGH_RUNS}}; /* diverged before they were measured */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sf_paper_row row = {.what = "made up"}, near = {.what = "made up"};
        sf_rule_generalizes(&row, cases[i].heldout, 50, cases[i].should, cases[i].count, 3);
        sf_rule_near_guess(&near, cases[i].heldout, 50, cases[i].count, 3);
        assert_int_equal(row.word, cases[i].generalizes);
        assert_int_equal(near.word, cases[i].near_guess);
    }
}

static sf_paper_word lower(const double *ours, const double *theirs, size_t count, size_t width, double slack,
                           size_t fewest) {
    sf_paper_row row = {.what = "made up"};
    sf_rule_lower(&row, ours, theirs, count, width, slack, fewest);
    return row.word;
}

static void paired_values(void **state) {
    (void)state;
    static const double a[] = {1, 2, 3, 1, 2, 3, 1, 2, 9}, b[] = {2, 3, 4, 2, 3, 4, 2, 3, 4};
    static const double unknown[] = {NAN, 2, 3, 1, 2, 3, 1, 2, 3};
    assert_int_equal(lower(a, b, 3, 3, 0, 3), SF_AGREES); /* two of three seeds in all three values */
    assert_int_equal(lower(b, a, 3, 3, 0, 3), SF_DISAGREES);
    assert_int_equal(lower(a, a, 3, 3, 0, 3), SF_DISAGREES); /* equal is not lower */
    assert_int_equal(lower(a, a, 3, 3, 1, 3), SF_AGREES);    /* unless a point is allowed */
    assert_int_equal(lower(a, b, 2, 3, 0, 3), SF_NOT_ENOUGH_RUNS);
    assert_int_equal(lower(unknown, b, 3, 3, 0, 3), SF_NOT_ENOUGH_RUNS); /* its first seed does not count */
    assert_int_equal(lower(a, b, 1, 3, 0, 1), SF_AGREES);
    assert_int_equal(lower(a, b, 0, 3, 0, 0), SF_NOT_ENOUGH_RUNS);
}

static sf_paper_word published(double factor_apart) {
    static const double theirs[] = {2, 4, 8};
    const double ours[] = {2, 4 * factor_apart, 8 / factor_apart};
    sf_paper_row row = {.what = "made up"};
    sf_rule_published(&row, ours, theirs, 3, 2.5);
    return row.word;
}

static sf_paper_word same_side(double first, double second) {
    const double ours[] = {first, second};
    sf_paper_row row = {.what = "made up"};
    sf_rule_same_side(&row, ours, (const double[]){0.6, 1.09}, 2);
    return row.word;
}

static void published_values(void **state) {
    (void)state;
    assert_int_equal(published(1), SF_AGREES);
    assert_int_equal(published(2.4), SF_AGREES);
    assert_int_equal(published(2.6), SF_DISAGREES);
    assert_int_equal(published(NAN), SF_NOT_ENOUGH_RUNS);
    assert_int_equal(same_side(0.9, 1.5), SF_AGREES);
    assert_int_equal(same_side(0.9, 0.5), SF_AGREES); /* 1.09 is too near to 1 to say */
    assert_int_equal(same_side(1.1, 1.5), SF_DISAGREES);
    assert_int_equal(same_side(NAN, 1.5), SF_NOT_ENOUGH_RUNS);
}

static sf_paper_word middle(double first, double second, double third, size_t seeds) {
    static const char *const names[] = {"topk:1", "topk:5", "full"};
    sf_paper_row row = {.what = "made up"};
    sf_rule_middle_best(&row, names, (const double[]){first, second, third}, 3, seeds, 3);
    return row.word;
}

static sf_paper_word rises(const double *y, size_t count) {
    static const double x[] = {1, 2, 3, 4};
    sf_paper_row row = {.what = "made up"};
    sf_rule_rises(&row, x, y, count);
    return row.word;
}

static void trends(void **state) {
    (void)state;
    assert_int_equal(middle(20, 5, 50, 3), SF_AGREES);
    assert_int_equal(middle(5, 20, 50, 3), SF_DISAGREES);
    assert_int_equal(middle(INFINITY, 20, 5, 3), SF_DISAGREES);
    assert_int_equal(middle(5, 5, 50, 3), SF_DISAGREES);
    assert_int_equal(middle(20, 5, 50, 2), SF_NOT_ENOUGH_RUNS);
    assert_int_equal(middle(INFINITY, INFINITY, INFINITY, 3), SF_NOT_ENOUGH_RUNS);
    assert_int_equal(rises((const double[]){1, 3, 2, 4}, 4), SF_AGREES);
    assert_int_equal(rises((const double[]){4, 3, 2, 5}, 4), SF_DISAGREES); /* as many pairs either way */
    assert_int_equal(rises((const double[]){4, 3, 2, 1}, 4), SF_DISAGREES);
    assert_int_equal(rises((const double[]){1, NAN, 2, NAN}, 4), SF_NOT_ENOUGH_RUNS);
    assert_int_equal(rises((const double[]){1, 2}, 2), SF_NOT_ENOUGH_RUNS);
}

static void one_word_for_all(void **state) {
    (void)state;
    char sentence[2 * SF_PAPER_TEXT_SIZE];
    sf_paper_row rows[] = {{.what = "first", .word = SF_AGREES}, {.what = "second", .word = SF_AGREES}};
    assert_int_equal(sf_rule_overall(sentence, rows, 2), SF_AGREES);
    rows[0].word = SF_NOT_ENOUGH_RUNS;
    assert_int_equal(sf_rule_overall(sentence, rows, 2), SF_NOT_ENOUGH_RUNS);
    rows[1].word = SF_DISAGREES;
    assert_int_equal(sf_rule_overall(sentence, rows, 2), SF_DISAGREES);
    assert_non_null(strstr(sentence, "second"));
    assert_int_equal(sf_rule_overall(sentence, rows, 0), SF_NOT_ENOUGH_RUNS);
}

/* Every entry has a statement; a study at every scale, or a reason why not; seeds enough for its words but at smoke. */
static void every_entry_can_be_planned(void **state) {
    (void)state;
    sf_config config;
    sf_config_init(&config);
    for (size_t entry = 0; entry < sf_paper_count(); entry++)
        for (int scale = 0; scale < SF_SCALES; scale++) {
            const sf_paper_info info = sf_paper_describe(entry, (sf_paper_scale)scale);
            sf_paper *paper;
            size_t found;
            assert_true(strlen(info.title) > 5 && strlen(info.statement) > 20);
            assert_int_equal(sf_paper_find(&found, info.id), SF_OK);
            assert_int_equal(found, entry); /* ids are unique */
            if (sf_paper_open(&paper, entry, (sf_paper_scale)scale, &config) != SF_OK) fail_msg("%s", sf_message());
            assert_int_equal(sf_paper_study(paper) == NULL, info.unavailable != NULL);
            assert_int_equal(sf_paper_judge(paper, NULL), SF_OK);
            assert_int_equal(sf_paper_result_of(paper)->word, SF_NOT_ENOUGH_RUNS);
            const sf_study *study = sf_paper_study(paper);
            for (size_t g = 0; study != NULL && scale != SF_SMOKE && g < sf_study_group_count(study); g++)
                assert_true(sf_study_group(study, g)->runs >= sf_paper_entry_at(entry)->plans[scale].fewest);
            sf_paper_close(paper);
        }
}

/* A run that goes on past the epoch of arrival costs hours; one that stops elsewhere never arrives. */
static void only_arrivals_stop_early(void **state) {
    (void)state;
    for (size_t entry = 0; sf_paper_entry_at(entry) != NULL; entry++) {
        if (sf_paper_entry_at(entry)->unavailable != NULL) continue;
        const bool arrivals = sf_paper_entry_at(entry)->add_rows == sf_rows_of_curves ||
                              sf_paper_entry_at(entry)->add_rows == sf_rows_of_k;
        sf_paper *paper;
        size_t count;
        sf_config config;
        sf_config_init(&config);
        assert_int_equal(sf_paper_open(&paper, entry, SF_LAPTOP, &config), SF_OK);
        const sf_planned_run *runs = sf_study_runs(sf_paper_study(paper), &count);
        for (size_t i = 0; i < count; i++) assert_true(runs[i].config.stop_at == (arrivals ? SF_CONVERGED_AT : 0.0));
        sf_paper_close(paper);
    }
}

/* The smallest square shown has half a side of 0.1 and must hold neighbouring points, the weights' among them. */
static void grids_are_fine_enough_for_slopes(void **state) {
    (void)state;
    for (size_t entry = 0; sf_paper_entry_at(entry) != NULL; entry++) {
        if (sf_paper_entry_at(entry)->add_rows != sf_rows_of_slopes) continue;
        for (int scale = 0; scale < SF_SCALES; scale++)
            assert_true(2.0 / ((double)sf_paper_entry_at(entry)->plans[scale].grid - 1) <= 0.1);
    }
}

static void laptop_scale_of_the_table(void **state) {
    (void)state;
    sf_config config;
    sf_config_init(&config);
    size_t entry, count;
    sf_paper *paper;
    assert_int_equal(sf_paper_find(&entry, "table-dispersion"), SF_OK);
    assert_int_equal(sf_paper_open(&paper, entry, SF_LAPTOP, &config), SF_OK);
    const sf_planned_run *runs = sf_study_runs(sf_paper_study(paper), &count);
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(runs[i].config.seed, 140439608);
        assert_int_equal(runs[i].config.epochs, strcmp(runs[i].task, "even-pairs") == 0 ? 100 : 250);
        assert_int_equal(runs[i].config.train_count, 5000);
    }
    sf_paper_close(paper);
}

static void unknown_ids(void **state) {
    (void)state;
    size_t entry;
    assert_int_equal(sf_paper_find(&entry, "table-dispersoin"), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), "table-dispersion"));
    assert_int_equal(sf_paper_find(&entry, ""), SF_BAD_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convergence),
        cmocka_unit_test(no_convergence),
        cmocka_unit_test(accuracy),
        cmocka_unit_test(levels),
        cmocka_unit_test(paired_values),
        cmocka_unit_test(published_values),
        cmocka_unit_test(trends),
        cmocka_unit_test(one_word_for_all),
        cmocka_unit_test(every_entry_can_be_planned),
        cmocka_unit_test(only_arrivals_stop_early),
        cmocka_unit_test(grids_are_fine_enough_for_slopes),
        cmocka_unit_test(laptop_scale_of_the_table),
        cmocka_unit_test(unknown_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
