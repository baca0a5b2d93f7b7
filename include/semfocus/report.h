/* The output of a judged study: a page to share, figures, and a plot for the terminal.
 *
 *   sf_study_judge(study, store);
 *   sf_report_write(study, store, "report.html", "semfocus compare even-pairs");
 *   sf_report_write_figures(study, store, "figures"); */
#ifndef SEMFOCUS_REPORT_H
#define SEMFOCUS_REPORT_H

#include "semfocus/api.h"
#include "semfocus/measure.h"
#include "semfocus/study.h"

SF_API_BEGIN

/* Whether a report can be written there; to be called before hours of work. A file that is not a report is not
 * replaced. */
sf_status sf_report_check(const char *path);

/* One HTML file that needs no network and no script; "-" is standard output. `command` reproduces it. */
sf_status sf_report_write(const sf_study *study, sf_store *store, const char *path, const char *command);

/* TASK-FIGURE.svg and TASK-FIGURE.csv for every task and figure; the folder is created if it does not exist. Figures
 * whose data (measures, loss surfaces) is not in the store are left out. */
sf_status sf_report_write_figures(const sf_study *study, sf_store *store, const char *folder);

typedef struct sf_region_point { /* a run compared with full attention at one quantile, for the regions of conditions W
                                    and X */
    char name[SF_VARIANT_SIZE];
    int64_t seed;
    size_t series, style; /* the same for equal names; the style chooses colour and shape */
    sf_comparison at;
} sf_region_point;
/* region-w and region-x as SVG and CSV; only the published 75, 90, 95 and 100 % are drawn. */
sf_status sf_regions_write_figures(const sf_region_point *points, size_t count, const char *folder);

/* Held-out and training accuracy as text of at most `width` columns; release with free(). */
sf_status sf_report_plot(char **out, const sf_study *study, size_t width);

typedef struct sf_figure_info {
    const char *name, *title;
} sf_figure_info;
bool sf_figure_describe(sf_figure_info *out, size_t i); /* false past the end */

SF_API_END

#endif
