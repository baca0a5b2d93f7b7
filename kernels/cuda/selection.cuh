/* The K best scores of a query, found by one warp while the scores of its keys pass 32 at a time, in ascending order of
 * the keys. What is found does not depend on the rest of the kernel: the K greatest of sign * score, of equal ones the
 * lower keys; NaN counts as the least. */
#ifndef SF_KERNELS_CUDA_SELECTION_CUH
#define SF_KERNELS_CUDA_SELECTION_CUH

#include <cstdint>

#include "kernels/cuda/device.cuh"

namespace sf {

enum : uint32_t { NO_KEY = 0xffffffffU, WHOLE_WARP = 0xffffffffU };

/* A number of the same order; 0 is less than any score's. */
__device__ inline uint32_t order_of(float value) {
    const uint32_t bits = __float_as_uint(isnan(value) ? __int_as_float(0xff800000) : value + 0.0F); /* -0 is 0 */
    return bits >> 31 ? ~bits : bits | 0x80000000U;
}

struct Entry {
    float score;
    uint32_t key;
};

/* Up to 32: one entry in each of the first K lanes. More: lists in memory, of which entry i belongs to lane i % 32. */
struct Best {
    Entry own;
    float *scores;  /* [K], more than 32 */
    uint32_t *keys; /* [K], more than 32 */
};

__device__ inline uint32_t order_of_entry(const Entry &entry, float sign) {
    return entry.key == NO_KEY ? 0 : order_of(sign * entry.score);
}

__device__ inline void begin_best(Best &best, float *scores, uint32_t *keys, uint32_t K) {
    best.own = {0.0F, NO_KEY};
    best.scores = scores;
    best.keys = keys;
    for (uint32_t i = threadIdx.x % 32; K > 32 && i < K; i += 32) keys[i] = NO_KEY;
}

struct Worst {
    uint32_t order, lane, at; /* the lane whose entry it is, and where in its list */
};

/* Which entry leaves when a better one comes: the least, of equal ones that with the highest key. */
__device__ inline Worst worst_of(const Best &best, uint32_t K, float sign) {
    const uint32_t lane = threadIdx.x % 32;
    uint32_t order = 0xffffffffU, key = 0, at = lane;
    if (K <= 32) {
        if (lane < K) {
            order = order_of_entry(best.own, sign);
            key = best.own.key;
        }
    } else {
        for (uint32_t i = lane; i < K; i += 32) {
            const uint32_t other = best.keys[i];
            const uint32_t here = other == NO_KEY ? 0 : order_of(sign * best.scores[i]);
            if (here < order || (here == order && other > key)) {
                order = here;
                key = other;
                at = i;
            }
        }
    }
    const uint32_t least = __reduce_min_sync(WHOLE_WARP, order);
    const uint32_t last = __reduce_max_sync(WHOLE_WARP, order == least ? key : 0);
    const uint32_t holds = __ballot_sync(WHOLE_WARP, order == least && key == last && (K > 32 || lane < K));
    const uint32_t who = (uint32_t)__ffs((int)holds) - 1;
    return {least, who, __shfl_sync(WHOLE_WARP, at, (int)who)};
}

/* Every lane has the score of key first_key + lane, unless it is not real. */
__device__ inline void offer(Best &best, float score, bool real, uint32_t first_key, uint32_t K, float sign) {
    const uint32_t lane = threadIdx.x % 32, order = real ? order_of(sign * score) : 0;
    Worst worst = worst_of(best, K, sign);
    uint32_t better = __ballot_sync(WHOLE_WARP, order > worst.order);
    while (better != 0) {
        const int who = __ffs((int)better) - 1;
        better &= better - 1;
        const float value = __shfl_sync(WHOLE_WARP, score, who);
        if (__shfl_sync(WHOLE_WARP, order, who) <= worst.order) continue;
        if (lane == worst.lane && K <= 32) best.own = {value, first_key + who};
        if (lane == worst.lane && K > 32) {
            best.scores[worst.at] = value;
            best.keys[worst.at] = first_key + who;
        }
        worst = worst_of(best, K, sign);
    }
}

/* The entries in ascending order of their keys, out of the lists. */
__device__ inline void put_best(uint32_t *keys /* [K] */, float *scores /* [K] */, const Best &best, uint32_t K) {
    const uint32_t lane = threadIdx.x % 32;
    if (K <= 32) {
        uint32_t place = 0;
        for (uint32_t i = 0; i < K; i++) place += __shfl_sync(WHOLE_WARP, best.own.key, (int)i) < best.own.key;
        if (lane < K) {
            keys[place] = best.own.key;
            scores[place] = best.own.score;
        }
    } else {
        __syncwarp();
        for (uint32_t i = lane; i < K; i += 32) {
            uint32_t place = 0;
            for (uint32_t j = 0; j < K; j++) place += best.keys[j] < best.keys[i];
            keys[place] = best.keys[i];
            scores[place] = best.scores[i];
        }
    }
    __syncwarp();
}

} // namespace sf

#endif
