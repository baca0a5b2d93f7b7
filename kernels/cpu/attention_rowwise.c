/* Mechanisms whose queries may keep any number of keys, up to all of them: nothing of the size of T x T is stored. The
 * forward pass keeps at most a threshold per query; the backward pass computes scores, kept keys and weights of a query
 * again. Selectors by score, and those that keep every key, take scores from a tile of queries; the others score only
 * what they keep. Softmax is computed in floats, other weightings and score transforms by their vtables, in double. */
#include <assert.h>

#include "base/sizes.h"
#include "kernels/cpu/kept_row.h"

static const sf_attention *attention_of(const sf_head *head) {
    return &head->job->plan->model->shape.attention;
}

static const sf_row_space *space_of(const sf_head *head) {
    return &head->job->work->rowwise;
}

void sf_score_tile(const sf_head *head, sf_right keys_t, size_t first, size_t queries) {
    const size_t Cp = head->job->plan->rows.Cp, Tp = head->job->plan->rows.Tp;
    sf_gemm(head->job->work->tile, Tp, sf_upright(head->q + first * head->stride, head->stride), keys_t, NULL, false,
            queries, Tp, Cp);
}

static sf_scored_keys scored(const sf_head *head, size_t query, const uint32_t *keys, size_t count) {
    const sf_shape *s = &head->job->plan->model->shape;
    return (sf_scored_keys){
        .query = query, .count = count, .T = s->T, .keys = keys, .head = head->slot % s->H, .heads = s->H};
}

/* Scores of listed keys after the score transforms, rounded to float. `raw` may be `out`. */
static void transform(float *out, const float *raw, const sf_head *head, size_t query, const uint32_t *keys,
                      size_t count) {
    const sf_attention *attention = attention_of(head);
    const size_t steps = sf_attention_score_steps(attention);
    double *at = space_of(head)->steps;
    if (steps == 0) {
        if (out != raw) memcpy(out, raw, count * sizeof *out);
        return;
    }
    const sf_scored_keys row = scored(head, query, keys, count);
    for (size_t n = 0; n < count; n++) at[n] = raw[n];
    sf_attention_transform_scores(at, attention, &row);
    for (size_t n = 0; n < count; n++) out[n] = (float)at[steps * count + n];
}

/* Of a selector by score whose kept keys are those above a threshold, in order of score and index. */
static bool has_threshold(const sf_head *head) {
    return head->trace->thresholds != NULL;
}

static sf_threshold *threshold_of(const sf_head *head, size_t query) {
    return head->trace->thresholds + head->slot * head->job->plan->model->shape.T + query;
}

static void save_threshold(const sf_row *row, const sf_head *head, const float *scores /* [visible] */) {
    sf_threshold least = {scores[row->keys[0]], row->keys[0]};
    for (size_t n = 1; n < row->count; n++) {
        const uint32_t key = row->keys[n];
        if (scores[key] <= least.score) least = (sf_threshold){scores[key], key};
    }
    *threshold_of(head, row->query) = least;
}

/* The keys that the forward pass kept. */
static size_t keep_above(uint32_t *keys, const sf_head *head, const float *scores, size_t query, size_t visible) {
    const sf_threshold least = *threshold_of(head, query);
    size_t count = 0;
    for (uint32_t j = 0; j < visible; j++)
        if (scores[j] > least.score || (j <= least.key && scores[j] == least.score)) keys[count++] = j;
    if (count == 0) keys[count++] = least.key; /* NaN */
    return count;
}

static size_t keep(uint32_t *keys, const sf_head *head, const float *scores /* NULL: not by score */, size_t query) {
    const sf_shape *s = &head->job->plan->model->shape;
    double *wide = head->job->work->wide[0];
    const size_t visible = sf_attention_visible(&s->attention, query, s->T);
    for (size_t j = 0; scores != NULL && j < visible; j++) wide[j] = scores[j];
    sf_draws draws = sf_query_draws(head->key_index, query);
    return sf_attention_keep_in(keys, &s->attention, head->state, query, s->T, wide, &draws);
}

/* Kept keys by score, whose scores are known. */
static void select_scored(sf_row *row, const sf_head *head, const float *raw) {
    const sf_shape *s = &head->job->plan->model->shape;
    const sf_row_space *space = space_of(head);
    const bool by_score = (sf_attention_selects_by(&s->attention) & SF_BY_SCORE) != 0;
    const size_t visible = sf_attention_visible(&s->attention, row->query, s->T);
    transform(space->all, raw, head, row->query, head->job->plan->every, visible);
    row->all = space->all;
    if (has_threshold(head) && head->saved)
        row->count = keep_above(row->keys, head, row->all, row->query, visible);
    else
        row->count = keep(row->keys, head, by_score ? row->all : NULL, row->query);
    for (size_t n = 0; n < row->count; n++) row->scores[n] = row->all[row->keys[n]];
    if (has_threshold(head) && !head->saved) save_threshold(row, head, row->all);
}

