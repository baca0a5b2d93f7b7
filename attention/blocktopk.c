/* blocktopk:b:m: keys are cut into blocks of b; a query keeps its own block and the m-1 others of largest gate.
 *
 * The gate of a block is the product of the query with the mean of the block's keys, after rope and qknorm; it is a
 * constant in the backward pass. Causal: only blocks that are wholly visible compete, and the invisible keys of the own
 * block are dropped. Ties go to the lower block. Source: the idea of MoBA (Lu et al. 2025).
 * Settings: b from 1 to 65536, m from 1 to 1024. Cost: b m T d for the kept keys, T^2 d / b for the gates.
 * Example: semfocus train even-pairs --attention blocktopk:5:2 */
#include <string.h>

#include "attention/attention.h"
#include "attention/products.h"
#include "base/sizes.h"

enum { MOST_BLOCKS = 1024, GATES = 128 /* computed at once */, AT_ONCE = 8 /* compared */ };

static size_t width_of(const double *arguments) {
    return (size_t)arguments[0];
}

static size_t count_of(size_t T, const double *arguments) {
    return (T + width_of(arguments) - 1) / width_of(arguments);
}

static size_t scratch_size(const sf_head_input *head) {
    return head->D * count_of(head->T, head->arguments) * sizeof(double);
}

/* The means of the blocks' keys, [D,blocks]: side by side, so that the gates of several blocks are computed at once. */
static void prepare(void *scratch, const sf_head_input *head) {
    const size_t width = width_of(head->arguments), count = count_of(head->T, head->arguments);
    double *means = scratch;
    memset(means, 0, head->D * count * sizeof *means);
    for (size_t j = 0; j < head->T; j++)
        for (size_t c = 0; c < head->D; c++) means[c * count + j / width] += head->keys[j * head->stride + c];
    for (size_t n = 0; n < count; n++)
        for (size_t c = 0; c < head->D; c++) means[c * count + n] /= (double)sf_smaller(head->T - n * width, width);
}

typedef struct best_blocks { /* descending; of equal gates the lower block first */
    double gates[MOST_BLOCKS];
    uint32_t blocks[MOST_BLOCKS];
    size_t found, wanted;
} best_blocks;

static void consider(best_blocks *best, double gate, uint32_t block) {
    if (best->wanted == 0 || (best->found == best->wanted && !(gate > best->gates[best->found - 1]))) return;
    size_t place = best->found < best->wanted ? best->found++ : best->wanted - 1;
    for (; place > 0 && gate > best->gates[place - 1]; place--) {
        best->gates[place] = best->gates[place - 1];
        best->blocks[place] = best->blocks[place - 1];
    }
    best->gates[place] = gate;
    best->blocks[place] = block;
}

/* Whether one of some gates would be among the best: most of the time none is. */
static bool has_better(const best_blocks *best, const double *gates, size_t count) {
    if (best->found < best->wanted) return true;
    if (best->wanted == 0) return false;
    const double least = best->gates[best->found - 1];
    int better = 0;
    for (size_t n = 0; n < count; n++) better |= gates[n] > least;
    return better != 0;
}

static void consider_all(best_blocks *best, const sf_query *query, size_t own, size_t competing) {
    const sf_head_input *head = query->head;
    const size_t count = count_of(head->T, head->arguments);
    const double *q = head->queries + query->query * head->stride, *means = query->prepared;
    for (size_t first = 0; first < competing; first += GATES) {
        const size_t some = sf_smaller(competing - first, GATES);
        double gates[GATES];
        sf_products(gates, q, means + first, count, head->D, some);
        for (size_t n = 0, next; n < some; n = next) {
            next = sf_smaller(n + AT_ONCE, some);
            if (!has_better(best, gates + n, next - n)) continue;
            for (size_t i = n; i < next; i++)
                if (first + i != own) consider(best, gates[i], (uint32_t)(first + i));
        }
    }
}

static void sort(uint32_t *blocks, size_t count) {
    for (size_t i = 1; i < count; i++) {
        const uint32_t block = blocks[i];
        size_t place = i;
        for (; place > 0 && blocks[place - 1] > block; place--) blocks[place] = blocks[place - 1];
        blocks[place] = block;
    }
}

size_t sf_blocktopk_choose(uint32_t *blocks, const sf_query *query) {
    const size_t width = width_of(query->arguments), own = query->query / width;
    const size_t whole =
        query->visible == query->keys ? count_of(query->keys, query->arguments) : query->visible / width;
    best_blocks best;
    best.found = 0;
    best.wanted = (size_t)query->arguments[1] - 1;
    consider_all(&best, query, own, whole);
    best.blocks[best.found++] = (uint32_t)own; /* there is room: m - 1 others */
    sort(best.blocks, best.found);
    memcpy(blocks, best.blocks, best.found * sizeof *blocks);
    return best.found;
}

static size_t keep_best_blocks(uint32_t *kept, const sf_query *query) {
    const size_t width = width_of(query->arguments);
    uint32_t blocks[MOST_BLOCKS];
    const size_t found = sf_blocktopk_choose(blocks, query);
    size_t count = 0;
    for (size_t n = 0; n < found; n++) {
        const size_t first = blocks[n] * width, end = sf_smaller(first + width, query->visible);
        for (size_t j = first; j < end; j++) kept[count++] = (uint32_t)j;
    }
    return count;
}

static size_t most_kept(size_t keys, size_t k, const double *arguments) {
    (void)k;
    return sf_smaller(keys, width_of(arguments) * (size_t)arguments[1]);
}

static bool keeps_all(size_t keys, size_t k, const double *arguments) {
    (void)k;
    return count_of(keys, arguments) <= (size_t)arguments[1];
}

const sf_selector sf_selector_blocktopk = {
    SF_SELECTOR,
    .name = "blocktopk",
    .summary = "the query's own block of B keys and the M-1 best others",
    .selects_by = SF_BY_VECTORS,
    .keep = keep_best_blocks,
    .arguments = {{.letter = "B",
                   .meaning = "the size of a block",
                   .low = 1,
                   .high = 65536,
                   .initial = 5,
                   .required = true,
                   .whole = true},
                  {.letter = "M",
                   .meaning = "the number of kept blocks",
                   .low = 1,
                   .high = MOST_BLOCKS,
                   .initial = 2,
                   .required = true,
                   .whole = true}},
    .most_kept = most_kept,
    .scratch_size = scratch_size,
    .prepare = prepare,
    .keeps_all = keeps_all,
    .formula = "gate = q_i . mean of the block's keys; the own block and the M-1 of largest gate",
    .cost = "B M T d for the kept keys, T^2 d / B for the gates",
    .source = "Lu et al. 2025, arXiv 2502.13189 (MoBA)",
};
