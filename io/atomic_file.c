#include "io/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static sf_status cannot_write(const char *path) {
    return sf_fail(SF_IO_ERROR, "cannot write '%s': %s; nothing was changed", path, strerror(errno));
}

sf_status sf_atomic_open(sf_atomic_file *file, const char *path) {
    *file = (sf_atomic_file){0};
    if (strlen(path) >= sizeof file->path)
        return sf_fail(SF_BAD_INPUT, "the file name is longer than %zu characters; use a shorter one",
                       sizeof file->path);
    strcpy(file->path, path);
    snprintf(file->scratch, sizeof file->scratch, "%s.%ld.part", path, (long)getpid());
    struct stat about;
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) /* a device or pipe cannot be renamed over */
        return sf_fail(SF_BAD_INPUT,
                       "'%s' exists and is not a regular file; name another, or leave it out and use a pipe", path);
    file->stream = fopen(file->scratch, "wb");
    if (file->stream == NULL) return cannot_write(path);
    return SF_OK;
}

/* Makes the rename survive a power cut. A folder that may be written but not read cannot be synced: the file is in
 * place. */
static bool sync_folder(const char *path) {
    char copy[4096];
    strcpy(copy, path);
    const int folder = open(dirname(copy), O_RDONLY | O_DIRECTORY);
    if (folder < 0) return true;
    const bool synced = fsync(folder) == 0;
    close(folder);
    return synced;
}

sf_status sf_atomic_commit(sf_atomic_file *file) {
    bool good = fflush(file->stream) == 0 && ferror(file->stream) == 0 && fsync(fileno(file->stream)) == 0;
    sf_status status = good ? SF_OK : cannot_write(file->path);
    good = fclose(file->stream) == 0 && good;
    file->stream = NULL;
    if (good && rename(file->scratch, file->path) == 0) {
        if (sync_folder(file->path)) return SF_OK;
        return sf_fail(SF_IO_ERROR, "'%s' is written, but its folder could not be synced: %s", file->path,
                       strerror(errno));
    }
    if (status == SF_OK) status = cannot_write(file->path);
    unlink(file->scratch);
    return status;
}

void sf_atomic_abandon(sf_atomic_file *file) {
    if (file->stream == NULL) return;
    fclose(file->stream);
    unlink(file->scratch);
    file->stream = NULL;
}