void sf_row_select(sf_row *row, const sf_head *head, const float *raw) {
    if (raw != NULL) {
        select_scored(row, head, raw);
        return;
    }
    const size_t Cp = head->job->plan->rows.Cp;
    row->all = NULL;
    row->count = keep(row->keys, head, NULL, row->query);
    const kept_row kept = {.keys = row->keys, .weights = row->scores, .count = row->count};
    if (Cp == COMMON_N)
        score_kept(&kept, head, row->query, COMMON_N);
    else
        score_kept(&kept, head, row->query, Cp);
    if (sf_attention_score_steps(attention_of(head)) > 0)
        memcpy(space_of(head)->raw, row->scores, row->count * sizeof *row->scores);
    transform(row->scores, row->scores, head, row->query, row->keys, row->count);
}

void sf_row_factors(sf_row *row, const sf_head *head) {
    if (head->drop.mask.threshold == 0) {
        row->factors = NULL;
        return;
    }
    row->factors = space_of(head)->factors;
    sf_keep_factors_of(row->factors, head->drop.mask, &head->drop.index, head->job->plan->model->shape.T,
                       (const size_t[]){0, row->count}, row->keys, row->query, 1);
}

static bool is_softmax(const sf_head *head) {
    return attention_of(head)->weighting == &sf_weighting_softmax;
}

/* Scores become weights; those of other weightings than softmax also stay in double, in wide[1]. */
static void weigh(const sf_row *row, const sf_head *head) {
    double *const *wide = head->job->work->wide;
    if (is_softmax(head)) {
        memcpy(row->weights, row->scores, row->count * sizeof *row->weights);
        softmax(row->weights, row->count);
        return;
    }
    const size_t visible = sf_attention_visible(attention_of(head), row->query, head->job->plan->model->shape.T);
    for (size_t n = 0; n < row->count; n++) wide[0][n] = row->scores[n];
    sf_attention_weigh(wide[1], attention_of(head), wide[0], row->count, visible);
    for (size_t n = 0; n < row->count; n++) row->weights[n] = (float)wide[1][n];
}

void sf_row_mix(const sf_row *row, const sf_head *head) {
    const size_t Cp = head->job->plan->rows.Cp;
    float *context = head->context + row->query * head->context_stride, *dropped = head->job->work->drow;
    for (size_t n = 0; n < row->count; n++)
        dropped[n] = row->factors != NULL ? row->factors[n] * row->weights[n] : row->weights[n];
    if (Cp == COMMON_N)
        mix(context, head->v, head->stride, row->keys, dropped, row->count, COMMON_N);
    else
        mix(context, head->v, head->stride, row->keys, dropped, row->count, Cp);
}

static sf_row row_at(const sf_head *head, size_t query) {
    const sf_row_space *space = space_of(head);
    return (sf_row){.query = query, .keys = space->keys, .scores = space->scores, .weights = space->weights};
}

/* The row of the tile; NULL where only kept keys are scored. */
static const float *raw_row(const sf_head *head, size_t i) {
    const sf_cpu_plan *plan = head->job->plan;
    return plan->scores_all ? head->job->work->tile + i * plan->rows.Tp : NULL;
}

static void forward_tile(const sf_head *head, sf_right keys_t) {
    if (head->job->plan->scores_all) sf_score_tile(head, keys_t, head->first_query, head->queries);
    for (size_t i = 0; i < head->queries && !sf_stop_asked(head->job->stop); i++) {
        sf_row row = row_at(head, head->first_query + i);
        sf_row_select(&row, head, raw_row(head, i));
        weigh(&row, head);
        sf_row_factors(&row, head);
        sf_row_mix(&row, head);
    }
}

typedef struct shared_head { /* a part of it is a tile of queries */
    const sf_head *head;
    sf_right keys_t;
} shared_head;

static void forward_parts(sf_offer *offer, const sf_workspace *mine) {
    const shared_head *by = offer->task;
    sf_job job = *by->head->job;
    sf_head head = *by->head;
    const size_t end = head.first_query + head.queries;
    job.work = mine;
    head.job = &job;
    for (size_t part; (part = sf_offer_next_part(offer)) < offer->parts;) {
        head.first_query = by->head->first_query + part * SF_QUERY_TILE;
        head.queries = sf_smaller(end - head.first_query, SF_QUERY_TILE);
        forward_tile(&head, by->keys_t);
    }
}

void sf_rowwise_open(sf_opened_head *out, const sf_head *head) {
    out->head = *head;
    if (sf_attention_needs_head(attention_of(head))) {
        sf_prepare_selection(&out->state, head);
        out->head.state = &out->state;
    }
    out->keys_t = head->job->plan->scores_all ? sf_scaled_keys(head) : (sf_right){0};
}

void sf_rowwise_forward(const sf_head *head) {
    sf_opened_head mine;
    sf_rowwise_open(&mine, head);
    const shared_head task = {.head = &mine.head, .keys_t = mine.keys_t};
    sf_share_queries(&mine.head, &task, forward_parts);
}

size_t sf_rowwise_keep(uint32_t *kept /* [2T] */, const sf_opened_head *opened, size_t query) {
    sf_row row = row_at(&opened->head, query);
    row.keys = kept;
    if (opened->head.job->plan->scores_all) sf_score_tile(&opened->head, opened->keys_t, query, 1);
    sf_row_select(&row, &opened->head, raw_row(&opened->head, 0));
    return row.count;
}

