#include "semfocus/golden.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "io/safetensors.h"
#include "kernels/reference/reference.h"
#include "train/evaluator.h"
#include "train/optimizer.h"

enum { GOLDEN_STEPS = 3, LOSSES = GOLDEN_STEPS + 1 };

typedef struct golden { /* a file, unpacked into the model's padded layout */
    sf_safetensors *file;
    sf_model model;
    size_t B;
    double lr, clip;
    int32_t *tokens, *labels;
    double *params, *gradient; /* [size] */
    double *logits;            /* [B,classes] */
    double gradient_norm, losses[LOSSES];
} golden;

static sf_status metadata_text(const char **out, const golden *g, const char *key) {
    *out = sf_safetensors_metadata(g->file, key);
    if (*out != NULL) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "its metadata has no '%s'; a golden file must say its shape and mechanism", key);
}

static sf_status metadata_integer(int64_t *out, const golden *g, const char *key, int64_t low, int64_t high) {
    const char *text;
    char quoted[SF_QUOTE_SIZE];
    SF_TRY(metadata_text(&text, g, key));
    if (sf_text_integer(out, text) && *out >= low && *out <= high) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "its metadata has %s '%s' but it must be a whole number from %lld to %lld", key,
                   sf_text_quote(quoted, text), (long long)low, (long long)high);
}

static sf_status metadata_real(double *out, const golden *g, const char *key) {
    const char *text;
    char quoted[SF_QUOTE_SIZE];
    SF_TRY(metadata_text(&text, g, key));
    if (sf_text_real(out, text) && *out >= 0) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "its metadata has %s '%s' but it must be a number from 0", key,
                   sf_text_quote(quoted, text));
}

/* Activation and norm are spelled as the settings of the same name. */
static sf_status metadata_setting(sf_config *config, const golden *g, const char *key) {
    const char *text;
    SF_TRY(metadata_text(&text, g, key));
    return sf_fail_in(sf_config_set(config, key, text), "its metadata");
}

static sf_status read_attention(sf_attention *out, const golden *g, int64_t globals) {
    const char *name, *k;
    char spelling[SF_SPELLING_SIZE];
    SF_TRY(metadata_text(&name, g, "attention"));
    SF_TRY(metadata_text(&k, g, "k"));
    int used = snprintf(spelling, sizeof spelling, strcmp(k, "-1") == 0 ? "%s" : "%s:%s", name, k);
    if (globals > 0 && used > 0 && (size_t)used < sizeof spelling)
        used += snprintf(spelling + used, sizeof spelling - (size_t)used, "+global:%lld", (long long)globals);
    if (used < 0 || (size_t)used >= sizeof spelling)
        return sf_fail(SF_BAD_INPUT, "its metadata names an attention that is too long");
    return sf_fail_in(sf_attention_parse(out, spelling), "its metadata");
}

static sf_status read_shape(golden *g) {
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
    SF_TRY(metadata_integer(&steps, g, "steps", GOLDEN_STEPS, GOLDEN_STEPS));
    SF_TRY(metadata_setting(&config, g, "activation"));
    SF_TRY(metadata_setting(&config, g, "norm"));
    SF_TRY(metadata_real(&shape.inverse_temperature, g, "inv_temp"));
    SF_TRY(metadata_real(&g->lr, g, "sgd_lr"));
    SF_TRY(metadata_real(&g->clip, g, "clip"));
    SF_TRY(read_attention(&shape.attention, g, globals));
    g->B = (size_t)batch;
    shape.V = (size_t)(vocab + globals);
    shape.T = (size_t)(length + globals);
    shape.C = (size_t)width;
    shape.F = (size_t)mlp;
    shape.H = (size_t)heads;
    shape.L = (size_t)blocks;
    shape.classes = (size_t)classes;
    shape.activation = (sf_activation)config.activation;
    shape.norm = (sf_norm)config.norm;
    return sf_model_create(&g->model, &shape);
}

/* The tensor, which must have exactly this shape (columns 0: a vector of `rows`). */
static sf_status find_tensor(const sf_tensor **out, const golden *g, const char *name, size_t rows, size_t columns) {
    const sf_tensor *tensor = *out = sf_safetensors_find(g->file, name);
    if (tensor == NULL) return sf_fail(SF_BAD_INPUT, "it has no tensor '%s'; a golden file must hold it", name);
    const size_t rank = columns > 0 ? 2 : 1;
    if (tensor->rank != rank || tensor->shape[0] != rows || (columns > 0 && tensor->shape[1] != columns))
        return sf_fail(SF_BAD_INPUT, "tensor '%s' has another shape than its metadata says; it must be [%zu%s%.0zu]",
                       name, rows, columns > 0 ? ", " : "", columns);
    return SF_OK;
}

static sf_status read_reals(double *out, const golden *g, const char *name, size_t rows, size_t columns) {
    const sf_tensor *tensor;
    SF_TRY(find_tensor(&tensor, g, name, rows, columns));
    return sf_tensor_reals(out, tensor);
}

