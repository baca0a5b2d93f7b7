#include "train/cuda/member.h"

#include "base/memory.h"
#include "train/cuda/evaluator.h"
#include "train/optimizer.h"

static sf_status lay_out(sf_batch_room *out, const sf_member *member, const sf_dataset *set) {
    const size_t count = sf_dataset_count(set);
    SF_TRY(sf_batch_room_open(out, count, member->model.shape.T));
    for (size_t i = 0; i < count; i++) sf_batch_room_place(out, i, member->data, set, i, &member->model.shape);
    return SF_OK;
}

sf_status sf_gpu_model_open(sf_gpu_model *out, const sf_member *member) {
    const sf_config *config = &member->config;
    *out = (sf_gpu_model){0};
    SF_TRY(lay_out(&out->training, member, member->data->training));
    SF_TRY(lay_out(&out->heldout, member, member->data->heldout));
    out->model = (sf_cuda_model){
        .model = &member->model,
        .training = {out->training.tokens, out->training.labels, sf_dataset_count(member->data->training),
                     out->training.last},
        .heldout = {out->heldout.tokens, out->heldout.labels, sf_dataset_count(member->data->heldout),
                    out->heldout.last},
        .seed = (uint32_t)config->seed,
        .batch = (size_t)config->batch,
        .optimizer = (sf_optimizer)config->optimizer,
        .moments = sf_optimizer_moments(config),
        .momentum = config->momentum,
        .weight_decay = config->weight_decay,
        .beta1 = config->beta1,
        .beta2 = config->beta2,
        .epsilon = config->epsilon,
        .clip = config->clip,
    };
    return SF_OK;
}

void sf_gpu_model_close(sf_gpu_model *model) {
    sf_batch_room_close(&model->training);
    sf_batch_room_close(&model->heldout);
}

sf_status sf_gpu_epoch_open(sf_gpu_epoch *out, const sf_member *member, size_t epoch) {
    const sf_config *config = &member->config;
    const size_t count = sf_dataset_count(member->data->training), batch = (size_t)config->batch;
    const size_t steps = (count + batch - 1) / batch;
    *out = (sf_gpu_epoch){0};
    SF_TRY(SF_NEW(&out->order, count));
    SF_TRY(SF_NEW(&out->rates, steps));
    sf_epoch_order(out->order, count, (uint32_t)config->seed, (uint32_t)epoch);
    for (size_t step = 0; step < steps; step++)
        out->rates[step] =
            sf_gpu_rates(config, sf_learning_rate(config, epoch, step, steps), (epoch - 1) * steps + step + 1);
    return SF_OK;
}

void sf_gpu_epoch_close(sf_gpu_epoch *epoch) {
    sf_release(epoch->order);
    sf_release(epoch->rates);
}
