/* The catalogue: its entries can be planned, their seeds are enough for their tests, and its rules say each of their
 * words on made-up numbers. What the entries show is compared with the paper in tests/cli/test_cli_paper.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "measure/conditions.h"
#include "paper/catalogue.h"
#include "paper/rules.h"

enum { MOST_SEEDS = 10 };
static const double full_epochs[] = {50, 48, 60, 20, 79, 55, 45, 50, 52, 41};
static const double soon[] = {6, 5, 12, 3, 16, 6, 4, 7, 6, 5};
static const double mixed[] = {40, 50, 70, 18, 90, 40, 40, 60, 40, 40}; /* sooner for six, later for four */
static const double half[] = {40, 70, 50, 30, 90, 70, 60, 40, 60, 50};  /* sooner for three, later for seven */
static const double never[MOST_SEEDS] = {0};

static void assert_near(double value, double expected) {
    assert_true(fabs(value - expected) < 1e-12);
}

typedef struct sides {
    sf_verdict verdict;
    sf_summary us, them;
} sides;

static void fill(sf_outcome *out, const double *epochs, size_t count) {
    for (size_t i = 0; i < count; i++)
        out[i] = (sf_outcome){.seed = (int64_t)i,
                              .train = {epochs[i] > 0 ? epochs[i] : 100, epochs[i] > 0},
                              .epochs = 100,
                              .last_heldout = 90,
                              .best_heldout = 90};
}

static sides compare(const double *ours, const double *theirs, size_t count) {
    sf_outcome us[MOST_SEEDS] = {{0}}, them[MOST_SEEDS] = {{0}};
    sides out;
    fill(us, ours, count);
    fill(them, theirs, count);
    assert_int_equal(sf_judge(&out.verdict, "topk:5", us, count, "full", them, count, 95), SF_OK);
    assert_int_equal(sf_summarize(&out.us, us, count), SF_OK);
    assert_int_equal(sf_summarize(&out.them, them, count), SF_OK);
    return out;
}

static sf_paper_row new_row(void) {
    return (sf_paper_row){.what = "made up", .word = SF_NOT_RUN, .p = NAN, .corrected = NAN};
}

/* By itself: a family of one. */
static sf_paper_word word_of(sf_paper_row *row) {
    sf_rules_correct(row, 1);
    return row->word;
}

static sf_paper_word epochs(const double *ours, const double *theirs, size_t count, bool sooner_is_stated) {
    const sides s = compare(ours, theirs, count);
    sf_paper_row row = new_row();
    sf_rule_epochs(&row, &s.verdict, &s.us, &s.them, sooner_is_stated);
    assert_true(*row.numbers != '\0');
    return word_of(&row);
}

static void convergence(void **state) {
    (void)state;
    assert_int_equal(epochs(soon, full_epochs, 10, true), SF_AGREES);
    assert_int_equal(epochs(soon, never, 10, true), SF_AGREES);
    assert_int_equal(epochs(full_epochs, soon, 10, true), SF_DISAGREES);
    assert_int_equal(epochs(never, full_epochs, 10, true), SF_DISAGREES);
    assert_int_equal(epochs(soon, full_epochs, 6, true), SF_AGREES);
    /* not significant, whichever way: neither */
    assert_int_equal(epochs(mixed, full_epochs, 10, true), SF_NO_DIFFERENCE_FOUND);
    assert_int_equal(epochs(half, full_epochs, 10, true), SF_NO_DIFFERENCE_FOUND);
    assert_int_equal(epochs(full_epochs, full_epochs, 10, true), SF_NO_DIFFERENCE_FOUND);
    assert_int_equal(epochs(never, never, 10, true), SF_NO_DIFFERENCE_FOUND);
    /* too few seeds for a test */
    assert_int_equal(epochs(soon, full_epochs, 5, true), SF_NOT_ENOUGH_RUNS);
    assert_int_equal(epochs(full_epochs, soon, 5, true), SF_NOT_ENOUGH_RUNS);
    assert_int_equal(epochs(soon, full_epochs, 0, true), SF_NOT_RUN);
}

