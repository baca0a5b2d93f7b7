/* lsh:b:r: queries and keys are hashed into b buckets, r times; a query keeps the keys that share a bucket with it.
 *
 * Round n draws a matrix R [D, b/2] of normal numbers, the same for all sequences of a step, for each block and head (a
 * stream of its own in evaluation). The bucket of x is the index of the largest of (x R, -x R). A query keeps the
 * visible keys that share a bucket with it in any round, and its own key. Source: the idea of Reformer (Kitaev et al.
 * 2020), without shared queries and keys. Settings: b even, from 2 to 65536; r from 1 to 64.
 * Cost: r T^2 d / b for equal buckets, b r T d / 2 for the hashes.
 * Example: semfocus train even-pairs --attention lsh:8:2 */
#include <string.h>

#include "attention/groups.h"
#include "attention/products.h"
#include "attention/room.h"
#include "base/sizes.h"

enum { MOST_ROUNDS = 64 };

typedef struct hashes {
    size_t buckets, rounds;
    double *matrix;         /* [D,b/2]: of the round in progress */
    double *products;       /* [b/2] */
    uint32_t *of_query;     /* [rounds,T] */
    uint32_t *of_key;       /* [T] */
    uint32_t *first, *keys; /* [rounds,b+1], [rounds,T]: the keys of bucket n in a round are keys[first[n] ..] */
    uint32_t *order;        /* [T]: queries, those of the same buckets side by side */
    uint32_t *group;        /* [T]: of each query; queries of the same buckets are a group */
} hashes;

static hashes lay_out(const void *scratch, size_t T, size_t D, const double *arguments) {
    hashes h = {.buckets = (size_t)arguments[0], .rounds = (size_t)arguments[1]};
    h.matrix = (double *)scratch;
    h.products = h.matrix + D * (h.buckets / 2);
    h.of_query = (uint32_t *)(void *)(h.products + h.buckets / 2);
    h.of_key = h.of_query + h.rounds * T;
    h.first = h.of_key + T;
    h.keys = h.first + h.rounds * (h.buckets + 1);
    h.order = h.keys + h.rounds * T;
    h.group = h.order + T;
    return h;
}

static size_t scratch_size(const sf_head_input *head) {
    const size_t half = (size_t)head->arguments[0] / 2, rounds = (size_t)head->arguments[1];
    return (head->D + 1) * half * sizeof(double) +
           ((2 * rounds + 3) * head->T + rounds * (2 * half + 1)) * sizeof(uint32_t);
}

static uint32_t bucket_of(const hashes *h, const double *x, size_t D) {
    const size_t half = h->buckets / 2;
    sf_products(h->products, x, h->matrix, half, D, half);
    uint32_t best = 0;
    double largest = h->products[0];
    for (size_t n = 1; n < h->buckets; n++) {
        const double product = n < half ? h->products[n] : -h->products[n - half];
        if (product > largest) {
            largest = product;
            best = (uint32_t)n;
        }
    }
    return best;
}

/* Sorts by bucket; what shares a bucket stays in order. Those of bucket n become sorted[first[n] .. first[n + 1] - 1].
 */
static void sort_by_bucket(uint32_t *first /* [buckets+1] */, uint32_t *sorted /* [T] */,
                           const uint32_t *rows /* [T]; NULL: 0, 1, 2, ... */, const uint32_t *bucket /* [T] */,
                           size_t buckets, size_t T) {
    memset(first, 0, (buckets + 1) * sizeof *first);
    for (size_t j = 0; j < T; j++) first[bucket[j] + 1]++;
    for (size_t n = 0; n < buckets; n++) first[n + 1] += first[n];
    for (size_t j = 0; j < T; j++) {
        const uint32_t row = rows != NULL ? rows[j] : (uint32_t)j;
        sorted[first[bucket[row]]++] = row;
    }
    for (size_t n = buckets; n > 0; n--) first[n] = first[n - 1];
    first[0] = 0;
}

static bool share_all_buckets(const hashes *h, size_t T, uint32_t query, uint32_t other) {
    for (size_t round = 0; round < h->rounds; round++)
        if (h->of_query[round * T + query] != h->of_query[round * T + other]) return false;
    return true;
}

