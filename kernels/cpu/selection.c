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

/* NaN is above nothing. */
INLINE float number_of(float score) {
    return score > -INFINITY ? score : -INFINITY;
}

INLINE vf numbers_of(vf scores) {
    return max_of(scores, splat(-INFINITY));
}

/* The greatest of the keys seen so far, one query per lane, descending; of equal ones the lower index first. */
typedef struct best_of_lanes {
    vf scores[SF_FAST_TOPK_MOST];
    vi keys[SF_FAST_TOPK_MOST];
} best_of_lanes;

INLINE vi if_less_keys(vf a, vf b, vi yes, vi no) {
    return (vi)if_less(a, b, (vf)yes, (vf)no);
}

/* Entries below the score move down by one place: `moved` is then the entry from the place before, which is not below
 * the one here. */
INLINE void insert(best_of_lanes *best, size_t found, size_t K, vf score, vi key) {
    vf moved = score;
    for (size_t k = 0; k < found; k++) {
        const vf here = best->scores[k];
        const vi here_key = best->keys[k];
        best->scores[k] = max_of(here, moved);
        best->keys[k] = if_less_keys(here, score, key, here_key);
        moved = min_of(here, moved);
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

enum { MAXIMA = 32, MAXIMA_VECTORS = MAXIMA / VL, MOST_CANDIDATES = 64 };

/* The maximum over every MAXIMA-th key, starting at each of the first MAXIMA keys. Keys after the last multiple of
 * MAXIMA are left out. */
INLINE void maxima_of(vf maxima[MAXIMA_VECTORS], const float *scores, float sign, size_t T) {
    for (size_t v = 0; v < MAXIMA_VECTORS; v++) maxima[v] = splat(-INFINITY);
    for (size_t j = 0; j + MAXIMA <= T; j += MAXIMA)
        for (size_t v = 0; v < MAXIMA_VECTORS; v++)
            maxima[v] = max_of(splat(sign) * load(scores + j + v * VL), maxima[v]);
}

/* For up to VL queries side by side, a lower bound of the K greatest scores: the K-th greatest of the maxima. */
INLINE void lower_bounds(float bounds[VL], const float *scores, size_t row, float sign, size_t queries, size_t T,
                         size_t K) {
    vf maxima[VL][MAXIMA_VECTORS] = {0}, greatest[SF_FAST_TOPK_MOST];
    for (size_t i = 0; i < queries; i++) maxima_of(maxima[i], scores + i * row, sign, T);
    for (size_t k = 0; k < K; k++) greatest[k] = splat(-INFINITY);
    for (size_t v = 0; v < MAXIMA_VECTORS; v++) {
        vf square[VL];
        for (size_t i = 0; i < VL; i++) square[i] = maxima[i][v];
        transpose_lanes(square);
        for (size_t i = 0; i < VL; i++)
            for (size_t k = 0; k < K; k++) {
                const vf here = greatest[k];
                greatest[k] = max_of(here, square[i]);
                square[i] = min_of(here, square[i]);
            }
    }
    store(bounds, greatest[K - 1]);
}

/* A bit for each of `count` (at most 64) keys, set where the score is not below the bound; NaN is not. */
INLINE uint64_t candidates_among(const float *scores, float sign, float bound, size_t count) {
    uint64_t bits = 0;
    for (size_t j = 0; j < count; j += VL)
        bits |= (uint64_t)lanes_not_below(splat(sign) * load(scores + j), bound) << j;
    return count == 64 ? bits : bits & ((UINT64_C(1) << count) - 1);
}

/* Those keys, ascending. Returns how many there are, or stops with a number above MOST_CANDIDATES. */
INLINE size_t find_candidates(uint32_t keys[MOST_CANDIDATES + 64], const float *scores, float sign, float bound,
                              size_t T) {
    size_t found = 0;
    for (size_t j = 0; j < T && found <= MOST_CANDIDATES; j += 64) {
        uint64_t candidates = T - j >= 64 ? candidates_among(scores + j, sign, bound, 64)
                                          : candidates_among(scores + j, sign, bound, T - j);
        for (; candidates != 0; candidates &= candidates - 1)
            keys[found++] = (uint32_t)j + (uint32_t)__builtin_ctzll(candidates);
    }
    return found;
}

/* Leaves the K best of some ascending keys: removes the least one, of equal ones the last, until K are left. */
INLINE void drop_worst(uint32_t *keys, size_t count, const float *scores, float sign, size_t K) {
    float values[MOST_CANDIDATES];
    for (size_t i = 0; i < count; i++) values[i] = number_of(sign * scores[keys[i]]);
    for (; count > K; count--) {
        size_t worst = 0;
        for (size_t i = 1; i < count; i++) worst = values[i] <= values[worst] ? i : worst;
        for (size_t i = worst; i + 1 < count; i++) {
            values[i] = values[i + 1];
            keys[i] = keys[i + 1];
        }
    }
}

static void select_one_by_one(uint32_t *keys, const float *scores, float sign, size_t T, size_t K) {
    best_keys best = {.found = 0};
    for (size_t j = 0; j < T; j++) consider(&best, K, number_of(sign * scores[j]), (uint32_t)j);
    for (size_t i = 0; i < K; i++) { /* insertion sort by index */
        size_t place = i;
        for (; place > 0 && keys[place - 1] > best.keys[i]; place--) keys[place] = keys[place - 1];
        keys[place] = best.keys[i];
    }
}

/* Up to VL queries: only the scores that are not below a bound, a few more than K per query, are examined one by
 * one. */
INLINE void select_above_bounds(uint32_t *keys, const float *scores, size_t row, float sign, size_t queries, size_t T,
                                size_t K) {
    float bounds[VL];
    uint32_t candidates[MOST_CANDIDATES + 64];
    lower_bounds(bounds, scores, row, sign, queries, T, K);
    for (size_t i = 0; i < queries; i++) {
        const size_t found = find_candidates(candidates, scores + i * row, sign, bounds[i], T);
        if (found > MOST_CANDIDATES) {
            select_one_by_one(keys + i * K, scores + i * row, sign, T, K);
            continue;
        }
        drop_worst(candidates, found, scores + i * row, sign, K);
        memcpy(keys + i * K, candidates, K * sizeof *keys);
    }
}

INLINE void select_signed(uint32_t *keys, const float *scores, size_t row, float sign, size_t queries, size_t T,
                          size_t K) {
    const size_t short_for_lanes = /* as measured; fewer than MAXIMA keys have no bound */
        sf_larger((K > VL ? 4 * VL : 3 * VL / 2) * K, K == 1 ? 2 * MAXIMA : MAXIMA - 1);
    for (size_t i = 0; i < queries; i += VL) {
        const size_t count = sf_smaller(queries - i, VL);
        if (T <= short_for_lanes)
            select_of_lanes(keys + i * K, scores + i * row, row, sign, count, T, K);
        else
            select_above_bounds(keys + i * K, scores + i * row, row, sign, count, T, K);
    }
}

void sf_select(uint32_t *keys /* [queries,K] */, const float *scores /* [queries,T, padded] */, size_t row,
               bool greatest, size_t queries, size_t T, size_t K) {
    if (greatest)
        select_signed(keys, scores, row, 1.0F, queries, T, K);
    else
        select_signed(keys, scores, row, -1.0F, queries, T, K);
}