static void no_convergence(void **state) {
    (void)state;
    assert_int_equal(epochs(never, full_epochs, 10, false), SF_AGREES);
    assert_int_equal(epochs(soon, full_epochs, 10, false), SF_DISAGREES);
    assert_int_equal(epochs(half, full_epochs, 10, false), SF_NO_DIFFERENCE_FOUND);
    assert_int_equal(epochs(mixed, full_epochs, 10, false), SF_NO_DIFFERENCE_FOUND);
    assert_int_equal(epochs(never, full_epochs, 2, false), SF_NOT_ENOUGH_RUNS);
}

static void never_reached_is_not_not_run(void **state) {
    (void)state;
    sides s = compare(never, full_epochs, 10);
    sf_paper_row row = new_row();
    sf_rule_epochs(&row, &s.verdict, &s.us, &s.them, true);
    assert_non_null(strstr(row.numbers, "this never reached"));
    s = compare(soon, full_epochs, 0);
    row = new_row();
    sf_rule_epochs(&row, &s.verdict, &s.us, &s.them, true);
    assert_non_null(strstr(row.numbers, "this not run"));
    assert_null(strstr(row.numbers, "never"));
}

static sf_paper_word loss(const double *ours, const double *theirs, size_t count, bool sooner_is_stated) {
    double changed[MOST_SEEDS];
    sf_paper_row row = new_row();
    memcpy(changed, ours, count * sizeof *changed);
    sf_rule_loss(&row, changed, theirs, count, sooner_is_stated);
    return word_of(&row);
}

static void losses(void **state) {
    (void)state;
    assert_int_equal(loss(soon, full_epochs, 10, true), SF_AGREES);
    assert_int_equal(loss(soon, full_epochs, 10, false), SF_DISAGREES);
    assert_int_equal(loss(full_epochs, soon, 10, true), SF_DISAGREES);
    assert_int_equal(loss(full_epochs, soon, 10, false), SF_AGREES);
    assert_int_equal(loss(mixed, full_epochs, 10, true), SF_NO_DIFFERENCE_FOUND);
    assert_int_equal(loss(full_epochs, full_epochs, 10, true), SF_NO_DIFFERENCE_FOUND);
    assert_int_equal(loss(soon, full_epochs, 5, true), SF_NOT_ENOUGH_RUNS);
    assert_int_equal(loss(soon, full_epochs, 0, true), SF_NOT_RUN);
}

/* Differences are steady but for hundredths, or alternate between two values. */
static sf_paper_word accuracy(double difference, double other, size_t count) {
    double ours[MOST_SEEDS], theirs[MOST_SEEDS], differences[MOST_SEEDS];
    uint32_t counters[MOST_SEEDS];
    for (size_t i = 0; i < count; i++) {
        theirs[i] = 90 + (double)i / 10;
        ours[i] = theirs[i] + (i % 2 == 0 ? difference : other) + (double)i / 100;
    }
    sf_paper_row row = new_row();
    sf_rule_as_accurate(&row, &(sf_rule_accuracies){ours, theirs, differences, counters, count, 50});
    return word_of(&row);
}

static void accuracies(void **state) {
    (void)state;
    assert_int_equal(accuracy(0, 0, 6), SF_AGREES);
    assert_int_equal(accuracy(5, 5, 6), SF_AGREES);
    assert_int_equal(accuracy(-0.5, -0.5, 6), SF_AGREES); /* lower for every seed, but surely by less than a point */
    assert_int_equal(accuracy(-10, -10, 6), SF_DISAGREES);
    assert_int_equal(accuracy(-10, 9, 6), SF_NO_DIFFERENCE_FOUND);
    assert_int_equal(accuracy(-10, 6, 6), SF_NO_DIFFERENCE_FOUND); /* the median is worse, not significantly */
    assert_int_equal(accuracy(-10, -10, 5), SF_NOT_ENOUGH_RUNS);
    assert_int_equal(accuracy(0, 0, 0), SF_NOT_RUN);
}

