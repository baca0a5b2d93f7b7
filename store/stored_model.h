/* The model of a stored run: its shape, its weights at one moment, and the data it was trained on. */
#ifndef SF_STORE_STORED_MODEL_H
#define SF_STORE_STORED_MODEL_H

#include "io/safetensors.h"
#include "model/model.h"
#include "store/store.h"
#include "train/member.h"

typedef struct sf_stored_model {
    sf_stored_run run; /* as it was when the weights were read: it may be trained further meanwhile */
    sf_member *member; /* owns model, data and config */
    const sf_model *model;
    const sf_run_data *data;
    const sf_config *config; /* with the task's recipe */
    float *params;           /* [size] */
    size_t epoch;            /* of the weights; 0: initial */
} sf_stored_model;

/* Weights of any instruction set are read; a store of another numerics version is refused, since its data and initial
 * weights cannot be made again. A run without the checkpoint asked for is SF_BAD_INPUT. */
sf_status sf_stored_model_open(sf_stored_model *out, sf_store *store, const sf_stored_run *run, sf_weights_at at);
/* A causal model of text that only writes: of its data, only the tokenizer in the store is needed. */
sf_status sf_stored_writer_open(sf_stored_model *out, sf_store *store, const sf_stored_run *run, sf_weights_at at);
/* Moves the weights to the point (distance, 0) of the loss surface that the seed's directions span. */
sf_status sf_stored_model_perturb(sf_stored_model *stored, double distance, uint32_t direction_seed);
/* The last weights as stored in their file; the data is not needed. The entry is read again if the run was trained
 * further. */
sf_status sf_stored_weights_open(sf_safetensors **out, sf_stored_run *run, sf_store *store);
void sf_stored_model_close(sf_stored_model *stored);

#endif