/* Sorted by one round after the other, queries of the same buckets come to lie side by side. */
static void group_queries(const hashes *h, size_t T) {
    uint32_t *sorted = h->of_key, *first = (uint32_t *)(void *)h->matrix; /* which is no longer needed */
    for (size_t round = 0; round < h->rounds; round++) {
        sort_by_bucket(first, sorted, round > 0 ? h->order : NULL, h->of_query + round * T, h->buckets, T);
        memcpy(h->order, sorted, T * sizeof *sorted);
    }
    uint32_t group = 0;
    for (size_t i = 0; i < T; i++) {
        if (i > 0 && !share_all_buckets(h, T, h->order[i - 1], h->order[i])) group++;
        h->group[h->order[i]] = group;
    }
}

static void prepare(void *scratch, const sf_head_input *head) {
    const size_t T = head->T, D = head->D;
    const hashes h = lay_out(scratch, T, D, head->arguments);
    for (size_t round = 0; round < h.rounds; round++) {
        for (size_t i = 0; i < D * (h.buckets / 2); i++) h.matrix[i] = sf_draw_normal(head->step_draws);
        for (size_t j = 0; j < T; j++) {
            if (sf_preparation_is_stopped()) return;
            h.of_query[round * T + j] = bucket_of(&h, head->queries + j * head->stride, D);
            h.of_key[j] = bucket_of(&h, head->keys + j * head->stride, D);
        }
        sort_by_bucket(h.first + round * (h.buckets + 1), h.keys + round * T, NULL, h.of_key, h.buckets, T);
    }
    group_queries(&h, T);
}

enum { WORDS = 65536 / 64 + 1 }; /* a bit for every position there may be */

/* Marks the visible keys of the query's buckets, and its own if asked to; counting marks in order lists them in order.
 */
static size_t keep_from_buckets(uint32_t *kept, const hashes *h, size_t query, size_t T, size_t visible, bool own) {
    const size_t words = visible / 64 + 1;
    uint64_t marks[WORDS];
    memset(marks, 0, words * sizeof *marks);
    marks[query / 64] |= (uint64_t)own << query % 64;
    for (size_t round = 0; round < h->rounds; round++) {
        const uint32_t bucket = h->of_query[round * T + query];
        const uint32_t *first = h->first + round * (h->buckets + 1) + bucket, *keys = h->keys + round * T;
        for (size_t i = first[0]; i < first[1] && keys[i] < visible; i++)
            marks[keys[i] / 64] |= UINT64_C(1) << keys[i] % 64;
    }
    size_t count = 0;
    for (size_t word = 0; word < words; word++)
        for (uint64_t left = marks[word]; left != 0; left &= left - 1)
            kept[count++] = (uint32_t)(64 * word) + (uint32_t)__builtin_ctzll(left);
    return count;
}

static size_t keep_shared_buckets(uint32_t *kept, const sf_query *query) {
    const sf_head_input *head = query->head;
    const hashes h = lay_out(query->prepared, head->T, head->D, head->arguments);
    return keep_from_buckets(kept, &h, query->query, head->T, query->visible, true);
}

sf_query_groups sf_lsh_groups(const sf_head_state *head) {
    const hashes h = lay_out(head->scratch, head->input.T, head->input.D, head->input.arguments);
    return (sf_query_groups){.order = h.order, .of_query = h.group};
}

size_t sf_lsh_keep_group(uint32_t *kept, const sf_head_state *head, size_t query) {
    const hashes h = lay_out(head->scratch, head->input.T, head->input.D, head->input.arguments);
    return keep_from_buckets(kept, &h, query, head->input.T, head->input.T, false);
}

static const char *refuse(size_t k, const double *arguments) {
    (void)k;
    return (size_t)arguments[0] % 2 == 0 ? NULL : "the number of buckets must be even";
}

const sf_selector sf_selector_lsh = {
    SF_SELECTOR,
    .name = "lsh",
    .summary = "the keys in the query's own bucket, of B, in any of R rounds of hashing",
    .selects_by = SF_BY_VECTORS | SF_BY_CHANCE,
    .keep = keep_shared_buckets,
    .arguments = {{.letter = "B",
                   .meaning = "the number of buckets",
                   .low = 2,
                   .high = 65536,
                   .initial = 8,
                   .required = true,
                   .whole = true},
                  {.letter = "R",
                   .meaning = "the number of rounds",
                   .low = 1,
                   .high = MOST_ROUNDS,
                   .initial = 2,
                   .required = true,
                   .whole = true}},
    .scratch_size = scratch_size,
    .prepare = prepare,
    .refuse = refuse,
    .formula = "bucket of x = argmax (xR, -xR), R normal; keys that share a bucket with the query",
    .cost = "R T^2 d / B for equal buckets, B R T d / 2 for the hashes",
    .source = "Kitaev et al. 2020, arXiv 2001.04451 (Reformer)",
};
