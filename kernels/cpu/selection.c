#include "kernels/cpu/selection.h"

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

enum { FEW = 4 * VL }; /* keys whose scores fit into four vectors */

/* The K greatest of at most FEW scores: K times the greatest that is left, without a branch that depends on them. */
INLINE void select_among_few(uint32_t *keys, const float *scores, float sign, size_t T, size_t K) {
    const vf none = splat(-INFINITY);
    vf left[4];
    for (size_t v = 0; v < 4; v++) {
        const size_t real = T > v * VL ? T - v * VL : 0;
        const vf here = real == 0    ? none
                        : real >= VL ? splat(sign) * load(scores + v * VL)
                                     : splat(sign) * load_first(scores + v * VL, real, -sign * INFINITY);
        left[v] = numbers_of(here);
    }
    uint64_t free = T == 64 ? UINT64_MAX : (UINT64_C(1) << T) - 1, taken = 0;
    for (size_t k = 0; k < K; k++) {
        const float greatest = max_lanes(max_of(max_of(left[0], left[1]), max_of(left[2], left[3])));
        uint64_t candidates = 0;
        for (size_t v = 0; v < 4; v++) candidates |= (uint64_t)lanes_from(left[v], greatest) << v * VL;
        candidates &= free;
        const uint64_t first = candidates & -candidates;
        free ^= first;
        taken |= first;
        for (size_t v = 0; v < 4; v++) left[v] = if_bits((uint32_t)(first >> v * VL), none, left[v]);
    }
    for (size_t k = 0; k < K; k++, taken &= taken - 1) keys[k] = (uint32_t)__builtin_ctzll(taken);
}

/* The K greatest of sign * scores, ties to the lower index, in ascending order of index. Only what is not below a
 * bound, a few more than K, is looked at one by one. */
INLINE void select_signed(uint32_t *keys, const float *scores, float sign, size_t T, size_t K) {
    enum { STRIDE = 4 * VL };
    if (T <= FEW) {
        select_among_few(keys, scores, sign, T, K);
        return;
    }
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

void sf_select(uint32_t *keys /* [K] */, const float *scores /* [T] */, bool greatest, size_t T, size_t K) {
    if (greatest)
        select_signed(keys, scores, 1.0F, T, K);
    else
        select_signed(keys, scores, -1.0F, T, K);
}
