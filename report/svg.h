/* Axes and marks in SVG: a frame maps values to places, with ticks at round numbers. */
#ifndef SF_REPORT_SVG_H
#define SF_REPORT_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct sf_scale {
    double low, high; /* of the values */
    bool is_log;
    double from, to; /* places: pixels */
} sf_scale;

double sf_scale_place(const sf_scale *scale, double value);

enum { SF_MOST_TICKS = 32 };
/* Round values within the scale, at most about `wanted` of them; powers of ten on a logarithmic one. */
size_t sf_scale_ticks(double ticks[SF_MOST_TICKS], const sf_scale *scale, size_t wanted, bool whole);

/* Text of HTML and SVG, with its special characters escaped; bytes that are no UTF-8 become '?'. */
void sf_markup_text(FILE *out, const char *text);

/* The name of a mechanism in HTML: a narrow column may break it between its parts. */
void sf_markup_name(FILE *out, const char *name);

/* The number beside a tick. */
enum { SF_TICK_SIZE = 40 };
void sf_svg_tick(FILE *out, double tick, bool is_log);
/* Grid lines and labels along the bottom (horizontal) or left edge of the rectangle the scales span, no more than there
 * is room for. */
void sf_svg_axis(FILE *out, const sf_scale *x, const sf_scale *y, bool horizontal, bool whole, const char *title);
/* How far to the left of the rectangle the labels and the title of the vertical axis reach. */
double sf_svg_axis_room(const sf_scale *y);
/* "M10 20L30 40..." through count points. */
void sf_svg_path(FILE *out, const sf_scale *x, const sf_scale *y, const double *xs, const double *ys, size_t count);

#endif
