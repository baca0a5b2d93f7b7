/* The measured gap between held-out and training loss, beside the bound that algorithmic stability gives (Hardt, Recht
 * and Singer 2016; section 9 of docs/theory.md). The bound is a number only where its assumptions hold. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "measure/stability.h"
#include "paper/groups.h"
#include "study/statistics.h"
#include "study/study.h"

/* Why the bound is not defined for the model of a run. */
static const char *assumption_missing(const sf_planned_run *run) {
    if (run->config.optimizer != SF_SGD) return "Adam is not stochastic gradient descent";
    if (run->config.activation == SF_RELU) return "ReLU is not smooth";
    if (sf_attention_chooses_by_score(run->attention)) return "the loss jumps where the kept keys change";
    return "no smoothness constant is proved for this model";
}

/* For losses of at most 1 with a Lipschitz constant of 1. */
static double least_bound(const sf_config *c) {
    const size_t steps = (size_t)((c->train_count + c->batch - 1) / c->batch), epochs = (size_t)c->epochs;
    const sf_hardt h = {.lipschitz = 1,
                        .step_scale = sf_hardt_step_scale(c->lr, c->gamma, epochs, steps),
                        .steps = (double)(epochs * steps),
                        .samples = (double)c->train_count,
                        .batch = (double)c->batch};
    return sf_hardt_least(&h);
}

/* The median over the finished runs of held-out minus training loss after the last epoch; NaN: there are none. */
static sf_status median_gap(double *out, size_t *count, const sf_paper *paper, size_t group) {
    const size_t runs = sf_study_group(paper->study, group)->runs;
    double *gaps;
    *count = 0;
    SF_TRY(SF_NEW(&gaps, runs));
    for (size_t m = 0; m < runs; m++) {
        size_t rows;
        bool finished;
        const sf_epoch *curve = sf_study_curve(paper->study, sf_study_member(paper->study, group, m), &rows, &finished);
        if (!finished || rows == 0) continue;
        const double gap = curve[rows - 1].heldout_loss - curve[rows - 1].train_loss;
        if (!isnan(gap)) gaps[(*count)++] = gap;
    }
    *out = sf_quantile(gaps, *count, 0.5);
    sf_release(gaps);
    return SF_OK;
}

sf_status sf_paper_add_gap_row(sf_paper *paper, size_t group) {
    const sf_planned_run *run = sf_paper_run_of(paper, group, 0);
    sf_paper_row *row;
    double gap;
    size_t seeds;
    SF_TRY(
        sf_paper_add_group_row(&row, paper, group, "held-out minus training loss, and the bound of Hardt et al. 2016"));
    SF_TRY(median_gap(&gap, &seeds, paper, group));
    if (seeds == 0) return SF_OK;
    row->word = SF_SHOWN;
    snprintf(row->numbers, sizeof row->numbers,
             "%+.2g (median of %zu seed%s); the bound is not defined: %s. It could not be below %.2g, for losses of at "
             "most 1 with a Lipschitz constant of 1 or more, whatever their smoothness",
             gap, seeds, seeds == 1 ? "" : "s", assumption_missing(run), least_bound(&run->config));
    return SF_OK;
}
