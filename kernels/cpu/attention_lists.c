/* Products of a tile of queries with the keys that each of them lists, in ascending order.
 *
 * The lists are walked side by side, some keys at a time, so that the rows of these keys stay in the nearest cache
 * while all queries of the tile read them. Queries that share a list are computed together, as in a matrix product. For
 * the gradients of keys and values the lists are turned over: which queries list a key, so that its sums stay in
 * registers. Every sum is still one chain over ascending keys, or ascending queries: how keys are cut into pieces
 * changes no bit. */
#include "base/sizes.h"
#include "kernels/cpu/gathered.h"

enum {
    PIECE = 64,     /* keys that are walked at a time, at least */
    PER_PIECE = 64, /* that a query lists among them, where they are few: else the walk itself takes the time */
};

/* Takes the places from..to-1 of the list that some rows share. Place n comes after the own keys that rows have there;
 * behind the last key, there is a place for own keys alone. */
typedef void take_places(const sf_row *rows, size_t count, size_t from, size_t to, const sf_head *head);

/* The first place from `at` on whose key is not below `end`. */
static size_t place_of(const sf_row *row, size_t at, size_t end, size_t T) {
    const size_t listed = sf_row_listed(row);
    if (end >= T) return listed;
    while (at + 8 <= listed && row->keys[at + 7] < end) at += 8;
    while (at < listed && row->keys[at] < end) at++;
    return at;
}

static size_t piece_for(const sf_row *rows, size_t count, size_t T) {
    size_t listed = 1;
    for (size_t i = 0; i < count; i++) listed += rows[i].count;
    return sf_larger(PIECE, sf_smaller(T, PER_PIECE * T * count / listed));
}

/* How many of the rows share the first one's list. */
static size_t sharing(const sf_row *rows, size_t count) {
    size_t n = 1;
    while (n < count && rows[n].keys == rows->keys && sf_row_listed(&rows[n]) == sf_row_listed(rows)) n++;
    return n;
}

/* `most`: rows that are taken together. */
static void walk(const sf_row *rows, size_t count, const sf_head *head, size_t most, take_places *take) {
    const size_t T = head->job->plan->model->shape.T, piece = piece_for(rows, count, T);
    size_t at[SF_LIST_TILE] = {0};
    for (size_t end = piece; end < T + piece; end += piece) {
        if (sf_stop_asked(head->job->stop)) return;
        for (size_t i = 0, n; i < count; i += n) {
            n = sharing(rows + i, sf_smaller(count - i, most));
            const size_t to = place_of(&rows[i], at[i], end, T) + (end >= T);
            if (to > at[i]) take(rows + i, n, at[i], to, head);
            at[i] = to;
        }
    }
}

/* The rows of listed keys, transposed, the last one again behind them. */
static void pack(float *panel /* [Dp,SF_PANEL] */, const float *rows, size_t stride, const uint32_t *keys, size_t count,
                 size_t Dp) {
    for (size_t n = 0; n < count; n += VL)
        for (size_t c = 0; c < Dp; c += VL) {
            vf square[VL];
#pragma GCC unroll 16
            for (size_t i = 0; i < VL; i++) square[i] = load(rows + keys[sf_smaller(n + i, count - 1)] * stride + c);
            transpose_lanes(square);
#pragma GCC unroll 16
            for (size_t i = 0; i < VL; i++) store(panel + (c + i) * SF_PANEL + n, square[i]);
        }
}

/* Vectors of up to AT_ONCE rows, and where their dot products with listed keys go. */
static gathered gather_dots(const sf_row *rows, size_t count, const sf_head *head, bool scores) {
    gathered g = {{NULL}, {NULL}};
    for (size_t i = 0; i < count; i++) {
        g.x[i] =
            scores ? head->q + rows[i].query * head->stride : head->dcontext + rows[i].query * head->context_stride;
        g.out[i] = scores ? rows[i].scores : rows[i].slopes;
    }
    return g;
}

