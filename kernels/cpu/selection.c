#include "kernels/cpu/selection.h"

#include "base/sizes.h"
#include "kernels/cpu/plan.h"
#include "kernels/cpu/simd.h"

typedef struct best_keys { /* the greatest so far, descending; of equal ones the lower index first */
    float scores[SF_FAST_TOPK_MOST];
    uint32_t keys[SF_FAST_TOPK_MOST];
    size_t found;
} best_keys;

INLINE void consider(best_keys *best, size_t K, float score, uint32_t key) {
    if (best->found == K && !(score > best->scores[K - 1])) return;
    size_t place = best->found < K ? best->found++ : K - 1;
    for (; place > 0 && score > best->scores[place - 1]; place--) {
        best->scores[place] = best->scores[place - 1];
        best->keys[place] = best->keys[place - 1];
    }
    best->scores[place] = score;
    best->keys[place] = key;
}

/* A number that at least K of the scores are not below: the K-th greatest of the lanes' maxima. Needs K <= VL. */
INLINE float lower_bound(const float *scores, float sign, size_t T, size_t K) {
    vf maxima[2] = {splat(-INFINITY), splat(-INFINITY)};
    const size_t two = 2 * (size_t)VL;
    for (size_t j = 0; j + two <= T; j += two)
        for (size_t v = 0; v < 2; v++) maxima[v] = max_of(splat(sign) * load(scores + j + v * VL), maxima[v]);
    vf all = max_of(maxima[0], maxima[1]);
    float bound = max_lanes(all);
    for (size_t k = 1; k < K; k++) { /* equal maxima go together, which only lowers the bound */
        all = if_less(all, splat(bound), all, splat(-INFINITY));
        bound = max_lanes(all);
    }
    return bound;
}

/* NaN is above nothing. */
INLINE vf numbers_of(vf scores) {
    return max_of(scores, splat(-INFINITY));
}

INLINE void consider_lanes(best_keys *best, size_t K, const float *scores, float sign, float bound, size_t j,
                           size_t T) {
    float lanes[VL];
    const vf here = numbers_of(splat(sign) * load(scores + j));
    uint32_t candidates = lanes_from(here, bound);
    if (T - j < VL) candidates &= (UINT32_C(1) << (T - j)) - 1;
    store(lanes, here);
    for (; candidates != 0; candidates &= candidates - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(candidates);
        consider(best, K, lanes[lane], (uint32_t)j + lane);
    }
}

/* Of the keys seen so far, a query a lane: the greatest, descending; of equal ones the lower index first. */
typedef struct best_of_lanes {
    vf scores[SF_FAST_TOPK_MOST];
    vi keys[SF_FAST_TOPK_MOST];
} best_of_lanes;

INLINE vi if_less_keys(vf a, vf b, vi yes, vi no) {
    return (vi)if_less(a, b, (vf)yes, (vf)no);
}

/* What is below the score moves one place down. */
INLINE void insert(best_of_lanes *best, size_t found, size_t K, vf score, vi key) {
    vf moved = score;
    for (size_t k = 0; k < found; k++) {
        const vf here = best->scores[k];
        const vi here_key = best->keys[k];
        best->scores[k] = if_less(here, score, moved, here);
        best->keys[k] = if_less_keys(here, score, key, here_key);
        moved = if_less(here, score, here, moved);
        key = if_less_keys(here, score, here_key, key);
    }
    if (found < K) {
        best->scores[found] = moved;
        best->keys[found] = key;
    }
}

INLINE void sort_keys(vi *keys, size_t K) {
    for (size_t end = K; end > 1; end--)
        for (size_t k = 0; k + 1 < end; k++) {
            const vi a = keys[k], b = keys[k + 1], swap = b < a;
            keys[k] = (swap & b) | (~swap & a);
            keys[k + 1] = (swap & a) | (~swap & b);
        }
}

/* Up to VL queries side by side. */
INLINE void select_of_lanes(uint32_t *keys, const float *scores, size_t row, float sign, size_t queries, size_t T,
                            size_t K) {
    best_of_lanes best = {0};
    for (size_t j = 0; j < T; j += VL) {
        vf square[VL];
        for (size_t i = 0; i < VL; i++)
            square[i] = i < queries ? numbers_of(splat(sign) * load(scores + i * row + j)) : splat(0.0F);
        transpose_lanes(square);
        for (size_t i = 0; i < sf_smaller(T - j, VL); i++)
            insert(&best, sf_smaller(j + i, K), K, square[i], (int32_t)(j + i) - (vi){0});
    }
    sort_keys(best.keys, K);
    for (size_t i = 0; i < queries; i++)
        for (size_t k = 0; k < K; k++) keys[i * K + k] = (uint32_t)best.keys[k][i];
}

/* One query: only what is not below a bound, a few more than K, is looked at one by one. */
INLINE void select_of_row(uint32_t *keys, const float *scores, float sign, size_t T, size_t K) {
    enum { STRIDE = 4 * VL };
    best_keys best = {.found = 0};
    const float bound = K <= VL ? lower_bound(scores, sign, T, K) : -INFINITY;
    size_t j = 0;
    for (; j + STRIDE <= T; j += STRIDE) {
        vf greatest = splat(-INFINITY);
        for (size_t v = 0; v < 4; v++) greatest = max_of(splat(sign) * load(scores + j + v * VL), greatest);
        if (lanes_from(greatest, bound) == 0) continue;
        for (size_t v = 0; v < 4; v++) consider_lanes(&best, K, scores, sign, bound, j + v * VL, T);
    }
    for (; j < T; j += VL) consider_lanes(&best, K, scores, sign, bound, j, T);
    for (size_t i = 0; i < K; i++) { /* insertion sort by index */
        size_t place = i;
        for (; place > 0 && keys[place - 1] > best.keys[i]; place--) keys[place] = keys[place - 1];
        keys[place] = best.keys[i];
    }
}

INLINE void select_signed(uint32_t *keys, const float *scores, size_t row, float sign, size_t queries, size_t T,
                          size_t K) {
    const size_t short_for_lanes = (K > VL ? 4 * VL : 3 * VL / 2) * K; /* as measured */
    if (T <= short_for_lanes)
        for (size_t i = 0; i < queries; i += VL)
            select_of_lanes(keys + i * K, scores + i * row, row, sign, sf_smaller(queries - i, VL), T, K);
    else
        for (size_t i = 0; i < queries; i++) select_of_row(keys + i * K, scores + i * row, sign, T, K);
}

void sf_select(uint32_t *keys /* [queries,K] */, const float *scores /* [queries,T, padded] */, size_t row,
               bool greatest, size_t queries, size_t T, size_t K) {
    if (greatest)
        select_signed(keys, scores, row, 1.0F, queries, T, K);
    else
        select_signed(keys, scores, row, -1.0F, queries, T, K);
}
