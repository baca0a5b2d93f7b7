/* Any kept set under any weighting. Scores of all keys are computed only for selectors that choose by score; everything
 * after the selection touches the kept keys alone. Softmax and top-k have fast paths, all else goes through the vtables
 * of the attention room in double. */
#include "kernels/cpu/attention.h"
#include "kernels/cpu/simd.h"

typedef struct kept_row { /* one query's part of the trace */
    const uint32_t *keys;
    float *weights;
    double *scores; /* NULL under softmax */
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
        .scores = head->trace->kept_scores != NULL ? head->trace->kept_scores + at : NULL,
        .count = plan->pattern.offsets[query + 1] - begin,
    };
}

typedef struct best_keys { /* the greatest so far, descending; of equal ones the lower index first */
    float scores[SF_FAST_TOPK_MOST];
    uint32_t keys[SF_FAST_TOPK_MOST];
    size_t found;
} best_keys;

INLINE void offer(best_keys *best, size_t K, float score, uint32_t key) {
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
    const size_t whole = T / VL * VL;
    vf maxima = splat(-INFINITY);
    for (size_t j = 0; j < whole; j += VL) maxima = max_of(splat(sign) * load(scores + j), maxima);
    float bound = max_lanes(maxima);
    for (size_t k = 1; k < K; k++) { /* equal maxima go together, which only lowers the bound */
        maxima = if_less(maxima, splat(bound), maxima, splat(-INFINITY));
        bound = max_lanes(maxima);
    }
    return bound;
}

/* The K greatest of sign * scores, ties to the lower index, in ascending order of index. Only what is not below a
 * bound, a few more than K, is looked at one by one. */