static sf_status read_indices(int32_t **out, const golden *g, const char *name, size_t rows, size_t columns,
                              size_t bound) {
    const sf_tensor *tensor;
    SF_TRY(find_tensor(&tensor, g, name, rows, columns));
    SF_TRY(SF_NEW(out, tensor->count));
    SF_TRY(sf_tensor_integers(*out, tensor));
    for (size_t i = 0; i < tensor->count; i++)
        if ((*out)[i] < 0 || (size_t)(*out)[i] >= bound)
            return sf_fail(SF_BAD_INPUT, "tensor '%s' holds %d but must lie below %zu", name, (*out)[i], bound);
    return SF_OK;
}

/* Reads prefix + the name of every parameter into a padded block. */
static sf_status read_block(double *block /* [size] */, const golden *g, const char *prefix) {
    for (size_t p = 0; p < g->model.param_count; p++) {
        const sf_param *param = &g->model.params[p];
        char name[SF_PARAM_NAME_SIZE + 8];
        snprintf(name, sizeof name, "%s%s", prefix, param->name);
        double *values;
        SF_TRY(SF_NEW(&values, param->rows * param->columns));
        const sf_status status = param->rank == 1 ? read_reals(values, g, name, param->columns, 0)
                                                  : read_reals(values, g, name, param->rows, param->columns);
        for (size_t r = 0; status == SF_OK && r < param->rows; r++)
            for (size_t c = 0; c < param->columns; c++)
                block[sf_param_index(param, r, c)] = values[r * param->columns + c];
        sf_release(values);
        SF_TRY(status);
    }
    return SF_OK;
}

static sf_status golden_read(golden *g) {
    SF_TRY(read_shape(g));
    const sf_shape *s = &g->model.shape;
    SF_TRY(read_indices(&g->tokens, g, "tokens", g->B, s->T, s->V));
    SF_TRY(read_indices(&g->labels, g, "labels", g->B, 0, s->classes));
    SF_TRY(SF_NEW(&g->params, g->model.size));
    SF_TRY(SF_NEW(&g->gradient, g->model.size));
    SF_TRY(SF_NEW(&g->logits, g->B * s->classes));
    SF_TRY(read_block(g->params, g, "param."));
    SF_TRY(read_block(g->gradient, g, "grad."));
    SF_TRY(read_reals(g->logits, g, "logits", g->B, s->classes));
    SF_TRY(read_reals(&g->gradient_norm, g, "grad_norm", 1, 0));
    return read_reals(g->losses, g, "losses", LOSSES, 0);
}

static sf_status golden_open(golden *g, const char *path) {
    SF_TRY(sf_safetensors_open(&g->file, path));
    return sf_fail_in(golden_read(g), "%s", path);
}

static void golden_close(golden *g) {
    sf_safetensors_close(g->file);
    sf_model_destroy(&g->model);
    sf_release(g->tokens);
    sf_release(g->labels);
    sf_release(g->params);
    sf_release(g->gradient);
    sf_release(g->logits);
}

static void compare(sf_golden_path *path, const char *name, double ours, double theirs, double floor) {
    const double scale = fmax(fabs(theirs), floor);
    double error = ours == theirs ? 0 : fabs(ours - theirs) / scale;
    if (!isfinite(ours) || !isfinite(theirs) || isnan(error)) error = INFINITY;
    if (error < path->worst) return;
    path->worst = error;
    snprintf(path->worst_name, sizeof path->worst_name, "%s", name);
}

static void compare_gradient(sf_golden_path *path, const golden *g, const double *gradient /* [size] */) {
    for (size_t p = 0; p < g->model.param_count; p++) {
        const sf_param *param = &g->model.params[p];
        char name[sizeof path->worst_name];
        snprintf(name, sizeof name, "grad.%.*s", (int)sizeof name - 6, param->name);
        for (size_t r = 0; r < param->rows; r++)
            for (size_t c = 0; c < param->columns; c++) {
                const size_t at = sf_param_index(param, r, c);
                compare(path, name, gradient[at], g->gradient[at], 1e-3 * g->gradient_norm);
            }
    }
}

/* One implementation: loss, logits and gradient of params, returned in double. */
typedef struct engine {
    sf_golden_path *path;
    double *gradient; /* [size] */
    double *logits;   /* [B,classes] */
    sf_status (*run)(struct engine *engine, double *loss, const golden *g);
    sf_status (*step)(struct engine *engine, const golden *g);
    sf_reference *reference; /* in double */
    double *params;
    sf_evaluator evaluator; /* in f32 */
    float *narrow_params, *narrow_gradient, *narrow_logits;
} engine;

static double norm_of(const double *gradient, size_t size) {
    double total = 0;
    for (size_t i = 0; i < size; i++) total += gradient[i] * gradient[i];
    return sqrt(total);
}

