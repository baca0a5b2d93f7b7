/* Any kept set under any weighting. Scores of all keys are computed only for selectors that choose by score; everything
 * after the selection touches only the kept keys. Softmax and top-k have fast paths; everything else goes through the
 * vtables of attention/, in double. */
#include "kernels/cpu/attention.h"

#include "attention/room.h"
#include "kernels/cpu/kept_row.h"
#include "kernels/cpu/selection.h"

static size_t kept_total(const sf_cpu_plan *plan) {
    return plan->pattern.offsets[plan->model->shape.T];
}

static uint32_t *selected_keys(const sf_head *head, size_t query) {
    const sf_cpu_plan *plan = head->job->plan;
    return head->trace->keys + head->slot * kept_total(plan) + plan->pattern.offsets[query];
}

static uint32_t *count_of(const sf_head *head, size_t query) {
    return head->trace->counts + head->slot * head->job->plan->model->shape.T + query;
}

static kept_row row_of(const sf_head *head, size_t query) {
    const sf_cpu_plan *plan = head->job->plan;
    const size_t begin = plan->pattern.offsets[query], at = head->slot * kept_total(plan) + begin;
    return (kept_row){
        .keys = plan->pattern.keys != NULL ? plan->pattern.keys + begin : selected_keys(head, query),
        .weights = head->trace->weights + at,
        .factors = head->drop.mask.threshold > 0 ? head->trace->factors + at : NULL,
        .scores = head->trace->kept_scores != NULL ? head->trace->kept_scores + at : NULL,
        .count = head->trace->counts != NULL ? *count_of(head, query) : plan->pattern.offsets[query + 1] - begin,
    };
}

static void select_generic(uint32_t *keys, const sf_head *head, const float *scores, size_t query) {
    const sf_cpu_plan *plan = head->job->plan;
    const sf_workspace *work = head->job->work;
    const size_t T = plan->model->shape.T;
    if (scores != NULL)
        for (size_t j = 0; j < T; j++) work->wide[0][j] = scores[j];
    sf_draws draws = sf_query_draws(head->key_index, query);
    const size_t K = sf_attention_keep_in(work->kept, &plan->model->shape.attention, head->state, query, T,
                                          scores != NULL ? work->wide[0] : NULL, &draws);
    memcpy(keys, work->kept, K * sizeof *keys);
    if (head->trace->counts != NULL) *count_of(head, query) = (uint32_t)K;
}

/* Selects by score; kept scores go to trace->weights for now. */
static void select_by_score(const sf_head *head, sf_right keys_t) {
    const sf_cpu_plan *plan = head->job->plan;
    float *tile = head->job->work->tile;
    const sf_attention *attention = &plan->model->shape.attention;
    const size_t T = plan->model->shape.T, Dp = plan->rows.Dp, Tp = plan->rows.Tp;
    const size_t K = plan->pattern.offsets[1];
    const bool greatest = attention->selector == &sf_selector_topk;
    const bool fast = K <= SF_FAST_TOPK_MOST && head->trace->counts == NULL && attention->globals == 0 &&
                      (greatest || attention->selector == &sf_selector_bottomk);
    const size_t first = head->first_query;
    sf_gemm(tile, Tp, sf_upright(head->q + first * head->stride, head->stride), keys_t, NULL, false, head->queries, Tp,
            Dp);
    if (fast) sf_select(selected_keys(head, first), tile, Tp, greatest, head->queries, T, K);
    for (size_t i = 0; i < head->queries; i++) {
        const float *scores = tile + i * Tp;
        if (!fast) select_generic(selected_keys(head, first + i), head, scores, first + i);
        const kept_row row = row_of(head, first + i);
        for (size_t n = 0; n < row.count; n++) row.weights[n] = scores[row.keys[n]];
    }
}

/* VL queries, one per lane, that keep the same number of keys: at most as many as a row has partial sums. */
typedef struct query_lanes {
    vf at[SUM_LANES];
} query_lanes;

/* From VL rows of `count` floats, one after the other; missing values are 0. */
INLINE void load_lanes(query_lanes *lanes, const float *rows /* [VL,count] */, size_t count) {
    for (size_t n = 0; n < SUM_LANES; n += VL) {
        for (size_t i = 0; i < VL; i++)
            lanes->at[n + i] = n < count ? load_within(rows, i * count + n, VL * count) : splat(0.0F);
        if (n < count) transpose_lanes(lanes->at + n);
    }
    for (size_t n = count; n < SUM_LANES; n++) lanes->at[n] = splat(0.0F);
}

