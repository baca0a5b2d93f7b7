/* A study: runs that differ in task, mechanism, seed and other settings, and what their results say.
 *
 *   sf_study *study;
 *   sf_study_create(&study);
 *   sf_study_add_tasks(study, "even-pairs");
 *   sf_study_set(study, "attention", "full,topk:5");       a list is an axis of the grid
 *   sf_study_set(study, "seeds", "10");
 *   sf_study_plan(study);                                   checks every run
 *   sf_session_run(store, &(sf_session){.runs = sf_study_runs(study, &count), .count = count});
 *   sf_study_judge(study, store);                           then sf_study_group(study, i), their verdicts
 *
 * By default, a study compares full,topk:5 over six seeds, the fewest that allow a test. */
#ifndef SEMFOCUS_STUDY_H
#define SEMFOCUS_STUDY_H

#include "semfocus/api.h"
#include "semfocus/criterion.h"
#include "semfocus/session.h"

SF_API_BEGIN

typedef struct sf_study sf_study;

sf_status sf_study_create(sf_study **out);
void sf_study_destroy(sf_study *study);

/* A task, or a comma-separated list of built-in ones. */
sf_status sf_study_add_tasks(sf_study *study, const char *tasks);
/* One value, or a comma-separated list of them. */
sf_status sf_study_set(sf_study *study, const char *name, const char *values);
/* The same for one value only; it overrides everything set otherwise, also in variants and files. */
sf_status sf_study_override(sf_study *study, const char *name, const char *values);
sf_status sf_study_override_one(sf_study *study, const char *name, const char *value);
/* Tasks and settings from here on are those of a variant of this name, on top of what was set before the first one. */
sf_status sf_study_add_variant(sf_study *study, const char *name);
/* Tasks, settings and variants of a study file: name = value lines, before any [section] or under [defaults] for all
 * runs, under another [section] for a variant of that name. Later settings override the file. Failures name
 * file:line. `path` must outlive the study. */
sf_status sf_study_read(sf_study *study, const char *path);
/* The settings of the study itself (store, threads, ...), as far as they were set. */
void sf_study_options(sf_options *out, const sf_study *study);

/* When a run counts as converged, "95" (percent training accuracy, the default) or "loss:0.1": a property of the study,
 * not of a run. */
sf_status sf_study_converge_at(sf_study *study, const char *text);
const sf_criterion *sf_study_criterion(const sf_study *study);

/* Before planning: sets the number of seeds to `count` more than the store has of this study, from the first seed on.
 * A store of NULL has none. */
sf_status sf_study_add_seeds(sf_study *study, sf_store *store, size_t count);
/* Expands the grids; checks every run and computes its id. */
sf_status sf_study_plan(sf_study *study);
/* Refuses a plan whose runs would stop before they meet the study's criterion, which sf_study_judge() looks for. */
sf_status sf_study_check_stops(const sf_study *study);
/* Instead: the runs a store holds, or those for which the SQL condition holds. */
sf_status sf_study_plan_stored(sf_study *study, sf_store *store, const char *where);
/* Each run once, in the order of the plan. */
const sf_planned_run *sf_study_runs(const sf_study *study, size_t *count);

enum { SF_VARIANT_SIZE = 192 };

/* What a comparison says about one question: speed, or held-out accuracy. */
typedef enum sf_conclusion {
    SF_UNTOLD,         /* nothing to compare: neither converged, or was never measured */
    SF_TOO_FEW_SEEDS,  /* for a test */
    SF_NO_DIFFERENCE,  /* none was found, which does not mean that they are equal */
    SF_EQUAL,          /* the interval of the difference lies within a margin */
    SF_BETTER,         /* faster, or more accurate: significant after correction */
    SF_WORSE,          /* slower, or less accurate: likewise */
    SF_BOTH_AT_CHANCE, /* accuracy only */
    SF_CONCLUSIONS
} sf_conclusion;
const char *
sf_conclusion_word(sf_conclusion finding); /* "untold", "too few seeds", "no difference found", "equal", ... */

