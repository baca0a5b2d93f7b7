/* From the runs of an entry, and what was measured at them, to the rows of its verdict. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lab/catalogue.h"
#include "lab/catalogue_rules.h"
#include "lab/study.h"
#include "measure/conditions.h"

static sf_status add_row(sf_paper_row **out, sf_paper *paper, const char *task, const char *name) {
    if (paper->row_count == paper->row_room) {
        const size_t room = 2 * paper->row_room + 16;
        SF_TRY(SF_GROW(&paper->rows, paper->row_count, room));
        paper->row_room = room;
    }
    *out = &paper->rows[paper->row_count++];
    **out = (sf_paper_row){.word = SF_NOT_ENOUGH_RUNS};
    snprintf((*out)->what, sizeof(*out)->what, "%s%s%s", task, *name != '\0' ? " " : "", name);
    return SF_OK;
}

static const sf_planned_run *run_of(const sf_paper *paper, size_t group, size_t member) {
    size_t count;
    return &sf_study_runs(paper->study, &count)[sf_study_member(paper->study, group, member)];
}

static bool chooses_by_score(const sf_paper *paper, size_t group) {
    return strncmp(run_of(paper, group, 0)->attention, "topk", 4) == 0;
}

static bool is_full(const sf_paper *paper, size_t group) {
    return strcmp(run_of(paper, group, 0)->attention, "full") == 0;
}

/* The runs of a group that are finished, or at least (`arrived`) at 95 % training accuracy: more epochs will not change
 * when. */
static sf_status outcomes_of(sf_outcome **out, size_t *count, const sf_paper *paper, size_t group, bool arrived) {
    const size_t runs = sf_study_group(paper->study, group)->runs;
    *count = 0;
    SF_TRY(SF_NEW(out, runs));
    for (size_t m = 0; m < runs; m++) {
        size_t rows;
        bool finished;
        const size_t run = sf_study_member(paper->study, group, m);
        sf_study_curve(paper->study, run, &rows, &finished);
        const sf_outcome outcome = sf_study_outcome(paper->study, run);
        if (finished || (arrived && rows > 0 && outcome.train.reached)) (*out)[(*count)++] = outcome;
    }
    return SF_OK;
}

typedef void pair_rule(sf_paper_row *row, const sf_verdict *v, const sf_summary *us, const sf_summary *them,
                       size_t fewest);

static sf_status judge_pair(sf_paper *paper, size_t group, pair_rule *rule, bool arrived) {
    const sf_group *ours = sf_study_group(paper->study, group);
    sf_outcome *us = NULL, *them = NULL;
    size_t our_count, their_count;
    sf_verdict verdict;
    sf_summary our_summary, their_summary;
    sf_paper_row *row;
    sf_status status = outcomes_of(&us, &our_count, paper, group, arrived);
    if (status == SF_OK) status = outcomes_of(&them, &their_count, paper, ours->baseline, arrived);
    if (status == SF_OK)
        status = sf_judge(&verdict, ours->name, us, our_count, "full", them, their_count, SF_CONVERGED_AT);
    if (status == SF_OK) status = sf_summarize(&our_summary, us, our_count);
    if (status == SF_OK) status = sf_summarize(&their_summary, them, their_count);
    if (status == SF_OK) status = add_row(&row, paper, ours->task, ours->name);
    if (status == SF_OK) rule(row, &verdict, &our_summary, &their_summary, paper->plan->fewest);
    sf_release(us);
    sf_release(them);
    return status;
}

static bool is_compared(const sf_paper *paper, size_t group) {
    return sf_study_group(paper->study, group)->baseline != group;
}

sf_status sf_rows_of_curves(sf_paper *paper, sf_store *store) {
    (void)store;
    for (size_t g = 0; g < sf_study_group_count(paper->study); g++)
        if (is_compared(paper, g))
            SF_TRY(judge_pair(paper, g, chooses_by_score(paper, g) ? sf_rule_sooner : sf_rule_not_sooner, true));
    return SF_OK;
}

sf_status sf_rows_of_accuracy(sf_paper *paper, sf_store *store) {
    (void)store;
    for (size_t g = 0; g < sf_study_group_count(paper->study); g++)
        if (is_compared(paper, g)) SF_TRY(judge_pair(paper, g, sf_rule_as_accurate, false));
    return SF_OK;
}