/* A store may reach into the next row, whose own stores come after it. */
INLINE void store_lanes(float *rows /* [VL,count] */, const query_lanes *lanes, size_t count) {
    vf squares[SUM_LANES];
    for (size_t n = 0; n < SUM_LANES; n++) squares[n] = lanes->at[n];
    for (size_t n = 0; n < count; n += VL) transpose_lanes(squares + n);
    for (size_t i = 0; i < VL; i++)
        for (size_t n = 0; n < count; n += VL) store_within(rows, i * count + n, VL * count, squares[n + i]);
}

/* As total_of, for every lane. */
INLINE vf totals_of(const query_lanes *sums) {
    vf eight[SUM_LANES / 2];
    for (size_t l = 0; l < SUM_LANES / 2; l++) eight[l] = sums->at[l] + sums->at[l + SUM_LANES / 2];
    return total_of_eight(eight);
}

/* As softmax, for every lane. */
INLINE void softmax_lanes(query_lanes *lanes, size_t count) {
    vf largest = lanes->at[0];
    for (size_t n = 1; n < count; n++) largest = max_of(lanes->at[n], largest);
    for (size_t n = 0; n < count; n += SIDE_BY_SIDE) {
        for (size_t i = 0; i < SIDE_BY_SIDE; i++) lanes->at[n + i] -= largest;
        exp_each_below_zero(lanes->at + n, SIDE_BY_SIDE);
    }
    for (size_t n = count; n < SUM_LANES; n++) lanes->at[n] = splat(0.0F);
    const vf inverse = splat(1.0F) / totals_of(lanes);
    for (size_t n = 0; n < count; n++) lanes->at[n] *= inverse;
}

/* Gradients of the weights become those of the scores. */
INLINE void softmax_lanes_backward(query_lanes *slopes, const query_lanes *weights, float scale, size_t count) {
    query_lanes products = {0};
    for (size_t n = 0; n < count; n++) products.at[n] = multiply_add(weights->at[n], slopes->at[n], splat(0.0F));
    const vf mean = totals_of(&products);
    for (size_t n = 0; n < count; n++) slopes->at[n] = weights->at[n] * (slopes->at[n] - mean) * splat(scale);
}

/* Whether VL queries from `query` on can be computed together, one per lane. */
INLINE bool goes_in_lanes(const sf_head *head, size_t query) {
    const sf_cpu_plan *plan = head->job->plan;
    const size_t *offsets = plan->pattern.offsets + query;
    const size_t count = offsets[1] - offsets[0];
    if (head->trace->kept_scores != NULL || head->trace->counts != NULL ||
        query + VL > head->first_query + head->queries || count > SUM_LANES)
        return false;
    for (size_t i = 2; i <= VL; i++)
        if (offsets[i] - offsets[i - 1] != count) return false;
    return count > 0;
}

/* Kept scores, held in weights, become weights. */
static void weigh(const kept_row *row, const sf_head *head) {
    const sf_workspace *work = head->job->work;
    const sf_shape *s = &head->job->plan->model->shape;
    if (row->scores == NULL) {
        softmax(row->weights, row->count);
        return;
    }
    for (size_t n = 0; n < row->count; n++) row->scores[n] = row->weights[n];
    sf_attention_weigh(work->wide[1], &s->attention, row->scores, row->count, s->T);
    for (size_t n = 0; n < row->count; n++) row->weights[n] = (float)work->wide[1][n];
}

/* drow: gradients of the weights on entry, of the scores on return. */
static void weigh_backward(float *drow, const kept_row *row, const sf_head *head) {
    if (row->scores == NULL) {
        softmax_backward(drow, row->weights, row->count);
        return;
    }
    double *const *wide = head->job->work->wide;
    const sf_shape *s = &head->job->plan->model->shape;
    for (size_t n = 0; n < row->count; n++) {
        wide[1][n] = row->weights[n];
        wide[2][n] = drow[n];
    }
    sf_attention_weigh_backward(wide[3], &s->attention, wide[2], wide[1], row->scores, row->count, s->T);
    for (size_t n = 0; n < row->count; n++) drow[n] = (float)wide[3][n];
}

/* The weights after dropout. */
static const float *dropped(const kept_row *row, const sf_head *head) {
    if (row->factors == NULL) return row->weights;
    float *out = head->job->work->drow;
    for (size_t n = 0; n < row->count; n++) out[n] = row->factors[n] * row->weights[n];
    return out;
}

