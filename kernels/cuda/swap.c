#include "kernels/cuda/swap.h"

#include <assert.h>

#include "base/sizes.h"
#include "kernels/cuda/members.h"
#include "model/model.h"

static size_t widest_stretch(size_t size, size_t summing) {
    return (size / SF_PADDING / summing + 1) * SF_PADDING;
}

sf_status sf_cuda_swap_open(sf_cuda_swap *swap, size_t size, size_t places) {
    for (size_t chunks = 1; chunks <= SF_CUDA_DEALT; chunks++)
        swap->room = sf_larger(swap->room, chunks * widest_stretch(size, sf_smaller(chunks, places)));
    return sf_cuda_ok(cudaMalloc((void **)&swap->received, swap->room * sizeof *swap->received),
                      "allocating a model's memory");
}

void sf_cuda_swap_close(sf_cuda_swap *swap) {
    cudaFree(swap->received);
    *swap = (sf_cuda_swap){0};
}

static size_t width_of(const sf_cuda_dealt *dealt, size_t place) {
    return dealt->stretches[place + 1] - dealt->stretches[place];
}

static float *received_at(const sf_cuda_swap *swap, const sf_cuda_dealt *dealt, size_t chunk) {
    const size_t at = chunk * width_of(dealt, dealt->place);
    assert(at + width_of(dealt, dealt->place) <= swap->room);
    return swap->received + at;
}

sf_status sf_cuda_swap_round(const sf_cuda_swap *swap, sf_cuda_link *link, const sf_cuda_member *m,
                             const sf_cuda_dealt *dealt, size_t round, cudaStream_t stream) {
    const size_t own = round * dealt->summing + dealt->place;
    SF_TRY(sf_cuda_link_begin(link));
    sf_status status = SF_OK;
    for (size_t k = 0; k < dealt->summing && status == SF_OK; k++) {
        const size_t theirs = round * dealt->summing + k;
        if (k == dealt->place) continue;
        if (own < dealt->chunks)
            status = sf_cuda_link_send(link, dealt->rank_at[k], m->chunks + own * m->size + dealt->stretches[k],
                                       width_of(dealt, k), stream);
        if (theirs < dealt->chunks && status == SF_OK)
            status = sf_cuda_link_receive(link, dealt->rank_at[k], received_at(swap, dealt, theirs),
                                          width_of(dealt, dealt->place), stream);
    }
    return sf_cuda_link_end(link);
}

void sf_cuda_swap_add(const sf_cuda_swap *swap, const sf_cuda_member *m, const sf_cuda_dealt *dealt,
                      cudaStream_t stream) {
    const size_t first = dealt->stretches[dealt->place];
    sf_cuda_stretches parts = {.count = (uint32_t)dealt->chunks};
    for (size_t c = 0; c < dealt->chunks; c++)
        parts.at[c] =
            c % dealt->summing == dealt->place ? m->chunks + c * m->size + first : received_at(swap, dealt, c);
    sf_cuda_add_parts(stream, m->gradient + first, &parts, (uint32_t)width_of(dealt, dealt->place));
}

sf_status sf_cuda_swap_share(sf_cuda_link *link, const sf_cuda_member *m, const sf_cuda_dealt *dealt,
                             cudaStream_t stream) {
    const size_t place = dealt->place;
    sf_status status = sf_cuda_link_begin(link);
    for (size_t r = 0; r < dealt->ranks && place < dealt->summing && status == SF_OK; r++)
        if (r != dealt->rank)
            status = sf_cuda_link_send(link, r, m->gradient + dealt->stretches[place], width_of(dealt, place), stream);
    for (size_t k = 0; k < dealt->summing && status == SF_OK; k++)
        if (k != place)
            status = sf_cuda_link_receive(link, dealt->rank_at[k], m->gradient + dealt->stretches[k],
                                          width_of(dealt, k), stream);
    return sf_cuda_link_end(link);
}
