#include "train/golden_file.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

static sf_status metadata_text(const char **out, const sf_golden_file *g, const char *key) {
    *out = sf_safetensors_metadata(g->file, key);
    if (*out != NULL) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "its metadata has no '%s'; a golden file must say its shape and mechanism", key);
}

static sf_status metadata_integer(int64_t *out, const sf_golden_file *g, const char *key, int64_t low, int64_t high) {
    const char *text;
    char quoted[SF_QUOTE_SIZE];
    SF_TRY(metadata_text(&text, g, key));
    if (sf_text_integer(out, text) && *out >= low && *out <= high) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "its metadata has %s '%s' but it must be a whole number from %lld to %lld", key,
                   sf_text_quote(quoted, text), (long long)low, (long long)high);
}

static sf_status metadata_real(double *out, const sf_golden_file *g, const char *key) {
    const char *text;
    char quoted[SF_QUOTE_SIZE];
    SF_TRY(metadata_text(&text, g, key));
    if (sf_text_real(out, text) && *out >= 0) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "its metadata has %s '%s' but it must be a number from 0", key,
                   sf_text_quote(quoted, text));
}

/* Activation and norm are spelled as the settings of the same name. */
static sf_status metadata_setting(sf_config *config, const sf_golden_file *g, const char *key) {
    const char *text;
    SF_TRY(metadata_text(&text, g, key));
    return sf_fail_in(sf_config_set(config, key, text), "its metadata");
}

/* Files of the published model name attention, k and globals, others the whole mechanism. */
static sf_status read_spelling(char spelling[SF_SPELLING_SIZE], const sf_golden_file *g, int64_t globals) {
    const char *name, *k;
    const char *mechanism = sf_safetensors_metadata(g->file, "mechanism");
    int used;
    if (mechanism != NULL) {
        used = snprintf(spelling, SF_SPELLING_SIZE, "%s", mechanism);
    } else {
        SF_TRY(metadata_text(&name, g, "attention"));
        SF_TRY(metadata_text(&k, g, "k"));
        used = snprintf(spelling, SF_SPELLING_SIZE, strcmp(k, "-1") == 0 ? "%s" : "%s:%s", name, k);
        if (globals > 0 && used > 0 && used < SF_SPELLING_SIZE)
            used += snprintf(spelling + used, SF_SPELLING_SIZE - (size_t)used, "+global:%lld", (long long)globals);
    }
    if (used < 0 || used >= SF_SPELLING_SIZE)
        return sf_fail(SF_BAD_INPUT, "its metadata names an attention that is too long");
    return SF_OK;
}

static sf_status read_attention(sf_attention *out, const sf_golden_file *g, int64_t globals) {
    char spelling[SF_SPELLING_SIZE];
    SF_TRY(read_spelling(spelling, g, globals));
    SF_TRY(sf_fail_in(sf_attention_parse(out, spelling), "its metadata"));
    if (out->globals != (size_t)globals)
        return sf_fail(SF_BAD_INPUT, "its metadata has %lld globals but its mechanism is '%s'; they must agree",
                       (long long)globals, spelling);
    int64_t causal = 0;
    if (sf_safetensors_metadata(g->file, "causal") != NULL) SF_TRY(metadata_integer(&causal, g, "causal", 0, 1));
    return sf_fail_in(sf_attention_set_causal(out, causal == 1), "its metadata");
}

static sf_status read_shape(sf_golden_file *g) {
    int64_t vocab, classes, length, batch, width, mlp, blocks, heads, globals, steps;
    sf_config config;
    sf_config_init(&config);
    sf_shape shape = {0};
    SF_TRY(metadata_integer(&vocab, g, "vocab", 1, 65536));
    SF_TRY(metadata_integer(&classes, g, "classes", 1, 65536));
    SF_TRY(metadata_integer(&length, g, "length", 1, 65536));
    SF_TRY(metadata_integer(&batch, g, "batch", 1, 65536));
    SF_TRY(metadata_integer(&width, g, "d_model", 1, 4096));
    SF_TRY(metadata_integer(&mlp, g, "d_mlp", 1, 16384));
    SF_TRY(metadata_integer(&blocks, g, "blocks", 1, 1024));
    SF_TRY(metadata_integer(&heads, g, "heads", 1, 64));
    SF_TRY(metadata_integer(&globals, g, "globals", 0, 1024));
    SF_TRY(metadata_integer(&steps, g, "steps", SF_GOLDEN_STEPS, SF_GOLDEN_STEPS));
    SF_TRY(metadata_setting(&config, g, "activation"));
    SF_TRY(metadata_setting(&config, g, "norm"));
    if (sf_safetensors_metadata(g->file, "readout") != NULL) SF_TRY(metadata_setting(&config, g, "readout"));
    SF_TRY(metadata_real(&shape.inverse_temperature, g, "inv_temp"));
    SF_TRY(metadata_real(&g->lr, g, "sgd_lr"));
    SF_TRY(metadata_real(&g->clip, g, "clip"));
    SF_TRY(read_attention(&shape.attention, g, globals));
    g->B = (size_t)batch;
    if (config.readout == SF_READ_CLS)
        return sf_fail(SF_BAD_INPUT, "its metadata has readout 'cls'; golden files have mean, last or each");
    shape.V = (size_t)(vocab + globals);
    shape.T = (size_t)(length + globals);
    shape.C = shape.D = (size_t)width;
    shape.F = (size_t)mlp;
    shape.H = (size_t)heads;
    shape.L = (size_t)blocks;
    shape.classes = (size_t)classes;
    shape.activation = (sf_activation)config.activation;
    shape.norm = (sf_norm)config.norm;
    shape.readout = (sf_readout)config.readout;
    return sf_model_create(&g->model, &shape);
}

