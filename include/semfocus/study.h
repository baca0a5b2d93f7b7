/* A study: the grid of runs that tasks, mechanisms, seeds and other settings span, and what their results say.
 *
 *   sf_study *study;
 *   sf_study_create(&study);
 *   sf_study_add_task(study, "even-pairs");
 *   sf_study_set(study, "attention", "full,topk:5");       a list is an axis of the grid
 *   sf_study_set(study, "seed", "1,2,3");
 *   sf_study_plan(study);                                   checks every run
 *   sf_session_run(store, &(sf_session){.runs = sf_study_runs(study, &count), .count = count});
 *   sf_study_judge(study, store);                           then sf_study_group(study, i), their verdicts */
#ifndef SEMFOCUS_STUDY_H
#define SEMFOCUS_STUDY_H

#include "semfocus/session.h"

typedef struct sf_study sf_study;

sf_status sf_study_create(sf_study **out);
void sf_study_destroy(sf_study *study);
sf_status sf_study_add_task(sf_study *study, const char *task);
/* One value, or a comma-separated list of them. */
sf_status sf_study_set(sf_study *study, const char *name, const char *values);

/* Spans the grid; every run is checked, and identified. */
sf_status sf_study_plan(sf_study *study);
const sf_planned_run *sf_study_runs(const sf_study *study, size_t *count);

enum { SF_VARIANT_SIZE = 192 };

typedef struct sf_group { /* the runs of one task and variant: all but the seed is equal */
    const char *task;
    char name[SF_VARIANT_SIZE]; /* the mechanism, and other settings that vary */
    size_t runs, finished;      /* planned; with all their epochs, stopped at the threshold, or diverged */
    size_t converged, diverged;
    double quartiles[3];                    /* of epochs to 95 % training accuracy; infinite: never */
    double heldout_median;                  /* of epochs to 95 % held-out accuracy */
    double last_heldout, best_heldout, gap; /* medians, percent */
    bool is_baseline;                       /* the others of its task are compared with it */
    double speedup, low, high, p_speed;     /* against the baseline, paired by seed; NaN: cannot be said */
    char sentence[640];                     /* the verdict; empty for the baseline */
} sf_group;

/* Reads the results of the planned runs. Groups come in the order of the plan, task by task. */
sf_status sf_study_judge(sf_study *study, sf_store *store);
size_t sf_study_group_count(const sf_study *study);
const sf_group *sf_study_group(const sf_study *study, size_t i);

/* Seconds an epoch of a run may take on one core, from training a few of its batches. */
sf_status sf_study_epoch_seconds(double *out, const sf_planned_run *run);
/* Runs that a session of this study has under way at a time. */
size_t sf_study_workers(const sf_study *study);

/* The paper's ten seeds, then others drawn from them; for --seeds N. */
uint32_t sf_study_seed(size_t i);

#endif
