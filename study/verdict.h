/* One mechanism against the baseline on one task, paired by seed: numbers, and one plain sentence that claims no more
 * than they show.
 *
 *   sf_compare(&verdicts[i], &ours, &baseline);          numbers, for every comparison of a task
 *   sf_correct_together(verdicts, count);                Holm, over all of them
 *   sf_conclude(&verdicts[i], &ours, &baseline, &criterion);       what was found, as a word and as a sentence */
#ifndef SF_STUDY_VERDICT_H
#define SF_STUDY_VERDICT_H

#include "base/status.h"
#include "semfocus/criterion.h"
#include "semfocus/study.h"
#include "study/statistics.h"

typedef struct sf_outcome { /* of one run */
    int64_t seed;
    sf_arrival train, heldout;                     /* at the criterion */
    size_t epochs;                                 /* that it was measured after */
    double last_train, last_heldout, best_heldout; /* NaN: it diverged before it was ever measured */
    double epoch_seconds;                          /* mean; NaN as well */
    bool diverged;
    bool stopped; /* before its last epoch, as it had learned the training set */
} sf_outcome;

typedef struct sf_summary { /* of the runs of one mechanism */
    size_t runs, converged, diverged;
    double heldout_median; /* of epochs to the criterion on the held-out set */
    double quartiles[3];   /* of epochs to the criterion on the training set; infinite: not in the epochs of these
                              runs, NaN: runs that ended earlier than others hide it */
    double fewest, most;   /* epochs of those that neither got there nor diverged; NaN: there are none */
    double last_heldout;   /* median over the runs that were measured, as those below; NaN: none was */
    double best_heldout;   /* median */
    double gap;            /* median of training minus held-out accuracy at the end */
    double epoch_seconds;  /* median over the runs of their mean */
} sf_summary;

sf_status sf_summarize(sf_summary *out, const sf_outcome *outcomes, size_t count);

typedef struct sf_side { /* what is compared */
    const char *name;    /* as it is spelled */
    const sf_outcome *outcomes;
    size_t count;
    double chance;       /* percent; NaN: not known */
    size_t heldout_size; /* sequences that each run was tested on */
} sf_side;

/* What must not be taken for learning: a held-out accuracy that is at most 1.96 standard errors of guessing above
 * chance. False where chance is not known. */
bool sf_is_at_chance(double heldout, double chance, size_t heldout_size);

#define SF_SIGNIFICANT    0.05 /* level of every test, after correction */
#define SF_EQUAL_ACCURACY 1.0  /* percentage points: smaller differences are no differences */
#define SF_EQUAL_SPEED    1.1  /* factor: epochs that differ by less are as many */
enum { SF_FEWEST_SEEDS = 6 };  /* for an interval, or a test on its own */

typedef struct sf_verdict {
    size_t pairs;                       /* seeds that both have */
    size_t sooner, later;               /* pairs decided either way */
    double speedup;                     /* median of the paired ratios; NaN where none can be formed */
    sf_interval interval;               /* 95 % bootstrap; NaN for fewer than SF_FEWEST_SEEDS ratios */
    bool at_least, at_most;             /* some ratios are only bounds: the baseline, or we, never got there */
    double p_speed;                     /* Wilcoxon on log ratios; sign test where censoring leaves only bounds */
    size_t measured;                    /* pairs with held-out accuracies on both sides */
    double accuracy_difference;         /* after the last epoch, ours minus theirs: median; NaN without pairs */
    sf_interval accuracy_interval;      /* as that of the ratios */
    double p_accuracy;                  /* Wilcoxon; NaN without pairs */
    size_t speed_tests, accuracy_tests; /* that were corrected together, this one included */
    double corrected_p_speed, corrected_p_accuracy; /* by Holm */
    sf_conclusion speed, accuracy;
    char sentence[1536];
} sf_verdict;

/* A run that diverged will not get there: it counts as later than the longest of all these runs trained. */
sf_status sf_compare(sf_verdict *out, const sf_side *ours, const sf_side *baseline);
/* The verdicts of one task: its speeds are corrected together, and its accuracies. */
sf_status sf_correct_together(sf_verdict *const *verdicts /* [count] */, size_t count);
sf_status sf_conclude(sf_verdict *verdict, const sf_side *ours, const sf_side *baseline, const sf_criterion *criterion);

/* All three for a single comparison, by epochs to `threshold` percent training accuracy. */
sf_status sf_judge(sf_verdict *out, const char *name, const sf_outcome *ours, size_t our_count,
                   const char *baseline_name, const sf_outcome *baseline, size_t baseline_count, double threshold);

#endif
