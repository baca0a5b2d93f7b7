/* The structure of a dataset, and how rows are added: sf_dataset_open_row() makes room for one more row, the caller
 * writes its tokens there, sf_dataset_close_row() makes it part of the dataset. */
#ifndef SF_TASKS_DATASET_H
#define SF_TASKS_DATASET_H

#include <stdatomic.h>

#include "base/status.h"
#include "semfocus/task.h"

struct sf_dataset {
    size_t count, longest;
    int32_t largest_token, largest_label;
    int32_t *tokens; /* [offsets[count]], row after row */
    size_t *offsets; /* [count + 1] */
    int32_t *labels; /* [count] */
    size_t row_room, token_room;
};

/* An empty dataset that can take this many rows and tokens before it has to grow. */
sf_status sf_dataset_create(sf_dataset **out, size_t row_room, size_t token_room);
sf_status sf_dataset_open_row(int32_t **tokens /* [room] */, sf_dataset *data, size_t room);
void sf_dataset_close_row(sf_dataset *data, size_t count, int32_t label);

/* sf_dataset_sample() that ends with SF_INTERRUPTED once *stop is not 0; stop may be NULL. */
sf_status sf_dataset_sample_until(sf_dataset **out, const sf_task *task, sf_split split, uint32_t seed, size_t count,
                                  size_t length, const atomic_int *stop);

/* sf_dataset_read() likewise. */
sf_status sf_dataset_read_until(sf_dataset **out, const char *path, const atomic_int *stop);

/* Replaces sequence i of a sampled training set, and nothing else. Redraws use other random numbers than the rest of
 * the data; the first redraw that is a different sequence of at most `longest` tokens is taken. */
sf_status sf_dataset_redraw(sf_dataset **data, const sf_task *task, uint32_t seed, size_t length, size_t i,
                            size_t longest);

#endif
