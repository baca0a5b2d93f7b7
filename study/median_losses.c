/* The median training-loss curves of a group and its baseline, compared. */
#include <math.h>

#include "base/memory.h"
#include "study/loss_speedup.h"
#include "study/statistics.h"

static size_t longest(const sf_study *study, size_t group) {
    size_t most = 0, rows;
    bool finished;
    for (size_t m = 0; m < sf_study_group(study, group)->runs; m++) {
        sf_study_curve(study, sf_study_member(study, group, m), &rows, &finished);
        if (finished && rows > most) most = rows;
    }
    return most;
}

/* Over the finished runs; one that ended earlier keeps its last loss. */
static double median_at(const sf_study *study, size_t group, size_t epoch, double *scratch) {
    size_t count = 0, rows;
    bool finished;
    for (size_t m = 0; m < sf_study_group(study, group)->runs; m++) {
        const sf_epoch *curve = sf_study_curve(study, sf_study_member(study, group, m), &rows, &finished);
        if (finished && rows > 0) scratch[count++] = curve[epoch < rows ? epoch : rows - 1].train_loss;
    }
    return sf_quantile(scratch, count, 0.5);
}

sf_status sf_study_loss_speedup(sf_loss_speedup *out, const sf_study *study, size_t group) {
    const sf_group *ours = sf_study_group(study, group), *full = sf_study_group(study, ours->baseline);
    const size_t our_longest = longest(study, group), full_longest = longest(study, ours->baseline);
    const size_t epochs = our_longest < full_longest ? our_longest : full_longest;
    double *medians;
    *out = (sf_loss_speedup){NAN, NAN, NAN, NAN};
    if (epochs == 0) return SF_OK;
    SF_TRY(SF_NEW(&medians, 2 * epochs + (ours->runs > full->runs ? ours->runs : full->runs)));
    for (size_t e = 0; e < epochs; e++) {
        medians[e] = median_at(study, group, e, medians + 2 * epochs);
        medians[epochs + e] = median_at(study, ours->baseline, e, medians + 2 * epochs);
    }
    *out = sf_loss_compare(medians, medians + epochs, epochs);
    sf_release(medians);
    return SF_OK;
}
