/* One mechanism against the baseline on one task, paired by seed: numbers, and one plain sentence that claims no more
 * than they carry. */
#ifndef SF_LAB_VERDICT_H
#define SF_LAB_VERDICT_H

#include "base/status.h"
#include "lab/statistics.h"

typedef struct sf_outcome { /* of one run */
    int64_t seed;
    sf_arrival train, heldout;                     /* at the threshold */
    size_t epochs;                                 /* that it was measured after */
    double last_train, last_heldout, best_heldout; /* NaN: it diverged before it was ever measured */
    double epoch_seconds;                          /* mean; NaN as well */
    bool diverged;
    bool stopped; /* before its last epoch, as it had learned the training set */
} sf_outcome;

typedef struct sf_summary { /* of the runs of one mechanism */
    size_t runs, converged, diverged;
    double heldout_median; /* of epochs to the threshold on the held-out set */
    double quartiles[3];   /* of epochs to the threshold on the training set; infinite: not in the epochs of these
                              runs, NaN: runs that ended earlier than others hide it */
    double fewest, most;   /* epochs of those that neither got there nor diverged; NaN: there are none */
    double last_heldout;   /* median over the runs that were measured, as those below; NaN: none was */
    double best_heldout;   /* median */
    double gap;            /* median of training minus held-out accuracy at the end */
    double epoch_seconds;  /* median over the runs of their mean */
} sf_summary;

sf_status sf_summarize(sf_summary *out, const sf_outcome *outcomes, size_t count);

typedef struct sf_verdict {
    size_t pairs;                           /* seeds that both have */
    size_t sooner, later;                   /* pairs decided either way */
    double speedup;                         /* median of the paired ratios; NaN where none can be formed */
    sf_interval interval;                   /* 95 % bootstrap; NaN for fewer than two ratios */
    bool at_least, at_most;                 /* some ratios are only bounds: the baseline, or we, never got there */
    double p_speed;                         /* Wilcoxon on log ratios; sign test where censoring leaves only bounds */
    size_t measured;                        /* pairs with held-out accuracies on both sides */
    double accuracy_difference, p_accuracy; /* best of them, ours minus theirs: median, Wilcoxon; NaN without pairs */
    char sentence[1024];
} sf_verdict;

/* A run that diverged will not get there: it counts as later than the longest of all these runs trained.
 * `threshold` in percent is only named. Mechanisms are named as they are spelled. */
sf_status sf_judge(sf_verdict *out, const char *name, const sf_outcome *ours, size_t our_count,
                   const char *baseline_name, const sf_outcome *baseline, size_t baseline_count, double threshold);

#endif
