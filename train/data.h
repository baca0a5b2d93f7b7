/* The data of a run: sampled from a task, or from a user's files (train/own_data.h). */
#ifndef SF_TRAIN_DATA_H
#define SF_TRAIN_DATA_H

#include <stdatomic.h>

#include "semfocus/settings.h"
#include "semfocus/task.h"

typedef struct sf_run_data {
    sf_dataset *training, *heldout;
    int32_t pad; /* id of PAD; global tokens follow it, then CLS */
    size_t classes, longest;
    struct sf_own_facts *own; /* what is known of a user's data besides; NULL: sampled from a task */
} sf_run_data;

/* Fills the config from the recipe of the task, or of text. */
sf_status sf_run_data_recipe(sf_config *config, const char *task);
/* Whether the settings suit the task, before any data is made. */
sf_status sf_run_data_check(const char *task, const sf_config *config);
/* SF_INTERRUPTED once *stop is not 0; stop may be NULL. */
sf_status sf_run_data_open(sf_run_data *out, const char *task, const sf_config *config, const atomic_int *stop);
void sf_run_data_close(sf_run_data *data);

/* Tokens of the longest sequence as the model reads it, and the number of token ids: the readout `cls` adds one. */
size_t sf_longest_read(const sf_config *config, size_t longest);
size_t sf_token_ids(const sf_config *config, const sf_run_data *data, size_t globals);

/* The order in which an epoch visits the training sequences, the same for every backend: a uniform permutation. */
void sf_epoch_order(uint32_t *order /* [count] */, size_t count, uint32_t seed, uint32_t epoch);

bool sf_run_data_is_own(const char *task); /* a user's files, of any kind */
/* The task with the full paths of a user's files, so that they are found from any folder. */
const char *sf_run_data_place(char out[SF_PATH_SIZE], const char *task);

/* The seed the data depends on. */
uint32_t sf_run_data_seed(const sf_config *config);

#endif