static void levels(void **state) {
    (void)state;
    static const double all[] = {100, 99.95, 99.2, 100, 100, 100}, none[] = {98, 97, 50, 60, 70, 80};
    static const double some[] = {100, 100, 100, 100, 60, 70};
    sf_paper_row row = new_row();
    sf_rule_fits(&row, all, 6);
    assert_int_equal(word_of(&row), SF_AGREES);
    row = new_row();
    sf_rule_fits(&row, none, 6);
    assert_int_equal(word_of(&row), SF_DISAGREES);
    row = new_row();
    sf_rule_fits(&row, some, 6);
    assert_int_equal(word_of(&row), SF_NO_DIFFERENCE_FOUND);
    row = new_row();
    sf_rule_fits(&row, all, 3);
    assert_int_equal(word_of(&row), SF_NOT_ENOUGH_RUNS);
    static const struct {
        double heldout;
        bool is_stated;
        size_t count;
        sf_paper_word generalizes, near_guess;
    } cases[] = {{96, true, 6, SF_AGREES, SF_DISAGREES},
                 {96, false, 6, SF_DISAGREES, SF_DISAGREES},
                 {52, true, 6, SF_DISAGREES, SF_AGREES},
                 {52, false, 6, SF_AGREES, SF_AGREES},
                 {44, false, 6, SF_AGREES, SF_DISAGREES},
                 {96, true, 2, SF_NOT_ENOUGH_RUNS, SF_NOT_ENOUGH_RUNS},
                 {NAN, true, 0, SF_NOT_RUN, SF_NOT_RUN},
                 {NAN, true, 6, SF_NOT_RUN, SF_NOT_RUN}}; /* diverged before they were evaluated */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double heldout[6];
        sf_paper_row generalizes = new_row(), near = new_row();
        for (size_t j = 0; j < 6; j++) heldout[j] = cases[i].heldout;
        sf_rule_generalizes(&generalizes, heldout, cases[i].count, 50, cases[i].is_stated);
        sf_rule_near_guess(&near, heldout, cases[i].count, 50);
        assert_int_equal(word_of(&generalizes), cases[i].generalizes);
        assert_int_equal(word_of(&near), cases[i].near_guess);
    }
}

static sf_paper_word lower(const double *ours, const double *theirs, size_t count, double slack, size_t planned) {
    sf_paper_row row = new_row();
    sf_rule_lower(&row, ours, theirs, count, 2, slack, planned);
    return word_of(&row);
}

static void paired_values(void **state) {
    (void)state;
    double a[12], b[12];
    for (size_t i = 0; i < 12; i++) {
        a[i] = (double)i;
        b[i] = (double)i + 0.5;
    }
    assert_int_equal(lower(a, b, 6, 0, 6), SF_AGREES);
    assert_int_equal(lower(b, a, 6, 0, 6), SF_DISAGREES);
    assert_int_equal(lower(a, a, 6, 0, 6), SF_DISAGREES); /* equal is not lower */
    assert_int_equal(lower(b, a, 6, 1, 6), SF_AGREES);    /* unless a point is allowed */
    assert_int_equal(lower(a, b, 5, 0, 6), SF_NOT_ENOUGH_RUNS);
    assert_int_equal(lower(a, b, 1, 0, 1), SF_SHOWN); /* one published seed is an observation */
    assert_int_equal(lower(b, a, 1, 0, 1), SF_SHOWN);
    assert_int_equal(lower(a, b, 0, 0, 6), SF_NOT_RUN);
    a[1] = b[0] = 9; /* one of two values is not lower for the first seed */
    assert_int_equal(lower(a, b, 6, 0, 6), SF_NO_DIFFERENCE_FOUND);
    a[1] = NAN; /* it does not count */
    assert_int_equal(lower(a, b, 6, 0, 6), SF_NOT_ENOUGH_RUNS);
}

