/* Every key kept, softmax: a tile of queries and keys at a time, which stays in the nearest cache, so memory is linear
 * in T. The forward pass knows the largest score of a row only at the end and corrects what it summed up so far as it
 * goes; the backward pass computes weights again from two numbers a row. */
#include <math.h>

#include "kernels/cpu/attention.h"

static sf_softmax_stats *stats_of(const sf_head *head) {
    return (sf_softmax_stats *)head->trace->stats + head->slot * head->job->plan->model->shape.T;
}

sf_right sf_scaled_keys(const sf_head *head) {
    const sf_cpu_plan *plan = head->job->plan;
    const sf_workspace *work = head->job->work;
    const size_t Cp = plan->rows.Cp;
    const sf_right keys_t =
        sf_transpose_to_panels(work->keys_t, plan->score_scale, head->k, head->stride, plan->model->shape.T, Cp);
    return sf_prepare(work->across[0], keys_t, Cp, plan->rows.Tp);
}

/* All keys of a tile of queries. */
static sf_softmax_tile tile_of(const sf_head *head, size_t query) {
    const size_t T = head->job->plan->model->shape.T;
    return (sf_softmax_tile){.at = head->job->work->tile,
                             .row = SF_KEY_TILE,
                             .first_query = query,
                             .queries = T - query < SF_QUERY_TILE ? T - query : SF_QUERY_TILE};
}

/* Shrinks what the context holds of earlier keys, and adds what these keys give. */
static void forward_part(const sf_head *head, sf_softmax_sums *sums, const sf_softmax_tile *part, sf_right keys_t,
                         sf_right values) {
    const size_t Cp = head->job->plan->rows.Cp, stride = head->context_stride, rows = part->queries;
    const float *q = head->q + part->first_query * head->stride;
    float *context = head->context + part->first_query * stride;
    const bool more = part->first_key > 0;
    sf_gemm(part->at, part->row, (sf_left){q, head->stride, 1}, sf_right_from(keys_t, 0, part->first_key), NULL, false,
            rows, sf_padded(part->keys), Cp);
    sf_softmax_rows(part, sums, &head->drop);
    for (size_t i = 0; i < rows && more; i++)
        if (sums->shrink[i] != 1.0F) sf_row_scale(context + i * stride, sums->shrink[i], Cp);
    sf_gemm(context, stride, (sf_left){part->at, part->row, 1}, sf_right_from(values, part->first_key, 0), NULL, more,
            rows, Cp, part->keys);
}

void sf_dense_forward(const sf_head *head) {
    const sf_cpu_plan *plan = head->job->plan;
    const sf_workspace *work = head->job->work;
    const size_t T = plan->model->shape.T, Cp = plan->rows.Cp;
    sf_softmax_stats *stats = stats_of(head);
    const sf_right keys_t = sf_scaled_keys(head);
    const sf_right values = sf_prepare(work->upright[1], sf_plain(head->v, head->stride), T, Cp);
    sf_softmax_sums sums;
    for (size_t query = 0; query < T; query += SF_QUERY_TILE) {
        sf_softmax_tile part = tile_of(head, query);
        for (size_t i = 0; i < SF_QUERY_TILE; i++) {
            sums.largest[i] = -INFINITY;
            sums.total[i] = 0.0F;
        }
        for (; part.first_key < T; part.first_key += SF_KEY_TILE) {
            part.keys = T - part.first_key < SF_KEY_TILE ? T - part.first_key : SF_KEY_TILE;
            forward_part(head, &sums, &part, keys_t, values);
        }
        for (size_t i = 0; i < part.queries; i++) {
            stats[query + i] = (sf_softmax_stats){sums.largest[i], 1.0F / sums.total[i]};
            sf_row_scale(head->context + (query + i) * head->context_stride, stats[query + i].inverse_total, Cp);
        }
    }
}

typedef struct operands { /* right-hand sides: of the whole head, and of the part's queries */
    sf_right keys_t, values_t, keys, queries, dcontext;
} operands;

/* The part of the backward pass that belongs to some queries and keys. dots are dcontext . context: the means of the
 * weights' gradients under the weights. */
static void backward_part(const sf_head *head, const sf_softmax_tile *part, const sf_softmax_stats *stats,
                          const float *dots, const operands *by) {
    const sf_cpu_plan *plan = head->job->plan;
    float *dtile = head->job->work->dtile;
    const size_t Cp = plan->rows.Cp, stride = head->stride, width = sf_padded(part->keys), row = part->row;
    const size_t rows = part->queries;
    const bool more_keys = part->first_key > 0,
               more_queries = part->first_query > 0; /* what dq, and dk and dv, gather over */
    const float *q = head->q + part->first_query * stride;
    const float *dcontext = head->dcontext + part->first_query * head->context_stride;
    sf_gemm(part->at, row, (sf_left){q, stride, 1}, sf_right_from(by->keys_t, 0, part->first_key), NULL, false, rows,
            width, Cp);
    sf_gemm(dtile, row, (sf_left){dcontext, head->context_stride, 1}, sf_right_from(by->values_t, 0, part->first_key),
            NULL, false, rows, width, Cp);
    sf_softmax_rows_backward(part, dtile, stats, dots, plan->score_scale, &head->drop);
    sf_gemm(head->dq + part->first_query * stride, stride, (sf_left){dtile, row, 1},
            sf_right_from(by->keys, part->first_key, 0), NULL, more_keys, rows, Cp, part->keys);
    sf_gemm(head->dk + part->first_key * stride, stride, (sf_left){dtile, 1, row}, by->queries, NULL, more_queries,
            part->keys, Cp, rows);
    sf_gemm(head->dv + part->first_key * stride, stride, (sf_left){part->at, 1, row}, by->dcontext, NULL, more_queries,
            part->keys, Cp, rows);
}

void sf_dense_backward(const sf_head *head) {
    const sf_cpu_plan *plan = head->job->plan;
    const sf_workspace *work = head->job->work;
    const size_t T = plan->model->shape.T, Cp = plan->rows.Cp, Tp = plan->rows.Tp;
    const sf_softmax_stats *stats = stats_of(head);
    const sf_right values_t = sf_transpose_to_panels(work->values_t, 1.0F, head->v, head->stride, T, Cp);
    operands by = {.keys_t = sf_scaled_keys(head),
                   .values_t = sf_prepare(work->across[1], values_t, Cp, Tp),
                   .keys = sf_prepare(work->upright[0], sf_plain(head->k, head->stride), T, Cp)};
    for (size_t i = 0; i < T; i++)
        work->drow[i] = sf_dot(head->dcontext + i * head->context_stride, head->context + i * head->context_stride, Cp);
    for (size_t query = 0; query < T; query += SF_QUERY_TILE) {
        sf_softmax_tile part = tile_of(head, query);
        const float *q = head->q + query * head->stride, *dcontext = head->dcontext + query * head->context_stride;
        by.queries = sf_prepare(work->queries[0], sf_plain(q, head->stride), part.queries, Cp);
        by.dcontext = sf_prepare(work->queries[1], sf_plain(dcontext, head->context_stride), part.queries, Cp);
        for (; part.first_key < T; part.first_key += SF_KEY_TILE) {
            part.keys = T - part.first_key < SF_KEY_TILE ? T - part.first_key : SF_KEY_TILE;
            backward_part(head, &part, stats + query, work->drow + query, &by);
        }
    }
}
