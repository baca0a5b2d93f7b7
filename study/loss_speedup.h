/* How much sooner one curve of training losses gets low than another. Pure functions; losses that are not numbers never
 * count as low. */
#ifndef SF_STUDY_LOSS_SPEEDUP_H
#define SF_STUDY_LOSS_SPEEDUP_H

#include <stdbool.h>

#include "semfocus/loss_speedup.h"

/* The numbers that the paper's ablation script prints, and a plainer one. `ours` and `full` are the median curves of
 * two mechanisms, one loss per epoch. */
sf_loss_speedup sf_loss_compare(const double *ours /* [count] */, const double *full /* [count] */, size_t count);

typedef struct sf_loss_curve { /* of one run */
    const double *losses;      /* [count] */
    size_t count;
    bool diverged;
} sf_loss_curve;
/* Epochs, from 1, until each of two runs has the lowest loss that both of them reach. It treats the two alike, so a
 * paired test of the ratios is fair. A run that diverged never gets as low as one that did not: it is given one epoch
 * more than the other one trained. False if this cannot be compared: a curve without numbers, or both diverged. */
bool sf_loss_epochs(double *our_epochs, double *their_epochs, const sf_loss_curve *ours, const sf_loss_curve *theirs);

#endif
