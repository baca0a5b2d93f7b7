/* Forward and backward through the whole model for one group of sequences. Order and names follow
 * kernels/reference/reference.c, where the formulas are easier to read. */
#include <math.h>
#include <string.h>

#include "base/elementary.h"
#include "base/sizes.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/selection.h"

typedef struct block_rows { /* a block of a job, or a stretch of its rows */
    const sf_job *job;
    size_t block;
    const sf_param *params; /* the block's entries of the table */
    const sf_packed_block *packed;
    const sf_workspace *mine; /* for values that no other layer needs */
    atomic_size_t *turns;     /* [stretches], NULL: no other worker adds to the gradient meanwhile */
    size_t first, R;          /* rows: all n * T of them, or R from `first` on */
    sf_trace trace;           /* from row `first` on, like the next four */
    float *x, *dx;
    float *dqkv, *dcontext;
} block_rows;

static block_rows rows_of_block(const sf_job *job, size_t block) {
    const sf_workspace *work = job->work;
    /* Forward only, nothing is kept for later: every block uses the first trace. */
    return (block_rows){.job = job,
                        .block = block,
                        .params = sf_model_block(job->plan->model, block),
                        .packed = &job->packed[block],
                        .mine = work,
                        .R = job->n * job->plan->model->shape.T,
                        .trace = work->traces[job->gradient != NULL ? block : 0],
                        .x = work->x,
                        .dx = work->dx,
                        .dqkv = work->dqkv,
                        .dcontext = work->dcontext};
}

static block_rows stretch_of(const block_rows *all, size_t first) {
    const sf_cpu_plan *plan = all->job->plan;
    const sf_shape *s = &plan->model->shape;
    const size_t Cp = plan->rows.Cp, Fp = plan->rows.Fp, HDp = plan->rows.HDp;
    block_rows at = *all;
    at.first = first;
    at.R = all->R - first < SF_GROUP_ROWS ? all->R - first : SF_GROUP_ROWS;
    at.trace.qkv += first * 3 * HDp;
    at.trace.context += first * HDp;
    if (all->job->gradient != NULL || all->job->observer != NULL) { /* otherwise all stretches use the same place */
        if (at.trace.input != NULL) at.trace.input += first * Cp;
        at.trace.normed1 += first * Cp;
        at.trace.rstd1 += first;
        at.trace.norms += first * 2 * s->H;
        at.trace.normed2 += first * Cp;
        at.trace.rstd2 += first;
        at.trace.hidden += first * Fp;
        at.trace.kept_attention += first * sf_kept_words(s->C);
        at.trace.kept_hidden += first * sf_kept_words(s->F);
        at.trace.kept_mlp += first * sf_kept_words(s->C);
    }
    at.x += first * Cp;
    at.dx += first * Cp;
    at.dqkv += first * 3 * HDp;
    at.dcontext += first * HDp;
    return at;
}

typedef struct shared_layers { /* a part of them is a stretch */
    const block_rows *all;
    void (*layers)(const block_rows *at);
} shared_layers;

/* In a forward-only pass, all stretches of a worker use the worker's own place for what their layers need. */
static void move_in(block_rows *at, const sf_workspace *mine) {
    const sf_job *job = at->job;
    const sf_trace theirs = at->trace;
    at->mine = mine;
    if (job->gradient != NULL || job->observer != NULL) return;
    at->trace = mine->traces[0];
    at->trace.qkv = theirs.qkv;
    at->trace.context = theirs.context;
}

static void take_stretches(sf_offer *offer, const sf_workspace *mine) {
    const shared_layers *by = offer->task;
    for (size_t part; (part = sf_offer_next_part(offer)) < offer->parts;) {
        block_rows at = stretch_of(by->all, part * SF_GROUP_ROWS);
        move_in(&at, mine);
        by->layers(&at);
    }
}

