/* Inside of the catalogue: an entry is a row of a table that names its studies, what is measured at their runs, and how
 * the numbers become rows of a verdict. */
#ifndef SF_LAB_CATALOGUE_H
#define SF_LAB_CATALOGUE_H

#include "lab/findings.h"
#include "semfocus/paper.h"

typedef struct sf_paper_plan { /* an entry at a scale */
    /* name, values, ..., NULL as sf_study_set() takes them; "task" adds tasks, "variant" begins a variant. NULL: the
     * entry cannot be run here. */
    const char *const *study;
    const char *note;     /* how it departs from the paper */
    size_t fewest;        /* seeds that a word needs */
    size_t grid, samples; /* of a loss surface; samples 0: all */
} sf_paper_plan;

typedef struct sf_paper_probe { /* something measured at the last weights of runs */
    const char *title;
    bool (*wants)(const sf_planned_run *run);               /* NULL: every run */
    void (*key)(char out[64], const sf_paper *paper);       /* the finding that says it was done */
    double (*sequences)(const sf_paper *paper, size_t all); /* evaluated for a run */
    sf_status (*measure)(const sf_paper *paper, sf_store *store, const sf_planned_run *plan, const sf_stored_run *run,
                         const sf_paper_watch *watch);
} sf_paper_probe;

typedef struct sf_paper_entry {
    const char *id, *title, *statement, *unavailable;
    const sf_paper_probe *probe;                             /* NULL: the curves are enough */
    sf_status (*add_rows)(sf_paper *paper, sf_store *store); /* of a judged study; the store may be NULL */
    sf_paper_plan plans[SF_SCALES];
} sf_paper_entry;

const sf_paper_entry *sf_paper_entry_at(size_t i); /* NULL past the end */

struct sf_paper {
    const sf_paper_entry *entry;
    const sf_paper_plan *plan;
    sf_paper_scale scale;
    sf_study *study; /* NULL: cannot be run here */
    size_t threads;
    size_t to_measure; /* of finished and unfinished runs; from sf_paper_judge() */
    sf_paper_row *rows;
    size_t row_count, row_room;
    sf_paper_result result;
};

extern const sf_paper_probe sf_probe_scores, sf_probe_surface, sf_probe_masks, sf_probe_lengths, sf_probe_distance;

/* Names of findings. */
void sf_finding_score(char out[64], int measure, double percent);
void sf_finding_slope(char out[64], const sf_paper *paper, double radius); /* 95 % Lipschitz constant within it */
void sf_finding_rise(char out[64], const sf_paper *paper); /* mean loss of the surface over that of the weights */
void sf_finding_mask(char out[64], const sf_paper *paper);
void sf_finding_length(char out[64], size_t i); /* error in percent at 1.5, 2.5, 5 times the length */
void sf_finding_distance(char out[64], const sf_paper *paper);

/* Rows of a verdict. */
sf_status sf_rows_of_curves(sf_paper *paper, sf_store *store);   /* by score: sooner; by position: not sooner */
sf_status sf_rows_of_accuracy(sf_paper *paper, sf_store *store); /* as accurate as full */
sf_status sf_rows_of_fits(sf_paper *paper, sf_store *store);     /* full fits its training data */
sf_status sf_rows_of_generalizing(sf_paper *paper,
                                  sf_store *store);                /* full, where the paper says so and nowhere else */
sf_status sf_rows_of_guessing(sf_paper *paper, sf_store *store);   /* held-out accuracy near guessing */
sf_status sf_rows_of_dispersion(sf_paper *paper, sf_store *store); /* delta_h < delta_s, seed by seed */
sf_status sf_rows_of_table(sf_paper *paper, sf_store *store);      /* the published quantiles */
sf_status sf_rows_of_condition_w(sf_paper *paper, sf_store *store);
sf_status sf_rows_of_condition_x(sf_paper *paper, sf_store *store);
sf_status sf_rows_of_slopes(sf_paper *paper, sf_store *store);
sf_status sf_rows_of_surfaces(sf_paper *paper, sf_store *store);
sf_status sf_rows_of_lengths(sf_paper *paper, sf_store *store);
sf_status sf_rows_of_distances(sf_paper *paper, sf_store *store);
sf_status sf_rows_of_k(sf_paper *paper, sf_store *store);
sf_status sf_rows_of_delta_and_speed(sf_paper *paper, sf_store *store);
sf_status sf_rows_of_masks_and_speed(sf_paper *paper, sf_store *store);

#endif
