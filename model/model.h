/* The transformer as data: its shape, the table of its parameters in one flat block, initial values, positions.
 *
 * Dimension letters, the same everywhere: S models in a fleet, B batch, T length, C model width, H heads, L blocks,
 * D head width, F MLP width, V embedding rows, K kept keys.
 *
 * A tensor's rows are padded to a multiple of 16 elements with zeros that stay zero, so kernels need no code for
 * remainders; where columns are those of H heads, each head is padded separately (groups = H). */
#ifndef SF_MODEL_MODEL_H
#define SF_MODEL_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "attention/attention.h"
#include "base/memory.h"
#include "semfocus/settings.h"

typedef struct sf_shape {
    size_t V, T, C, F, H, L, classes; /* V and T include the global tokens and CLS */
    size_t D;                         /* head width; 0: C, which sf_model_create() fills in */
    bool tied;                        /* the weights of the head are the first rows of the embedding */
    sf_activation activation;
    sf_norm norm;
    sf_readout readout;
    double inverse_temperature;
    double dropout;
    sf_attention attention;
} sf_shape;

/* How many labels a sequence has, of which some may be SF_NO_LABEL: one, or one per position. */
enum { SF_NO_LABEL = -1 };
static inline size_t sf_shape_labels(const sf_shape *shape) {
    return shape->readout == SF_READ_EACH ? shape->T : 1;
}

enum { SF_PADDING = 16 };
static inline size_t sf_padded(size_t columns) {
    return (columns + SF_PADDING - 1) / SF_PADDING * SF_PADDING;
}

enum { SF_PARAM_NAME_SIZE = 64 };
typedef struct sf_param {
    char name[SF_PARAM_NAME_SIZE]; /* as in the published checkpoints */
    size_t rank;                   /* 1: a vector of `columns`; 2: [rows, columns] */
    size_t rows, columns;
    size_t groups;         /* columns come in this many equal groups, each padded */
    size_t offset, stride; /* element (r, c) of the block: see sf_param_index */
    double bound;          /* initial values are uniform on +-bound */
} sf_param;

static inline size_t sf_param_index(const sf_param *param, size_t row, size_t column) {
    const size_t width = param->columns / param->groups;
    return param->offset + row * param->stride + column / width * sf_padded(width) + column % width;
}

enum { /* order of a block's parameters in the table */
       SF_WQ,
       SF_BQ,
       SF_WK,
       SF_BK,
       SF_WV,
       SF_BV,
       SF_WO,
       SF_BO,
       SF_W1,
       SF_B1,
       SF_W2,
       SF_B2,
       SF_PARAMS_PER_BLOCK,
       SF_BLOCK_WEIGHTS = SF_PARAMS_PER_BLOCK / 2 /* each is followed by its bias */
};

typedef struct sf_model {
    sf_shape shape;
    size_t param_count;
    sf_param *params;  /* [param_count]: embedding, blocks, head weight (unless tied), head bias */
    sf_param head[2];  /* weight and bias; a tied weight lies in the embedding */
    size_t size;       /* elements of the block, padding included */
    size_t parameters; /* without the padding */
    sf_fault *fault;   /* where shape.attention records violations */
} sf_model;

sf_status sf_model_create(sf_model *out, const sf_shape *shape);
void sf_model_destroy(sf_model *model);

static inline const sf_param *sf_model_embedding(const sf_model *model) {
    return &model->params[0];
}
static inline const sf_param *sf_model_block(const sf_model *model, size_t block) { /* index by SF_WQ.. */
    return &model->params[1 + block * SF_PARAMS_PER_BLOCK];
}
static inline const sf_param *sf_model_head(const sf_model *model) { /* [0] weight, [1] bias */
    return model->head;
}

/* Where the head's own parameters begin: everything from here on is added to by one sequence after the other. */
static inline size_t sf_model_head_offset(const sf_model *model) {
    return sf_model_block(model, model->shape.L)->offset;
}

/* Initial weights: a function of (seed, parameter, element) alone. */
void sf_model_initialize(float *block /* [size] */, const sf_model *model, uint32_t seed);

/* Hash of the values without padding, in table order: equal iff every bit is equal. */
uint64_t sf_model_hash(const sf_model *model, const float *block /* [size] */);

/* Fixed sinusoidal positions: sin on even, cos on odd channels, base 10000. */
void sf_positions(double *out /* [T,C] */, size_t T, size_t C);

/* LayerNorm's epsilon: 0 in the attention norm of block 0, otherwise 1e-5. */
static inline double sf_norm_epsilon(size_t block, int is_attention) {
    return block == 0 && is_attention ? 0.0 : 1e-5;
}

#endif
