#include "semfocus/fleet.h"

#include "train/fleet.h"
#include "train/optimizer.h"

struct sf_fleet {
    const sf_backend *backend;
    void *state;
    sf_member *members; /* [S] */
    size_t S;
    sf_run_data *data; /* [S], the first data_count in use: members with the same data share it */
    size_t data_count;
    float *params; /* [largest size]: a member's weights, for its hash */
    const sf_watch *watch;
};

static const sf_backend *const backends[] = {[SF_CPU] = &sf_backend_cpu};

bool sf_backend_describe(sf_backend_info *out, size_t i) {
    if (i >= sizeof backends / sizeof *backends) return false;
    *out = (sf_backend_info){backends[i]->name, backends[i]->summary};
    return true;
}

/* Members of a fleet differ in seed, mechanism and settings, not in the size of their weights. */
static sf_status check_same_shape(const sf_config *a, const sf_config *b) {
    if (a->width == b->width && a->mlp_width == b->mlp_width && a->heads == b->heads && a->blocks == b->blocks)
        return SF_OK;
    return sf_fail(SF_BAD_INPUT, "the models of a fleet must share width, mlp-width, heads and blocks; "
                                 "train the others in a fleet of their own");
}

static bool same_data(const sf_config *a, const sf_config *b) {
    return sf_run_data_seed(a) == sf_run_data_seed(b) && a->length == b->length && a->train_count == b->train_count &&
           a->heldout_count == b->heldout_count && a->vocab == b->vocab && a->classes == b->classes &&
           a->swap_sample == b->swap_sample;
}

static sf_status open_data(const sf_run_data **out, sf_fleet *fleet, const char *task, size_t s,
                           const atomic_int *stop) {
    for (size_t other = 0; other < s; other++)
        if (same_data(&fleet->members[other].config, &fleet->members[s].config)) {
            *out = fleet->members[other].data;
            return SF_OK;
        }
    sf_run_data *data = &fleet->data[fleet->data_count];
    SF_TRY(sf_run_data_open(data, task, &fleet->members[s].config, stop));
    fleet->data_count++;
    *out = data;
    return SF_OK;
}

static sf_status open_member(sf_fleet *fleet, const char *task, const sf_config *config, size_t s,
                             const atomic_int *stop) {
    sf_member *member = &fleet->members[s];
    member->config = *config;
    SF_TRY(sf_run_data_recipe(&member->config, task));
    config = &member->config;
    SF_TRY(sf_config_check(config));
    SF_TRY(check_same_shape(config, &fleet->members[0].config));
    sf_attention attention;
    SF_TRY(sf_attention_parse(&attention, config->attention));
    SF_TRY(open_data(&member->data, fleet, task, s, stop));
    attention = sf_attention_resolve(attention, member->data->longest);

    const sf_shape shape = {
        .V = (size_t)member->data->pad + 1 + attention.globals,
        .T = sf_attention_positions(&attention, member->data->longest, config->pad == SF_PAD_MASK),
        .C = (size_t)config->width,
        .F = (size_t)config->mlp_width,
        .H = (size_t)config->heads,
        .L = (size_t)config->blocks,
        .classes = member->data->classes,
        .activation = (sf_activation)config->activation,
        .norm = (sf_norm)config->norm,
        .inverse_temperature = config->inverse_temperature,
        .dropout = config->dropout,
        .attention = attention,
    };
    SF_TRY(sf_model_create(&member->model, &shape));
    sf_attention_spell(member->result.attention, &attention);
    member->result.parameters = member->model.parameters;
    member->result.positions = shape.T;
    member->result.train_count = sf_dataset_count(member->data->training);
    member->result.heldout_count = sf_dataset_count(member->data->heldout);
    return SF_OK;
}

static sf_status open_all(sf_fleet *fleet, const char *task, const sf_config *configs, const sf_execution *execution,
                          const atomic_int *stop) {
    size_t largest = 0;
    SF_TRY(SF_NEW(&fleet->members, fleet->S));
    SF_TRY(SF_NEW(&fleet->data, fleet->S));
    for (size_t s = 0; s < fleet->S; s++) {
        SF_TRY(open_member(fleet, task, &configs[s], s, stop));
        if (fleet->members[s].model.size > largest) largest = fleet->members[s].model.size;
    }
    SF_TRY(SF_NEW(&fleet->params, largest));
    sf_execution usual;
    sf_execution_init(&usual);
    if (execution == NULL) execution = &usual;
    fleet->backend = backends[execution->device];
    return fleet->backend->open(&fleet->state, fleet->members, fleet->S, (size_t)execution->threads);
}