static sf_status check_engine(engine *e, const golden *g) {
    for (int step = 0; step < LOSSES; step++) {
        double loss;
        SF_TRY(e->run(e, &loss, g));
        compare(e->path, "losses", loss, g->losses[step], 0);
        if (step == 0) {
            for (size_t i = 0; i < g->B * g->model.shape.classes; i++)
                compare(e->path, "logits", e->logits[i], g->logits[i], 0);
            compare(e->path, "grad_norm", norm_of(e->gradient, g->model.size), g->gradient_norm, 0);
            compare_gradient(e->path, g, e->gradient);
        }
        SF_TRY(e->step(e, g));
    }
    e->path->passes = e->path->worst <= e->path->limit;
    return SF_OK;
}

static sf_batch batch_of(const golden *g) {
    return (sf_batch){g->tokens, g->labels, g->B};
}

static sf_status reference_run(engine *e, double *loss, const golden *g) {
    const sf_batch batch = batch_of(g);
    sf_reference_run(e->reference, loss, e->logits, e->gradient, e->params, &batch, &(sf_moment){0});
    return SF_OK;
}

static sf_status reference_step(engine *e, const golden *g) {
    const double factor = sf_clip_factor(norm_of(e->gradient, g->model.size), g->clip);
    for (size_t i = 0; i < g->model.size; i++) e->params[i] -= g->lr * factor * e->gradient[i];
    return SF_OK;
}

static sf_status check_reference(engine *e, const golden *g) {
    SF_TRY(sf_reference_create(&e->reference, &g->model));
    SF_TRY(SF_NEW(&e->params, g->model.size));
    memcpy(e->params, g->params, g->model.size * sizeof *e->params);
    return check_engine(e, g);
}

static sf_status f32_run(engine *e, double *loss, const golden *g) {
    const sf_batch batch = batch_of(g);
    const sf_moment moment = {0};
    const float *params = e->narrow_params;
    sf_evaluation unused;
    SF_TRY(sf_evaluator_evaluate(&e->evaluator, &unused, e->narrow_logits, &params, 1, &batch, &moment));
    SF_TRY(sf_evaluator_gradient(&e->evaluator, loss, e->narrow_gradient, params, &batch, &moment));
    for (size_t i = 0; i < g->B * g->model.shape.classes; i++) e->logits[i] = e->narrow_logits[i];
    for (size_t i = 0; i < g->model.size; i++) e->gradient[i] = e->narrow_gradient[i];
    return SF_OK;
}

static sf_status f32_step(engine *e, const golden *g) {
    const sf_batch batch = batch_of(g);
    sf_config config;
    sf_config_init(&config);
    config.clip = g->clip;
    double loss;
    return sf_evaluator_step(&e->evaluator, &loss, &e->narrow_params,
                             &(sf_update){.config = &config, .lr = g->lr, .step = 1}, &batch, &(sf_moment){0});
}

static sf_status check_f32(engine *e, const golden *g) {
    SF_TRY(sf_evaluator_open(&e->evaluator, &(sf_machine){.threads = 1}, SF_TRAINING_WORK, &g->model, SF_F32, g->B, 1));
    SF_TRY(SF_NEW(&e->narrow_params, g->model.size));
    SF_TRY(SF_NEW(&e->narrow_gradient, g->model.size));
    SF_TRY(SF_NEW(&e->narrow_logits, g->B * g->model.shape.classes));
    for (size_t i = 0; i < g->model.size; i++) e->narrow_params[i] = (float)g->params[i];
    return check_engine(e, g);
}

static void close_engine(engine *e) {
    sf_reference_destroy(e->reference);
    sf_evaluator_close(&e->evaluator);
    sf_release(e->params);
    sf_release(e->narrow_params);
    sf_release(e->narrow_gradient);
    sf_release(e->narrow_logits);
}

sf_status sf_golden_check(sf_golden *out, const char *path) {
    *out = (sf_golden){.reference.limit = SF_GOLDEN_REFERENCE_LIMIT, .f32.limit = SF_GOLDEN_F32_LIMIT};
    golden g = {0};
    double *gradient = NULL, *logits = NULL;
    sf_status status = sf_backend_check(SF_CPU, SF_F32);
    if (status == SF_OK) status = golden_open(&g, path);
    if (status == SF_OK) status = SF_NEW(&gradient, g.model.size);
    if (status == SF_OK) status = SF_NEW(&logits, g.B * g.model.shape.classes);
    engine reference = {
        .path = &out->reference, .gradient = gradient, .logits = logits, .run = reference_run, .step = reference_step};
    engine f32 = {.path = &out->f32, .gradient = gradient, .logits = logits, .run = f32_run, .step = f32_step};
    if (status == SF_OK) status = check_reference(&reference, &g);
    if (status == SF_OK) status = check_f32(&f32, &g);
    close_engine(&reference);
    close_engine(&f32);
    sf_release(gradient);
    sf_release(logits);
    golden_close(&g);
    return status;
}
