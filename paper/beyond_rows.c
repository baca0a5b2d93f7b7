/* Rows of a verdict for questions beyond the paper that learning curves answer: other selectors, weightings, caps and
 * sinks. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "paper/groups.h"
#include "paper/rules.h"
#include "semfocus/attention.h"

static const char top_k[] = "topk:5", what_counts[] = "epochs to 95 % training accuracy";
static const double as_soon = 1.5; /* times the epochs of topk:5 */

/* Two groups by their epochs; without a judgement where nothing is stated of them. */
typedef struct contest {
    size_t ours, theirs;
    bool is_stated, sooner;
} contest;

static sf_status add_contest(sf_paper *paper, const contest *c) {
    sf_arrivals arrivals;
    sf_paper_row *row;
    char what[96];
    const char *rival = sf_paper_attention_of(paper, c->theirs);
    snprintf(what, sizeof what, "%s, against %s", what_counts, rival);
    SF_TRY(sf_paper_compare_arrivals(&arrivals, paper, c->ours, c->theirs));
    SF_TRY(sf_paper_add_group_row(&row, paper, c->ours, what));
    sf_rule_sooner(row, &arrivals.verdict, (sf_rule_side){"this", &arrivals.us}, (sf_rule_side){rival, &arrivals.them},
                   c->sooner);
    if (c->is_stated) return SF_OK;
    row->judged = false;
    row->word = row->seeds > 0 ? SF_SHOWN : SF_NOT_RUN;
    return SF_OK;
}

typedef sf_status task_rows(sf_paper *paper, sf_store *store, size_t from, size_t to);

static sf_status each_task(sf_paper *paper, sf_store *store, task_rows *add) {
    for (size_t from = 0, to; from < sf_study_group_count(paper->study); from = to) {
        to = sf_paper_task_end(paper, from);
        SF_TRY(add(paper, store, from, to));
    }
    return SF_OK;
}

/* The t of within:t; NaN for other mechanisms. */
static double cap_of(const sf_paper *paper, size_t group) {
    const char *spelling = sf_paper_attention_of(paper, group);
    sf_attention attention;
    const bool is_within = strncmp(spelling, "within:", 7) == 0 && sf_attention_parse(&attention, spelling) == SF_OK;
    return is_within ? attention.arguments[0] : NAN;
}

/* The plan names them in ascending order. */
static size_t capped_groups(size_t *out /* [to-from] */, const sf_paper *paper, size_t from, size_t to) {
    size_t count = 0;
    for (size_t g = from; g < to; g++)
        if (!isnan(cap_of(paper, g))) out[count++] = g;
    return count;
}

static sf_status judge_caps(sf_paper *paper, size_t from, size_t to) {
    sf_paper_row *row;
    sf_arrival *epochs = NULL;
    size_t *groups, seeds = 0;
    const char *task = sf_study_group(paper->study, from)->task;
    SF_TRY(sf_paper_add_row(&row, paper, task, "within:t", "over t, the smaller the cap the fewer epochs"));
    SF_TRY(SF_NEW(&groups, to - from));
    const size_t steps = capped_groups(groups, paper, from, to);
    const sf_status status = sf_paper_arrivals_along(&epochs, &seeds, paper, groups, steps);
    if (status == SF_OK) sf_rule_direction(row, epochs, seeds, steps, true);
    sf_release(epochs);
    sf_release(groups);
    return status;
}

static sf_status draw_caps(sf_paper *paper, size_t from, size_t to) {
    char name[64];
    snprintf(name, sizeof name, "cap-%s", sf_study_group(paper->study, from)->task);
    SF_TRY(sf_paper_begin_scatter(paper, name, "t of within:t, the cap on the dispersion", what_counts));
    for (size_t g = from; g < to; g++) {
        sf_paper_point point = sf_paper_epochs_point(paper, g, cap_of(paper, g));
        point.series = "within:t";
        snprintf(point.name, sizeof point.name, "%.4g", point.x);
        SF_TRY(sf_paper_add_point(paper, &point));
    }
    return SF_OK;
}