typedef struct tensor_shape {
    size_t rank, at[3];
} tensor_shape;

static tensor_shape vector_of(size_t size) {
    return (tensor_shape){1, {size}};
}

static tensor_shape matrix_of(size_t rows, size_t columns) {
    return (tensor_shape){2, {rows, columns}};
}

static void write_shape(char out[80], const tensor_shape *shape) {
    int used = snprintf(out, 80, "[%zu", shape->at[0]);
    for (size_t i = 1; i < shape->rank; i++) used += snprintf(out + used, 80 - (size_t)used, ", %zu", shape->at[i]);
    snprintf(out + used, 80 - (size_t)used, "]");
}

/* The tensor, which must have exactly this shape. */
static sf_status find_tensor(const sf_tensor **out, const sf_golden_file *g, const char *name, tensor_shape shape) {
    const sf_tensor *tensor = *out = sf_safetensors_find(g->file, name);
    if (tensor == NULL) return sf_fail(SF_BAD_INPUT, "it has no tensor '%s'; a golden file must hold it", name);
    bool same = tensor->rank == shape.rank;
    for (size_t i = 0; i < shape.rank && same; i++) same = tensor->shape[i] == shape.at[i];
    if (same) return SF_OK;
    char text[80];
    write_shape(text, &shape);
    return sf_fail(SF_BAD_INPUT, "tensor '%s' has another shape than its metadata says; it must be %s", name, text);
}

static sf_status read_reals(double *out, const sf_golden_file *g, const char *name, tensor_shape shape) {
    const sf_tensor *tensor;
    SF_TRY(find_tensor(&tensor, g, name, shape));
    return sf_tensor_reals(out, tensor);
}

/* From `low` up to but not including `bound`. */
static sf_status read_indices(int32_t **out, const sf_golden_file *g, const char *name, tensor_shape shape, int32_t low,
                              size_t bound) {
    const sf_tensor *tensor;
    SF_TRY(find_tensor(&tensor, g, name, shape));
    SF_TRY(SF_NEW(out, tensor->count));
    SF_TRY(sf_tensor_integers(*out, tensor));
    for (size_t i = 0; i < tensor->count; i++)
        if ((*out)[i] < low || (*out)[i] >= (int32_t)bound)
            return sf_fail(SF_BAD_INPUT, "tensor '%s' holds %d but must lie below %zu", name, (*out)[i], bound);
    return SF_OK;
}

/* Reads prefix + the name of every parameter into a padded block. */
static sf_status read_block(double *block /* [size] */, const sf_golden_file *g, const char *prefix) {
    for (size_t p = 0; p < g->model.param_count; p++) {
        const sf_param *param = &g->model.params[p];
        char name[SF_PARAM_NAME_SIZE + 8];
        snprintf(name, sizeof name, "%s%s", prefix, param->name);
        double *values;
        SF_TRY(SF_NEW(&values, param->rows * param->columns));
        const sf_status status = read_reals(
            values, g, name, param->rank == 1 ? vector_of(param->columns) : matrix_of(param->rows, param->columns));
        for (size_t r = 0; status == SF_OK && r < param->rows; r++)
            for (size_t c = 0; c < param->columns; c++)
                block[sf_param_index(param, r, c)] = values[r * param->columns + c];
        sf_release(values);
        SF_TRY(status);
    }
    return SF_OK;
}

/* With the readout `each`, one label per position, -1 where there is none; at least one. */
static sf_status read_labels(sf_golden_file *g) {
    const sf_shape *s = &g->model.shape;
    const bool each = s->readout == SF_READ_EACH;
    SF_TRY(read_indices(&g->labels, g, "labels", each ? matrix_of(g->B, s->T) : vector_of(g->B), each ? SF_NO_LABEL : 0,
                        s->classes));
    for (size_t i = 0; i < g->B * sf_shape_labels(s); i++)
        if (g->labels[i] != SF_NO_LABEL) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "tensor 'labels' has no label at all; at least one is needed");
}

static sf_status golden_read(sf_golden_file *g) {
    SF_TRY(read_shape(g));
    const sf_shape *s = &g->model.shape;
    const tensor_shape logits =
        s->readout == SF_READ_EACH ? (tensor_shape){3, {g->B, s->T, s->classes}} : matrix_of(g->B, s->classes);
    SF_TRY(read_indices(&g->tokens, g, "tokens", matrix_of(g->B, s->T), 0, s->V));
    SF_TRY(read_labels(g));
    SF_TRY(SF_NEW(&g->params, g->model.size));
    SF_TRY(SF_NEW(&g->gradient, g->model.size));
    SF_TRY(SF_NEW(&g->logits, sf_golden_logits(g)));
    SF_TRY(read_block(g->params, g, "param."));
    SF_TRY(read_block(g->gradient, g, "grad."));
    SF_TRY(read_reals(g->logits, g, "logits", logits));
    SF_TRY(read_reals(&g->gradient_norm, g, "grad_norm", vector_of(1)));
    return read_reals(g->losses, g, "losses", vector_of(SF_GOLDEN_LOSSES));
}

sf_status sf_golden_file_open(sf_golden_file *g, const char *path) {
    SF_TRY(sf_safetensors_open(&g->file, path));
    return sf_fail_in(golden_read(g), "%s", path);
}

void sf_golden_file_close(sf_golden_file *g) {
    sf_safetensors_close(g->file);
    sf_model_destroy(&g->model);
    sf_release(g->tokens);
    sf_release(g->labels);
    sf_release(g->params);
    sf_release(g->gradient);
    sf_release(g->logits);
}
