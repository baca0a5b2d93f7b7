#include "base/memory.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* What a block needs to be released and counted, in the cache line before it. */
typedef struct header {
    void *start; /* as calloc gave it */
    size_t bytes;
} header;
enum { HEADER = SF_ALIGNMENT };
_Static_assert(sizeof(header) <= HEADER, "the header fits its cache line");

static atomic_size_t allocation_count;
static atomic_size_t bytes_in_use;

/* The machine's memory, or its container's limit. */
static size_t machine_memory(void) {
    static atomic_size_t known;
    size_t bytes = atomic_load(&known);
    if (bytes != 0) return bytes;
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    bytes = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : SIZE_MAX;
    FILE *limit = fopen("/sys/fs/cgroup/memory.max", "r");
    if (limit != NULL) {
        char text[32];
        if (fgets(text, sizeof text, limit) != NULL) { /* a number, or "max" */
            const unsigned long long most = strtoull(text, NULL, 10);
            if (most > 0 && most < bytes) bytes = (size_t)most;
        }
        fclose(limit);
    }
    atomic_store(&known, bytes);
    return bytes;
}

static size_t round_up(size_t bytes) {
    return (bytes + SF_ALIGNMENT - 1) / SF_ALIGNMENT * SF_ALIGNMENT;
}

static sf_status too_much(size_t count, size_t size) {
    const double gib = 1024.0 * 1024.0 * 1024.0;
    return sf_fail(SF_NO_MEMORY,
                   "%.3g GiB are needed on top of %.3g GiB in use, but this machine has %.3g GiB; "
                   "use a smaller model, batch, length or count",
                   (double)count * (double)size / gib, (double)atomic_load(&bytes_in_use) / gib,
                   (double)machine_memory() / gib);
}

/* The system refused memory that the machine has: because of a limit, if there is one. */
static sf_status not_given(size_t bytes) {
    const double mib = 1024.0 * 1024.0;
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        return sf_fail(SF_NO_MEMORY,
                       "%.3g MiB more are needed on top of %.3g MiB, but the limit on memory (ulimit -v) is %.3g MiB; "
                       "raise it, or use fewer threads or a smaller model, batch, length or count",
                       (double)bytes / mib, (double)atomic_load(&bytes_in_use) / mib, (double)space.rlim_cur / mib);
    return sf_fail(
        SF_NO_MEMORY,
        "%.3g MiB more are needed on top of %.3g MiB, and the system has no memory left; end other programs, "
        "or use a smaller model, batch, length or count",
        (double)bytes / mib, (double)atomic_load(&bytes_in_use) / mib);
}

sf_status sf_allocate(void **out, size_t count, size_t size) {
    *out = NULL;
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2) return too_much(count, size);
    bytes = round_up(bytes) + HEADER + SF_ALIGNMENT;
    /* Linux promises more memory than there is and kills the process later: refuse here instead. */
    if (bytes > machine_memory() || atomic_load(&bytes_in_use) > machine_memory() - bytes) return too_much(count, size);
    void *start = calloc(1, bytes); /* large blocks are zero without being touched */
    if (start == NULL) return not_given(bytes);
    const size_t skip = round_up((uintptr_t)start) - (uintptr_t)start; /* to the next cache line */
    unsigned char *block = (unsigned char *)start + skip + HEADER;
    memcpy(block - HEADER, &(header){start, bytes}, sizeof(header));
    atomic_fetch_add(&allocation_count, 1);
    atomic_fetch_add(&bytes_in_use, bytes);
    *out = block;
    return SF_OK;
}

sf_status sf_grow(void **block, size_t used, size_t room, size_t size) {
    void *larger;
    const sf_status status = sf_allocate(&larger, room, size);
    if (larger == NULL) return status;
    if (used > 0) memcpy(larger, *block, used * size);
    sf_release(*block);
    *block = larger;
    return SF_OK;
}

void sf_release(void *block) {
    if (block == NULL) return;
    header about;
    memcpy(&about, (unsigned char *)block - HEADER, sizeof about);
    atomic_fetch_sub(&bytes_in_use, about.bytes);
    free(about.start);
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
