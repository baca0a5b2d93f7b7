/* Which backend computes what. */
#include <string.h>

#include "base/sizes.h"
#include "train/backend.h"
#include "train/optimizer.h"

const sf_backend *sf_machine_backend(const sf_machine *machine) {
    return machine->backend != NULL ? machine->backend : sf_backend_for(machine->device);
}

const char *sf_precision_name(sf_precision precision) {
    return precision == SF_BF16 ? "bf16" : precision == SF_TF32 ? "tf32" : "f32";
}

sf_status sf_backend_check_version(const sf_backend *backend) {
    if (backend->version == SF_BACKEND_VERSION) return SF_OK;
    return sf_fail(SF_UNSUPPORTED, "backend '%s' has version %u of the interface, but this program knows version %u",
                   backend->name, backend->version, (unsigned)SF_BACKEND_VERSION);
}

bool sf_backend_may_fall_back(const sf_backend *backend, sf_precision precision) {
    if (backend == &sf_backend_cpu) return false;
    return backend->version != SF_BACKEND_VERSION ||
           strcmp(backend->numerics(precision), sf_backend_cpu.numerics(precision)) == 0;
}

void sf_backend_note_cpu(const sf_machine *machine) {
    sf_fail(SF_UNSUPPORTED, "%s; it is computed on the CPU instead", sf_message());
    if (machine->on_note != NULL) machine->on_note(machine->context, sf_message());
}

static sf_status check_device(const sf_backend *backend, sf_precision precision) {
    const sf_status status = backend->check(precision);
    if (status == SF_OK || backend == &sf_backend_cpu) return status;
    return sf_fail_on(status, "device", "device is %s but %s; use cpu or auto", backend->name, sf_message());
}

sf_status sf_backend_choose(const sf_backend **out, const sf_machine *machine, const sf_demand *demand) {
    const sf_backend *own = *out = sf_machine_backend(machine);
    sf_status status = sf_backend_check_version(own);
    if (status == SF_OK) {
        SF_TRY(check_device(own, demand->precision)); /* a device that is not there is no reason to take another one */
        status = own->supports(demand);
    }
    if (status != SF_UNSUPPORTED || own == &sf_backend_cpu) return status;
    if (!sf_backend_may_fall_back(own, demand->precision))
        return sf_fail(status, "%s, and the CPU would compute other bits", sf_message());
    sf_backend_note_cpu(machine);
    *out = &sf_backend_cpu;
    return sf_backend_cpu.supports(demand);
}

sf_status sf_backend_check(sf_device device, sf_precision precision) {
    return check_device(sf_backend_for(device), precision);
}

sf_status sf_device_check(sf_device device) {
    return sf_backend_check(device, SF_F32);
}

sf_machine sf_machine_of(const sf_execution *execution) {
    sf_execution usual;
    sf_execution_init(&usual);
    if (execution == NULL) execution = &usual;
    return (sf_machine){.threads = (size_t)execution->threads,
                        .device = (sf_device)execution->device,
                        .on_note = execution->on_note,
                        .context = execution->note_context};
}

sf_demand sf_member_demand(const sf_member *member) {
    const size_t training = sf_dataset_count(member->data->training);
    const size_t most = sf_larger(training, sf_dataset_count(member->data->heldout));
    const size_t batch = sf_smaller((size_t)member->config.batch, training);
    return (sf_demand){.work = SF_TRAINING_WORK,
                       .shape = &member->model.shape,
                       .precision = (sf_precision)member->config.precision,
                       .optimizer = (sf_optimizer)member->config.optimizer,
                       .moments = sf_optimizer_moments(&member->config),
                       .batch = sf_larger(batch, sf_smaller(SF_EVALUATION_BATCH, most)),
                       .sequences = most,
                       .evaluates_part = member->config.evaluate_count > 0};
}
