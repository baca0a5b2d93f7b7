#include "train/fleet.h"

#include <assert.h>

#include "train/automatic.h"
#include "train/numerics.h"
#include "train/optimizer.h"

struct sf_fleet {
    const sf_backend *backend;
    void *state;
    sf_member **members; /* [capacity]; NULL where a place is free */
    size_t capacity, count;
    const sf_watch *watch;
};

sf_status sf_fleet_open(sf_fleet **out, const sf_backend *backend, const sf_demand *demand, size_t capacity,
                        size_t threads) {
    *out = NULL;
    sf_fleet *fleet;
    SF_TRY(SF_NEW(&fleet, 1));
    fleet->capacity = capacity;
    sf_status status = SF_NEW(&fleet->members, capacity);
    if (status == SF_OK) status = backend->fleet_open(&fleet->state, demand, capacity, threads);
    if (status != SF_OK) {
        sf_fleet_destroy(fleet);
        return status;
    }
    fleet->backend = backend;
    *out = fleet;
    return SF_OK;
}

void sf_fleet_destroy(sf_fleet *fleet) {
    if (fleet == NULL) return;
    if (fleet->backend != NULL) fleet->backend->fleet_close(fleet->state);
    for (size_t s = 0; fleet->members != NULL && s < fleet->capacity; s++) sf_member_destroy(fleet->members[s]);
    sf_release(fleet->members);
    sf_release(fleet);
}

sf_status sf_fleet_add(sf_fleet *fleet, size_t *s, sf_member *member) {
    assert(fleet->count < fleet->capacity);
    for (*s = 0; fleet->members[*s] != NULL;) ++*s;
    SF_TRY(fleet->backend->fleet_add(fleet->state, *s, member));
    fleet->members[*s] = member;
    fleet->count++;
    return SF_OK;
}

sf_status sf_fleet_remove(sf_fleet *fleet, size_t s) {
    const sf_status status = fleet->backend->fleet_remove(fleet->state, s);
    sf_member_destroy(fleet->members[s]);
    fleet->members[s] = NULL;
    fleet->count--;
    return status;
}

/* Members of a public fleet differ in seed, mechanism and settings, not in the size of their weights. */
static sf_status check_same_shape(const sf_config *a, const sf_config *b) {
    if (a->width == b->width && a->mlp_width == b->mlp_width && a->heads == b->heads && a->blocks == b->blocks)
        return SF_OK;
    return sf_fail(SF_BAD_INPUT, "the models of a fleet must share width, mlp-width, heads and blocks; "
                                 "train the others in a fleet of their own");
}

/* One device for all members: that of their arithmetic, or the one asked for. */
static void choose_device(sf_machine *machine, sf_member *const *members, size_t count) {
    sf_workload work = {0};
    for (size_t s = 0; s < count; s++) {
        const sf_member *member = members[s];
        sf_workload_add_run(&work, &member->config, member->result.attention, (double)member->config.epochs);
        machine->device = sf_numerics_device(&member->config, machine->device);
    }
    sf_machine_decide(machine, &work);
}

/* One backend for all members: the CPU if the device's own does not support all of them. */
static sf_status choose_backend(const sf_backend **out, const sf_machine *machine, sf_member *const *members,
                                size_t count) {
    const sf_demand first = sf_member_demand(members[0]);
    bool together = true;
    for (size_t s = 0; s < count && together; s++) {
        const sf_demand demand = sf_member_demand(members[s]);
        SF_TRY(sf_backend_check_run(sf_machine_backend(machine), &members[s]->config));
        SF_TRY(sf_backend_choose(out, machine, &demand));
        together = *out != &sf_backend_cpu && (*out)->share_fleet(&first, &demand);
    }
    if (together) return SF_OK;
    *out = &sf_backend_cpu;
    for (size_t s = 0; s < count; s++) SF_TRY(sf_backend_check_run(*out, &members[s]->config));
    return SF_OK;
}

static sf_status fill(sf_fleet **out, sf_member **members /* [count]; NULL once the fleet has them */, size_t count,
                      const sf_execution *execution) {
    sf_machine machine = sf_machine_of(execution);
    const sf_demand demand = sf_member_demand(members[0]);
    const sf_backend *backend;
    for (size_t s = 0; s < count; s++) SF_TRY(sf_numerics_settle(&members[s]->config, machine.device));
    choose_device(&machine, members, count);
    SF_TRY(choose_backend(&backend, &machine, members, count));
    SF_TRY(sf_fleet_open(out, backend, &demand, count, machine.threads));
    for (size_t i = 0, s; i < count; i++) {
        SF_TRY(sf_fleet_add(*out, &s, members[i]));
        members[i] = NULL;
    }
    return SF_OK;
}

