/* Rows of a verdict that need nothing but the learning curves. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "paper/groups.h"
#include "paper/rules.h"
#include "study/loss_speedup.h"
#include "study/study.h"

/* The runs of a group that are finished, or at least at 95 % training accuracy: more epochs will not change when they
 * got there. */
static sf_status outcomes_of(sf_outcome **out, size_t *count, const sf_paper *paper, size_t group) {
    const size_t runs = sf_study_group(paper->study, group)->runs;
    *count = 0;
    SF_TRY(SF_NEW(out, runs));
    for (size_t m = 0; m < runs; m++) {
        size_t rows;
        bool finished;
        const size_t run = sf_study_member(paper->study, group, m);
        sf_study_curve(paper->study, run, &rows, &finished);
        const sf_outcome outcome = sf_study_outcome(paper->study, run);
        if (finished || (rows > 0 && outcome.train.reached)) (*out)[(*count)++] = outcome;
    }
    return SF_OK;
}

sf_status sf_paper_compare_arrivals(sf_arrivals *out, const sf_paper *paper, size_t ours, size_t theirs) {
    sf_outcome *us = NULL, *them = NULL;
    size_t our_count, their_count;
    sf_status status = outcomes_of(&us, &our_count, paper, ours);
    if (status == SF_OK) status = outcomes_of(&them, &their_count, paper, theirs);
    if (status == SF_OK)
        status = sf_judge(&out->verdict, sf_study_group(paper->study, ours)->name, us, our_count,
                          sf_study_group(paper->study, theirs)->name, them, their_count, SF_CONVERGED_AT);
    if (status == SF_OK) status = sf_summarize(&out->us, us, our_count);
    if (status == SF_OK) status = sf_summarize(&out->them, them, their_count);
    sf_release(us);
    sf_release(them);
    return status;
}

static sf_status judge_arrivals(sf_paper *paper, size_t group) {
    sf_arrivals arrivals;
    sf_paper_row *row;
    SF_TRY(sf_paper_compare_arrivals(&arrivals, paper, group, sf_study_group(paper->study, group)->baseline));
    SF_TRY(sf_paper_add_group_row(&row, paper, group, "epochs to 95 % training accuracy"));
    sf_rule_epochs(row, &arrivals.verdict, &arrivals.us, &arrivals.them, sf_paper_chooses_by_score(paper, group));
    return SF_OK;
}

typedef struct run_curve {
    sf_loss_curve loss;
    double last_heldout;  /* NaN: it was never evaluated */
    double best_training; /* accuracy */
    int64_t seed;
} run_curve;

typedef struct group_curves { /* of the finished runs of a group */
    run_curve *runs;          /* [count] */
    size_t count;
    double *losses; /* what the curves point to */
} group_curves;

static void close_curves(group_curves *curves) {
    sf_release(curves->runs);
    sf_release(curves->losses);
    *curves = (group_curves){0};
}

static sf_status open_curves(group_curves *out, const sf_paper *paper, size_t group) {
    const size_t members = sf_study_group(paper->study, group)->runs;
    size_t rows, total = 0, used = 0;
    bool finished;
    *out = (group_curves){0};
    for (size_t m = 0; m < members; m++) {
        sf_study_curve(paper->study, sf_study_member(paper->study, group, m), &rows, &finished);
        if (finished) total += rows;
    }
    SF_TRY(SF_NEW(&out->runs, members));
    SF_TRY(SF_NEW(&out->losses, total));
    for (size_t m = 0; m < members; m++) {
        const size_t run = sf_study_member(paper->study, group, m);
        const sf_epoch *curve = sf_study_curve(paper->study, run, &rows, &finished);
        if (!finished) continue;
        const sf_outcome outcome = sf_study_outcome(paper->study, run);
        out->runs[out->count++] = (run_curve){.loss = {out->losses + used, rows, outcome.diverged},
                                              .last_heldout = outcome.last_heldout,
                                              .seed = outcome.seed};
        run_curve *added = &out->runs[out->count - 1];
        for (size_t i = 0; i < rows; i++) {
            out->losses[used++] = curve[i].train_loss;
            added->best_training = fmax(added->best_training, curve[i].train_accuracy);
        }
    }
    return SF_OK;
}

static const run_curve *find_seed(const group_curves *curves, int64_t seed) {
    for (size_t i = 0; i < curves->count; i++)
        if (curves->runs[i].seed == seed) return &curves->runs[i];
    return NULL;
}

static sf_status compare_medians(sf_paper_row *row, const sf_paper *paper, size_t group) {
    SF_TRY(sf_study_loss_speedup(&row->loss, paper->study, group));
    row->has_loss = !isnan(row->loss.percent);
    if (!row->has_loss) return SF_OK;
    const size_t used = strlen(row->numbers);
    char times[48] = "never as low as full";
    if (!isnan(row->loss.times)) snprintf(times, sizeof times, "up to %.3g times as fast", row->loss.times);
    snprintf(row->numbers + used, sizeof row->numbers - used,
             "%smedian loss curves: speed-up in loss %.3g %% (the paper's measure), %s, largest difference %+.3g "
             "(%+.3g %%)",
             used > 0 ? "; " : "", row->loss.percent, times, row->loss.difference, 100 * row->loss.relative);
    return SF_OK;
}