void sf_row_values_backward(float *slopes /* [count] */, const sf_row *row, const sf_head *head) {
    const size_t Cp = head->job->plan->rows.Cp;
    const kept_row kept = {.keys = row->keys, .weights = row->weights, .factors = row->factors, .count = row->count};
    if (Cp == COMMON_N)
        values_backward(slopes, &kept, head, row->query, COMMON_N);
    else
        values_backward(slopes, &kept, head, row->query, Cp);
}

static void weigh_backward(float *slopes, const sf_row *row, const sf_head *head) {
    if (is_softmax(head)) {
        softmax_backward(slopes, row->weights, row->count);
        return;
    }
    double *const *wide = head->job->work->wide; /* [0] scores and [1] weights, from weigh() */
    const size_t visible = sf_attention_visible(attention_of(head), row->query, head->job->plan->model->shape.T);
    for (size_t n = 0; n < row->count; n++) wide[2][n] = slopes[n];
    sf_attention_weigh_backward(wide[3], attention_of(head), wide[2], wide[1], wide[0], row->count, visible);
    for (size_t n = 0; n < row->count; n++) slopes[n] = (float)wide[3][n];
}

void sf_row_keys_backward(float *slopes /* [count] */, const sf_row *row, const sf_head *head, const float *raw) {
    const sf_cpu_plan *plan = head->job->plan;
    const size_t Cp = plan->rows.Cp;
    if (sf_attention_score_steps(attention_of(head)) > 0) {
        const sf_scored_keys keys = scored(head, row->query, row->keys, row->count);
        double *steps = space_of(head)->steps, *wide = head->job->work->wide[2];
        for (size_t n = 0; n < row->count; n++) {
            steps[n] = raw[n];
            wide[n] = slopes[n];
        }
        sf_attention_transform_scores(steps, attention_of(head), &keys);
        sf_attention_transform_scores_backward(wide, steps, attention_of(head), &keys);
        for (size_t n = 0; n < row->count; n++) slopes[n] = (float)wide[n];
    }
    for (size_t n = 0; n < row->count; n++) slopes[n] *= plan->score_scale;
    const kept_row kept = {.keys = row->keys, .count = row->count};
    if (Cp == COMMON_N)
        scores_backward(slopes, &kept, head, row->query, COMMON_N);
    else
        scores_backward(slopes, &kept, head, row->query, Cp);
}

/* As if the weights had been the softmax over all visible keys: slopes and list of all of them. */
static void go_straight_through(float *slopes, sf_row *row, const sf_head *head) {
    const sf_shape *s = &head->job->plan->model->shape;
    const size_t Cp = head->job->plan->rows.Cp, visible = sf_attention_visible(&s->attention, row->query, s->T);
    const float *dcontext = head->dcontext + row->query * head->context_stride;
    assert(row->all != NULL); /* the plan scores all keys for it */
    row->count = visible;
    memcpy(row->keys, head->job->plan->every, visible * sizeof *row->keys);
    memcpy(row->weights, row->all, visible * sizeof *row->weights);
    softmax(row->weights, visible);
    sf_row_factors(row, head);
    for (size_t j = 0; j < visible; j++) {
        const float factor = row->factors != NULL ? row->factors[j] : 1.0F;
        slopes[j] = factor * sf_dot(dcontext, head->v + j * head->stride, Cp);
    }
    softmax_backward(slopes, row->weights, visible);
}

/* Scores before the transforms, of the listed keys. */
static const float *listed_raw(const sf_row *row, const sf_head *head, const float *raw) {
    float *out = space_of(head)->raw;
    if (raw != NULL)
        for (size_t n = 0; n < row->count; n++) out[n] = raw[row->keys[n]];
    return out;
}

static void backward_of(const sf_head *head, size_t query, const float *raw) {
    sf_row row = row_at(head, query);
    float *slopes = head->job->work->drow;
    sf_row_select(&row, head, raw);
    weigh(&row, head);
    sf_row_factors(&row, head);
    sf_row_values_backward(slopes, &row, head);
    if (attention_of(head)->straight_through)
        go_straight_through(slopes, &row, head);
    else
        weigh_backward(slopes, &row, head);
    sf_row_keys_backward(slopes, &row, head, listed_raw(&row, head, raw));
}

void sf_rowwise_backward(const sf_head *head) {
    sf_opened_head mine;
    sf_rowwise_open(&mine, head);
    mine.head.saved = true;
    for (size_t i = 0; i < head->queries && !sf_stop_asked(head->job->stop); i++) {
        const size_t in_tile = i % SF_QUERY_TILE;
        if (in_tile == 0 && head->job->plan->scores_all)
            sf_score_tile(&mine.head, mine.keys_t, head->first_query + i, sf_smaller(head->queries - i, SF_QUERY_TILE));
        backward_of(&mine.head, head->first_query + i, raw_row(&mine.head, in_tile));
    }
}
