/* Mechanisms whose queries may keep any number of keys, up to all of them: nothing of the size of T x T is stored. The
 * forward pass keeps at most a threshold per query; the backward pass computes scores, kept keys and weights of a query
 * again. Selectors by score, and those that keep every key, take scores from a tile of queries; the others score only
 * what they keep. Softmax is computed in floats, other weightings and score transforms by their vtables, in double.
 *
 * Workers share the queries of a head in parts of a few. What a part adds to the gradients of keys and values waits for
 * its turn, so that queries are added in ascending order whoever computes them. */
#include <assert.h>

#include "attention/groups.h"
#include "base/sizes.h"
#include "kernels/cpu/kept_row.h"

static const sf_attention *attention_of(const sf_head *head) {
    return &head->job->plan->model->shape.attention;
}

static const sf_row_space *space_of(const sf_head *head) {
    return &head->job->work->rowwise;
}

void sf_score_tile(const sf_head *head, sf_right keys_t, size_t first, size_t queries) {
    const size_t Dp = head->job->plan->rows.Dp, Tp = head->job->plan->rows.Tp;
    sf_gemm(head->job->work->tile, Tp, sf_upright(head->q + first * head->stride, head->stride), keys_t, NULL, false,
            queries, Tp, Dp);
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
    row->all = NULL;
    row->count = keep(row->keys, head, NULL, row->query);
}

/* Where the selector looked at no scores: those of the kept keys. */
static void score_rows(sf_row *rows, size_t count, const sf_head *head) {
    sf_lists_score(rows, count, head);
    if (sf_attention_score_steps(attention_of(head)) == 0) return;
    for (size_t i = 0; i < count; i++) {
        memcpy(rows[i].raw, rows[i].scores, rows[i].count * sizeof *rows[i].raw);
        transform(rows[i].scores, rows[i].raw, head, rows[i].query, rows[i].keys, rows[i].count);
    }
}

void sf_row_score(sf_row *row, const sf_head *head) {
    if (row->all == NULL) score_rows(row, 1, head);
}

enum { DRAWN_WORDS = (65536 + 1024) / 64 + 1 }; /* a bit for every position there may be */

/* The factors of some keys of a query; `kept`: bits of all keys, NULL: not drawn. */
static void take_factors(float *factors, const uint64_t *kept, const sf_head *head, size_t query, const uint32_t *keys,
                         size_t count) {
    const sf_drop_mask mask = head->drop.mask;
    const float scale = mask.scale;
    if (kept == NULL)
        sf_keep_factors_of_row(factors, mask, &head->drop.index, head->job->plan->model->shape.T, keys, count, query);
    for (size_t n = 0; n < count && kept != NULL; n++)
        factors[n] = kept[keys[n] / 64] >> keys[n] % 64 & 1 ? scale : 0.0F;
}

void sf_row_factors(sf_row *row, const sf_head *head) {
    enum { SPARSE = 8 }; /* one key listed of so many, from which on each is drawn by itself */
    const size_t T = head->job->plan->model->shape.T, listed = sf_row_listed(row);
    const size_t before = row->adds_own ? row->own : listed;
    const uint32_t own = (uint32_t)row->query;
    uint64_t bits[DRAWN_WORDS], *kept = NULL;
    if (head->drop.mask.threshold == 0) {
        row->factors = NULL;
        return;
    }
    if (row->count * SPARSE >= T) {
        kept = bits;
        sf_rows_draw(kept, head->drop.mask, &head->drop.index, row->query, 1, T);
    }
    take_factors(row->factors, kept, head, row->query, row->keys, before);
    if (!row->adds_own) return;
    take_factors(row->factors + before, kept, head, row->query, &own, 1);
    take_factors(row->factors + before + 1, kept, head, row->query, row->keys + before, listed - before);
}

static bool is_softmax(const sf_head *head) {
    return attention_of(head)->weighting == &sf_weighting_softmax;
}

/* Scores become weights; those of other weightings than softmax also stay in double. */
static void weigh(const sf_row *row, const sf_head *head) {
    double *scores = head->job->work->wide[0];
    if (is_softmax(head)) {
        softmax(row->weights, row->count); /* which are the scores, in the same place */
        return;
    }
    const size_t visible = sf_attention_visible(attention_of(head), row->query, head->job->plan->model->shape.T);
    for (size_t n = 0; n < row->count; n++) scores[n] = row->scores[n];
    sf_attention_weigh(row->exact, attention_of(head), scores, row->count, visible);
    for (size_t n = 0; n < row->count; n++) row->weights[n] = (float)row->exact[n];
}

/* A row of the tile of scores; NULL where only kept keys are scored. */
static const float *raw_row(const sf_head *head, size_t i) {
    const sf_cpu_plan *plan = head->job->plan;
    return plan->scores_all ? head->job->work->tile + i * plan->rows.Tp : NULL;
}