static void select_greatest(uint32_t *keys, const float *scores, float sign, size_t T, size_t K) {
    best_keys best = {0};
    const float bound = K <= VL && T >= 2 * VL ? lower_bound(scores, sign, T, K) : -INFINITY;
    for (size_t j = 0; j < T; j += VL) {
        uint32_t candidates = lanes_from(splat(sign) * load(scores + j), bound);
        if (T - j < VL) candidates &= (UINT32_C(1) << (T - j)) - 1;
        for (; candidates != 0; candidates &= candidates - 1) {
            const uint32_t key = (uint32_t)j + (uint32_t)__builtin_ctz(candidates);
            offer(&best, K, sign * scores[key], key);
        }
    }
    for (uint32_t j = 0; best.found < K && j < T; j++) /* NaN is not above anything: the lowest indices make up */
        if (!(sign * scores[j] >= bound)) offer(&best, K, -INFINITY, j);
    for (size_t i = 0; i < K; i++) { /* insertion sort by index */
        size_t place = i;
        for (; place > 0 && keys[place - 1] > best.keys[i]; place--) keys[place] = keys[place - 1];
        keys[place] = best.keys[i];
    }
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

/* Selects by score, a tile of queries at a time; kept scores go to trace->weights for now. */
static void select_by_score(const sf_head *head) {
    const sf_cpu_plan *plan = head->job->plan;
    const sf_workspace *work = head->job->work;
    const sf_attention *attention = &plan->model->shape.attention;
    const size_t T = plan->model->shape.T, Cp = plan->rows.Cp, Tp = plan->rows.Tp;
    const size_t K = plan->pattern.offsets[1];
    const bool fast = K <= SF_FAST_TOPK_MOST &&
                      (attention->selector == &sf_selector_topk || attention->selector == &sf_selector_bottomk);
    const float sign = attention->selector == &sf_selector_bottomk ? -1.0F : 1.0F;
    sf_transpose(work->keys_t, Tp, Tp, plan->score_scale, head->k, head->stride, T, Cp);
    for (size_t first = 0; first < T; first += SF_QUERY_TILE) {
        const size_t rows = T - first < SF_QUERY_TILE ? T - first : SF_QUERY_TILE;
        sf_gemm(work->tile, Tp, (sf_left){head->q + first * head->stride, head->stride, 1},
                (sf_right){work->keys_t, Tp}, NULL, false, rows, Tp, Cp);
        for (size_t i = 0; i < rows; i++) {
            const float *scores = work->tile + i * Tp;
            uint32_t *keys = selected_keys(head, first + i);
            if (fast)
                select_greatest(keys, scores, sign, T, K);
            else
                select_generic(keys, head, scores, first + i);
            const kept_row row = row_of(head, first + i);
            for (size_t n = 0; n < K; n++) row.weights[n] = scores[keys[n]];
        }
    }
}

static void score_kept(const kept_row *row, const sf_head *head, size_t query) {
    const size_t Cp = head->job->plan->rows.Cp;
    const float *q = head->q + query * head->stride;
    for (size_t n = 0; n < row->count; n++)
        row->weights[n] = head->job->plan->score_scale * sf_dot(q, head->k + row->keys[n] * head->stride, Cp);
}

/* Kept scores, held in weights, become weights. */
static void weigh(const kept_row *row, const sf_head *head) {
    const sf_workspace *work = head->job->work;
    if (row->scores == NULL) {
        float largest = row->weights[0], total = 0;
        for (size_t n = 1; n < row->count; n++) largest = row->weights[n] > largest ? row->weights[n] : largest;
        for (size_t start = 0; start < row->count; start += VL) {
            const size_t now = row->count - start < VL ? row->count - start : VL;
            float lanes[VL] = {0};
            memcpy(lanes, row->weights + start, now * sizeof *lanes);
            store(lanes, exp_of(load(lanes) - splat(largest)));
            memcpy(row->weights + start, lanes, now * sizeof *lanes);
        }
        for (size_t n = 0; n < row->count; n++) total += row->weights[n];
        const float inverse = 1.0F / total;
        for (size_t n = 0; n < row->count; n++) row->weights[n] *= inverse;
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

/* Dropout factors of the kept weights; all 1 without dropout. */
static const float *factors_of(const kept_row *row, const sf_head *head, size_t query) {
    float *factors = head->job->work->factors;
    const size_t T = head->job->plan->model->shape.T;
    if (head->drop.mask.threshold > 0)
        sf_keep_factors_of(factors, head->drop.mask, &head->drop.index, query, T, row->keys, row->count);
    else
        for (size_t n = 0; n < row->count; n++) factors[n] = 1.0F;
    return factors;
}

void sf_kept_forward(const sf_head *head) {
    const sf_cpu_plan *plan = head->job->plan;
    const sf_selects_by selects_by = plan->model->shape.attention.selector->selects_by;
    const size_t T = plan->model->shape.T, Cp = plan->rows.Cp;
    if (selects_by == SF_BY_SCORE) select_by_score(head);
    for (size_t i = 0; i < T; i++) {
        if (selects_by == SF_BY_CHANCE) select_generic(selected_keys(head, i), head, NULL, i);
        const kept_row row = row_of(head, i);
        if (selects_by != SF_BY_SCORE) score_kept(&row, head, i);
        weigh(&row, head);
        const float *factors = factors_of(&row, head, i);
        float *context = head->context + i * head->context_stride;
        memset(context, 0, Cp * sizeof *context);
        for (size_t n = 0; n < row.count; n++)
            sf_add_scaled(context, factors[n] * row.weights[n], head->v + row.keys[n] * head->stride, Cp);
    }
}

void sf_kept_backward(const sf_head *head) {
    const sf_cpu_plan *plan = head->job->plan;
    const size_t T = plan->model->shape.T, Cp = plan->rows.Cp;
    float *drow = head->job->work->drow;
    for (size_t j = 0; j < T; j++) {
        memset(head->dk + j * head->stride, 0, Cp * sizeof(float));
        memset(head->dv + j * head->stride, 0, Cp * sizeof(float));
    }
    for (size_t i = 0; i < T; i++) {
        const kept_row row = row_of(head, i);
        const float *factors = factors_of(&row, head, i);
        const float *dcontext = head->dcontext + i * head->context_stride, *q = head->q + i * head->stride;
        float *dq = head->dq + i * head->stride;
        for (size_t n = 0; n < row.count; n++) {
            const size_t at = row.keys[n] * head->stride;
            drow[n] = factors[n] * sf_dot(dcontext, head->v + at, Cp);
            sf_add_scaled(head->dv + at, factors[n] * row.weights[n], dcontext, Cp);
        }
        weigh_backward(drow, &row, head);
        memset(dq, 0, Cp * sizeof *dq);
        for (size_t n = 0; n < row.count; n++) {
            const size_t at = row.keys[n] * head->stride;
            const float slope = plan->score_scale * drow[n];
            sf_add_scaled(dq, slope, head->k + at, Cp);
            sf_add_scaled(head->dk + at, slope, q, Cp);
        }
    }
}
