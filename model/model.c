#include "model/model.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "base/elementary.h"
#include "base/hash.h"

typedef struct table_writer {
    sf_model *model;
    size_t next;
} table_writer;

static const sf_param *add(table_writer *writer, const char *name, size_t rank, size_t rows, size_t columns,
                           size_t groups, double bound) {
    sf_model *model = writer->model;
    sf_param *param = &model->params[writer->next++];
    *param = (sf_param){.rank = rank,
                        .rows = rows,
                        .columns = columns,
                        .groups = groups,
                        .offset = model->size,
                        .stride = groups * sf_padded(columns / groups),
                        .bound = bound};
    snprintf(param->name, sizeof param->name, "%s", name);
    model->size += rows * param->stride;
    model->parameters += rows * columns;
    return param;
}

static void add_linear(table_writer *writer, const char *name, size_t outputs, size_t output_groups, size_t inputs,
                       size_t input_groups) {
    char full[SF_PARAM_NAME_SIZE];
    const double bound = 1.0 / sqrt((double)inputs);
    snprintf(full, sizeof full, "%s.weight", name);
    add(writer, full, 2, outputs, inputs, input_groups, bound);
    snprintf(full, sizeof full, "%s.bias", name);
    add(writer, full, 1, 1, outputs, output_groups, bound);
}

static void add_block(table_writer *writer, size_t block) {
    const sf_shape *shape = &writer->model->shape;
    const size_t C = shape->C, D = shape->D, F = shape->F, H = shape->H;
    static const char *const projections[] = {"q", "k", "v"};
    char name[SF_PARAM_NAME_SIZE - 8];
    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "encoder.transformer.%zu.attention.W_%s", block, projections[i]);
        add_linear(writer, name, H * D, H, C, 1);
    }
    snprintf(name, sizeof name, "encoder.transformer.%zu.attention.W_o", block);
    add_linear(writer, name, C, 1, H * D, H);
    snprintf(name, sizeof name, "encoder.transformer.%zu.ffn.0", block);
    add_linear(writer, name, F, 1, C, 1);
    snprintf(name, sizeof name, "encoder.transformer.%zu.ffn.3", block);
    add_linear(writer, name, C, 1, F, 1);
}

sf_status sf_model_create(sf_model *out, const sf_shape *shape) {
    *out = (sf_model){.shape = *shape};
    if (shape->D == 0) out->shape.D = shape->C;
    SF_TRY(SF_NEW(&out->fault, 1));
    out->shape.attention.fault = out->fault;
    const sf_status status = SF_NEW(&out->params, shape->L * SF_PARAMS_PER_BLOCK + 3);
    if (status != SF_OK) {
        sf_model_destroy(out);
        return status;
    }
    table_writer writer = {.model = out};
    add(&writer, "embedding.weight", 2, shape->V, shape->C, 1, 0.1);
    for (size_t block = 0; block < shape->L; block++) add_block(&writer, block);
    out->head[0] = out->params[0];
    if (shape->tied)
        out->head[0].rows = shape->classes;
    else
        out->head[0] = *add(&writer, "linear.weight", 2, shape->classes, shape->C, 1, 0.1);
    out->head[1] = *add(&writer, "linear.bias", 1, 1, shape->classes, 1, 0.0);
    out->param_count = writer.next;
    return SF_OK;
}

void sf_model_destroy(sf_model *model) {
    sf_release(model->params);
    sf_release(model->fault);
    *model = (sf_model){0};
}

void sf_model_initialize(float *block /* [size] */, const sf_model *model, uint32_t seed) {
    for (size_t p = 0; p < model->param_count; p++) {
        const sf_param *param = &model->params[p];
        sf_draws draws =
            sf_draws_at((sf_index){.seed = seed, .stream = sf_stream(SF_INITIAL_WEIGHTS, 0, 0), .sample = (uint32_t)p});
        for (size_t r = 0; r < param->rows; r++)
            for (size_t c = 0; c < param->columns; c++)
                block[sf_param_index(param, r, c)] =
                    (float)(param->bound * (2.0 * sf_draw_unit(&draws) - 1.0)) + 0.0F; /* no -0 */
    }
}

uint64_t sf_model_hash(const sf_model *model, const float *block /* [size] */) {
    uint64_t hash = SF_HASH_START;
    for (size_t p = 0; p < model->param_count; p++) {
        const sf_param *param = &model->params[p];
        for (size_t r = 0; r < param->rows; r++)
            for (size_t c = 0; c < param->columns; c++)
                hash = sf_hash(hash, &block[sf_param_index(param, r, c)], sizeof *block);
    }
    return hash;
}

void sf_positions(double *out /* [T,C] */, size_t T, size_t C) {
    for (size_t c = 0; c < C; c++) {
        const size_t even = c - c % 2;
        const double wavelength = sf_pow(10000.0, (double)even / (double)C);
        for (size_t t = 0; t < T; t++)
            out[t * C + c] = c % 2 == 0 ? sf_sin((double)t / wavelength) : sf_cos((double)t / wavelength);
    }
}
