/* Weightings over the whole matrix: the kept scores of all queries of a head are held at once, in double. The backward
 * pass computes them again. */
#include "base/sizes.h"
#include "kernels/cpu/attention.h"

static const sf_attention *attention_of(const sf_head *head) {
    return &head->job->plan->model->shape.attention;
}

/* One head's; in a joint pass, the sequence's own. */
static sf_matrix_space *space_of(const sf_head *head) {
    const sf_job *job = head->job;
    if (job->joint != NULL && job->joint->matrices != NULL)
        return &job->joint->matrices[job->seat + head->slot / job->plan->model->shape.H];
    return (sf_matrix_space *)&job->work->matrix;
}

static sf_row row_at(const sf_head *head, size_t query) {
    const sf_row_space *space = &head->job->work->rowwise;
    const sf_matrix_space *matrix = space_of(head);
    return (sf_row){.query = query,
                    .count = matrix->offsets[query + 1] - matrix->offsets[query],
                    .keys = matrix->keys + matrix->offsets[query],
                    .scores = space->scores,
                    .weights = space->weights,
                    .factors = space->factors,
                    .slopes = space->slopes,
                    .raw = space->raw};
}

/* Scores before the transforms of the listed keys, for the backward pass. */
static void save_raw(const sf_row *row, const sf_head *head, const float *tile_row, size_t at) {
    const sf_matrix_space *space = space_of(head);
    if (sf_attention_score_steps(attention_of(head)) == 0) return;
    for (size_t n = 0; n < row->count; n++)
        space->raw[at + n] = tile_row != NULL ? tile_row[row->keys[n]] : head->job->work->rowwise.raw[n];
}

static sf_weighing_matrix matrix_of(const sf_head *head) {
    return sf_matrix_rows(space_of(head), head->job->plan->model->shape.T);
}

void sf_matrix_list(const sf_head *head) {
    sf_opened_head mine;
    const sf_cpu_plan *plan = head->job->plan;
    const sf_matrix_space *space = space_of(head);
    const size_t T = plan->model->shape.T, Tp = plan->rows.Tp;
    sf_rowwise_open(&mine, head);
    space->offsets[0] = 0;
    for (size_t i = 0; i < T; i++) {
        if (sf_stop_asked(head->job->stop)) return;
        if (plan->scores_all && i % SF_QUERY_TILE == 0)
            sf_score_tile(&mine.head, mine.keys_t, i, sf_smaller(T - i, SF_QUERY_TILE));
        const float *tile_row = plan->scores_all ? head->job->work->tile + i % SF_QUERY_TILE * Tp : NULL;
        const size_t at = space->offsets[i];
        sf_row row = {.query = i,
                      .keys = space->keys + at,
                      .scores = head->job->work->rowwise.scores,
                      .raw = head->job->work->rowwise.raw};
        sf_row_select(&row, &mine.head, tile_row);
        sf_row_score(&row, &mine.head);
        space->offsets[i + 1] = at + row.count;
        for (size_t n = 0; n < row.count; n++) space->scores[at + n] = row.scores[n];
        save_raw(&row, head, tile_row, at);
    }
}

/* The kept keys, scores and weights of all queries. False: told to stop. */
static bool weigh_all(const sf_head *head) {
    const sf_matrix_space *space = space_of(head);
    sf_matrix_list(head);
    if (sf_stop_asked(head->job->stop)) return false; /* there may be no more than a part of the lists */
    sf_weighing_matrix matrix = matrix_of(head);
    sf_attention_weigh_matrix(space->weights, attention_of(head), space->scores, &matrix);
    return true;
}

static sf_row weighed_row(const sf_head *head, size_t query) {
    const sf_matrix_space *space = space_of(head);
    sf_row row = row_at(head, query);
    for (size_t n = 0; n < row.count; n++) row.weights[n] = (float)space->weights[space->offsets[query] + n];
    sf_row_factors(&row, head);
    return row;
}

/* Weights after dropout, in place. */
static void drop(const sf_row *row) {
    for (size_t n = 0; n < row->count && row->factors != NULL; n++) row->weights[n] = row->factors[n] * row->weights[n];
}

void sf_matrix_mix(const sf_head *head) {
    for (size_t i = 0; i < head->job->plan->model->shape.T; i++) {
        const sf_row row = weighed_row(head, i);
        drop(&row);
        sf_lists_mix(&row, 1, head);
    }
}

void sf_matrix_forward(const sf_head *head) {
    if (weigh_all(head)) sf_matrix_mix(head);
}

void sf_matrix_slopes(const sf_head *head) {
    const sf_matrix_space *space = space_of(head);
    for (size_t i = 0; i < head->job->plan->model->shape.T; i++) {
        const sf_row row = weighed_row(head, i);
        sf_lists_slopes(&row, 1, head);
        for (size_t n = 0; n < row.count; n++) space->slopes[space->offsets[i] + n] = row.slopes[n];
    }
}

void sf_matrix_finish(const sf_head *head) {
    const sf_matrix_space *space = space_of(head);
    for (size_t i = 0; i < head->job->plan->model->shape.T && !sf_stop_asked(head->job->stop); i++) {
        const sf_row row = weighed_row(head, i);
        drop(&row);
        for (size_t n = 0; n < row.count; n++) row.slopes[n] = (float)space->slopes[space->offsets[i] + n];
        sf_row_scores_backward(&row, head, space->raw + space->offsets[i]);
        sf_lists_queries_backward(&row, 1, head);
        sf_lists_keys_backward(&row, &row, 1, head);
    }
}

void sf_matrix_backward(const sf_head *head) {
    const sf_matrix_space *space = space_of(head);
    if (!weigh_all(head)) return;
    sf_matrix_slopes(head);
    sf_weighing_matrix matrix = matrix_of(head);
    sf_attention_weigh_matrix_backward(space->slopes, attention_of(head), space->slopes, space->weights, space->scores,
                                       &matrix);
    sf_matrix_finish(head);
}
