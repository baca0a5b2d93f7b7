/* Every visible key kept, softmax: one tile of queries and keys at a time, which stays in the nearest cache, so memory
 * is linear in T. The forward pass knows the largest score of a row only at the end, and rescales its sums when a
 * larger score appears; the backward pass computes weights again from two numbers per row, and from scores that are
 * stored if T is small. */
#include <math.h>

#include "base/sizes.h"
#include "kernels/cpu/attention.h"

static sf_softmax_stats *stats_of(const sf_head *head) {
    return (sf_softmax_stats *)head->trace->stats + head->slot * head->job->plan->model->shape.T;
}

sf_right sf_scaled_keys(const sf_head *head) {
    const sf_cpu_plan *plan = head->job->plan;
    const sf_workspace *work = head->job->work;
    const size_t Dp = plan->rows.Dp;
    const sf_right keys_t =
        sf_transpose_to_panels(work->keys_t, plan->score_scale, head->k, head->stride, plan->model->shape.T, Dp);
    return sf_prepare(work->across[0], keys_t, Dp, plan->rows.Tp);
}

void sf_share_queries(const sf_head *head, const void *task, sf_take_parts *take_parts) {
    const size_t parts = (head->queries + SF_QUERY_TILE - 1) / SF_QUERY_TILE;
    sf_offer_share(head->job->offer, task, parts, take_parts, head->job->work);
}

/* What the parts of a head have in common; a part is SF_QUERY_TILE queries. */
typedef struct shared_head {
    const sf_head *head;
    sf_right keys_t, values; /* forward */
    sf_right values_t, keys; /* backward, with keys_t */
} shared_head;

/* Queries of a part whose scores are computed at once: few for AMX tiles, so that their stores stay in the first-level
 * cache. */
#if defined(__AMX_TILE__)
enum { ROWS = 32 };
#else
enum { ROWS = SF_QUERY_TILE };
#endif

enum { TILE_WORDS = SF_KEY_TILE / 64 };

/* Whether the trace has room for the dropout mask of a tile's keys. For later keys the mask is drawn again, so that
 * memory stays linear in T. */
static bool is_traced(size_t first_key) {
    _Static_assert(SF_DRAWN_KEYS % SF_KEY_TILE == 0, "a tile is traced as a whole");
    return first_key < SF_DRAWN_KEYS;
}

/* Whether scores are stored for the backward pass, which otherwise computes them again. */
static bool is_scored(const sf_head *head) {
    return head->job->gradient != NULL && sf_scored_row(head->job->plan->model->shape.T) > 0;
}

/* Keys before this one are visible to some of the queries before `query_end`. */
static size_t key_end(const sf_head *head, size_t query_end) {
    const sf_shape *shape = &head->job->plan->model->shape;
    return shape->attention.causal ? query_end : shape->T;
}

static sf_softmax_tile tile_at(const sf_head *head, float *at, uint64_t *kept /* [ROWS,TILE_WORDS] */, size_t query,
                               size_t key, size_t keys) {
    const size_t T = head->job->plan->model->shape.T, words = sf_drawn_words(T), scored = sf_scored_row(T);
    uint64_t *traced = head->trace->drawn + (head->slot * T + query) * words;
    float *scores = head->trace->scores + (head->slot * T + query) * scored;
    return (sf_softmax_tile){.at = at,
                             .row = SF_KEY_TILE,
                             .scores = is_scored(head) ? scores + key : at,
                             .scores_row = is_scored(head) ? scored : SF_KEY_TILE,
                             .kept = is_traced(key) ? traced + key / 64 : kept,
                             .kept_row = is_traced(key) ? words : TILE_WORDS,
                             .first_query = query,
                             .queries = sf_smaller(T - query, ROWS),
                             .first_key = key,
                             .keys = keys,
                             .causal = head->job->plan->model->shape.attention.causal};
}

static void score_tile(const shared_head *by, sf_left queries, const sf_softmax_tile *tile) {
    sf_gemm(tile->scores, tile->scores_row, queries, sf_right_from(by->keys_t, 0, tile->first_key), NULL, false,
            tile->queries, sf_padded(tile->keys), by->head->job->plan->rows.Dp);
}