static sf_paper_word published(double factor_apart, double last) {
    static const double theirs[] = {2, 4, 8, 1e-9};
    const double ours[] = {2, 4 * factor_apart, 8 / factor_apart, last};
    sf_paper_row row = new_row();
    sf_rule_published(&row, ours, theirs, 4, 3, 2.5);
    return word_of(&row);
}

static void published_values(void **state) {
    (void)state;
    assert_int_equal(published(1, 1e-9), SF_AGREES);
    assert_int_equal(published(2.4, 1e-9), SF_AGREES);
    assert_int_equal(published(1, 1e-3), SF_AGREES);            /* the fourth is only shown */
    assert_int_equal(published(2.6, 1e-9), SF_NOT_ENOUGH_RUNS); /* one run on either side cannot disagree */
    assert_int_equal(published(NAN, 1e-9), SF_NOT_ENOUGH_RUNS);
    assert_int_equal(published(0, 1e-9), SF_NOT_ENOUGH_RUNS); /* an in-degree may be 0 */
}

static sf_paper_row rises(const double *y, size_t count) {
    static const double x[] = {1, 2, 3, 4, 5, 6, 7, 8};
    sf_paper_row row = new_row();
    assert_int_equal(sf_rule_rises(&row, x, y, count), SF_OK);
    sf_rules_correct(&row, 1);
    return row;
}

static void trends(void **state) {
    (void)state;
    assert_int_equal(rises((const double[]){1, 2, 3, 4, 5, 6, 7, 8}, 8).word, SF_AGREES);
    assert_int_equal(rises((const double[]){8, 7, 6, 5, 4, 3, 2, 1}, 8).word, SF_DISAGREES);
    assert_int_equal(rises((const double[]){2, 1, 4, 3, 1, 6, 2, 5}, 8).word, SF_NO_DIFFERENCE_FOUND);
    assert_int_equal(rises((const double[]){1, 2, 3, 4}, 4).word, SF_NOT_ENOUGH_RUNS); /* 2 / 4! is more than 0.05 */
    assert_int_equal(rises((const double[]){1, NAN, 2, NAN}, 4).word, SF_NOT_ENOUGH_RUNS);
    assert_int_equal(rises((const double[]){NAN, NAN}, 2).word, SF_NOT_RUN);
    /* 2 of 10 pairs fall; of the 120 orders, 1 + 4 + 9 have at most 2, and as many have at least 8 */
    const sf_paper_row row = rises((const double[]){1, 3, 2, 5, 4}, 5);
    assert_near(row.p, 28.0 / 120);
    assert_non_null(strstr(row.numbers, "tau +0.6"));
    /* never is later than every epoch, and as late as never */
    assert_int_equal(rises((const double[]){1, 2, 3, 4, 5, 6, INFINITY, INFINITY}, 8).word, SF_AGREES);
    assert_near(rises((const double[]){1, 2, 4, 3, INFINITY}, 5).p, rises((const double[]){1, 2, 4, 3, 9}, 5).p);
    assert_int_equal(rises((const double[]){INFINITY, INFINITY, INFINITY, INFINITY, INFINITY}, 5).word,
                     SF_NO_DIFFERENCE_FOUND);
}

