/* Two explanations of why top-k learns sooner, and what each predicts.
 *
 *   dispersion  (the paper's): what counts is a small delta, the range of the kept scores. Sharper scores are larger
 * ones and have a larger delta, so full attention should take longer at higher inverse temperatures; top-k should stay
 * ahead where each has its best one; epochs should rise with delta_h. sharpness   at initialization scores are small
 * and attention is nearly uniform; whatever makes it sharper learns sooner, sparse or not. Full attention should take
 * fewer epochs at higher inverse temperatures and about as many as top-k at its best one; epochs should rise with the
 * effective keys.
 *
 * Each prediction is a row with a test of its own; those of one explanation and task are corrected together. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "paper/groups.h"
#include "paper/rules.h"

#define DISPERSION "dispersion"
#define SHARPNESS  "sharpness"

static const char top_k[] = "topk:5";
static const double as_soon = 1.5; /* times the epochs of the other: whole epochs are few where both learn soon */

typedef struct rivalry { /* the groups of a task */
    size_t from, to;
    const char *task;
} rivalry;

static double temperature_of(const sf_paper *paper, size_t group) {
    return sf_paper_run_of(paper, group, 0)->config.inverse_temperature;
}

static sf_status add_prediction(sf_paper_row **out, sf_paper *paper, const rivalry *r, const char *of,
                                const char *what) {
    char text[SF_PAPER_TEXT_SIZE];
    snprintf(text, sizeof text, "%s predicts that %s", of, what);
    SF_TRY(sf_paper_add_row(out, paper, r->task, "", text));
    const size_t own = paper->row_count - 1, length = strlen(r->task);
    (*out)->of = of;
    (*out)->family = own;
    for (size_t i = own; i-- > 0;) {
        const sf_paper_row *row = &paper->rows[i];
        if (row->of != NULL && strcmp(row->of, of) == 0 && strncmp(row->what, r->task, length) == 0 &&
            row->what[length] == ':')
            (*out)->family = row->family;
    }
    return SF_OK;
}

/* The groups of full attention in ascending order of the inverse temperature; returns their number. */
static size_t full_groups(size_t *out /* [to-from] */, const sf_paper *paper, const rivalry *r) {
    size_t count = 0;
    for (size_t g = r->from; g < r->to; g++) {
        if (!sf_paper_is_full(paper, g)) continue;
        size_t at = count++;
        for (; at > 0 && temperature_of(paper, out[at - 1]) > temperature_of(paper, g); at--) out[at] = out[at - 1];
        out[at] = g;
    }
    return count;
}

static sf_status judge_temperatures(sf_paper *paper, const rivalry *r, const char *of) {
    const bool more = strcmp(of, DISPERSION) == 0;
    sf_paper_row *row;
    sf_arrival *epochs = NULL;
    size_t *groups, seeds = 0;
    SF_TRY(add_prediction(&row, paper, r, of,
                          more ? "full attention takes more epochs at higher inverse temperatures"
                               : "full attention takes fewer epochs at higher inverse temperatures"));
    SF_TRY(SF_NEW(&groups, r->to - r->from));
    const size_t steps = full_groups(groups, paper, r);
    const sf_status status = sf_paper_arrivals_along(&epochs, &seeds, paper, groups, steps);
    if (status == SF_OK) sf_rule_direction(row, epochs, seeds, steps, more);
    sf_release(epochs);
    sf_release(groups);
    return status;
}

/* The setting with which a mechanism converges soonest; false: it converged with none. */
static bool find_best(size_t *out, const sf_paper *paper, const rivalry *r, const char *attention) {
    for (size_t g = r->from; g < r->to; g++) {
        *out = g;
        if (sf_study_group(paper->study, g)->is_best && strcmp(sf_paper_attention_of(paper, g), attention) == 0)
            return true;
    }
    return false;
}

static bool any_finished(const sf_paper *paper, const rivalry *r) {
    for (size_t g = r->from; g < r->to; g++)
        if (sf_study_group(paper->study, g)->finished > 0) return true;
    return false;
}

static void name_best(char out[64], const sf_paper *paper, size_t group) {
    snprintf(out, 64, "%s at %.4g", sf_paper_attention_of(paper, group), temperature_of(paper, group));
}

