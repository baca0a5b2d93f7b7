/* Contour lines by marching squares: on each square of four neighbouring grid points a level is crossed on two of its
 * sides, at the place linear interpolation gives; where it is crossed on all four, the mean of the corners says which
 * crossings belong together. Squares with a value that is not finite are left out. */
#ifndef SF_REPORT_CONTOUR_H
#define SF_REPORT_CONTOUR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct sf_contour_point { /* in units of the grid: column and row, from 0 */
    double x, y;
} sf_contour_point;

typedef struct sf_contour_line {
    size_t first, count; /* of the points */
    bool closed;
} sf_contour_line;

typedef struct sf_contour {
    sf_contour_point *points;
    size_t point_count;
    sf_contour_line *lines;
    size_t line_count;
} sf_contour;

/* The lines on which values equal the level. */
sf_status sf_contour_trace(sf_contour *out, const double *values /* [rows,columns] */, size_t rows, size_t columns,
                           double level);
void sf_contour_close(sf_contour *contour);

#endif