/* A row whose lists begin at a place of the worker's. */
static sf_row row_at(const sf_head *head, size_t query, size_t at) {
    const sf_row_space *space = space_of(head);
    return (sf_row){.query = query,
                    .keys = space->keys + at,
                    .scores = space->scores + at,
                    .weights = space->weights + at,
                    .factors = space->factors + at,
                    .slopes = space->slopes + at,
                    .raw = space->raw + at,
                    .exact = space->exact + at};
}

/* The lists of the head's queries, one after the other. False: told to stop. */
static bool list_each(sf_row *rows, const sf_head *head) {
    const bool straight = attention_of(head)->straight_through; /* slopes of all keys, later */
    for (size_t i = 0, at = 0; i < head->queries; i++) {
        if (sf_stop_asked(head->job->stop)) return false;
        rows[i] = row_at(head, head->first_query + i, at);
        sf_row_select(&rows[i], head, raw_row(head, i));
        at += sf_list_row(straight ? head->job->plan->model->shape.T : rows[i].count);
    }
    return true;
}

static size_t keys_before(const sf_row *row, size_t key) {
    size_t low = 0, high = row->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (row->keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The same, group by group. */
static bool list_groups(sf_row *rows, const sf_head *head) {
    if (sf_stop_asked(head->job->stop)) return false; /* the selection may not be prepared */
    const sf_query_groups groups = sf_attention_groups(attention_of(head), head->state);
    for (size_t next = 0, i = 0, at = 0; i < head->queries; next++) {
        const size_t query = groups.order[next];
        if (query < head->first_query || query >= head->first_query + head->queries) continue;
        sf_row *row = &rows[i], *before = i > 0 ? row - 1 : NULL;
        *row = row_at(head, query, at);
        if (before != NULL && groups.of_query[before->query] == groups.of_query[query]) {
            row->keys = before->keys;
            row->count = sf_row_listed(before);
        } else {
            row->count = sf_attention_keep_group(row->keys, attention_of(head), head->state, query);
        }
        row->own = keys_before(row, query);
        row->adds_own = sf_attention_adds_own(attention_of(head), row->count) &&
                        (row->own == row->count || row->keys[row->own] != query);
        row->count += row->adds_own;
        at += sf_list_row(row->count);
        i++;
    }
    return true;
}

/* Lists, weights and dropout of the head's queries, at most sf_list_tile. False: told to stop. */
static bool weigh_tile(sf_row *rows, const sf_head *head, sf_right keys_t) {
    if (head->job->plan->scores_all) sf_score_tile(head, keys_t, head->first_query, head->queries);
    if (!(head->job->plan->grouped ? list_groups(rows, head) : list_each(rows, head))) return false;
    if (!head->job->plan->scores_all) score_rows(rows, head->queries, head);
    for (size_t i = 0; i < head->queries; i++) {
        if (sf_stop_asked(head->job->stop)) return false;
        weigh(&rows[i], head);
        sf_row_factors(&rows[i], head);
    }
    return true;
}

/* Weights after dropout, in place. */
static void drop(sf_row *rows, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (size_t n = 0; n < rows[i].count && rows[i].factors != NULL; n++)
            rows[i].weights[n] = rows[i].factors[n] * rows[i].weights[n];
}

static void forward_tile(const sf_head *head, sf_right keys_t) {
    sf_row rows[SF_LIST_TILE];
    if (!weigh_tile(rows, head, keys_t)) return;
    drop(rows, head->queries);
    sf_lists_mix(rows, head->queries, head);
}

typedef struct shared_head { /* a part of it is a tile of queries */
    const sf_head *head;
    sf_right keys_t;
    void (*compute)(const sf_head *head, sf_right keys_t);
} shared_head;

static void take_tiles(sf_offer *offer, const sf_workspace *mine) {
    const shared_head *by = offer->task;
    sf_job job = *by->head->job;
    sf_head head = *by->head;
    const size_t end = head.first_query + head.queries, tile = sf_list_tile(job.plan, job.plan->model->shape.T);
    head.turns = job.work->rowwise.turns;
    job.work = mine;
    head.job = &job;
    for (size_t part; (part = sf_offer_next_part(offer)) < offer->parts;) {
        head.first_query = by->head->first_query + part * tile;
        head.queries = sf_smaller(end - head.first_query, tile);
        head.part = part;
        by->compute(&head, by->keys_t);
    }
}

static void share_tiles(const sf_opened_head *opened, void (*compute)(const sf_head *head, sf_right keys_t)) {
    const sf_head *head = &opened->head;
    const shared_head task = {.head = head, .keys_t = opened->keys_t, .compute = compute};
    const size_t tile = sf_list_tile(head->job->plan, head->job->plan->model->shape.T);
    const size_t parts = (head->queries + tile - 1) / tile;
    sf_turns_clear(head->job->work->rowwise.turns, parts);
    sf_offer_share(head->job->offer, &task, parts, take_tiles, head->job->work);
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
    if (head->job->plan->block_m > 0)
        sf_blocks_forward(&mine);
    else
        share_tiles(&mine, forward_tile);
}

size_t sf_rowwise_keep(uint32_t *kept /* [2T] */, const sf_opened_head *opened, size_t query) {
    sf_row row = row_at(&opened->head, query, 0);
    row.keys = kept;
    if (sf_stop_asked(opened->head.job->stop)) { /* the selection may not be prepared */
        *kept = (uint32_t)query;
        return 1;
    }
    if (opened->head.job->plan->scores_all) sf_score_tile(&opened->head, opened->keys_t, query, 1);
    sf_row_select(&row, &opened->head, raw_row(&opened->head, 0));
    return row.count;
}

static void weigh_backward(const sf_row *row, const sf_head *head) {
    if (is_softmax(head)) {
        softmax_backward(row->slopes, row->weights, row->count);
        return;
    }
    double *const *wide = head->job->work->wide;
    const size_t visible = sf_attention_visible(attention_of(head), row->query, head->job->plan->model->shape.T);
    for (size_t n = 0; n < row->count; n++) {
        wide[0][n] = row->scores[n];
        wide[2][n] = row->slopes[n];
    }
    sf_attention_weigh_backward(wide[3], attention_of(head), wide[2], row->exact, wide[0], row->count, visible);
    for (size_t n = 0; n < row->count; n++) row->slopes[n] = (float)wide[3][n];
}

void sf_row_scores_backward(const sf_row *row, const sf_head *head, const float *raw) {
    const float scale = head->job->plan->score_scale;
    if (sf_attention_score_steps(attention_of(head)) > 0) {
        const sf_scored_keys keys = scored(head, row->query, row->keys, row->count);
        double *steps = space_of(head)->steps, *wide = head->job->work->wide[2];
        for (size_t n = 0; n < row->count; n++) {
            steps[n] = raw[n];
            wide[n] = row->slopes[n];
        }
        sf_attention_transform_scores(steps, attention_of(head), &keys);
        sf_attention_transform_scores_backward(wide, steps, attention_of(head), &keys);
        for (size_t n = 0; n < row->count; n++) row->slopes[n] = (float)wide[n];
    }
    for (size_t n = 0; n < row->count; n++) row->slopes[n] *= scale;
}

/* As if the weights had been the softmax over all visible keys: slopes and list of all of them. The weights and the
 * list of the row stay. */
static sf_row gone_straight_through(const sf_row *row, const sf_head *head, const float *raw) {
    const sf_shape *s = &head->job->plan->model->shape;
    const size_t Dp = head->job->plan->rows.Dp, visible = sf_attention_visible(&s->attention, row->query, s->T);
    const float *dcontext = head->dcontext + row->query * head->context_stride;
    assert(raw != NULL); /* the plan scores all keys for it */
    sf_row all = *row;
    all.count = visible;
    all.keys = head->job->plan->every;
    all.weights = space_of(head)->all;
    all.factors = row->factors != NULL ? head->job->work->drow : NULL;
    transform(all.weights, raw, head, row->query, all.keys, visible);
    softmax(all.weights, visible);
    sf_row_factors(&all, head);
    for (size_t j = 0; j < visible; j++) {
        const float factor = all.factors != NULL ? all.factors[j] : 1.0F;
        all.slopes[j] = factor * sf_dot(dcontext, head->v + j * head->stride, Dp);
    }
    softmax_backward(all.slopes, all.weights, visible);
    return all;
}

/* Scores before the transforms, of the listed keys. */
static const float *listed_raw(const sf_row *row, const sf_head *head, const float *raw) {
    if (raw != NULL && sf_attention_score_steps(attention_of(head)) > 0)
        for (size_t n = 0; n < row->count; n++) row->raw[n] = raw[row->keys[n]];
    return row->raw;
}

static void backward_tile(const sf_head *head, sf_right keys_t) {
    sf_row rows[SF_LIST_TILE], through[SF_LIST_TILE]; /* what goes to the values, and to the scores */
    if (!weigh_tile(rows, head, keys_t)) return;
    const bool straight = attention_of(head)->straight_through;
    if (!straight) sf_lists_slopes(rows, head->queries, head);
    for (size_t i = 0; i < head->queries; i++) {
        if (sf_stop_asked(head->job->stop)) return;
        if (!straight) weigh_backward(&rows[i], head);
        through[i] = straight ? gone_straight_through(&rows[i], head, raw_row(head, i)) : rows[i];
        sf_row_scores_backward(&through[i], head, listed_raw(&through[i], head, raw_row(head, i)));
    }
    drop(rows, head->queries);
    sf_lists_queries_backward(through, head->queries, head);
    sf_lists_keys_backward(rows, through, head->queries, head);
}

void sf_rowwise_backward(const sf_head *head) {
    sf_opened_head mine;
    if (head->job->plan->block_m > 0) {
        sf_blocks_backward(head);
        return;
    }
    sf_rowwise_open(&mine, head);
    mine.head.saved = true;
    share_tiles(&mine, backward_tile);
}
