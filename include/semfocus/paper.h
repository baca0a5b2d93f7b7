/* The paper "Transformers Learn Faster with Semantic Focus" as a catalogue: one entry per figure, table, claim and
 * open question, each with the study it needs, a statement that can be checked (the paper's, or ours where it leaves
 * something open), and a verdict from our runs.
 *
 *   sf_paper *paper;
 *   sf_paper_find(&entry, "tab-6");
 *   sf_paper_open(&paper, entry, SF_LAPTOP, SF_F32, 0);        plans its study
 *   sf_session_run(store, ...sf_paper_study(paper)...);        trains what is missing
 *   sf_paper_measure(paper, store, &watch);                    measures what is missing, into the store
 *   sf_paper_judge(paper, store);
 *   sf_paper_result_of(paper)->sentence
 *   sf_paper_close(paper);
 *
 * Verdicts come from what the store holds: without training and measuring, judging reports what is there already. */
#ifndef SEMFOCUS_PAPER_H
#define SEMFOCUS_PAPER_H

#include "semfocus/api.h"
#include "semfocus/loss_speedup.h"
#include "semfocus/measure.h"
#include "semfocus/study.h"

SF_API_BEGIN

typedef enum sf_paper_word {
    SF_NOT_RUN,             /* none of its runs is finished */
    SF_NOT_ENOUGH_RUNS,     /* some runs are missing, or the seeds are too few for a test */
    SF_NO_DIFFERENCE_FOUND, /* tested, and not significant in either direction */
    SF_AGREES,              /* significant, in the direction that is stated */
    SF_DISAGREES,           /* significant, against it */
    SF_MIXED,               /* some comparisons agree and others disagree */
    SF_SHOWN,               /* numbers without a judgement: nothing is stated, or one seed cannot be tested */
    SF_NEEDS_TEXT,          /* it is about a text, and none was named yet */
    SF_PAPER_WORDS
} sf_paper_word;
const char *sf_paper_word_text(sf_paper_word word); /* "not run", "not enough runs", "no difference found", ... */
const char *sf_paper_scale_name(sf_paper_scale scale);

typedef struct sf_paper_info {
    const char *id, *title;
    const char *shows;     /* what the figure shows, or what a claim is about */
    const char *statement; /* what the paper says there; "": nothing, or it is no part of the paper */
    const char *ours;      /* what we compare and how we read it: ours, not the paper's; "": nothing */
    const char *note;      /* how the scale departs from the paper; "": not at all */
    bool is_formula;       /* it needs no run, and no store */
    bool reads_text;       /* of the user, or one that is taken otherwise */
} sf_paper_info;

size_t sf_paper_count(void);
sf_paper_info sf_paper_describe(size_t entry, sf_paper_scale scale);
/* Unknown ids are SF_BAD_INPUT and name the nearest one. */
sf_status sf_paper_find(size_t *out, const char *id);

typedef struct sf_paper sf_paper; /* an entry at a scale */

/* What is not the entry's to choose. */
typedef struct sf_paper_machine {
    sf_precision precision;   /* of the runs */
    const char *architecture; /* the same; NULL or "": that of the device */
    sf_execution execution;   /* for runs and measurements */
    const char *text;         /* TRAIN[,HELDOUT] for entries about text; NULL or "": the one that the store remembers */
    const char *store;        /* its folder; NULL or "": none */
    bool prepares;            /* may write a text into the store, and remember it there */
} sf_paper_machine;

/* Plans the study; machine NULL: the defaults. */
sf_status sf_paper_open(sf_paper **out, size_t entry, sf_paper_scale scale, const sf_paper_machine *machine);
void sf_paper_close(sf_paper *paper);
const sf_study *sf_paper_study(const sf_paper *paper); /* NULL: it needs no run, or lacks its text */
/* How to name the text that the entry lacks; NULL: it lacks none. */
const char *sf_paper_missing(const sf_paper *paper);
/* SF_CONDITION_W or SF_CONDITION_X for a figure of formulas, which needs no run; otherwise SF_MEASURES. */
sf_measure sf_paper_condition(const sf_paper *paper);

enum { SF_PAPER_VALUES_SIZE = 1024 };
/* The values of a setting (or "task") over the planned runs of a task (NULL: of all), each once, in the order of the
 * plan: "full, topk:5". Returns how many there are; 0 without a study. */
size_t sf_paper_values(char out[SF_PAPER_VALUES_SIZE], const sf_paper *paper, const char *task, const char *setting);
/* Whether the entry itself chooses the value of a setting of data, model or training, which is then not the
 * recipe's. */
