#include "store/stored_model.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "measure/landscape.h"
#include "store/own_data_facts.h"
#include "train/checkpoint.h"

/* The member's model at its initial weights. */
static sf_status settle(sf_stored_model *out) {
    out->model = &out->member->model;
    out->data = out->member->data;
    out->config = &out->member->config;
    SF_TRY(SF_NEW(&out->params, out->model->size));
    sf_model_initialize(out->params, out->model, (uint32_t)out->config->seed);
    return SF_OK;
}

/* Over the data it was trained on. */
static sf_status open_member(sf_stored_model *out, sf_store *store) {
    const sf_stored_run *run = &out->run;
    sf_config config;
    SF_TRY(sf_run_trained_config(&config, store, run));
    SF_TRY(sf_member_create(&out->member, run->task, &config, NULL, 0, NULL));
    return settle(out);
}

/* Over what the store has of its data. */
static sf_status open_writer(sf_stored_model *out, sf_store *store) {
    const sf_stored_run *run = &out->run;
    sf_config config;
    sf_run_data data;
    bool found;
    SF_TRY(sf_own_data_of_record(&data, &found, store, run));
    if (!found) return open_member(out, store);
    const sf_status status = sf_store_config(&config, store, run);
    if (status != SF_OK) {
        sf_run_data_close(&data);
        return status;
    }
    SF_TRY(sf_member_create_on(&out->member, run->task, &config, &data));
    return settle(out);
}

/* Not every caller takes other weights than the last: the sentence names those that do. */
#define INITIAL_WEIGHTS "analyze, evaluate and landscape also take its initial weights: --at init"

static sf_status no_checkpoint(const sf_stored_run *run) {
    if (strcmp(run->status, "diverged") == 0)
        return sf_fail(SF_BAD_INPUT,
                       "run %s diverged in epoch %zu and has no finite weights from before; " INITIAL_WEIGHTS, run->id,
                       run->diverged_epoch);
    return sf_fail(SF_BAD_INPUT, "run %s has no checkpoint yet; train it for an epoch or more; " INITIAL_WEIGHTS,
                   run->id);
}

static sf_status find_weights(char path[SF_CHECKPOINT_PATH_SIZE], const sf_store *store, const sf_stored_run *run,
                              bool best) {
    const size_t epoch = best ? run->best_saved_epoch : run->checkpoint_epoch;
    if (epoch == 0) return no_checkpoint(run);
    sf_store_checkpoint_path(path, store, run, best, epoch);
    return SF_OK;
}

typedef sf_status weights_reader(void *out, const sf_stored_run *run, const sf_store *store, bool best);

static sf_status read_weights(void *model, const sf_stored_run *run, const sf_store *store, bool best) {
    sf_stored_model *out = model;
    char path[SF_CHECKPOINT_PATH_SIZE];
    SF_TRY(find_weights(path, store, run, best));
    out->epoch = best ? run->best_saved_epoch : run->checkpoint_epoch;
    return sf_checkpoint_read(&out->params, 1, path, best ? run->best_hash : run->checkpoint_hash, out->model);
}

static sf_status open_weights(void *file, const sf_stored_run *run, const sf_store *store, bool best) {
    char path[SF_CHECKPOINT_PATH_SIZE];
    SF_TRY(find_weights(path, store, run, best));
    return sf_checkpoint_open(file, path, best ? run->best_hash : run->checkpoint_hash);
}

/* Reads the entry again; whether the run was trained further since then. */
static bool moved_on(sf_stored_run *run, sf_store *store) {
    const size_t checkpoint = run->checkpoint_epoch, best = run->best_saved_epoch;
    char id[SF_RUN_ID_SIZE];
    strcpy(id, run->id);
    return sf_store_find(run, store, id) == SF_OK &&
           (run->checkpoint_epoch != checkpoint || run->best_saved_epoch != best);
}

enum { TRIES = 20 }; /* for a run that another process is training */

static sf_status read_while_it_moves(void *out, weights_reader *read, sf_stored_run *run, sf_store *store, bool best) {
    char message[SF_RUN_MESSAGE_SIZE];
    for (int i = 0;; i++) {
        const sf_status status = read(out, run, store, best);
        if (status == SF_OK) return status;
        snprintf(message, sizeof message, "%s", sf_message());
        if (i == TRIES || !moved_on(run, store)) return sf_fail(status, "%s", message);
    }
}

static sf_status open_with(sf_status (*open)(sf_stored_model *, sf_store *), sf_stored_model *out, sf_store *store,
                           const sf_stored_run *run, sf_weights_at at) {
    *out = (sf_stored_model){.run = *run};
    SF_TRY(sf_store_check_numerics(store));
    sf_status status = open(out, store);
    if (status == SF_OK && at != SF_AT_INIT)
        status = read_while_it_moves(out, read_weights, &out->run, store, at == SF_AT_BEST);
    if (status != SF_OK) sf_stored_model_close(out);
    return status;
}

sf_status sf_stored_model_open(sf_stored_model *out, sf_store *store, const sf_stored_run *run, sf_weights_at at) {
    return open_with(open_member, out, store, run, at);
}

sf_status sf_stored_writer_open(sf_stored_model *out, sf_store *store, const sf_stored_run *run, sf_weights_at at) {
    return open_with(open_writer, out, store, run, at);
}

sf_status sf_stored_weights_open(sf_safetensors **out, sf_stored_run *run, sf_store *store) {
    *out = NULL;
    SF_TRY(sf_store_check_numerics(store));
    return read_while_it_moves(out, open_weights, run, store, false);
}

sf_status sf_stored_model_perturb(sf_stored_model *stored, double distance, uint32_t direction_seed) {
    float *direction;
    if (distance == 0) return SF_OK;
    SF_TRY(SF_NEW(&direction, stored->model->size));
    sf_direction_fill(direction, stored->model, stored->params, direction_seed, 0);
    sf_direction_go(stored->params, direction, distance, stored->model->size);
    sf_release(direction);
    return SF_OK;
}

void sf_stored_model_close(sf_stored_model *stored) {
    sf_member_destroy(stored->member);
    sf_release(stored->params);
    *stored = (sf_stored_model){0};
}
