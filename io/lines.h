/* A text file in memory, one line at a time.
 *
 *   sf_lines lines;
 *   SF_TRY(sf_lines_read(&lines, path));
 *   for (char *line; (line = sf_lines_next(&lines)) != NULL;) ...       line number lines.number
 *   sf_lines_release(&lines); */
#ifndef SF_IO_LINES_H
#define SF_IO_LINES_H

#include <stddef.h>

#include "base/status.h"

typedef struct sf_lines {
    const char *name; /* for messages: the path, or "standard input" for "-" */
    size_t number;    /* of the line given last, from 1; 0 before the first */
    char *text, *next, *end;
} sf_lines;

/* Reads the whole file ("-": standard input); a pipe must have a writer within a second. A file that cannot be opened
 * or read, or holds a NUL byte or a line of more than 16 MiB, is SF_BAD_INPUT. `path` must outlive `lines`; after a
 * failure there is nothing to release. */
sf_status sf_lines_read(sf_lines *lines, const char *path);

/* The next line without its end (LF or CRLF; the last may lack one) and without a UTF-8 byte order mark, NULL after the
 * last. The caller may change it. */
char *sf_lines_next(sf_lines *lines);

void sf_lines_release(sf_lines *lines);

#endif
