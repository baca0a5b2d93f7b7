#include "kernels/reference/attention.h"

#include <math.h>
#include <string.h>

#include "base/sizes.h"

#define TAKE(pointer, count) (pointer) = sf_arena_take(arena, (count), sizeof *(pointer))

void sf_ref_block_lay_out(sf_ref_block *b, sf_arena *arena, const sf_shape *s) {
    const size_t THD = s->T * s->H * s->D, HTT = s->H * s->T * s->T;
    TAKE(b->q, THD);
    TAKE(b->k, THD);
    TAKE(b->v, THD);
    TAKE(b->turned_q, THD);
    TAKE(b->turned_k, THD);
    TAKE(b->plain_scores, HTT);
    TAKE(b->scores, HTT);
    TAKE(b->kept, HTT);
    TAKE(b->weights, HTT);
    TAKE(b->context, THD);
}

void sf_ref_attention_lay_out(sf_ref_attention *a, sf_arena *arena, const sf_shape *s) {
    const size_t T = s->T, THD = T * s->H * s->D;
    TAKE(a->dq, THD);
    TAKE(a->dk, THD);
    TAKE(a->dv, THD);
    TAKE(a->dcontext, THD);
    TAKE(a->dscores, T * T);
    for (size_t i = 0; i < 4; i++) TAKE(a->packed[i], T * T);
    TAKE(a->steps, (sf_attention_score_steps(&s->attention) + 1) * T);
    TAKE(a->turning, (SF_MOST_TRANSFORMS + 2) * s->D);
    TAKE(a->matrix_scratch, sf_attention_matrix_scratch(&s->attention, T));
    TAKE(a->offsets, T + 1);
    TAKE(a->keys, T * T + T);
    TAKE(a->scratch, sf_head_scratch_size(&s->attention, T, s->D, s->H));
}

typedef struct head_at { /* one head of a block */
    sf_ref_attention *a;
    const sf_shape *shape;
    const sf_ref_location *at;
    size_t head;
    const double *q, *k, *v; /* [T,D], H * D apart; q and k turned */
    sf_index drop_index;
} head_at;

static head_at head_of(sf_ref_attention *a, const sf_ref_block *b, const sf_shape *s, const sf_ref_location *at,
                       size_t h) {
    return (head_at){.a = a,
                     .shape = s,
                     .at = at,
                     .head = h,
                     .q = b->turned_q + h * s->D,
                     .k = b->turned_k + h * s->D,
                     .v = b->v + h * s->D,
                     .drop_index = sf_ref_index_at(at, SF_DROP_WEIGHTS, h)};
}

static sf_head_input input_of(const head_at *h) {
    const sf_shape *s = h->shape;
    return (sf_head_input){.T = s->T,
                           .D = s->D,
                           .block = h->at->block,
                           .head = h->head,
                           .heads = s->H,
                           .queries = h->q,
                           .keys = h->k,
                           .stride = s->H * s->D,
                           .score_scale = s->inverse_temperature / sqrt((double)s->D)};
}

static double dot(const double *x, const double *y, size_t D) {
    double sum = 0;
    for (size_t c = 0; c < D; c++) sum += x[c] * y[c];
    return sum;
}

static double scale_of(const sf_shape *s) {
    return s->inverse_temperature / sqrt((double)s->D);
}

static double factor_of(const head_at *h, size_t i, size_t j) {
    return h->at->rate > 0 ? sf_ref_keep_factor(h->at->rate, &h->drop_index, i, j, h->shape->T) : 1;
}

/* Every key up to T: a transform sees those that are visible, from the first on. */
static sf_scored_keys visible_keys(const head_at *h, size_t i) {
    uint32_t *all = h->a->keys + h->shape->T * h->shape->T;
    for (size_t j = 0; j < h->shape->T; j++) all[j] = (uint32_t)j;
    return (sf_scored_keys){.query = i,
                            .count = sf_attention_visible(&h->shape->attention, i, h->shape->T),
                            .T = h->shape->T,
                            .keys = all,
                            .head = h->head,
                            .heads = h->shape->H};
}

/* Scores of a query with all keys it sees, 0 for the others, before and after the score transforms. */
static void score(double *plain /* [T] */, double *scores /* [T] */, const head_at *h, size_t i) {
    const size_t T = h->shape->T, D = h->shape->D, stride = h->shape->H * D;
    const sf_scored_keys row = visible_keys(h, i);
    memset(plain, 0, T * sizeof *plain);
    memset(scores, 0, T * sizeof *scores);
    for (size_t j = 0; j < row.count; j++)
        h->a->steps[j] = plain[j] = scale_of(h->shape) * dot(h->q + i * stride, h->k + j * stride, D);
    sf_attention_transform_scores(h->a->steps, &h->shape->attention, &row);
    memcpy(scores, h->a->steps + sf_attention_score_steps(&h->shape->attention) * row.count,
           row.count * sizeof *scores);
}

