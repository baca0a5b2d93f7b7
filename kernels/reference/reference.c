#include "kernels/reference/reference.h"

#include <math.h>
#include <string.h>

#include "kernels/reference/layers.h"

typedef struct block_trace { /* what the backward pass needs of the forward pass */
    double *input;           /* [T,C] */
    double *normed1, *rstd1; /* [T,C], [T]: the attention norm */
    double *q, *k, *v;       /* [T,H,C] */
    double *scores;          /* [H,T,T] */
    bool *kept;              /* [H,T,T] */
    double *weights;         /* [H,T,T], 0 where not kept, before dropout */
    double *context;         /* [T,H,C] */
    double *normed2, *rstd2; /* [T,C], [T]: the MLP norm */
    double *hidden;          /* [T,F], after dropout, before the activation */
    double *active;          /* [T,F] */
} block_trace;

struct sf_reference {
    const sf_model *model;
    sf_arena arena;
    block_trace *blocks;      /* [L] */
    double *positions;        /* [T,C] */
    double *x, *dx, *branch;  /* [T,C] */
    double *dbranch;          /* [T,C] */
    double *dhidden;          /* [T,F] */
    double *dq, *dk, *dv;     /* [T,H,C] */
    double *dcontext;         /* [T,H,C] */
    double *row, *drow, *raw; /* [T]: weights, gradients and scores of one query's kept keys */
    uint32_t *keys;           /* [T] */
    unsigned char *scratch;   /* of the selector */
    double *pooled, *dpooled; /* [C] */
    double *dlogits;          /* [classes] */
};

