/* blocktopk under softmax, where blocks are whole vectors of keys: the queries that keep a block are gathered, so that
 * its rows are read once for several of them, as in a matrix product. Every sum is the chain that the rowwise kernel
 * computes, so the bits are the same; other settings of blocktopk go there.
 *
 * The forward pass saves the chosen blocks and the weights of the kept keys, [T,K] with K = b m: memory linear in T.
 * The backward pass goes through tiles of queries for dq and the gradients of the scores, then through blocks for dk
 * and dv, each of which belongs to one worker. */
#include <assert.h>

#include "base/sizes.h"
#include "kernels/cpu/gathered.h"

enum { DEPTH = 64 /* queries that a block's keys take at a time: their rows stay in the nearest cache */ };

typedef struct blocked_head {
    const sf_head *head;
    size_t T, Dp, width, m, K, count; /* keys of a block, kept blocks, kept keys, blocks */
    uint32_t *chosen;                 /* [T,m]: ascending */
    float *weights, *dropped;         /* [T,K]: before and after dropout; the same without */
    float *slopes;                    /* [T,K]: gradients of the scores */
    const float *panels;              /* keys or values, transposed */
    const uint32_t *first, *places;   /* of all queries, for the second part of the backward pass */
} blocked_head;

static blocked_head open(const sf_head *head) {
    const sf_cpu_plan *plan = head->job->plan;
    const size_t T = plan->model->shape.T, K = plan->block_width * plan->block_m;
    float *weights = head->trace->weights + head->slot * T * K;
    return (blocked_head){
        .head = head,
        .T = T,
        .Dp = plan->rows.Dp,
        .width = plan->block_width,
        .m = plan->block_m,
        .K = K,
        .count = (T + plan->block_width - 1) / plan->block_width,
        .chosen = head->trace->blocks + head->slot * T * plan->block_m,
        .weights = weights,
        .dropped = head->drop.mask.threshold > 0 ? head->trace->factors + head->slot * T * K : weights,
        .slopes = head->job->work->blocked.slopes,
    };
}

/* Keys of a block: the last may be shorter. */
static size_t keys_in(const blocked_head *b, uint32_t block) {
    return sf_smaller(b->T - block * b->width, b->width);
}

/* Kept keys of a query. */
static size_t kept_by(const blocked_head *b, size_t query) {
    return (b->m - 1) * b->width + keys_in(b, b->chosen[query * b->m + b->m - 1]);
}

static size_t tile_of(size_t T) {
    enum { TILES = 16, LEAST = 96, MOST = 1024 };
    return sf_larger(LEAST, sf_smaller(MOST, T / TILES));
}

/* The places query * m + n of some queries, by block and query: those of block i are places[first[i] .. first[i + 1]].
 */
static void sort_by_block(uint32_t *first /* [count+1] */, uint32_t *places, const blocked_head *b, size_t query,
                          size_t queries) {
    const size_t from = query * b->m, to = (query + queries) * b->m;
    memset(first, 0, (b->count + 1) * sizeof *first);
    for (size_t i = from; i < to; i++) first[b->chosen[i] + 1]++;
    for (size_t n = 0; n < b->count; n++) first[n + 1] += first[n];
    for (size_t i = from; i < to; i++) places[first[b->chosen[i]]++] = (uint32_t)i;
    for (size_t n = b->count; n > 0; n--) first[n] = first[n - 1];
    first[0] = 0;
}

/* out[place] = x[query] . row of every key of its block. */
static void take_dots(float *out /* [T,K] */, const float *x, size_t x_row, const blocked_head *b,
                      const uint32_t *first, const uint32_t *places) {
    for (size_t block = 0; block < b->count; block++)
        for (size_t at = first[block], rows; at < first[block + 1]; at += rows) {
            gathered g = {{NULL}, {NULL}};
            rows = sf_smaller(first[block + 1] - at, AT_ONCE);
            for (size_t i = 0; i < rows; i++) {
                g.x[i] = x + places[at + i] / b->m * x_row;
                g.out[i] = out + places[at + i] * b->width; /* place * width = query * K + n * width */
            }
            for (size_t j = 0, keys; j < b->width; j += keys) {
                const size_t key = block * b->width + j;
                keys = sf_smaller(SF_PANEL - key % SF_PANEL, b->width - j);
                dots_with_panel(&g, j, keys, b->panels + key / SF_PANEL * b->Dp * SF_PANEL + key % SF_PANEL, rows,
                                b->Dp);
            }
        }
}