/* Sorted: 0.005 * 5, 0.01 * 4, 0.03 * 3, 0.04 * 2 (but not below the one before), 0.5. */
static void holm(void **state) {
    (void)state;
    static const double p[] = {0.01, 0.04, 0.03, 0.005, 0.5}, corrected[] = {0.04, 0.09, 0.09, 0.025, 0.5};
    sf_paper_row rows[7];
    for (size_t i = 0; i < 5; i++) {
        rows[i] = new_row();
        rows[i].judged = true;
        rows[i].unit = "seed";
        rows[i].seeds = 10;
        rows[i].least_p = 2.0 / 1024;
        rows[i].p = p[i];
        rows[i].favours = i != 3;
    }
    rows[5] = rows[0];
    rows[5].family = 5; /* not corrected together with the others */
    rows[6] = new_row();
    rows[6].word = SF_SHOWN;
    sf_rules_correct(rows, 7);
    for (size_t i = 0; i < 5; i++) {
        assert_near(rows[i].corrected, corrected[i]);
        assert_int_equal(rows[i].together, 5);
    }
    static const sf_paper_word words[] = {SF_AGREES,    SF_NO_DIFFERENCE_FOUND, SF_NO_DIFFERENCE_FOUND,
                                          SF_DISAGREES, SF_NO_DIFFERENCE_FOUND, SF_AGREES,
                                          SF_SHOWN};
    for (size_t i = 0; i < 7; i++) assert_int_equal(rows[i].word, words[i]);
    assert_near(rows[5].corrected, 0.01);
    assert_non_null(strstr(rows[0].numbers, "Holm's correction over 5 comparisons"));
    assert_null(strstr(rows[5].numbers, "Holm"));
}

/* Nine comparisons, of which one is significant before the correction and none after it. */
static void nine_comparisons(void **state) {
    (void)state;
    sf_paper_row rows[9];
    for (size_t i = 0; i < 9; i++) {
        const sides s = compare(i == 4 ? soon : mixed, full_epochs, 9);
        rows[i] = new_row();
        sf_rule_epochs(&rows[i], &s.verdict, &s.us, &s.them, true);
    }
    rows[4].p = 0.03;
    sf_rules_correct(rows, 9);
    for (size_t i = 0; i < 9; i++) assert_int_equal(rows[i].word, SF_NO_DIFFERENCE_FOUND);
    char sentence[2 * SF_PAPER_TEXT_SIZE];
    assert_int_equal(sf_rule_overall(sentence, rows, 9), SF_NO_DIFFERENCE_FOUND);
    assert_non_null(strstr(sentence, "of 9 comparisons 0 agree, 0 disagree, 9 show no difference"));
    /* seven seeds are too few for nine comparisons */
    const sides few = compare(soon, full_epochs, 7);
    for (size_t i = 0; i < 9; i++) {
        rows[i] = new_row();
        sf_rule_epochs(&rows[i], &few.verdict, &few.us, &few.them, true);
    }
    sf_rules_correct(rows, 9);
    for (size_t i = 0; i < 9; i++) assert_int_equal(rows[i].word, SF_NOT_ENOUGH_RUNS);
    assert_non_null(strstr(rows[0].numbers, "7 seeds: too few for a test of 9 comparisons"));
}

static sf_paper_word overall(const sf_paper_word *words, size_t count) {
    char sentence[2 * SF_PAPER_TEXT_SIZE];
    sf_paper_row rows[8];
    for (size_t i = 0; i < count; i++) {
        rows[i] = new_row();
        rows[i].word = words[i];
    }
    return sf_rule_overall(sentence, rows, count);
}

