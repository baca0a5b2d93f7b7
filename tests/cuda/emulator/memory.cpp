/* Device memory and pinned memory: allocations of exactly their size that begin as NaN, and copies between them. */
#include "runtime.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace emulator {

enum { PINNED = -1, NOWHERE = -2 };
enum { WORD = 8 }; /* bytes that are written at once */

struct Allocation {
    size_t bytes;
    int device; /* or PINNED */
};

struct Memory {
    std::mutex mutex;
    std::map<const char *, Allocation> allocations;
    std::map<int, size_t> used; /* by device */
};

static Memory &memory() {
    static Memory *const all = new Memory();
    return *all;
}

static cudaError_t allocate(void **out, size_t bytes, int device) {
    *out = nullptr;
    if (bytes == 0) return cudaSuccess;
    std::lock_guard<std::mutex> lock(memory().mutex);
    size_t *const used = &memory().used[device];
    const size_t most = device_memory();
    if (device != PINNED && (*used > most || bytes > most - *used)) return cudaErrorMemoryAllocation;
    if (posix_memalign(out, 256, bytes) != 0) return cudaErrorMemoryAllocation;
    memset(*out, 0xff, bytes);
    memory().allocations[static_cast<char *>(*out)] = {bytes, device};
    *used += bytes;
    return cudaSuccess;
}

static cudaError_t release(void *at, bool pinned) {
    if (at == nullptr) return cudaSuccess;
    std::lock_guard<std::mutex> lock(memory().mutex);
    const auto found = memory().allocations.find(static_cast<char *>(at));
    if (found == memory().allocations.end() || (found->second.device == PINNED) != pinned) return cudaErrorInvalidValue;
    memory().used[found->second.device] -= found->second.bytes;
    memory().allocations.erase(found);
    free(at);
    return cudaSuccess;
}

/* The device whose memory it is, PINNED, or NOWHERE: not ours, or only a part of it. */
static int place_of(const void *at, size_t bytes) {
    const char *const first = static_cast<const char *>(at);
    std::lock_guard<std::mutex> lock(memory().mutex);
    auto found = memory().allocations.upper_bound(first);
    if (found == memory().allocations.begin()) return NOWHERE;
    --found;
    return first + bytes <= found->first + found->second.bytes ? found->second.device : (int)NOWHERE;
}

static bool fits(cudaMemcpyKind kind, bool to_device, bool from_device) {
    switch (kind) {
    case cudaMemcpyHostToHost:
        return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
        return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
        return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
        return to_device && from_device;
    case cudaMemcpyDefault:
        return true;
    }
    return false;
}

/* From memory of the host that is not pinned, the copy is made before the call returns; to such memory it is done. */
static cudaError_t copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    if (bytes == 0) return cudaSuccess;
    const int to_place = place_of(to, bytes), from_place = place_of(from, bytes);
    if (!fits(kind, to_place >= 0, from_place >= 0)) return cudaErrorInvalidValue;
    if (from_place == NOWHERE) {
        const char *const first = static_cast<const char *>(from);
        const auto taken = std::make_shared<std::vector<char>>(first, first + bytes);
        submit(stream, [=] { memcpy(to, taken->data(), bytes); });
    } else {
        submit(stream, [=] {
            if (to_place >= 0 && bytes <= WORD) /* the lanes of a warp read a word at the same time: all see the same */
                between_blocks([=] { memmove(to, from, bytes); });
            else
                memmove(to, from, bytes);
        });
    }
    if (to_place == NOWHERE) wait_for(stream);
    return cudaSuccess;
}

static cudaError_t fill(void *at, int byte, size_t bytes, cudaStream_t stream) {
    if (bytes == 0) return cudaSuccess;
    if (place_of(at, bytes) < 0) return cudaErrorInvalidValue;
    submit(stream, [=] { memset(at, byte, bytes); });
    return cudaSuccess;
}

} // namespace emulator

using namespace emulator;

cudaError_t cudaMalloc(void **out, size_t bytes) {
    EMULATOR_TRY(state_outside_recordings());
    return noted(allocate(out, bytes, current_device()));
}

cudaError_t cudaFree(void *at) {
    EMULATOR_TRY(state_outside_recordings());
    wait_for_all_streams();
    return noted(release(at, false));
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned) {
    EMULATOR_TRY(state_outside_recordings());
    return noted(allocate(out, bytes, PINNED));
}

cudaError_t cudaMallocHost(void **out, size_t bytes) {
    return cudaHostAlloc(out, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *at) {
    EMULATOR_TRY(state_outside_recordings());
    wait_for_all_streams();
    return noted(release(at, true));
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *all) {
    EMULATOR_TRY(state());
    std::lock_guard<std::mutex> lock(memory().mutex);
    const size_t used = memory().used[current_device()];
    *all = device_memory();
    *unused = *all > used ? *all - used : 0;
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    EMULATOR_TRY(state());
    return noted(copy(to, from, bytes, kind, stream));
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    EMULATOR_TRY(state_outside_recordings());
    return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}

cudaError_t cudaMemsetAsync(void *at, int byte, size_t bytes, cudaStream_t stream) {
    EMULATOR_TRY(state());
    return noted(fill(at, byte, bytes, stream));
}

cudaError_t cudaMemset(void *at, int byte, size_t bytes) {
    EMULATOR_TRY(state_outside_recordings());
    return cudaMemsetAsync(at, byte, bytes, nullptr);
}
