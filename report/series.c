#include "report/series.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "study/statistics.h"

static double value_of(const sf_epoch *row, sf_quantity quantity) {
    switch (quantity) {
    case SF_TRAIN_LOSS:
        return row->train_loss;
    case SF_TRAIN_ACCURACY:
        return row->train_accuracy;
    default:
        return row->heldout_accuracy;
    }
}

typedef struct curve_view {
    const sf_epoch *rows;
    size_t count;
} curve_view;

static size_t look_at_curves(curve_view *out, const sf_study *study, size_t group) {
    size_t used = 0;
    for (size_t m = 0; m < sf_study_group(study, group)->runs; m++) {
        bool finished;
        curve_view view;
        view.rows = sf_study_curve(study, sf_study_member(study, group, m), &view.count, &finished);
        if (finished && view.count > 0) out[used++] = view;
    }
    return used;
}

static void summarize(sf_series *out, const curve_view *curves, sf_quantity quantity, double *values) {
    for (size_t e = 0; e < out->epochs; e++) {
        for (size_t i = 0; i < out->runs; i++) {
            const size_t last = curves[i].count - 1;
            values[i] = value_of(&curves[i].rows[e < last ? e : last], quantity);
        }
        sf_quartiles(values, out->runs, &out->low[e], &out->median[e], &out->high[e]);
    }
}

sf_status sf_series_open(sf_series *out, const sf_study *study, size_t group, sf_quantity quantity) {
    const size_t most = sf_study_group(study, group)->runs;
    curve_view *curves = NULL;
    double *values = NULL;
    *out = (sf_series){.group = group};
    sf_status status = SF_NEW(&curves, most);
    if (status == SF_OK) status = SF_NEW(&values, most);
    if (status == SF_OK) out->runs = look_at_curves(curves, study, group);
    for (size_t i = 0; i < out->runs; i++)
        if (curves[i].count > out->epochs) out->epochs = curves[i].count;
    if (status == SF_OK) status = SF_NEW(&out->low, 3 * out->epochs);
    if (status == SF_OK) {
        out->median = out->low + out->epochs;
        out->high = out->median + out->epochs;
        summarize(out, curves, quantity, values);
    }
    sf_release(curves);
    sf_release(values);
    return status;
}

void sf_series_close(sf_series *series) {
    sf_release(series->low);
    *series = (sf_series){0};
}

size_t sf_task_end(const sf_study *study, size_t from) {
    const char *task = sf_study_group(study, from)->task;
    size_t to = from + 1;
    while (to < sf_study_group_count(study) && strcmp(sf_study_group(study, to)->task, task) == 0) to++;
    return to;
}