static size_t keep_given(uint32_t *keys, const bool *kept /* [T] */, size_t T) {
    size_t count = 0;
    for (size_t j = 0; j < T; j++)
        if (kept[j]) keys[count++] = (uint32_t)j;
    return count;
}

/* The kept keys of all queries go to a->keys, their scores to a->packed[0]. */
static void select_keys(const head_at *h, const double *scores /* [T,T] */, const bool *given /* [T,T] or NULL */) {
    sf_ref_attention *a = h->a;
    const size_t T = h->shape->T;
    const sf_index key_index = sf_ref_index_at(h->at, sf_moment_random_keys(h->at->moment), h->head);
    sf_head_state state = {.input = input_of(h), .scratch = a->scratch};
    sf_head_prepare(&state, &h->shape->attention, T, key_index);
    a->offsets[0] = 0;
    for (size_t i = 0; i < T; i++) {
        uint32_t *keys = a->keys + a->offsets[i];
        sf_draws draws = sf_query_draws(key_index, i);
        const size_t count =
            given != NULL ? keep_given(keys, given + i * T, T)
                          : sf_attention_keep_in(keys, &h->shape->attention, &state, i, T, scores + i * T, &draws);
        a->offsets[i + 1] = a->offsets[i] + count;
        for (size_t n = 0; n < count; n++) a->packed[0][a->offsets[i] + n] = scores[i * T + keys[n]];
    }
}

static sf_weighing_matrix matrix_of(const sf_ref_attention *a, size_t T) {
    return (sf_weighing_matrix){.T = T, .offsets = a->offsets, .keys = a->keys, .scratch = a->matrix_scratch};
}

/* a->packed[0] to a->packed[1] */
static void weigh(const head_at *h) {
    sf_ref_attention *a = h->a;
    const sf_attention *attention = &h->shape->attention;
    const size_t T = h->shape->T;
    sf_weighing_matrix matrix = matrix_of(a, T);
    if (sf_attention_weighs_matrix(attention)) {
        sf_attention_weigh_matrix(a->packed[1], attention, a->packed[0], &matrix);
        return;
    }
    for (size_t i = 0; i < T; i++)
        sf_attention_weigh(a->packed[1] + a->offsets[i], attention, a->packed[0] + a->offsets[i],
                           a->offsets[i + 1] - a->offsets[i], sf_attention_visible(attention, i, T));
}

static void attend_head(const head_at *h, sf_ref_block *b, const bool *given /* [T,T] or NULL */) {
    const sf_ref_attention *a = h->a;
    const size_t T = h->shape->T, D = h->shape->D, stride = h->shape->H * D, first = h->head * T * T;
    for (size_t i = 0; i < T; i++) score(b->plain_scores + first + i * T, b->scores + first + i * T, h, i);
    select_keys(h, b->scores + first, given);
    weigh(h);
    memset(b->kept + first, 0, T * T * sizeof *b->kept);
    memset(b->weights + first, 0, T * T * sizeof *b->weights);
    for (size_t i = 0; i < T; i++)
        for (size_t n = a->offsets[i]; n < a->offsets[i + 1]; n++) {
            const size_t j = a->keys[n];
            b->kept[first + i * T + j] = true;
            b->weights[first + i * T + j] = a->packed[1][n];
            for (size_t c = 0; c < D; c++)
                b->context[i * stride + h->head * D + c] += factor_of(h, i, j) * a->packed[1][n] * h->v[j * stride + c];
        }
}

static void turn(double *rows, const double *from, const head_at *h, bool are_keys) {
    const sf_head_input input = input_of(h);
    const size_t T = h->shape->T, D = h->shape->D, stride = h->shape->H * D;
    for (size_t i = 0; i < T; i++) memcpy(rows + i * stride, from + i * stride, D * sizeof *rows);
    sf_attention_turn(rows, &h->shape->attention, &input, are_keys, h->a->turning);
}

void sf_ref_attend(sf_ref_attention *a, sf_ref_block *b, const sf_shape *s, const sf_ref_location *at,
                   const bool *given) {
    memset(b->context, 0, s->T * s->H * s->D * sizeof *b->context);
    for (size_t n = 0; n < s->H; n++) {
        const head_at h = head_of(a, b, s, at, n);
        const size_t slot = (at->sample * s->L + at->block) * s->H + n;
        turn(b->turned_q + n * s->D, b->q + n * s->D, &h, false);
        turn(b->turned_k + n * s->D, b->k + n * s->D, &h, true);
        attend_head(&h, b, given != NULL ? given + slot * s->T * s->T : NULL);
    }
}