/* One stretch of rows after the other, so that the output of one layer is still in the cache for the next one. */
static void by_stretches(const block_rows *all, void (*layers)(const block_rows *at)) {
    const sf_job *job = all->job;
    const size_t parts = (all->R + SF_GROUP_ROWS - 1) / SF_GROUP_ROWS;
    block_rows ordered = *all;
    ordered.turns = job->work->turns;
    sf_turns_clear(ordered.turns, parts);
    const shared_layers task = {&ordered, layers};
    sf_offer_share(job->offer, &task, parts, take_stretches, job->work);
}

/* Gradients are added in the order of the stretches, whichever worker computes them. False: told to stop. */
static bool await_turn(const block_rows *at) {
    return at->turns == NULL || sf_turn_await(at->turns, at->first / SF_GROUP_ROWS, at->job->stop);
}

static void end_turn(const block_rows *at) {
    if (at->turns != NULL) sf_turn_end(at->turns, at->first / SF_GROUP_ROWS);
}

static sf_drop_mask mask_of(const sf_job *job) {
    if (!job->moment->training) return (sf_drop_mask){0};
    const sf_dropout dropout = sf_dropout_of(job->plan->model->shape.dropout);
    return (sf_drop_mask){dropout.threshold, (float)dropout.scale};
}

/* Draws the dropout mask of a matrix with this many columns; each sequence has its own address. */
static void draw(uint64_t *kept, const block_rows *at, sf_purpose purpose, size_t columns) {
    const sf_drop_mask mask = mask_of(at->job);
    const size_t T = at->job->plan->model->shape.T, end = at->first + at->R;
    for (size_t n = at->first / T; n * T < end && mask.threshold > 0; n++) {
        const size_t from = sf_larger(n * T, at->first), to = sf_smaller((n + 1) * T, end);
        const sf_index index = sf_moment_index(at->job->moment, purpose, at->block, 0, at->job->first + n);
        sf_rows_draw(kept + (from - at->first) * sf_kept_words(columns), mask, &index, from - n * T, to - from,
                     columns);
    }
}

/* The part of a head from `first_query` on. */
static sf_head head_of(const block_rows *at, size_t sequence, size_t h, size_t first_query, size_t queries) {
    const sf_job *job = at->job;
    const sf_cpu_plan *plan = job->plan;
    const size_t T = plan->model->shape.T, H = plan->model->shape.H, HDp = plan->rows.HDp;
    const size_t qkv = sequence * T * 3 * HDp + h * plan->rows.Dp, context = sequence * T * HDp + h * plan->rows.Dp;
    return (sf_head){
        .job = job,
        .first_query = first_query,
        .queries = queries,
        .trace = &at->trace,
        .stride = 3 * HDp,
        .context_stride = HDp,
        .block = at->block,
        .slot = sequence * H + h,
        .q = at->trace.qkv + qkv,
        .k = at->trace.qkv + qkv + HDp,
        .v = at->trace.qkv + qkv + 2 * HDp,
        .context = at->trace.context + context,
        .dq = at->dqkv + qkv,
        .dk = at->dqkv + qkv + HDp,
        .dv = at->dqkv + qkv + 2 * HDp,
        .dcontext = at->dcontext + context,
        .drop = {mask_of(job), sf_moment_index(job->moment, SF_DROP_WEIGHTS, at->block, h, job->first + sequence),
                 sf_dropout_draws_per_row(T)},
        .key_index =
            sf_moment_index(job->moment, sf_moment_random_keys(job->moment), at->block, h, job->first + sequence),
    };
}

/* All queries of every sequence. */
static void attend(const block_rows *all, void (*kernel)(const sf_head *head)) {
    const sf_shape *s = &all->job->plan->model->shape;
    for (size_t n = 0; n < all->job->n; n++)
        for (size_t h = 0; h < s->H && !sf_stop_asked(all->job->stop); h++) {
            const sf_head head = head_of(all, n, h, 0, s->T);
            kernel(&head);
        }
}

static sf_attention_kernels kernels_of(const sf_job *job) {
    return sf_attention_kernels_of(job->plan, mask_of(job).threshold > 0);
}

