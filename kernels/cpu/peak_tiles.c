/* The peak bf16 arithmetic of a core: independent products of tiles. */
#include <immintrin.h>
#include <stdint.h>

#include "kernels/cpu/gemm.h"

double ISA(sf_peak_work)(size_t rounds) {
    enum { SIDE = 16, DEPTH = 32, CHAINS = 4, BYTES = 64 };
    static const uint32_t zeros[SIDE * SIDE];
    sf_gemm_begin();
    _tile_loadd(4, zeros, BYTES);
    _tile_loadd(5, zeros, BYTES);
    for (size_t i = 0; i < rounds; i++) {
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(1, 4, 5);
        _tile_dpbf16ps(2, 4, 5);
        _tile_dpbf16ps(3, 4, 5);
    }
    sf_gemm_end();
    return 2.0 * SIDE * SIDE * DEPTH * CHAINS * (double)rounds;
}