sf_status sf_fleet_create(sf_fleet **out, const char *task, const sf_config *configs /* [count] */, size_t count,
                          const sf_execution *execution) {
    return sf_fleet_create_until(out, task, configs, count, execution, NULL);
}

sf_status sf_fleet_create_until(sf_fleet **out, const char *task, const sf_config *configs /* [count] */, size_t count,
                                const sf_execution *execution, const atomic_int *stop) {
    *out = NULL;
    if (count == 0) return sf_fail(SF_BAD_INPUT, "a fleet of 0 models was asked for but it needs at least 1");
    sf_fleet *fleet;
    SF_TRY(SF_NEW(&fleet, 1));
    fleet->S = count;
    const sf_status status = open_all(fleet, task, configs, execution, stop);
    if (status != SF_OK) {
        sf_fleet_destroy(fleet);
        return status;
    }
    *out = fleet;
    return SF_OK;
}

void sf_fleet_destroy(sf_fleet *fleet) {
    if (fleet == NULL) return;
    if (fleet->backend != NULL) fleet->backend->close(fleet->state);
    for (size_t s = 0; fleet->members != NULL && s < fleet->S; s++) sf_model_destroy(&fleet->members[s].model);
    for (size_t i = 0; i < fleet->data_count; i++) sf_run_data_close(&fleet->data[i]);
    sf_release(fleet->members);
    sf_release(fleet->data);
    sf_release(fleet->params);
    sf_release(fleet);
}

static void settle(sf_member *member) {
    sf_result *result = &member->result;
    if (result->status != SF_RUN_RUNNING) return;
    if (result->converged_epoch == 0 && result->last.train_accuracy >= SF_CONVERGED_AT)
        result->converged_epoch = result->last.epoch;
    if (member->config.stop_at > 0 && result->last.train_accuracy >= member->config.stop_at)
        result->status = SF_RUN_STOPPED;
    else if (result->last.epoch >= (size_t)member->config.epochs)
        result->status = SF_RUN_DONE;
}

sf_status sf_fleet_advance(sf_fleet *fleet) {
    if (sf_fleet_finished(fleet))
        return sf_fail(SF_BAD_INPUT, "every model of the fleet is finished; check sf_fleet_finished");
    const bool complete = fleet->backend->advance(fleet->state, fleet->watch);
    for (size_t s = 0; s < fleet->S; s++) settle(&fleet->members[s]);
    for (size_t s = 0; s < fleet->S && !complete; s++)
        SF_TRY(sf_attention_check_fault(&fleet->members[s].model.shape.attention));
    return complete ? SF_OK : sf_fail(SF_INTERRUPTED, "stopped on request");
}

void sf_fleet_watch(sf_fleet *fleet, const sf_watch *watch) {
    fleet->watch = watch;
}

sf_member *sf_fleet_member(sf_fleet *fleet, size_t s) {
    return &fleet->members[s];
}

void sf_fleet_read(const sf_fleet *fleet, size_t s, size_t block, float *values /* [size] */) {
    fleet->backend->read(fleet->state, s, block, values);
}

void sf_fleet_resume(sf_fleet *fleet, size_t s, const sf_epoch *last, size_t converged_epoch, float *const *blocks) {
    sf_member *member = &fleet->members[s];
    for (size_t i = 0; i <= sf_optimizer_moments(&member->config); i++)
        fleet->backend->write(fleet->state, s, i, blocks[i]);
    member->result.last = *last;
    member->result.converged_epoch = converged_epoch;
    settle(member);
}

sf_epoch sf_fleet_evaluate(sf_fleet *fleet, size_t s) {
    sf_epoch row = {.epoch = fleet->members[s].result.last.epoch};
    fleet->backend->evaluate(fleet->state, s, &row);
    return row;
}

bool sf_fleet_finished(const sf_fleet *fleet) {
    for (size_t s = 0; s < fleet->S; s++)
        if (fleet->members[s].result.status == SF_RUN_RUNNING) return false;
    return true;
}

size_t sf_fleet_count(const sf_fleet *fleet) {
    return fleet->S;
}

sf_result sf_fleet_result(const sf_fleet *fleet, size_t s) {
    return fleet->members[s].result;
}

uint64_t sf_fleet_weights_hash(const sf_fleet *fleet, size_t s) {
    fleet->backend->read(fleet->state, s, 0, fleet->params);
    return sf_model_hash(&fleet->members[s].model, fleet->params);
}

const sf_config *sf_fleet_config(const sf_fleet *fleet, size_t s) {
    return &fleet->members[s].config;
}
