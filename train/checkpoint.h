/* A model's state in a safetensors file: weights under their published names, the optimizer's moments beside them as
 * optimizer.0.NAME and optimizer.1.NAME, and run and epoch in the metadata. No time, host or path: the same state gives
 * the same bytes. */
#ifndef SF_TRAIN_CHECKPOINT_H
#define SF_TRAIN_CHECKPOINT_H

#include "io/safetensors.h"
#include "model/model.h"

typedef struct sf_checkpoint_label {
    const char *run;
    size_t epoch;
} sf_checkpoint_label;

/* The bytes of such a file and their hash; release *bytes. `blocks` are block 0 (weights) and the moments, padded as in
 * the model. */
sf_status sf_checkpoint_encode(unsigned char **bytes, size_t *size, uint64_t *hash, const sf_model *model,
                               float *const *blocks /* [count] */, size_t count, const sf_checkpoint_label *label);

/* Opens a checkpoint file that must be byte for byte the one with this hash; otherwise SF_IO_ERROR says if it is
 * missing or damaged. */
sf_status sf_checkpoint_open(sf_safetensors **out, const char *path, uint64_t hash);

/* The bytes of such a file in pieces, for copying it in little memory. Whether it is the one with this hash is known at
 * the end: what `each` did before is to be undone if this fails. A failure of `each` ends it. */
sf_status sf_checkpoint_each_piece(const char *path, uint64_t hash,
                                   sf_status (*each)(void *context, const void *bytes, size_t count), void *context);

/* A file that is not the one with this hash, or not of this model, is SF_IO_ERROR: a damaged checkpoint. */
sf_status sf_checkpoint_read(float *const *blocks /* [count] */, size_t count, const char *path, uint64_t hash,
                             const sf_model *model);

/* The same from an opened file; messages call it `name`. */
sf_status sf_checkpoint_unpack(float *const *blocks /* [count] */, size_t count, const char *name,
                               const sf_safetensors *file, const sf_model *model);

#endif
