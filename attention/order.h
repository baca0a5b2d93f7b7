/* Keys in the order of their scores, ties by index. */
#ifndef SF_ATTENTION_ORDER_H
#define SF_ATTENTION_ORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Ranks doubles as unsigned integers: a total order even for NaN, with -0 and 0 equal. */
static inline uint64_t sf_rank_of(double score) {
    const double positive_zero = score + 0.0;
    uint64_t bits;
    memcpy(&bits, &positive_zero, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

typedef struct sf_order {
    const double *scores;
    bool largest_first;
} sf_order;

static inline bool sf_goes_before(const sf_order *by, uint32_t a, uint32_t b) {
    const uint64_t rank_a = sf_rank_of(by->scores[a]), rank_b = sf_rank_of(by->scores[b]);
    if (rank_a == rank_b) return a < b;
    return by->largest_first ? rank_a > rank_b : rank_a < rank_b;
}

/* The first `count` keys up to and including `last` in that order, by index. */
static inline size_t sf_keep_up_to(uint32_t *kept, size_t count, uint32_t last, const sf_order *by) {
    size_t found = 0;
    for (uint32_t j = 0; j < count; j++)
        if (!sf_goes_before(by, last, j)) kept[found++] = j;
    return found;
}

#endif
