/* A stored model on sequences of another length than it was trained on. */
#include <assert.h>

#include "base/sizes.h"
#include "semfocus/followup.h"
#include "store/stored_model.h"
#include "train/automatic.h"
#include "train/batch.h"
#include "train/evaluator.h"
#include "train/numerics.h"

typedef struct examination { /* a model at another length, and what evaluates it */
    sf_model model;
    sf_run_data data;
    sf_evaluator evaluator;
    sf_batch_room room; /* of SF_EVALUATION_BATCH sequences */
} examination;

static void close_examination(examination *it) {
    sf_evaluator_close(&it->evaluator);
    sf_batch_room_close(&it->room);
    sf_model_destroy(&it->model);
    sf_run_data_close(&it->data);
}

/* The data of a run that differs only in length: the padding follows from all of its sequences. Sequences of files have
 * a fixed length. */
static sf_status open_data(examination *it, const sf_stored_model *stored, const sf_length_request *request,
                           const sf_length_result *what) {
    sf_config config = *stored->config;
    const size_t length = what->length, count = what->count;
    config.length = (int64_t)length;
    if (request->length > 0) config.min_length = 0; /* all sequences of the length asked for */
    config.heldout_count = (int64_t)count;
    config.swap_sample = -1; /* concerns training, and changes no padding */
    return sf_run_data_open(&it->data, stored->run.task, &config, NULL);
}

/* The loss of a run is that of its own arithmetic. */
static sf_status choose_machine(sf_machine *out, const sf_stored_model *stored, const sf_execution *execution,
                                const sf_shape *shape, size_t count) {
    sf_workload work = {0};
    *out = sf_machine_of(execution);
    out->device = sf_numerics_device(stored->config, out->device);
    sf_workload_add_evaluation(&work, shape, 1, count);
    sf_machine_decide(out, &work);
    return sf_backend_check_run(sf_machine_backend(out), stored->config);
}

static sf_status open_model(examination *it, const sf_stored_model *stored, const sf_execution *execution,
                            size_t count) {
    sf_machine machine;
    sf_shape shape = stored->model->shape;
    const size_t longest = sf_longest_read(stored->config, it->data.longest);
    shape.attention = sf_attention_resolve(shape.attention, longest);
    shape.T = sf_attention_positions(&shape.attention, longest, stored->config->pad == SF_PAD_MASK);
    SF_TRY(sf_model_create(&it->model, &shape));
    assert(it->model.size == stored->model->size); /* no weight belongs to a position */
    SF_TRY(choose_machine(&machine, stored, execution, &shape, count));
    SF_TRY(sf_evaluator_open(&it->evaluator, &machine, SF_EVALUATION_WORK, &it->model,
                             (sf_precision)stored->config->precision, SF_EVALUATION_BATCH, 1));
    return sf_batch_room_open(&it->room, SF_EVALUATION_BATCH, shape.T);
}

static sf_batch load(const examination *it, size_t first, size_t count) {
    const size_t B = sf_smaller(count - first, SF_EVALUATION_BATCH);
    for (size_t n = 0; n < B; n++)
        sf_batch_room_place(&it->room, n, &it->data, it->data.heldout, first + n, &it->model.shape);
    return sf_batch_room_read(&it->room, B);
}

static sf_status examine(sf_length_result *out, const examination *it, const sf_stored_model *stored) {
    const float *params = stored->params;
    double total = 0;
    size_t correct = 0, labelled = 0;
    for (size_t first = 0; first < out->count; first += SF_EVALUATION_BATCH) {
        const sf_batch batch = load(it, first, out->count);
        const sf_moment moment = sf_evaluation_moment((uint32_t)stored->config->seed, SF_HELDOUT, first);
        sf_evaluation part;
        SF_TRY(sf_evaluator_evaluate(&it->evaluator, &part, NULL, &params, 1, &batch, &moment));
        total += part.loss;
        correct += part.correct;
        labelled += part.labelled;
    }
    out->loss = total / (double)labelled;
    out->accuracy = 100.0 * (double)correct / (double)labelled;
    return SF_OK;
}

/* What is asked for; by default, the run's own length and held-out count. */
static sf_status settle(sf_length_result *out, const sf_stored_model *stored, const sf_length_request *request) {
    const bool tsv = sf_run_data_is_own(stored->run.task);
    const size_t own_length = tsv ? stored->data->longest : (size_t)stored->config->length;
    const size_t own_count = sf_dataset_count(stored->data->heldout);
    *out = (sf_length_result){.trained_length = own_length,
                              .length = request->length > 0 ? request->length : own_length,
                              .count = request->count > 0 ? request->count : own_count};
    if (tsv && out->length != own_length)
        return sf_fail(
            SF_BAD_INPUT,
            "run %s was trained on data of your own with up to %zu tokens, which has no sequences of length %zu; only "
            "runs of built-in tasks can be evaluated at other lengths: leave lengths out",
            stored->run.id, own_length, out->length);
    if (tsv && out->count > own_count)
        return sf_fail(SF_BAD_INPUT,
                       "count is %zu but run %s has only %zu held-out sequences in its file; ask for at most that many",
                       out->count, stored->run.id, own_count);
    return SF_OK;
}

sf_status sf_length_generalization(sf_length_result *out, sf_store *store, const sf_stored_run *run,
                                   const sf_length_request *request) {
    *out = (sf_length_result){0};
    sf_stored_model stored;
    SF_TRY(sf_stored_model_open(&stored, store, run, request->at));
    examination it = {0};
    sf_status status = settle(out, &stored, request);
    if (status == SF_OK) status = open_data(&it, &stored, request, out);
    if (status == SF_OK) status = open_model(&it, &stored, &request->execution, out->count);
    if (status == SF_OK) status = examine(out, &it, &stored);
    close_examination(&it);
    sf_stored_model_close(&stored);
    return status;
}
