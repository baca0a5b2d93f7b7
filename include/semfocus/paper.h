/* The paper "Transformers Learn Faster with Semantic Focus" as a catalogue: one entry per figure, table and claim, each
 * with the study it needs, what the paper says as a statement that can be checked, and a verdict from our runs.
 *
 *   sf_paper *paper;
 *   sf_paper_find(&entry, "table-dispersion");
 *   sf_paper_open(&paper, entry, SF_LAPTOP, &config);         plans its study
 *   sf_session_run(store, ...sf_paper_study(paper)...);        trains what is missing
 *   sf_paper_measure(paper, store, &watch);                    measures what is missing, into the store
 *   sf_paper_judge(paper, store);
 *   sf_paper_result_of(paper)->sentence
 *   sf_paper_close(paper);
 *
 * Verdicts come from what the store holds: without training and measuring, judging tells what was reached before. */
#ifndef SEMFOCUS_PAPER_H
#define SEMFOCUS_PAPER_H

#include "semfocus/study.h"

typedef enum sf_paper_word { SF_NOT_ENOUGH_RUNS, SF_AGREES, SF_DISAGREES } sf_paper_word;
const char *sf_paper_word_text(sf_paper_word word); /* "not enough runs", "agrees", "disagrees" */
const char *sf_paper_scale_name(sf_paper_scale scale);

typedef struct sf_paper_info {
    const char *id, *title;
    const char *statement;   /* what the paper says */
    const char *unavailable; /* why it cannot be run here; NULL: it can */
    const char *note;        /* how the scale departs from the paper; "": not at all */
} sf_paper_info;

size_t sf_paper_count(void);
sf_paper_info sf_paper_describe(size_t entry, sf_paper_scale scale);
/* Unknown ids are SF_BAD_INPUT and name the nearest one. */
sf_status sf_paper_find(size_t *out, const char *id);

typedef struct sf_paper sf_paper; /* an entry at a scale */

/* Plans the study. Of `config`, what says where and how to compute counts (threads, precision, checkpoint-seconds...).
 */
sf_status sf_paper_open(sf_paper **out, size_t entry, sf_paper_scale scale, const sf_config *config);
void sf_paper_close(sf_paper *paper);
const sf_study *sf_paper_study(const sf_paper *paper); /* NULL: the entry cannot be run here */

typedef struct sf_paper_watch {
    const atomic_int *stop; /* not 0: keep what is done and return; may be NULL */
    void (*on_progress)(void *context, size_t done, size_t total, const char *what); /* may be NULL */
    void *context;
} sf_paper_watch;

/* Measures what the entry needs at the finished runs and keeps it in the store; what is there is not measured again.
 * SF_INTERRUPTED if stopped. */
sf_status sf_paper_measure(sf_paper *paper, sf_store *store, const sf_paper_watch *watch);

enum { SF_PAPER_TEXT_SIZE = 384 };

typedef struct sf_paper_row { /* one comparison of the entry */
    char what[SF_PAPER_TEXT_SIZE], numbers[SF_PAPER_TEXT_SIZE];
    sf_paper_word word;
} sf_paper_row;

typedef struct sf_paper_result {
    sf_paper_word word;
    char sentence[2 * SF_PAPER_TEXT_SIZE];
    size_t runs, finished;
    const sf_paper_row *rows; /* [row_count] */
    size_t row_count;
} sf_paper_result;

/* From what the store holds; NULL: there is none yet. */
sf_status sf_paper_judge(sf_paper *paper, sf_store *store);
const sf_paper_result *sf_paper_result_of(const sf_paper *paper);

/* What an epoch costs here, measured once for each kind of attention and for short and long sequences. */
typedef struct sf_paper_rates {
    double seconds[8]; /* per unit of work; 0: not measured yet */
} sf_paper_rates;
/* Seconds that all the missing runs and measurements of a judged entry take at most, on all cores. */
sf_status sf_paper_cost(double *seconds, const sf_paper *paper, sf_paper_rates *rates);

/* Claim, command and what we got of every entry, as Markdown, from the store alone (NULL: there is none). "-" is
 * standard output. A file that was not made by this is not replaced. */
sf_status sf_paper_write(const char *path, sf_store *store, const sf_config *config);

#endif
