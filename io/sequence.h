/* Arrays that grow at their end: token ids, and bytes. */
#ifndef SF_IO_SEQUENCE_H
#define SF_IO_SEQUENCE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/memory.h"

typedef struct sf_ids {
    int32_t *at;
    size_t count, room;
} sf_ids;

typedef struct sf_bytes {
    char *at;
    size_t count, room;
} sf_bytes;

static inline sf_status sf_ids_add(sf_ids *ids, int32_t id) {
    if (ids->count == ids->room) {
        SF_TRY(SF_GROW(&ids->at, ids->count, 2 * ids->room + 256));
        ids->room = 2 * ids->room + 256;
    }
    ids->at[ids->count++] = id;
    return SF_OK;
}

static inline sf_status sf_bytes_add(sf_bytes *bytes, const char *text, size_t length) {
    if (bytes->room - bytes->count < length) {
        SF_TRY(SF_GROW(&bytes->at, bytes->count, 2 * bytes->room + length));
        bytes->room = 2 * bytes->room + length;
    }
    if (length > 0) memcpy(bytes->at + bytes->count, text, length);
    bytes->count += length;
    return SF_OK;
}

static inline void sf_ids_release(sf_ids *ids) {
    sf_release(ids->at);
    *ids = (sf_ids){NULL, 0, 0};
}

static inline void sf_bytes_release(sf_bytes *bytes) {
    sf_release(bytes->at);
    *bytes = (sf_bytes){NULL, 0, 0};
}

#endif
