#include "paper/groups.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "semfocus/task.h"

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

sf_status sf_paper_add_point(sf_paper *paper, const char *series, const char *name, double x, double y) {
    if (isnan(x) || isnan(y)) return SF_OK;
    if (paper->point_count == paper->point_room) {
        const size_t room = 2 * paper->point_room + 16;
        SF_TRY(SF_GROW(&paper->points, paper->point_count, room));
        paper->point_room = room;
    }
    sf_paper_point *point = &paper->points[paper->point_count++];
    *point = (sf_paper_point){.series = series, .x = x, .y = y};
    snprintf(point->name, sizeof point->name, "%s", name);
    return SF_OK;
}

const sf_planned_run *sf_paper_run_of(const sf_paper *paper, size_t group, size_t member) {
    size_t count;
    return &sf_study_runs(paper->study, &count)[sf_study_member(paper->study, group, member)];
}

bool sf_paper_chooses_by_score(const sf_paper *paper, size_t group) {
    return strncmp(sf_paper_run_of(paper, group, 0)->attention, "topk", 4) == 0;
}

bool sf_paper_is_full(const sf_paper *paper, size_t group) {
    return strcmp(sf_paper_run_of(paper, group, 0)->attention, "full") == 0;
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
    const sf_group *g = sf_study_group(paper->study, group);
    *count = 0;
    SF_TRY(SF_NEW(out, g->runs));
    if (store == NULL) return SF_OK;
    for (size_t m = 0; m < g->runs; m++) {
        sf_run_pair *pair = &(*out)[*count];
        size_t partner;
        bool ours = false, theirs = false;
        if (!sf_paper_find_seed(&partner, paper, g->baseline, sf_paper_run_of(paper, group, m)->config.seed)) continue;
        SF_TRY(find_run(&pair->ours, &ours, paper, store, sf_study_member(paper->study, group, m)));
        if (ours) SF_TRY(find_run(&pair->full, &theirs, paper, store, partner));
        *count += ours && theirs;
    }
    return SF_OK;
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
