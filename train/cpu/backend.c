/* Models on CPU cores. */
#include <math.h>

#include "base/clock.h"
#include "base/stop.h"
#include "base/threads.h"
#include "train/cpu/cpu_backend.h"
#include "train/optimizer.h"

enum { WEIGHTS_PER_THREAD = 2 }; /* in one call: threads seldom wait for the last one, and a stop loses little */

sf_cpu_layout sf_cpu_layout_for(size_t models, size_t threads) {
    const size_t workers = (size_t)sf_threads_for(threads);
    return models >= workers ? (sf_cpu_layout){workers, 1} : (sf_cpu_layout){1, workers};
}

sf_status sf_cpu_train_step(sf_cpu_team *team, sf_cpu_step *out, float *gradient /* [size] */, const sf_cpu_plan *plan,
                            const sf_model *model, float *const *blocks /* [1 + moments] */, const sf_update *update,
                            const sf_batch *batch, const sf_moment *moment, const atomic_int *stop,
                            sf_exchange *exchange) {
    *out = (sf_cpu_step){0};
    if (sf_batch_labelled(batch, &model->shape) == 0) return SF_OK; /* nothing to learn, for every rank alike */
    if (exchange != NULL) {
        SF_TRY(sf_exchange_gradient(exchange, &out->loss, gradient, team, plan, blocks[0], batch, moment, stop));
    } else {
        sf_cpu_gradient(team, &out->loss, gradient, plan, blocks[0], batch, moment);
        if (sf_stop_asked(stop) || sf_attention_is_faulty(&model->shape.attention))
            return SF_INTERRUPTED; /* the gradient may be that of a part of the batch */
    }
    out->norm = sf_gradient_norm(gradient, model->size);
    const size_t kept = sf_optimizer_moments(update->config);
    float *const moments[] = {kept > 0 ? blocks[1] : NULL, kept > 1 ? blocks[2] : NULL};
    if (isfinite(out->loss) && isfinite(out->norm))
        sf_optimizer_update(blocks[0], moments, gradient, (float)sf_clip_factor(out->norm, update->config->clip),
                            update->config, update->lr, update->step, model->size);
    return SF_OK;
}

static sf_status supports(const sf_demand *demand) {
    return sf_cpu_check_isa(demand->precision);
}

static bool share_fleet(const sf_demand *a, const sf_demand *b) {
    const sf_shape *s = a->shape, *t = b->shape;
    return s->C == t->C && s->F == t->F && s->H == t->H && s->D == t->D && s->L == t->L && a->precision == b->precision;
}

/* A fleet's members wait for each other at the end of an epoch, so several fleets of one member are faster. */
static size_t models(const sf_demand *demand, size_t threads) {
    return demand->work == SF_EVALUATION_WORK ? WEIGHTS_PER_THREAD * (size_t)sf_threads_for(threads) : 1;
}

static size_t fleets(size_t threads, size_t runs) {
    return sf_cpu_layout_for(runs, threads).workspaces;
}

/* The best of many short bursts: on a shared machine most are disturbed. */
static double peak_gflops(sf_precision precision, size_t asked) {
    enum { ROUNDS = 1 << 18 };
    const double end = sf_clock_seconds() + 0.3;
    double best = 0;
    const int threads = sf_threads_at_most(asked);
    do {
        double work = 0;
        const double start = sf_clock_seconds();
#pragma omp parallel for num_threads(threads) reduction(+ : work)
        for (int i = 0; i < threads; i++) work += sf_cpu_peak_work(precision, ROUNDS);
        const double rate = 1e-9 * work / (sf_clock_seconds() - start);
        if (rate > best) best = rate;
    } while (sf_clock_seconds() < end);
    return best;
}

const sf_backend sf_backend_cpu = {
    .version = SF_BACKEND_VERSION,
    .name = "cpu",
    .summary = "f32 on every core, with the widest instruction set the machine has",
    .check = sf_cpu_check_isa,
    .numerics = sf_precision_name,
    .variant = sf_cpu_isa_name,
    .supports = supports,
    .share_fleet = share_fleet,
    .models = models,
    .bytes_per_model = sf_cpu_fleet_bytes,
    .fleets = fleets,
    .peak_gflops = peak_gflops,
    .fleet_open = sf_cpu_fleet_open,
    .fleet_close = sf_cpu_fleet_close,
    .fleet_add = sf_cpu_fleet_add,
    .fleet_remove = sf_cpu_fleet_remove,
    .fleet_advance = sf_cpu_fleet_advance,
    .fleet_read = sf_cpu_fleet_read,
    .fleet_write = sf_cpu_fleet_write,
    .fleet_evaluate = sf_cpu_fleet_evaluate,
    .evaluator_open = sf_cpu_evaluator_open,
    .evaluator_close = sf_cpu_evaluator_close,
    .evaluator_obey = sf_cpu_evaluator_obey,
    .evaluator_workers = sf_cpu_evaluator_workers,
    .evaluate = sf_cpu_evaluator_evaluate,
    .observe = sf_cpu_evaluator_observe,
    .gradient = sf_cpu_evaluator_gradient,
    .step = sf_cpu_evaluator_step,
};
