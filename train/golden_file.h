/* A file of golden tensors: semfocus/golden.h says what it holds. */
#ifndef SF_TRAIN_GOLDEN_FILE_H
#define SF_TRAIN_GOLDEN_FILE_H

#include "io/safetensors.h"
#include "model/model.h"

enum { SF_GOLDEN_STEPS = 3, SF_GOLDEN_LOSSES = SF_GOLDEN_STEPS + 1 };

typedef struct sf_golden_file { /* a file, unpacked into the model's padded layout */
    sf_safetensors *file;
    sf_model model;
    size_t B;
    double lr, clip;
    int32_t *tokens, *labels;
    double *params, *gradient; /* [size] */
    double *logits;            /* [B,labels,classes] */
    double gradient_norm, losses[SF_GOLDEN_LOSSES];
} sf_golden_file;

/* How many logits it has. */
static inline size_t sf_golden_logits(const sf_golden_file *g) {
    return g->B * sf_shape_labels(&g->model.shape) * g->model.shape.classes;
}

/* Closing a zeroed one is legal. */
sf_status sf_golden_file_open(sf_golden_file *out, const char *path);
void sf_golden_file_close(sf_golden_file *file);

#endif