sf_status sf_fleet_create(sf_fleet **out, const char *task, const sf_config *configs /* [count] */, size_t count,
                          const sf_execution *execution) {
    *out = NULL;
    if (count == 0) return sf_fail(SF_BAD_INPUT, "a fleet of 0 models was asked for but it needs at least 1");
    sf_member **members;
    SF_TRY(SF_NEW(&members, count));
    sf_status status = SF_OK;
    for (size_t s = 0; s < count && status == SF_OK; s++) {
        status = sf_member_create(&members[s], task, &configs[s], members, s, NULL);
        if (status == SF_OK) status = check_same_shape(&members[s]->config, &members[0]->config);
    }
    if (status == SF_OK) status = fill(out, members, count, execution);
    for (size_t s = 0; s < count; s++) sf_member_destroy(members[s]);
    sf_release(members);
    if (status != SF_OK) {
        sf_fleet_destroy(*out);
        *out = NULL;
    }
    return status;
}

sf_status sf_fleet_advance_members(sf_fleet *fleet) {
    const sf_status status = fleet->backend->fleet_advance(fleet->state, fleet->watch);
    for (size_t s = 0; s < fleet->capacity; s++)
        if (fleet->members[s] != NULL) sf_member_settle(fleet->members[s]);
    return status;
}

sf_status sf_fleet_advance(sf_fleet *fleet) {
    if (sf_fleet_finished(fleet))
        return sf_fail(SF_BAD_INPUT, "every model of the fleet is finished; check sf_fleet_finished");
    SF_TRY(sf_fleet_advance_members(fleet));
    for (size_t s = 0; s < fleet->capacity; s++)
        if (fleet->members[s] != NULL) SF_TRY(sf_member_check(fleet->members[s]));
    return SF_OK;
}

sf_status sf_fleet_alive(const sf_fleet *fleet) {
    return fleet->backend->alive != NULL ? fleet->backend->alive(fleet->state) : SF_OK;
}

void sf_fleet_watch(sf_fleet *fleet, const sf_watch *watch) {
    fleet->watch = watch;
}

size_t sf_fleet_capacity(const sf_fleet *fleet) {
    return fleet->capacity;
}

sf_member *sf_fleet_member(sf_fleet *fleet, size_t s) {
    return fleet->members[s];
}

sf_member *const *sf_fleet_members(const sf_fleet *fleet) {
    return fleet->members;
}

sf_status sf_fleet_read(const sf_fleet *fleet, size_t s, size_t block, float *values /* [size] */) {
    return fleet->backend->fleet_read(fleet->state, s, block, values);
}

sf_status sf_fleet_resume(sf_fleet *fleet, size_t s, const sf_epoch *last, size_t converged_epoch,
                          float *const *blocks /* [1 + moments] */) {
    sf_member *member = fleet->members[s];
    for (size_t i = 0; i <= sf_optimizer_moments(&member->config); i++)
        SF_TRY(fleet->backend->fleet_write(fleet->state, s, i, blocks[i]));
    member->result.last = *last;
    member->result.converged_epoch = converged_epoch;
    sf_member_settle(member);
    return SF_OK;
}

sf_status sf_fleet_evaluate(sf_epoch *out, sf_fleet *fleet, size_t s) {
    *out = (sf_epoch){.epoch = fleet->members[s]->result.last.epoch};
    return fleet->backend->fleet_evaluate(fleet->state, s, out);
}

sf_status sf_fleet_seconds(sf_epoch_seconds *out, const sf_fleet *fleet) {
    *out = (sf_epoch_seconds){0};
    if (fleet->backend->fleet_seconds != NULL) return fleet->backend->fleet_seconds(fleet->state, out);
    return sf_fail(SF_UNSUPPORTED, "backend %s does not tell how long the parts of an epoch take",
                   fleet->backend->name);
}

bool sf_fleet_finished(const sf_fleet *fleet) {
    for (size_t s = 0; s < fleet->capacity; s++)
        if (fleet->members[s] != NULL && fleet->members[s]->result.status == SF_RUN_RUNNING) return false;
    return true;
}

size_t sf_fleet_count(const sf_fleet *fleet) {
    return fleet->count;
}

sf_result sf_fleet_result(const sf_fleet *fleet, size_t s) {
    return fleet->members[s]->result;
}

sf_status sf_fleet_weights_hash(uint64_t *out, const sf_fleet *fleet, size_t s) {
    const sf_model *model = &fleet->members[s]->model;
    float *params;
    SF_TRY(SF_NEW(&params, model->size));
    const sf_status status = sf_fleet_read(fleet, s, 0, params);
    if (status == SF_OK) *out = sf_model_hash(model, params);
    sf_release(params);
    return status;
}

const sf_config *sf_fleet_config(const sf_fleet *fleet, size_t s) {
    return &fleet->members[s]->config;
}

const char *sf_fleet_backend(const sf_fleet *fleet) {
    return fleet->backend->name;
}
