/* Named points in a plane, in one or more series. */
#ifndef SF_REPORT_SCATTER_FIGURE_H
#define SF_REPORT_SCATTER_FIGURE_H

#include <stdio.h>

#include "semfocus/paper.h"

/* Censored points are triangles. */
void sf_scatter_draw(FILE *out, const sf_paper_scatter *scatter);
void sf_scatter_write_csv(FILE *out, const sf_paper_scatter *scatter);

#endif
