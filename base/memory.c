#include "base/memory.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The size of a block is kept in the cache line before it, so that bytes in use can be counted on release. */
enum { HEADER = SF_ALIGNMENT };

static atomic_size_t allocation_count;
static atomic_size_t bytes_in_use;

static size_t machine_memory(void) {
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page <= 0) return SIZE_MAX;
    return (size_t)pages * (size_t)page;
}

static size_t round_up(size_t bytes) {
    return (bytes + SF_ALIGNMENT - 1) / SF_ALIGNMENT * SF_ALIGNMENT;
}

static sf_status too_much(size_t count, size_t size) {
    const double gib = (double)count * (double)size / (1024.0 * 1024.0 * 1024.0);
    return sf_fail(SF_NO_MEMORY,
                   "needs %.1f GiB more memory than this machine can give; use a smaller model, batch or length", gib);
}

sf_status sf_allocate(void **out, size_t count, size_t size) {
    *out = NULL;
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2) return too_much(count, size);
    bytes = round_up(bytes) + HEADER;
    /* Linux promises more memory than there is and kills the process later: refuse here instead. */
    if (bytes > machine_memory() || atomic_load(&bytes_in_use) > machine_memory() - bytes) return too_much(count, size);
    unsigned char *block = aligned_alloc(SF_ALIGNMENT, bytes);
    if (block == NULL) return too_much(count, size);
    memset(block, 0, bytes);
    memcpy(block, &bytes, sizeof bytes);
    atomic_fetch_add(&allocation_count, 1);
    atomic_fetch_add(&bytes_in_use, bytes);
    *out = block + HEADER;
    /* cppcheck-suppress memleak ; *out points into the block */
    return SF_OK;
}

void sf_release(void *block) {
    if (block == NULL) return;
    unsigned char *start = (unsigned char *)block - HEADER;
    size_t bytes;
    memcpy(&bytes, start, sizeof bytes);
    atomic_fetch_sub(&bytes_in_use, bytes);
    free(start);
}

size_t sf_allocation_count(void) {
    return atomic_load(&allocation_count);
}

size_t sf_bytes_in_use(void) {
    return atomic_load(&bytes_in_use);
}

void *sf_arena_take(sf_arena *arena, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 4 || arena->used > SIZE_MAX / 4) {
        arena->overflow = true;
        return NULL;
    }
    const size_t start = arena->used;
    arena->used += round_up(bytes);
    if (arena->base == NULL) return NULL;
    assert(arena->used <= arena->capacity);
    return arena->base + start;
}

sf_status sf_arena_open(sf_arena *arena) {
    if (arena->overflow) return too_much(SIZE_MAX, 1);
    SF_TRY(sf_allocate((void **)&arena->base, arena->used, 1));
    arena->capacity = arena->used;
    arena->used = 0;
    return SF_OK;
}

void sf_arena_close(sf_arena *arena) {
    sf_release(arena->base);
    *arena = (sf_arena){0};
}