/* out[query] = the sum over kept keys of factors * rows of keys or values. */
static void mix_tile(float *out, size_t out_row, const float *factors /* [T,K] */, const float *keys,
                     const blocked_head *b, size_t query, size_t queries, const uint32_t *first,
                     const uint32_t *places) {
    for (size_t i = query; i < query + queries; i++) clear_row(out + i * out_row, b->Dp);
    for (size_t block = 0; block < b->count; block++)
        for (size_t at = first[block], rows; at < first[block + 1]; at += rows) {
            gathered g = {{NULL}, {NULL}};
            rows = sf_smaller(first[block + 1] - at, AT_ONCE);
            assert(rows > 0);
            for (size_t i = 0; i < rows; i++) {
                g.x[i] = factors + places[at + i] * b->width;
                g.out[i] = out + places[at + i] / b->m * out_row;
            }
            mix_gathered(&g, keys, b->head->stride, b->head->job->plan->every + block * b->width,
                         keys_in(b, (uint32_t)block), rows, b->Dp);
        }
}

static void choose(const blocked_head *b, size_t query) {
    const sf_cpu_plan *plan = b->head->job->plan;
    const sf_query asked = {.query = query,
                            .keys = b->T,
                            .visible = b->T,
                            .arguments = plan->model->shape.attention.arguments,
                            .head = &b->head->state->input,
                            .prepared = b->head->state->scratch};
    sf_blocktopk_choose(b->chosen + query * b->m, &asked);
}

/* Scores become weights, and weights after dropout. */
static void weigh(const blocked_head *b, size_t query, uint32_t *keys /* [K] */) {
    const sf_head *head = b->head;
    const size_t count = kept_by(b, query);
    float *weights = b->weights + query * b->K, *dropped = b->dropped + query * b->K;
    for (size_t n = 0; n < count; n++) weights[n] *= head->job->plan->score_scale;
    softmax(weights, count);
    if (dropped == weights) return;
    for (size_t n = 0; n < count; n++)
        keys[n] = (uint32_t)(b->chosen[query * b->m + n / b->width] * b->width + n % b->width);
    sf_keep_factors_of_row(dropped, head->drop.mask, &head->drop.index, b->T, keys, count, query);
    for (size_t n = 0; n < count; n++) dropped[n] *= weights[n];
}

static void forward_tiles(sf_offer *offer, const sf_workspace *mine) {
    const blocked_head *b = offer->task;
    const sf_head *head = b->head;
    const sf_block_space *my = &mine->blocked;
    const size_t tile = tile_of(b->T);
    for (size_t part; (part = sf_offer_next_part(offer)) < offer->parts;) {
        const size_t query = part * tile, queries = sf_smaller(b->T - query, tile);
        for (size_t i = query; i < query + queries; i++) choose(b, i);
        sort_by_block(my->first, my->places, b, query, queries);
        take_dots(b->weights, head->q, head->stride, b, my->first, my->places);
        for (size_t i = query; i < query + queries; i++) weigh(b, i, mine->rowwise.keys);
        mix_tile(head->context, head->context_stride, b->dropped, head->v, b, query, queries, my->first, my->places);
    }
}

static void share(const blocked_head *b, size_t parts, sf_take_parts *take_parts) {
    sf_offer_share(b->head->job->offer, b, parts, take_parts, b->head->job->work);
}

static void transpose(blocked_head *b, float *out, const float *rows) {
    sf_transpose_to_panels(out, 1.0F, rows, b->head->stride, b->T, b->Dp);
    b->panels = out;
}

void sf_blocks_forward(const sf_opened_head *opened) {
    blocked_head b = open(&opened->head);
    transpose(&b, opened->head.job->work->keys_t, opened->head.k);
    share(&b, (b.T + tile_of(b.T) - 1) / tile_of(b.T), forward_tiles);
}

/* Gradients of the weights become those of the scores, times their scale. */
static void weigh_backward(const blocked_head *b, size_t query) {
    const sf_head *head = b->head;
    const size_t count = kept_by(b, query);
    const float *weights = b->weights + query * b->K, *dropped = b->dropped + query * b->K;
    const float kept_scale = head->drop.mask.scale;
    float *slopes = b->slopes + query * b->K;
    for (size_t n = 0; n < count && dropped != weights; n++) /* a weight that is not dropped is not 0 */
        slopes[n] = (dropped[n] == 0.0F ? 0.0F : kept_scale) * slopes[n];
    softmax_backward(slopes, weights, count);
    for (size_t n = 0; n < count; n++) slopes[n] *= head->job->plan->score_scale;
}

