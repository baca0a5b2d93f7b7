#include "train/evaluator.h"

#include "base/sizes.h"

static sf_status open_on(sf_evaluator *out, const sf_backend *backend, const sf_demand *demand, const sf_model *model,
                         size_t most_models, size_t threads) {
    void *state;
    if (backend->evaluator_open == NULL)
        return sf_fail(SF_UNSUPPORTED, "backend '%s' trains fleets and computes no single batches", backend->name);
    const size_t models = sf_larger(1, sf_smaller(backend->models(demand, threads), most_models));
    SF_TRY(backend->evaluator_open(&state, demand, model, models, threads));
    *out = (sf_evaluator){.backend = backend, .state = state, .models = models};
    return SF_OK;
}

/* Where the device has no evaluators, or no memory for one, the CPU takes its place if it computes the same bits. */
sf_status sf_evaluator_open(sf_evaluator *out, const sf_machine *machine, sf_work work, const sf_model *model,
                            sf_precision precision, size_t batch, size_t most_models) {
    *out = (sf_evaluator){0};
    const sf_demand demand = {.work = work, .shape = &model->shape, .precision = precision, .batch = batch};
    const sf_backend *backend;
    SF_TRY(sf_backend_choose(&backend, machine, &demand));
    const sf_status status = open_on(out, backend, &demand, model, most_models, machine->threads);
    if ((status != SF_NO_MEMORY && status != SF_UNSUPPORTED) || !sf_backend_may_fall_back(backend, precision))
        return status;
    sf_backend_note_cpu(machine);
    return open_on(out, &sf_backend_cpu, &demand, model, most_models, machine->threads);
}

void sf_evaluator_close(sf_evaluator *evaluator) {
    if (evaluator->backend != NULL) evaluator->backend->evaluator_close(evaluator->state);
    *evaluator = (sf_evaluator){0};
}

void sf_evaluator_obey(sf_evaluator *evaluator, const atomic_int *stop) {
    evaluator->backend->evaluator_obey(evaluator->state, stop);
}

size_t sf_evaluator_workers(const sf_evaluator *evaluator) {
    return evaluator->backend->evaluator_workers(evaluator->state);
}

sf_status sf_evaluator_evaluate(const sf_evaluator *evaluator, sf_evaluation *out /* [S] */,
                                float *logits /* [S,B,labels,classes] */, const float *const *params /* [S][size] */,
                                size_t S, const sf_batch *batch, const sf_moment *moment) {
    return evaluator->backend->evaluate(evaluator->state, out, logits, params, S, batch, moment);
}

sf_status sf_evaluator_observe(const sf_evaluator *evaluator, const sf_observer *observer,
                               const float *params /* [size] */, const sf_batch *batch, const sf_moment *moment) {
    return evaluator->backend->observe(evaluator->state, observer, params, batch, moment);
}

sf_status sf_evaluator_gradient(const sf_evaluator *evaluator, double *loss, float *gradient /* [size] */,
                                const float *params /* [size] */, const sf_batch *batch, const sf_moment *moment) {
    return evaluator->backend->gradient(evaluator->state, loss, gradient, params, batch, moment);
}

sf_status sf_evaluator_step(const sf_evaluator *evaluator, double *loss, float *const *blocks /* [1 + moments] */,
                            const sf_update *update, const sf_batch *batch, const sf_moment *moment) {
    return evaluator->backend->step(evaluator->state, loss, blocks, update, batch, moment);
}
