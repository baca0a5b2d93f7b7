/* Any kept set under any weighting. Scores of all keys are computed only for selectors that choose by score; everything
 * after the selection touches the kept keys alone. Softmax and top-k have fast paths, all else goes through the vtables
 * of the attention room in double. */
#include "kernels/cpu/attention.h"
#include "kernels/cpu/simd.h"

typedef struct kept_row { /* one query's part of the trace */
    const uint32_t *keys;
    float *weights;
    const float *factors; /* what dropout makes of the weights; NULL: it leaves them */
    double *scores;       /* NULL under softmax */
    size_t count;
} kept_row;

static size_t kept_total(const sf_cpu_plan *plan) {
    return plan->pattern.offsets[plan->model->shape.T];
}

static uint32_t *selected_keys(const sf_head *head, size_t query) {
    const sf_cpu_plan *plan = head->job->plan;
    return head->trace->keys + head->slot * kept_total(plan) + plan->pattern.offsets[query];
}

static kept_row row_of(const sf_head *head, size_t query) {
    const sf_cpu_plan *plan = head->job->plan;
    const size_t begin = plan->pattern.offsets[query], at = head->slot * kept_total(plan) + begin;
    return (kept_row){
        .keys = plan->pattern.keys != NULL ? plan->pattern.keys + begin : selected_keys(head, query),
        .weights = head->trace->weights + at,
        .factors = head->drop.mask.threshold > 0 ? head->trace->factors + at : NULL,
        .scores = head->trace->kept_scores != NULL ? head->trace->kept_scores + at : NULL,
        .count = plan->pattern.offsets[query + 1] - begin,
    };
}

typedef struct best_keys { /* the greatest so far, descending; of equal ones the lower index first */
    float scores[SF_FAST_TOPK_MOST];
    uint32_t keys[SF_FAST_TOPK_MOST];
    size_t found;
} best_keys;

INLINE void consider(best_keys *best, size_t K, float score, uint32_t key) {
    if (best->found == K && !(score > best->scores[K - 1])) return;
    size_t place = best->found < K ? best->found++ : K - 1;
    for (; place > 0 && score > best->scores[place - 1]; place--) {
        best->scores[place] = best->scores[place - 1];
        best->keys[place] = best->keys[place - 1];
    }
    best->scores[place] = score;
    best->keys[place] = key;
}

/* A number that at least K of the scores are not below: the K-th greatest of the lanes' maxima. Needs K <= VL. */
INLINE float lower_bound(const float *scores, float sign, size_t T, size_t K) {
    vf maxima[2] = {splat(-INFINITY), splat(-INFINITY)};
    const size_t two = 2 * (size_t)VL;
    for (size_t j = 0; j + two <= T; j += two)
        for (size_t v = 0; v < 2; v++) maxima[v] = max_of(splat(sign) * load(scores + j + v * VL), maxima[v]);
    vf all = max_of(maxima[0], maxima[1]);
    float bound = max_lanes(all);
    for (size_t k = 1; k < K; k++) { /* equal maxima go together, which only lowers the bound */
        all = if_less(all, splat(bound), all, splat(-INFINITY));
        bound = max_lanes(all);
    }
    return bound;
}

INLINE void consider_lanes(best_keys *best, size_t K, const float *scores, float sign, float bound, size_t j,
                           size_t T) {
    uint32_t candidates = lanes_from(splat(sign) * load(scores + j), bound);
    if (T - j < VL) candidates &= (UINT32_C(1) << (T - j)) - 1;
    for (; candidates != 0; candidates &= candidates - 1) {
        const uint32_t key = (uint32_t)j + (uint32_t)__builtin_ctz(candidates);
        consider(best, K, sign * scores[key], key);
    }
}

enum { FEW = 4 * VL }; /* keys whose scores fit into four vectors */