static void draw_factors(const sf_head *head) {
    const sf_cpu_plan *plan = head->job->plan;
    if (head->drop.mask.threshold == 0) return;
    const size_t T = plan->model->shape.T, *offsets = plan->pattern.offsets;
    float *factors = head->trace->factors + head->slot * kept_total(plan);
    const uint32_t *keys = row_of(head, 0).keys;
    if (head->trace->counts == NULL)
        sf_keep_factors_of(factors, head->drop.mask, &head->drop.index, T, offsets + head->first_query, keys,
                           head->first_query, head->queries);
    for (size_t i = head->first_query; head->trace->counts != NULL && i < head->first_query + head->queries; i++)
        sf_keep_factors_of(factors, head->drop.mask, &head->drop.index, T,
                           (const size_t[]){offsets[i], offsets[i] + *count_of(head, i)}, keys, i, 1);
}

static bool selects_by(const sf_head *head, unsigned what) {
    return (sf_attention_selects_by(&head->job->plan->model->shape.attention) & what) != 0;
}

/* The row of query i, where all queries keep the same number of keys. */
INLINE kept_row nth_row(kept_row first, size_t i) {
    first.keys += i * first.count;
    first.weights += i * first.count;
    if (first.factors != NULL) first.factors += i * first.count;
    return first;
}

/* VL queries side by side; their weights lie one after the other. */
INLINE void attend_in_lanes(const sf_head *head, size_t first, size_t N) {
    const kept_row all = row_of(head, first);
    float mixed[VL * SUM_LANES];
    query_lanes lanes;
    for (size_t i = 0; i < VL && !selects_by(head, SF_BY_SCORE); i++) {
        const kept_row row = nth_row(all, i);
        score_kept(&row, head, first + i, N);
    }
    load_lanes(&lanes, all.weights, all.count);
    softmax_lanes(&lanes, all.count);
    store_lanes(all.weights, &lanes, all.count);
    for (size_t n = 0; n < VL * all.count; n += VL)
        store(mixed + n, all.factors != NULL ? load(all.factors + n) * load(all.weights + n) : load(all.weights + n));
    for (size_t i = 0; i < VL; i++)
        mix(head->context + (first + i) * head->context_stride, head->v, head->stride, nth_row(all, i).keys,
            mixed + i * all.count, all.count, N);
}

INLINE void attend_to_kept(const sf_head *head, size_t N) {
    const size_t end = head->first_query + head->queries;
    for (size_t i = head->first_query, next; i < end && !sf_stop_asked(head->job->stop); i = next) {
        if (goes_in_lanes(head, i)) {
            attend_in_lanes(head, i, N);
            next = i + VL;
            continue;
        }
        const kept_row row = row_of(head, i);
        if (!selects_by(head, SF_BY_SCORE)) score_kept(&row, head, i, N);
        weigh(&row, head);
        mix(head->context + i * head->context_stride, head->v, head->stride, row.keys, dropped(&row, head), row.count,
            N);
        next = i + 1;
    }
}

/* Queries of a head, at most a tile of them. */
static void forward_tile(const sf_head *head, sf_right keys_t) {
    const bool by_score = selects_by(head, SF_BY_SCORE), chooses = selects_by(head, SF_BY_CHANCE | SF_BY_VECTORS);
    const size_t Dp = head->job->plan->rows.Dp, end = head->first_query + head->queries;
    if (by_score) select_by_score(head, keys_t);
    for (size_t i = head->first_query; i < end && chooses && !by_score; i++) {
        if (sf_stop_asked(head->job->stop)) return; /* nothing is chosen for the rest */
        select_generic(selected_keys(head, i), head, NULL, i);
    }
    draw_factors(head);
    if (Dp == COMMON_N)
        attend_to_kept(head, COMMON_N);
    else
        attend_to_kept(head, Dp);
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
        head.queries = end - head.first_query < SF_QUERY_TILE ? end - head.first_query : SF_QUERY_TILE;
        forward_tile(&head, by->keys_t);
    }
}

static void widen(double *out /* [T,D] */, const float *rows, size_t stride, size_t T, size_t D) {
    for (size_t t = 0; t < T; t++)
        for (size_t c = 0; c < D; c++) out[t * D + c] = rows[t * stride + c];
}