/* The queries of a stretch of the only sequence. */
static void attend_stretch(const block_rows *all, const block_rows *at, void (*kernel)(const sf_head *head)) {
    for (size_t h = 0; h < all->job->plan->model->shape.H; h++) {
        const sf_head head = head_of(all, 0, h, at->first, at->R);
        kernel(&head);
    }
}

static void clear_keys(const block_rows *all, size_t first, size_t count) {
    const sf_shape *s = &all->job->plan->model->shape;
    for (size_t n = 0; n < all->job->n && !all->job->plan->dense; n++)
        for (size_t h = 0; h < s->H; h++) {
            const sf_head head = head_of(all, n, h, 0, 0);
            sf_kept_clear(&head, first, count);
        }
}

typedef struct view_keeper { /* what a view needs to compute kept keys again */
    const block_rows *at;
    size_t sequence;
    size_t opened; /* the head; none: H */
    sf_opened_head head;
} view_keeper;

static size_t keep_again(uint32_t *kept, void *context, size_t head, size_t query) {
    view_keeper *keeper = context;
    if (keeper->opened != head) {
        const sf_head whole = head_of(keeper->at, keeper->sequence, head, 0, keeper->at->job->plan->model->shape.T);
        sf_rowwise_open(&keeper->head, &whole);
        keeper->opened = head;
    }
    return sf_rowwise_keep(kept, &keeper->head, query);
}

static void show(const block_rows *at) {
    const sf_observer *observer = at->job->observer;
    const sf_cpu_plan *plan = at->job->plan;
    const sf_trace *t = &at->trace;
    const size_t T = plan->model->shape.T, H = plan->model->shape.H, Cp = plan->rows.Cp, HDp = plan->rows.HDp;
    for (size_t n = 0; n < at->job->n; n++) {
        const float *q = t->qkv + n * T * 3 * HDp;
        const float *input = plan->model->shape.norm == SF_PRE_NORM ? t->normed1 : t->input;
        view_keeper keeper = {.at = at, .sequence = n, .opened = H};
        const sf_attention_view view = {.block = at->block,
                                        .sequence = at->job->first + n,
                                        .input = input + n * T * Cp,
                                        .q = q,
                                        .k = q + HDp,
                                        .v = q + 2 * HDp,
                                        .stride = 3 * HDp,
                                        .chosen = t->keys != NULL ? t->keys + n * H * plan->pattern.offsets[T] : NULL,
                                        .offsets = plan->pattern.offsets,
                                        .counts = t->counts != NULL ? t->counts + n * H * T : NULL,
                                        .keep = plan->rowwise || plan->matrix ? keep_again : NULL,
                                        .keeper = &keeper,
                                        .context = t->context + n * T * HDp,
                                        .hidden = t->hidden + n * T * plan->rows.Fp,
                                        .attention_rstd = t->rstd1 + n * T,
                                        .mlp_rstd = t->rstd2 + n * T};
        observer->observe(observer->context, at->job->worker, &view);
    }
}

static bool turns(const sf_cpu_plan *plan) {
    return plan->angles != NULL || plan->norm_factors[0] != 0;
}

static void project(const block_rows *at) {
    const sf_cpu_plan *plan = at->job->plan;
    const sf_trace *t = &at->trace;
    const size_t Cp = plan->rows.Cp, HDp = plan->rows.HDp, R = at->R;
    const bool pre = plan->model->shape.norm == SF_PRE_NORM;
    if (pre)
        sf_rows_norm(t->normed1, t->rstd1, at->x, (float)sf_norm_epsilon(at->block, 1), R, plan->model->shape.C);
    else
        memcpy(t->input, at->x, R * Cp * sizeof *at->x);
    sf_gemm(t->qkv, 3 * HDp, sf_upright(pre ? t->normed1 : t->input, Cp), at->packed->qkv.at, at->packed->qkv_bias,
            false, R, 3 * HDp, Cp);
    if (turns(plan)) sf_turn(t->qkv, t->norms, plan, at->first, R);
}

