#include "train/numerics.h"

#include <stdio.h>
#include <string.h>

const char *sf_numerics_spell(char out[SF_NUMERICS_SIZE], sf_precision precision, const char *architecture) {
    const bool portable = *architecture == '\0' || precision == SF_F32;
    snprintf(out, SF_NUMERICS_SIZE, "%s%s%s", sf_precision_name(precision), portable ? "" : "-",
             portable ? "" : architecture);
    return out;
}

void sf_numerics_name(char out[SF_NUMERICS_SIZE], const sf_config *config) {
    sf_numerics_spell(out, (sf_precision)config->precision, config->architecture);
}

sf_status sf_backend_check_run(const sf_backend *backend, const sf_config *config) {
    const sf_precision precision = (sf_precision)config->precision;
    char name[SF_NUMERICS_SIZE];
    SF_TRY(sf_backend_check_version(backend));
    sf_numerics_name(name, config);
    if (backend->check(precision) != SF_OK)
        return sf_fail_on(SF_UNSUPPORTED, "precision", "nothing here computes %s: %s", name, sf_message());
    if (strcmp(backend->numerics(precision), name) == 0) return SF_OK;
    return sf_fail_on(SF_UNSUPPORTED, "precision", "nothing here computes %s: device %s computes %s", name,
                      backend->name, backend->numerics(precision));
}

bool sf_backend_computes(const sf_backend *backend, const sf_config *config) {
    return sf_backend_check_run(backend, config) == SF_OK;
}

static sf_status needs_gpu(void) {
    return sf_fail_on(SF_UNSUPPORTED, "precision", "precision is tf32, which needs a GPU, but %s; use f32",
                      sf_message());
}

sf_status sf_numerics_settle(sf_config *config, sf_device device) {
    const sf_precision precision = (sf_precision)config->precision;
    if (device == SF_CUDA) SF_TRY(sf_backend_check(SF_CUDA, precision));
    if (precision == SF_F32 || *config->architecture != '\0') return SF_OK;
    const sf_backend *gpu = sf_backend_for(SF_CUDA);
    const bool on_gpu = device != SF_CPU && gpu->check(precision) == SF_OK;
    if (on_gpu)
        snprintf(config->architecture, sizeof config->architecture, "%s", gpu->variant(precision));
    else if (precision == SF_TF32)
        return device == SF_CPU ? sf_backend_cpu.check(precision) : needs_gpu();
    return SF_OK;
}

sf_status sf_numerics_check(const sf_config *config) {
    return *config->architecture != '\0' ? SF_OK : sf_backend_cpu.check((sf_precision)config->precision);
}

sf_device sf_numerics_device(const sf_config *config, sf_device asked) {
    if (config->precision == SF_F32) return asked;
    return *config->architecture == '\0' ? SF_CPU : SF_CUDA;
}
