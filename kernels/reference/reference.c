#include "kernels/reference/reference.h"

#include <math.h>
#include <string.h>

#include "kernels/reference/attention.h"

struct sf_reference {
    const sf_model *model;
    sf_arena arena;
    sf_ref_block *blocks;     /* [L] */
    sf_ref_attention heads;   /* what attention needs besides */
    double *positions;        /* [T,C] */
    double *x, *dx, *branch;  /* [T,C] */
    double *dbranch;          /* [T,C] */
    double *dhidden;          /* [T,F] */
    double *pooled, *dpooled; /* [C] */
    double *dlogits;          /* [classes] */
    sf_reference_choices given;
};

static void lay_out(sf_reference *r, sf_arena *arena) {
    const sf_shape *s = &r->model->shape;
    const size_t TC = s->T * s->C;
#define TAKE(pointer, count) (pointer) = sf_arena_take(arena, (count), sizeof *(pointer))
    TAKE(r->blocks, s->L);
    for (size_t l = 0; l < s->L; l++) {
        sf_ref_block scratch = {0}, *b = arena->base != NULL ? &r->blocks[l] : &scratch;
        TAKE(b->input, TC);
        TAKE(b->normed1, TC);
        TAKE(b->rstd1, s->T);
        sf_ref_block_lay_out(b, arena, s);
        TAKE(b->normed2, TC);
        TAKE(b->rstd2, s->T);
        TAKE(b->hidden, s->T * s->F);
        TAKE(b->active, s->T * s->F);
    }
    TAKE(r->positions, TC);
    TAKE(r->x, TC);
    TAKE(r->dx, TC);
    TAKE(r->branch, TC);
    TAKE(r->dbranch, TC);
    TAKE(r->dhidden, s->T * s->F);
    sf_ref_attention_lay_out(&r->heads, arena, s);
    TAKE(r->pooled, s->C);
    TAKE(r->dpooled, s->C);
    TAKE(r->dlogits, s->classes);
#undef TAKE
}

sf_status sf_reference_create(sf_reference **out, const sf_model *model) {
    *out = NULL;
    sf_reference *r;
    SF_TRY(SF_NEW(&r, 1));
    r->model = model;
    lay_out(r, &r->arena);
    const sf_status status = sf_arena_open(&r->arena);
    if (status != SF_OK) {
        sf_reference_destroy(r);
        return status;
    }
    lay_out(r, &r->arena);
    sf_positions(r->positions, model->shape.T, model->shape.C);
    *out = r;
    return SF_OK;
}

void sf_reference_destroy(sf_reference *reference) {
    if (reference == NULL) return;
    sf_arena_close(&reference->arena);
    sf_release(reference);
}

void sf_reference_follow(sf_reference *reference, const sf_reference_choices *choices) {
    reference->given = *choices;
}

const double *sf_reference_scores(const sf_reference *reference, size_t block) {
    return reference->blocks[block].scores;
}

const bool *sf_reference_kept(const sf_reference *reference, size_t block) {
    return reference->blocks[block].kept;
}

static void drop(double *x, const sf_ref_location *at, sf_purpose purpose, size_t T, size_t columns) {
    const sf_index index = sf_ref_index_at(at, purpose, 0);
    sf_ref_drop(x, x, at->rate, &index, T, columns);
}

static void add_to(double *x, const double *y, size_t count) {
    for (size_t i = 0; i < count; i++) x[i] += y[i];
}

static sf_ref_linear linear_of(const sf_param *params) {
    return (sf_ref_linear){&params[0], &params[1]};
}

/* NULL: not given. */
static const bool *active_given(const sf_reference *r, const sf_ref_location *at) {
    const sf_shape *s = &r->model->shape;
    if (r->given.active == NULL || s->activation != SF_RELU) return NULL;
    return r->given.active + (at->sample * s->L + at->block) * s->T * s->F;
}