static double best_training(const sf_paper *paper, size_t run) {
    size_t rows;
    bool finished;
    const sf_epoch *curve = sf_study_curve(paper->study, run, &rows, &finished);
    double best = 0;
    for (size_t i = 0; i < rows; i++) best = fmax(best, curve[i].train_accuracy);
    return best;
}

static sf_status judge_fit(sf_paper *paper, size_t group) {
    const sf_group *full = sf_study_group(paper->study, group);
    double *accuracies;
    sf_paper_row *row;
    size_t count = 0;
    SF_TRY(add_row(&row, paper, full->task, full->name));
    SF_TRY(SF_NEW(&accuracies, full->runs));
    for (size_t m = 0; m < full->runs; m++) {
        size_t rows;
        bool finished;
        const size_t run = sf_study_member(paper->study, group, m);
        sf_study_curve(paper->study, run, &rows, &finished);
        if (finished) accuracies[count++] = best_training(paper, run);
    }
    sf_rule_fits(row, accuracies, count, paper->plan->fewest);
    sf_release(accuracies);
    return SF_OK;
}

sf_status sf_rows_of_fits(sf_paper *paper, sf_store *store) {
    (void)store;
    for (size_t g = 0; g < sf_study_group_count(paper->study); g++)
        if (is_full(paper, g)) SF_TRY(judge_fit(paper, g));
    return SF_OK;
}

/* Share of the most frequent label, in percent (of 3000 samples, but for fair bits), and whether the paper finds that
 * full attention generalizes. */
static const struct known_task {
    const char *task;
    double guess;
    bool generalizes;
} known_tasks[] = {{"listops", 16.6, true},
                   {"even-pairs", 50, true},
                   {"missing-duplicate", 50, true},
                   {"stack-manipulation", 50, true},
                   {"parity", 50, false},
                   {"cycle-navigation", 20, false},
                   {"modular-arithmetic-brackets", 27.5, false},
                   {"solve-equation", 20, false}};

static const struct known_task *find_known(const char *task) {
    for (size_t i = 0; i < sizeof known_tasks / sizeof *known_tasks; i++)
        if (strcmp(known_tasks[i].task, task) == 0) return &known_tasks[i];
    return NULL;
}

sf_status sf_rows_of_generalizing(sf_paper *paper, sf_store *store) {
    (void)store;
    for (size_t g = 0; g < sf_study_group_count(paper->study); g++) {
        const sf_group *group = sf_study_group(paper->study, g);
        const struct known_task *known = find_known(group->task);
        sf_paper_row *row;
        if (!is_full(paper, g) || known == NULL) continue;
        SF_TRY(add_row(&row, paper, group->task, group->name));
        sf_rule_generalizes(row, group->last_heldout, known->guess, known->generalizes, group->finished,
                            paper->plan->fewest);
    }
    return SF_OK;
}

sf_status sf_rows_of_guessing(sf_paper *paper, sf_store *store) {
    (void)store;
    for (size_t g = 0; g < sf_study_group_count(paper->study); g++) {
        const sf_group *group = sf_study_group(paper->study, g);
        const struct known_task *known = find_known(group->task);
        sf_paper_row *row;
        if (known == NULL) continue;
        SF_TRY(add_row(&row, paper, group->task, group->name));
        sf_rule_near_guess(row, group->last_heldout, known->guess, group->finished, paper->plan->fewest);
    }
    return SF_OK;
}

typedef struct run_pair { /* of one seed */
    sf_stored_run ours, full;
} run_pair;

static sf_status find_run(sf_stored_run *out, bool *found, const sf_paper *paper, sf_store *store, size_t run) {
    size_t count, rows;
    bool finished;
    *found = false;
    sf_study_curve(paper->study, run, &rows, &finished);
    return finished ? sf_store_look_up(out, found, store, sf_study_runs(paper->study, &count)[run].id) : SF_OK;
}

static bool find_seed(size_t *out, const sf_paper *paper, size_t group, int64_t seed) {
    for (size_t m = 0; m < sf_study_group(paper->study, group)->runs; m++)
        if (run_of(paper, group, m)->config.seed == seed) {
            *out = sf_study_member(paper->study, group, m);
            return true;
        }
    return false;
}

