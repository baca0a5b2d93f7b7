/* kmeans:c:r: keys are clustered; a query keeps the keys of its own cluster.
 *
 * Keys are normalized. Centroids start at the keys floor(m T / c), m = 0..c-1. In each of r rounds every key goes to
 * the centroid of largest product, and every centroid becomes the normalized mean of its keys (without keys it stays).
 * Then keys and queries are assigned once more. A query whose cluster has no key keeps its own. Ties go to the lower
 * cluster; all of it is constant in the backward pass. Not for causal models: a cluster depends on later keys. Source:
 * the idea of the Routing Transformer (Roy et al. 2021). Settings: c from 1 to 65536, r from 0 to 100.
 * Cost: T^2 d / c for equal clusters, (r + 2) c T d for the clusters.
 * Example: semfocus train even-pairs --attention kmeans:4:2 */
#include <math.h>
#include <string.h>

#include "attention/groups.h"
#include "attention/products.h"
#include "attention/room.h"
#include "base/sizes.h"

typedef struct clusters {
    size_t count;
    double *centroids;             /* [D,count]: side by side, so that products with several are computed at once */
    double *unit;                  /* [T,D]: normalized keys */
    double *products;              /* [count] */
    uint32_t *of_key;              /* [T] */
    uint32_t *of_query;            /* [T] */
    uint32_t *first, *keys;        /* [count+1], [T]: the keys of cluster n are keys[first[n] .. first[n + 1] - 1] */
    uint32_t *first_query, *order; /* [count+1], [T]: its queries likewise */
} clusters;

static clusters lay_out(const void *scratch, size_t T, size_t D, const double *arguments) {
    clusters c = {.count = (size_t)arguments[0]};
    c.centroids = (double *)scratch;
    c.unit = c.centroids + D * c.count;
    c.products = c.unit + T * D;
    c.of_key = (uint32_t *)(void *)(c.products + c.count);
    c.of_query = c.of_key + T;
    c.first = c.of_query + T;
    c.keys = c.first + c.count + 1;
    c.first_query = c.keys + T;
    c.order = c.first_query + c.count + 1;
    return c;
}

static size_t scratch_size(const sf_head_input *head) {
    const size_t T = head->T, D = head->D, count = (size_t)head->arguments[0];
    return (D * count + T * D + count) * sizeof(double) + (4 * T + 2 * (count + 1)) * sizeof(uint32_t);
}

/* 0 stays 0. */
static void normalize(double *x, size_t D, size_t stride) {
    double square = 0;
    for (size_t c = 0; c < D; c++) square += x[c * stride] * x[c * stride];
    const double inverse = square > 0 ? 1 / sqrt(square) : 0;
    for (size_t c = 0; c < D; c++) x[c * stride] *= inverse;
}

/* The centroid of largest product. */
static uint32_t nearest(const clusters *c, const double *x, size_t D) {
    sf_products(c->products, x, c->centroids, c->count, D, c->count);
    uint32_t best = 0;
    for (size_t n = 1; n < c->count; n++)
        if (c->products[n] > c->products[best]) best = (uint32_t)n;
    return best;
}

static void assign(uint32_t *cluster /* [T] */, const clusters *c, const double *rows, size_t stride,
                   const sf_head_input *head) {
    for (size_t j = 0; j < head->T && !sf_preparation_is_stopped(); j++)
        cluster[j] = nearest(c, rows + j * stride, head->D);
}

/* Lists the keys or queries of every cluster. */
static void list_members(uint32_t *first /* [count+1] */, uint32_t *rows /* [T] */, const uint32_t *cluster /* [T] */,
                         size_t count, size_t T) {
    memset(first, 0, (count + 1) * sizeof *first);
    for (size_t j = 0; j < T; j++) first[cluster[j] + 1]++;
    for (size_t n = 0; n < count; n++) first[n + 1] += first[n];
    for (size_t j = 0; j < T; j++) rows[first[cluster[j]]++] = (uint32_t)j;
    for (size_t n = count; n > 0; n--) first[n] = first[n - 1];
    first[0] = 0;
}

