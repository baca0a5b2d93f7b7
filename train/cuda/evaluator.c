#include "train/cuda/evaluator.h"

#include <math.h>

#include "base/elementary.h"
#include "base/memory.h"
#include "base/threads.h"
#include "train/optimizer.h"

typedef struct gpu_evaluator {
    sf_cuda_evaluator *evaluator;
    size_t workers;
} gpu_evaluator;

static sf_cuda_needs needs_of(const sf_demand *demand, const sf_model *model, size_t models, size_t workers) {
    static const sf_cuda_role roles[] = {[SF_TRAINING_WORK] = SF_CUDA_TRAINS,
                                         [SF_EVALUATION_WORK] = SF_CUDA_EVALUATES,
                                         [SF_OBSERVATION_WORK] = SF_CUDA_OBSERVES};
    return (sf_cuda_needs){.model = model,
                           .precision = demand->precision,
                           .role = roles[demand->work],
                           .batch = demand->batch,
                           .models = models,
                           .workers = workers};
}

size_t sf_gpu_evaluator_models(const sf_demand *demand) {
    sf_model model;
    if (sf_model_create(&model, demand->shape) != SF_OK) return 1;
    const sf_cuda_needs needs = needs_of(demand, &model, 1, 1);
    const size_t models = sf_cuda_evaluator_models(&needs);
    sf_model_destroy(&model);
    return models;
}

sf_status sf_gpu_evaluator_open(void **out, const sf_demand *demand, const sf_model *model, size_t models,
                                size_t threads) {
    *out = NULL;
    gpu_evaluator *e;
    SF_TRY(SF_NEW(&e, 1));
    e->workers = demand->work == SF_OBSERVATION_WORK ? (size_t)sf_threads_for(threads) : 1;
    const sf_cuda_needs needs = needs_of(demand, model, models, e->workers);
    const sf_status status = sf_cuda_evaluator_open(&e->evaluator, &needs);
    if (status != SF_OK)
        sf_gpu_evaluator_close(e);
    else
        *out = e;
    return status;
}

void sf_gpu_evaluator_close(void *opaque) {
    gpu_evaluator *e = opaque;
    if (e == NULL) return;
    sf_cuda_evaluator_close(e->evaluator);
    sf_release(e);
}

void sf_gpu_evaluator_obey(void *opaque, const atomic_int *stop) {
    const gpu_evaluator *e = opaque;
    sf_cuda_evaluator_obey(e->evaluator, stop);
}

size_t sf_gpu_evaluator_workers(const void *opaque) {
    const gpu_evaluator *e = opaque;
    return e->workers;
}

sf_status sf_gpu_evaluator_evaluate(void *opaque, sf_evaluation *out /* [S] */, float *logits /* [S,B,classes] */,
                                    const float *const *params /* [S][size] */, size_t S, const sf_batch *batch,
                                    const sf_moment *moment) {
    const gpu_evaluator *e = opaque;
    return sf_cuda_evaluator_evaluate(e->evaluator, out, logits, params, S, batch, moment);
}

sf_status sf_gpu_evaluator_observe(void *opaque, const sf_observer *observer, const float *params /* [size] */,
                                   const sf_batch *batch, const sf_moment *moment) {
    const gpu_evaluator *e = opaque;
    return sf_cuda_evaluator_observe(e->evaluator, observer, params, batch, moment);
}

sf_status sf_gpu_evaluator_gradient(void *opaque, double *loss, float *gradient /* [size] */,
                                    const float *params /* [size] */, const sf_batch *batch, const sf_moment *moment) {
    const gpu_evaluator *e = opaque;
    return sf_cuda_evaluator_gradient(e->evaluator, loss, gradient, params, batch, moment);
}

sf_cuda_step sf_gpu_rates(const sf_config *config, double lr, size_t updates) {
    if (config->optimizer == SF_SGD) return (sf_cuda_step){.lr = (float)lr};
    return (sf_cuda_step){.rate = (float)(lr / (1.0 - sf_pow(config->beta1, (double)updates))),
                          .widen = (float)(1.0 / sqrt(1.0 - sf_pow(config->beta2, (double)updates))),
                          .keep = config->optimizer == SF_ADAMW ? (float)(1.0 - lr * config->weight_decay) : 1.0F};
}

sf_status sf_gpu_evaluator_step(void *opaque, double *loss, float *const *blocks /* [1 + moments] */,
                                const sf_update *update, const sf_batch *batch, const sf_moment *moment) {
    const gpu_evaluator *e = opaque;
    const sf_config *config = update->config;
    const sf_cuda_step rates = sf_gpu_rates(config, update->lr, update->step);
    const sf_cuda_model how = {.optimizer = (sf_optimizer)config->optimizer,
                               .moments = sf_optimizer_moments(config),
                               .momentum = config->momentum,
                               .weight_decay = config->weight_decay,
                               .beta1 = config->beta1,
                               .beta2 = config->beta2,
                               .epsilon = config->epsilon,
                               .clip = config->clip};
    return sf_cuda_evaluator_step(e->evaluator, loss, blocks, &how, &rates, batch, moment);
}