static void one_word_for_all(void **state) {
    (void)state;
    assert_int_equal(overall((const sf_paper_word[]){SF_AGREES, SF_AGREES}, 2), SF_AGREES);
    assert_int_equal(overall((const sf_paper_word[]){SF_AGREES, SF_AGREES, SF_NO_DIFFERENCE_FOUND}, 3), SF_AGREES);
    assert_int_equal(overall((const sf_paper_word[]){SF_AGREES, SF_NO_DIFFERENCE_FOUND}, 2), SF_NO_DIFFERENCE_FOUND);
    assert_int_equal(overall((const sf_paper_word[]){SF_NO_DIFFERENCE_FOUND}, 1), SF_NO_DIFFERENCE_FOUND);
    assert_int_equal(overall((const sf_paper_word[]){SF_AGREES, SF_NOT_ENOUGH_RUNS}, 2), SF_NOT_ENOUGH_RUNS);
    assert_int_equal(overall((const sf_paper_word[]){SF_AGREES, SF_NOT_RUN}, 2), SF_NOT_ENOUGH_RUNS);
    assert_int_equal(overall((const sf_paper_word[]){SF_DISAGREES, SF_NO_DIFFERENCE_FOUND}, 2), SF_DISAGREES);
    assert_int_equal(overall((const sf_paper_word[]){SF_AGREES, SF_DISAGREES}, 2), SF_MIXED);
    assert_int_equal(overall((const sf_paper_word[]){SF_SHOWN, SF_SHOWN}, 2), SF_SHOWN);
    assert_int_equal(overall((const sf_paper_word[]){SF_SHOWN, SF_AGREES}, 2), SF_AGREES);
}

/* Every entry has a description; a study at every scale, formulas, or the lack of a text to read; and it can be judged
 * from nothing. */
static void every_entry_can_be_planned(void **state) {
    (void)state;
    for (size_t entry = 0; entry < sf_paper_count(); entry++)
        for (int scale = 0; scale < SF_SCALES; scale++) {
            const sf_paper_info info = sf_paper_describe(entry, (sf_paper_scale)scale);
            sf_paper *paper;
            size_t found;
            assert_true(strlen(info.title) > 5 && strlen(info.shows) > 5);
            assert_int_equal(sf_paper_find(&found, info.id), SF_OK);
            assert_int_equal(found, entry); /* ids are unique */
            if (sf_paper_open(&paper, entry, (sf_paper_scale)scale, NULL) != SF_OK) fail_msg("%s", sf_message());
            assert_int_equal(sf_paper_study(paper) == NULL, info.reads_text || info.is_formula);
            assert_int_equal(sf_paper_missing(paper) != NULL, info.reads_text);
            assert_int_equal(sf_paper_judge(paper, NULL), SF_OK);
            assert_int_equal(sf_paper_result_of(paper)->word, info.reads_text   ? SF_NEEDS_TEXT
                                                              : info.is_formula ? SF_SHOWN
                                                                                : SF_NOT_RUN);
            sf_paper_close(paper);
        }
}

/* A text with enough different words for the vocabularies of scale laptop. */
static void write_words(char path[]) {
    const int descriptor = mkstemp(path);
    FILE *file = fdopen(descriptor, "w");
    assert_non_null(file);
    uint32_t random = 1;
    for (size_t line = 0; line < 1500; line++)
        for (size_t word = 0; word < 12; word++) {
            for (size_t i = 0; i < 3 + word % 4; i++) {
                random = 1664525 * random + 1013904223;
                fputc((int)('a' + (random >> 24) % 26), file);
            }
            fputc(word < 11 ? ' ' : '\n', file);
        }
    fclose(file);
}