/* The finished runs of a group, each with its partner in another. */
static sf_status pairs_of(run_pair **out, size_t *count, const sf_paper *paper, sf_store *store, size_t group,
                          size_t other) {
    const size_t runs = sf_study_group(paper->study, group)->runs;
    *count = 0;
    SF_TRY(SF_NEW(out, runs));
    if (store == NULL) return SF_OK;
    for (size_t m = 0; m < runs; m++) {
        run_pair *pair = &(*out)[*count];
        size_t partner;
        bool ours = false, theirs = false;
        if (!find_seed(&partner, paper, other, run_of(paper, group, m)->config.seed)) continue;
        SF_TRY(find_run(&pair->ours, &ours, paper, store, sf_study_member(paper->study, group, m)));
        if (ours) SF_TRY(find_run(&pair->full, &theirs, paper, store, partner));
        *count += ours && theirs;
    }
    return SF_OK;
}

/* NaN where it was not measured. */
static sf_status read_score(double *out, sf_store *store, const sf_stored_run *run, sf_measure measure,
                            double percent) {
    char name[64];
    bool found;
    sf_finding_score(name, (int)measure, percent);
    return sf_findings_read(out, &found, store, run, name);
}

static const double shown_percents[] = {75, 90, 95};
enum { SHOWN = 3 };

typedef struct dispersion { /* the published comparison at 75, 90, 95 % */
    double full[SHOWN], kept[SHOWN], separation[SHOWN], in_degree[SHOWN], w[SHOWN], x[SHOWN];
} dispersion;

static sf_status read_dispersion(dispersion *out, sf_store *store, const run_pair *pair, double k) {
    for (size_t i = 0; i < SHOWN; i++) {
        const double percent = shown_percents[i];
        SF_TRY(read_score(&out->full[i], store, &pair->full, SF_DISPERSION, percent));
        SF_TRY(read_score(&out->kept[i], store, &pair->ours, SF_KEPT_DISPERSION, percent));
        SF_TRY(read_score(&out->separation[i], store, &pair->ours, SF_SEPARATION, 100 - percent));
        SF_TRY(read_score(&out->in_degree[i], store, &pair->ours, SF_IN_DEGREE, percent));
        if (out->separation[i] < SF_LEAST_SEPARATION) out->separation[i] = SF_LEAST_SEPARATION;
        const sf_condition_input input = {.dispersion = out->full[i],
                                          .kept_dispersion = out->kept[i],
                                          .separation = out->separation[i],
                                          .sink_ratio = out->in_degree[i] / k};
        out->w[i] = sf_condition_w(&input);
        out->x[i] = sf_condition_x(&input);
    }
    return SF_OK;
}

static double keys_of(const sf_paper *paper, size_t group) {
    return strtod(run_of(paper, group, 0)->attention + strlen("topk:"), NULL);
}

typedef sf_status pairs_user(sf_paper *paper, sf_store *store, size_t group, const run_pair *pairs, size_t count);

/* Hands the pairs of every top-k group over. */
static sf_status each_by_score(sf_paper *paper, sf_store *store, pairs_user *use) {
    for (size_t g = 0; g < sf_study_group_count(paper->study); g++) {
        if (!is_compared(paper, g) || !chooses_by_score(paper, g)) continue;
        run_pair *pairs = NULL;
        size_t count;
        sf_status status = pairs_of(&pairs, &count, paper, store, g, sf_study_group(paper->study, g)->baseline);
        if (status == SF_OK) status = use(paper, store, g, pairs, count);
        sf_release(pairs);
        SF_TRY(status);
    }
    return SF_OK;
}

static sf_status row_for(sf_paper_row **out, sf_paper *paper, size_t group, const char *what) {
    const sf_group *g = sf_study_group(paper->study, group);
    char name[SF_VARIANT_SIZE + 96];
    snprintf(name, sizeof name, "%s: %s", g->name, what);
    return add_row(out, paper, g->task, name);
}

typedef sf_status pair_values(double *ours, double *theirs, const sf_paper *paper, sf_store *store,
                              const run_pair *pair);

/* One row: for most seeds ours are below theirs. */
static sf_status compare_values(sf_paper *paper, sf_store *store, size_t group, const char *what, const run_pair *pairs,
                                size_t count, size_t width, double slack, pair_values *read) {
    double *values;
    sf_paper_row *row;
    SF_TRY(row_for(&row, paper, group, what));
    SF_TRY(SF_NEW(&values, 2 * count * width));
    double *ours = values, *theirs = values + count * width;
    sf_status status = SF_OK;
    for (size_t i = 0; i < count && status == SF_OK; i++)
        status = read(ours + i * width, theirs + i * width, paper, store, &pairs[i]);
    if (status == SF_OK) sf_rule_lower(row, ours, theirs, count, width, slack, paper->plan->fewest);
    sf_release(values);
    return status;
}

