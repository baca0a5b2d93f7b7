/* Quantiles of a recorded measure over training, by group: the median over seeds of four quantiles, one panel each. */
#ifndef SF_REPORT_MEASURED_FIGURE_H
#define SF_REPORT_MEASURED_FIGURE_H

#include <stdio.h>

#include "study/measure_history.h"

/* Whether any run has values of it. */
bool sf_measured_is_there(const sf_measure_history *history, sf_measure measure);
sf_status sf_measured_draw(FILE *out, const sf_measure_history *history, sf_measure measure, const char *title,
                           const char *axis, bool standalone);
sf_status sf_measured_write_csv(FILE *out, const sf_measure_history *history, sf_measure measure);

#endif
