#include "paper/groups.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "semfocus/plugin.h"
#include "semfocus/task.h"
#include "study/study.h"

/* The first row about the task, or the first of all: rows with equal families are corrected together. */
static size_t family_of(const sf_paper *paper, const char *task) {
    const size_t length = strlen(task);
    for (size_t i = 0; i < paper->row_count && paper->entry->family == SF_FAMILY_TASK; i++) {
        const char *what = paper->rows[i].what;
        if (strncmp(what, task, length) == 0 && (what[length] == ' ' || what[length] == '\0')) return i;
    }
    return paper->entry->family == SF_FAMILY_TASK ? paper->row_count : 0;
}

sf_status sf_paper_add_row(sf_paper_row **out, sf_paper *paper, const char *task, const char *name, const char *what) {
    if (paper->row_count == paper->row_room) {
        const size_t room = 2 * paper->row_room + 16;
        SF_TRY(SF_GROW(&paper->rows, paper->row_count, room));
        paper->row_room = room;
    }
    const size_t family = family_of(paper, task);
    *out = &paper->rows[paper->row_count++];
    **out = (sf_paper_row){.word = SF_NOT_RUN, .p = NAN, .corrected = NAN, .family = family};
    snprintf((*out)->what, sizeof(*out)->what, "%s%s%s%s%s", task, *name != '\0' ? " " : "", name,
             *what != '\0' ? ": " : "", what);
    return SF_OK;
}

sf_status sf_paper_add_group_row(sf_paper_row **out, sf_paper *paper, size_t group, const char *what) {
    const sf_group *g = sf_study_group(paper->study, group);
    return sf_paper_add_row(out, paper, g->task, g->name, what);
}

sf_status sf_paper_begin_scatter(sf_paper *paper, const char *name, const char *x_title, const char *y_title) {
    if (paper->scatter_count == paper->scatter_room) {
        const size_t room = 2 * paper->scatter_room + 4;
        SF_TRY(SF_GROW(&paper->scatters, paper->scatter_count, room));
        paper->scatter_room = room;
    }
    sf_paper_scatter *scatter = &paper->scatters[paper->scatter_count++];
    *scatter = (sf_paper_scatter){.x_title = x_title, .y_title = y_title};
    snprintf(scatter->name, sizeof scatter->name, "%s", name);
    return SF_OK;
}

sf_status sf_paper_add_point(sf_paper *paper, const sf_paper_point *point) {
    if (isnan(point->x) || isnan(point->y)) return SF_OK;
    if (paper->point_count == paper->point_room) {
        const size_t room = 2 * paper->point_room + 16;
        SF_TRY(SF_GROW(&paper->points, paper->point_count, room));
        paper->point_room = room;
    }
    paper->points[paper->point_count++] = *point;
    paper->scatters[paper->scatter_count - 1].count++;
    return SF_OK;
}

const sf_planned_run *sf_paper_run_of(const sf_paper *paper, size_t group, size_t member) {
    size_t count;
    return &sf_study_runs(paper->study, &count)[sf_study_member(paper->study, group, member)];
}

const char *sf_paper_attention_of(const sf_paper *paper, size_t group) {
    return sf_paper_run_of(paper, group, 0)->attention;
}

bool sf_attention_chooses_by_score(const char *spelling) {
    sf_attention attention;
    return sf_attention_parse(&attention, spelling) == SF_OK &&
           (attention.selector->selects_by & (SF_BY_SCORE | SF_BY_VECTORS)) != 0;
}

bool sf_paper_chooses_by_score(const sf_paper *paper, size_t group) {
    return sf_attention_chooses_by_score(sf_paper_attention_of(paper, group));
}

bool sf_paper_is_full(const sf_paper *paper, size_t group) {
    return strcmp(sf_paper_attention_of(paper, group), "full") == 0;
}

bool sf_paper_is_compared(const sf_paper *paper, size_t group) {
    return sf_study_group(paper->study, group)->baseline != group;
}

size_t sf_paper_task_end(const sf_paper *paper, size_t from) {
    const char *task = sf_study_group(paper->study, from)->task;
    size_t to = from + 1;
    while (to < sf_study_group_count(paper->study) && strcmp(sf_study_group(paper->study, to)->task, task) == 0) to++;
    return to;
}

bool sf_paper_find_mechanism(size_t *out, const sf_paper *paper, size_t from, const char *attention) {
    for (size_t g = from; g < sf_paper_task_end(paper, from); g++) {
        *out = g;
        if (strcmp(sf_paper_attention_of(paper, g), attention) == 0) return true;
    }
    return false;
}

bool sf_paper_find_seed(size_t *out, const sf_paper *paper, size_t group, int64_t seed) {
    for (size_t m = 0; m < sf_study_group(paper->study, group)->runs; m++)
        if (sf_paper_run_of(paper, group, m)->config.seed == seed) {
            *out = sf_study_member(paper->study, group, m);
            return true;
        }
    return false;
}

static sf_status find_run(sf_stored_run *out, bool *found, const sf_paper *paper, sf_store *store, size_t run) {
    size_t count, rows;
    bool finished;
    *found = false;
    sf_study_curve(paper->study, run, &rows, &finished);
    return finished ? sf_store_look_up(out, found, store, sf_study_runs(paper->study, &count)[run].id) : SF_OK;
}

sf_status sf_paper_pairs_of(sf_run_pair **out, size_t *count, const sf_paper *paper, sf_store *store, size_t group) {
    return sf_paper_pairs_with(out, count, paper, store, group, sf_study_group(paper->study, group)->baseline);
}