static void join_and_transform(const block_rows *at) {
    const sf_cpu_plan *plan = at->job->plan;
    const sf_shape *s = &plan->model->shape;
    const sf_trace *t = &at->trace;
    const size_t Cp = plan->rows.Cp, Fp = plan->rows.Fp, HDp = plan->rows.HDp, R = at->R;
    const float *params = at->job->params;
    float *branch = at->mine->branch, *active = at->mine->active;
    const sf_drop_mask mask = mask_of(at->job);
    const bool pre = s->norm == SF_PRE_NORM;
    const float attention_epsilon = (float)sf_norm_epsilon(at->block, 1);
    const float mlp_epsilon = (float)sf_norm_epsilon(at->block, 0);

    sf_gemm(branch, Cp, sf_upright(t->context, HDp), at->packed->o.at, params + at->params[SF_BO].offset, false, R, Cp,
            HDp);
    draw(t->kept_attention, at, SF_DROP_ATTENTION, s->C);
    sf_rows_drop(at->x, true, branch, mask, t->kept_attention, R, s->C);
    if (!pre) {
        sf_rows_norm(t->normed1, t->rstd1, at->x, attention_epsilon, R, s->C);
        memcpy(at->x, t->normed1, R * Cp * sizeof *at->x);
    }

    if (pre) sf_rows_norm(t->normed2, t->rstd2, at->x, mlp_epsilon, R, s->C);
    sf_gemm(t->hidden, Fp, sf_upright(pre ? t->normed2 : t->normed1, Cp), at->packed->w1.at,
            params + at->params[SF_B1].offset, false, R, Fp, Cp);
    draw(t->kept_hidden, at, SF_DROP_HIDDEN, s->F);
    if (mask.threshold > 0) sf_rows_drop(t->hidden, false, t->hidden, mask, t->kept_hidden, R, s->F);
    sf_rows_activate(active, t->hidden, s->activation, R * Fp);
    sf_gemm(branch, Cp, sf_upright(active, Fp), at->packed->w2.at, params + at->params[SF_B2].offset, false, R, Cp, Fp);
    draw(t->kept_mlp, at, SF_DROP_MLP, s->C);
    sf_rows_drop(at->x, true, branch, mask, t->kept_mlp, R, s->C);
    if (!pre) {
        sf_rows_norm(t->normed2, t->rstd2, at->x, mlp_epsilon, R, s->C);
        memcpy(at->x, t->normed2, R * Cp * sizeof *at->x);
    }
}

/* All kept keys are nearby: a stretch goes through all layers as soon as the rows that its queries reach are
 * projected. */
static void block_forward_nearby(const block_rows *all) {
    size_t projected = 0;
    for (size_t first = 0; first < all->R && !sf_stop_asked(all->job->stop); first += SF_GROUP_ROWS) {
        for (; projected < all->job->plan->reach[first / SF_GROUP_ROWS].ahead; projected += SF_GROUP_ROWS) {
            const block_rows next = stretch_of(all, projected);
            project(&next);
        }
        const block_rows at = stretch_of(all, first);
        attend_stretch(all, &at, sf_kept_forward);
        join_and_transform(&at);
    }
}

static void block_forward(const block_rows *all) {
    const sf_cpu_plan *plan = all->job->plan;
    if (plan->reach != NULL) {
        block_forward_nearby(all);
    } else {
        by_stretches(all, project);
        attend(all, kernels_of(all->job).forward);
        by_stretches(all, join_and_transform);
    }
    if (all->job->observer != NULL && !sf_stop_asked(all->job->stop)) show(all);
}

/* Whether the gradient of the weights is added to earlier values. */
static bool adds(const block_rows *at) {
    return at->first > 0 || !at->job->fresh;
}

