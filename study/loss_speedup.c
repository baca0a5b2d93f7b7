#include "study/loss_speedup.h"

#include <math.h>

/* Epochs are counted from 0 here, as the published script does. */
static double published_percent(const double *ours, const double *full, size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        size_t earlier = 0;
        for (size_t j = 0; j < i; j++) earlier += ours[j] <= full[i];
        most = fmax(most, 100 * (double)earlier / (double)(i + 1));
    }
    return most;
}

/* From 1: the first epoch with a loss of at most this; 0: none. */
static size_t first_at_most(const double *losses, size_t count, double loss) {
    for (size_t i = 0; i < count; i++)
        if (losses[i] <= loss) return i + 1;
    return 0;
}

static double most_times(const double *ours, const double *full, size_t count) {
    double most = NAN;
    for (size_t i = 0; i < count; i++) {
        const size_t first = first_at_most(ours, count, full[i]);
        if (first > 0) most = fmax(most, (double)(i + 1) / (double)first);
    }
    return most;
}

sf_loss_speedup sf_loss_compare(const double *ours, const double *full, size_t count) {
    sf_loss_speedup out = {.percent = published_percent(ours, full, count),
                           .times = most_times(ours, full, count),
                           .difference = NAN,
                           .relative = NAN};
    for (size_t i = 0; i < count; i++) {
        const double difference = ours[i] - full[i], relative = difference / full[i];
        if (!isfinite(difference)) continue;
        if (isnan(out.difference) || fabs(difference) > fabs(out.difference)) out.difference = difference;
        if (isfinite(relative) && (isnan(out.relative) || fabs(relative) > fabs(out.relative))) out.relative = relative;
    }
    return out;
}

static double lowest(const sf_loss_curve *curve) {
    double least = NAN;
    for (size_t i = 0; i < curve->count; i++) least = fmin(least, curve->losses[i]);
    return least;
}

bool sf_loss_epochs(double *our_epochs, double *their_epochs, const sf_loss_curve *ours, const sf_loss_curve *theirs) {
    const double our_lowest = lowest(ours), their_lowest = lowest(theirs);
    if (ours->diverged && theirs->diverged) return false;
    if (ours->diverged || theirs->diverged) {
        const sf_loss_curve *whole = ours->diverged ? theirs : ours;
        const double at_lowest = (double)first_at_most(whole->losses, whole->count, lowest(whole));
        if (at_lowest == 0) return false;
        *our_epochs = ours->diverged ? (double)whole->count + 1 : at_lowest;
        *their_epochs = theirs->diverged ? (double)whole->count + 1 : at_lowest;
        return true;
    }
    if (isnan(our_lowest) || isnan(their_lowest)) return false;
    const double both = fmax(our_lowest, their_lowest);
    *our_epochs = (double)first_at_most(ours->losses, ours->count, both);
    *their_epochs = (double)first_at_most(theirs->losses, theirs->count, both);
    return true;
}
