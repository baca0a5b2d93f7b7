/* Keys chosen at random, as attention/random.c chooses them: Floyd's sampling. */
#ifndef SF_KERNELS_CUDA_CHANCE_CUH
#define SF_KERNELS_CUDA_CHANCE_CUH

#include "kernels/cuda/numerics.cuh"

namespace sf {

struct Draws {
    Index index;
    uint32_t next_draw, left, words[4];
};

__device__ inline Draws draws_of_query(const Index &index, uint32_t query) {
    return {index, query << 15, 0, {0, 0, 0, 0}};
}

__device__ inline uint32_t draw_word(Draws &draws) {
    if (draws.left == 0) {
        philox(draws.words, draws.index, draws.next_draw++);
        draws.left = 4;
    }
    const uint32_t at = 4 - draws.left--;
    return at == 0 ? draws.words[0] : at == 1 ? draws.words[1] : at == 2 ? draws.words[2] : draws.words[3];
}

__device__ inline uint32_t draw_below(Draws &draws, uint32_t bound) {
    const uint32_t refused = (0U - bound) % bound;
    for (;;) {
        const uint64_t product = (uint64_t)draw_word(draws) * bound;
        if ((uint32_t)product >= refused) return (uint32_t)(product >> 32);
    }
}

/* K of T keys, in ascending order. One thread. */
__device__ inline void select_by_chance(uint32_t *keys, const Index &index, uint32_t query, uint32_t T, uint32_t K) {
    Draws draws = draws_of_query(index, query);
    uint32_t count = 0;
    for (uint32_t last = T - K; last < T; last++) {
        uint32_t key = draw_below(draws, last + 1), place = 0;
        while (place < count && keys[place] < key) place++;
        if (place < count && keys[place] == key) {
            key = last;
            place = count;
        }
        for (uint32_t i = count; i > place; i--) keys[i] = keys[i - 1];
        keys[place] = key;
        count++;
    }
}

/* K of at most 64 keys, as bits. */
__device__ inline uint64_t chosen_by_chance(const Index &index, uint32_t query, uint32_t T, uint32_t K) {
    Draws draws = draws_of_query(index, query);
    uint64_t chosen = 0;
    for (uint32_t last = T - K; last < T; last++) {
        const uint32_t key = draw_below(draws, last + 1);
        chosen |= 1ULL << (chosen >> key & 1 ? last : key);
    }
    return chosen;
}

} // namespace sf

#endif