static void bias_backward(const block_rows *at, int bias, const float *dy, size_t dy_row, size_t N) {
    if (!await_turn(at)) return;
    sf_rows_sum(at->job->gradient + at->params[bias].offset, adds(at), dy, dy_row, at->R, N);
    end_turn(at);
}

/* Gradient of a linear layer whose outputs come in `groups` padded groups (the heads):
 * adds to weight and bias gradients; dx [R,inputs] = dy W, plus what it held if `add`. */
static void linear_backward(float *dx, bool add, const block_rows *at, int weight, const float *dy, size_t dy_row,
                            const float *x) {
    const sf_param *w = &at->params[weight], *b = &at->params[weight + 1];
    const sf_packed_weight *back = at->packed->back + (size_t)weight / 2 * at->job->plan->model->shape.H;
    const size_t groups = b->groups, width = w->rows / groups;
    for (size_t g = 0; g < groups; g++) {
        const float *dy_group = dy + g * sf_padded(width);
        const size_t first = w->offset + g * width * w->stride;
        if (!await_turn(at)) return;
        sf_gemm(at->job->gradient + first, w->stride, sf_transposed(dy_group, dy_row), sf_plain(x, w->stride), NULL,
                adds(at), width, w->stride, at->R);
        end_turn(at);
        sf_gemm(dx, w->stride, sf_upright(dy_group, dy_row), back[g].at, NULL, add || g > 0, at->R, w->stride, width);
    }
}

static void join_and_transform_backward(const block_rows *at) {
    const sf_cpu_plan *plan = at->job->plan;
    const sf_shape *s = &plan->model->shape;
    const sf_workspace *work = at->mine;
    const sf_trace *t = &at->trace;
    const size_t Cp = plan->rows.Cp, Fp = plan->rows.Fp, R = at->R;
    const sf_drop_mask mask = mask_of(at->job);
    const bool pre = s->norm == SF_PRE_NORM;

    if (!pre) sf_rows_norm_backward(at->dx, at->dx, t->normed2, t->rstd2, false, R, s->C);
    sf_rows_drop(work->branch, false, at->dx, mask, t->kept_mlp, R, s->C);
    bias_backward(at, SF_B2, work->branch, Cp, Cp);
    sf_rows_activate(work->active, t->hidden, s->activation, R * Fp);
    linear_backward(work->dhidden, false, at, SF_W2, work->branch, Cp, work->active);
    sf_rows_activate_backward(work->dhidden, t->hidden, s->activation, R * Fp);
    if (mask.threshold > 0) sf_rows_drop(work->dhidden, false, work->dhidden, mask, t->kept_hidden, R, s->F);
    bias_backward(at, SF_B1, work->dhidden, Fp, Fp);
    linear_backward(work->dbranch, false, at, SF_W1, work->dhidden, Fp, pre ? t->normed2 : t->normed1);
    if (pre)
        sf_rows_norm_backward(at->dx, work->dbranch, t->normed2, t->rstd2, true, R, s->C);
    else
        sf_rows_add(at->dx, work->dbranch, R * Cp);

    if (!pre) sf_rows_norm_backward(at->dx, at->dx, t->normed1, t->rstd1, false, R, s->C);
    sf_rows_drop(work->branch, false, at->dx, mask, t->kept_attention, R, s->C);
    bias_backward(at, SF_BO, work->branch, Cp, Cp);
    linear_backward(at->dcontext, false, at, SF_WO, work->branch, Cp, t->context);
}