/* An exact test of n seeds cannot give less than 2 / 2^n, and Holm multiplies the smallest of m tests by m. */
static void seeds_are_enough_for_the_tests(void **state) {
    (void)state;
    char path[] = "/tmp/semfocus-words-XXXXXX";
    write_words(path);
    sf_paper_machine machine = {.text = path};
    sf_execution_init(&machine.execution);
    for (size_t entry = 0; entry < sf_paper_count(); entry++)
        for (int scale = SF_LAPTOP; scale < SF_SCALES; scale++) {
            sf_paper *paper;
            const bool reads_text = sf_paper_describe(entry, (sf_paper_scale)scale).reads_text;
            if (reads_text && scale == SF_PAPER) continue; /* ten seeds; its vocabularies need a larger text */
            const sf_status status = sf_paper_open(&paper, entry, (sf_paper_scale)scale, reads_text ? &machine : NULL);
            if (reads_text && status == SF_UNSUPPORTED) continue; /* this build lacks SentencePiece */
            if (status != SF_OK) fail_msg("%s", sf_message());
            assert_int_equal(sf_paper_judge(paper, NULL), SF_OK);
            const sf_paper_result *result = sf_paper_result_of(paper);
            const sf_study *study = sf_paper_study(paper);
            for (size_t i = 0; study != NULL && i < result->row_count; i++) {
                const sf_paper_row *row = &result->rows[i];
                const size_t seeds = sf_study_group(study, 0)->runs;
                if (!row->judged || strcmp(row->unit, "seed") != 0) continue;
                if ((double)row->together * 2 / pow(2, (double)seeds) >= 0.05)
                    fail_msg("%s at scale %s: %zu seeds for %zu comparisons", sf_paper_describe(entry, SF_LAPTOP).id,
                             sf_paper_scale_name((sf_paper_scale)scale), seeds, row->together);
            }
            sf_paper_close(paper);
        }
    unlink(path);
}

/* Accuracy at the end is judged, too, and loss curves are compared as long as they are. Questions beyond the paper
 * count epochs to 95 % only, and stop there. */
static void every_run_goes_to_its_end(void **state) {
    (void)state;
    for (size_t entry = 0; entry < sf_paper_count(); entry++)
        for (int scale = 0; scale < SF_SCALES; scale++) {
            sf_paper *paper;
            size_t count = 0;
            assert_int_equal(sf_paper_open(&paper, entry, (sf_paper_scale)scale, NULL), SF_OK);
            const sf_planned_run *runs =
                sf_paper_study(paper) != NULL ? sf_study_runs(sf_paper_study(paper), &count) : NULL;
            const char *id = sf_paper_describe(entry, (sf_paper_scale)scale).id;
            const bool stops = strncmp(id, "open-", 5) == 0 && strcmp(id, "open-positions") != 0 &&
                               strcmp(id, "open-recall") != 0 && strcmp(id, "open-length") != 0;
            for (size_t i = 0; i < count; i++) assert_true(runs[i].config.stop_at == (stops ? SF_CONVERGED_AT : 0));
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
    size_t entry, count;
    sf_paper *paper;
    assert_int_equal(sf_paper_find(&entry, "tab-6"), SF_OK);
    assert_int_equal(sf_paper_open(&paper, entry, SF_LAPTOP, NULL), SF_OK);
    const sf_planned_run *runs = sf_study_runs(sf_paper_study(paper), &count);
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(runs[i].config.seed, 140439608);
        assert_int_equal(runs[i].config.epochs, strcmp(runs[i].task, "even-pairs") == 0 ? 100 : 250);
        assert_int_equal(runs[i].config.train_count, 5000);
    }
    sf_paper_close(paper);
}

static void adam_ablation(void **state) {
    (void)state;
    size_t entry, count;
    sf_paper *paper;
    assert_int_equal(sf_paper_find(&entry, "fig-3e"), SF_OK);
    for (int scale = 0; scale < SF_SCALES; scale++) {
        char values[SF_PAPER_VALUES_SIZE];
        assert_int_equal(sf_paper_open(&paper, entry, (sf_paper_scale)scale, NULL), SF_OK);
        const sf_planned_run *runs = sf_study_runs(sf_paper_study(paper), &count);
        for (size_t i = 0; i < count; i++) assert_true(runs[i].config.gamma == 0.99999);
        assert_int_equal(sf_paper_values(values, paper, NULL, "optimizer"), 1);
        assert_string_equal(values, "adam");
        sf_paper_close(paper);
    }
}

