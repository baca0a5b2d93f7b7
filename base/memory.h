/* All allocation goes through here: checked sizes, a count that tests read, and arenas for workspaces.
 *
 * Blocks are zeroed and aligned to 64 bytes (a cache line and the widest vector). */
#ifndef SF_BASE_MEMORY_H
#define SF_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { SF_ALIGNMENT = 64 };

/* Refuses products that overflow and totals beyond the machine's memory. A count of 0 gives a valid pointer. */
sf_status sf_allocate(void **out, size_t count, size_t size);
void sf_release(void *block); /* NULL is legal */

/* Moves the first `used` elements into a block of `room` elements; *block may be NULL. It stays as it is on failure. */
sf_status sf_grow(void **block, size_t used, size_t room, size_t size);

/* Typed forms: SF_NEW(&pointer, count), SF_GROW(&pointer, used, room). */
#define SF_NEW(out, count)         sf_allocate((void **)(out), (count), sizeof **(out))
#define SF_GROW(block, used, room) sf_grow((void **)(block), (used), (room), sizeof **(block))

/* Allocations since the program began; a training step leaves it unchanged. */
size_t sf_allocation_count(void);
size_t sf_bytes_in_use(void);

/* An arena is laid out twice by the same code: once with base NULL to compute its size (take() returns NULL), then,
 * after sf_arena_open(), for real. */
typedef struct sf_arena {
    unsigned char *base;
    size_t used;
    size_t capacity;
    bool overflow;
} sf_arena;

void *sf_arena_take(sf_arena *arena, size_t count, size_t size);
sf_status sf_arena_open(sf_arena *arena); /* allocates `used` bytes and rewinds */
void sf_arena_close(sf_arena *arena);

#endif
