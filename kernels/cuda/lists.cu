/* Who chose a key: for every head, its kept keys sorted by key, in ascending order of the queries. The backward pass
 * adds up what a key's queries give it in this order. */
#include "kernels/cuda/fleet.cuh"
#include "kernels/cuda/launch.h"

namespace sf {

enum { LIST_THREADS = 256, LIST_WARPS = LIST_THREADS / 32, RANGE = 1024, RANGE_OF_THREAD = RANGE / LIST_THREADS };

/* Which lanes have the same number. */
static __device__ uint32_t lanes_with(uint32_t number) {
#ifdef SF_CUDA_EMULATED
    uint32_t lanes = 0;
    for (int lane = 0; lane < 32; lane++)
        if (__shfl_sync(0xffffffffU, number, lane) == number) lanes |= 1U << lane;
    return lanes;
#else
    return __match_any_sync(0xffffffffU, number);
#endif
}

/* The kept keys of one head, and the warp's share of them: consecutive ones. */
struct Share {
    const uint32_t *keys;
    uint32_t first, end;
};

static __device__ Share share_of(const uint32_t *keys, uint32_t kept) {
    const uint32_t each = (kept + LIST_WARPS * 32 - 1) / (LIST_WARPS * 32) * 32, first = threadIdx.x / 32 * each;
    return {keys, first < kept ? first : kept, first + each < kept ? first + each : kept};
}

/* Counts the warp's keys from `low` on; returns how many of the lane's are below. */
static __device__ uint32_t count_keys(uint32_t *counts /* [RANGE] */, const Share &share, uint32_t low) {
    uint32_t below = 0;
    for (uint32_t i = share.first; i < share.end; i += 32) {
        const uint32_t at = i + threadIdx.x % 32;
        if (at >= share.end) break;
        const uint32_t key = share.keys[at];
        below += key < low;
        if (key - low < RANGE) atomicAdd(&counts[key - low], 1U); /* a number of keys: the order does not matter */
    }
    return below;
}

/* Puts the warp's keys from `low` on where they belong: the next ones of a key after those before. */
static __device__ void place_keys(uint32_t *places, uint32_t *next /* [RANGE] */, const Share &share, uint32_t low) {
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t i = share.first; i < share.end; i += 32) {
        const uint32_t key = i + lane < share.end ? share.keys[i + lane] - low : RANGE;
        const uint32_t same = lanes_with(key < RANGE ? key : RANGE), before = __popc(same & ((1U << lane) - 1));
        const uint32_t place = key < RANGE ? next[key] + before : 0;
        __syncwarp();
        if (key < RANGE) {
            places[place] = i + lane;
            if (before == 0) next[key] = place + __popc(same);
        }
        __syncwarp();
    }
}

/* Sum over all threads of what those before a thread have; total: of all. */
static __device__ uint32_t sum_before(uint32_t own, uint32_t *sums /* [LIST_WARPS] */, uint32_t &total) {
    const uint32_t lane = threadIdx.x % 32;
    uint32_t sum = own;
    for (uint32_t distance = 1; distance < 32; distance *= 2) {
        const uint32_t other = __shfl_up_sync(0xffffffffU, sum, distance);
        if (lane >= distance) sum += other;
    }
    __syncthreads();
    if (lane == 31) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    uint32_t before = 0;
    total = 0;
    for (uint32_t w = 0; w < LIST_WARPS; w++) {
        if (w < threadIdx.x / 32) before += sums[w];
        total += sums[w];
    }
    return before + sum - own;
}

/* Grid (heads of all sequences * ranges of keys, blocks, members). */
static __global__ void __launch_bounds__(LIST_THREADS) list_queries(const Member *__restrict__ members, Pass pass) {
    __shared__ uint32_t counts[LIST_WARPS][RANGE], sums[LIST_WARPS];
    const Member &m = members[blockIdx.z];
    const uint32_t block = blockIdx.y, ranges = (m.T + RANGE - 1) / RANGE;
    const uint32_t slot = blockIdx.x / ranges, low = blockIdx.x % ranges * RANGE, warp = threadIdx.x / 32;
    if (m.selection <= BY_PATTERN || block >= m.L) return;
    const uint32_t B = sequences_of(m, pass);
    if (slot / m.H >= B || skips_sequence(pass, B, slot / m.H)) return;
    const Trace &t = m.traces[block];
    const Share share = share_of(t.keys + (size_t)slot * m.kept, m.kept);
    for (uint32_t i = threadIdx.x % 32; i < RANGE; i += 32) counts[warp][i] = 0;
    __syncwarp();
    uint32_t below, here;
    sum_before(count_keys(counts[warp], share, low), sums, below);
    /* counts become places: by key, then by warp */
    const uint32_t first = threadIdx.x * RANGE_OF_THREAD;
    uint32_t own = 0;
    for (uint32_t i = first; i < first + RANGE_OF_THREAD; i++)
        for (uint32_t w = 0; w < LIST_WARPS; w++) own += counts[w][i];
    uint32_t place = below + sum_before(own, sums, here);
    uint32_t *const offsets = t.key_offsets + (size_t)slot * (m.T + 1);
    for (uint32_t i = first; i < first + RANGE_OF_THREAD; i++) {
        if (low + i <= m.T) offsets[low + i] = place;
        for (uint32_t w = 0; w < LIST_WARPS; w++) {
            const uint32_t count = counts[w][i];
            counts[w][i] = place;
            place += count;
        }
    }
    if (threadIdx.x == 0 && low + RANGE >= m.T) offsets[m.T] = below + here;
    __syncthreads();
    place_keys(t.key_places + (size_t)slot * m.kept, counts[warp], share, low);
}

} // namespace sf

using namespace sf;

void sf_cuda_list_queries(const sf_cuda_launch *launch, const sf_cuda_pass *pass) {
    const uint32_t ranges = (launch->most_length + RANGE - 1) / RANGE;
    const dim3 grid(launch->most_sequences * launch->most_heads * ranges, launch->most_blocks, launch->members);
    launch_kernel(list_queries, grid, LIST_THREADS, 0, launch->stream, launch->fleet, *pass);
}