/* The K greatest of at most FEW scores: K times the greatest that is left, without a branch that depends on them. */
INLINE void select_among_few(uint32_t *keys, const float *scores, float sign, size_t T, size_t K) {
    const vf none = splat(-INFINITY);
    vf left[4];
    for (size_t v = 0; v < 4; v++) {
        const size_t real = T > v * VL ? T - v * VL : 0;
        const vf here = real == 0    ? none
                        : real >= VL ? splat(sign) * load(scores + v * VL)
                                     : splat(sign) * load_first(scores + v * VL, real, -sign * INFINITY);
        left[v] = max_of(here, none); /* NaN is above nothing */
    }
    uint64_t free = T == 64 ? UINT64_MAX : (UINT64_C(1) << T) - 1, taken = 0;
    for (size_t k = 0; k < K; k++) {
        const float greatest = max_lanes(max_of(max_of(left[0], left[1]), max_of(left[2], left[3])));
        uint64_t candidates = 0;
        for (size_t v = 0; v < 4; v++) candidates |= (uint64_t)lanes_from(left[v], greatest) << v * VL;
        candidates &= free;
        const uint64_t first = candidates & -candidates;
        free ^= first;
        taken |= first;
        for (size_t v = 0; v < 4; v++) left[v] = if_bits((uint32_t)(first >> v * VL), none, left[v]);
    }
    for (size_t k = 0; k < K; k++, taken &= taken - 1) keys[k] = (uint32_t)__builtin_ctzll(taken);
}

/* The K greatest of sign * scores, ties to the lower index, in ascending order of index. Only what is not below a
 * bound, a few more than K, is looked at one by one. */
INLINE void select_signed(uint32_t *keys, const float *scores, float sign, size_t T, size_t K) {
    enum { STRIDE = 4 * VL };
    if (T <= FEW) {
        select_among_few(keys, scores, sign, T, K);
        return;
    }
    best_keys best = {.found = 0};
    const float bound = K <= VL && T >= (size_t)2 * VL ? lower_bound(scores, sign, T, K) : -INFINITY;
    size_t j = 0;
    for (; j + STRIDE <= T; j += STRIDE) {
        vf greatest = splat(sign) * load(scores + j);
        for (size_t v = 1; v < 4; v++) greatest = max_of(splat(sign) * load(scores + j + v * VL), greatest);
        if (lanes_from(greatest, bound) == 0) continue;
        for (size_t v = 0; v < 4; v++) consider_lanes(&best, K, scores, sign, bound, j + v * VL, T);
    }
    for (; j < T; j += VL) consider_lanes(&best, K, scores, sign, bound, j, T);
    for (uint32_t rest = 0; best.found < K && rest < T; rest++) /* NaN is above nothing: the lowest indices make up */
        if (!(sign * scores[rest] >= bound)) consider(&best, K, -INFINITY, rest);
    for (size_t i = 0; i < K; i++) { /* insertion sort by index */
        size_t place = i;
        for (; place > 0 && keys[place - 1] > best.keys[i]; place--) keys[place] = keys[place - 1];
        keys[place] = best.keys[i];
    }
}

static void select_greatest(uint32_t *keys, const float *scores, size_t T, size_t K) {
    select_signed(keys, scores, 1.0F, T, K);
}

static void select_smallest(uint32_t *keys, const float *scores, size_t T, size_t K) {
    select_signed(keys, scores, -1.0F, T, K);
}

static void select_generic(uint32_t *keys, const sf_head *head, const float *scores, size_t query) {
    const sf_cpu_plan *plan = head->job->plan;
    const sf_workspace *work = head->job->work;
    const size_t T = plan->model->shape.T;
    if (scores != NULL)
        for (size_t j = 0; j < T; j++) work->wide[0][j] = scores[j];
    sf_draws draws = sf_query_draws(head->key_index, query);
    const size_t K = sf_attention_keep(work->kept, &plan->model->shape.attention, query, T, work->wide[0], &draws);
    memcpy(keys, work->kept, K * sizeof *keys);
}

