/* What a judged study looks like: a page to share, figures, and a plot for the terminal.
 *
 *   sf_study_judge(study, store);
 *   sf_report_write(study, store, "report.html", "semfocus compare even-pairs");
 *   sf_report_write_figures(study, "figures"); */
#ifndef SEMFOCUS_REPORT_H
#define SEMFOCUS_REPORT_H

#include "semfocus/study.h"

/* Whether a report can be written there: asked before hours of work. A file that is no report is not replaced. */
sf_status sf_report_check(const char *path);

/* One HTML file that needs no network and no script; "-" is standard output. `command` makes it again. */
sf_status sf_report_write(const sf_study *study, sf_store *store, const char *path, const char *command);

/* TASK-FIGURE.svg and TASK-FIGURE.csv for every task and figure; the folder is made if it is not there. */
sf_status sf_report_write_figures(const sf_study *study, const char *folder);

/* Held-out and training accuracy as text of at most `width` columns; release with free(). */
sf_status sf_report_plot(char **out, const sf_study *study, size_t width);

typedef struct sf_figure_info {
    const char *name, *title;
} sf_figure_info;
bool sf_figure_describe(sf_figure_info *out, size_t i); /* false past the end */

#endif
