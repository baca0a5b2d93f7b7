/* Every key kept, softmax: a tile of queries at a time, so memory is linear in T. The backward pass computes weights
 * again from two numbers a row, for a tile of queries and keys that stays in the nearest cache. */
#include "kernels/cpu/attention.h"

static sf_softmax_stats *stats_of(const sf_head *head) {
    return (sf_softmax_stats *)head->trace->stats + head->slot * head->job->plan->model->shape.T;
}

void sf_dense_forward(const sf_head *head) {
    const sf_cpu_plan *plan = head->job->plan;
    const sf_workspace *work = head->job->work;
    const size_t T = plan->model->shape.T, Cp = plan->rows.Cp, Tp = plan->rows.Tp;
    sf_softmax_stats *stats = stats_of(head);
    const sf_right keys_t = sf_transpose_to_panels(work->keys_t, plan->score_scale, head->k, head->stride, T, Cp);
    for (size_t first = 0; first < T; first += SF_QUERY_TILE) {
        const size_t rows = T - first < SF_QUERY_TILE ? T - first : SF_QUERY_TILE;
        sf_gemm(work->tile, Tp, (sf_left){head->q + first * head->stride, head->stride, 1}, keys_t, NULL, false, rows,
                Tp, Cp);
        for (size_t i = 0; i < rows; i++)
            stats[first + i] = sf_softmax_row(work->tile + i * Tp, &head->drop, first + i, T);
        sf_gemm(head->context + first * head->context_stride, head->context_stride, (sf_left){work->tile, Tp, 1},
                sf_plain(head->v, head->stride), NULL, false, rows, Cp, T);
        for (size_t i = first; i < first + rows; i++)
            sf_row_scale(head->context + i * head->context_stride, stats[i].inverse_total, Cp);
    }
}

/* The part of the backward pass that belongs to `rows` queries and `keys` keys. */
typedef struct part {
    size_t first_query, rows, first_key, keys;
    const sf_softmax_stats *stats; /* of the queries, as dots */
    const float *dots;             /* dcontext . context: the mean of the weights' gradients under the weights */
} part;

static void backward_part(const sf_head *head, const part *p, sf_right keys_t, sf_right values_t) {
    enum { ROW = SF_KEY_TILE };
    const sf_cpu_plan *plan = head->job->plan;
    const sf_workspace *work = head->job->work;
    const size_t Cp = plan->rows.Cp, stride = head->stride, width = sf_padded(p->keys);
    const bool more_keys = p->first_key > 0,
               more_queries = p->first_query > 0; /* what dq, and dk and dv, gather over */
    const float *q = head->q + p->first_query * stride, *k = head->k + p->first_key * stride;
    const float *dcontext = head->dcontext + p->first_query * head->context_stride;
    keys_t.at += p->first_key / SF_PANEL * keys_t.panel;
    values_t.at += p->first_key / SF_PANEL * values_t.panel;
    sf_gemm(work->tile, ROW, (sf_left){q, stride, 1}, keys_t, NULL, false, p->rows, width, Cp);
    sf_gemm(work->dtile, ROW, (sf_left){dcontext, head->context_stride, 1}, values_t, NULL, false, p->rows, width, Cp);
    for (size_t i = 0; i < p->rows; i++)
        sf_softmax_row_backward(work->tile + i * ROW, work->dtile + i * ROW, p->stats[i], p->dots[i], plan->score_scale,
                                &head->drop, p->first_query + i, p->first_key, p->keys);
    sf_gemm(head->dq + p->first_query * stride, stride, (sf_left){work->dtile, ROW, 1}, sf_plain(k, stride), NULL,
            more_keys, p->rows, Cp, p->keys);
    sf_gemm(head->dk + p->first_key * stride, stride, (sf_left){work->dtile, 1, ROW}, sf_plain(q, stride), NULL,
            more_queries, p->keys, Cp, p->rows);
    sf_gemm(head->dv + p->first_key * stride, stride, (sf_left){work->tile, 1, ROW},
            sf_plain(dcontext, head->context_stride), NULL, more_queries, p->keys, Cp, p->rows);
}

void sf_dense_backward(const sf_head *head) {
    const sf_cpu_plan *plan = head->job->plan;
    const sf_workspace *work = head->job->work;
    const size_t T = plan->model->shape.T, Cp = plan->rows.Cp;
    const sf_softmax_stats *stats = stats_of(head);
    const sf_right keys_t = sf_transpose_to_panels(work->keys_t, plan->score_scale, head->k, head->stride, T, Cp);
    const sf_right values_t = sf_transpose_to_panels(work->values_t, 1.0F, head->v, head->stride, T, Cp);
    for (size_t i = 0; i < T; i++)
        work->drow[i] = sf_dot(head->dcontext + i * head->context_stride, head->context + i * head->context_stride, Cp);
    for (size_t query = 0; query < T; query += SF_QUERY_TILE)
        for (size_t key = 0; key < T; key += SF_KEY_TILE) {
            const part p = {.first_query = query,
                            .rows = T - query < SF_QUERY_TILE ? T - query : SF_QUERY_TILE,
                            .first_key = key,
                            .keys = T - key < SF_KEY_TILE ? T - key : SF_KEY_TILE,
                            .stats = stats + query,
                            .dots = work->drow + query};
            backward_part(head, &p, keys_t, values_t);
        }
}
