/* What the files that fill the rows of an entry share: rows, groups of runs, and runs paired by seed. */
#ifndef SF_PAPER_GROUPS_H
#define SF_PAPER_GROUPS_H

#include "paper/catalogue.h"

/* A row about a task's mechanism; `what` may be empty. */
sf_status sf_paper_add_row(sf_paper_row **out, sf_paper *paper, const char *task, const char *name, const char *what);
sf_status sf_paper_add_group_row(sf_paper_row **out, sf_paper *paper, size_t group, const char *what);
sf_status sf_paper_add_point(sf_paper *paper, const char *series, const char *name, double x, double y);

const sf_planned_run *sf_paper_run_of(const sf_paper *paper, size_t group, size_t member);
bool sf_paper_chooses_by_score(const sf_paper *paper, size_t group);
bool sf_paper_is_full(const sf_paper *paper, size_t group);
bool sf_paper_is_compared(const sf_paper *paper, size_t group);
/* The group after the last one of the task that begins at `from`. */
size_t sf_paper_task_end(const sf_paper *paper, size_t from);
/* The run of a seed in a group: an index into sf_study_runs(). */
bool sf_paper_find_seed(size_t *out, const sf_paper *paper, size_t group, int64_t seed);

typedef struct sf_run_pair { /* of one seed */
    sf_stored_run ours, full;
} sf_run_pair;
/* The finished runs of a group, each with its finished partner in the baseline. Release with sf_release(). */
sf_status sf_paper_pairs_of(sf_run_pair **out, size_t *count, const sf_paper *paper, sf_store *store, size_t group);

/* The chance level of the group's task, in percent; NaN: it is none of the paper's. */
double sf_paper_guess(const sf_paper *paper, size_t group);
/* Whether the paper finds that full attention generalizes; false as well where it says nothing (see sf_paper_guess). */
bool sf_paper_generalizes(const char *task);

#endif