static void block_forward(sf_reference *r, const double *params, const sf_ref_location *at) {
    const sf_shape *s = &r->model->shape;
    const size_t T = s->T, C = s->C, F = s->F;
    const sf_param *p = sf_model_block(r->model, at->block);
    sf_ref_block *b = &r->blocks[at->block];
    const bool pre = s->norm == SF_PRE_NORM;
    memcpy(b->input, r->x, T * C * sizeof *r->x);

    if (pre) sf_ref_norm_forward(b->normed1, b->rstd1, r->x, sf_norm_epsilon(at->block, 1), T, C);
    const double *attention_input = pre ? b->normed1 : b->input;
    sf_ref_linear_forward(b->q, attention_input, params, linear_of(&p[SF_WQ]), T);
    sf_ref_linear_forward(b->k, attention_input, params, linear_of(&p[SF_WK]), T);
    sf_ref_linear_forward(b->v, attention_input, params, linear_of(&p[SF_WV]), T);
    sf_ref_attend(&r->heads, b, s, at, r->given.kept);
    sf_ref_linear_forward(r->branch, b->context, params, linear_of(&p[SF_WO]), T);
    drop(r->branch, at, SF_DROP_ATTENTION, T, C);
    add_to(r->x, r->branch, T * C);
    if (!pre) {
        sf_ref_norm_forward(b->normed1, b->rstd1, r->x, sf_norm_epsilon(at->block, 1), T, C);
        memcpy(r->x, b->normed1, T * C * sizeof *r->x);
    }

    if (pre) sf_ref_norm_forward(b->normed2, b->rstd2, r->x, sf_norm_epsilon(at->block, 0), T, C);
    const double *mlp_input = pre ? b->normed2 : b->normed1;
    sf_ref_linear_forward(b->hidden, mlp_input, params, linear_of(&p[SF_W1]), T);
    drop(b->hidden, at, SF_DROP_HIDDEN, T, F);
    const bool *active = active_given(r, at);
    for (size_t i = 0; i < T * F; i++)
        b->active[i] = active == NULL ? sf_ref_activate(b->hidden[i], s->activation) : active[i] ? b->hidden[i] : 0;
    sf_ref_linear_forward(r->branch, b->active, params, linear_of(&p[SF_W2]), T);
    drop(r->branch, at, SF_DROP_MLP, T, C);
    add_to(r->x, r->branch, T * C);
    if (!pre) {
        sf_ref_norm_forward(b->normed2, b->rstd2, r->x, sf_norm_epsilon(at->block, 0), T, C);
        memcpy(r->x, b->normed2, T * C * sizeof *r->x);
    }
}

/* dx holds the gradient of the block's output on entry and of its input on return. */
static void block_backward(sf_reference *r, double *gradient, const double *params, const sf_ref_location *at) {
    const sf_shape *s = &r->model->shape;
    const size_t T = s->T, C = s->C, F = s->F;
    const sf_param *p = sf_model_block(r->model, at->block);
    const sf_ref_block *b = &r->blocks[at->block];
    const bool pre = s->norm == SF_PRE_NORM;
    const double *mlp_input = pre ? b->normed2 : b->normed1;
    const double *attention_input = pre ? b->normed1 : b->input;

    if (!pre) sf_ref_norm_backward(r->dx, r->dx, b->normed2, b->rstd2, T, C);
    memcpy(r->branch, r->dx, T * C * sizeof *r->dx);
    drop(r->branch, at, SF_DROP_MLP, T, C);
    memset(r->dhidden, 0, T * F * sizeof *r->dhidden);
    sf_ref_linear_backward(r->dhidden, gradient, r->branch, b->active, params, linear_of(&p[SF_W2]), T);
    const bool *active = active_given(r, at);
    for (size_t i = 0; i < T * F; i++)
        r->dhidden[i] *= active == NULL ? sf_ref_activate_slope(b->hidden[i], s->activation) : active[i] ? 1 : 0;
    drop(r->dhidden, at, SF_DROP_HIDDEN, T, F);
    memset(r->dbranch, 0, T * C * sizeof *r->dbranch);
    sf_ref_linear_backward(r->dbranch, gradient, r->dhidden, mlp_input, params, linear_of(&p[SF_W1]), T);
    if (pre) sf_ref_norm_backward(r->dbranch, r->dbranch, b->normed2, b->rstd2, T, C);
    add_to(r->dx, r->dbranch, T * C);

    if (!pre) sf_ref_norm_backward(r->dx, r->dx, b->normed1, b->rstd1, T, C);
    memcpy(r->branch, r->dx, T * C * sizeof *r->dx);
    drop(r->branch, at, SF_DROP_ATTENTION, T, C);
    memset(r->heads.dcontext, 0, T * s->H * s->D * sizeof *r->heads.dcontext);
    sf_ref_linear_backward(r->heads.dcontext, gradient, r->branch, b->context, params, linear_of(&p[SF_WO]), T);
    sf_ref_attend_backward(&r->heads, b, s, at);
    memset(r->dbranch, 0, T * C * sizeof *r->dbranch);
    sf_ref_linear_backward(r->dbranch, gradient, r->heads.dq, attention_input, params, linear_of(&p[SF_WQ]), T);
    sf_ref_linear_backward(r->dbranch, gradient, r->heads.dk, attention_input, params, linear_of(&p[SF_WK]), T);
    sf_ref_linear_backward(r->dbranch, gradient, r->heads.dv, attention_input, params, linear_of(&p[SF_WV]), T);
    if (pre) sf_ref_norm_backward(r->dbranch, r->dbranch, b->normed1, b->rstd1, T, C);
    add_to(r->dx, r->dbranch, T * C);
}

static void embed(sf_reference *r, const double *params, const int32_t *tokens /* [T] */, const sf_ref_location *at) {
    const size_t T = r->model->shape.T, C = r->model->shape.C;
    const sf_param *embedding = sf_model_embedding(r->model);
    for (size_t t = 0; t < T; t++)
        for (size_t c = 0; c < C; c++)
            r->x[t * C + c] =
                params[sf_param_index(embedding, (size_t)tokens[t], c)] * sqrt((double)C) + r->positions[t * C + c];
    const sf_index noise = sf_ref_index_at(at, SF_EMBEDDING_NOISE, 0);
    for (size_t i = 0; at->moment->noise > 0 && i < T * C; i++)
        r->x[i] += at->moment->noise * sf_noise_at(&noise, i / C, i % C, C);
    drop(r->x, at, SF_DROP_EMBEDDING, T, C);
}