static sf_status read_dispersions(double *ours, double *theirs, const sf_paper *paper, sf_store *store,
                                  const run_pair *pair) {
    (void)paper;
    dispersion d;
    SF_TRY(read_dispersion(&d, store, pair, 1));
    memcpy(ours, d.kept, sizeof d.kept);
    memcpy(theirs, d.full, sizeof d.full);
    return SF_OK;
}

static const char delta_title[] = "delta_h against delta_s of full at 75, 90, 95 %";

static sf_status use_dispersion(sf_paper *paper, sf_store *store, size_t group, const run_pair *pairs, size_t count) {
    return compare_values(paper, store, group, delta_title, pairs, count, SHOWN, 0, read_dispersions);
}

sf_status sf_rows_of_dispersion(sf_paper *paper, sf_store *store) {
    return each_by_score(paper, store, use_dispersion);
}

static const struct published {
    const char *task;
    dispersion values;
} published[] = {
    {"listops",
     {{8.61, 18.5, 29.4}, {3.51, 6.74, 9.67}, {.016, .005, .002}, {1, 3, 15}, {.97, .69, .56}, {.90, .67, .59}}},
    {"parity",
     {{8.30, 10.1, 11.2}, {2.31, 3.13, 3.78}, {.062, .022, .011}, {8, 13, 16}, {.70, .76, .80}, {.72, .81, .86}}},
    {"even-pairs",
     {{2.03, 4.73, 9.44}, {1.03, 2.84, 5.50}, {.009, .003, .002}, {6, 17, 26}, {3.17, 1.98, 1.31}, {3.02, 2.10, 1.42}}},
    {"missing-duplicate",
     {{4.63, 9.25, 17.1}, {2.36, 4.25, 4.88}, {.018, .006, .003}, {7, 15, 21}, {1.53, 1.09, .67}, {1.53, 1.15, .72}}},
};

static const dispersion *find_published(const char *task) {
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        if (strcmp(published[i].task, task) == 0) return &published[i].values;
    return NULL;
}

static const double allowed_factor = 2.5; /* between trainings of one recipe by two programs */

static sf_status use_table(sf_paper *paper, sf_store *store, size_t group, const run_pair *pairs, size_t count) {
    const dispersion *paper_says = find_published(sf_study_group(paper->study, group)->task);
    SF_TRY(use_dispersion(paper, store, group, pairs, count));
    if (paper_says == NULL || count == 0) return SF_OK;
    dispersion we;
    SF_TRY(read_dispersion(&we, store, &pairs[0], keys_of(paper, group)));
    const struct {
        const char *what;
        const double *ours, *theirs;
    } columns[] = {{"delta_s of full at 75, 90, 95 %", we.full, paper_says->full},
                   {"delta_h at 75, 90, 95 %", we.kept, paper_says->kept},
                   {"Delta_h at 25, 10, 5 %", we.separation, paper_says->separation},
                   {"in-degree at 75, 90, 95 %", we.in_degree, paper_says->in_degree},
                   {"left side of W at 75, 90, 95 %", we.w, paper_says->w},
                   {"left side of X at 75, 90, 95 %", we.x, paper_says->x}};
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
        sf_paper_row *row;
        SF_TRY(row_for(&row, paper, group, columns[c].what));
        sf_rule_published(row, columns[c].ours, columns[c].theirs, SHOWN, allowed_factor);
    }
    return SF_OK;
}

sf_status sf_rows_of_table(sf_paper *paper, sf_store *store) {
    return each_by_score(paper, store, use_table);
}

static sf_status use_condition(sf_paper *paper, sf_store *store, size_t group, const run_pair *pairs, size_t count,
                               bool is_w) {
    const dispersion *paper_says = find_published(sf_study_group(paper->study, group)->task);
    if (paper_says == NULL || count == 0) return SF_OK;
    dispersion we;
    sf_paper_row *row;
    SF_TRY(read_dispersion(&we, store, &pairs[0], keys_of(paper, group)));
    SF_TRY(row_for(&row, paper, group, is_w ? "left side of W at 75, 90, 95 %" : "left side of X at 75, 90, 95 %"));
    sf_rule_same_side(row, is_w ? we.w : we.x, is_w ? paper_says->w : paper_says->x, SHOWN);
    const size_t used = strlen(row->numbers);
    snprintf(row->numbers + used, sizeof row->numbers - used,
             "; in the plane: (c1, c2) = (%.3g, %.2g), (%.3g, %.2g), (%.3g, %.2g)", we.kept[0] / we.full[0],
             we.separation[0] / we.full[0], we.kept[1] / we.full[1], we.separation[1] / we.full[1],
             we.kept[2] / we.full[2], we.separation[2] / we.full[2]);
    return SF_OK;
}