/* Vectors and place of a head, for its selector. */
static void open_selection(sf_head_state *out, const sf_head *head) {
    const sf_shape *s = &head->job->plan->model->shape;
    const sf_workspace *work = head->job->work;
    if (selects_by(head, SF_BY_VECTORS | SF_BY_ALL_SCORES)) {
        widen(work->vectors[0], head->q, head->stride, s->T, s->D);
        widen(work->vectors[1], head->k, head->stride, s->T, s->D);
    }
    *out = (sf_head_state){.input = {.D = s->D,
                                     .block = head->block,
                                     .head = head->slot % s->H,
                                     .heads = s->H,
                                     .queries = work->vectors[0],
                                     .keys = work->vectors[1],
                                     .stride = s->D,
                                     .score_scale = head->job->plan->score_scale},
                           .scratch = work->scratch};
}

void sf_prepare_selection(sf_head_state *out, const sf_head *head) {
    const sf_shape *s = &head->job->plan->model->shape;
    const sf_joint *joint = head->job->joint;
    if (joint != NULL && joint->choice_size > 0) { /* prepared with the others of the batch */
        *out = (sf_head_state){.scratch = sf_joint_choice(joint, head->job->plan, head->block, head->slot % s->H,
                                                          head->job->seat + head->slot / s->H)};
        return;
    }
    open_selection(out, head);
    sf_preparation_obey(head->job->stop);
    sf_head_prepare(out, &s->attention, s->T, head->key_index);
    sf_preparation_obey(NULL);
}

void sf_score_for_all(const sf_head *head) {
    const sf_shape *s = &head->job->plan->model->shape;
    const sf_joint *joint = head->job->joint;
    const size_t seat = head->job->seat + head->slot / s->H, plain = s->T - s->attention.globals;
    sf_head_state state;
    open_selection(&state, head);
    sf_preparation_obey(head->job->stop);
    sf_head_score(joint->scores + seat * plain * plain, &state, &s->attention, s->T);
    sf_preparation_obey(NULL);
    state.input.queries = state.input.keys = NULL; /* the place of the next head's */
    joint->inputs[seat] = state.input;
}

void sf_kept_forward(const sf_head *head) {
    sf_head mine = *head;
    sf_head_state state;
    if (sf_attention_needs_head(&head->job->plan->model->shape.attention)) {
        sf_prepare_selection(&state, head);
        mine.state = &state;
    }
    const shared_head task = {.head = &mine,
                              .keys_t = selects_by(head, SF_BY_SCORE) ? sf_scaled_keys(head) : (sf_right){0}};
    sf_share_queries(&mine, &task, forward_parts);
}

void sf_kept_clear(const sf_head *head, size_t first_key, size_t keys) {
    const size_t Dp = head->job->plan->rows.Dp;
    for (size_t j = first_key; j < first_key + keys; j++) {
        for (size_t c = 0; c < Dp; c += VL) {
            store(head->dk + j * head->stride + c, splat(0.0F));
            store(head->dv + j * head->stride + c, splat(0.0F));
        }
    }
}

INLINE void backward_in_lanes(const sf_head *head, size_t first, size_t N) {
    const kept_row all = row_of(head, first);
    float slopes[VL * SUM_LANES];
    for (size_t i = 0; i < VL; i++) {
        const kept_row row = nth_row(all, i);
        values_backward(slopes + i * all.count, &row, head, first + i, N);
    }
    query_lanes weights, lanes;
    load_lanes(&weights, all.weights, all.count);
    load_lanes(&lanes, slopes, all.count);
    softmax_lanes_backward(&lanes, &weights, head->job->plan->score_scale, all.count);
    store_lanes(slopes, &lanes, all.count);
    for (size_t i = 0; i < VL; i++) {
        const kept_row row = nth_row(all, i);
        scores_backward(slopes + i * all.count, &row, head, first + i, N);
    }
}

INLINE void backward_of_kept(const sf_head *head, size_t N) {
    const size_t end = head->first_query + head->queries;
    float *slopes = head->job->work->drow;
    for (size_t i = head->first_query, next; i < end && !sf_stop_asked(head->job->stop); i = next) {
        if (goes_in_lanes(head, i)) {
            backward_in_lanes(head, i, N);
            next = i + VL;
            continue;
        }
        const kept_row row = row_of(head, i);
        values_backward(slopes, &row, head, i, N);
        weigh_backward(slopes, &row, head);
        for (size_t n = 0; n < row.count; n++) slopes[n] *= head->job->plan->score_scale;
        scores_backward(slopes, &row, head, i, N);
        next = i + 1;
    }
}

void sf_kept_backward(const sf_head *head) {
    if (head->job->plan->rows.Dp == COMMON_N)
        backward_of_kept(head, COMMON_N);
    else
        backward_of_kept(head, head->job->plan->rows.Dp);
}
