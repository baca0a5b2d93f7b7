#include "train/member.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

struct sf_shared_data {
    sf_run_data data;
    size_t users;
    char task[SF_PATH_SIZE];
};

static bool same_data(const sf_config *a, const sf_config *b) {
    return sf_run_data_seed(a) == sf_run_data_seed(b) && a->length == b->length && a->train_count == b->train_count &&
           a->heldout_count == b->heldout_count && a->vocab == b->vocab && a->classes == b->classes &&
           a->swap_sample == b->swap_sample && a->min_length == b->min_length && a->pairs == b->pairs &&
           a->group == b->group && a->noise == b->noise && a->writes == b->writes && a->readout == b->readout &&
           a->context == b->context && strcmp(a->tokenizer, b->tokenizer) == 0 &&
           strcmp(a->tokens_column, b->tokens_column) == 0 && strcmp(a->label_column, b->label_column) == 0;
}

/* The data becomes that of the member, also if this fails. */
static sf_status own_data(sf_member *member, const char *task, sf_run_data *data) {
    struct sf_shared_data *shared;
    const sf_status status = SF_NEW(&shared, 1);
    if (status != SF_OK) {
        sf_run_data_close(data);
        return status;
    }
    shared->data = *data;
    snprintf(shared->task, sizeof shared->task, "%s", task);
    shared->users = 1;
    member->shared = shared;
    member->data = &shared->data;
    return SF_OK;
}

static sf_status open_data(sf_member *member, const char *task, sf_member *const *others, size_t count,
                           const atomic_int *stop) {
    for (size_t i = 0; i < count; i++)
        if (others[i] != NULL && strcmp(others[i]->shared->task, task) == 0 &&
            same_data(&others[i]->config, &member->config)) {
            member->shared = others[i]->shared;
            member->shared->users++;
            member->data = &member->shared->data;
            return SF_OK;
        }
    sf_run_data data;
    SF_TRY(sf_run_data_open(&data, task, &member->config, stop));
    return own_data(member, task, &data);
}

static sf_status settle_config(sf_member *member, const char *task) {
    SF_TRY(sf_run_data_recipe(&member->config, task));
    return sf_config_check(&member->config);
}

/* The data is there. */
static sf_status open_model(sf_member *member) {
    const sf_config *config = &member->config;
    sf_attention attention;
    SF_TRY(sf_attention_parse(&attention, config->attention));
    const size_t longest = sf_longest_read(config, member->data->longest);
    attention = sf_attention_resolve(attention, longest);
    SF_TRY(sf_attention_set_causal(&attention, config->causal != 0));

    const sf_shape shape = {
        .V = sf_token_ids(config, member->data, attention.globals),
        .T = sf_attention_positions(&attention, longest, config->pad == SF_PAD_MASK),
        .C = (size_t)config->width,
        .F = (size_t)config->mlp_width,
        .H = (size_t)config->heads,
        .D = (size_t)(config->head_width > 0 ? config->head_width : config->width),
        .L = (size_t)config->blocks,
        .classes = member->data->classes,
        .activation = (sf_activation)config->activation,
        .norm = (sf_norm)config->norm,
        .readout = (sf_readout)config->readout,
        .tied = config->tie_weights != 0,
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

static sf_status begin(sf_member **out, const sf_config *config) {
    *out = NULL;
    SF_TRY(SF_NEW(out, 1));
    (*out)->config = *config;
    return SF_OK;
}

static sf_status finish(sf_member **out, sf_status status) {
    if (status == SF_OK) return SF_OK;
    sf_member_destroy(*out);
    *out = NULL;
    return status;
}

sf_status sf_member_create(sf_member **out, const char *task, const sf_config *config,
                           sf_member *const *others /* [count] */, size_t count, const atomic_int *stop) {
    SF_TRY(begin(out, config));
    sf_attention attention; /* a wrong spelling is found before the data is made */
    sf_status status = settle_config(*out, task);
    if (status == SF_OK) status = sf_attention_parse(&attention, (*out)->config.attention);
    if (status == SF_OK) status = open_data(*out, task, others, count, stop);
    if (status == SF_OK) status = open_model(*out);
    return finish(out, status);
}

sf_status sf_member_create_on(sf_member **out, const char *task, const sf_config *config, sf_run_data *data) {
    sf_status status = begin(out, config);
    if (status != SF_OK) {
        sf_run_data_close(data);
        return status;
    }
    status = own_data(*out, task, data);
    if (status == SF_OK) status = settle_config(*out, task);
    if (status == SF_OK) status = open_model(*out);
    return finish(out, status);
}

void sf_member_destroy(sf_member *member) {
    if (member == NULL) return;
    sf_model_destroy(&member->model);
    if (member->shared != NULL && --member->shared->users == 0) {
        sf_run_data_close(&member->shared->data);
        sf_release(member->shared);
    }
    sf_release(member);
}

const char *sf_member_task(const sf_member *member) {
    return member->shared->task;
}

static uint64_t add_dataset(uint64_t hash, const sf_dataset *data) {
    for (size_t i = 0; i < sf_dataset_count(data); i++) {
        size_t count, label_count;
        const int32_t *tokens = sf_dataset_tokens(data, i, &count);
        const int32_t *labels = sf_dataset_labels(data, i, &label_count);
        hash = sf_hash(hash, &count, sizeof count);
        hash = sf_hash(hash, tokens, count * sizeof *tokens);
        hash = sf_hash(hash, labels, label_count * sizeof *labels);
    }
    return hash;
}

uint64_t sf_member_data_hash(const sf_member *member) {
    return add_dataset(add_dataset(SF_HASH_START, member->data->training), member->data->heldout);
}

sf_status sf_member_check(const sf_member *member) {
    return sf_attention_check_fault(&member->model.shape.attention);
}

void sf_member_settle(sf_member *member) {
    sf_result *result = &member->result;
    if (result->status != SF_RUN_RUNNING) return;
    if (result->converged_epoch == 0 && result->last.train_accuracy >= SF_CONVERGED_AT)
        result->converged_epoch = result->last.epoch;
    if (member->config.stop_at > 0 && result->last.train_accuracy >= member->config.stop_at)
        result->status = SF_RUN_STOPPED;
    else if (result->last.epoch >= (size_t)member->config.epochs)
        result->status = SF_RUN_DONE;
}
