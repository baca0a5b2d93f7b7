#include <omp.h>

#include "base/sizes.h"
#include "base/stop.h"
#include "base/threads.h"
#include "train/cpu/cpu_backend.h"

typedef struct cpu_evaluator {
    const sf_model *model;
    sf_cpu_plan *plan;
    sf_cpu_layout layout;
    sf_cpu_team **teams;    /* [workspaces] */
    float *gradient;        /* [size] of a training step */
    const atomic_int *stop; /* may be NULL */
} cpu_evaluator;

void sf_cpu_evaluator_close(void *opaque) {
    cpu_evaluator *e = opaque;
    if (e == NULL) return;
    for (size_t i = 0; e->teams != NULL && i < e->layout.workspaces; i++) sf_cpu_team_destroy(e->teams[i]);
    sf_cpu_plan_destroy(e->plan);
    sf_release(e->teams);
    sf_release(e->gradient);
    sf_release(e);
}

static sf_status open_parts(cpu_evaluator *e, const sf_demand *demand) {
    SF_TRY(sf_cpu_plan_create(&e->plan, e->model, demand->precision));
    SF_TRY(SF_NEW(&e->teams, e->layout.workspaces));
    const size_t capacity =
        demand->work == SF_EVALUATION_WORK ? sf_smaller(demand->batch, SF_EVALUATION_BATCH) : demand->batch;
    for (size_t i = 0; i < e->layout.workspaces; i++)
        SF_TRY(sf_cpu_team_create(&e->teams[i], &e->plan, 1, e->layout.workers, capacity));
    if (demand->work == SF_TRAINING_WORK) SF_TRY(SF_NEW(&e->gradient, e->model->size));
    return sf_threads_start(e->layout.workspaces);
}

sf_status sf_cpu_evaluator_open(void **out, const sf_demand *demand, const sf_model *model, size_t models,
                                size_t threads) {
    *out = NULL;
    cpu_evaluator *e;
    SF_TRY(SF_NEW(&e, 1));
    e->model = model;
    e->layout = sf_cpu_layout_for(models, threads);
    const sf_status status = open_parts(e, demand);
    if (status != SF_OK)
        sf_cpu_evaluator_close(e);
    else
        *out = e;
    return status;
}

void sf_cpu_evaluator_obey(void *opaque, const atomic_int *stop) {
    cpu_evaluator *e = opaque;
    e->stop = stop;
    for (size_t i = 0; i < e->layout.workspaces; i++) sf_cpu_team_obey(e->teams[i], stop);
}

size_t sf_cpu_evaluator_workers(const void *opaque) {
    const cpu_evaluator *e = opaque;
    return e->layout.workers;
}

static sf_status ended(const cpu_evaluator *e) {
    SF_TRY(sf_attention_check_fault(&e->model->shape.attention));
    return sf_stop_asked(e->stop) ? sf_fail(SF_INTERRUPTED, "stopped on request") : SF_OK;
}

static void evaluate(sf_evaluation *out, float *logits /* [B,labels,classes] */, const cpu_evaluator *e,
                     sf_cpu_team *team, const float *params, const sf_batch *batch, const sf_moment *moment) {
    const sf_shape *s = &e->model->shape;
    const size_t row = sf_shape_labels(s) * s->classes;
    *out = (sf_evaluation){0};
    for (size_t first = 0; first < batch->B && !sf_stop_asked(e->stop); first += SF_EVALUATION_BATCH) {
        const sf_batch part = sf_batch_part(batch, s, first, sf_smaller(batch->B - first, SF_EVALUATION_BATCH));
        sf_moment at = *moment;
        at.first_sample += (uint32_t)first;
        sf_evaluation sum;
        sf_cpu_evaluate(team, &sum, logits != NULL ? logits + first * row : NULL, e->plan, params, &part, &at);
        out->loss += sum.loss;
        out->correct += sum.correct;
        out->labelled += sum.labelled;
    }
}

sf_status sf_cpu_evaluator_evaluate(void *opaque, sf_evaluation *out /* [S] */,
                                    float *logits /* [S,B,labels,classes] */,
                                    const float *const *params /* [S][size] */, size_t S, const sf_batch *batch,
                                    const sf_moment *moment) {
    const cpu_evaluator *e = opaque;
    const sf_shape *shape = &e->model->shape;
    const size_t row = logits != NULL ? batch->B * sf_shape_labels(shape) * shape->classes : 0;
    if (e->layout.workspaces == 1) { /* no parallel region here, so that those inside of a model get threads */
        for (size_t s = 0; s < S; s++) evaluate(&out[s], logits + s * row, e, e->teams[0], params[s], batch, moment);
    } else {
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)e->layout.workspaces)
        for (size_t s = 0; s < S; s++)
            evaluate(&out[s], logits + s * row, e, e->teams[omp_get_thread_num()], params[s], batch, moment);
    }
    return ended(e);
}

sf_status sf_cpu_evaluator_observe(void *opaque, const sf_observer *observer, const float *params /* [size] */,
                                   const sf_batch *batch, const sf_moment *moment) {
    const cpu_evaluator *e = opaque;
    sf_cpu_observe(e->teams[0], observer, e->plan, params, batch, moment);
    return ended(e);
}

sf_status sf_cpu_evaluator_gradient(void *opaque, double *loss, float *gradient /* [size] */,
                                    const float *params /* [size] */, const sf_batch *batch, const sf_moment *moment) {
    const cpu_evaluator *e = opaque;
    sf_cpu_gradient(e->teams[0], loss, gradient, e->plan, params, batch, moment);
    return ended(e);
}

sf_status sf_cpu_evaluator_step(void *opaque, double *loss, float *const *blocks /* [1 + moments] */,
                                const sf_update *update, const sf_batch *batch, const sf_moment *moment) {
    const cpu_evaluator *e = opaque;
    sf_cpu_step step;
    if (sf_cpu_train_step(e->teams[0], &step, e->gradient, e->plan, e->model, blocks, update, batch, moment, e->stop,
                          NULL) != SF_OK)
        return ended(e);
    *loss = step.loss;
    return SF_OK;
}