/* Selects by score; kept scores go to trace->weights for now. */
static void select_by_score(const sf_head *head, sf_right keys_t) {
    const sf_cpu_plan *plan = head->job->plan;
    float *tile = head->job->work->tile;
    const sf_attention *attention = &plan->model->shape.attention;
    const size_t T = plan->model->shape.T, Cp = plan->rows.Cp, Tp = plan->rows.Tp;
    const size_t K = plan->pattern.offsets[1];
    const bool fast = K <= SF_FAST_TOPK_MOST &&
                      (attention->selector == &sf_selector_topk || attention->selector == &sf_selector_bottomk);
    const bool greatest = attention->selector == &sf_selector_topk;
    const size_t first = head->first_query;
    sf_gemm(tile, Tp, (sf_left){head->q + first * head->stride, head->stride, 1}, keys_t, NULL, false, head->queries,
            Tp, Cp);
    for (size_t i = 0; i < head->queries; i++) {
        const float *scores = tile + i * Tp;
        uint32_t *keys = selected_keys(head, first + i);
        if (fast)
            (greatest ? select_greatest : select_smallest)(keys, scores, T, K);
        else
            select_generic(keys, head, scores, first + i);
        const kept_row row = row_of(head, first + i);
        for (size_t n = 0; n < K; n++) row.weights[n] = scores[keys[n]];
    }
}

INLINE float dot(const float *a, const float *b, size_t N) {
    vf sum = {0};
#pragma GCC unroll 4
    for (size_t n = 0; n < N; n += VL) sum += load(a + n) * load(b + n);
    return sum_lanes(sum);
}

INLINE void add_scaled(float *y, float factor, const float *x, size_t N) {
#pragma GCC unroll 4
    for (size_t n = 0; n < N; n += VL) store(y + n, load(y + n) + splat(factor) * load(x + n));
}

/* `vectors` vectors of the sum of factors[n] * rows[keys[n]]: a constant where this is inlined. */
INLINE void mix_columns(float *out, const float *rows, size_t stride, const uint32_t *keys, const float *factors,
                        size_t count, size_t vectors) {
    vf sums[4] = {{0}};
    for (size_t n = 0; n < count; n++)
        for (size_t v = 0; v < vectors; v++) sums[v] += splat(factors[n]) * load(rows + keys[n] * stride + v * VL);
    for (size_t v = 0; v < vectors; v++) store(out + v * VL, sums[v]);
}

INLINE void mix(float *out, const float *rows, size_t stride, const uint32_t *keys, const float *factors, size_t count,
                size_t N) {
    const size_t four = 4 * (size_t)VL;
    size_t c = 0;
    for (; c + four <= N; c += four) mix_columns(out + c, rows + c, stride, keys, factors, count, 4);
    for (; c < N; c += VL) mix_columns(out + c, rows + c, stride, keys, factors, count, 1);
}

static void score_kept(const kept_row *row, const sf_head *head, size_t query) {
    const size_t Cp = head->job->plan->rows.Cp;
    const float *q = head->q + query * head->stride;
    for (size_t n = 0; n < row->count; n++)
        row->weights[n] = head->job->plan->score_scale * dot(q, head->k + row->keys[n] * head->stride, Cp);
}

static void softmax(float *weights, size_t count) {
    float largest = weights[0];
    for (size_t n = 1; n < count; n++) largest = weights[n] > largest ? weights[n] : largest;
    vf total = {0};
    for (size_t n = 0; n < count; n += VL) {
        const size_t now = count - n < VL ? count - n : VL;
        const vf weight =
            exp_of((now < VL ? load_first(weights + n, now, -INFINITY) : load(weights + n)) - splat(largest));
        total += weight;
        if (now < VL)
            store_first(weights + n, weight, now);
        else
            store(weights + n, weight);
    }
    const float inverse = 1.0F / sum_lanes(total);
    for (size_t n = 0; n < count; n++) weights[n] *= inverse;
}

/* Kept scores, held in weights, become weights. */
static void weigh(const kept_row *row, const sf_head *head) {
    const sf_workspace *work = head->job->work;
    if (row->scores == NULL) {
        softmax(row->weights, row->count);
        return;
    }
    for (size_t n = 0; n < row->count; n++) row->scores[n] = row->weights[n];
    head->job->plan->model->shape.attention.weighting->weigh(work->wide[1], row->scores, row->count);
    for (size_t n = 0; n < row->count; n++) row->weights[n] = (float)work->wide[1][n];
}

