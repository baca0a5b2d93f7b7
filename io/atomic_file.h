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
sf_status sf_atomic_commit(sf_atomic_file *file); /* also closes; on failure nothing is left behind */
void sf_atomic_abandon(sf_atomic_file *file);

#endif
