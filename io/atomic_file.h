/* Files that appear whole or not at all: written under another name in the same folder, synced, then renamed. */
#ifndef SF_IO_ATOMIC_FILE_H
#define SF_IO_ATOMIC_FILE_H

#include <stdio.h>

#include "base/status.h"
#include "semfocus/files.h"

typedef struct sf_atomic_file {
    FILE *stream;
    char path[4096], scratch[4096 + 64];
} sf_atomic_file;

/* Also removes unfinished files of killed processes from the folder, once per process and folder. */
sf_status sf_atomic_open(sf_atomic_file *file, const char *path);
/* Instead of writing to the stream. */
sf_status sf_atomic_append(sf_atomic_file *file, const void *bytes, size_t count);
sf_status sf_atomic_commit(sf_atomic_file *file); /* also closes; on failure nothing is left behind */
/* The same for files of one folder: they are synced at the same time, which is several times faster than one after the
 * other. On failure, some of them may have appeared. */
sf_status sf_atomic_commit_all(sf_atomic_file *files /* [count] */, size_t count);
void sf_atomic_abandon(sf_atomic_file *file); /* one that was committed or never opened is left alone */

/* A whole file at once. */
sf_status sf_atomic_write(const char *path, const void *bytes, size_t size);

#endif
