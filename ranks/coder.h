/* Messages between ranks as bytes. One function per kind of message serves both directions: a coder that writes appends
 * the values, one that reads fills them, so that the two sides cannot disagree. All ranks run the same program on
 * machines of one kind, so values travel as they are in memory. */
#ifndef SF_RANKS_CODER_H
#define SF_RANKS_CODER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct sf_coder {
    bool reading;
    bool failed;                     /* a message that is too short, or no memory to write one */
    unsigned char *bytes;            /* written so far; the caller's once the message is sent */
    size_t size, room;               /* of it */
    const unsigned char *next, *end; /* what is still to be read */
} sf_coder;

sf_coder sf_coder_reading(const void *bytes, size_t size);

/* A value of fixed size. */
void sf_code(sf_coder *coder, void *value, size_t size);
#define SF_CODE(coder, value) sf_code((coder), (value), sizeof *(value))

/* An array of any length; what is read lies within the message, not aligned. NULL and 0 come out as they went in. */
void sf_code_block(sf_coder *coder, const void **block, size_t *size);
/* Text; what is read lies within the message. NULL comes out as NULL. */
void sf_code_text(sf_coder *coder, const char **text);

#endif
