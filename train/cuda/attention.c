/* Attention alone, by the kernels of the CUDA backend. */
#include "train/gpu_attention.h"

#include <stdio.h>

#include "base/memory.h"
#include "kernels/cuda/raw.h"

struct sf_gpu_attention {
    sf_cuda_raw *raw;
};

/* Kernels say what is missing; here is what to do. */
static sf_status with_advice(sf_status status) {
    char what[512];
    if (status != SF_UNSUPPORTED) return status;
    snprintf(what, sizeof what, "%s", sf_message());
    return sf_fail(SF_UNSUPPORTED, "%s; give arrays of the CPU", what);
}

sf_status sf_gpu_attention_open(sf_gpu_attention **out, const sf_attention *attention, double scale, size_t H, size_t T,
                                size_t D, size_t device) {
    sf_gpu_attention *opened;
    *out = NULL;
    SF_TRY(SF_NEW(&opened, 1));
    const sf_status status = sf_cuda_raw_open(&opened->raw, attention, scale, H, T, D, device);
    if (status != SF_OK) {
        sf_release(opened);
        return with_advice(status);
    }
    *out = opened;
    return SF_OK;
}

void sf_gpu_attention_close(sf_gpu_attention *attention) {
    if (attention == NULL) return;
    sf_cuda_raw_close(attention->raw);
    sf_release(attention);
}

size_t sf_gpu_attention_trace_bytes(const sf_gpu_attention *attention) {
    return sf_cuda_raw_trace_bytes(attention->raw);
}

sf_status sf_gpu_attention_forward(sf_gpu_attention *attention, const sf_device_arrays *arrays) {
    return with_advice(sf_cuda_raw_forward(attention->raw, arrays));
}

sf_status sf_gpu_attention_backward(sf_gpu_attention *attention, const sf_device_arrays *arrays) {
    return with_advice(sf_cuda_raw_backward(attention->raw, arrays));
}
