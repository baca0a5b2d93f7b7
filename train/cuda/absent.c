/* The CUDA backend of a program that was built without it: it says so. */
#include <assert.h>

#include "train/gpu_attention.h"
#include "train/gpu_part.h"

static sf_status absent(sf_precision precision) {
    (void)precision;
    return sf_fail(SF_UNSUPPORTED, "this semfocus was built without CUDA");
}

static sf_status supports(const sf_demand *demand) {
    return absent(demand->precision);
}

const sf_backend sf_backend_cuda = {
    .version = SF_BACKEND_VERSION,
    .name = "cuda",
    .summary = "models on an NVIDIA GPU (not in this build)",
    .check = absent,
    .numerics = sf_precision_name,
    .variant = sf_precision_name,
    .supports = supports,
};

sf_status sf_gpu_part_check(const sf_demand *demand) {
    return absent(demand->precision);
}

sf_status sf_gpu_part_open(sf_gpu_part **out, const sf_member *member, size_t number, size_t places) {
    (void)member, (void)number, (void)places;
    *out = NULL;
    return absent(SF_F32);
}

void sf_gpu_part_close(sf_gpu_part *part) {
    assert(part == NULL);
}

sf_status sf_gpu_part_find_nccl(int *version) {
    *version = 0;
    return absent(SF_F32);
}

sf_status sf_gpu_part_describe(sf_gpu_about *out, sf_gpu_part *part) {
    (void)part;
    *out = (sf_gpu_about){0};
    return absent(SF_F32);
}

sf_status sf_gpu_part_link_id(char *id) {
    (void)id;
    return absent(SF_F32);
}

sf_status sf_gpu_part_link(sf_gpu_part *part, const char *id, size_t ranks, size_t rank, double seconds) {
    (void)part, (void)id, (void)ranks, (void)rank, (void)seconds;
    return absent(SF_F32);
}

void sf_gpu_part_cut(sf_gpu_part *part) {
    assert(part == NULL);
}

bool sf_gpu_part_is_linked(const sf_gpu_part *part) {
    (void)part;
    return false;
}

float *sf_gpu_part_staged(sf_gpu_part *part) {
    (void)part;
    return NULL;
}

float *sf_gpu_part_sum(sf_gpu_part *part) {
    (void)part;
    return NULL;
}

sf_status sf_gpu_part_begin(sf_gpu_part *part, float *const *blocks, size_t epoch) {
    (void)part, (void)blocks, (void)epoch;
    return absent(SF_F32);
}

sf_status sf_gpu_part_end(sf_gpu_part *part, float *const *blocks) {
    (void)part, (void)blocks;
    return absent(SF_F32);
}

sf_status sf_gpu_part_compute(sf_gpu_part *part, const sf_gpu_dealt *dealt,
                              void (*on_done)(void *context, size_t chunk, const double *losses), void *context,
                              const atomic_int *stop) {
    (void)part, (void)dealt, (void)on_done, (void)context, (void)stop;
    return absent(SF_F32);
}

sf_status sf_gpu_part_poll(sf_gpu_part *part, bool *arrived) {
    (void)part, (void)arrived;
    return absent(SF_F32);
}

sf_status sf_gpu_part_update(sf_gpu_part *part, bool *finite) {
    (void)part, (void)finite;
    return absent(SF_F32);
}

sf_status sf_gpu_part_evaluate(sf_gpu_part *part, double *losses, uint32_t *correct, sf_split split, size_t first,
                               size_t count, const atomic_int *stop) {
    (void)part, (void)losses, (void)correct, (void)split, (void)first, (void)count, (void)stop;
    return absent(SF_F32);
}

sf_status sf_gpu_attention_open(sf_gpu_attention **out, const sf_attention *attention, double scale, size_t H, size_t T,
                                size_t D, size_t device) {
    (void)attention, (void)scale, (void)H, (void)T, (void)D, (void)device;
    *out = NULL;
    return sf_fail(SF_UNSUPPORTED, "this semfocus was built without CUDA; give arrays of the CPU");
}

void sf_gpu_attention_close(sf_gpu_attention *attention) {
    assert(attention == NULL);
    (void)attention;
}

size_t sf_gpu_attention_trace_bytes(const sf_gpu_attention *attention) {
    (void)attention;
    return 0;
}

sf_status sf_gpu_attention_forward(sf_gpu_attention *attention, const sf_device_arrays *arrays) {
    (void)attention, (void)arrays;
    return absent(SF_F32);
}

sf_status sf_gpu_attention_backward(sf_gpu_attention *attention, const sf_device_arrays *arrays) {
    (void)attention, (void)arrays;
    return absent(SF_F32);
}
