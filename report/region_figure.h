/* Where conditions W and X hold in the plane of c1 = delta_h / delta_s and c2 = Delta_h / delta_s, with measured points
 * in it: one panel per quantile. The condition bounds c1 from above, by a curve that depends on delta_s (and beta). */
#ifndef SF_REPORT_REGION_FIGURE_H
#define SF_REPORT_REGION_FIGURE_H

#include <stdio.h>

#include "semfocus/report.h"

/* Whether there is a point that can be drawn. */
bool sf_region_is_there(const sf_region_point *points, size_t count);
/* `condition` is SF_CONDITION_W or SF_CONDITION_X. */
sf_status sf_region_draw(FILE *out, sf_measure condition, const sf_region_point *points, size_t count, bool standalone);
sf_status sf_region_write_csv(FILE *out, sf_measure condition, const sf_region_point *points, size_t count);

#endif
