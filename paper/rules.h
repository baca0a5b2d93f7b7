/* The rules by which our numbers agree or disagree with a statement, or do not tell. Pure functions.
 *
 * A rule writes the numbers of a row, its test and the direction of the difference. When all rows of an entry are
 * there, sf_rules_correct() applies Holm's correction to the tests that belong together and sets the words: a
 * difference that is not significant neither agrees nor disagrees. */
#ifndef SF_PAPER_RULES_H
#define SF_PAPER_RULES_H

#include "semfocus/paper.h"
#include "study/verdict.h"

/* Epochs to 95 % training accuracy, paired by seed; what is stated is that we take fewer, or that we do not. */
void sf_rule_epochs(sf_paper_row *row, const sf_verdict *v, const sf_summary *us, const sf_summary *them,
                    bool sooner_is_stated);
/* The same between any two mechanisms. */
typedef struct sf_rule_side {
    const char *name;
    const sf_summary *summary;
} sf_rule_side;
void sf_rule_sooner(sf_paper_row *row, const sf_verdict *v, sf_rule_side us, sf_rule_side them, bool sooner_is_stated);
/* We take at most `factor` times the epochs, for most seeds. Seeds of which censoring hides it do not count. */
void sf_rule_not_later(sf_paper_row *row, const sf_arrival *ours /* [count] */, const sf_arrival *theirs, size_t count,
                       double factor);
/* Which way the epochs go along a setting, for each seed: epochs[s * steps + i] at the i-th value, in ascending order.
 * What is stated is that most seeds take more epochs at larger values, or fewer. */
void sf_rule_direction(sf_paper_row *row, const sf_arrival *epochs /* [seeds,steps] */, size_t seeds, size_t steps,
                       bool more_is_stated);
/* Epochs to the lowest training loss that both runs of a seed reach. The arrays change. */
void sf_rule_loss(sf_paper_row *row, double *our_epochs /* [count] */, const double *their_epochs, size_t count,
                  bool sooner_is_stated);

typedef struct sf_rule_accuracies { /* held-out, after the last epoch, of the runs of each seed */
    double *ours, *theirs;          /* [count], they change */
    double *differences;            /* [count], scratch */
    uint32_t *counters;             /* [count], scratch */
    size_t count;
    double guess; /* what naming the most frequent label gives; NaN: not known */
} sf_rule_accuracies;
/* As accurate as full attention or better, which is tested against a margin: less than a point below it. */
void sf_rule_as_accurate(sf_paper_row *row, const sf_rule_accuracies *accuracies);

/* It holds for most seeds; `count` of 0: none is there yet. The caller writes the numbers. */
void sf_rule_most(sf_paper_row *row, size_t holding, size_t count);
/* How many of these training accuracies are near 100 %. */
size_t sf_count_fitting(const double *accuracies /* [count] */, size_t count);
/* The seeds' best training accuracies are near 100 %: at least 99 %. */
void sf_rule_fits(sf_paper_row *row, const double *accuracies /* [count] */, size_t count);
/* Held-out accuracies are (or are not) at least ten points above guessing. */
void sf_rule_generalizes(sf_paper_row *row, const double *heldout /* [count] */, size_t count, double guess,
                         bool is_stated);
/* Held-out accuracies are within five points of guessing. */
void sf_rule_near_guess(sf_paper_row *row, const double *heldout /* [count] */, size_t count, double guess);
/* Ours is below theirs, or above it by at most the slack, in each of `width` values. Seeds with a value that is not a
 * number do not count. One planned seed is only shown. */
void sf_rule_lower(sf_paper_row *row, const double *ours /* [count,width] */, const double *theirs, size_t count,
                   size_t width, double slack, size_t planned);
/* There are runs, but nothing that could be tested. */
void sf_rule_untestable(sf_paper_row *row, const char *why);
/* Large x go with large y: Kendall's tau, with its exact distribution over all orders up to SF_FEW_POINTS points, and
 * over SF_RANDOM_ORDERS random ones beyond. Points with a value that is not a number do not count; y may be infinite,
 * which is the largest. */
enum { SF_FEW_POINTS = 8, SF_RANDOM_ORDERS = 9999 };
sf_status sf_rule_rises(sf_paper_row *row, const double *x, const double *y /* [count] */, size_t count);

/* The first `judged` of the values are within a factor of the published ones; the others are only shown. One training
 * on either side: it agrees, or it cannot be decided. */
void sf_rule_published(sf_paper_row *row, const double *ours /* [count] */, const double *published, size_t count,
                       size_t judged, double factor);

/* Some mechanism reaches near 100 % training accuracy with no seed: their names, how many, and of how many. */
void sf_rule_some_never(sf_paper_row *row, const char *names, size_t count, size_t of);

/* Corrects each family and sets the words of its rows. */
sf_status sf_rules_correct(sf_paper_row *rows, size_t count);
/* One word and sentence for all corrected rows. */
sf_paper_word sf_rule_overall(char sentence[2 * SF_PAPER_TEXT_SIZE], const sf_paper_row *rows, size_t count);
/* The same where explanations compete: how the predictions of each came out. The word is that of the first one. */
sf_paper_word sf_rule_rivals(char sentence[2 * SF_PAPER_TEXT_SIZE], const sf_paper_row *rows, size_t count);

#endif
