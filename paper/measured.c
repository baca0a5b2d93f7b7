/* Rows of a verdict from what was measured at the weights of runs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "measure/conditions.h"
#include "paper/groups.h"
#include "paper/rules.h"
#include "semfocus/attention.h"
#include "study/statistics.h"

/* NaN where it was not measured. */
static sf_status read_score(double *out, sf_store *store, const sf_stored_run *run, sf_weights_at at,
                            sf_measure measure, double percent) {
    char name[64];
    bool found;
    sf_finding_score(name, at, measure, percent);
    return sf_findings_read(out, &found, store, run, name);
}

static const double shown_percents[] = {75, 90, 95, 100};
enum { SHOWN = 4, WITHOUT_EXTREMES = 3 };

typedef struct dispersion { /* the published comparison at 75, 90, 95, 100 % */
    double full[SHOWN], kept[SHOWN], separation[SHOWN], in_degree[SHOWN], w[SHOWN], x[SHOWN];
} dispersion;

static sf_status read_dispersion(dispersion *out, sf_store *store, const sf_run_pair *pair, sf_weights_at at,
                                 double k) {
    for (size_t i = 0; i < SHOWN; i++) {
        const double percent = shown_percents[i];
        SF_TRY(read_score(&out->full[i], store, &pair->full, at, SF_DISPERSION, percent));
        SF_TRY(read_score(&out->kept[i], store, &pair->ours, at, SF_KEPT_DISPERSION, percent));
        SF_TRY(read_score(&out->separation[i], store, &pair->ours, at, SF_SEPARATION, 100 - percent));
        SF_TRY(read_score(&out->in_degree[i], store, &pair->ours, at, SF_IN_DEGREE, percent));
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

/* The k of a mechanism that keeps so many keys; NaN for others, whose sink ratio has another divisor. */
static double keys_of(const sf_paper *paper, size_t group) {
    sf_attention attention;
    const bool known = sf_attention_parse(&attention, sf_paper_attention_of(paper, group)) == SF_OK;
    return known && attention.k > 0 ? (double)attention.k : NAN;
}

typedef sf_status pairs_user(sf_paper *paper, sf_store *store, size_t group, const sf_run_pair *pairs, size_t count);

/* Passes the pairs of every top-k group to `use`. */
static sf_status each_by_score(sf_paper *paper, sf_store *store, pairs_user *use) {
    for (size_t g = 0; g < sf_study_group_count(paper->study); g++) {
        if (!sf_paper_is_compared(paper, g) || !sf_paper_chooses_by_score(paper, g)) continue;
        sf_run_pair *pairs = NULL;
        size_t count;
        sf_status status = sf_paper_pairs_of(&pairs, &count, paper, store, g);
        if (status == SF_OK) status = use(paper, store, g, pairs, count);
        sf_release(pairs);
        SF_TRY(status);
    }
    return SF_OK;
}

typedef sf_status pair_values(double *ours, double *theirs, const sf_paper *paper, sf_store *store,
                              const sf_run_pair *pair);

/* One row: for most seeds ours are below theirs. */
static sf_status compare_values(sf_paper *paper, sf_store *store, size_t group, const char *what,
                                const sf_run_pair *pairs, size_t count, size_t width, double slack, pair_values *read) {
    double *values;
    sf_paper_row *row;
    SF_TRY(sf_paper_add_group_row(&row, paper, group, what));
    SF_TRY(SF_NEW(&values, 2 * count * width));
    double *ours = values, *theirs = values + count * width;
    sf_status status = SF_OK;
    for (size_t i = 0; i < count && status == SF_OK; i++)
        status = read(ours + i * width, theirs + i * width, paper, store, &pairs[i]);
    if (status == SF_OK)
        sf_rule_lower(row, ours, theirs, count, width, slack, sf_study_group(paper->study, group)->runs);
    sf_release(values);
    return status;
}

static sf_status read_dispersions(double *ours, double *theirs, const sf_paper *paper, sf_store *store,
                                  const sf_run_pair *pair) {
    (void)paper;
    dispersion d;
    SF_TRY(read_dispersion(&d, store, pair, SF_AT_LAST, 1));
    memcpy(ours, d.kept, sizeof d.kept);
    memcpy(theirs, d.full, sizeof d.full);
    return SF_OK;
}

static sf_status use_dispersion(sf_paper *paper, sf_store *store, size_t group, const sf_run_pair *pairs,
                                size_t count) {
    return compare_values(paper, store, group, "delta_h against delta_s of full at 75, 90, 95, 100 %", pairs, count,
                          SHOWN, 0, read_dispersions);
}

sf_status sf_rows_of_dispersion(sf_paper *paper, sf_store *store) {
    return each_by_score(paper, store, use_dispersion);
}

static const struct published {
    const char *task;
    dispersion values;
} published[] = {
    {"listops",
     {{8.61, 18.5, 29.4, 87.8},
      {3.51, 6.74, 9.67, 28.2},
      {.016, .005, .002, 1e-9},
      {1, 3, 15, 598},
      {.97, .69, .56, .57},
      {.90, .67, .59, .61}}},
    {"parity",
     {{8.30, 10.1, 11.2, 19.4},
      {2.31, 3.13, 3.78, 9.16},
      {.062, .022, .011, 1e-6},
      {8, 13, 16, 33},
      {.70, .76, .80, 1.22},
      {.72, .81, .86, 1.29}}},
    {"even-pairs",
     {{2.03, 4.73, 9.44, 14.6},
      {1.03, 2.84, 5.50, 8.25},
      {.009, .003, .002, 3e-8},
      {6, 17, 26, 40},
      {3.17, 1.98, 1.31, 1.80},
      {3.02, 2.10, 1.42, 1.90}}},
    {"missing-duplicate",
     {{4.63, 9.25, 17.1, 23.9},
      {2.36, 4.25, 4.88, 10.5},
      {.018, .006, .003, 1e-7},
      {7, 15, 21, 40},
      {1.53, 1.09, .67, 1.14},
      {1.53, 1.15, .72, 1.20}}},
};

static const dispersion *find_published(const char *task) {
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        if (strcmp(published[i].task, task) == 0) return &published[i].values;
    return NULL;
}

static const double allowed_factor = 2.5; /* between trainings of one recipe by two programs */

static sf_status use_table(sf_paper *paper, sf_store *store, size_t group, const sf_run_pair *pairs, size_t count) {
    const dispersion *paper_says = find_published(sf_study_group(paper->study, group)->task);
    SF_TRY(use_dispersion(paper, store, group, pairs, count));
    if (paper_says == NULL || count == 0) return SF_OK;
    dispersion we;
    SF_TRY(read_dispersion(&we, store, &pairs[0], SF_AT_LAST, keys_of(paper, group)));
    const struct {
        const char *what;
        const double *ours, *theirs;
        size_t judged; /* the least separation of a million queries is chance */
    } columns[] = {{"delta_s of full at 75, 90, 95, 100 %", we.full, paper_says->full, SHOWN},
                   {"delta_h at 75, 90, 95, 100 %", we.kept, paper_says->kept, SHOWN},
                   {"Delta_h at 25, 10, 5, 0 %", we.separation, paper_says->separation, WITHOUT_EXTREMES},
                   {"in-degree at 75, 90, 95, 100 %", we.in_degree, paper_says->in_degree, SHOWN},
                   {"left side of W at 75, 90, 95, 100 %", we.w, paper_says->w, SHOWN},
                   {"left side of X at 75, 90, 95, 100 %", we.x, paper_says->x, SHOWN}};
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
        sf_paper_row *row;
        SF_TRY(sf_paper_add_group_row(&row, paper, group, columns[c].what));
        sf_rule_published(row, columns[c].ours, columns[c].theirs, SHOWN, columns[c].judged, allowed_factor);
    }
    return SF_OK;
}

sf_status sf_rows_of_table(sf_paper *paper, sf_store *store) {
    return each_by_score(paper, store, use_table);
}

static sf_status read_both(double *ours, double *theirs, sf_store *store, const sf_run_pair *pair, const char *name) {
    bool found;
    SF_TRY(sf_findings_read(ours, &found, store, &pair->ours, name));
    return sf_findings_read(theirs, &found, store, &pair->full, name);
}

static const double slope_radii[] = {0.1, 0.3, 0.69};
enum { RADII = sizeof slope_radii / sizeof *slope_radii };

static sf_status read_slopes(double *ours, double *theirs, const sf_paper *paper, sf_store *store,
                             const sf_run_pair *pair) {
    for (size_t i = 0; i < RADII; i++) {
        char name[64];
        sf_finding_slope(name, paper, slope_radii[i]);
        SF_TRY(read_both(&ours[i], &theirs[i], store, pair, name));
    }
    return SF_OK;
}

static sf_status use_slopes(sf_paper *paper, sf_store *store, size_t group, const sf_run_pair *pairs, size_t count) {
    return compare_values(paper, store, group, "95 % Lipschitz constant against full's within r = 0.1, 0.3, 0.69",
                          pairs, count, RADII, 0, read_slopes);
}

sf_status sf_rows_of_slopes(sf_paper *paper, sf_store *store) {
    return each_by_score(paper, store, use_slopes);
}

/* The paper says nothing about how the loss rises: the number helps to find the figure. */
static sf_status use_surfaces(sf_paper *paper, sf_store *store, size_t group, const sf_run_pair *pairs, size_t count) {
    char name[64];
    double ours, theirs;
    sf_paper_row *row;
    SF_TRY(sf_paper_add_group_row(&row, paper, group, "mean loss over the surface above that of the weights"));
    if (count == 0) return SF_OK;
    sf_finding_rise(name, paper);
    SF_TRY(read_both(&ours, &theirs, store, &pairs[0], name));
    if (isnan(ours) || isnan(theirs)) return SF_OK;
    row->word = SF_SHOWN;
    snprintf(row->numbers, sizeof row->numbers, "this %.3g, full %.3g", ours, theirs);
    return SF_OK;
}

sf_status sf_rows_of_surfaces(sf_paper *paper, sf_store *store) {
    return each_by_score(paper, store, use_surfaces);
}

static sf_status read_errors(double *ours, double *theirs, const sf_paper *paper, sf_store *store,
                             const sf_run_pair *pair) {
    (void)paper;
    for (size_t i = 0; i < SF_PAPER_LENGTHS; i++) {
        char name[64];
        sf_finding_length(name, sf_paper_lengths[i]);
        SF_TRY(read_both(&ours[i], &theirs[i], store, pair, name));
    }
    return SF_OK;
}

static sf_status use_lengths(sf_paper *paper, sf_store *store, size_t group, const sf_run_pair *pairs, size_t count) {
    static const double one_point = 1;
    return compare_values(paper, store, group, "error (%) against full's at 1.5, 2.5 and 5 times the length", pairs,
                          count, SF_PAPER_LENGTHS, one_point, read_errors);
}

sf_status sf_rows_of_lengths(sf_paper *paper, sf_store *store) {
    return each_by_score(paper, store, use_lengths);
}

static sf_status read_mean_errors(double *ours, double *theirs, const sf_paper *paper, sf_store *store,
                                  const sf_run_pair *pair) {
    double our_errors[SF_PAPER_LENGTHS], their_errors[SF_PAPER_LENGTHS];
    SF_TRY(read_errors(our_errors, their_errors, paper, store, pair));
    *ours = *theirs = 0;
    for (size_t i = 0; i < SF_PAPER_LENGTHS; i++) {
        *ours += our_errors[i] / SF_PAPER_LENGTHS;
        *theirs += their_errors[i] / SF_PAPER_LENGTHS;
    }
    return SF_OK;
}

/* A mechanism with score transforms against the same without them. */
sf_status sf_rows_of_positions(sf_paper *paper, sf_store *store) {
    for (size_t from = 0, to; from < sf_study_group_count(paper->study); from = to) {
        to = sf_paper_task_end(paper, from);
        for (size_t g = from; g < to; g++) {
            const char *spelling = sf_paper_attention_of(paper, g), *transforms = strchr(spelling, '@');
            char plain[SF_SPELLING_SIZE], what[192];
            sf_run_pair *pairs = NULL;
            size_t other, count;
            if (transforms == NULL) continue;
            snprintf(plain, sizeof plain, "%.*s", (int)(transforms - spelling), spelling);
            if (!sf_paper_find_mechanism(&other, paper, from, plain)) continue;
            snprintf(what, sizeof what, "mean error (%%) at 1.5, 2.5 and 5 times the length, against %s", plain);
            sf_status status = sf_paper_pairs_with(&pairs, &count, paper, store, g, other);
            if (status == SF_OK) status = compare_values(paper, store, g, what, pairs, count, 1, 0, read_mean_errors);
            sf_release(pairs);
            SF_TRY(status);
        }
    }
    return SF_OK;
}

static sf_status read_distances(double *ours, double *theirs, const sf_paper *paper, sf_store *store,
                                const sf_run_pair *pair) {
    char name[64];
    sf_finding_distance(name, paper);
    return read_both(ours, theirs, store, pair, name);
}

static sf_status use_distances(sf_paper *paper, sf_store *store, size_t group, const sf_run_pair *pairs, size_t count) {
    if (sf_paper_run_of(paper, group, 0)->config.swap_sample < 0) return SF_OK; /* the partners */
    return compare_values(paper, store, group, "relative distance of the weights with and without it, against full's",
                          pairs, count, 1, 0, read_distances);
}

sf_status sf_rows_of_distances(sf_paper *paper, sf_store *store) {
    SF_TRY(each_by_score(paper, store, use_distances));
    for (size_t g = 0; g < sf_study_group_count(paper->study); g++)
        if (sf_paper_run_of(paper, g, 0)->config.swap_sample < 0) SF_TRY(sf_paper_add_gap_row(paper, g));
    return SF_OK;
}

/* The median of what is a number, NaN without any; sorts. */
static double median_of(double *values, size_t count) {
    size_t numbers = 0;
    for (size_t i = 0; i < count; i++)
        if (!isnan(values[i])) values[numbers++] = values[i];
    return sf_quantile(values, numbers, 0.5);
}

typedef sf_status pair_value(double *out, const sf_paper *paper, sf_store *store, const sf_run_pair *pair);

/* A top-k group as a point: the median of a measured value, and its speed-up. */
static sf_status point_of(double *x, double *y, const sf_paper *paper, sf_store *store, size_t group,
                          pair_value *read) {
    sf_run_pair *pairs = NULL;
    double *values = NULL;
    size_t count = 0;
    const sf_group *g = sf_study_group(paper->study, group);
    sf_status status = sf_paper_pairs_of(&pairs, &count, paper, store, group);
    if (status == SF_OK) status = SF_NEW(&values, count);
    for (size_t i = 0; i < count && status == SF_OK; i++) status = read(&values[i], paper, store, &pairs[i]);
    *x = status == SF_OK ? median_of(values, count) : NAN;
    *y = g->finished > 0 ? g->speedup : NAN;
    sf_release(pairs);
    sf_release(values);
    return status;
}

typedef struct scatter { /* the top-k groups from `from` to before `to` */
    size_t from, to;
    const char *task, *what; /* of the row */
    const char *series;      /* of the points */
    bool by_task;            /* points are named by their tasks, else by their mechanisms */
    pair_value *read;
} scatter;

static bool has_point(const double *x, const double *y, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!isnan(x[i]) && !isnan(y[i])) return true;
    return false;
}