/* Scales down the contributions of earlier keys to the context, and adds those of these keys. */
static void forward_tile(const shared_head *by, sf_left queries, sf_softmax_sums *sums, const sf_softmax_tile *tile) {
    const sf_head *head = by->head;
    const size_t Dp = head->job->plan->rows.Dp, stride = head->context_stride, rows = tile->queries;
    float *context = head->context + tile->first_query * stride;
    const bool more = tile->first_key > 0;
    score_tile(by, queries, tile);
    sf_softmax_draw(tile, &head->drop);
    sf_softmax_rows(tile, sums, head->drop.mask);
    for (size_t i = 0; i < rows && more; i++)
        if (sums->shrink[i] != 1.0F) sf_row_scale(context + i * stride, sums->shrink[i], Dp);
    sf_gemm(context, stride, sf_upright(tile->at, tile->row), sf_right_from(by->values, tile->first_key, 0), NULL, more,
            rows, Dp, tile->keys);
}

static void begin_sums(sf_softmax_sums *sums) {
    for (size_t i = 0; i < ROWS; i++) {
        sums->largest[i] = -INFINITY;
        sums->total[i] = 0.0F;
    }
}

/* Divides by the totals of the weights: the contexts, which are fewer numbers than the weights. */
static void end_sums(const sf_softmax_sums *sums, const sf_head *head, size_t query) {
    const size_t Dp = head->job->plan->rows.Dp, rows = sf_smaller(head->job->plan->model->shape.T - query, ROWS);
    sf_softmax_stats *stats = stats_of(head) + query;
    for (size_t i = 0; i < rows; i++) {
        stats[i] = (sf_softmax_stats){sums->largest[i], 1.0F / sums->total[i]};
        sf_row_scale(head->context + (query + i) * head->context_stride, stats[i].inverse_total, Dp);
    }
}

static void forward_parts(sf_offer *offer, const sf_workspace *mine) {
    const shared_head *by = offer->task;
    const sf_head *head = by->head;
    const size_t T = head->job->plan->model->shape.T, Dp = head->job->plan->rows.Dp;
    sf_softmax_sums sums[SF_QUERY_TILE / ROWS];
    uint64_t kept[ROWS * TILE_WORDS];
    for (size_t query; (query = sf_offer_next_part(offer) * SF_QUERY_TILE) < T;) {
        const size_t rows = sf_smaller(T - query, SF_QUERY_TILE), end = key_end(head, query + rows);
        const sf_left q = sf_upright(head->q + query * head->stride, head->stride);
        const sf_left queries = sf_prepare_left(mine->left_queries[0], q, rows, Dp);
        for (size_t i = 0; i < rows; i += ROWS) begin_sums(&sums[i / ROWS]);
        for (size_t key = 0; key < end && !sf_stop_asked(head->job->stop); key += SF_KEY_TILE)
            for (size_t i = 0; i < rows; i += ROWS) {
                const sf_softmax_tile tile =
                    tile_at(head, mine->tile, kept, query + i, key, sf_smaller(end - key, SF_KEY_TILE));
                forward_tile(by, sf_left_from(queries, i), &sums[i / ROWS], &tile);
            }
        for (size_t i = 0; i < rows; i += ROWS) end_sums(&sums[i / ROWS], head, query + i);
    }
}

void sf_dense_forward(const sf_head *head) {
    const sf_cpu_plan *plan = head->job->plan;
    const sf_right values = sf_plain(head->v, head->stride);
    const shared_head task = {.head = head,
                              .keys_t = sf_scaled_keys(head),
                              .values =
                                  sf_prepare(head->job->work->upright[1], values, plan->model->shape.T, plan->rows.Dp)};
    sf_share_queries(head, &task, forward_parts);
}

typedef struct query_rows { /* and their contexts' gradients */
    sf_left q, dcontext;
} query_rows;

/* Weights on the tile, the scores' gradients on dtile, and dq. dots are dcontext . context: the means of the weights'
 * gradients, weighted by the weights. */
static void backward_tile(const shared_head *by, query_rows of, const sf_softmax_tile *tile, float *dtile) {
    const sf_head *head = by->head;
    const sf_cpu_plan *plan = head->job->plan;
    const size_t Dp = plan->rows.Dp, stride = head->stride, width = sf_padded(tile->keys), row = tile->row;
    const size_t rows = tile->queries, query = tile->first_query;
    const float *dots = head->job->work->drow + query;
    if (!is_scored(head)) score_tile(by, of.q, tile);
    sf_gemm(dtile, row, of.dcontext, sf_right_from(by->values_t, 0, tile->first_key), NULL, false, rows, width, Dp);
    if (!is_traced(tile->first_key)) sf_softmax_draw(tile, &head->drop);
    sf_softmax_rows_backward(tile, dtile, stats_of(head) + query, dots, plan->score_scale, head->drop.mask);
    sf_gemm(head->dq + query * stride, stride, sf_upright(dtile, row), sf_right_from(by->keys, tile->first_key, 0),
            NULL, tile->first_key > 0, rows, Dp, tile->keys);
}