/* drow: gradients of the weights on entry, of the scores on return. */
static void weigh_backward(float *drow, const kept_row *row, const sf_head *head) {
    if (row->scores == NULL) {
        float mean = 0;
        for (size_t n = 0; n < row->count; n++) mean += row->weights[n] * drow[n];
        for (size_t n = 0; n < row->count; n++) drow[n] = row->weights[n] * (drow[n] - mean);
        return;
    }
    double *const *wide = head->job->work->wide;
    for (size_t n = 0; n < row->count; n++) {
        wide[1][n] = row->weights[n];
        wide[2][n] = drow[n];
    }
    head->job->plan->model->shape.attention.weighting->weigh_backward(wide[3], wide[2], wide[1], row->scores,
                                                                      row->count);
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
    sf_keep_factors_of(head->trace->factors + head->slot * kept_total(plan), head->drop.mask, &head->drop.index,
                       plan->model->shape.T, plan->pattern.offsets, row_of(head, 0).keys, head->first_query,
                       head->queries);
}

static sf_selects_by selects_by_of(const sf_head *head) {
    return head->job->plan->model->shape.attention.selector->selects_by;
}

/* Queries of a head, a tile of them at most. */
static void forward_tile(const sf_head *head, sf_right keys_t) {
    const sf_selects_by selects_by = selects_by_of(head);
    const size_t Cp = head->job->plan->rows.Cp, end = head->first_query + head->queries;
    if (selects_by == SF_BY_SCORE) select_by_score(head, keys_t);
    for (size_t i = head->first_query; i < end && selects_by == SF_BY_CHANCE; i++)
        select_generic(selected_keys(head, i), head, NULL, i);
    draw_factors(head);
    for (size_t i = head->first_query; i < end; i++) {
        const kept_row row = row_of(head, i);
        if (selects_by != SF_BY_SCORE) score_kept(&row, head, i);
        weigh(&row, head);
        mix(head->context + i * head->context_stride, head->v, head->stride, row.keys, dropped(&row, head), row.count,
            Cp);
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
        head.queries = end - head.first_query < SF_QUERY_TILE ? end - head.first_query : SF_QUERY_TILE;
        forward_tile(&head, by->keys_t);
    }
}

void sf_kept_forward(const sf_head *head) {
    const shared_head task = {.head = head,
                              .keys_t = selects_by_of(head) == SF_BY_SCORE ? sf_scaled_keys(head) : (sf_right){0}};
    sf_share_queries(head, &task, forward_parts);
}

void sf_kept_clear(const sf_head *head, size_t first_key, size_t keys) {
    const size_t Cp = head->job->plan->rows.Cp;
    for (size_t j = first_key; j < first_key + keys; j++) {
        for (size_t c = 0; c < Cp; c += VL) {
            store(head->dk + j * head->stride + c, splat(0.0F));
            store(head->dv + j * head->stride + c, splat(0.0F));
        }
    }
}

void sf_kept_backward(const sf_head *head) {
    const sf_cpu_plan *plan = head->job->plan;
    const size_t Cp = plan->rows.Cp;
    float *drow = head->job->work->drow;
    for (size_t i = head->first_query; i < head->first_query + head->queries; i++) {
        const kept_row row = row_of(head, i);
        const float *dcontext = head->dcontext + i * head->context_stride, *q = head->q + i * head->stride;
        for (size_t n = 0; n < row.count; n++) {
            const size_t at = row.keys[n] * head->stride;
            const float factor = row.factors != NULL ? row.factors[n] : 1.0F;
            drow[n] = factor * dot(dcontext, head->v + at, Cp);
            add_scaled(head->dv + at, factor * row.weights[n], dcontext, Cp);
        }
        weigh_backward(drow, &row, head);
        for (size_t n = 0; n < row.count; n++) {
            drow[n] *= plan->score_scale;
            add_scaled(head->dk + row.keys[n] * head->stride, drow[n], q, Cp);
        }
        mix(head->dq + i * head->stride, head->k, head->stride, row.keys, drow, row.count, Cp);
    }
}