static sf_status add_point(sf_paper *paper, const char *series, const char *name, double x, double y) {
    sf_paper_point point = {.series = series, .x = x, .y = y};
    snprintf(point.name, sizeof point.name, "%.63s", name);
    return sf_paper_add_point(paper, &point);
}

static sf_status add_scatter(sf_paper *paper, sf_store *store, const scatter *s) {
    double *x;
    sf_paper_row *row;
    size_t count = 0;
    bool finished = false;
    SF_TRY(sf_paper_add_row(&row, paper, s->task, "", s->what));
    SF_TRY(SF_NEW(&x, 2 * (s->to - s->from)));
    double *y = x + (s->to - s->from);
    sf_status status = SF_OK;
    for (size_t g = s->from; g < s->to && status == SF_OK; g++) {
        const sf_group *group = sf_study_group(paper->study, g);
        if (!sf_paper_is_compared(paper, g) || !sf_paper_chooses_by_score(paper, g)) continue;
        status = point_of(&x[count], &y[count], paper, store, g, s->read);
        if (status == SF_OK)
            status = add_point(paper, s->series, s->by_task ? group->task : group->name, x[count], y[count]);
        finished |= group->finished > 0;
        count++;
    }
    if (status == SF_OK && finished && !has_point(x, y, count))
        sf_rule_untestable(row, "no point: nothing was measured, or there is no speed-up");
    else if (status == SF_OK)
        status = sf_rule_rises(row, x, y, count);
    sf_release(x);
    return status;
}

