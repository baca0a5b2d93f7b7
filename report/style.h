/* How series look: the colour is the mechanism's, the dashes are those of its settings where a grid varies them. Inside
 * a page classes say so; in a file of its own attributes do, because every program reads those. */
#ifndef SF_REPORT_STYLE_H
#define SF_REPORT_STYLE_H

#include <stdint.h>
#include <stdio.h>

#include "semfocus/study.h"

enum { SF_MOST_SERIES = 16, SF_COLOURS = 7, SF_DASHES = 6 }; /* in one figure; colours besides the baseline's */

/* A style number says colour, dashes and which round through the colours it is. 0 is the first baseline of a task. */
size_t sf_figure_style(const sf_study *study, size_t from, size_t group);
size_t sf_style_colour(size_t style);
size_t sf_style_dash(size_t style);
size_t sf_style_without_dashes(size_t style);
size_t sf_style_round(size_t style);    /* mechanisms beyond the colours use them again, with other marks */
const char *sf_style_ink(size_t style); /* the colour for a file that stands alone */
/* The attributes of a line or a band that stands alone; in a page its classes say the same. */
void sf_style_paint(FILE *out, size_t style, bool is_band, bool standalone);

/* A group's name, cut where it is too long for a figure, and how many pixels that takes at most. */
void sf_figure_name(FILE *out, const char *name);
void sf_figure_name_within(FILE *out, const char *name, double width); /* cut also where it would be wider */
double sf_name_width(const char *name);

/* <g class="series ..." data-series data-name, still open for further attributes. */
void sf_series_begin(FILE *out, size_t style, size_t number, const char *name);
/* data-NAME="1 2 3", every step-th and always the last. */
void sf_series_numbers(FILE *out, const char *name, const double *values, size_t count, size_t step);
/* A switch of the legend of a page, for the series of this number; with SF_NO_SWITCH only a name. */
#define SF_NO_SWITCH SIZE_MAX
void sf_legend_item(FILE *out, size_t style, size_t number, const char *name);

/* The legend of a task's groups from..to-1, all that figures show. */
void sf_legend_print(FILE *out, const sf_study *study, size_t from, size_t to);

/* Names under a figure that stands alone, in as many columns as the longest leaves room for. */
typedef struct sf_key {
    const char *name;
    size_t style;
} sf_key;
int sf_keys_height(const sf_key *keys, size_t count, int width);
void sf_keys_draw(FILE *out, const sf_key *keys, size_t count, int width, int top);

#endif
