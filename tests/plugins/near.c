/* near:T and gate:B:M, selectors that keep as many keys as they like.
 *
 * near:T keeps the keys whose score is at most T below the largest.
 * gate:B:M cuts the keys into blocks of B and keeps those of the M blocks whose mean has the largest product with the
 * query; the means are prepared once per head and sequence. */
#include <semfocus/plugin.h>

static size_t keep_near(uint32_t *kept, const sf_query *query) {
    double largest = query->scores[0];
    for (size_t j = 1; j < query->visible; j++)
        if (query->scores[j] > largest) largest = query->scores[j];
    size_t count = 0;
    for (size_t j = 0; j < query->visible; j++)
        if (query->scores[j] >= largest - query->arguments[0]) kept[count++] = (uint32_t)j;
    if (count == 0) kept[count++] = (uint32_t)query->query; /* scores that are not numbers */
    return count;
}

static size_t blocks_of(const sf_head_input *head) {
    const size_t width = (size_t)head->arguments[0];
    return (head->T + width - 1) / width;
}

static size_t means_size(const sf_head_input *head) {
    return blocks_of(head) * head->D * sizeof(double);
}

static void prepare_means(void *scratch, const sf_head_input *head) {
    double *means = scratch; /* [blocks,D] */
    const size_t width = (size_t)head->arguments[0];
    for (size_t b = 0; b < blocks_of(head); b++) {
        const size_t first = b * width, end = first + width < head->T ? first + width : head->T;
        for (size_t c = 0; c < head->D; c++) {
            double sum = 0;
            for (size_t j = first; j < end; j++) sum += head->keys[j * head->stride + c];
            means[b * head->D + c] = sum / (double)(end - first);
        }
    }
}

static double gate_of(const sf_query *query, size_t block) {
    const sf_head_input *head = query->head;
    const double *mean = (const double *)query->prepared + block * head->D;
    const double *q = head->queries + query->query * head->stride;
    double product = 0;
    for (size_t c = 0; c < head->D; c++) product += q[c] * mean[c];
    return product;
}

static size_t keep_best_blocks(uint32_t *kept, const sf_query *query) {
    const size_t blocks = blocks_of(query->head), width = (size_t)query->arguments[0];
    size_t count = 0;
    for (size_t b = 0; b < blocks; b++) {
        size_t better = 0;
        const double gate = gate_of(query, b);
        for (size_t other = 0; other < blocks; other++) {
            const double theirs = gate_of(query, other);
            better += theirs > gate || (theirs == gate && other < b);
        }
        if (better >= (size_t)query->arguments[1]) continue;
        for (size_t j = b * width; j < (b + 1) * width && j < query->keys; j++) kept[count++] = (uint32_t)j;
    }
    if (count == 0) kept[count++] = (uint32_t)query->query;
    return count;
}

static size_t most_of_blocks(size_t keys, size_t k, const double *arguments) {
    (void)k;
    const double most = arguments[0] * arguments[1];
    return most < (double)keys ? (size_t)most : keys;
}

static const sf_selector near = {
    SF_SELECTOR,
    .name = "near",
    .summary = "keys whose score is at most T below the largest",
    .takes_globals = true,
    .selects_by = SF_BY_SCORE,
    .separates_scores = true,
    .keep = keep_near,
    .arguments = {{.letter = "T", .meaning = "the distance", .low = 0, .high = 1e30, .initial = 1}},
};

static const sf_selector gate = {
    SF_SELECTOR,
    .name = "gate",
    .summary = "the M blocks of B keys whose mean is most like the query",
    .selects_by = SF_BY_VECTORS,
    .keep = keep_best_blocks,
    .arguments =
        {{.letter = "B",
          .meaning = "the width of a block",
          .low = 1,
          .high = 65536,
          .initial = 2,
          .required = true,
          .whole = true},
         {.letter = "M", .meaning = "the number of blocks", .low = 1, .high = 65536, .initial = 1, .whole = true}},
    .most_kept = most_of_blocks,
    .scratch_size = means_size,
    .prepare = prepare_means,
};

static const sf_selector *const selectors[] = {&near, &gate, NULL};
static const sf_plugin plugin = {SF_PLUGIN, .selectors = selectors};

const sf_plugin *sf_plugin_entry(const sf_plugin_host *host) {
    (void)host;
    return &plugin;
}
