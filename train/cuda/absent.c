/* The CUDA backend of a program that was built without it: it says so. */
#include "train/backend.h"

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
