/* Four panels, two by two, that share their axes: one per quantile. */
#ifndef SF_REPORT_PANELS_H
#define SF_REPORT_PANELS_H

#include "report/svg.h"

enum {
    SF_PANELS = 4,
    SF_PANEL_WIDTH = 265,
    SF_PANEL_HEIGHT = 200,
    SF_PANELS_LEFT = 64,
    SF_PANELS_TOP = 26,
    SF_PANELS_GAP = 34,
    SF_PANELS_WIDTH = SF_PANELS_LEFT + 2 * SF_PANEL_WIDTH + SF_PANELS_GAP + 12,
    SF_PANELS_HEIGHT = SF_PANELS_TOP + 2 * SF_PANEL_HEIGHT + SF_PANELS_GAP + 50
};

typedef struct sf_panels {
    sf_scale x, y;
} sf_panels;

/* Moves the scales to panel i and draws its grid, title and, at the edges of the whole, numbers. */
void sf_panels_frame(FILE *out, sf_panels *panels, size_t i, const char *title, bool whole_x);
/* The labels of the shared axes. */
void sf_panels_axes(FILE *out, const char *x, const char *y);

#endif
