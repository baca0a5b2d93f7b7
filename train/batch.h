/* Sequences of a dataset as a model reads them: with padding, global tokens and CLS, a batch at a time. */
#ifndef SF_TRAIN_BATCH_H
#define SF_TRAIN_BATCH_H

#include "kernels/kernels.h"
#include "train/data.h"

typedef struct sf_batch_room { /* memory of a batch */
    int32_t *tokens;           /* [B,T] */
    int32_t *labels;           /* [B,T], or [B] of them used */
    uint32_t *last;            /* [B] */
} sf_batch_room;

/* For up to B sequences of up to T positions. */
sf_status sf_batch_room_open(sf_batch_room *out, size_t B, size_t T);
void sf_batch_room_close(sf_batch_room *room); /* legal for a zeroed one */
size_t sf_batch_room_bytes(size_t B, size_t T);

/* Writes sequence i of a set as row n: CLS, tokens, PAD up to the position of the global tokens, then these. */
void sf_batch_room_place(const sf_batch_room *room, size_t n, const sf_run_data *data, const sf_dataset *set, size_t i,
                         const sf_shape *shape);
/* The first B rows. */
sf_batch sf_batch_room_read(const sf_batch_room *room, size_t B);

/* How many labels sequence i of a set has. */
size_t sf_labels_of(const sf_dataset *set, size_t i);

#endif
