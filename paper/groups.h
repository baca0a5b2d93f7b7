/* What the files that fill the rows of an entry share: rows, groups of runs, and runs paired by seed. */
#ifndef SF_PAPER_GROUPS_H
#define SF_PAPER_GROUPS_H

#include "paper/catalogue.h"
#include "study/verdict.h"

/* A row about a task's mechanism; `what` may be empty. */
sf_status sf_paper_add_row(sf_paper_row **out, sf_paper *paper, const char *task, const char *name, const char *what);
sf_status sf_paper_add_group_row(sf_paper_row **out, sf_paper *paper, size_t group, const char *what);
/* Points that are added from here on belong to this figure. The titles must outlive the paper. */
sf_status sf_paper_begin_scatter(sf_paper *paper, const char *name, const char *x_title, const char *y_title);
sf_status sf_paper_add_point(sf_paper *paper, const sf_paper_point *point);

const sf_planned_run *sf_paper_run_of(const sf_paper *paper, size_t group, size_t member);
/* The mechanism of a group, as the study resolved it. */
const char *sf_paper_attention_of(const sf_paper *paper, size_t group);
/* Which keys a query keeps depends on the input: their scores, or queries and keys. */
bool sf_paper_chooses_by_score(const sf_paper *paper, size_t group);
bool sf_attention_chooses_by_score(const char *spelling);
bool sf_paper_is_full(const sf_paper *paper, size_t group);
bool sf_paper_is_compared(const sf_paper *paper, size_t group);
/* The group after the last one of the task that begins at `from`. */
size_t sf_paper_task_end(const sf_paper *paper, size_t from);
/* The first group of the mechanism among those of the task that begins at `from`; false: there is none. */
bool sf_paper_find_mechanism(size_t *out, const sf_paper *paper, size_t from, const char *attention);
/* The run of a seed in a group: an index into sf_study_runs(). */
bool sf_paper_find_seed(size_t *out, const sf_paper *paper, size_t group, int64_t seed);

typedef struct sf_run_pair {  /* of one seed */
    sf_stored_run ours, full; /* `full`: of the group it is compared with */
} sf_run_pair;
/* The finished runs of a group, each with its finished partner in another group. Release with sf_release(). */
sf_status sf_paper_pairs_with(sf_run_pair **out, size_t *count, const sf_paper *paper, sf_store *store, size_t group,
                              size_t other);
/* The same with the group's baseline. */
sf_status sf_paper_pairs_of(sf_run_pair **out, size_t *count, const sf_paper *paper, sf_store *store, size_t group);

/* Two groups of runs, by when they reach 95 % training accuracy. */
typedef struct sf_arrivals {
    sf_verdict verdict;
    sf_summary us, them;
} sf_arrivals;
sf_status sf_paper_compare_arrivals(sf_arrivals *out, const sf_paper *paper, size_t ours, size_t theirs);

/* When the runs of each seed that both groups have reached it. Release *ours alone with sf_release(). */
sf_status sf_paper_paired_arrivals(sf_arrival **ours, sf_arrival **theirs, size_t *count, const sf_paper *paper,
                                   size_t group, size_t other);
/* The same for all of `steps` groups: (*out)[s * steps + i] of the i-th one, for seeds that all of them have. */
sf_status sf_paper_arrivals_along(sf_arrival **out, size_t *seeds, const sf_paper *paper, const size_t *groups,
                                  size_t steps);
/* A row: held-out accuracies of the group against those of its baseline. */
sf_status sf_paper_judge_accuracy(sf_paper *paper, size_t group);
/* The median over the finished runs of a group of what was measured under this name; NaN: nothing was. */
sf_status sf_paper_median_finding(double *out, const sf_paper *paper, sf_store *store, size_t group, const char *name);
/* The group as a point: its median epochs, censored if the median was not reached. */
sf_paper_point sf_paper_epochs_point(const sf_paper *paper, size_t group, double x);

/* Shows the gap between held-out and training loss, beside the bound of algorithmic stability. */
sf_status sf_paper_add_gap_row(sf_paper *paper, size_t group);

/* The chance level of the group's task, in percent; NaN: it is none of the paper's. */
double sf_paper_guess(const sf_paper *paper, size_t group);
/* Whether the paper finds that full attention generalizes; false as well where it says nothing (see sf_paper_guess). */
bool sf_paper_generalizes(const char *task);

#endif
