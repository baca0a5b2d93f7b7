/* Why mechanisms learn as they do, as far as the store has data on a task's runs: measures over training, the regions
 * of conditions W and X with the runs in them, and loss surfaces. What was never measured is not shown. */
#ifndef SF_REPORT_EVIDENCE_H
#define SF_REPORT_EVIDENCE_H

#include <stdio.h>

#include "semfocus/landscape.h"
#include "semfocus/report.h"
#include "study/measure_history.h"

typedef struct sf_evidence {
    sf_measure_history history;
    sf_region_point *points;
    size_t point_count;
    sf_landscape *landscape; /* NULL: there are no surfaces */
} sf_evidence;

/* Of the groups from..to-1, those of one task. */
sf_status sf_evidence_open(sf_evidence *out, const sf_study *study, sf_store *store, size_t from, size_t to);
void sf_evidence_close(sf_evidence *evidence);

/* A part of the page; nothing where there is nothing. */
sf_status sf_evidence_print(FILE *out, const sf_evidence *evidence);
/* STEM-FIGURE.svg and .csv in the folder. */
sf_status sf_evidence_write(const sf_evidence *evidence, const char *folder, const char *stem);

bool sf_evidence_describe(sf_figure_info *out, size_t i); /* false past the end */

#endif