static void move_centroids(const clusters *c, size_t D) {
    for (size_t n = 0; n < c->count; n++) {
        if (c->first[n] == c->first[n + 1]) continue;
        for (size_t d = 0; d < D; d++) {
            double sum = 0;
            for (size_t i = c->first[n]; i < c->first[n + 1]; i++) sum += c->unit[c->keys[i] * D + d];
            c->centroids[d * c->count + n] = sum / (double)(c->first[n + 1] - c->first[n]);
        }
        normalize(c->centroids + n, D, c->count);
    }
}

static void prepare(void *scratch, const sf_head_input *head) {
    const size_t T = head->T, D = head->D;
    const clusters c = lay_out(scratch, T, D, head->arguments);
    for (size_t j = 0; j < T; j++) {
        memcpy(c.unit + j * D, head->keys + j * head->stride, D * sizeof *c.unit);
        normalize(c.unit + j * D, D, 1);
    }
    for (size_t n = 0; n < c.count; n++)
        for (size_t d = 0; d < D; d++) c.centroids[d * c.count + n] = c.unit[n * T / c.count * D + d];
    for (size_t round = 0; round < (size_t)head->arguments[1]; round++) {
        assign(c.of_key, &c, c.unit, D, head);
        if (sf_preparation_is_stopped()) return;
        list_members(c.first, c.keys, c.of_key, c.count, T);
        move_centroids(&c, D);
    }
    assign(c.of_key, &c, c.unit, D, head);
    if (sf_preparation_is_stopped()) return;
    list_members(c.first, c.keys, c.of_key, c.count, T);
    assign(c.of_query, &c, head->queries, head->stride, head);
    if (sf_preparation_is_stopped()) return;
    list_members(c.first_query, c.order, c.of_query, c.count, T);
}

static size_t keep_cluster(uint32_t *kept, const clusters *c, size_t query) {
    const uint32_t own = c->of_query[query], first = c->first[own];
    const size_t count = c->first[own + 1] - first;
    memcpy(kept, c->keys + first, count * sizeof *kept);
    return count;
}

static size_t keep_own_cluster(uint32_t *kept, const sf_query *query) {
    const sf_head_input *head = query->head;
    const clusters c = lay_out(query->prepared, head->T, head->D, head->arguments);
    const size_t count = keep_cluster(kept, &c, query->query);
    if (count > 0) return count;
    kept[0] = (uint32_t)query->query;
    return 1;
}

sf_query_groups sf_kmeans_groups(const sf_head_state *head) {
    const clusters c = lay_out(head->scratch, head->input.T, head->input.D, head->input.arguments);
    return (sf_query_groups){.order = c.order, .of_query = c.of_query};
}

size_t sf_kmeans_keep_group(uint32_t *kept, const sf_head_state *head, size_t query) {
    const clusters c = lay_out(head->scratch, head->input.T, head->input.D, head->input.arguments);
    return keep_cluster(kept, &c, query);
}

static bool keeps_all(size_t keys, size_t k, const double *arguments) {
    (void)keys;
    (void)k;
    return arguments[0] == 1;
}

const sf_selector sf_selector_kmeans = {
    SF_SELECTOR,
    .name = "kmeans",
    .summary = "the keys of the query's own cluster, of C found in R rounds",
    .selects_by = SF_BY_VECTORS,
    .keep = keep_own_cluster,
    .arguments = {{.letter = "C",
                   .meaning = "the number of clusters",
                   .low = 1,
                   .high = 65536,
                   .initial = 4,
                   .required = true,
                   .whole = true},
                  {.letter = "R",
                   .meaning = "the number of rounds",
                   .low = 0,
                   .high = 100,
                   .initial = 2,
                   .required = true,
                   .whole = true}},
    .scratch_size = scratch_size,
    .prepare = prepare,
    .not_causal = true,
    .keeps_all = keeps_all,
    .formula = "keys and queries go to the centroid of largest product; keys of the query's centroid",
    .cost = "T^2 d / C for equal clusters, (R + 2) C T d for the clusters",
    .source = "Roy et al. 2021, arXiv 2003.05997 (Routing Transformer)",
};
