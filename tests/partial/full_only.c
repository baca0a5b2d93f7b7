/* Takes the place of train/devices.c in a program for tests: its only device computes full attention alone. */
#include "train/backend.h"

static sf_backend full_only;

static sf_status supports(const sf_demand *demand) {
    if (demand->shape->attention.selector == &sf_selector_full) return sf_backend_cpu.supports(demand);
    char spelling[SF_SPELLING_SIZE];
    sf_attention_spell(spelling, &demand->shape->attention);
    return sf_fail(SF_UNSUPPORTED, "backend full-only has no kernel for %s", spelling);
}

__attribute__((constructor)) static void make_backend(void) {
    full_only = sf_backend_cpu;
    full_only.name = "full-only";
    full_only.summary = "full attention alone";
    full_only.supports = supports;
}

const sf_backend *sf_backend_for(sf_device device) {
    (void)device;
    return &full_only;
}

bool sf_backend_describe(sf_backend_info *out, size_t i) {
    if (i > 0) return false;
    *out = (sf_backend_info){full_only.name, full_only.summary};
    return true;
}