static void values_of_a_study(void **state) {
    (void)state;
    size_t entry;
    sf_paper *paper;
    char values[SF_PAPER_VALUES_SIZE];
    assert_int_equal(sf_paper_find(&entry, "fig-2"), SF_OK);
    assert_int_equal(sf_paper_open(&paper, entry, SF_PAPER, NULL), SF_OK);
    assert_int_equal(sf_paper_values(values, paper, NULL, "task"), 3);
    assert_string_equal(values, "listops, even-pairs, missing-duplicate");
    assert_int_equal(sf_paper_values(values, paper, NULL, "activation"), 2);
    assert_string_equal(values, "gelu, mish");
    assert_int_equal(sf_paper_values(values, paper, NULL, "seed"), 10);
    assert_int_equal(sf_paper_values(values, paper, NULL, "blocks"), 2); /* listops is deeper */
    assert_int_equal(sf_paper_values(values, paper, "listops", "blocks"), 1);
    assert_int_equal(sf_paper_values(values, paper, NULL, "nothing"), 0);
    sf_paper_close(paper);
}

/* The least c2, found by bisection of the conditions themselves. */
static double searched_c2(sf_measure condition, double dispersion, double beta, double c1) {
    double low = 1e-20, high = 1e20;
    for (int i = 0; i < 400; i++) {
        const double middle = sqrt(low) * sqrt(high);
        const sf_condition_input input = {.dispersion = dispersion,
                                          .kept_dispersion = c1 * dispersion,
                                          .separation = middle * dispersion,
                                          .sink_ratio = beta};
        const double left = condition == SF_CONDITION_W ? sf_condition_w(&input) : sf_condition_x(&input);
        if (left < 1)
            high = middle;
        else
            low = middle;
    }
    return high > 1e19 ? INFINITY : high;
}

static void formulas_against_bisection(void **state) {
    (void)state;
    size_t finite = 0, none = 0;
    for (size_t i = 0; i < SF_PAPER_DISPERSIONS; i++)
        for (size_t b = 0; b < SF_PAPER_SINK_RATIOS; b++)
            for (int step = 0; step < 15; step++)
                for (int x = 0; x < 2; x++) {
                    const double c1 = 0.07 * step;
                    const sf_measure condition = x ? SF_CONDITION_X : SF_CONDITION_W;
                    const double dispersion = sf_paper_dispersions[i], beta = sf_paper_sink_ratios[b];
                    const double least = sf_condition_least_c2(condition, dispersion, beta, c1);
                    const double searched = searched_c2(condition, dispersion, beta, c1);
                    assert_int_equal(isfinite(least), isfinite(searched));
                    if (isfinite(least)) assert_true(fabs(least / searched - 1) < 1e-6);
                    isfinite(least) ? finite++ : none++;
                }
    assert_true(finite > 500 && none > 200);
}

static void unknown_ids(void **state) {
    (void)state;
    size_t entry;
    assert_int_equal(sf_paper_find(&entry, "claim-robst"), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), "claim-robust"));
    assert_int_equal(sf_paper_find(&entry, ""), SF_BAD_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convergence),
        cmocka_unit_test(no_convergence),
        cmocka_unit_test(never_reached_is_not_not_run),
        cmocka_unit_test(losses),
        cmocka_unit_test(accuracies),
        cmocka_unit_test(levels),
        cmocka_unit_test(paired_values),
        cmocka_unit_test(published_values),
        cmocka_unit_test(trends),
        cmocka_unit_test(holm),
        cmocka_unit_test(nine_comparisons),
        cmocka_unit_test(one_word_for_all),
        cmocka_unit_test(every_entry_can_be_planned),
        cmocka_unit_test(seeds_are_enough_for_the_tests),
        cmocka_unit_test(every_run_goes_to_its_end),
        cmocka_unit_test(grids_are_fine_enough_for_slopes),
        cmocka_unit_test(laptop_scale_of_the_table),
        cmocka_unit_test(adam_ablation),
        cmocka_unit_test(values_of_a_study),
        cmocka_unit_test(formulas_against_bisection),
        cmocka_unit_test(unknown_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
