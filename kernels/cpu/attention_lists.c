/* Products of a tile of queries with the keys that each of them lists, in ascending order.
 *
 * The lists are walked side by side, some keys at a time, so that the rows of these keys stay in the nearest cache
 * while all queries of the tile read them. Every sum is still one chain over ascending keys, or ascending queries: how
 * keys are cut into pieces changes no bit. */
#include "base/sizes.h"
#include "kernels/cpu/kept_row.h"

enum {
    PIECE = 64,    /* keys that are walked at a time, at least */
    PER_PIECE = 16 /* that a query lists among them, where they are few: else the walk itself takes the time */
};

typedef void take_piece(const sf_row *row, size_t from, size_t to, const sf_head *head);

/* The first place from `at` on whose key is not below `end`. */
static size_t place_of(const sf_row *row, size_t at, size_t end) {
    while (at + 8 <= row->count && row->keys[at + 7] < end) at += 8;
    while (at < row->count && row->keys[at] < end) at++;
    return at;
}

static size_t piece_for(const sf_row *rows, size_t count, size_t T) {
    size_t listed = 1;
    for (size_t i = 0; i < count; i++) listed += rows[i].count;
    return sf_larger(PIECE, sf_smaller(T, PER_PIECE * T * count / listed));
}

static void walk(const sf_row *rows, size_t count, const sf_head *head, take_piece *take) {
    const size_t T = head->job->plan->model->shape.T, piece = piece_for(rows, count, T);
    size_t at[SF_LIST_TILE] = {0};
    for (size_t end = piece; end < T + piece; end += piece) {
        if (sf_stop_asked(head->job->stop)) return;
        for (size_t i = 0; i < count; i++) {
            const size_t to = place_of(&rows[i], at[i], end);
            if (to > at[i]) take(&rows[i], at[i], to, head);
            at[i] = to;
        }
    }
}

static void score_piece(const sf_row *row, size_t from, size_t to, const sf_head *head) {
    const size_t Dp = head->job->plan->rows.Dp;
    const float *q = head->q + row->query * head->stride;
    if (Dp == COMMON_N)
        dots_of(row->scores + from, q, head->k, head->stride, row->keys + from, to - from, COMMON_N);
    else
        dots_of(row->scores + from, q, head->k, head->stride, row->keys + from, to - from, Dp);
    for (size_t n = from; n < to; n++) row->scores[n] *= head->job->plan->score_scale;
}

void sf_lists_score(const sf_row *rows, size_t count, const sf_head *head) {
    walk(rows, count, head, score_piece);
}

static void mix_piece(const sf_row *row, size_t from, size_t to, const sf_head *head) {
    const size_t Dp = head->job->plan->rows.Dp;
    float *context = head->context + row->query * head->context_stride;
    if (Dp == COMMON_N)
        mix_more(context, head->v, head->stride, row->keys + from, row->weights + from, to - from, from > 0, COMMON_N);
    else
        mix_more(context, head->v, head->stride, row->keys + from, row->weights + from, to - from, from > 0, Dp);
}

void sf_lists_mix(const sf_row *rows, size_t count, const sf_head *head) {
    walk(rows, count, head, mix_piece);
}

static void slopes_piece(const sf_row *row, size_t from, size_t to, const sf_head *head) {
    const size_t Dp = head->job->plan->rows.Dp;
    const float *dcontext = head->dcontext + row->query * head->context_stride;
    if (Dp == COMMON_N)
        dots_of(row->slopes + from, dcontext, head->v, head->stride, row->keys + from, to - from, COMMON_N);
    else
        dots_of(row->slopes + from, dcontext, head->v, head->stride, row->keys + from, to - from, Dp);
    for (size_t n = from; n < to && row->factors != NULL; n++) row->slopes[n] *= row->factors[n];
}

void sf_lists_slopes(const sf_row *rows, size_t count, const sf_head *head) {
    walk(rows, count, head, slopes_piece);
}

static void query_piece(const sf_row *row, size_t from, size_t to, const sf_head *head) {
    const size_t Dp = head->job->plan->rows.Dp;
    float *dq = head->dq + row->query * head->stride;
    if (Dp == COMMON_N)
        mix_more(dq, head->k, head->stride, row->keys + from, row->slopes + from, to - from, from > 0, COMMON_N);
    else
        mix_more(dq, head->k, head->stride, row->keys + from, row->slopes + from, to - from, from > 0, Dp);
}

void sf_lists_queries_backward(const sf_row *rows, size_t count, const sf_head *head) {
    walk(rows, count, head, query_piece);
}

static void value_piece(const sf_row *row, size_t from, size_t to, const sf_head *head) {
    const size_t Dp = head->job->plan->rows.Dp;
    const float *dcontext = head->dcontext + row->query * head->context_stride;
    if (Dp == COMMON_N)
        add_to_rows(head->dv, head->stride, row->keys + from, row->weights + from, dcontext, to - from, COMMON_N);
    else
        add_to_rows(head->dv, head->stride, row->keys + from, row->weights + from, dcontext, to - from, Dp);
}

static void key_piece(const sf_row *row, size_t from, size_t to, const sf_head *head) {
    const size_t Dp = head->job->plan->rows.Dp;
    const float *q = head->q + row->query * head->stride;
    if (Dp == COMMON_N)
        add_to_rows(head->dk, head->stride, row->keys + from, row->slopes + from, q, to - from, COMMON_N);
    else
        add_to_rows(head->dk, head->stride, row->keys + from, row->slopes + from, q, to - from, Dp);
}

/* The keys of one turn: parts follow each other at this distance. */
static size_t turn_width(size_t T) {
    enum { TURNS = 16 };
    return sf_larger(PIECE, (T / TURNS + PIECE - 1) / PIECE * PIECE);
}

void sf_lists_keys_backward(const sf_row *rows, const sf_row *through, size_t count, const sf_head *head) {
    const size_t T = head->job->plan->model->shape.T, width = turn_width(T);
    const size_t piece = sf_smaller(width, piece_for(through, count, T) / PIECE * PIECE);
    size_t of_values[SF_LIST_TILE] = {0}, of_keys[SF_LIST_TILE] = {0};
    for (size_t turn = 0; turn < T; turn += width) {
        if (head->turns != NULL && !sf_turn_await(head->turns, head->part, head->job->stop)) return;
        for (size_t first = turn; first < sf_smaller(turn + width, T); first += piece) {
            const size_t end = sf_smaller(first + piece, turn + width);
            for (size_t i = 0; i < count; i++) {
                const size_t to = place_of(&rows[i], of_values[i], end);
                value_piece(&rows[i], of_values[i], to, head);
                of_values[i] = to;
            }
            for (size_t i = 0; i < count; i++) {
                const size_t to = place_of(&through[i], of_keys[i], end);
                key_piece(&through[i], of_keys[i], to, head);
                of_keys[i] = to;
            }
        }
        if (head->turns != NULL) sf_turn_end(head->turns, head->part);
    }
}