static void queries_backward(sf_offer *offer, const sf_workspace *mine) {
    const blocked_head *b = offer->task;
    const sf_head *head = b->head;
    const sf_block_space *my = &mine->blocked;
    const size_t tile = tile_of(b->T);
    for (size_t part; (part = sf_offer_next_part(offer)) < offer->parts;) {
        const size_t query = part * tile, queries = sf_smaller(b->T - query, tile);
        sort_by_block(my->first, my->places, b, query, queries);
        take_dots(b->slopes, head->dcontext, head->context_stride, b, my->first, my->places);
        for (size_t i = query; i < query + queries; i++) weigh_backward(b, i);
        mix_tile(head->dq, head->stride, b->slopes, head->k, b, query, queries, my->first, my->places);
    }
}

typedef struct addends { /* rows of queries that keep a block, and their factors of its keys */
    const float *rows[DEPTH], *factors[DEPTH];
    size_t count;
} addends;

/* Some keys of a block, a tile of sums in registers. */
INLINE void add_tile(float *out, size_t out_row, const addends *a, size_t key, size_t column, size_t rows,
                     size_t vectors) {
    vf sums[AT_ONCE][TILE_VECTORS];
    for (size_t j = 0; j < rows; j++)
        for (size_t v = 0; v < vectors; v++) sums[j][v] = load(out + j * out_row + v * VL);
    for (size_t i = 0; i < a->count; i++) {
        vf row[TILE_VECTORS];
        for (size_t v = 0; v < vectors; v++) row[v] = load(a->rows[i] + column + v * VL);
        for (size_t j = 0; j < rows; j++)
            for (size_t v = 0; v < vectors; v++)
                sums[j][v] = multiply_add(splat(a->factors[i][key + j]), row[v], sums[j][v]);
    }
    for (size_t j = 0; j < rows; j++)
        for (size_t v = 0; v < vectors; v++) store(out + j * out_row + v * VL, sums[j][v]);
}

/* The gradients of the keys or values of a block. */
static void add_addends(float *out, size_t out_row, const addends *a, size_t keys, size_t N) {
    for (size_t j = 0, rows; j < keys; j += rows) {
        rows = keys - j >= AT_ONCE ? AT_ONCE : 1;
        for (size_t c = 0, vectors; c < N; c += vectors * VL) {
            vectors = N - c >= (size_t)TILE_VECTORS * VL ? TILE_VECTORS : 1;
            float *at = out + j * out_row + c;
            if (rows == AT_ONCE && vectors == TILE_VECTORS)
                add_tile(at, out_row, a, j, c, AT_ONCE, TILE_VECTORS);
            else if (rows == AT_ONCE)
                add_tile(at, out_row, a, j, c, AT_ONCE, 1);
            else if (vectors == TILE_VECTORS)
                add_tile(at, out_row, a, j, c, 1, TILE_VECTORS);
            else
                add_tile(at, out_row, a, j, c, 1, 1);
        }
    }
}

static void block_backward(float *drows, const float *factors, const float *x, size_t x_row, const blocked_head *b,
                           size_t block) {
    float *out = drows + block * b->width * b->head->stride;
    for (size_t at = b->first[block]; at < b->first[block + 1]; at += DEPTH) {
        addends a = {.count = sf_smaller(b->first[block + 1] - at, DEPTH)};
        for (size_t i = 0; i < a.count; i++) {
            const size_t place = b->places[at + i];
            a.rows[i] = x + place / b->m * x_row;
            a.factors[i] = factors + place * b->width;
        }
        add_addends(out, b->head->stride, &a, keys_in(b, (uint32_t)block), b->Dp);
    }
}

static void keys_backward(sf_offer *offer, const sf_workspace *mine) {
    (void)mine;
    const blocked_head *b = offer->task;
    const sf_head *head = b->head;
    for (size_t block; (block = sf_offer_next_part(offer)) < offer->parts;) {
        block_backward(head->dv, b->dropped, head->dcontext, head->context_stride, b, block);
        block_backward(head->dk, b->slopes, head->q, head->stride, b, block);
    }
}

void sf_blocks_backward(const sf_head *head) {
    blocked_head b = open(head);
    const sf_block_space *space = &head->job->work->blocked;
    transpose(&b, head->job->work->keys_t, head->v);
    share(&b, (b.T + tile_of(b.T) - 1) / tile_of(b.T), queries_backward);
    sort_by_block(space->first, space->places, &b, 0, b.T);
    b.first = space->first;
    b.places = space->places;
    share(&b, b.count, keys_backward);
}