/* With both curves of every seed that has them. */
static sf_status judge_loss_of(sf_paper *paper, size_t group, const group_curves *ours, const group_curves *full) {
    double *epochs;
    size_t pairs = 0;
    sf_paper_row *row;
    SF_TRY(sf_paper_add_group_row(&row, paper, group, "training loss"));
    SF_TRY(SF_NEW(&epochs, 2 * ours->count));
    for (size_t i = 0; i < ours->count; i++) {
        const run_curve *partner = find_seed(full, ours->runs[i].seed);
        if (partner != NULL)
            pairs += sf_loss_epochs(&epochs[pairs], &epochs[ours->count + pairs], &ours->runs[i].loss, &partner->loss);
    }
    sf_rule_loss(row, epochs, epochs + ours->count, pairs, sf_paper_chooses_by_score(paper, group));
    sf_release(epochs);
    return compare_medians(row, paper, group);
}

static sf_status judge_accuracy_of(sf_paper *paper, size_t group, const group_curves *ours, const group_curves *full) {
    const size_t most = ours->count;
    double *values;
    uint32_t *counters = NULL;
    sf_paper_row *row;
    SF_TRY(sf_paper_add_group_row(&row, paper, group, "held-out accuracy"));
    SF_TRY(SF_NEW(&values, 3 * most));
    const sf_status status = SF_NEW(&counters, most);
    sf_rule_accuracies a = {.ours = values,
                            .theirs = values + most,
                            .differences = values + 2 * most,
                            .counters = counters,
                            .guess = sf_study_group(paper->study, group)->chance};
    for (size_t i = 0; i < ours->count; i++) {
        const run_curve *partner = find_seed(full, ours->runs[i].seed);
        if (partner == NULL || isnan(ours->runs[i].last_heldout) || isnan(partner->last_heldout)) continue;
        a.ours[a.count] = ours->runs[i].last_heldout;
        a.theirs[a.count++] = partner->last_heldout;
    }
    if (status == SF_OK && a.count == 0 && ours->count > 0 && full->count > 0)
        sf_rule_untestable(row, "there is no seed of which both runs were evaluated");
    else if (status == SF_OK)
        sf_rule_as_accurate(row, &a);
    sf_release(counters);
    sf_release(values);
    return status;
}

typedef sf_status curves_judge(sf_paper *paper, size_t group, const group_curves *ours, const group_curves *full);

static sf_status judge_curves(sf_paper *paper, size_t group, curves_judge *judge) {
    group_curves ours, full = {0};
    sf_status status = open_curves(&ours, paper, group);
    if (status == SF_OK) status = open_curves(&full, paper, sf_study_group(paper->study, group)->baseline);
    if (status == SF_OK) status = judge(paper, group, &ours, &full);
    close_curves(&ours);
    close_curves(&full);
    return status;
}

static sf_status judge_loss(sf_paper *paper, size_t group) {
    return judge_curves(paper, group, judge_loss_of);
}

sf_status sf_paper_judge_accuracy(sf_paper *paper, size_t group) {
    return judge_curves(paper, group, judge_accuracy_of);
}

typedef sf_status group_judge(sf_paper *paper, size_t group);

/* Every mechanism that is compared, or those that choose by score. */
static sf_status judge_each(sf_paper *paper, group_judge *judge, bool by_score_only) {
    for (size_t g = 0; g < sf_study_group_count(paper->study); g++) {
        if (!sf_paper_is_compared(paper, g) || (by_score_only && !sf_paper_chooses_by_score(paper, g))) continue;
        SF_TRY(judge(paper, g));
    }
    return SF_OK;
}

sf_status sf_rows_of_losses(sf_paper *paper, sf_store *store) {
    (void)store;
    return judge_each(paper, judge_loss, false);
}

sf_status sf_rows_of_losses_and_accuracy(sf_paper *paper, sf_store *store) {
    SF_TRY(sf_rows_of_losses(paper, store));
    return judge_each(paper, sf_paper_judge_accuracy, true);
}

sf_status sf_rows_of_arrivals(sf_paper *paper, sf_store *store) {
    (void)store;
    return judge_each(paper, judge_arrivals, false);
}

sf_status sf_rows_of_speed(sf_paper *paper, sf_store *store) {
    SF_TRY(sf_rows_of_losses(paper, store));
    return sf_rows_of_arrivals(paper, store);
}

sf_status sf_rows_of_accuracy(sf_paper *paper, sf_store *store) {
    (void)store;
    return judge_each(paper, sf_paper_judge_accuracy, false);
}

static double last_heldout(const run_curve *run) {
    return run->last_heldout;
}

static double best_training(const run_curve *run) {
    return run->best_training;
}

