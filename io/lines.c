#include "io/lines.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum { FIRST_ROOM = 1 << 16 };

static sf_status refuse_nul(const sf_lines *lines, size_t from, size_t to) {
    const char *nul = memchr(lines->text + from, '\0', to - from);
    if (nul == NULL) return SF_OK;
    size_t number = 1;
    for (const char *at = lines->text; at < nul; at++) number += *at == '\n';
    return sf_fail(SF_BAD_INPUT, "%s:%zu: holds a NUL byte, which no text has; give a text file", lines->name, number);
}

/* Reads to the end into a block that always has a zero byte to spare; refuses binary input as soon as it shows. */
static sf_status read_all(sf_lines *lines, FILE *file) {
    size_t room = FIRST_ROOM, size = 0;
    SF_TRY(SF_NEW(&lines->text, room));
    for (;;) {
        const size_t before = size;
        size += fread(lines->text + size, 1, room - 1 - size, file);
        SF_TRY(refuse_nul(lines, before, size));
        if (size < room - 1) break;
        SF_TRY(SF_GROW(&lines->text, size, 2 * room));
        room *= 2;
    }
    if (ferror(file)) return sf_fail(SF_BAD_INPUT, "%s: cannot be read: %s", lines->name, strerror(errno));
    lines->next = lines->text;
    lines->end = lines->text + size;
    return SF_OK;
}

sf_status sf_lines_read(sf_lines *lines, const char *path) {
    const bool from_stdin = strcmp(path, "-") == 0;
    *lines = (sf_lines){.name = from_stdin ? "standard input" : path};
    FILE *file = from_stdin ? stdin : fopen(path, "rb");
    if (file == NULL) return sf_fail(SF_BAD_INPUT, "%s: cannot be opened: %s", path, strerror(errno));
    const sf_status status = read_all(lines, file);
    if (!from_stdin) fclose(file);
    if (status != SF_OK) sf_lines_release(lines);
    return status;
}

char *sf_lines_next(sf_lines *lines) {
    if (lines->next == lines->end) return NULL;
    char *line = lines->next;
    char *newline = memchr(line, '\n', (size_t)(lines->end - line));
    char *stop = newline == NULL ? lines->end : newline;
    lines->next = newline == NULL ? lines->end : newline + 1;
    if (stop > line && stop[-1] == '\r') stop--;
    *stop = '\0';
    lines->number++;
    return line;
}

void sf_lines_release(sf_lines *lines) {
    sf_release(lines->text);
    *lines = (sf_lines){0};
}
