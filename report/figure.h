/* The figures of a task, as SVG and as CSV. Inside a page the page's style colours them; alone they have their own. */
#ifndef SF_REPORT_FIGURE_H
#define SF_REPORT_FIGURE_H

#include <stdio.h>

#include "report/series.h"

enum { SF_MOST_SERIES = 16, SF_COLOURS = 7 }; /* drawn in one figure; colours besides the baseline's */

typedef struct sf_figure {
    const char *name;     /* of its files */
    const char *title;    /* above it */
    const char *note;     /* how to read it */
    sf_quantity quantity; /* SF_QUANTITIES: the epochs to convergence instead of curves */
} sf_figure;

const sf_figure *sf_figure_at(size_t i); /* NULL past the end */
/* The title and the note in a study, which say what converged means there. */
enum { SF_TITLE_SIZE = 160 };
const char *sf_figure_title(char out[SF_TITLE_SIZE], const sf_figure *figure, const sf_study *study);
const char *sf_figure_note(char out[SF_TITLE_SIZE], const sf_figure *figure, const sf_study *study);

/* The beginning of a figure, and for one that stands alone its style. */
void sf_figure_open(FILE *out, const char *task, const char *title, int height, bool standalone);
void sf_figure_style_alone(FILE *out, int height);
enum { SF_FIGURE_WIDTH = 640, SF_FIGURE_HEIGHT = 360 };

/* Groups from..to-1 are those of one task. */
sf_status sf_figure_draw(FILE *out, const sf_figure *figure, const sf_study *study, size_t from, size_t to,
                         bool standalone);
enum { SF_FILE_STEM_SIZE = 128 }; /* of a task's files */
/* Makes the folder that figures are written to, unless it is there. */
sf_status sf_figures_folder(const char *folder);
sf_status sf_figure_write_csv(FILE *out, const sf_figure *figure, const sf_study *study, size_t from, size_t to);

/* A group's name, cut where it is too long for a figure. */
void sf_figure_name(FILE *out, const char *name);
/* A field of CSV in quotes. */
void sf_csv_text(FILE *out, const char *text);

/* Names under a figure that stands alone, as many columns as the longest leaves room for. */
typedef struct sf_keys {
    const sf_study *study;
    size_t from, to; /* at most the first SF_MOST_SERIES of them */
} sf_keys;
int sf_keys_height(const sf_keys *keys);
void sf_keys_draw(FILE *out, const sf_keys *keys, int top);

/* The style number of a group within its task: 0 for its first baseline. Colour is 0 or 1 + (style - 1) % SF_COLOURS.
 */
size_t sf_figure_style(const sf_study *study, size_t from, size_t group);
size_t sf_style_colour(size_t style);
size_t sf_style_dash(size_t style);
const char *sf_style_ink(size_t style); /* the colour for a file that stands alone */
/* The attributes of a line or a band that stands alone; in a page its classes say the same. */
void sf_style_paint(FILE *out, size_t style, bool is_band, bool standalone);

#endif