/* Of the finished runs of a group; release with sf_release(). */
static sf_status accuracies_of(double **out, size_t *count, const sf_paper *paper, size_t group,
                               double (*accuracy)(const run_curve *run)) {
    group_curves curves;
    sf_status status = open_curves(&curves, paper, group);
    *count = curves.count;
    *out = NULL;
    if (status == SF_OK) status = SF_NEW(out, curves.count);
    for (size_t i = 0; i < curves.count && status == SF_OK; i++) (*out)[i] = accuracy(&curves.runs[i]);
    close_curves(&curves);
    return status;
}

sf_status sf_rows_of_fits(sf_paper *paper, sf_store *store) {
    (void)store;
    for (size_t g = 0; g < sf_study_group_count(paper->study); g++) {
        double *accuracies;
        size_t count;
        sf_paper_row *row;
        if (!sf_paper_is_full(paper, g)) continue;
        SF_TRY(sf_paper_add_group_row(&row, paper, g, ""));
        SF_TRY(accuracies_of(&accuracies, &count, paper, g, best_training));
        sf_rule_fits(row, accuracies, count);
        sf_release(accuracies);
    }
    return SF_OK;
}

sf_status sf_rows_of_no_benefit(sf_paper *paper, sf_store *store) {
    SF_TRY(sf_rows_of_arrivals(paper, store));
    char names[SF_PAPER_TEXT_SIZE] = "";
    size_t never = 0, told = 0;
    sf_paper_row *some;
    SF_TRY(sf_paper_add_row(&some, paper, "some bands or blocks", "", "never reach 100 % training accuracy"));
    for (size_t g = 0; g < sf_study_group_count(paper->study); g++) {
        const sf_group *group = sf_study_group(paper->study, g);
        double *accuracies;
        size_t count;
        if (!sf_paper_is_compared(paper, g) || sf_paper_chooses_by_score(paper, g)) continue;
        SF_TRY(accuracies_of(&accuracies, &count, paper, g, best_training));
        const size_t fitting = sf_count_fitting(accuracies, count);
        sf_release(accuracies);
        if (count < group->runs) continue;
        told++;
        if (fitting > 0) continue;
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s %s", never > 0 ? ", " : "", group->task, group->name);
        never++;
    }
    sf_rule_some_never(some, names, never, told);
    return SF_OK;
}

sf_status sf_rows_of_generalizing(sf_paper *paper, sf_store *store) {
    (void)store;
    for (size_t g = 0; g < sf_study_group_count(paper->study); g++) {
        double *heldout;
        size_t count;
        sf_paper_row *row;
        if (!sf_paper_is_full(paper, g) || isnan(sf_paper_guess(paper, g))) continue;
        SF_TRY(sf_paper_add_group_row(&row, paper, g, ""));
        SF_TRY(accuracies_of(&heldout, &count, paper, g, last_heldout));
        sf_rule_generalizes(row, heldout, count, sf_paper_guess(paper, g),
                            sf_paper_generalizes(sf_study_group(paper->study, g)->task));
        sf_release(heldout);
    }
    return SF_OK;
}

sf_status sf_rows_of_guessing(sf_paper *paper, sf_store *store) {
    (void)store;
    for (size_t g = 0; g < sf_study_group_count(paper->study); g++) {
        double *heldout;
        size_t count;
        sf_paper_row *row;
        if (isnan(sf_paper_guess(paper, g))) continue;
        SF_TRY(sf_paper_add_group_row(&row, paper, g, ""));
        SF_TRY(accuracies_of(&heldout, &count, paper, g, last_heldout));
        sf_rule_near_guess(row, heldout, count, sf_paper_guess(paper, g));
        sf_release(heldout);
    }
    return SF_OK;
}

/* One mechanism after the other: epochs to 95 % training accuracy, and held-out accuracy after the last epoch. */
static void show_over_k(sf_paper_row *row, const sf_paper *paper, size_t from, size_t to) {
    for (size_t g = from; g < to; g++) {
        const sf_group *group = sf_study_group(paper->study, g);
        const size_t used = strlen(row->numbers);
        char epochs[48];
        if (group->finished == 0)
            snprintf(epochs, sizeof epochs, "not run");
        else if (isfinite(group->quartiles[1]))
            snprintf(epochs, sizeof epochs, "%.4g epochs, %.1f %%", group->quartiles[1], group->last_heldout);
        else
            snprintf(epochs, sizeof epochs, "%s, %.1f %%",
                     isnan(group->quartiles[1]) ? "ended too early to tell" : "never reached", group->last_heldout);
        snprintf(row->numbers + used, sizeof row->numbers - used, "%s%s %s", g == from ? "" : "; ", group->name,
                 epochs);
        if (group->finished > 0) row->word = SF_SHOWN;
    }
}

sf_status sf_rows_of_k(sf_paper *paper, sf_store *store) {
    for (size_t from = 0, to; from < sf_study_group_count(paper->study); from = to) {
        sf_paper_row *row;
        to = sf_paper_task_end(paper, from);
        SF_TRY(sf_paper_add_row(&row, paper, sf_study_group(paper->study, from)->task, "",
                                "median epochs to 95 % training accuracy, median held-out accuracy at the end"));
        show_over_k(row, paper, from, to);
    }
    SF_TRY(sf_rows_of_arrivals(paper, store));
    return sf_rows_of_accuracy(paper, store);
}
