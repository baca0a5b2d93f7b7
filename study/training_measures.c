#include "study/training_measures.h"

#include <stdio.h>

static const sf_measure taken[] = {SF_DISPERSION, SF_KEPT_DISPERSION, SF_SEPARATION,
                                   SF_IN_DEGREE,  SF_EFFECTIVE_KEYS,  SF_ENTROPY};
enum { TAKEN = sizeof taken / sizeof *taken };

sf_status sf_training_measures_open(sf_training_measures *out, const sf_member *member, size_t every,
                                    const sf_machine *machine, const atomic_int *stop) {
    *out = (sf_training_measures){.every = every};
    if (out->every == 0) return SF_OK;
    out->count = (member->model.shape.L + 1) * TAKEN;
    sf_status status = sf_meter_create(&out->meter, &member->model, machine);
    if (status == SF_OK) sf_meter_obey(out->meter, stop);
    if (status == SF_OK) status = SF_NEW(&out->params, member->model.size);
    if (status == SF_OK) status = SF_NEW(&out->points, out->count);
    if (status != SF_OK) sf_training_measures_close(out);
    return status;
}

void sf_training_measures_close(sf_training_measures *measures) {
    sf_meter_destroy(measures->meter);
    sf_release(measures->params);
    sf_release(measures->points);
    *measures = (sf_training_measures){0};
}

bool sf_training_measures_is_due(const sf_training_measures *measures, size_t epoch) {
    return measures->every > 0 && epoch % measures->every == 0;
}

sf_status sf_training_measures_take(sf_training_measures *measures, sf_fleet *fleet, size_t s) {
    const sf_member *member = sf_fleet_member(fleet, s);
    const size_t L = member->model.shape.L;
    sf_curve_point *point = measures->points;
    SF_TRY(sf_fleet_read(fleet, s, 0, measures->params));
    SF_TRY(sf_meter_measure(measures->meter, measures->params,
                            &(sf_measured_data){.data = member->data,
                                                .split = SF_HELDOUT,
                                                .samples = SF_TRAINING_MEASURE_SAMPLES,
                                                .seed = (uint32_t)member->config.seed}));
    for (size_t block = 0; block <= L; block++) {
        sf_block_measures found;
        SF_TRY(sf_meter_read(&found, measures->meter, block));
        for (size_t m = 0; m < TAKEN; m++, point++) {
            *point = (sf_curve_point){.epoch = member->result.last.epoch, .block = block < L ? (int64_t)block : -1};
            snprintf(point->measure, sizeof point->measure, "%s", sf_measure_name(taken[m]));
            for (size_t i = 0; i < SF_QUANTILES; i++) point->at[i] = found.measures[taken[m]].at[i];
        }
    }
    return SF_OK;
}
