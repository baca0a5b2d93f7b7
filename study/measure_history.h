/* What training with --every recorded for the runs of a study: quantiles over all blocks, epoch by epoch. */
#ifndef SF_STUDY_MEASURE_HISTORY_H
#define SF_STUDY_MEASURE_HISTORY_H

#include "semfocus/measure.h"
#include "study/study.h"

enum { SF_HISTORY_MEASURES = SF_ENTROPY + 1 }; /* the first of sf_measure */

typedef struct sf_measure_row {
    size_t epoch;                                 /* 0: at initialization */
    double at[SF_HISTORY_MEASURES][SF_QUANTILES]; /* NaN: not defined */
} sf_measure_row;

typedef struct sf_measure_history { /* of the groups from..to-1 of a study */
    const sf_study *study;
    size_t from, to;
    struct {
        size_t first, count;
    } * runs; /* [run_count]: places of their rows, by epoch; only of runs that count as finished */
    sf_measure_row *rows;
    size_t row_count, row_room;
} sf_measure_history;

sf_status sf_measure_history_open(sf_measure_history *out, const sf_study *study, sf_store *store, size_t from,
                                  size_t to);
void sf_measure_history_close(sf_measure_history *history);

/* A run with full attention and its partner by score, at the newest epoch that both were measured at. */
typedef struct sf_measure_pair {
    size_t group, run; /* of the partner */
    sf_comparison at[SF_QUANTILES];
} sf_measure_pair;

/* Every pair of one seed whose settings differ in the mechanism alone; release *out. */
sf_status sf_measure_history_pairs(sf_measure_pair **out, size_t *count, const sf_measure_history *history);

#endif