static sf_status use_condition_w(sf_paper *paper, sf_store *store, size_t group, const run_pair *pairs, size_t count) {
    return use_condition(paper, store, group, pairs, count, true);
}

static sf_status use_condition_x(sf_paper *paper, sf_store *store, size_t group, const run_pair *pairs, size_t count) {
    return use_condition(paper, store, group, pairs, count, false);
}

sf_status sf_rows_of_condition_w(sf_paper *paper, sf_store *store) {
    return each_by_score(paper, store, use_condition_w);
}

sf_status sf_rows_of_condition_x(sf_paper *paper, sf_store *store) {
    return each_by_score(paper, store, use_condition_x);
}

static sf_status read_both(double *ours, double *theirs, sf_store *store, const run_pair *pair, const char *name) {
    bool found;
    SF_TRY(sf_findings_read(ours, &found, store, &pair->ours, name));
    return sf_findings_read(theirs, &found, store, &pair->full, name);
}

static const double slope_radii[] = {0.1, 0.3, 0.69};

static sf_status read_slopes(double *ours, double *theirs, const sf_paper *paper, sf_store *store,
                             const run_pair *pair) {
    for (size_t i = 0; i < SHOWN; i++) {
        char name[64];
        sf_finding_slope(name, paper, slope_radii[i]);
        SF_TRY(read_both(&ours[i], &theirs[i], store, pair, name));
    }
    return SF_OK;
}

static sf_status use_slopes(sf_paper *paper, sf_store *store, size_t group, const run_pair *pairs, size_t count) {
    return compare_values(paper, store, group, "95 % Lipschitz constant against full's within r = 0.1, 0.3, 0.69",
                          pairs, count, SHOWN, 0, read_slopes);
}

sf_status sf_rows_of_slopes(sf_paper *paper, sf_store *store) {
    return each_by_score(paper, store, use_slopes);
}

static sf_status read_rises(double *ours, double *theirs, const sf_paper *paper, sf_store *store,
                            const run_pair *pair) {
    char name[64];
    sf_finding_rise(name, paper);
    return read_both(ours, theirs, store, pair, name);
}

static sf_status use_surfaces(sf_paper *paper, sf_store *store, size_t group, const run_pair *pairs, size_t count) {
    return compare_values(paper, store, group, "mean loss over the surface above that of the weights, against full's",
                          pairs, count, 1, 0, read_rises);
}

sf_status sf_rows_of_surfaces(sf_paper *paper, sf_store *store) {
    return each_by_score(paper, store, use_surfaces);
}

static sf_status read_errors(double *ours, double *theirs, const sf_paper *paper, sf_store *store,
                             const run_pair *pair) {
    (void)paper;
    for (size_t i = 0; i < SHOWN; i++) {
        char name[64];
        sf_finding_length(name, i);
        SF_TRY(read_both(&ours[i], &theirs[i], store, pair, name));
    }
    return SF_OK;
}

static sf_status use_lengths(sf_paper *paper, sf_store *store, size_t group, const run_pair *pairs, size_t count) {
    static const double one_point = 1;
    return compare_values(paper, store, group, "error (%) against full's at 1.5, 2.5 and 5 times the length", pairs,
                          count, SHOWN, one_point, read_errors);
}

sf_status sf_rows_of_lengths(sf_paper *paper, sf_store *store) {
    return each_by_score(paper, store, use_lengths);
}

static sf_status read_distances(double *ours, double *theirs, const sf_paper *paper, sf_store *store,
                                const run_pair *pair) {
    char name[64];
    sf_finding_distance(name, paper);
    return read_both(ours, theirs, store, pair, name);
}

static sf_status use_distances(sf_paper *paper, sf_store *store, size_t group, const run_pair *pairs, size_t count) {
    if (run_of(paper, group, 0)->config.swap_sample < 0) return SF_OK; /* the partners */
    return compare_values(paper, store, group, "relative distance of the weights with and without it, against full's",
                          pairs, count, 1, 0, read_distances);
}

sf_status sf_rows_of_distances(sf_paper *paper, sf_store *store) {
    return each_by_score(paper, store, use_distances);
}

