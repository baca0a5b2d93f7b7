/* How the gradients of chunks travel between GPUs, and are added up. In round i every place sends stretches of its i-th
 * chunk to the places that add them up, and receives its own stretch of theirs. A place then adds its stretch of all
 * chunks in order, and sends the sum to all. */
#ifndef SF_KERNELS_CUDA_SWAP_H
#define SF_KERNELS_CUDA_SWAP_H

#include "kernels/cuda/launch.h"
#include "kernels/cuda/part.h"

typedef struct sf_cuda_swap {
    float *received; /* in device memory: [chunks,widest stretch] */
    size_t room;     /* floats */
} sf_cuda_swap;

sf_status sf_cuda_swap_open(sf_cuda_swap *swap, size_t size, size_t places);
void sf_cuda_swap_close(sf_cuda_swap *swap); /* legal for a zeroed one */

/* In the order of the stream. The first two are for places that compute, the last one is for all ranks. */
sf_status sf_cuda_swap_round(const sf_cuda_swap *swap, sf_cuda_link *link, const sf_cuda_member *m,
                             const sf_cuda_dealt *dealt, size_t round, cudaStream_t stream);
void sf_cuda_swap_add(const sf_cuda_swap *swap, const sf_cuda_member *m, const sf_cuda_dealt *dealt,
                      cudaStream_t stream);
sf_status sf_cuda_swap_share(sf_cuda_link *link, const sf_cuda_member *m, const sf_cuda_dealt *dealt,
                             cudaStream_t stream);

#endif
