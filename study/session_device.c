/* Which backend a session trains on, and which runs it leaves to the CPU. */
#include "study/session_device.h"

#include "train/automatic.h"
#include "train/numerics.h"

static const sf_config *config_of(const sf_session_state *state, size_t index) {
    return &state->runs[index].plan->config;
}

static bool is_computed_here(const sf_session_state *state, size_t index) {
    const sf_machine *machine = &state->machine;
    const sf_config *config = config_of(state, index);
    const sf_backend *own =
        machine->backend != NULL ? machine->backend : sf_backend_for(sf_numerics_device(config, machine->device));
    return sf_backend_computes(&sf_backend_cpu, config) || sf_backend_computes(own, config);
}

sf_status sf_session_refuse_foreign(const sf_session_state *state) {
    for (size_t i = 0; i < state->count; i++) {
        const sf_planned_run *plan = state->runs[i].plan;
        bool found, satisfied = false;
        sf_stored_run stored;
        if (state->runs[i].progress == SF_RUN_OVER) continue;
        if (*plan->config.architecture == '\0' || is_computed_here(state, i)) continue;
        SF_TRY(sf_store_look_up(&stored, &found, state->store, plan->id));
        if (found) SF_TRY(sf_store_satisfies(&satisfied, state->store, &stored, &plan->config));
        if (satisfied) continue;
        const sf_machine *machine = &state->machine;
        (void)sf_backend_check_run(machine->backend != NULL ? machine->backend : &sf_backend_cuda, &plan->config);
        return sf_fail_in(SF_UNSUPPORTED, "run %s", plan->id);
    }
    return SF_OK;
}

/* Of what is still to be trained; `all`: as if nothing were in the store. */
static sf_workload work_of(const sf_session_state *state, bool all) {
    sf_workload work = {0};
    for (size_t i = 0; i < state->count; i++) {
        const sf_listed_run *run = &state->runs[i];
        const sf_config *config = &run->plan->config;
        bool satisfied = false;
        if (run->progress == SF_RUN_OVER) continue;
        if (!all && sf_session_is_satisfied(&satisfied, state, run) == SF_OK && satisfied) continue;
        const double done = all ? 0 : (double)run->stored.checkpoint_epoch, epochs = (double)config->epochs;
        sf_workload_add_run(&work, config, run->plan->attention, epochs > done ? epochs - done : 0);
    }
    return work;
}

static bool needs_gpu(bool *has_choice, const sf_session_state *state) {
    bool any = false;
    *has_choice = false; /* bf16 would be other runs on the CPU */
    for (size_t i = 0; i < state->count; i++) {
        const sf_config *config = config_of(state, i);
        if (*config->architecture == '\0' || state->runs[i].progress == SF_RUN_OVER) continue;
        any = true;
        *has_choice |= config->precision == SF_BF16;
    }
    return any;
}

/* The store is looked at only if there may be something to gain. */
static void decide(sf_session_state *state) {
    sf_machine *machine = &state->machine;
    sf_machine tried = {.threads = machine->threads, .device = SF_AUTO};
    bool has_choice;
    if (machine->backend != NULL || machine->device != SF_AUTO) return;
    if (needs_gpu(&has_choice, state) && sf_backend_cuda.check(SF_F32) == SF_OK) {
        machine->device = SF_CUDA;
        if (has_choice && work_of(state, false).models > 0) sf_session_note(state, sf_gpu_chosen());
        return;
    }
    sf_workload work = work_of(state, true);
    sf_machine_decide(&tried, &work);
    if (tried.device == SF_CUDA) {
        work = work_of(state, false);
        sf_machine_decide(machine, &work);
    }
}

void sf_session_choose_backend(sf_session_state *state) {
    decide(state);
    state->machine.backend = sf_machine_backend(&state->machine);
    if (state->machine.backend->version != SF_BACKEND_VERSION) return;
    for (size_t i = 0; i < state->count; i++)
        state->runs[i].on_cpu = !sf_backend_computes(state->machine.backend, config_of(state, i));
}
