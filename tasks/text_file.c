#include "tasks/text_file.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/stop.h"
#include "io/regular.h"
#include "semfocus/text.h"

enum { BLOCK = 1 << 16 };

static sf_text_progress *progress_of;
static void *progress_context;

void sf_text_on_progress(sf_text_progress *progress, void *context) {
    progress_of = progress;
    progress_context = context;
}

void sf_text_tell_progress(const char *what, double share) {
    if (progress_of != NULL) progress_of(progress_context, what, share);
}

static sf_status open_text(FILE **out, const char *path) {
    if (*path == '\0')
        return sf_fail(SF_BAD_INPUT, "the name of a text file is empty; write text:TRAIN or text:TRAIN,HELDOUT");
    SF_TRY(sf_check_regular(path, "a text is read more than once"));
    *out = fopen(path, "rb");
    if (*out != NULL) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "%s: cannot be opened: %s", path, strerror(errno));
}

typedef struct examination {
    sf_text_file *file;
    const sf_text_limits *limits;
    size_t line_bytes; /* of the line that the block ends in */
} examination;

static sf_status too_long(const examination *e) {
    return sf_fail(SF_BAD_INPUT, "%s:%zu: is a line of more than %zu bytes; break it into lines", e->file->path,
                   e->file->lines + 1, e->limits->longest_line);
}

static sf_status examine_block(examination *e, const char *block, size_t count) {
    sf_text_file *file = e->file;
    for (size_t at = 0; at < count;) {
        const char *newline = memchr(block + at, '\n', count - at);
        const size_t length = (newline != NULL ? (size_t)(newline - block) : count) - at;
        if (!e->limits->binary && memchr(block + at, '\0', length) != NULL)
            return sf_fail(SF_BAD_INPUT,
                           "%s:%zu: contains a NUL byte, so it is not text; give a text file, or use --tokenizer byte",
                           file->path, file->lines + 1);
        e->line_bytes += length;
        if (e->line_bytes > e->limits->longest_line) return too_long(e);
        at += length;
        if (newline == NULL) break;
        at++;
        file->lines++;
        e->line_bytes = 0;
    }
    file->size += count;
    file->hash = sf_hash(file->hash, block, count);
    return SF_OK;
}

static sf_status examine(examination *e, FILE *stream, const atomic_int *stop) {
    char block[BLOCK];
    bool ended = true;
    for (size_t count; (count = fread(block, 1, sizeof block, stream)) > 0; ended = block[count - 1] == '\n') {
        if (sf_stop_asked(stop)) return sf_fail(SF_INTERRUPTED, "stopped on request");
        SF_TRY(examine_block(e, block, count));
    }
    if (ferror(stream) != 0) return sf_fail(SF_BAD_INPUT, "%s: cannot be read: %s", e->file->path, strerror(errno));
    if (e->file->size == 0)
        return sf_fail(SF_BAD_INPUT, "%s:1: is empty; give a text with several lines", e->file->path);
    e->file->lines += !ended;
    return SF_OK;
}

sf_status sf_text_file_examine(sf_text_file *out, const char *path, const sf_text_limits *limits,
                               const atomic_int *stop) {
    FILE *stream = NULL;
    *out = (sf_text_file){.path = path, .hash = SF_HASH_START};
    SF_TRY(open_text(&stream, path));
    assert(stream != NULL);
    examination e = {.file = out, .limits = limits};
    const sf_status status = examine(&e, stream, stop);
    fclose(stream);
    return status;
}

sf_status sf_text_file_read(sf_bytes *out, const sf_text_file *file) {
    FILE *stream = NULL;
    *out = (sf_bytes){0};
    SF_TRY(open_text(&stream, file->path));
    assert(stream != NULL);
    sf_status status = SF_NEW(&out->at, file->size);
    if (status == SF_OK) out->room = file->size;
    if (status == SF_OK) out->count = fread(out->at, 1, file->size, stream);
    fclose(stream);
    if (status == SF_OK && (out->count != file->size || sf_hash(SF_HASH_START, out->at, out->count) != file->hash))
        status = sf_fail(SF_IO_ERROR, "%s: changed while it was read; try again once it is complete", file->path);
    if (status != SF_OK) sf_bytes_release(out);
    return status;
}

bool sf_text_next_line(const char **line, size_t *length, bool *ended, size_t *at, const char *text, size_t size) {
    if (*at >= size) return false;
    const char *newline = memchr(text + *at, '\n', size - *at);
    const size_t end = newline != NULL ? (size_t)(newline - text) : size;
    *line = text + *at;
    *length = end - *at;
    *ended = newline != NULL;
    *at = end + 1;
    return true;
}
