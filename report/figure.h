/* The figures of a task, as SVG and as CSV. Inside a page the page's style colours them; alone they have their own. */
#ifndef SF_REPORT_FIGURE_H
#define SF_REPORT_FIGURE_H

#include <stdio.h>

#include "report/series.h"
#include "report/sheet.h"
#include "report/style.h"

typedef struct sf_figure {
    const char *name;     /* of its files */
    const char *title;    /* above it */
    const char *note;     /* how to read it */
    sf_quantity quantity; /* SF_QUANTITIES: the epochs to convergence instead of curves */
} sf_figure;

const sf_figure *sf_figure_at(size_t i); /* NULL past the end */
/* The title and the note in a study, which say what converged means there. */
enum { SF_TITLE_SIZE = 160, SF_ABOUT_SIZE = 1024 };
const char *sf_figure_title(char out[SF_TITLE_SIZE], const sf_figure *figure, const sf_study *study);
const char *sf_figure_note(char out[SF_TITLE_SIZE], const sf_figure *figure, const sf_study *study);

/* <figure id="NAME-NUMBER"> with its caption; sf_figure_end() closes it. */
void sf_figure_begin(FILE *out, const char *name, size_t number, const char *title, const char *note);
void sf_figure_end(FILE *out);

/* Groups from..to-1 are those of one task. */
sf_status sf_figure_draw(FILE *out, const sf_figure *figure, const sf_study *study, size_t from, size_t to,
                         bool standalone);
enum { SF_FILE_STEM_SIZE = 128 }; /* of a task's files */
/* Makes the folder that figures are written to, unless it is there. */
sf_status sf_figures_folder(const char *folder);
sf_status sf_figure_write_csv(FILE *out, const sf_figure *figure, const sf_study *study, size_t from, size_t to);

/* The two kinds: curves (report/curve_figure.c), and the epochs to convergence (report/convergence_figure.c). */
sf_status sf_curves_draw(FILE *out, const sf_figure *figure, const sf_study *study, size_t from, size_t to,
                         bool standalone);
sf_status sf_convergence_draw(FILE *out, const sf_figure *figure, const sf_study *study, size_t from, size_t to,
                              bool standalone);
/* The epoch in which a run converged; 0: in none. */
size_t sf_convergence_of(const sf_study *study, size_t run, bool *finished);
/* Whether the criterion is a value of this quantity. */
bool sf_figure_shows_criterion(sf_quantity quantity, const sf_criterion *criterion);

/* A field of CSV in quotes. */
void sf_csv_text(FILE *out, const char *text);

#endif
