#include "measure/lipschitz.h"

#include <math.h>
#include <string.h>

#include "base/sorted.h"

enum { BATCH = 64 };

enum { DIRECTIONS = 3 };

typedef struct direction { /* both [T,C]: a direction and its image under the Jacobian */
    double *x, *jx;
} direction;

struct sf_attention_layer {
    sf_shape shape;
    double scale;                     /* inverse temperature / sqrt(D) */
    double *weight[3], *bias[3];      /* of q, k, v: [H*D,C], [H*D] */
    double *wo, *bo;                  /* [C,H*D], [C] */
    double *qkv[3];                   /* [T,H*D] */
    double *dqkv[3];                  /* [T,H*D] */
    double *context, *dcontext;       /* [T,H*D] */
    uint32_t *keys;                   /* [kept] */
    size_t *offsets;                  /* [H*T+1] */
    double *scores, *weights;         /* [kept] */
    double *dscores, *dweights;       /* [T]: one query's */
    double *unit, *slope;             /* [T]: rows of the weighting's Jacobian */
    direction directions[DIRECTIONS]; /* of the iteration */
};

static sf_status open_layer(sf_attention_layer *layer) {
    const sf_shape *s = &layer->shape;
    const size_t HD = s->H * s->D, TC = s->T * s->C, kept = s->H * s->T * s->T;
    for (size_t i = 0; i < 3; i++) {
        SF_TRY(SF_NEW(&layer->weight[i], HD * s->C));
        SF_TRY(SF_NEW(&layer->bias[i], HD));
        SF_TRY(SF_NEW(&layer->qkv[i], s->T * HD));
        SF_TRY(SF_NEW(&layer->dqkv[i], s->T * HD));
    }
    SF_TRY(SF_NEW(&layer->wo, s->C * HD));
    SF_TRY(SF_NEW(&layer->bo, s->C));
    SF_TRY(SF_NEW(&layer->context, s->T * HD));
    SF_TRY(SF_NEW(&layer->dcontext, s->T * HD));
    SF_TRY(SF_NEW(&layer->keys, kept));
    SF_TRY(SF_NEW(&layer->offsets, s->H * s->T + 1));
    SF_TRY(SF_NEW(&layer->scores, kept));
    SF_TRY(SF_NEW(&layer->weights, kept));
    SF_TRY(SF_NEW(&layer->dscores, s->T));
    SF_TRY(SF_NEW(&layer->dweights, s->T));
    SF_TRY(SF_NEW(&layer->unit, s->T));
    SF_TRY(SF_NEW(&layer->slope, s->T));
    for (size_t d = 0; d < DIRECTIONS; d++) {
        SF_TRY(SF_NEW(&layer->directions[d].x, TC));
        SF_TRY(SF_NEW(&layer->directions[d].jx, TC));
    }
    return SF_OK;
}

sf_status sf_attention_layer_create(sf_attention_layer **out, const sf_shape *shape) {
    *out = NULL;
    sf_attention_layer *layer;
    SF_TRY(SF_NEW(&layer, 1));
    layer->shape = *shape;
    layer->scale = shape->inverse_temperature / sqrt((double)shape->D);
    const sf_status status = open_layer(layer);
    if (status != SF_OK) {
        sf_attention_layer_destroy(layer);
        return status;
    }
    *out = layer;
    return SF_OK;
}

void sf_attention_layer_destroy(sf_attention_layer *layer) {
    if (layer == NULL) return;
    for (size_t i = 0; i < 3; i++) {
        sf_release(layer->weight[i]);
        sf_release(layer->bias[i]);
        sf_release(layer->qkv[i]);
        sf_release(layer->dqkv[i]);
    }
    sf_release(layer->wo);
    sf_release(layer->bo);
    sf_release(layer->context);
    sf_release(layer->dcontext);
    sf_release(layer->keys);
    sf_release(layer->offsets);
    sf_release(layer->scores);
    sf_release(layer->weights);
    sf_release(layer->dscores);
    sf_release(layer->dweights);
    sf_release(layer->unit);
    sf_release(layer->slope);
    for (size_t d = 0; d < DIRECTIONS; d++) {
        sf_release(layer->directions[d].x);
        sf_release(layer->directions[d].jx);
    }
    sf_release(layer);
}