/* All at once: the keys are in the nearest cache when they have been transposed. */
static void take_dots_of_many(const sf_row *rows, size_t count, const sf_head *head, bool scores) {
    const size_t Dp = head->job->plan->rows.Dp, listed = sf_row_listed(rows);
    float *panel = head->job->work->keys_t;
    for (size_t at = 0, n; at < listed; at += n) {
        n = sf_smaller(listed - at, SF_PANEL);
        pack(panel, scores ? head->k : head->v, head->stride, rows->keys + at, n, Dp);
        for (size_t i = 0, some; i < count; i += some) {
            some = sf_smaller(count - i, AT_ONCE);
            const gathered g = gather_dots(rows + i, some, head, scores);
            dots_with_panel(&g, at, n, panel, some, Dp);
        }
    }
}

/* Dot products of rows with the keys of some places, own keys left out: in the results, they have no place yet. */
static void take_dots(const sf_row *rows, size_t count, size_t from, size_t to, const sf_head *head, bool scores) {
    enum { MANY = 6 }; /* rows for which it takes less time to transpose the keys */
    const size_t Dp = head->job->plan->rows.Dp, end = sf_smaller(to, sf_row_listed(rows));
    const float *key_rows = scores ? head->k : head->v;
    if (count >= MANY) {
        if (from == 0) take_dots_of_many(rows, count, head, scores);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const gathered g = gather_dots(rows + i, 1, head, scores);
        if (Dp == COMMON_N)
            dots_of(g.out[0] + from, g.x[0], key_rows, head->stride, rows->keys + from, end - from, COMMON_N);
        else
            dots_of(g.out[0] + from, g.x[0], key_rows, head->stride, rows->keys + from, end - from, Dp);
    }
}

/* Makes room for the dot product with the own key. */
static void insert_own(float *dots, const sf_row *row, const float *x, const float *own_row, size_t Dp) {
    if (!row->adds_own) return;
    memmove(dots + row->own + 1, dots + row->own, (row->count - 1 - row->own) * sizeof *dots);
    dots[row->own] = sf_dot(x, own_row, Dp);
}

static void take_scores(const sf_row *rows, size_t count, size_t from, size_t to, const sf_head *head) {
    take_dots(rows, count, from, to, head, true);
}

void sf_lists_score(const sf_row *rows, size_t count, const sf_head *head) {
    const sf_cpu_plan *plan = head->job->plan;
    walk(rows, count, head, count, take_scores);
    for (size_t i = 0; i < count; i++) {
        const size_t at = rows[i].query * head->stride;
        insert_own(rows[i].scores, &rows[i], head->q + at, head->k + at, plan->rows.Dp);
        for (size_t n = 0; n < rows[i].count; n++) rows[i].scores[n] *= plan->score_scale;
    }
}

static void take_slopes(const sf_row *rows, size_t count, size_t from, size_t to, const sf_head *head) {
    take_dots(rows, count, from, to, head, false);
}

void sf_lists_slopes(const sf_row *rows, size_t count, const sf_head *head) {
    walk(rows, count, head, count, take_slopes);
    for (size_t i = 0; i < count; i++) {
        insert_own(rows[i].slopes, &rows[i], head->dcontext + rows[i].query * head->context_stride,
                   head->v + rows[i].query * head->stride, head->job->plan->rows.Dp);
        for (size_t n = 0; n < rows[i].count && rows[i].factors != NULL; n++) rows[i].slopes[n] *= rows[i].factors[n];
    }
}

/* out += the sum of factors[n] * rows of keys or values. An own key of a row comes before the listed key of its place.
 */
