/* Four quantiles of something against epochs or radii, for several series. Up to six series: one panel per quantile;
 * more: one panel per series with all its quantiles, the higher the darker. All panels share their axes. */
#ifndef SF_REPORT_QUANTILE_LINES_H
#define SF_REPORT_QUANTILE_LINES_H

#include <stdbool.h>
#include <stdio.h>

#include "report/style.h"

enum { SF_LINE_QUANTILES = 4 };

typedef struct sf_quantile_series {
    const char *name;
    size_t number, style; /* of the legend */
    size_t count;
    const double *x;                           /* [count] */
    const double (*values)[SF_LINE_QUANTILES]; /* [count]; NaN: none there */
} sf_quantile_series;

typedef struct sf_quantile_figure {
    const char *about;                     /* for those who do not see it */
    const char *subject;                   /* of the last value of every line: "Dispersion at the end of training" */
    const char *x_title, *y_title;         /* of the axes */
    const char *titles[SF_LINE_QUANTILES]; /* of the panels: "50 %" */
    double x_low, x_high;
    bool whole_x; /* only whole numbers at the axis */
    bool no_log;
    const sf_quantile_series *series;
    size_t count; /* at most SF_MOST_SERIES */
} sf_quantile_figure;

void sf_quantile_lines_draw(FILE *out, const sf_quantile_figure *figure, bool standalone);

#endif