static void project_backward(const block_rows *at) {
    const sf_cpu_plan *plan = at->job->plan;
    const sf_trace *t = &at->trace;
    const size_t C = plan->model->shape.C, Cp = plan->rows.Cp, HDp = plan->rows.HDp, R = at->R;
    float *dbranch = at->mine->dbranch;
    const bool pre = plan->model->shape.norm == SF_PRE_NORM;
    static const int projections[] = {SF_WQ, SF_WK, SF_WV};
    if (turns(plan)) sf_turn_backward(at->dqkv, t->qkv, t->norms, plan, at->first, R);
    for (size_t i = 0; i < 3; i++) {
        const float *dy = at->dqkv + i * HDp;
        bias_backward(at, projections[i] + 1, dy, 3 * HDp, HDp);
        linear_backward(dbranch, i > 0, at, projections[i], dy, 3 * HDp, pre ? t->normed1 : t->input);
    }
    if (pre)
        sf_rows_norm_backward(at->dx, dbranch, t->normed1, t->rstd1, true, R, C);
    else
        sf_rows_add(at->dx, dbranch, R * Cp);
}

/* Like forward: rows are projected back as soon as no later query reaches them. */
static void block_backward_nearby(const block_rows *all) {
    const sf_reach *reach = all->job->plan->reach;
    size_t cleared = 0, projected = 0;
    for (size_t first = 0; first < all->R && !sf_stop_asked(all->job->stop); first += SF_GROUP_ROWS, reach++) {
        const block_rows at = stretch_of(all, first);
        const size_t end = first + at.R;
        join_and_transform_backward(&at);
        clear_keys(all, cleared, reach->ahead - cleared);
        cleared = reach->ahead;
        attend_stretch(all, &at, sf_kept_backward);
        const size_t final = end == all->R ? end : sf_smaller(end, reach[1].behind);
        for (; projected + SF_GROUP_ROWS <= final || (final == all->R && projected < final);
             projected += SF_GROUP_ROWS) {
            const block_rows done = stretch_of(all, projected);
            project_backward(&done);
        }
    }
}

static void block_backward(const block_rows *all) {
    const sf_cpu_plan *plan = all->job->plan;
    if (plan->reach != NULL) {
        block_backward_nearby(all);
        return;
    }
    by_stretches(all, join_and_transform_backward);
    clear_keys(all, 0, plan->model->shape.T);
    attend(all, kernels_of(all->job).backward);
    by_stretches(all, project_backward);
}

static void disturb(const sf_job *job) {
    const size_t T = job->plan->model->shape.T, C = job->plan->model->shape.C, Cp = job->plan->rows.Cp;
    for (size_t n = 0; n < job->n; n++) {
        const sf_index index = sf_moment_index(job->moment, SF_EMBEDDING_NOISE, 0, 0, job->first + n);
        for (size_t t = 0; t < T; t++)
            for (size_t c = 0; c < C; c++)
                job->work->x[(n * T + t) * Cp + c] += (float)(job->moment->noise * sf_noise_at(&index, t, c, C));
    }
}

static void embed(const sf_job *job) {
    const sf_cpu_plan *plan = job->plan;
    const size_t T = plan->model->shape.T, Cp = plan->rows.Cp;
    const float *table = job->params + sf_model_embedding(plan->model)->offset;
    for (size_t r = 0; r < job->n * T; r++) {
        float *x = job->work->x + r * Cp;
        memcpy(x, plan->positions + r % T * Cp, Cp * sizeof *x);
        sf_add_scaled(x, plan->embedding_scale, table + (size_t)job->tokens[r] * Cp, Cp);
    }
    if (job->moment->noise > 0) disturb(job);
    const sf_drop_mask mask = mask_of(job);
    if (mask.threshold == 0) return;
    const block_rows at = rows_of_block(job, 0);
    draw(job->work->kept_embedding, &at, SF_DROP_EMBEDDING, plan->model->shape.C);
    sf_rows_drop(job->work->x, false, job->work->x, mask, job->work->kept_embedding, job->n * T, plan->model->shape.C);
}

static void embed_backward(const sf_job *job) {
    const sf_cpu_plan *plan = job->plan;
    const size_t T = plan->model->shape.T, Cp = plan->rows.Cp;
    float *table = job->gradient + sf_model_embedding(plan->model)->offset;
    sf_rows_drop(job->work->dx, false, job->work->dx, mask_of(job), job->work->kept_embedding, job->n * T,
                 plan->model->shape.C);
    for (size_t r = 0; r < job->n * T; r++)
        sf_add_scaled(table + (size_t)job->tokens[r] * Cp, plan->embedding_scale, job->work->dx + r * Cp, Cp);
}