static void copy_param(double *out /* [rows,columns] */, const sf_param *param, const float *params) {
    for (size_t r = 0; r < param->rows; r++)
        for (size_t c = 0; c < param->columns; c++)
            out[r * param->columns + c] = (double)params[sf_param_index(param, r, c)];
}

void sf_attention_layer_load(sf_attention_layer *layer, const sf_model *model, const float *params /* [size] */,
                             size_t block) {
    static const int projections[] = {SF_WQ, SF_WK, SF_WV};
    const sf_param *p = sf_model_block(model, block);
    for (size_t i = 0; i < 3; i++) {
        copy_param(layer->weight[i], &p[projections[i]], params);
        copy_param(layer->bias[i], &p[projections[i] + 1], params);
    }
    copy_param(layer->wo, &p[SF_WO], params);
    copy_param(layer->bo, &p[SF_BO], params);
}

static double dot(const double *a, const double *b, size_t count) {
    double sums[4] = {0}; /* four chains, so that additions need not wait for each other */
    size_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (size_t n = 0; n < 4; n++) sums[n] += a[i + n] * b[i + n];
    for (; i < count; i++) sums[0] += a[i] * b[i];
    return sums[0] + sums[1] + (sums[2] + sums[3]);
}

static void add_scaled(double *y, double factor, const double *x, size_t count) {
    for (size_t i = 0; i < count; i++) y[i] += factor * x[i];
}

/* y = x W^T + bias (NULL: none). */
static void project(double *y /* [T,outputs] */, const double *x /* [T,inputs] */, const double *weight,
                    const double *bias, size_t T, size_t outputs, size_t inputs) {
    for (size_t t = 0; t < T; t++)
        for (size_t o = 0; o < outputs; o++)
            y[t * outputs + o] = (bias != NULL ? bias[o] : 0) + dot(weight + o * inputs, x + t * inputs, inputs);
}

/* x += y W. */
static void project_back(double *x /* [T,inputs] */, const double *y /* [T,outputs] */, const double *weight, size_t T,
                         size_t outputs, size_t inputs) {
    for (size_t t = 0; t < T; t++)
        for (size_t o = 0; o < outputs; o++)
            add_scaled(x + t * inputs, y[t * outputs + o], weight + o * inputs, inputs);
}

typedef struct row { /* one query of one head */
    const uint32_t *keys;
    const double *scores, *weights;
    size_t count, i, h; /* kept keys; position, head */
} row;

static row row_of(const sf_attention_layer *layer, size_t h, size_t i) {
    const size_t at = layer->offsets[h * layer->shape.T + i];
    return (row){.keys = layer->keys + at,
                 .scores = layer->scores + at,
                 .weights = layer->weights + at,
                 .count = layer->offsets[h * layer->shape.T + i + 1] - at,
                 .i = i,
                 .h = h};
}

static size_t at_head(const sf_attention_layer *layer, size_t position, size_t h) { /* within [T,H*D] */
    return (position * layer->shape.H + h) * layer->shape.D;
}

void sf_attention_layer_place(sf_attention_layer *layer, const double *input /* [T,C] */, const uint32_t *keys,
                              const size_t *offsets) {
    const sf_shape *s = &layer->shape;
    const size_t T = s->T, C = s->C, D = s->D, H = s->H;
    for (size_t i = 0; i < 3; i++) project(layer->qkv[i], input, layer->weight[i], layer->bias[i], T, H * D, C);
    memcpy(layer->offsets, offsets, (H * T + 1) * sizeof *offsets);
    memcpy(layer->keys, keys, offsets[H * T] * sizeof *keys);
    memset(layer->context, 0, T * H * D * sizeof *layer->context);
    for (size_t h = 0; h < H; h++)
        for (size_t i = 0; i < T; i++) {
            const row r = row_of(layer, h, i);
            double *scores = layer->scores + (r.scores - layer->scores),
                   *weights = layer->weights + (r.weights - layer->weights);
            for (size_t n = 0; n < r.count; n++)
                scores[n] = layer->scale *
                            dot(layer->qkv[0] + at_head(layer, i, h), layer->qkv[1] + at_head(layer, r.keys[n], h), D);
            sf_attention_weigh(weights, &s->attention, scores, r.count, T);
            for (size_t n = 0; n < r.count; n++)
                add_scaled(layer->context + at_head(layer, i, h), weights[n],
                           layer->qkv[2] + at_head(layer, r.keys[n], h), D);
        }
}

