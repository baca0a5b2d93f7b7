/* Figures 21 and 22 of the paper: for each c1 = delta_h / delta_s the least c2 = Delta_h / delta_s that satisfies
 * condition W or X, one line per delta_s and, for X, one panel per beta. Formulas only, no run. */
#ifndef SF_REPORT_CONDITION_FIGURE_H
#define SF_REPORT_CONDITION_FIGURE_H

#include <stdio.h>

#include "semfocus/paper.h"

/* `condition` is SF_CONDITION_W or SF_CONDITION_X. */
void sf_condition_draw(FILE *out, sf_measure condition);
void sf_condition_write_csv(FILE *out, sf_measure condition);

#endif
