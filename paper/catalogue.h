/* Internals of the catalogue: an entry is a row of a table that names its studies, what is measured at their runs, and
 * how the numbers become rows of a verdict. */
#ifndef SF_PAPER_CATALOGUE_H
#define SF_PAPER_CATALOGUE_H

#include "semfocus/paper.h"
#include "store/findings.h"

typedef struct sf_paper_plan { /* an entry at a scale */
    /* name, values, ..., NULL as sf_study_set() takes them; "task" adds tasks, "variant" begins a variant. NULL: the
     * entry needs no run. The task "text:" is completed by the name of the text. */
    const char *const *study;
    const char *note;     /* how it departs from the paper */
    const char *text;     /* taken where the user names none (paper/text_source.h); NULL: the entry reads no text */
    size_t grid, samples; /* of a loss surface; samples 0: all */
} sf_paper_plan;

typedef struct sf_paper_probe { /* something measured at the weights of runs */
    const char *title;
    bool (*wants)(const sf_planned_run *run);               /* NULL: every run */
    void (*key)(char out[64], const sf_paper *paper);       /* the finding that says it was done */
    double (*sequences)(const sf_paper *paper, size_t all); /* evaluated for a run */
    sf_status (*measure)(const sf_paper *paper, sf_store *store, const sf_planned_run *plan, const sf_stored_run *run,
                         const sf_paper_watch *watch);
} sf_paper_probe;

/* Which comparisons are corrected together: a figure's question is asked of each task, a claim's once. */
typedef enum sf_paper_family { SF_FAMILY_ENTRY, SF_FAMILY_TASK } sf_paper_family;

typedef sf_status sf_paper_add_rows(sf_paper *paper, sf_store *store); /* of a judged study; the store may be NULL */

typedef struct sf_paper_entry {
    const char *id, *title, *shows;
    const char *statement; /* what the paper says; NULL: nothing */
    const char *ours;      /* what is our reading, or our comparison; NULL: nothing */
    sf_paper_family family;
    const sf_paper_probe *probe; /* NULL: the curves are enough */
    sf_paper_add_rows *add_rows;
    /* One word and sentence for all corrected rows; NULL: sf_rule_overall(). */
    sf_paper_word (*conclude)(char sentence[2 * SF_PAPER_TEXT_SIZE], const sf_paper_row *rows, size_t count);
    sf_paper_plan plans[SF_SCALES];
} sf_paper_entry;

/* Figures and tables, then claims of the text and what is left open there, then questions beyond the paper. */
extern const sf_paper_entry sf_paper_figures[], sf_paper_claims[], sf_paper_beyond[], sf_paper_sequences[],
    sf_paper_pretraining;
extern const size_t sf_paper_figure_count, sf_paper_claim_count, sf_paper_beyond_count, sf_paper_sequence_count;
const sf_paper_entry *sf_paper_entry_at(size_t i); /* NULL past the end */

struct sf_paper {
    const sf_paper_entry *entry;
    const sf_paper_plan *plan;
    sf_paper_scale scale;
    sf_study *study;         /* NULL: it needs no run, or lacks its text */
    char text[SF_PATH_SIZE]; /* TRAIN[,HELDOUT]; "": it reads or has none */
    const char *missing;     /* how to name the text that it lacks; NULL: it lacks none */
    sf_execution execution;  /* of measurements */
    size_t to_measure;       /* of finished and unfinished runs; from sf_paper_judge() */
    sf_paper_row *rows;
    size_t row_count, row_room;
    sf_paper_point *points; /* of all scatter figures, one after the other */
    size_t point_count, point_room;
    sf_paper_scatter *scatters; /* their points are set by sf_paper_judge() */
    size_t scatter_count, scatter_room;
    sf_paper_result result;
};

extern const sf_paper_probe sf_probe_scores, sf_probe_both_scores, sf_probe_surface, sf_probe_masks, sf_probe_lengths,
    sf_probe_distance, sf_probe_sharpness;

/* Errors at multiples of the length trained at: those of sf_probe_lengths, and for a probe with others, at most
 * SF_PAPER_MOST_LENGTHS. */
enum { SF_PAPER_LENGTHS = 3, SF_PAPER_MOST_LENGTHS = 4 };
extern const double sf_paper_lengths[SF_PAPER_LENGTHS];
sf_status sf_paper_measure_lengths(const sf_paper *paper, sf_store *store, const sf_planned_run *plan,
                                   const sf_stored_run *run, const double *factors, size_t count);

/* Names of findings. */
void sf_finding_score(char out[64], sf_weights_at at, sf_measure measure, double percent);
void sf_finding_keys(char out[64]); /* mean number of kept keys at initial weights */
void sf_finding_slope(char out[64], const sf_paper *paper, double radius); /* 95 % Lipschitz constant within it */
void sf_finding_rise(char out[64], const sf_paper *paper); /* mean loss of the surface over that of the weights */
void sf_finding_mask(char out[64], const sf_paper *paper);
void sf_finding_length(char out[64], double factor); /* error in percent at so many times the length */
void sf_finding_distance(char out[64], const sf_paper *paper);

/* Rows of a verdict. From the curves: */
sf_paper_add_rows sf_rows_of_losses;              /* by score: the loss falls sooner; by position: not sooner */
sf_paper_add_rows sf_rows_of_losses_and_accuracy; /* the same; and by score as accurate as full, held out */
sf_paper_add_rows sf_rows_of_arrivals;            /* 95 % training accuracy: by score sooner, by position not sooner */
sf_paper_add_rows sf_rows_of_speed;               /* losses and arrivals */
sf_paper_add_rows sf_rows_of_no_benefit;          /* arrivals; and some mechanism never reaches 100 % */
sf_paper_add_rows sf_rows_of_accuracy;            /* as accurate as full */
sf_paper_add_rows sf_rows_of_fits;                /* full fits its training data */
sf_paper_add_rows sf_rows_of_generalizing;        /* full, where the paper says so and nowhere else */
sf_paper_add_rows sf_rows_of_guessing;            /* held-out accuracy near guessing */
sf_paper_add_rows sf_rows_of_k;                   /* arrivals and accuracy over k */
/* From what was measured: */
sf_paper_add_rows sf_rows_of_dispersion; /* delta_h < delta_s, for each seed */
sf_paper_add_rows sf_rows_of_table;      /* the published quantiles */
sf_paper_add_rows sf_rows_of_slopes;
sf_paper_add_rows sf_rows_of_surfaces;
sf_paper_add_rows sf_rows_of_lengths;
sf_paper_add_rows sf_rows_of_distances;
sf_paper_add_rows sf_rows_of_delta_and_speed; /* these two also leave points */
sf_paper_add_rows sf_rows_of_masks_and_speed;
/* Beyond the paper: */
sf_paper_add_rows sf_rows_of_rivals;     /* dispersion against sharpness; they leave points */
sf_paper_add_rows sf_rows_of_caps;       /* within:t over t */
sf_paper_add_rows sf_rows_of_hitters;    /* other ways to find the heavy hitters against topk:5 */
sf_paper_add_rows sf_rows_of_weightings; /* topk:5 against full under each weighting */
sf_paper_add_rows sf_rows_of_sinks;      /* topk:5 with more keys that all queries keep */
sf_paper_add_rows sf_rows_of_positions;  /* errors at other lengths with and without score transforms */
/* From nothing but formulas: */
sf_paper_add_rows sf_rows_of_condition_w;
sf_paper_add_rows sf_rows_of_condition_x;

#endif
