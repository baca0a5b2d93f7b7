#include "kernels/cpu/raw.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/sizes.h"
#include "base/threads.h"
#include "kernels/cpu/plan.h"

struct sf_raw {
    sf_model model, single_model;
    sf_cpu_plan *plan, single; /* single: as if there were one head */
    size_t workers, trace_bytes;
    sf_arena *arenas; /* [workers] */
    sf_offer *offers; /* [workers] */
    atomic_size_t underway;
};

typedef struct raw_space { /* one worker's */
    sf_workspace work;
    float *qkv, *dqkv, *context, *dcontext, *norms;
} raw_space;

#define TAKE(pointer, count) (pointer) = sf_arena_take(arena, (count), sizeof *(pointer))

static void lay_out_space(raw_space *space, sf_arena *arena, const sf_cpu_plan *plan) {
    const size_t T = plan->model->shape.T, Dp = plan->rows.Dp;
    *space = (raw_space){0};
    TAKE(space->qkv, T * 3 * Dp);
    TAKE(space->dqkv, T * 3 * Dp);
    TAKE(space->context, T * Dp);
    TAKE(space->dcontext, T * Dp);
    TAKE(space->norms, T * 2);
    sf_lay_out_attention(&space->work, arena, plan);
}
#undef TAKE

static sf_status open_workers(sf_raw *raw, size_t workers) {
    sf_arena space = {0}, trace = {0};
    raw_space unused;
    sf_trace unused_trace = {0};
    lay_out_space(&unused, &space, raw->plan);
    sf_lay_out_choices(&unused_trace, &trace, raw->plan);
    if (space.overflow || trace.overflow) return sf_fail(SF_NO_MEMORY, "attention of this size needs too much memory");
    raw->trace_bytes = (trace.used + SF_ALIGNMENT - 1) / SF_ALIGNMENT * SF_ALIGNMENT;
    raw->workers = workers;
    SF_TRY(SF_NEW(&raw->arenas, workers));
    SF_TRY(SF_NEW(&raw->offers, workers));
    for (size_t w = 0; w < workers; w++) {
        raw->arenas[w] = space;
        SF_TRY(sf_arena_open(&raw->arenas[w]));
    }
    return SF_OK;
}

static sf_status open_plan(sf_raw *raw, const sf_attention *attention, double scale, size_t H, size_t T, size_t D) {
    const sf_shape shape = {.V = 2,
                            .T = T,
                            .C = D,
                            .D = D,
                            .F = SF_PADDING,
                            .H = H,
                            .L = 1,
                            .classes = 2,
                            .inverse_temperature = scale * sqrt((double)D),
                            .attention = *attention};
    SF_TRY(sf_model_create(&raw->model, &shape));
    SF_TRY(sf_cpu_plan_create(&raw->plan, &raw->model, SF_F32));
    raw->plan->score_scale = (float)scale;
    raw->plan->group = 1;
    raw->single_model = raw->model;
    raw->single_model.shape.H = 1;
    raw->single = *raw->plan;
    raw->single.model = &raw->single_model;
    raw->single.rows.HDp = raw->plan->rows.Dp;
    return SF_OK;
}

sf_status sf_raw_open(sf_raw **out, const sf_attention *attention, double scale, size_t H, size_t T, size_t D,
                      size_t workers) {
    sf_raw *raw;
    *out = NULL;
    SF_TRY(SF_NEW(&raw, 1));
    sf_status status = open_plan(raw, attention, scale, H, T, D);
    if (status == SF_OK) status = open_workers(raw, workers);
    if (status != SF_OK) {
        sf_raw_close(raw);
        return status;
    }
    *out = raw;
    return SF_OK;
}

void sf_raw_close(sf_raw *raw) {
    if (raw == NULL) return;
    for (size_t w = 0; raw->arenas != NULL && w < raw->workers; w++) sf_arena_close(&raw->arenas[w]);
    sf_release(raw->arenas);
    sf_release(raw->offers);
    sf_cpu_plan_destroy(raw->plan);
    sf_model_destroy(&raw->model);
    sf_release(raw);
}

size_t sf_raw_trace_bytes(const sf_raw *raw) {
    return raw->trace_bytes;
}

/* Head `unit % H` of sequence `unit / H`, on worker w. */
static sf_lone_head lone_of(sf_raw *raw, const sf_raw_arrays *a, const raw_space *space, size_t unit, size_t w,
                            bool backward) {
    static float
        stores_scores; /* a gradient that is wanted but never written: the dense kernel asks whether there is one */
    const sf_shape *s = &raw->model.shape;
    const size_t n = unit / s->H, at = unit * s->T * s->D;
    const sf_moment moment = {.seed = a->seed, .training = true};
    sf_arena trace = {.base = a->trace + n * raw->trace_bytes, .capacity = raw->trace_bytes};
    sf_lone_head lone = {
        .job = {.plan = raw->plan, .work = &space->work, .offer = &raw->offers[w], .gradient = &stores_scores},
        .single = &raw->single,
        .head = unit % s->H,
        .key_index = sf_moment_index(&moment, SF_RANDOM_KEYS, 0, unit % s->H, n),
        .qkv = space->qkv,
        .dqkv = space->dqkv,
        .context = space->context,
        .dcontext = space->dcontext,
        .norms = space->norms,
        .q = a->q + at,
        .k = a->k + at,
        .v = a->v + at,
        .out = a->out + at};
    sf_lay_out_choices(&lone.trace, &trace, raw->plan);
    if (!backward) return lone;
    lone.dq = a->dq + at;
    lone.dk = a->dk + at;
    lone.dv = a->dv + at;
    lone.dout = a->dout + at;
    return lone;
}

/* As in team.c: a worker without heads helps others with their queries. */
static void help_others(sf_raw *raw, size_t workers, const raw_space *mine) {
    if (raw->model.shape.T <= SF_QUERY_TILE) return;
    for (size_t turns = 0; atomic_load_explicit(&raw->underway, memory_order_relaxed) > 0; sf_wait_a_little(&turns))
        for (size_t w = 0; w < workers; w++)
            if (sf_offer_enter(&raw->offers[w])) {
                raw->plan->kernels->help(&raw->offers[w], &mine->work);
                sf_offer_leave(&raw->offers[w]);
                turns = 0;
            }
}

static sf_status run(sf_raw *raw, const sf_raw_arrays *arrays, bool backward) {
    const sf_cpu_kernels *kernels = raw->plan->kernels;
    const size_t units = arrays->N * raw->model.shape.H;
    SF_TRY(sf_threads_start(raw->workers));
    atomic_store(&raw->underway, units);
#pragma omp parallel num_threads((int)raw->workers) if (raw->workers > 1)
    {
        const size_t w = raw->workers > 1 ? (size_t)omp_get_thread_num() : 0;
        raw_space space;
        raw->arenas[w].used = 0;
        lay_out_space(&space, &raw->arenas[w], raw->plan);
#pragma omp for schedule(dynamic, 1) nowait
        for (size_t unit = 0; unit < units; unit++) {
            const sf_lone_head lone = lone_of(raw, arrays, &space, unit, w, backward);
            (backward ? kernels->attend_backward : kernels->attend)(&lone);
            atomic_fetch_sub(&raw->underway, 1);
        }
        help_others(raw, raw->workers, &space);
    }
    return sf_attention_check_fault(&raw->model.shape.attention);
}

sf_status sf_raw_forward(sf_raw *raw, const sf_raw_arrays *arrays) {
    return run(raw, arrays, false);
}

sf_status sf_raw_backward(sf_raw *raw, const sf_raw_arrays *arrays) {
    return run(raw, arrays, true);
}
