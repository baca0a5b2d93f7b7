#include "io/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"

enum { FIRST_ROOM = 1 << 16, LONGEST_LINE = 16 << 20 };

static sf_status refuse_nul(const sf_lines *lines, size_t from, size_t to) {
    const char *nul = memchr(lines->text + from, '\0', to - from);
    if (nul == NULL) return SF_OK;
    size_t number = 1;
    for (const char *at = lines->text; at < nul; at++) number += *at == '\n';
    return sf_fail(SF_BAD_INPUT, "%s:%zu: contains a NUL byte, so it is not text; give a text file", lines->name,
                   number);
}

typedef struct reading {
    size_t size, room;
    size_t line_start, line; /* of the line that the text so far ends in */
} reading;

/* A file without line ends, of any size, is refused before it fills the memory. */
static sf_status refuse_long_line(const sf_lines *lines, reading *at, size_t from) {
    for (size_t end;; from = at->line_start = end + 1, at->line++) {
        const char *newline = memchr(lines->text + from, '\n', at->size - from);
        end = newline != NULL ? (size_t)(newline - lines->text) : at->size;
        if (end - at->line_start > LONGEST_LINE)
            return sf_fail(SF_BAD_INPUT, "%s:%zu: is a line of more than %d bytes; break it up", lines->name, at->line,
                           LONGEST_LINE);
        if (newline == NULL) return SF_OK;
    }
}

/* Calls read() once for what is available, up to the end of the buffer, which has one more byte for a zero. *count is
 * what read() returned. Refuses binary input and endless lines at once. */
static sf_status read_some(ssize_t *count, sf_lines *lines, reading *at, int file) {
    if (at->size == at->room - 1) {
        SF_TRY(SF_GROW(&lines->text, at->size, 2 * at->room));
        at->room *= 2;
    }
    do *count = read(file, lines->text + at->size, at->room - 1 - at->size);
    while (*count < 0 && errno == EINTR);
    if (*count < 0) return SF_OK;
    SF_TRY(refuse_nul(lines, at->size, at->size + (size_t)*count));
    at->size += (size_t)*count;
    return refuse_long_line(lines, at, at->size - (size_t)*count);
}

/* Opening a pipe waits for a writer, perhaps forever. So it is opened without waiting; reading it then returns end of
 * file as long as it has no writer. The writer has one second to open it. Then it is read like any file. */
static sf_status await_writer(sf_lines *lines, reading *at, int pipe) {
    enum { TRIES = 50 };
    ssize_t count = 0;
    for (int i = 0; i < TRIES && count == 0; i++) {
        SF_TRY(read_some(&count, lines, at, pipe));
        if (count == 0) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    if (count == 0)
        return sf_fail(SF_BAD_INPUT, "%s: is a pipe without a writer; name a file, or start its writer first",
                       lines->name);
    fcntl(pipe, F_SETFL, fcntl(pipe, F_GETFL) & ~O_NONBLOCK);
    return SF_OK;
}

static sf_status read_all(sf_lines *lines, int file, bool is_pipe) {
    reading at = {.room = FIRST_ROOM, .line = 1};
    SF_TRY(SF_NEW(&lines->text, at.room));
    if (is_pipe) SF_TRY(await_writer(lines, &at, file));
    ssize_t count = 1;
    while (count > 0) SF_TRY(read_some(&count, lines, &at, file));
    if (count < 0) return sf_fail(SF_BAD_INPUT, "%s: cannot be read: %s", lines->name, strerror(errno));
    const bool marked = at.size >= 3 && memcmp(lines->text, "\xEF\xBB\xBF", 3) == 0; /* the byte order mark */
    lines->next = lines->text + (marked ? 3 : 0);
    lines->end = lines->text + at.size;
    return SF_OK;
}

static sf_status read_file(sf_lines *lines, const char *path) {
    if (*path == '\0') return sf_fail(SF_BAD_INPUT, "the name of the file is empty; name one");
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat about;
    if (file < 0) return sf_fail(SF_BAD_INPUT, "%s: cannot be opened: %s", path, strerror(errno));
    const bool is_pipe = fstat(file, &about) == 0 && S_ISFIFO(about.st_mode);
    const sf_status status = read_all(lines, file, is_pipe);
    close(file);
    return status;
}

sf_status sf_lines_read(sf_lines *lines, const char *path) {
    const bool from_stdin = strcmp(path, "-") == 0;
    *lines = (sf_lines){.name = from_stdin ? "standard input" : path};
    const sf_status status = from_stdin ? read_all(lines, STDIN_FILENO, false) : read_file(lines, path);
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