static void lay_out(sf_reference *r, sf_arena *arena) {
    const sf_shape *s = &r->model->shape;
    const size_t TC = s->T * s->C, THC = TC * s->H, HTT = s->H * s->T * s->T;
#define TAKE(pointer, count) (pointer) = sf_arena_take(arena, (count), sizeof *(pointer))
    TAKE(r->blocks, s->L);
    for (size_t l = 0; l < s->L; l++) {
        block_trace scratch = {0}, *b = arena->base != NULL ? &r->blocks[l] : &scratch;
        TAKE(b->input, TC);
        TAKE(b->normed1, TC);
        TAKE(b->rstd1, s->T);
        TAKE(b->q, THC);
        TAKE(b->k, THC);
        TAKE(b->v, THC);
        TAKE(b->scores, HTT);
        TAKE(b->kept, HTT);
        TAKE(b->weights, HTT);
        TAKE(b->context, THC);
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
    TAKE(r->dq, THC);
    TAKE(r->dk, THC);
    TAKE(r->dv, THC);
    TAKE(r->dcontext, THC);
    TAKE(r->row, s->T);
    TAKE(r->drow, s->T);
    TAKE(r->raw, s->T);
    TAKE(r->keys, s->T);
    TAKE(r->scratch, sf_head_scratch_size(&s->attention, s->T, s->C, s->H));
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

const double *sf_reference_scores(const sf_reference *reference, size_t block) {
    return reference->blocks[block].scores;
}

const bool *sf_reference_kept(const sf_reference *reference, size_t block) {
    return reference->blocks[block].kept;
}

typedef struct location { /* where in the computation: the addresses of dropout and random keys */
    const sf_moment *moment;
    size_t sample, block;
    double rate; /* of dropout, 0 in evaluation */
} location;

static sf_index index_at(const location *at, sf_purpose purpose, size_t head) {
    return sf_moment_index(at->moment, purpose, at->block, head, at->sample);
}

static void drop(double *x, const location *at, sf_purpose purpose, size_t T, size_t columns) {
    const sf_index index = index_at(at, purpose, 0);
    sf_ref_drop(x, x, at->rate, &index, T, columns);
}

static void add_to(double *x, const double *y, size_t count) {
    for (size_t i = 0; i < count; i++) x[i] += y[i];
}

static sf_ref_linear linear_of(const sf_param *params) {
    return (sf_ref_linear){&params[0], &params[1]};
}

/* softmax over the kept scores of each query, then the mean of the values under the (dropped) weights. */
static void attend(sf_reference *r, block_trace *b, const location *at) {
    const sf_shape *s = &r->model->shape;
    const size_t T = s->T, C = s->C, H = s->H;
    const double scale = s->inverse_temperature / sqrt((double)C);
    memset(b->context, 0, T * H * C * sizeof *b->context);
    for (size_t h = 0; h < H; h++) {
        const sf_index drop_index = index_at(at, SF_DROP_WEIGHTS, h);
        const sf_index key_index = index_at(at, sf_moment_random_keys(at->moment), h);
        sf_head_state head = {.input = {.D = C,
                                        .block = at->block,
                                        .head = h,
                                        .heads = H,
                                        .queries = b->q + h * C,
                                        .keys = b->k + h * C,
                                        .stride = H * C},
                              .scratch = r->scratch};
        sf_head_prepare(&head, &s->attention, T, key_index);
        for (size_t i = 0; i < T; i++) {
            double *scores = b->scores + (h * T + i) * T, *weights = b->weights + (h * T + i) * T;
            bool *kept = b->kept + (h * T + i) * T;
            for (size_t j = 0; j < T; j++) {
                double dot = 0;
                for (size_t c = 0; c < C; c++) dot += b->q[(i * H + h) * C + c] * b->k[(j * H + h) * C + c];
                scores[j] = scale * dot;
                weights[j] = 0;
                kept[j] = false;
            }
            sf_draws draws = sf_query_draws(key_index, i);
            const size_t K = sf_attention_keep_in(r->keys, &s->attention, &head, i, T, scores, &draws);
            for (size_t n = 0; n < K; n++) r->raw[n] = scores[r->keys[n]];
            sf_attention_weigh(r->row, &s->attention, r->raw, K, T);
            for (size_t n = 0; n < K; n++) {
                const size_t j = r->keys[n];
                kept[j] = true;
                weights[j] = r->row[n];
                const double factor = at->rate > 0 ? sf_ref_keep_factor(at->rate, &drop_index, i, j, T) : 1;
                for (size_t c = 0; c < C; c++)
                    b->context[(i * H + h) * C + c] += factor * weights[j] * b->v[(j * H + h) * C + c];
            }
        }
    }
}

static void attend_backward(sf_reference *r, const block_trace *b, const location *at) {
    const sf_shape *s = &r->model->shape;
    const size_t T = s->T, C = s->C, H = s->H;
    const double scale = s->inverse_temperature / sqrt((double)C);
    memset(r->dq, 0, T * H * C * sizeof *r->dq);
    memset(r->dk, 0, T * H * C * sizeof *r->dk);
    memset(r->dv, 0, T * H * C * sizeof *r->dv);
    for (size_t h = 0; h < H; h++) {
        const sf_index drop_index = index_at(at, SF_DROP_WEIGHTS, h);
        for (size_t i = 0; i < T; i++) {
            const size_t start = (h * T + i) * T;
            const double *dcontext = r->dcontext + (i * H + h) * C;
            size_t K = 0;
            for (size_t j = 0; j < T; j++) {
                if (!b->kept[start + j]) continue;
                const double factor = at->rate > 0 ? sf_ref_keep_factor(at->rate, &drop_index, i, j, T) : 1;
                double dot = 0;
                for (size_t c = 0; c < C; c++) {
                    dot += dcontext[c] * b->v[(j * H + h) * C + c];
                    r->dv[(j * H + h) * C + c] += factor * b->weights[start + j] * dcontext[c];
                }
                r->keys[K] = (uint32_t)j;
                r->row[K] = b->weights[start + j];
                r->raw[K] = b->scores[start + j];
                r->drow[K++] = factor * dot;
            }
            double *dscores = r->drow;
            sf_attention_weigh_backward(dscores, &s->attention, r->drow, r->row, r->raw, K, T);
            for (size_t n = 0; n < K; n++) {
                const size_t j = r->keys[n];
                for (size_t c = 0; c < C; c++) {
                    r->dq[(i * H + h) * C + c] += scale * dscores[n] * b->k[(j * H + h) * C + c];
                    r->dk[(j * H + h) * C + c] += scale * dscores[n] * b->q[(i * H + h) * C + c];
                }
            }
        }
    }
}

static void block_forward(sf_reference *r, const double *params, const location *at) {
    const sf_shape *s = &r->model->shape;
    const size_t T = s->T, C = s->C, F = s->F;
    const sf_param *p = sf_model_block(r->model, at->block);
    block_trace *b = &r->blocks[at->block];
    const bool pre = s->norm == SF_PRE_NORM;
    memcpy(b->input, r->x, T * C * sizeof *r->x);

    if (pre) sf_ref_norm_forward(b->normed1, b->rstd1, r->x, sf_norm_epsilon(at->block, 1), T, C);
    const double *attention_input = pre ? b->normed1 : b->input;
    sf_ref_linear_forward(b->q, attention_input, params, linear_of(&p[SF_WQ]), T);
    sf_ref_linear_forward(b->k, attention_input, params, linear_of(&p[SF_WK]), T);
    sf_ref_linear_forward(b->v, attention_input, params, linear_of(&p[SF_WV]), T);
    attend(r, b, at);
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
    for (size_t i = 0; i < T * F; i++) b->active[i] = sf_ref_activate(b->hidden[i], s->activation);
    sf_ref_linear_forward(r->branch, b->active, params, linear_of(&p[SF_W2]), T);
    drop(r->branch, at, SF_DROP_MLP, T, C);
    add_to(r->x, r->branch, T * C);
    if (!pre) {
        sf_ref_norm_forward(b->normed2, b->rstd2, r->x, sf_norm_epsilon(at->block, 0), T, C);
        memcpy(r->x, b->normed2, T * C * sizeof *r->x);
    }
}

/* dx holds the gradient of the block's output on entry and of its input on return. */
static void block_backward(sf_reference *r, double *gradient, const double *params, const location *at) {
    const sf_shape *s = &r->model->shape;
    const size_t T = s->T, C = s->C, F = s->F;
    const sf_param *p = sf_model_block(r->model, at->block);
    const block_trace *b = &r->blocks[at->block];
    const bool pre = s->norm == SF_PRE_NORM;
    const double *mlp_input = pre ? b->normed2 : b->normed1;
    const double *attention_input = pre ? b->normed1 : b->input;

    if (!pre) sf_ref_norm_backward(r->dx, r->dx, b->normed2, b->rstd2, T, C);
    memcpy(r->branch, r->dx, T * C * sizeof *r->dx);
    drop(r->branch, at, SF_DROP_MLP, T, C);
    memset(r->dhidden, 0, T * F * sizeof *r->dhidden);
    sf_ref_linear_backward(r->dhidden, gradient, r->branch, b->active, params, linear_of(&p[SF_W2]), T);
    for (size_t i = 0; i < T * F; i++) r->dhidden[i] *= sf_ref_activate_slope(b->hidden[i], s->activation);
    drop(r->dhidden, at, SF_DROP_HIDDEN, T, F);
    memset(r->dbranch, 0, T * C * sizeof *r->dbranch);
    sf_ref_linear_backward(r->dbranch, gradient, r->dhidden, mlp_input, params, linear_of(&p[SF_W1]), T);
    if (pre) sf_ref_norm_backward(r->dbranch, r->dbranch, b->normed2, b->rstd2, T, C);
    add_to(r->dx, r->dbranch, T * C);

    if (!pre) sf_ref_norm_backward(r->dx, r->dx, b->normed1, b->rstd1, T, C);
    memcpy(r->branch, r->dx, T * C * sizeof *r->dx);
    drop(r->branch, at, SF_DROP_ATTENTION, T, C);
    memset(r->dcontext, 0, T * s->H * C * sizeof *r->dcontext);
    sf_ref_linear_backward(r->dcontext, gradient, r->branch, b->context, params, linear_of(&p[SF_WO]), T);
    attend_backward(r, b, at);
    memset(r->dbranch, 0, T * C * sizeof *r->dbranch);
    sf_ref_linear_backward(r->dbranch, gradient, r->dq, attention_input, params, linear_of(&p[SF_WQ]), T);
    sf_ref_linear_backward(r->dbranch, gradient, r->dk, attention_input, params, linear_of(&p[SF_WK]), T);
    sf_ref_linear_backward(r->dbranch, gradient, r->dv, attention_input, params, linear_of(&p[SF_WV]), T);
    if (pre) sf_ref_norm_backward(r->dbranch, r->dbranch, b->normed1, b->rstd1, T, C);
    add_to(r->dx, r->dbranch, T * C);
}

static void embed(sf_reference *r, const double *params, const int32_t *tokens /* [T] */, const location *at) {
    const size_t T = r->model->shape.T, C = r->model->shape.C;
    const sf_param *embedding = sf_model_embedding(r->model);
    for (size_t t = 0; t < T; t++)
        for (size_t c = 0; c < C; c++)
            r->x[t * C + c] =
                params[sf_param_index(embedding, (size_t)tokens[t], c)] * sqrt((double)C) + r->positions[t * C + c];
    const sf_index noise = index_at(at, SF_EMBEDDING_NOISE, 0);
    for (size_t i = 0; at->moment->noise > 0 && i < T * C; i++)
        r->x[i] += at->moment->noise * sf_noise_at(&noise, i / C, i % C, C);
    drop(r->x, at, SF_DROP_EMBEDDING, T, C);
}

static void embed_backward(sf_reference *r, double *gradient, const int32_t *tokens /* [T] */, const location *at) {
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

void sf_reference_run(sf_reference *r, double *loss, double *logits /* [B,classes] */, double *gradient /* [size] */,
                      const double *params /* [size] */, const sf_batch *batch, const sf_moment *moment) {
    const sf_shape *s = &r->model->shape;
    const size_t T = s->T, C = s->C;
    const sf_ref_linear head = linear_of(sf_model_head(r->model));
    *loss = 0;
    if (gradient != NULL) memset(gradient, 0, r->model->size * sizeof *gradient);
    for (size_t n = 0; n < batch->B; n++) {
        location at = {.moment = moment, .sample = n, .rate = moment->training ? s->dropout : 0};
        const int32_t *tokens = batch->tokens + n * T;
        embed(r, params, tokens, &at);
        for (at.block = 0; at.block < s->L; at.block++) block_forward(r, params, &at);
        for (size_t c = 0; c < C; c++) {
            r->pooled[c] = 0;
            for (size_t t = 0; t < T; t++) r->pooled[c] += r->x[t * C + c] / (double)T;
        }
        double *out = logits + n * s->classes;
        sf_ref_linear_forward(out, r->pooled, params, head, 1);
        *loss += cross_entropy(r->dlogits, out, batch->labels[n], s->classes) / (double)batch->B;
        if (gradient == NULL) continue;

        for (size_t i = 0; i < s->classes; i++) r->dlogits[i] /= (double)batch->B;
        memset(r->dpooled, 0, C * sizeof *r->dpooled);
        sf_ref_linear_backward(r->dpooled, gradient, r->dlogits, r->pooled, params, head, 1);
        for (size_t t = 0; t < T; t++)
            for (size_t c = 0; c < C; c++) r->dx[t * C + c] = r->dpooled[c] / (double)T;
        while (at.block-- > 0) block_backward(r, gradient, params, &at);
        at.block = 0;
        embed_backward(r, gradient, tokens, &at);
    }
}