static void embed_backward(sf_reference *r, double *gradient, const int32_t *tokens /* [T] */,
                           const sf_ref_location *at) {
    const size_t T = r->model->shape.T, C = r->model->shape.C;
    const sf_param *embedding = sf_model_embedding(r->model);
    drop(r->dx, at, SF_DROP_EMBEDDING, T, C);
    for (size_t t = 0; t < T; t++)
        for (size_t c = 0; c < C; c++)
            gradient[sf_param_index(embedding, (size_t)tokens[t], c)] += r->dx[t * C + c] * sqrt((double)C);
}

/* Cross-entropy of one sequence; dlogits becomes its gradient. */
static double cross_entropy(double *dlogits, const double *logits, int32_t label, size_t classes) {
    double largest = logits[0], total = 0;
    for (size_t n = 1; n < classes; n++) largest = fmax(largest, logits[n]);
    for (size_t n = 0; n < classes; n++) total += exp(logits[n] - largest);
    for (size_t n = 0; n < classes; n++) dlogits[n] = exp(logits[n] - largest) / total - ((size_t)label == n ? 1 : 0);
    /* cppcheck-suppress invalidFunctionArg ; total is at least 1: the largest logit's own term */
    return log(total) + largest - logits[label];
}

/* What a label belongs to: the mean over the positions, or one of them. */
static void pool(double *pooled /* [C] */, const double *x /* [T,C] */, const sf_shape *s, size_t position) {
    const bool mean = s->readout == SF_READ_MEAN;
    for (size_t c = 0; c < s->C; c++) {
        pooled[c] = mean ? 0 : x[position * s->C + c];
        for (size_t t = 0; t < s->T && mean; t++) pooled[c] += x[t * s->C + c] / (double)s->T;
    }
}

/* Adds to dx. */
static void pool_backward(double *dx /* [T,C] */, const double *dpooled /* [C] */, const sf_shape *s, size_t position) {
    const bool mean = s->readout == SF_READ_MEAN;
    for (size_t t = 0; t < s->T; t++)
        for (size_t c = 0; c < s->C; c++)
            dx[t * s->C + c] += mean ? dpooled[c] / (double)s->T : t == position ? dpooled[c] : 0;
}

/* Readout, linear head and loss of sequence n, which is added; with a gradient, starts the backward pass: dx. */
static void classify(sf_reference *r, double *loss, double *logits /* [labels,classes] */, double *gradient,
                     const double *params, const sf_batch *batch, size_t labelled, size_t n) {
    const sf_shape *s = &r->model->shape;
    const sf_ref_linear head = linear_of(sf_model_head(r->model));
    const size_t labels = sf_shape_labels(s);
    if (gradient != NULL) memset(r->dx, 0, s->T * s->C * sizeof *r->dx);
    for (size_t i = 0; i < labels; i++) {
        const size_t position = s->readout == SF_READ_EACH ? i : sf_batch_last(batch, s, n);
        const int32_t label = batch->labels[n * labels + i];
        pool(r->pooled, r->x, s, position);
        sf_ref_linear_forward(logits + i * s->classes, r->pooled, params, head, 1);
        if (label == SF_NO_LABEL) continue;
        *loss += cross_entropy(r->dlogits, logits + i * s->classes, label, s->classes) / (double)labelled;
        if (gradient == NULL) continue;
        for (size_t k = 0; k < s->classes; k++) r->dlogits[k] /= (double)labelled;
        memset(r->dpooled, 0, s->C * sizeof *r->dpooled);
        sf_ref_linear_backward(r->dpooled, gradient, r->dlogits, r->pooled, params, head, 1);
        pool_backward(r->dx, r->dpooled, s, position);
    }
}

void sf_reference_run(sf_reference *r, double *loss, double *logits /* [B,labels,classes] */,
                      double *gradient /* [size] */, const double *params /* [size] */, const sf_batch *batch,
                      const sf_moment *moment) {
    const sf_shape *s = &r->model->shape;
    const size_t T = s->T, labelled = sf_batch_labelled(batch, s);
    *loss = 0;
    if (gradient != NULL) memset(gradient, 0, r->model->size * sizeof *gradient);
    for (size_t n = 0; n < batch->B; n++) {
        sf_ref_location at = {.moment = moment, .sample = n, .rate = moment->training ? s->dropout : 0};
        const int32_t *tokens = batch->tokens + n * T;
        embed(r, params, tokens, &at);
        for (at.block = 0; at.block < s->L; at.block++) block_forward(r, params, &at);
        classify(r, loss, logits + n * sf_shape_labels(s) * s->classes, gradient, params, batch, labelled, n);
        if (gradient == NULL) continue;
        while (at.block-- > 0) block_backward(r, gradient, params, &at);
        at.block = 0;
        embed_backward(r, gradient, tokens, &at);
    }
}
