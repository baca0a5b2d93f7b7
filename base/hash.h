/* FNV-1a, 64 bits: names a block of bytes, detects any single flipped byte; no defence against forgery. */
#ifndef SF_BASE_HASH_H
#define SF_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define SF_HASH_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t sf_hash(uint64_t hash, const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++) hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