static void classify(const sf_job *job) {
    if (job->plan->model->shape.readout == SF_READ_EACH)
        sf_classify_each(job);
    else
        for (size_t n = 0; n < job->n; n++) sf_classify(job, n);
}

static void run(const sf_job *job) {
    const size_t L = job->plan->model->shape.L;
    sf_gemm_begin();
    embed(job);
    for (size_t block = 0; block < L && !sf_stop_asked(job->stop); block++) {
        const block_rows at = rows_of_block(job, block);
        block_forward(&at);
    }
    /* The backward pass needs a complete forward pass: keys that were never chosen have no trace. */
    const bool complete = !sf_stop_asked(job->stop);
    if (complete) classify(job);
    for (size_t block = L; job->gradient != NULL && complete && block-- > 0;) {
        const block_rows at = rows_of_block(job, block);
        block_backward(&at);
    }
    if (job->gradient != NULL && complete) embed_backward(job);
    sf_gemm_end();
}

/* All queries of one head of every sequence. */
static void attend_head(const block_rows *all, size_t h, void (*kernel)(const sf_head *head)) {
    for (size_t n = 0; n < all->job->n && !sf_stop_asked(all->job->stop); n++) {
        const sf_head head = head_of(all, n, h, 0, all->job->plan->model->shape.T);
        kernel(&head);
    }
}

static void step(const sf_job *job, sf_step step, size_t block, size_t head) {
    const sf_attention_kernels kernels = kernels_of(job);
    const bool joint_weights = job->joint->matrices != NULL;
    const block_rows at = rows_of_block(job, block);
    sf_gemm_begin();
    switch (step) {
    case SF_STEP_EMBED:
        embed(job);
        break;
    case SF_STEP_PROJECT:
        by_stretches(&at, project);
        break;
    case SF_STEP_SCORE:
        attend_head(&at, head, sf_score_for_all);
        break;
    case SF_STEP_LIST:
        attend_head(&at, head, sf_matrix_list);
        break;
    case SF_STEP_ATTEND:
        attend_head(&at, head, joint_weights ? sf_matrix_mix : kernels.forward);
        break;
    case SF_STEP_JOIN:
        by_stretches(&at, join_and_transform);
        if (job->observer != NULL && !sf_stop_asked(job->stop)) show(&at);
        break;
    case SF_STEP_CLASSIFY:
        classify(job);
        break;
    case SF_STEP_JOIN_BACK:
        by_stretches(&at, join_and_transform_backward);
        clear_keys(&at, 0, job->plan->model->shape.T);
        break;
    case SF_STEP_SLOPES:
        attend_head(&at, head, sf_matrix_slopes);
        break;
    case SF_STEP_ATTEND_BACK:
        attend_head(&at, head, joint_weights ? sf_matrix_finish : kernels.backward);
        break;
    case SF_STEP_PROJECT_BACK:
        by_stretches(&at, project_backward);
        break;
    case SF_STEP_EMBED_BACK:
        embed_backward(job);
        break;
    }
    sf_gemm_end();
}

static void help(sf_offer *offer, const sf_workspace *mine) {
    sf_gemm_begin();
    offer->take_parts(offer, mine);
    sf_gemm_end();
}

double ISA(sf_peak_work)(size_t rounds);

const sf_cpu_kernels ISA(sf_cpu_kernels) = {
    .name = SF_ISA_NAME,
    .pack = sf_pack_block,
    .pack_head = sf_pack_head,
    .run = run,
    .step = step,
    .help = help,
    .add = sf_rows_add,
    .peak_work = ISA(sf_peak_work),
    .prepared_size = sf_prepared_size,
    .attend = sf_lone_forward,
    .attend_backward = sf_lone_backward,
    .select = sf_select,
};
