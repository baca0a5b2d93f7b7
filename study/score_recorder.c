#include "study/score_recorder.h"

#include <stdio.h>

#include "base/threads.h"

static const sf_measure recorded[] = {SF_DISPERSION, SF_KEPT_DISPERSION, SF_SEPARATION, SF_IN_DEGREE};
enum { RECORDED = sizeof recorded / sizeof *recorded };

sf_status sf_recorder_open(sf_recorder *out, sf_fleet *fleet, const sf_execution *execution, const atomic_int *stop) {
    const sf_member *member = sf_fleet_member(fleet, 0);
    *out = (sf_recorder){.every = (size_t)execution->measure_every};
    if (out->every == 0) return SF_OK;
    const size_t workers = (size_t)sf_threads_for((size_t)execution->threads);
    out->count = (member->model.shape.L + 1) * RECORDED;
    sf_status status = sf_meter_create(&out->meter, &member->model, workers);
    if (status == SF_OK) sf_meter_obey(out->meter, stop);
    if (status == SF_OK) status = SF_NEW(&out->params, member->model.size);
    if (status == SF_OK) status = SF_NEW(&out->points, out->count);
    if (status != SF_OK) sf_recorder_close(out);
    return status;
}

void sf_recorder_close(sf_recorder *recorder) {
    sf_meter_destroy(recorder->meter);
    sf_release(recorder->params);
    sf_release(recorder->points);
    *recorder = (sf_recorder){0};
}

bool sf_recorder_is_due(const sf_recorder *recorder, size_t epoch) {
    return recorder->every > 0 && epoch % recorder->every == 0;
}

sf_status sf_recorder_take(sf_recorder *recorder, sf_fleet *fleet) {
    const sf_member *member = sf_fleet_member(fleet, 0);
    const size_t L = member->model.shape.L;
    sf_curve_point *point = recorder->points;
    sf_fleet_read(fleet, 0, 0, recorder->params);
    SF_TRY(sf_meter_measure(recorder->meter, recorder->params,
                            &(sf_measured_data){.data = member->data,
                                                .split = SF_HELDOUT,
                                                .samples = SF_RECORDED_SAMPLES,
                                                .seed = (uint32_t)member->config.seed}));
    for (size_t block = 0; block <= L; block++) {
        sf_block_measures measures;
        SF_TRY(sf_meter_read(&measures, recorder->meter, block));
        for (size_t m = 0; m < RECORDED; m++, point++) {
            *point = (sf_curve_point){.epoch = member->result.last.epoch, .block = block < L ? (int64_t)block : -1};
            snprintf(point->measure, sizeof point->measure, "%s", sf_measure_name(recorded[m]));
            for (size_t i = 0; i < SF_QUANTILES; i++) point->at[i] = measures.measures[recorded[m]].at[i];
        }
    }
    return SF_OK;
}
