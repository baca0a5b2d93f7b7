/* Which backend serves which device. */
#include "train/backend.h"

static const sf_backend *const backends[] = {[SF_CPU] = &sf_backend_cpu, [SF_CUDA] = &sf_backend_cuda};

const sf_backend *sf_backend_for(sf_device device) {
    return device == SF_AUTO ? &sf_backend_cpu : backends[device];
}

bool sf_backend_describe(sf_backend_info *out, size_t i) {
    if (i >= sizeof backends / sizeof *backends) return false;
    *out = (sf_backend_info){backends[i]->name, backends[i]->summary};
    return true;
}