static void mix_places(const sf_row *rows, const float *const factors[AT_ONCE], float *const out[AT_ONCE], size_t count,
                       size_t from, size_t to, const float *key_rows, const sf_head *head) {
    const size_t listed = sf_row_listed(rows), Dp = head->job->plan->rows.Dp;
    for (size_t at = from, next; at < to; at = next) {
        gathered g = {{NULL}, {NULL}};
        next = to;
        for (size_t i = 0; i < count; i++) {
            const size_t own = rows[i].adds_own ? rows[i].own : SIZE_MAX;
            const uint32_t own_key = (uint32_t)rows[i].query;
            if (own == at)
                mix_gathered(&(gathered){{factors[i] + own}, {out[i]}}, key_rows, head->stride, &own_key, 1, 1, Dp);
            else if (own > at)
                next = sf_smaller(next, own);
            g.x[i] = factors[i] + at + (own <= at);
            g.out[i] = out[i];
        }
        if (at < listed)
            mix_gathered(&g, key_rows, head->stride, rows->keys + at, sf_smaller(next, listed) - at, count, Dp);
    }
}

static void mix_values(const sf_row *rows, size_t count, size_t from, size_t to, const sf_head *head) {
    const float *factors[AT_ONCE];
    float *out[AT_ONCE];
    for (size_t i = 0; i < count; i++) {
        factors[i] = rows[i].weights;
        out[i] = head->context + rows[i].query * head->context_stride;
    }
    mix_places(rows, factors, out, count, from, to, head->v, head);
}

void sf_lists_mix(const sf_row *rows, size_t count, const sf_head *head) {
    for (size_t i = 0; i < count; i++)
        clear_row(head->context + rows[i].query * head->context_stride, head->job->plan->rows.Dp);
    walk(rows, count, head, AT_ONCE, mix_values);
}

static void mix_keys(const sf_row *rows, size_t count, size_t from, size_t to, const sf_head *head) {
    const float *factors[AT_ONCE];
    float *out[AT_ONCE];
    for (size_t i = 0; i < count; i++) {
        factors[i] = rows[i].slopes;
        out[i] = head->dq + rows[i].query * head->stride;
    }
    mix_places(rows, factors, out, count, from, to, head->k, head);
}

void sf_lists_queries_backward(const sf_row *rows, size_t count, const sf_head *head) {
    for (size_t i = 0; i < count; i++) clear_row(head->dq + rows[i].query * head->stride, head->job->plan->rows.Dp);
    walk(rows, count, head, AT_ONCE, mix_keys);
}

enum { DEPTH = 64 /* queries that a key's sums take at a time: their rows stay in the nearest cache */ };

typedef struct column { /* the queries that list a key, ascending, and their factors of it */
    uint32_t queries[DEPTH];
    float weights[DEPTH], slopes[DEPTH];
    size_t count;
} column;

/* Some keys, and the rows that list them. */
typedef struct columns {
    column at[PIECE];
    size_t first_key, end_key;
    bool values, keys; /* whose gradients are wanted: those of the others stay */
} columns;

INLINE void add_to_column(columns *c, size_t key, const sf_row *row, size_t place) {
    column *at = &c->at[key - c->first_key];
    at->queries[at->count] = (uint32_t)row->query;
    at->weights[at->count] = row->weights[place];
    at->slopes[at->count++] = row->slopes[place];
}

/* The places from..to-1 of the row's list, and its own key where that is added. */
static void list_columns(columns *c, const sf_row *row, size_t from, size_t to) {
    for (size_t n = from; n < to; n++) add_to_column(c, row->keys[n], row, n + (row->adds_own && n >= row->own));
    if (row->adds_own && row->query >= c->first_key && row->query < c->end_key)
        add_to_column(c, row->query, row, row->own);
}

/* `vectors`, `values` and `keys` are constants where this is inlined. */
INLINE void add_column_part(const column *c, size_t key, size_t at, const sf_head *head, bool values, bool keys,
                            size_t vectors) {
    float *dv = head->dv + key * head->stride + at, *dk = head->dk + key * head->stride + at;
    vf of_values[TILE_VECTORS], of_keys[TILE_VECTORS];
    for (size_t v = 0; v < vectors && values; v++) of_values[v] = load(dv + v * VL);
    for (size_t v = 0; v < vectors && keys; v++) of_keys[v] = load(dk + v * VL);
    for (size_t i = 0; i < c->count; i++) {
        const float *dcontext = head->dcontext + c->queries[i] * head->context_stride + at;
        const float *q = head->q + c->queries[i] * head->stride + at;
        for (size_t v = 0; v < vectors && values; v++)
            of_values[v] = multiply_add(splat(c->weights[i]), load(dcontext + v * VL), of_values[v]);
        for (size_t v = 0; v < vectors && keys; v++)
            of_keys[v] = multiply_add(splat(c->slopes[i]), load(q + v * VL), of_keys[v]);
    }
    for (size_t v = 0; v < vectors && values; v++) store(dv + v * VL, of_values[v]);
    for (size_t v = 0; v < vectors && keys; v++) store(dk + v * VL, of_keys[v]);
}