sf_status sf_rows_of_k(sf_paper *paper, sf_store *store) {
    (void)store;
    enum { MOST = 32 };
    const size_t groups = sf_study_group_count(paper->study);
    for (size_t from = 0, to; from < groups; from = to) {
        const char *names[MOST], *task = sf_study_group(paper->study, from)->task;
        double medians[MOST];
        size_t count = 0, seeds = (size_t)-1;
        for (to = from; to < groups && strcmp(sf_study_group(paper->study, to)->task, task) == 0; to++) {
            const sf_group *group = sf_study_group(paper->study, to);
            if (group->finished < seeds) seeds = group->finished;
            if (count == MOST) continue;
            names[count] = group->name;
            medians[count++] = group->finished > 0 ? group->quartiles[1] : INFINITY;
        }
        sf_paper_row *row;
        SF_TRY(add_row(&row, paper, task, "epochs to 95 % training accuracy"));
        sf_rule_middle_best(row, names, medians, count, seeds, paper->plan->fewest);
    }
    return SF_OK;
}

/* The median of what is a number, NaN without any; sorts. */
static double median_of(double *values, size_t count) {
    size_t numbers = 0;
    for (size_t i = 0; i < count; i++)
        if (!isnan(values[i])) values[numbers++] = values[i];
    return sf_quantile(values, numbers, 0.5);
}

typedef sf_status pair_value(double *out, const sf_paper *paper, sf_store *store, const run_pair *pair);

/* A top-k group as a point: the median of a measured value, and its speed-up. */
static sf_status point_of(double *x, double *y, const sf_paper *paper, sf_store *store, size_t group,
                          pair_value *read) {
    run_pair *pairs = NULL;
    double *values = NULL;
    size_t count = 0;
    const sf_group *g = sf_study_group(paper->study, group);
    sf_status status = pairs_of(&pairs, &count, paper, store, group, g->baseline);
    if (status == SF_OK) status = SF_NEW(&values, count);
    for (size_t i = 0; i < count && status == SF_OK; i++) status = read(&values[i], paper, store, &pairs[i]);
    *x = status == SF_OK && count >= paper->plan->fewest ? median_of(values, count) : NAN;
    *y = g->finished > 0 ? g->speedup : NAN;
    sf_release(pairs);
    sf_release(values);
    return status;
}

/* One row of the top-k groups from `from` to before `to`. */
static sf_status add_points(sf_paper *paper, sf_store *store, size_t from, size_t to, const char *task,
                            const char *what, pair_value *read) {
    double *x;
    sf_paper_row *row;
    size_t count = 0;
    SF_TRY(add_row(&row, paper, task, what));
    SF_TRY(SF_NEW(&x, 2 * (to - from)));
    double *y = x + (to - from);
    sf_status status = SF_OK;
    for (size_t g = from; g < to && status == SF_OK; g++) {
        if (!is_compared(paper, g) || !chooses_by_score(paper, g)) continue;
        status = point_of(&x[count], &y[count], paper, store, g, read);
        count++;
    }
    if (status == SF_OK) sf_rule_rises(row, x, y, count);
    sf_release(x);
    return status;
}

static sf_status read_delta_ratio(double *out, const sf_paper *paper, sf_store *store, const run_pair *pair) {
    (void)paper;
    dispersion d;
    SF_TRY(read_dispersion(&d, store, pair, 1));
    *out = d.full[SHOWN - 1] / d.kept[SHOWN - 1];
    return SF_OK;
}

sf_status sf_rows_of_delta_and_speed(sf_paper *paper, sf_store *store) {
    return add_points(paper, store, 0, sf_study_group_count(paper->study),
                      "across tasks:", "(delta_s / delta_h at 95 %, speed-up of top-5)", read_delta_ratio);
}

static sf_status read_mask(double *out, const sf_paper *paper, sf_store *store, const run_pair *pair) {
    char name[64];
    bool found;
    sf_finding_mask(name, paper);
    return sf_findings_read(out, &found, store, &pair->ours, name);
}

sf_status sf_rows_of_masks_and_speed(sf_paper *paper, sf_store *store) {
    const size_t groups = sf_study_group_count(paper->study);
    for (size_t from = 0, to; from < groups; from = to) {
        const char *task = sf_study_group(paper->study, from)->task;
        for (to = from; to < groups && strcmp(sf_study_group(paper->study, to)->task, task) == 0;) to++;
        SF_TRY(add_points(paper, store, from, to, task, "over k: (share of kept keys unchanged by noise, speed-up)",
                          read_mask));
    }
    return SF_OK;
}