void sf_attention_layer_output(const sf_attention_layer *layer, double *out /* [T,C] */) {
    const sf_shape *s = &layer->shape;
    project(out, layer->context, layer->wo, layer->bo, s->T, s->C, s->H * s->D);
}

/* dweights = Jacobian of the weighting times dscores. The vtable only has products with the transpose: each row of the
 * Jacobian is the backward pass of a unit vector. Softmax's Jacobian is symmetric. */
static void weigh_forward(const sf_attention_layer *layer, const row *r) {
    const sf_attention *attention = &layer->shape.attention;
    const size_t T = layer->shape.T;
    if (attention->weighting == &sf_weighting_softmax) {
        sf_attention_weigh_backward(layer->dweights, attention, layer->dscores, r->weights, r->scores, r->count, T);
        return;
    }
    memset(layer->unit, 0, r->count * sizeof *layer->unit);
    for (size_t n = 0; n < r->count; n++) {
        layer->unit[n] = 1;
        sf_attention_weigh_backward(layer->slope, attention, layer->unit, r->weights, r->scores, r->count, T);
        layer->unit[n] = 0;
        layer->dweights[n] = dot(layer->slope, layer->dscores, r->count);
    }
}

void sf_attention_layer_forward(sf_attention_layer *layer, double *dout /* [T,C] */, const double *din /* [T,C] */) {
    const sf_shape *s = &layer->shape;
    const size_t T = s->T, C = s->C, D = s->D, H = s->H;
    const double *q = layer->qkv[0], *k = layer->qkv[1], *v = layer->qkv[2];
    double *dq = layer->dqkv[0], *dk = layer->dqkv[1], *dv = layer->dqkv[2];
    for (size_t i = 0; i < 3; i++) project(layer->dqkv[i], din, layer->weight[i], NULL, T, H * D, C);
    memset(layer->dcontext, 0, T * H * D * sizeof *layer->dcontext);
    for (size_t h = 0; h < H; h++)
        for (size_t i = 0; i < T; i++) {
            const row r = row_of(layer, h, i);
            const size_t query = at_head(layer, i, h);
            for (size_t n = 0; n < r.count; n++) {
                const size_t key = at_head(layer, r.keys[n], h);
                layer->dscores[n] = layer->scale * (dot(dq + query, k + key, D) + dot(q + query, dk + key, D));
            }
            weigh_forward(layer, &r);
            for (size_t n = 0; n < r.count; n++) {
                const size_t key = at_head(layer, r.keys[n], h);
                add_scaled(layer->dcontext + query, layer->dweights[n], v + key, D);
                add_scaled(layer->dcontext + query, r.weights[n], dv + key, D);
            }
        }
    project(dout, layer->dcontext, layer->wo, NULL, T, C, H * D);
}

void sf_attention_layer_backward(sf_attention_layer *layer, double *din /* [T,C] */, const double *dout /* [T,C] */) {
    const sf_shape *s = &layer->shape;
    const size_t T = s->T, C = s->C, D = s->D, H = s->H;
    const double *q = layer->qkv[0], *k = layer->qkv[1], *v = layer->qkv[2];
    double *dq = layer->dqkv[0], *dk = layer->dqkv[1], *dv = layer->dqkv[2];
    memset(layer->dcontext, 0, T * H * D * sizeof *layer->dcontext);
    project_back(layer->dcontext, dout, layer->wo, T, C, H * D);
    for (size_t i = 0; i < 3; i++) memset(layer->dqkv[i], 0, T * H * D * sizeof *layer->dqkv[i]);
    for (size_t h = 0; h < H; h++)
        for (size_t i = 0; i < T; i++) {
            const row r = row_of(layer, h, i);
            const size_t query = at_head(layer, i, h);
            const double *dcontext = layer->dcontext + query;
            for (size_t n = 0; n < r.count; n++) {
                const size_t key = at_head(layer, r.keys[n], h);
                layer->dweights[n] = dot(dcontext, v + key, D);
                add_scaled(dv + key, r.weights[n], dcontext, D);
            }
            sf_attention_weigh_backward(layer->dscores, &s->attention, layer->dweights, r.weights, r.scores, r.count,
                                        T);
            for (size_t n = 0; n < r.count; n++) {
                const size_t key = at_head(layer, r.keys[n], h);
                add_scaled(dq + query, layer->scale * layer->dscores[n], k + key, D);
                add_scaled(dk + key, layer->scale * layer->dscores[n], q + query, D);
            }
        }
    memset(din, 0, T * C * sizeof *din);
    for (size_t i = 0; i < 3; i++) project_back(din, layer->dqkv[i], layer->weight[i], T, H * D, C);
}