typedef struct sf_group { /* the runs of one task and variant, which differ only in the seed */
    const char *task;
    char name[SF_VARIANT_SIZE]; /* the mechanism, and other settings that vary; or the variant */
    size_t runs, begun;         /* planned; with at least one epoch, or diverged */
    size_t finished;            /* with all their epochs, stopped at the threshold, or diverged */
    size_t converged, diverged;
    size_t longest;        /* epochs of its longest finished run */
    double quartiles[3];   /* of epochs to the criterion; infinite: not reached in their epochs, NaN: ended too early
                              to tell */
    double heldout_median; /* of epochs to the same value on the held-out set; likewise */
    double last_heldout;   /* median after the last epoch, percent; NaN: no run was ever measured */
    double best_heldout;   /* median of the best epochs, which the held-out set itself chose */
    double gap;            /* median of training minus held-out accuracy after the last epoch */
    double chance;         /* percent: always giving the most frequent label; NaN: the data no longer exists */
    bool at_chance;        /* last_heldout does not differ from guessing */
    double epoch_seconds;  /* median; NaN: not measured, or these runs did not share the machine equally with one
                              another and with the baseline's */
    size_t baseline;       /* index of the group it is compared with; its own index: none */
    double speedup, low, high;                      /* against the baseline, paired by seed; NaN: unknown */
    bool at_least, at_most;                         /* the speed-up is only a bound: some runs did not converge */
    double p_speed, p_accuracy;                     /* before correction */
    double corrected_p_speed, corrected_p_accuracy; /* for all comparisons of the task */
    size_t speed_tests, accuracy_tests;             /* number of these comparisons */
    double accuracy_difference, accuracy_low, accuracy_high; /* after the last epoch, points */
    sf_conclusion speed, accuracy;
    const char *sentence;      /* the verdict; empty for the baseline */
    size_t mechanism;          /* the first group of the same mechanism on the same data; these groups form a grid */
    size_t rival;              /* the first group of the mechanism that this one is compared with there */
    bool is_best;              /* the setting of that grid with which it converges soonest */
    size_t best_rival;         /* the baseline's mechanism at its best setting; its own index: none */
    const char *best_sentence; /* the verdict between these two; empty: there is none */
    const char *note;          /* which requested mechanisms are the same as this one, and why; or empty */
} sf_group;

/* Reads the results of the planned runs. Groups come in the order of the plan, task by task. */
sf_status sf_study_judge(sf_study *study, sf_store *store);
size_t sf_study_group_count(const sf_study *study);
const sf_group *sf_study_group(const sf_study *study, size_t i);
/* Run `member` of the group, of group->runs: an index into sf_study_runs(). */
size_t sf_study_member(const sf_study *study, size_t group, size_t member);
/* The epoch in which a finished run met the criterion; 0: in none. */
size_t sf_study_arrival(const sf_study *study, size_t run);
/* The curves alone, without verdicts, at one moment of the store; NULL: there is none yet. */
sf_status sf_study_read_curves(sf_study *study, sf_store *store);
/* The curve of a run as one of the two read it, up to the requested epochs; *finished says whether it counts. */
const sf_epoch *sf_study_curve(const sf_study *study, size_t run, size_t *count, bool *finished);

/* Whether a session would find nothing to do for the run: its results and checkpoints are in the store. */
bool sf_study_is_done(const sf_study *study, size_t run);

/* Seconds that an epoch of a run may take on one core, estimated by training a few of its batches. */
sf_status sf_study_epoch_seconds(double *out, const sf_planned_run *run);
/* How many runs a session of this study trains at a time; threads 0: one per core. */
size_t sf_study_workers(const sf_study *study, size_t threads);

/* The i-th seed of a study with a given number of seeds: the paper's ten, then others drawn from them. */
uint32_t sf_study_seed(size_t i);

SF_API_END

#endif