sf_status sf_paper_pairs_with(sf_run_pair **out, size_t *count, const sf_paper *paper, sf_store *store, size_t group,
                              size_t other) {
    const sf_group *g = sf_study_group(paper->study, group);
    *count = 0;
    SF_TRY(SF_NEW(out, g->runs));
    if (store == NULL) return SF_OK;
    for (size_t m = 0; m < g->runs; m++) {
        sf_run_pair *pair = &(*out)[*count];
        size_t partner;
        bool ours = false, theirs = false;
        if (!sf_paper_find_seed(&partner, paper, other, sf_paper_run_of(paper, group, m)->config.seed)) continue;
        SF_TRY(find_run(&pair->ours, &ours, paper, store, sf_study_member(paper->study, group, m)));
        if (ours) SF_TRY(find_run(&pair->full, &theirs, paper, store, partner));
        *count += ours && theirs;
    }
    return SF_OK;
}

/* Whether it is known when the run reached it, or that it did not in all its epochs. */
static bool has_arrival(sf_arrival *out, const sf_paper *paper, size_t run) {
    size_t rows;
    bool finished;
    sf_study_curve(paper->study, run, &rows, &finished);
    if (rows == 0 && !finished) return false;
    *out = sf_study_outcome(paper->study, run).train;
    return finished || out->reached;
}

sf_status sf_paper_arrivals_along(sf_arrival **out, size_t *seeds, const sf_paper *paper, const size_t *groups,
                                  size_t steps) {
    const size_t most = steps > 0 ? sf_study_group(paper->study, groups[0])->runs : 0;
    *seeds = 0;
    SF_TRY(SF_NEW(out, most * steps));
    for (size_t m = 0; m < most; m++) {
        const int64_t seed = sf_paper_run_of(paper, groups[0], m)->config.seed;
        bool all = true;
        for (size_t i = 0; i < steps && all; i++) {
            size_t run;
            all = sf_paper_find_seed(&run, paper, groups[i], seed) &&
                  has_arrival(&(*out)[*seeds * steps + i], paper, run);
        }
        *seeds += all;
    }
    return SF_OK;
}

sf_status sf_paper_paired_arrivals(sf_arrival **ours, sf_arrival **theirs, size_t *count, const sf_paper *paper,
                                   size_t group, size_t other) {
    sf_arrival *both, *apart;
    SF_TRY(sf_paper_arrivals_along(&both, count, paper, (const size_t[]){group, other}, 2));
    const sf_status status = SF_NEW(&apart, 2 * *count);
    for (size_t i = 0; i < *count && status == SF_OK; i++) {
        apart[i] = both[2 * i];
        apart[*count + i] = both[2 * i + 1];
    }
    sf_release(both);
    *ours = apart;
    *theirs = status == SF_OK ? apart + *count : NULL;
    return status;
}

sf_status sf_paper_median_finding(double *out, const sf_paper *paper, sf_store *store, size_t group, const char *name) {
    const size_t runs = sf_study_group(paper->study, group)->runs;
    double *values;
    size_t count = 0;
    *out = NAN;
    if (store == NULL) return SF_OK;
    SF_TRY(SF_NEW(&values, runs));
    sf_status status = SF_OK;
    for (size_t m = 0; m < runs && status == SF_OK; m++) {
        sf_stored_run run;
        bool found;
        status = find_run(&run, &found, paper, store, sf_study_member(paper->study, group, m));
        if (status == SF_OK && found) status = sf_findings_read(&values[count], &found, store, &run, name);
        count += status == SF_OK && found && !isnan(values[count]);
    }
    if (status == SF_OK) *out = sf_quantile(values, count, 0.5);
    sf_release(values);
    return status;
}

sf_paper_point sf_paper_epochs_point(const sf_paper *paper, size_t group, double x) {
    const sf_group *g = sf_study_group(paper->study, group);
    const bool censored = isinf(g->quartiles[1]) != 0;
    return (sf_paper_point){.series = sf_paper_attention_of(paper, group),
                            .x = x,
                            .y = g->finished == 0 ? NAN
                                 : censored       ? (double)g->longest
                                                  : g->quartiles[1],
                            .censored = censored};
}

/* The tasks of the paper. */
static const struct known_task {
    const char *name;
    bool generalizes;
} known_tasks[] = {{"listops", true},           {"even-pairs", true},
                   {"missing-duplicate", true}, {"stack-manipulation", true},
                   {"parity", false},           {"cycle-navigation", false},
                   {"solve-equation", false},   {"modular-arithmetic-brackets", false}};

static const struct known_task *find_known(const char *task) {
    for (size_t i = 0; i < sizeof known_tasks / sizeof *known_tasks; i++)
        if (strcmp(known_tasks[i].name, task) == 0) return &known_tasks[i];
    return NULL;
}

double sf_paper_guess(const sf_paper *paper, size_t group) {
    const char *name = sf_study_group(paper->study, group)->task;
    const sf_task *task;
    if (find_known(name) == NULL || sf_task_find(&task, name) != SF_OK) return NAN;
    const sf_config *config = &sf_paper_run_of(paper, group, 0)->config;
    const sf_task_options options = sf_task_options_of(config);
    return sf_task_chance_with(task, (size_t)config->length, &options);
}

bool sf_paper_generalizes(const char *task) {
    const struct known_task *known = find_known(task);
    return known != NULL && known->generalizes;
}
