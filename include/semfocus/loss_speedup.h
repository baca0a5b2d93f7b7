/* How much sooner the training loss of a mechanism falls than that of its baseline: the numbers that the paper's
 * ablation script prints for two median curves, and a simpler measure.
 *
 *   sf_loss_speedup speedup;
 *   sf_study_loss_speedup(&speedup, study, group);        of a judged study; beside group->speedup */
#ifndef SEMFOCUS_LOSS_SPEEDUP_H
#define SEMFOCUS_LOSS_SPEEDUP_H

#include "semfocus/api.h"
#include "semfocus/study.h"

SF_API_BEGIN

typedef struct sf_loss_speedup {
    double percent; /* with epochs from 0: the largest over i of 100 #{j < i : ours(j) <= full(i)} / (i + 1) */
    double times;   /* with epochs from 1: the largest over i of i / min{j : ours(j) <= full(i)}; NaN: there is none */
    double difference, relative; /* ours - full, and that over full: the largest in magnitude; NaN: none is a number */
} sf_loss_speedup;

/* From the medians over the finished runs of the group and of its baseline, epoch by epoch; a run that ended earlier
 * keeps its last loss. All are NaN if either side has no curve. */
sf_status sf_study_loss_speedup(sf_loss_speedup *out, const sf_study *study, size_t group);

SF_API_END

#endif
