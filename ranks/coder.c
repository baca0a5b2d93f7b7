#include "ranks/coder.h"

#include <stdint.h>
#include <string.h>

#include "base/memory.h"

sf_coder sf_coder_reading(const void *bytes, size_t size) {
    const unsigned char *first = bytes;
    return (sf_coder){.reading = true, .next = first, .end = first + size};
}

static void append(sf_coder *coder, const void *value, size_t size) {
    if (coder->failed) return;
    if (coder->room - coder->size < size) {
        const size_t room = 2 * coder->room + size + 64;
        coder->failed = SF_GROW(&coder->bytes, coder->size, room) != SF_OK;
        if (coder->failed) return;
        coder->room = room;
    }
    if (size > 0) memcpy(coder->bytes + coder->size, value, size);
    coder->size += size;
}

static const unsigned char *take(sf_coder *coder, size_t size) {
    if (coder->failed || (size_t)(coder->end - coder->next) < size) {
        coder->failed = true;
        return NULL;
    }
    coder->next += size;
    return coder->next - size;
}

void sf_code(sf_coder *coder, void *value, size_t size) {
    if (!coder->reading) {
        append(coder, value, size);
        return;
    }
    const unsigned char *from = take(coder, size);
    if (from != NULL)
        memcpy(value, from, size);
    else
        memset(value, 0, size);
}

void sf_code_block(sf_coder *coder, const void **block, size_t *size) {
    uint64_t count = coder->reading ? 0 : *size;
    bool there = !coder->reading && *block != NULL;
    SF_CODE(coder, &count);
    SF_CODE(coder, &there);
    if (!coder->reading) {
        if (there) append(coder, *block, *size);
        return;
    }
    *block = there ? take(coder, (size_t)count) : NULL;
    *size = *block != NULL ? (size_t)count : 0;
}

void sf_code_text(sf_coder *coder, const char **text) {
    const void *block = coder->reading ? NULL : *text;
    size_t size = block != NULL ? strlen(*text) + 1 : 0;
    sf_code_block(coder, &block, &size);
    if (!coder->reading) return;
    const char *end = block;
    if (end != NULL && (size == 0 || end[size - 1] != '\0')) {
        coder->failed = true;
        end = NULL;
    }
    *text = end;
}