/* Scales to length 1; false if the length is too small. */
static bool normalize(double *x, size_t count) {
    const double length = sqrt(dot(x, x, count));
    if (!(length > 1e-300)) return false;
    for (size_t i = 0; i < count; i++) x[i] /= length;
    return true;
}

/* Removes the components along the first `others` directions from a direction and its image, twice because of rounding;
 * false if nothing is left. */
static bool make_orthonormal(const direction *of, const direction *directions, size_t others, size_t count) {
    const double before = sqrt(dot(of->x, of->x, count));
    for (int pass = 0; pass < 2; pass++)
        for (size_t d = 0; d < others; d++) {
            const double along = dot(of->x, directions[d].x, count);
            add_scaled(of->x, -along, directions[d].x, count);
            add_scaled(of->jx, -along, directions[d].jx, count);
        }
    const double length = sqrt(dot(of->x, of->x, count));
    if (!(length > 1e-12 * before)) return false;
    for (size_t i = 0; i < count; i++) {
        of->x[i] /= length;
        of->jx[i] /= length;
    }
    return true;
}

/* The best combination of orthonormal directions: the first eigenvector of the Gram matrix of their images, which
 * dominates a high power of it. */
static void best_combination(double share[DIRECTIONS], const direction *directions, size_t n, size_t count) {
    double gram[DIRECTIONS][DIRECTIONS] = {{0}}, next[DIRECTIONS][DIRECTIONS] = {{0}}, length = 0;
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++) gram[a][b] = dot(directions[a].jx, directions[b].jx, count);
    for (size_t round = 0; round < 50; round++) {
        double size = 0;
        for (size_t a = 0; a < n; a++) size = fmax(size, gram[a][a]); /* the largest of a positive matrix */
        if (size == 0) break;
        for (size_t a = 0; a < n; a++)
            for (size_t b = 0; b < n; b++) {
                next[a][b] = 0;
                for (size_t c = 0; c < n; c++) next[a][b] += gram[a][c] / size * (gram[c][b] / size);
            }
        memcpy(gram, next, sizeof gram);
    }
    size_t column = 0;
    for (size_t a = 1; a < n; a++)
        if (gram[a][a] > gram[column][column]) column = a;
    for (size_t a = 0; a < n; a++) length += gram[a][column] * gram[a][column];
    for (size_t a = 0; a < DIRECTIONS; a++) share[a] = length > 0 ? gram[a][column] / sqrt(length) : a == 0;
}

/* directions: the estimate, the gradient, the last step. The first becomes the best combination, the third the step. */
static void combine(const direction *directions, const double share[DIRECTIONS], size_t count) {
    const direction *now = &directions[0], *gradient = &directions[1], *last = &directions[2];
    for (size_t i = 0; i < count; i++) {
        last->x[i] = share[1] * gradient->x[i] + share[2] * last->x[i];
        last->jx[i] = share[1] * gradient->jx[i] + share[2] * last->jx[i];
        now->x[i] = share[0] * now->x[i] + last->x[i];
    }
}

/* One round; false if there is no direction left to search. */
static bool improve(sf_attention_layer *layer, bool has_last, size_t count) {
    const direction *d = layer->directions;
    sf_attention_layer_backward(layer, d[1].x, d[0].jx);
    if (!normalize(d[1].x, count) || !make_orthonormal(&d[1], d, 1, count)) return false;
    sf_attention_layer_forward(layer, d[1].jx, d[1].x);
    const bool last = has_last && make_orthonormal(&d[2], d, 2, count);
    double share[DIRECTIONS];
    best_combination(share, d, last ? 3 : 2, count);
    if (!last) {
        memset(d[2].x, 0, count * sizeof *d[2].x);
        memset(d[2].jx, 0, count * sizeof *d[2].jx);
    }
    combine(d, share, count);
    normalize(d[0].x, count);
    sf_attention_layer_forward(layer, d[0].jx, d[0].x); /* again: what is reported is never above the true value */
    return true;
}

