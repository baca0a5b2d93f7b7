#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "kernels/cuda/part.h"
#include "train/cuda/member.h"
#include "train/gpu_part.h"

struct sf_gpu_part {
    const sf_member *member;
    sf_cuda_part *part;
    size_t gpu;
    bool linked;
};

sf_status sf_gpu_part_check(const sf_demand *demand) {
    if (demand->precision != SF_F32)
        return sf_fail(SF_UNSUPPORTED, "several GPUs train one model in f32 alone, not in %s",
                       sf_precision_name(demand->precision));
    return sf_backend_cuda.supports(demand);
}

static sf_status open_parts(sf_gpu_part *part, size_t places) {
    sf_gpu_model model;
    SF_TRY(sf_cuda_use(part->gpu));
    sf_status status = sf_gpu_model_open(&model, part->member);
    if (status == SF_OK) status = sf_cuda_part_open(&part->part, &model.model, places);
    if (status == SF_NO_MEMORY) {
        static const double mib = 1024.0 * 1024.0;
        sf_cuda_forget_error();
        status = sf_fail(SF_NO_MEMORY, "the model needs %.1f MiB of a GPU's memory and %.1f MiB are free",
                         (double)sf_cuda_bytes(&model.model) / mib, (double)sf_cuda_free_memory() / mib);
    }
    sf_gpu_model_close(&model);
    return status;
}

sf_status sf_gpu_part_open(sf_gpu_part **out, const sf_member *member, size_t number, size_t places) {
    *out = NULL;
    sf_gpu_part *part;
    SF_TRY(sf_cuda_check());
    SF_TRY(SF_NEW(&part, 1));
    part->member = member;
    part->gpu = number % sf_larger(1, sf_cuda_devices());
    const sf_status status = open_parts(part, places);
    if (status != SF_OK)
        sf_gpu_part_close(part);
    else
        *out = part;
    return status;
}

void sf_gpu_part_close(sf_gpu_part *part) {
    if (part == NULL) return;
    sf_cuda_part_close(part->part);
    sf_release(part);
}

sf_status sf_gpu_part_find_nccl(int *version) {
    return sf_cuda_link_check(version);
}

sf_status sf_gpu_part_describe(sf_gpu_about *out, sf_gpu_part *part) {
    _Static_assert((int)SF_GPU_NAME == (int)SF_CUDA_GPU_NAME, "a name has room");
    *out = (sf_gpu_about){0};
    if (sf_gpu_part_find_nccl(&out->nccl) != SF_OK) snprintf(out->why, sizeof out->why, "%s", sf_message());
    SF_TRY(sf_cuda_use(part->gpu));
    return sf_cuda_gpu_name(out->name);
}

sf_status sf_gpu_part_link_id(char *id /* [SF_LINK_ID] */) {
    _Static_assert((int)SF_LINK_ID == (int)SF_CUDA_LINK_ID, "an id has room");
    return sf_cuda_link_id(id);
}

sf_status sf_gpu_part_link(sf_gpu_part *part, const char *id /* [SF_LINK_ID] */, size_t ranks, size_t rank,
                           double seconds) {
    sf_cuda_link *link;
    SF_TRY(sf_cuda_use(part->gpu));
    SF_TRY(sf_cuda_link_open(&link, id, ranks, rank, seconds));
    part->linked = true;
    return sf_cuda_part_use(part->part, link);
}

void sf_gpu_part_cut(sf_gpu_part *part) {
    sf_cuda_part_cut(part->part);
    part->linked = false;
}

bool sf_gpu_part_is_linked(const sf_gpu_part *part) {
    return part->linked;
}

float *sf_gpu_part_staged(sf_gpu_part *part) {
    return sf_cuda_part_staged(part->part);
}

float *sf_gpu_part_sum(sf_gpu_part *part) {
    return sf_cuda_part_sum(part->part);
}

sf_status sf_gpu_part_begin(sf_gpu_part *part, float *const *blocks /* [1 + moments][size] */, size_t epoch) {
    sf_gpu_epoch plan = {0};
    sf_status status = epoch > 0 ? sf_gpu_epoch_open(&plan, part->member, epoch) : SF_OK;
    if (status == SF_OK) status = sf_cuda_part_begin(part->part, blocks, epoch, plan.order, plan.rates);
    sf_gpu_epoch_close(&plan);
    return status;
}

sf_status sf_gpu_part_end(sf_gpu_part *part, float *const *blocks /* [1 + moments][size] */) {
    return sf_cuda_part_end(part->part, blocks);
}

sf_status sf_gpu_part_compute(sf_gpu_part *part, const sf_gpu_dealt *dealt,
                              void (*on_done)(void *context, size_t chunk, const double *losses), void *context,
                              const atomic_int *stop) {
    sf_cuda_dealt as_kernels_have_it;
    const sf_cuda_listener listener = {.on_done = on_done, .context = context};
    _Static_assert(sizeof as_kernels_have_it == sizeof *dealt, "one is copied to the other");
    memcpy(&as_kernels_have_it, dealt, sizeof *dealt);
    return sf_cuda_part_compute(part->part, &as_kernels_have_it, &listener, stop);
}

sf_status sf_gpu_part_poll(sf_gpu_part *part, bool *arrived) {
    return sf_cuda_part_poll(part->part, arrived);
}

sf_status sf_gpu_part_update(sf_gpu_part *part, bool *finite) {
    return sf_cuda_part_update(part->part, finite);
}

sf_status sf_gpu_part_evaluate(sf_gpu_part *part, double *losses /* [count] */, uint32_t *correct /* [count] */,
                               sf_split split, size_t first, size_t count, const atomic_int *stop) {
    return sf_cuda_part_evaluate(part->part, losses, correct, split == SF_TRAINING ? 0 : 1, first, count, stop);
}
