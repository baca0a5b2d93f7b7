/* Files of token ids that are mapped into memory: int32 in the machine's byte order, then what is known about them. */
#ifndef SF_TASKS_TOKEN_FILE_H
#define SF_TASKS_TOKEN_FILE_H

#include <stdatomic.h>
#include <stdio.h>

#include "io/tokenizer.h"

typedef struct sf_token_facts { /* the end of the file */
    uint64_t mark;              /* what kind of file it is, and the byte order */
    uint64_t key;               /* of the text and the tokenizer */
    uint64_t hash;              /* of the ids */
    uint64_t count, lines, line_ends, bytes;
} sf_token_facts;

typedef struct sf_token_map {
    const int32_t *ids; /* [facts.count] */
    sf_token_facts facts;
    void *start;
    size_t size;
} sf_token_map;

typedef struct sf_token_source {
    const sf_tokenizer *tokenizer;
    const char *text;
    size_t size;
    uint64_t key;
    const char *name; /* of the file, for messages and progress */
} sf_token_source;

/* Tokenizes line by line into the stream, which the caller closes. */
sf_status sf_token_file_write(FILE *out, const sf_token_source *source, const atomic_int *stop);
/* Maps an open file. SF_BAD_INPUT: it is not whole, or not of this key. */
sf_status sf_token_map_open(sf_token_map *out, int file, uint64_t key);
void sf_token_map_close(sf_token_map *map);

#endif