typedef struct query_factors { /* the same as right factors, and how many */
    sf_right q, dcontext;
    size_t rows;
} query_factors;

/* The contribution of a part to dk and dv of the keys first..end-1 of a tile, added to what is there or not. */
static void add_to_keys(const sf_head *head, const sf_workspace *mine, const query_factors *of, size_t key,
                        size_t first, size_t end, bool add) {
    const size_t stride = head->stride, Dp = head->job->plan->rows.Dp, at = (key + first) * stride;
    if (first == end) return;
    sf_gemm(head->dk + at, stride, sf_transposed(mine->dtile + first, SF_KEY_TILE), of->q, NULL, add, end - first, Dp,
            of->rows);
    sf_gemm(head->dv + at, stride, sf_transposed(mine->tile + first, SF_KEY_TILE), of->dcontext, NULL, add, end - first,
            Dp, of->rows);
}

static void backward_parts(sf_offer *offer, const sf_workspace *mine) {
    const shared_head *by = offer->task;
    const sf_head *head = by->head;
    const size_t T = head->job->plan->model->shape.T, Dp = head->job->plan->rows.Dp, stride = head->stride;
    atomic_size_t *turns = head->job->work->turns;
    uint64_t kept[ROWS * TILE_WORDS];
    for (size_t part; (part = sf_offer_next_part(offer)) < offer->parts;) {
        const size_t query = part * SF_QUERY_TILE;
        const float *q = head->q + query * stride, *dcontext = head->dcontext + query * head->context_stride;
        const size_t rows = sf_smaller(T - query, SF_QUERY_TILE), row = SF_KEY_TILE, end = key_end(head, query + rows);
        const size_t begun = part > 0 ? key_end(head, query) : 0; /* earlier parts have written the keys before */
        const query_factors right = {sf_prepare(mine->queries[0], sf_plain(q, stride), rows, Dp),
                                     sf_prepare(mine->queries[1], sf_plain(dcontext, head->context_stride), rows, Dp),
                                     rows};
        const query_rows left = {
            sf_prepare_left(mine->left_queries[0], sf_upright(q, stride), rows, Dp),
            sf_prepare_left(mine->left_queries[1], sf_upright(dcontext, head->context_stride), rows, Dp)};
        for (size_t key = 0; key < end; key += SF_KEY_TILE) {
            const size_t keys = sf_smaller(end - key, SF_KEY_TILE);
            for (size_t i = 0; i < rows; i += ROWS) {
                const sf_softmax_tile tile = tile_at(head, mine->tile + i * row, kept, query + i, key, keys);
                const query_rows these = {sf_left_from(left.q, i), sf_left_from(left.dcontext, i)};
                backward_tile(by, these, &tile, mine->dtile + i * row);
            }
            if (key < begun ? !sf_turn_await(turns, part, head->job->stop) : sf_stop_asked(head->job->stop)) break;
            const size_t old = key < begun ? sf_smaller(begun - key, keys) : 0;
            add_to_keys(head, mine, &right, key, 0, old, true);
            add_to_keys(head, mine, &right, key, old, keys, false);
            sf_turn_end(turns, part);
        }
    }
}

void sf_dense_backward(const sf_head *head) {
    const sf_cpu_plan *plan = head->job->plan;
    const sf_workspace *work = head->job->work;
    const size_t T = plan->model->shape.T, Dp = plan->rows.Dp, Tp = plan->rows.Tp;
    const sf_right values_t = sf_transpose_to_panels(work->values_t, 1.0F, head->v, head->stride, T, Dp);
    const shared_head task = {.head = head,
                              .keys_t = !is_scored(head) ? sf_scaled_keys(head) : (sf_right){0},
                              .values_t = sf_prepare(work->across[1], values_t, Dp, Tp),
                              .keys = sf_prepare(work->upright[0], sf_plain(head->k, head->stride), T, Dp)};
    for (size_t i = 0; i < T; i++)
        work->drow[i] = sf_dot(head->dcontext + i * head->context_stride, head->context + i * head->context_stride, Dp);
    sf_turns_clear(work->turns, T / SF_QUERY_TILE + 1);
    sf_share_queries(head, &task, backward_parts);
}