/* The kept keys, their scores, weights and the gradients of these, from the trace; dv. */
static void values_backward(const head_at *h, const sf_ref_block *b) {
    sf_ref_attention *a = h->a;
    const size_t T = h->shape->T, D = h->shape->D, stride = h->shape->H * D, first = h->head * T * T;
    size_t n = 0;
    for (size_t i = 0; i < T; i++) {
        const double *dcontext = a->dcontext + i * stride + h->head * D;
        a->offsets[i] = n;
        for (size_t j = 0; j < T; j++) {
            const size_t at = first + i * T + j;
            if (!b->kept[at]) continue;
            const double factor = factor_of(h, i, j);
            for (size_t c = 0; c < D; c++) a->dv[j * stride + h->head * D + c] += factor * b->weights[at] * dcontext[c];
            a->keys[n] = (uint32_t)j;
            a->packed[0][n] = b->scores[at];
            a->packed[1][n] = b->weights[at];
            a->packed[2][n++] = factor * dot(dcontext, h->v + j * stride, D);
        }
    }
    a->offsets[T] = n;
}

/* From the gradients of the weights to those of the scores, a->packed[3]. */
static void weigh_backward(const head_at *h) {
    sf_ref_attention *a = h->a;
    const sf_attention *attention = &h->shape->attention;
    const size_t T = h->shape->T;
    double *const *p = a->packed;
    sf_weighing_matrix matrix = matrix_of(a, T);
    if (sf_attention_weighs_matrix(attention)) {
        sf_attention_weigh_matrix(p[1], attention, p[0], &matrix); /* another head may have used the scratch */
        sf_attention_weigh_matrix_backward(p[3], attention, p[2], p[1], p[0], &matrix);
        return;
    }
    for (size_t i = 0; i < T; i++) {
        const size_t at = a->offsets[i];
        sf_attention_weigh_backward(p[3] + at, attention, p[2] + at, p[1] + at, p[0] + at, a->offsets[i + 1] - at,
                                    sf_attention_visible(attention, i, T));
    }
}

/* As if the weights had been the softmax over all visible keys: dscores of one query. */
static void straight_through(double *dscores /* [T] */, const head_at *h, const double *scores /* [T] */, size_t i) {
    const sf_ref_attention *a = h->a;
    const size_t D = h->shape->D, stride = h->shape->H * D;
    const sf_attention *attention = &h->shape->attention;
    const size_t visible = sf_attention_visible(attention, i, h->shape->T);
    sf_attention_weigh(a->packed[1], attention, scores, visible, visible);
    for (size_t j = 0; j < visible; j++)
        a->packed[2][j] = factor_of(h, i, j) * dot(a->dcontext + i * stride + h->head * D, h->v + j * stride, D);
    sf_attention_weigh_backward(dscores, attention, a->packed[2], a->packed[1], scores, visible, visible);
}

/* The gradients of all scores, 0 where there are none, before the score transforms. */
static void scores_backward(const head_at *h, const sf_ref_block *b) {
    sf_ref_attention *a = h->a;
    const size_t T = h->shape->T;
    memset(a->dscores, 0, T * T * sizeof *a->dscores);
    for (size_t i = 0; i < T && !h->shape->attention.straight_through; i++)
        for (size_t n = a->offsets[i]; n < a->offsets[i + 1]; n++) a->dscores[i * T + a->keys[n]] = a->packed[3][n];
    for (size_t i = 0; i < T; i++) {
        const size_t at = (h->head * T + i) * T;
        if (h->shape->attention.straight_through) straight_through(a->dscores + i * T, h, b->scores + at, i);
        const sf_scored_keys row = visible_keys(h, i);
        memcpy(a->steps, b->plain_scores + at, row.count * sizeof *a->steps);
        sf_attention_transform_scores(a->steps, &h->shape->attention, &row);
        sf_attention_transform_scores_backward(a->dscores + i * T, a->steps, &h->shape->attention, &row);
    }
}

static void products_backward(const head_at *h) {
    const sf_ref_attention *a = h->a;
    const size_t T = h->shape->T, D = h->shape->D, stride = h->shape->H * D, own = h->head * D;
    const double scale = scale_of(h->shape);
    for (size_t i = 0; i < T; i++)
        for (size_t j = 0; j < T; j++) {
            const double slope = scale * a->dscores[i * T + j];
            if (slope == 0) continue;
            for (size_t c = 0; c < D; c++) {
                a->dq[i * stride + own + c] += slope * h->k[j * stride + c];
                a->dk[j * stride + own + c] += slope * h->q[i * stride + c];
            }
        }
}

void sf_ref_attend_backward(sf_ref_attention *a, const sf_ref_block *b, const sf_shape *s, const sf_ref_location *at) {
    const size_t THD = s->T * s->H * s->D;
    memset(a->dq, 0, THD * sizeof *a->dq);
    memset(a->dk, 0, THD * sizeof *a->dk);
    memset(a->dv, 0, THD * sizeof *a->dv);
    for (size_t n = 0; n < s->H; n++) {
        const head_at h = head_of(a, b, s, at, n);
        const sf_head_input input = input_of(&h);
        values_backward(&h, b);
        weigh_backward(&h);
        scores_backward(&h, b);
        products_backward(&h);
        sf_attention_turn_backward(a->dq + n * s->D, b->q + n * s->D, &s->attention, &input, false, a->turning);
        sf_attention_turn_backward(a->dk + n * s->D, b->k + n * s->D, &s->attention, &input, true, a->turning);
    }
}