static sf_status read_delta_ratio(double *out, sf_store *store, const sf_run_pair *pair, sf_weights_at at) {
    dispersion d;
    SF_TRY(read_dispersion(&d, store, pair, at, 1));
    *out = d.full[WITHOUT_EXTREMES - 1] / d.kept[WITHOUT_EXTREMES - 1];
    return SF_OK;
}

static sf_status read_initial_ratio(double *out, const sf_paper *paper, sf_store *store, const sf_run_pair *pair) {
    (void)paper;
    return read_delta_ratio(out, store, pair, SF_AT_INIT);
}

static sf_status read_trained_ratio(double *out, const sf_paper *paper, sf_store *store, const sf_run_pair *pair) {
    (void)paper;
    return read_delta_ratio(out, store, pair, SF_AT_LAST);
}

sf_status sf_rows_of_delta_and_speed(sf_paper *paper, sf_store *store) {
    const size_t groups = sf_study_group_count(paper->study);
    SF_TRY(sf_paper_begin_scatter(paper, "scatter", "delta_s / delta_h at 95 %", "speed-up to 95 % training accuracy"));
    SF_TRY(add_scatter(paper, store,
                       &(scatter){.to = groups,
                                  .task = "across tasks",
                                  .what = "(delta_s / delta_h at 95 % at initial weights, speed-up)",
                                  .series = "initial weights",
                                  .by_task = true,
                                  .read = read_initial_ratio}));
    return add_scatter(paper, store,
                       &(scatter){.to = groups,
                                  .task = "across tasks",
                                  .what = "(delta_s / delta_h at 95 % at trained weights, speed-up)",
                                  .series = "trained weights",
                                  .by_task = true,
                                  .read = read_trained_ratio});
}

static sf_status read_mask(double *out, const sf_paper *paper, sf_store *store, const sf_run_pair *pair) {
    char name[64];
    bool found;
    sf_finding_mask(name, paper);
    return sf_findings_read(out, &found, store, &pair->ours, name);
}

sf_status sf_rows_of_masks_and_speed(sf_paper *paper, sf_store *store) {
    SF_TRY(sf_paper_begin_scatter(paper, "scatter", "share of kept keys that noise leaves unchanged",
                                  "speed-up to 95 % training accuracy"));
    for (size_t from = 0, to; from < sf_study_group_count(paper->study); from = to) {
        const char *task = sf_study_group(paper->study, from)->task;
        to = sf_paper_task_end(paper, from);
        SF_TRY(add_scatter(paper, store,
                           &(scatter){.from = from,
                                      .to = to,
                                      .task = task,
                                      .what = "over k (share of kept keys unchanged by noise, speed-up)",
                                      .series = task,
                                      .read = read_mask}));
    }
    return SF_OK;
}
