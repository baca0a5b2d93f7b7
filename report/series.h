/* A group's curves over its seeds: median and quartiles of one quantity, epoch by epoch. */
#ifndef SF_REPORT_SERIES_H
#define SF_REPORT_SERIES_H

#include "base/status.h"
#include "semfocus/study.h"

typedef enum sf_quantity { SF_TRAIN_LOSS, SF_TRAIN_ACCURACY, SF_HELDOUT_ACCURACY, SF_QUANTITIES } sf_quantity;

typedef struct sf_series {
    size_t group;
    size_t runs;                 /* finished ones with a curve */
    size_t epochs;               /* of the longest */
    double *low, *median, *high; /* [epochs], the quartiles; a run that ended earlier keeps its last value */
} sf_series;

sf_status sf_series_open(sf_series *out, const sf_study *study, size_t group, sf_quantity quantity);
void sf_series_close(sf_series *series);

/* The groups of a task are from..to-1; gives the end of the task that begins at `from`. */
size_t sf_task_end(const sf_study *study, size_t from);

#endif
