/* The most arithmetic a core can do: multiply-adds that wait for nothing. A yardstick for the other kernels. */
#include "kernels/cpu/plan.h"
#include "kernels/cpu/simd.h"

double ISA(sf_peak_work)(size_t rounds) {
    enum { CHAINS = TILE_ROWS * TILE_VECTORS }; /* as many as a tile of the matrix product */
    vf sums[CHAINS];
    const vf factor = splat(0.5F);
    for (size_t i = 0; i < CHAINS; i++) sums[i] = splat((float)i);
    for (size_t r = 0; r < rounds; r++)
#pragma GCC unroll 32 /* or the sums would live in memory */
        for (size_t i = 0; i < CHAINS; i++) sums[i] = sums[i] * factor + factor;
    float total = 0;
    for (size_t i = 0; i < CHAINS; i++) total += sum_lanes(sums[i]);
    return total > 0 ? 2.0 * VL * CHAINS * (double)rounds : 0;
}