static sf_status judge_best(sf_paper *paper, const rivalry *r, const char *of) {
    const bool ahead = strcmp(of, DISPERSION) == 0;
    sf_paper_row *row;
    size_t full, sparse, count;
    SF_TRY(add_prediction(&row, paper, r, of,
                          ahead ? "topk:5 takes fewer epochs than full, each at its best inverse temperature"
                                : "full takes at most 1.5 times the epochs of topk:5, each at its best inverse "
                                  "temperature"));
    if (!find_best(&full, paper, r, "full") || !find_best(&sparse, paper, r, top_k)) {
        if (any_finished(paper, r)) sf_rule_untestable(row, "one of them converges at no inverse temperature");
        row->judged = true;
        row->unit = "seed";
        return SF_OK;
    }
    sf_arrivals arrivals;
    char full_name[64], sparse_name[64];
    name_best(full_name, paper, full);
    name_best(sparse_name, paper, sparse);
    SF_TRY(sf_paper_compare_arrivals(&arrivals, paper, sparse, full));
    sf_rule_sooner(row, &arrivals.verdict, (sf_rule_side){sparse_name, &arrivals.us},
                   (sf_rule_side){full_name, &arrivals.them}, true);
    if (ahead) return SF_OK;
    sf_arrival *ours, *theirs;
    SF_TRY(sf_paper_paired_arrivals(&ours, &theirs, &count, paper, full, sparse));
    sf_rule_not_later(row, ours, theirs, count, as_soon);
    sf_release(ours);
    return SF_OK;
}

typedef struct measured { /* at initial weights, over the queries of a run */
    const char *of, *figure, *title, *prediction;
    sf_measure measure;
    double percent;
} measured;

static const measured by_dispersion = {
    DISPERSION,
    "delta",
    "delta_h at initialization (95 %)",
    "more epochs go with a larger delta_h at initialization, over all mechanisms and "
    "inverse temperatures",
    SF_KEPT_DISPERSION,
    95};
static const measured by_sharpness = {SHARPNESS,
                                      "effective-keys",
                                      "effective keys at initialization (median)",
                                      "more epochs go with more effective keys at initialization, over all mechanisms "
                                      "and inverse temperatures",
                                      SF_EFFECTIVE_KEYS,
                                      50};

/* One point per mechanism and temperature, named by the temperature. */
static sf_status collect_points(double *x, double *y, sf_paper *paper, sf_store *store, const rivalry *r,
                                const measured *m) {
    char name[64];
    sf_finding_score(name, SF_AT_INIT, m->measure, m->percent);
    for (size_t g = r->from; g < r->to; g++) {
        SF_TRY(sf_paper_median_finding(&x[g - r->from], paper, store, g, name));
        sf_paper_point point = sf_paper_epochs_point(paper, g, x[g - r->from]);
        snprintf(point.name, sizeof point.name, "%.4g", temperature_of(paper, g));
        y[g - r->from] = point.censored ? INFINITY : point.y;
        SF_TRY(sf_paper_add_point(paper, &point));
    }
    return SF_OK;
}

static sf_status judge_measured(sf_paper *paper, sf_store *store, const rivalry *r, const measured *m) {
    sf_paper_row *row;
    double *x;
    char figure[64];
    snprintf(figure, sizeof figure, "%s-%s", m->figure, r->task);
    SF_TRY(add_prediction(&row, paper, r, m->of, m->prediction));
    SF_TRY(sf_paper_begin_scatter(paper, figure, m->title, "epochs to 95 % training accuracy"));
    SF_TRY(SF_NEW(&x, 2 * (r->to - r->from)));
    double *y = x + (r->to - r->from);
    sf_status status = collect_points(x, y, paper, store, r, m);
    if (status == SF_OK) status = sf_rule_rises(row, x, y, r->to - r->from);
    sf_release(x);
    return status;
}

/* Every mechanism at its own best temperature, for the reader. */
static sf_status show_best(sf_paper *paper, const rivalry *r) {
    sf_paper_row *row;
    SF_TRY(sf_paper_add_row(&row, paper, r->task, "", "each mechanism at its best inverse temperature, median epochs"));
    for (size_t g = r->from; g < r->to; g++) {
        const sf_group *group = sf_study_group(paper->study, g);
        const size_t used = strlen(row->numbers);
        if (!group->is_best) continue;
        snprintf(row->numbers + used, sizeof row->numbers - used, "%s%s %.4g (at %.4g)", used > 0 ? ", " : "",
                 sf_paper_attention_of(paper, g), group->quartiles[1], temperature_of(paper, g));
    }
    if (*row->numbers == '\0' && any_finished(paper, r))
        snprintf(row->numbers, sizeof row->numbers, "none reaches 95 %% training accuracy");
    if (*row->numbers != '\0') row->word = SF_SHOWN;
    return SF_OK;
}

sf_status sf_rows_of_rivals(sf_paper *paper, sf_store *store) {
    for (size_t from = 0, to; from < sf_study_group_count(paper->study); from = to) {
        to = sf_paper_task_end(paper, from);
        const rivalry r = {from, to, sf_study_group(paper->study, from)->task};
        SF_TRY(judge_temperatures(paper, &r, DISPERSION));
        SF_TRY(judge_best(paper, &r, DISPERSION));
        SF_TRY(judge_measured(paper, store, &r, &by_dispersion));
        SF_TRY(judge_temperatures(paper, &r, SHARPNESS));
        SF_TRY(judge_best(paper, &r, SHARPNESS));
        SF_TRY(judge_measured(paper, store, &r, &by_sharpness));
        SF_TRY(show_best(paper, &r));
    }
    return SF_OK;
}
