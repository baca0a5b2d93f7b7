#include "train/fleet_benchmark.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/sorted.h"
#include "train/fleet.h"

enum { FEWEST_EPOCHS = 3, MOST_EPOCHS = 1000, HELD_OUT = 25 };

typedef struct timed_fleet {
    const sf_fleet_case *what;
    sf_config *configs; /* [models] */
    sf_fleet *fleet;
    double *steps, *evaluations; /* [MOST_EPOCHS]: seconds per model */
} timed_fleet;

static void close_fleet(timed_fleet *t) {
    sf_fleet_destroy(t->fleet);
    sf_release(t->configs);
    sf_release(t->steps);
    sf_release(t->evaluations);
}

/* The task's own recipe, but so small a learning rate that no model diverges and leaves the others to train alone. */
static sf_status configure(sf_config *out, const sf_fleet_case *what, size_t s) {
    sf_config_init(out);
    SF_TRY(sf_config_set(out, "attention", what->mechanisms[s % what->kinds]));
    char count[32];
    snprintf(count, sizeof count, "%zu", what->steps * (size_t)out->batch);
    SF_TRY(sf_config_set(out, "train-count", count));
    snprintf(count, sizeof count, "%d", (int)HELD_OUT);
    SF_TRY(sf_config_set(out, "heldout-count", count));
    snprintf(count, sizeof count, "%d", (int)MOST_EPOCHS + 1);
    SF_TRY(sf_config_set(out, "epochs", count));
    SF_TRY(sf_config_set(out, "lr", "1e-6"));
    out->precision = what->precision;
    out->seed = (int64_t)s + 1;
    out->data_seed = 1;
    return SF_OK;
}

static sf_status open_fleet(timed_fleet *t) {
    const sf_fleet_case *what = t->what;
    SF_TRY(SF_NEW(&t->configs, what->models));
    SF_TRY(SF_NEW(&t->steps, MOST_EPOCHS));
    SF_TRY(SF_NEW(&t->evaluations, MOST_EPOCHS));
    for (size_t s = 0; s < what->models; s++) SF_TRY(configure(&t->configs[s], what, s));
    return sf_fleet_create(&t->fleet, what->task, t->configs, what->models, what->execution);
}

static sf_status time_epoch(const timed_fleet *t, size_t i) {
    const sf_fleet_case *what = t->what;
    const sf_result first = sf_fleet_result(t->fleet, 0);
    const double models = (double)what->models, sequences = (double)(first.train_count + first.heldout_count);
    sf_epoch_seconds seconds;
    SF_TRY(sf_fleet_advance(t->fleet));
    SF_TRY(sf_fleet_seconds(&seconds, t->fleet));
    t->steps[i] = seconds.training / ((double)what->steps * models);
    t->evaluations[i] = seconds.evaluation / (sequences * models);
    return SF_OK;
}

static sf_status mean_flops(double *out, const timed_fleet *t) {
    *out = 0;
    for (size_t s = 0; s < t->what->models; s++) {
        double flops;
        SF_TRY(sf_step_flops(&flops, &sf_fleet_member(t->fleet, s)->model.shape));
        *out += flops / (double)t->what->models;
    }
    return SF_OK;
}

static double median(double *times, size_t count) {
    sf_sort(times, count);
    return times[count / 2];
}

static sf_status time_epochs(sf_fleet_times *out, const timed_fleet *t) {
    SF_TRY(time_epoch(t, 0)); /* to warm up */
    const double end = sf_clock_seconds() + t->what->seconds;
    size_t done = 0;
    for (; done < FEWEST_EPOCHS || (done < MOST_EPOCHS && sf_clock_seconds() < end); done++)
        SF_TRY(time_epoch(t, done));
    out->epochs = done;
    out->step = median(t->steps, done);
    out->evaluation = median(t->evaluations, done);
    return SF_OK;
}

sf_status sf_fleet_benchmark(sf_fleet_times *out, const sf_fleet_case *what) {
    timed_fleet t = {.what = what};
    *out = (sf_fleet_times){0};
    sf_status status = open_fleet(&t);
    if (status == SF_OK) {
        out->device = sf_fleet_backend(t.fleet);
        status = mean_flops(&out->flops, &t);
    }
    if (status == SF_OK) status = time_epochs(out, &t);
    close_fleet(&t);
    return status;
}
