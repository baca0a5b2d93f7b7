/* The rules by which our numbers agree or disagree with the paper, or are too few to say. Pure functions: each writes
 * the word and the numbers of a row. `fewest` is how many seeds a word needs; with seeds enough for a test
 * (sf_smallest_p below 0.05) the test decides, with fewer the direction does, and the row says so. */
#ifndef SF_LAB_CATALOGUE_RULES_H
#define SF_LAB_CATALOGUE_RULES_H

#include "lab/verdict.h"
#include "semfocus/paper.h"

/* We reach 95 % training accuracy sooner than full attention. */
void sf_rule_sooner(sf_paper_row *row, const sf_verdict *v, const sf_summary *us, const sf_summary *them,
                    size_t fewest);
/* We do not. */
void sf_rule_not_sooner(sf_paper_row *row, const sf_verdict *v, const sf_summary *us, const sf_summary *them,
                        size_t fewest);
/* Our best held-out accuracy is as good (to a point) or better. */
void sf_rule_as_accurate(sf_paper_row *row, const sf_verdict *v, const sf_summary *us, const sf_summary *them,
                         size_t fewest);

/* Most runs fit their training data: accuracies are the best of each run, in percent. */
void sf_rule_fits(sf_paper_row *row, const double *accuracies /* [count] */, size_t count, size_t fewest);
/* Held-out accuracy is (or is not) ten points above always naming the most frequent label. */
void sf_rule_generalizes(sf_paper_row *row, double heldout, double guess, bool should, size_t count, size_t fewest);
/* Held-out accuracy is within five points of guessing. */
void sf_rule_near_guess(sf_paper_row *row, double heldout, double guess, size_t count, size_t fewest);

/* For most seeds ours is below theirs, or at most by the slack above, in each of `width` values; seeds with a value
 * that is not a number do not count. */
void sf_rule_lower(sf_paper_row *row, const double *ours /* [count,width] */, const double *theirs, size_t count,
                   size_t width, double slack, size_t fewest);
/* Every value is within a factor of the published one. */
void sf_rule_published(sf_paper_row *row, const double *ours /* [count] */, const double *published, size_t count,
                       double factor);
/* Every left side lies on the published side of 1; where the published one is within 0.1 of 1 either side will do. */
void sf_rule_same_side(sf_paper_row *row, const double *ours /* [count] */, const double *published, size_t count);
/* The least of the medians (epochs; infinite: never) is neither the first nor the last. */
void sf_rule_middle_best(sf_paper_row *row, const char *const *names, const double *medians /* [count] */, size_t count,
                         size_t seeds, size_t fewest);
/* Large x go with large y: Kendall's tau is positive. Points with a value that is not a number do not count. */
void sf_rule_rises(sf_paper_row *row, const double *x, const double *y /* [count] */, size_t count);

/* One word and sentence for all rows: disagrees if one does, agrees if all do. */
sf_paper_word sf_rule_overall(char sentence[2 * SF_PAPER_TEXT_SIZE], const sf_paper_row *rows, size_t count);

#endif
