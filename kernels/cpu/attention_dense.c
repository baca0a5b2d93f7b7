/* Every key kept, softmax: a tile of queries at a time, so memory is linear in T. The backward pass computes weights
 * again from two numbers a row, for a tile of queries and keys that stays in the nearest cache. */
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

void sf_dense_forward(const sf_head *head) {
    const sf_cpu_plan *plan = head->job->plan;
    const sf_workspace *work = head->job->work;
    const size_t T = plan->model->shape.T, Cp = plan->rows.Cp, Tp = plan->rows.Tp;
    sf_softmax_stats *stats = stats_of(head);
    const sf_right keys_t = sf_scaled_keys(head);
    const sf_right values = sf_prepare(work->upright[1], sf_plain(head->v, head->stride), T, Cp);
    for (size_t first = 0; first < T; first += SF_QUERY_TILE) {
        const size_t rows = T - first < SF_QUERY_TILE ? T - first : SF_QUERY_TILE;
        sf_gemm(work->tile, Tp, (sf_left){head->q + first * head->stride, head->stride, 1}, keys_t, NULL, false, rows,
                Tp, Cp);
        for (size_t i = 0; i < rows; i++)
            stats[first + i] = sf_softmax_row(work->tile + i * Tp, &head->drop, first + i, T);
        sf_gemm(head->context + first * head->context_stride, head->context_stride, (sf_left){work->tile, Tp, 1},
                values, NULL, false, rows, Cp, T);
        for (size_t i = first; i < first + rows; i++)
            sf_row_scale(head->context + i * head->context_stride, stats[i].inverse_total, Cp);
    }
}

typedef struct operands { /* right-hand sides: of the whole head, and of the part's queries */
    sf_right keys_t, values_t, keys, queries, dcontext;
} operands;

/* The part of the backward pass that belongs to `rows` queries and `keys` keys. */
typedef struct part {
    size_t first_query, rows, first_key, keys;
    const sf_softmax_stats *stats; /* of the queries, as dots */
    const float *dots;             /* dcontext . context: the mean of the weights' gradients under the weights */
} part;

static void backward_part(const sf_head *head, const part *p, const operands *by) {
    enum { ROW = SF_KEY_TILE };
    const sf_cpu_plan *plan = head->job->plan;
    const sf_workspace *work = head->job->work;
    const size_t Cp = plan->rows.Cp, stride = head->stride, width = sf_padded(p->keys);
    const bool more_keys = p->first_key > 0,
               more_queries = p->first_query > 0; /* what dq, and dk and dv, gather over */
    const float *q = head->q + p->first_query * stride;
    const float *dcontext = head->dcontext + p->first_query * head->context_stride;
    sf_gemm(work->tile, ROW, (sf_left){q, stride, 1}, sf_right_from(by->keys_t, 0, p->first_key), NULL, false, p->rows,
            width, Cp);
    sf_gemm(work->dtile, ROW, (sf_left){dcontext, head->context_stride, 1},
            sf_right_from(by->values_t, 0, p->first_key), NULL, false, p->rows, width, Cp);
    for (size_t i = 0; i < p->rows; i++)
        sf_softmax_row_backward(work->tile + i * ROW, work->dtile + i * ROW, p->stats[i], p->dots[i], plan->score_scale,
                                &head->drop, p->first_query + i, p->first_key, p->keys);
    sf_gemm(head->dq + p->first_query * stride, stride, (sf_left){work->dtile, ROW, 1},
            sf_right_from(by->keys, p->first_key, 0), NULL, more_keys, p->rows, Cp, p->keys);
    sf_gemm(head->dk + p->first_key * stride, stride, (sf_left){work->dtile, 1, ROW}, by->queries, NULL, more_queries,
            p->keys, Cp, p->rows);
    sf_gemm(head->dv + p->first_key * stride, stride, (sf_left){work->tile, 1, ROW}, by->dcontext, NULL, more_queries,
            p->keys, Cp, p->rows);
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
        const size_t rows = T - query < SF_QUERY_TILE ? T - query : SF_QUERY_TILE;
        const float *dcontext = head->dcontext + query * head->context_stride;
        by.queries = sf_prepare(work->queries[0], sf_plain(head->q + query * head->stride, head->stride), rows, Cp);
        by.dcontext = sf_prepare(work->queries[1], sf_plain(dcontext, head->context_stride), rows, Cp);
        for (size_t key = 0; key < T; key += SF_KEY_TILE) {
            const part p = {.first_query = query,
                            .rows = rows,
                            .first_key = key,
                            .keys = T - key < SF_KEY_TILE ? T - key : SF_KEY_TILE,
                            .stats = stats + query,
                            .dots = work->drow + query};
            backward_part(head, &p, &by);
        }
    }
}