sf_spectral_estimate sf_attention_layer_norm(sf_attention_layer *layer, sf_index start) {
    const size_t count = layer->shape.T * layer->shape.C;
    const direction *d = layer->directions;
    sf_spectral_estimate out = {0};
    sf_draws draws = sf_draws_at(start);
    for (size_t i = 0; i < count; i++) d[0].x[i] = sf_draw_normal(&draws);
    normalize(d[0].x, count);
    sf_attention_layer_forward(layer, d[0].jx, d[0].x);
    out.norm = sqrt(dot(d[0].jx, d[0].jx, count));
    for (size_t calm = 0; out.rounds < SF_LIPSCHITZ_ROUNDS && !out.converged; out.rounds++) {
        const bool improved = improve(layer, out.rounds > 0, count);
        const double norm = sqrt(dot(d[0].jx, d[0].jx, count));
        calm = norm - out.norm <= SF_LIPSCHITZ_TOLERANCE * norm ? calm + 1 : 0;
        out.norm = fmax(norm, out.norm);
        out.converged = calm >= 2 || !improved;
    }
    return out;
}

/* ---- every block at every sample */

typedef struct workspace { /* one worker's */
    sf_attention_layer *layer;
    double *input;  /* [T,C] */
    double *scores; /* [T] */
    uint32_t *keys; /* [H*T*T] */
    size_t *offsets;
} workspace;

typedef struct measurement {
    const sf_observation *observation;
    workspace *workspaces;           /* [workers] */
    sf_spectral_estimate *estimates; /* [L,samples] */
} measurement;

static void observe(void *context, size_t worker, const sf_attention_view *view) {
    const measurement *at = context;
    const workspace *work = &at->workspaces[worker];
    const sf_subject *subject = &at->observation->subject;
    const sf_shape *s = &subject->model->shape;
    const size_t sample = at->observation->first + view->sequence;
    for (size_t t = 0; t < s->T; t++)
        for (size_t c = 0; c < s->C; c++) work->input[t * s->C + c] = (double)view->input[t * sf_padded(s->C) + c];
    size_t kept = 0;
    work->offsets[0] = 0;
    for (size_t h = 0; h < s->H; h++)
        for (size_t i = 0; i < s->T; i++) {
            sf_view_scores(work->scores, view, s, h, i);
            kept += sf_view_keep(work->keys + kept, at->observation, view, work->scores, h, i);
            work->offsets[h * s->T + i + 1] = kept;
        }
    sf_attention_layer_load(work->layer, subject->model, subject->params, view->block);
    sf_attention_layer_place(work->layer, work->input, work->keys, work->offsets);
    at->estimates[view->block * subject->samples + sample] =
        sf_attention_layer_norm(work->layer, (sf_index){.seed = subject->seed,
                                                        .stream = sf_stream(SF_START_VECTORS, view->block, 0),
                                                        .sample = (uint32_t)sample});
}

static sf_status open_measurement(measurement *at) {
    const sf_subject *subject = &at->observation->subject;
    const sf_shape *s = &subject->model->shape;
    SF_TRY(SF_NEW(&at->estimates, s->L * subject->samples));
    SF_TRY(SF_NEW(&at->workspaces, at->observation->workers));
    for (size_t w = 0; w < at->observation->workers; w++) {
        workspace *work = &at->workspaces[w];
        SF_TRY(sf_attention_layer_create(&work->layer, s));
        SF_TRY(SF_NEW(&work->input, s->T * s->C));
        SF_TRY(SF_NEW(&work->scores, s->T));
        SF_TRY(SF_NEW(&work->keys, s->H * s->T * s->T + s->T)); /* sf_view_keep() may use room for 2 T keys */
        SF_TRY(SF_NEW(&work->offsets, s->H * s->T + 1));
    }
    return SF_OK;
}