static sf_status caps_of_task(sf_paper *paper, sf_store *store, size_t from, size_t to) {
    (void)store;
    for (size_t g = from; g < to; g++) {
        if (!sf_paper_is_compared(paper, g)) continue;
        const contest c = {g, sf_study_group(paper->study, g)->baseline, !isnan(cap_of(paper, g)), true};
        SF_TRY(add_contest(paper, &c));
    }
    SF_TRY(judge_caps(paper, from, to));
    return draw_caps(paper, from, to);
}

sf_status sf_rows_of_caps(sf_paper *paper, sf_store *store) {
    return each_task(paper, store, caps_of_task);
}

static sf_status add_as_soon(sf_paper *paper, sf_store *store, size_t group, size_t exact) {
    sf_arrivals arrivals;
    sf_arrival *ours, *theirs;
    sf_paper_row *row;
    size_t count;
    double keys;
    char name[64];
    sf_finding_keys(name);
    SF_TRY(sf_paper_median_finding(&keys, paper, store, group, name));
    SF_TRY(sf_paper_compare_arrivals(&arrivals, paper, group, exact));
    SF_TRY(sf_paper_add_group_row(&row, paper, group, "epochs to 95 % training accuracy, against topk:5"));
    sf_rule_sooner(row, &arrivals.verdict, (sf_rule_side){"this", &arrivals.us}, (sf_rule_side){top_k, &arrivals.them},
                   true);
    const size_t used = strlen(row->numbers);
    if (!isnan(keys))
        snprintf(row->numbers + used, sizeof row->numbers - used, "; %.3g kept keys per query at initialization", keys);
    SF_TRY(sf_paper_paired_arrivals(&ours, &theirs, &count, paper, group, exact));
    sf_rule_not_later(row, ours, theirs, count, as_soon);
    sf_release(ours);
    return SF_OK;
}

static sf_status hitters_of_task(sf_paper *paper, sf_store *store, size_t from, size_t to) {
    size_t exact;
    if (!sf_paper_find_mechanism(&exact, paper, from, top_k)) return SF_OK;
    for (size_t g = from; g < to; g++) {
        if (g == exact) continue;
        if (sf_paper_is_full(paper, g))
            SF_TRY(add_contest(paper, &(contest){g, exact, false, false}));
        else
            SF_TRY(add_as_soon(paper, store, g, exact));
    }
    return SF_OK;
}

sf_status sf_rows_of_hitters(sf_paper *paper, sf_store *store) {
    return each_task(paper, store, hitters_of_task);
}

/* topk:5/W against full/W; what is not one of the two is shown beside full. */
static sf_status weightings_of_task(sf_paper *paper, sf_store *store, size_t from, size_t to) {
    (void)store;
    for (size_t g = from; g < to; g++) {
        const char *spelling = sf_paper_attention_of(paper, g);
        const bool is_sparse = strncmp(spelling, top_k, strlen(top_k)) == 0;
        char partner[SF_SPELLING_SIZE];
        size_t full;
        snprintf(partner, sizeof partner, "full%s", is_sparse ? spelling + strlen(top_k) : "");
        if (g != from && sf_paper_find_mechanism(&full, paper, from, partner))
            SF_TRY(add_contest(paper, &(contest){g, full, is_sparse, true}));
    }
    return SF_OK;
}

sf_status sf_rows_of_weightings(sf_paper *paper, sf_store *store) {
    return each_task(paper, store, weightings_of_task);
}

static sf_status sinks_of_task(sf_paper *paper, sf_store *store, size_t from, size_t to) {
    (void)store;
    size_t plain;
    if (!sf_paper_find_mechanism(&plain, paper, from, top_k)) return SF_OK;
    for (size_t g = from; g < to; g++)
        if (g != plain) SF_TRY(add_contest(paper, &(contest){g, plain, !sf_paper_is_full(paper, g), false}));
    return SF_OK;
}

sf_status sf_rows_of_sinks(sf_paper *paper, sf_store *store) {
    return each_task(paper, store, sinks_of_task);
}
