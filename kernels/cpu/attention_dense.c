/* Every key kept, softmax: a tile of queries at a time, so memory is linear in T. The backward pass computes the tile's
 * weights again from two numbers a row. */
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

void sf_dense_backward(const sf_head *head) {
    const sf_cpu_plan *plan = head->job->plan;
    const sf_workspace *work = head->job->work;
    const size_t T = plan->model->shape.T, Cp = plan->rows.Cp, Tp = plan->rows.Tp;
    const sf_softmax_stats *stats = stats_of(head);
    const sf_right keys_t = sf_transpose_to_panels(work->keys_t, plan->score_scale, head->k, head->stride, T, Cp);
    const sf_right values_t = sf_transpose_to_panels(work->values_t, 1.0F, head->v, head->stride, T, Cp);
    for (size_t first = 0; first < T; first += SF_QUERY_TILE) {
        const size_t rows = T - first < SF_QUERY_TILE ? T - first : SF_QUERY_TILE;
        const bool more = first > 0; /* dk and dv gather over the tiles */
        const float *q = head->q + first * head->stride;
        const float *dcontext = head->dcontext + first * head->context_stride;
        sf_gemm(work->tile, Tp, (sf_left){q, head->stride, 1}, keys_t, NULL, false, rows, Tp, Cp);
        sf_gemm(work->dtile, Tp, (sf_left){dcontext, head->context_stride, 1}, values_t, NULL, false, rows, Tp, Cp);
        for (size_t i = 0; i < rows; i++)
            sf_softmax_row_backward(work->tile + i * Tp, work->dtile + i * Tp, stats[first + i], plan->score_scale,
                                    &head->drop, first + i, T);
        sf_gemm(head->dq + first * head->stride, head->stride, (sf_left){work->dtile, Tp, 1},
                sf_plain(head->k, head->stride), NULL, false, rows, Cp, T);
        sf_gemm(head->dk, head->stride, (sf_left){work->dtile, 1, Tp}, sf_plain(q, head->stride), NULL, more, T, Cp,
                rows);
        sf_gemm(head->dv, head->stride, (sf_left){work->tile, 1, Tp}, sf_plain(dcontext, head->context_stride), NULL,
                more, T, Cp, rows);
    }
}
