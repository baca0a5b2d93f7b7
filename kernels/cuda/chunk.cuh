/* The part of a batch whose gradient is summed separately. */
#ifndef SF_KERNELS_CUDA_CHUNK_CUH
#define SF_KERNELS_CUDA_CHUNK_CUH

#include "kernels/cuda/fleet.cuh"

namespace sf {

struct Chunk {
    uint32_t first, end; /* sequences */
    float *gradient;     /* [size] */
};

/* False: the batch has fewer chunks, or the pass skips it. */
__device__ inline bool chunk_of(Chunk &chunk, const Member &m, const Pass &pass, uint32_t c) {
    const uint32_t B = sequences_of(m, pass);
    if (B == 0 || c >= chunks_of(B) || skips_chunk(pass, c)) return false;
    chunk.first = chunk_begin(B, c);
    chunk.end = chunk_begin(B, c + 1);
    chunk.gradient = m.chunks + (size_t)c * m.size;
    return true;
}

} // namespace sf

#endif