bool sf_paper_chooses(const sf_paper *paper, const sf_setting *setting);

typedef struct sf_paper_watch {
    const sf_stop_flag *stop; /* not 0: keep what is done and return; may be NULL */
    void (*on_progress)(void *context, size_t done, size_t total, const char *what); /* may be NULL */
    void *context;
} sf_paper_watch;

/* Measures what the entry needs of the finished runs and stores it; what is stored already is not measured again.
 * SF_INTERRUPTED if stopped. */
sf_status sf_paper_measure(sf_paper *paper, sf_store *store, const sf_paper_watch *watch);

enum { SF_PAPER_TEXT_SIZE = 512 };

typedef struct sf_paper_row { /* one comparison of the entry */
    char what[SF_PAPER_TEXT_SIZE], numbers[SF_PAPER_TEXT_SIZE];
    sf_paper_word word;
    bool judged;      /* by a test; otherwise it is only shown */
    size_t seeds;     /* in the test; 0: none yet */
    const char *unit; /* what `seeds` counts: "seed", or "point" of a scatter figure */
    double least_p;   /* the smallest p-value that this many seeds can give */
    double p;         /* before correction; NaN: there is nothing to test yet */
    bool favours;     /* the difference lies in the direction that is stated */
    size_t family;    /* comparisons with equal numbers are corrected together */
    const char *of;   /* the explanation that predicts it, where an entry compares several; otherwise NULL */
    size_t together;  /* number of comparisons in the family */
    double corrected; /* p after Holm's correction; NaN as for p */
    bool has_loss;    /* it is about the training loss, and there are curves */
    sf_loss_speedup loss;
} sf_paper_row;

typedef struct sf_paper_point { /* of a scatter figure */
    char name[64];              /* label of the point */
    const char *series;
    double x, y;
    bool censored; /* y is only a lower bound: it was not reached in so many epochs */
} sf_paper_point;

typedef struct sf_paper_scatter { /* a scatter figure */
    char name[64];                /* of its files */
    const char *x_title, *y_title;
    const sf_paper_point *points; /* [count] */
    size_t count;                 /* at least 1 */
} sf_paper_scatter;

typedef struct sf_paper_result {
    sf_paper_word word;
    char sentence[2 * SF_PAPER_TEXT_SIZE];
    size_t runs, finished;
    const sf_paper_row *rows; /* [row_count] */
    size_t row_count;
    const sf_paper_scatter *scatters; /* [scatter_count] */
    size_t scatter_count;             /* 0: the entry has no scatter figure, or there are no points yet */
} sf_paper_result;

/* Uses only what the store holds; store NULL: there is none yet. */
sf_status sf_paper_judge(sf_paper *paper, sf_store *store);
const sf_paper_result *sf_paper_result_of(const sf_paper *paper);

/* How long an epoch takes on this machine, measured once per kind of attention and for short and long sequences. */
typedef struct sf_paper_rates {
    double seconds[10]; /* per unit of work; 0: not measured yet */
} sf_paper_rates;
/* Seconds that all the missing runs and measurements of a judged entry take at most, on all cores. NaN: that depends on
 * a text. */
sf_status sf_paper_cost(double *seconds, const sf_paper *paper, sf_paper_rates *rates);

typedef struct sf_paper_page { /* what sf_paper_write() writes */
    sf_paper_scale scale;      /* SF_SCALES: laptop and paper */
    const size_t *entries;     /* [count] */
    size_t count;              /* 0: every entry */
} sf_paper_page;
/* Writes Markdown: what each entry shows and states, its command and our result, from the store alone (NULL: there is
 * none). "-" is standard output. A file that this function did not write is not replaced; text after the generated part
 * is kept. */
sf_status sf_paper_write(const char *path, const sf_paper_page *page, sf_store *store, const sf_paper_machine *machine);

/* The figures of a judged entry as SVG and their data as CSV, in folder/id; both are created if they do not exist. */
sf_status sf_paper_write_figures(const sf_paper *paper, const char *id, sf_store *store, const char *folder);

/* What figures 21 and 22 vary. */
enum { SF_PAPER_DISPERSIONS = 11, SF_PAPER_SINK_RATIOS = 6 };
extern const double sf_paper_dispersions[SF_PAPER_DISPERSIONS]; /* delta_s */
extern const double sf_paper_sink_ratios[SF_PAPER_SINK_RATIOS]; /* beta */

SF_API_END

#endif
