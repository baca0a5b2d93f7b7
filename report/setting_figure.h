/* Grids: the epochs to convergence against a setting that varies, one line per mechanism. Where several settings vary,
 * each has a figure, with the best of the others at every point. */
#ifndef SF_REPORT_SETTING_FIGURE_H
#define SF_REPORT_SETTING_FIGURE_H

#include <stdio.h>

#include "semfocus/report.h"
#include "semfocus/study.h"

/* Groups from..to-1 are those of one task. Nothing where no setting but the mechanism varies. */
sf_status sf_setting_figures_print(FILE *out, const sf_study *study, size_t from, size_t to);
/* STEM-epochs-by-SETTING.svg and .csv in the folder. */
sf_status sf_setting_figures_write(const sf_study *study, const char *folder, const char *stem, size_t from, size_t to);

extern const sf_figure_info sf_setting_figure_info;

#endif