INLINE void add_column(const column *c, size_t key, const sf_head *head, bool values, bool keys) {
    const size_t Dp = head->job->plan->rows.Dp, wide = (size_t)TILE_VECTORS * VL;
    size_t at = 0;
    for (; at + wide <= Dp; at += wide) add_column_part(c, key, at, head, values, keys, TILE_VECTORS);
    for (; at < Dp; at += VL) add_column_part(c, key, at, head, values, keys, 1);
}

static void add_columns(columns *c, const sf_head *head) {
    for (size_t j = 0; j < c->end_key - c->first_key; j++) {
        if (c->values && c->keys)
            add_column(&c->at[j], c->first_key + j, head, true, true);
        else if (c->values)
            add_column(&c->at[j], c->first_key + j, head, true, false);
        else
            add_column(&c->at[j], c->first_key + j, head, false, true);
        c->at[j].count = 0;
    }
}

typedef struct listing { /* rows in ascending order of their queries, and how far their lists are done */
    const sf_row *rows[SF_LIST_TILE];
    size_t at[SF_LIST_TILE], count;
} listing;

static void order_by_query(listing *out, const sf_row *rows, size_t count) {
    size_t first = rows->query;
    for (size_t i = 1; i < count; i++) first = sf_smaller(first, rows[i].query);
    for (size_t i = 0; i < count; i++) {
        out->rows[rows[i].query - first] = &rows[i];
        out->at[i] = 0;
    }
    out->count = count;
}

/* The gradients of the columns' keys. */
static void add_to_piece(columns *c, listing *l, const sf_head *head) {
    for (size_t first = 0; first < l->count; first += DEPTH) {
        for (size_t i = first; i < sf_smaller(first + DEPTH, l->count); i++) {
            const size_t to = place_of(l->rows[i], l->at[i], c->end_key, head->job->plan->model->shape.T);
            list_columns(c, l->rows[i], l->at[i], to);
            l->at[i] = to;
        }
        add_columns(c, head);
    }
}

/* The keys of one turn: parts follow each other at this distance. */
static size_t turn_width(size_t T) {
    enum { TURNS = 16 };
    return sf_larger(PIECE, (T / TURNS + PIECE - 1) / PIECE * PIECE);
}

void sf_lists_keys_backward(const sf_row *rows, const sf_row *through, size_t count, const sf_head *head) {
    const size_t T = head->job->plan->model->shape.T, width = turn_width(T);
    listing of_values, of_keys;
    columns c;
    for (size_t j = 0; j < PIECE; j++) c.at[j].count = 0;
    order_by_query(&of_values, rows, count);
    order_by_query(&of_keys, through, count);
    const bool same = through->keys == rows->keys;
    for (size_t turn = 0; turn < T; turn += width) {
        if (head->turns != NULL && !sf_turn_await(head->turns, head->part, head->job->stop)) return;
        for (size_t first = turn; first < sf_smaller(turn + width, T); first += PIECE) {
            c.first_key = first;
            c.end_key = sf_smaller(first + PIECE, T);
            c.values = true;
            c.keys = same;
            add_to_piece(&c, &of_values, head);
            if (same) continue;
            c.values = false;
            c.keys = true;
            add_to_piece(&c, &of_keys, head);
        }
        if (head->turns != NULL) sf_turn_end(head->turns, head->part);
    }
}
