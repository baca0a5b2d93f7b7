/* A text file: examined in small blocks first, so that what is wrong with it shows before memory is spent, then read
 * whole. */
#ifndef SF_TASKS_TEXT_FILE_H
#define SF_TASKS_TEXT_FILE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "io/sequence.h"

typedef struct sf_text_file {
    const char *path;
    uint64_t hash;
    size_t size, lines; /* the last line may lack its end */
} sf_text_file;

typedef struct sf_text_limits {
    bool binary;         /* NUL bytes are allowed */
    size_t longest_line; /* in bytes */
} sf_text_limits;

sf_status sf_text_file_examine(sf_text_file *out, const char *path, const sf_text_limits *limits,
                               const atomic_int *stop);
/* The whole text, if it still is what was examined. */
sf_status sf_text_file_read(sf_bytes *out, const sf_text_file *file);

/* The next line from *at on, without its end, and whether it has one; false: there is no more. */
bool sf_text_next_line(const char **line, size_t *length, bool *ended, size_t *at, const char *text, size_t size);

/* Passes on how far a text is (semfocus/text.h). */
void sf_text_tell_progress(const char *what, double share);

#endif
