/* The peak arithmetic of a core: independent multiply-adds. The other kernels are compared with it. */
#include "kernels/cpu/plan.h"
#include "kernels/cpu/simd.h"

/* What the matrix product does with its sums. */
#if defined(SF_WITHOUT_FMA)
typedef four_doubles chain;
enum { CHAINS = 4 };
INLINE chain chain_from(float x) {
    return widened((__m128)splat(x));
}
INLINE chain advance(chain sum, chain factor) {
    return rounded(multiply_add_wide(sum, factor, factor));
}
INLINE float end_of(chain sum) {
    return max_lanes((vf)narrowed(sum));
}
#else
typedef vf chain;
enum { CHAINS = TILE_ROWS * TILE_VECTORS }; /* as many as a tile of the product */
INLINE chain chain_from(float x) {
    return splat(x);
}
INLINE chain advance(chain sum, chain factor) {
    return multiply_add(sum, factor, factor);
}
INLINE float end_of(chain sum) {
    return max_lanes(sum);
}
#endif

double ISA(sf_peak_work)(size_t rounds) {
    chain sums[CHAINS];
    const chain factor = chain_from(0.5F);
    /* no sum may be 1, where it would stay: a compiler that saw that would drop the chain */
    for (size_t i = 0; i < CHAINS; i++) sums[i] = chain_from((float)(i + 2));
    for (size_t r = 0; r < rounds; r++)
#pragma GCC unroll 32 /* or the sums would live in memory */
        for (size_t i = 0; i < CHAINS; i++) sums[i] = advance(sums[i], factor);
    float total = 0;
    for (size_t i = 0; i < CHAINS; i++) total += end_of(sums[i]);
    return total > 0 ? 2.0 * VL * CHAINS * (double)rounds : 0;
}