static void close_measurement(measurement *at) {
    for (size_t w = 0; at->workspaces != NULL && w < at->observation->workers; w++) {
        sf_attention_layer_destroy(at->workspaces[w].layer);
        sf_release(at->workspaces[w].input);
        sf_release(at->workspaces[w].scores);
        sf_release(at->workspaces[w].keys);
        sf_release(at->workspaces[w].offsets);
    }
    sf_release(at->workspaces);
    sf_release(at->estimates);
}

static void summarize(sf_block_lipschitz *out, double *values /* [samples] */, double *sorted /* [samples] */,
                      const sf_spectral_estimate *estimates /* [samples] */, size_t samples) {
    *out = (sf_block_lipschitz){0};
    for (size_t n = 0; n < samples; n++) {
        values[n] = sorted[n] = estimates[n].norm;
        out->mean_iterations += (double)estimates[n].rounds / (double)samples;
        if (estimates[n].rounds > out->most_iterations) out->most_iterations = estimates[n].rounds;
        out->unconverged += !estimates[n].converged;
    }
    sf_sort(sorted, samples);
    out->least = sorted[0];
    out->lower_quartile = sf_sorted_quantile(sorted, samples, 0.25);
    out->median = sf_sorted_quantile(sorted, samples, 0.5);
    out->upper_quartile = sf_sorted_quantile(sorted, samples, 0.75);
    out->largest = sorted[samples - 1];
}

static sf_status collect(sf_local_lipschitz *out, const measurement *at, const sf_block_bounds *bounds) {
    double *sorted;
    SF_TRY(SF_NEW(&out->blocks, out->count));
    SF_TRY(SF_NEW(&out->values, out->count * out->samples));
    SF_TRY(SF_NEW(&sorted, out->samples));
    for (size_t l = 0; l < out->count; l++) {
        sf_block_lipschitz *block = &out->blocks[l];
        summarize(block, out->values + l * out->samples, sorted, at->estimates + l * out->samples, out->samples);
        block->largest_over_root = block->largest / sqrt((double)out->positions);
        block->largest_over_law = bounds != NULL ? block->largest / bounds[l].length_law : NAN;
        block->largest_over_bound = bounds != NULL ? block->largest / bounds[l].attention_input[SF_BOUND_LOCAL] : NAN;
    }
    sf_release(sorted);
    return SF_OK;
}

sf_status sf_local_lipschitz_measure(sf_local_lipschitz **out, const sf_subject *subject,
                                     const sf_block_bounds *bounds /* [L] */) {
    *out = NULL;
    const sf_attention *attention = &subject->model->shape.attention;
    if (attention->transforms[0].part != NULL)
        return sf_fail(SF_UNSUPPORTED, "the local Lipschitz constant is not computed for the score transform %s",
                       attention->transforms[0].part->name);
    if (sf_attention_weighs_matrix(attention))
        return sf_fail(SF_UNSUPPORTED, "the local Lipschitz constant is not computed for the weighting %s",
                       attention->weighting->name);
    sf_observation observation;
    sf_local_lipschitz *lipschitz = NULL;
    SF_TRY(sf_observation_open(&observation, subject, BATCH));
    measurement at = {.observation = &observation};
    sf_status status = open_measurement(&at);
    if (status == SF_OK) status = SF_NEW(&lipschitz, 1);
    const sf_observer observer = {.observe = observe, .context = &at};
    while (status == SF_OK && sf_observation_next(&observation))
        status = sf_observation_run(&observation, &observer, 0);
    if (status == SF_OK) {
        lipschitz->count = subject->model->shape.L;
        lipschitz->samples = observation.subject.samples;
        lipschitz->positions = subject->model->shape.T;
        lipschitz->tolerance = SF_LIPSCHITZ_TOLERANCE;
        status = collect(lipschitz, &at, bounds);
    }
    close_measurement(&at);
    sf_observation_close(&observation);
    if (status != SF_OK) {
        sf_local_lipschitz_destroy(lipschitz);
        return status;
    }
    *out = lipschitz;
    return SF_OK;
}

void sf_local_lipschitz_destroy(sf_local_lipschitz *lipschitz) {
    if (lipschitz == NULL) return;
    sf_release(lipschitz->blocks);
    sf_release(lipschitz->values);
    sf_release(lipschitz);
}
