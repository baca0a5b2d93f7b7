/* The structure of a dataset: rows that lie anywhere in one array of tokens and one of labels. A dataset owns its
 * arrays, and then rows are added one after the other: sf_dataset_open_row() makes room for one more, the caller writes
 * its tokens there, sf_dataset_close_row() makes it part of the dataset. Or it borrows the arrays of the caller, such
 * as a mapped file, and a row is any stretch of them: with labels = tokens + 1, the label of a position is the next
 * token. */
#ifndef SF_TASKS_DATASET_H
#define SF_TASKS_DATASET_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/status.h"
#include "semfocus/task.h"

typedef struct sf_dataset_row {
    size_t start, count; /* tokens[start .. start + count - 1] */
} sf_dataset_row;

struct sf_dataset {
    size_t count, longest, label_count;
    int32_t largest_token, largest_label;
    bool labels_each;      /* one label per token; otherwise one per row */
    bool borrowed;         /* the arrays are the caller's and outlive the dataset */
    const int32_t *tokens; /* of row i: from rows[i].start */
    const int32_t *labels; /* of row i: from rows[i].start; from i where arrays are owned and labels_each is false */
    sf_dataset_row *rows;  /* [count] */
    int32_t *own_tokens, *own_labels; /* the same arrays if owned */
    size_t row_room, token_room, tokens_used;
};

/* An empty dataset that can take this many rows and tokens before it has to grow. */
sf_status sf_dataset_create(sf_dataset **out, size_t row_room, size_t token_room, bool labels_each);
/* `labels` may be NULL; with one label per position, it receives where they go. */
sf_status sf_dataset_open_row(int32_t **tokens /* [room] */, int32_t **labels /* [room] */, sf_dataset *data,
                              size_t room);
void sf_dataset_close_row(sf_dataset *data, size_t count, int32_t label);
void sf_dataset_close_row_each(sf_dataset *data, size_t count); /* its labels have been written as well */
/* Turns one label per sequence into one per position, which is the same if every row has a single token. Between
 * rows. */
sf_status sf_dataset_make_each(sf_dataset *data);

/* An empty dataset of rows in the caller's arrays. Row i has one label per token, labels[start .. start + count - 1],
 * or the one label labels[start]. The largest values bound all tokens and labels, which are not looked at here; every
 * label counts (none is -1). */
typedef struct sf_dataset_view {
    const int32_t *tokens, *labels;
    bool labels_each;
    int32_t largest_token, largest_label;
} sf_dataset_view;
sf_status sf_dataset_borrow(sf_dataset **out, const sf_dataset_view *view, size_t row_room);
sf_status sf_dataset_add_view(sf_dataset *data, size_t start, size_t count);

/* sf_dataset_draw() that ends with SF_INTERRUPTED once *stop is not 0; stop may be NULL. */
sf_status sf_dataset_draw_until(sf_dataset **out, const sf_sampling *what, const atomic_int *stop);

/* sf_dataset_read() likewise. */
sf_status sf_dataset_read_until(sf_dataset **out, const char *path, const atomic_int *stop);

/* Replaces sequence i of a training set that was sampled like this, and nothing else. Redraws use other random numbers
 * than the rest of the data; the first redraw that is a different sequence of at most `longest` tokens is taken. */
sf_status sf_dataset_redraw(sf_dataset **data, const sf_sampling *what, size_t i, size_t longest);

#endif
