#include "io/regular.h"

#include <sys/stat.h>

static const char *name_of(mode_t mode) {
    if (S_ISFIFO(mode)) return "a pipe";
    return S_ISSOCK(mode) ? "a socket" : "a device";
}

sf_status sf_check_regular(const char *path, const char *why) {
    struct stat about;
    if (stat(path, &about) != 0 || S_ISREG(about.st_mode)) return SF_OK;
    if (S_ISDIR(about.st_mode)) return sf_fail(SF_BAD_INPUT, "%s: is a folder; name a file", path);
    return sf_fail(SF_BAD_INPUT, "%s: is %s, but %s; name a file", path, name_of(about.st_mode), why);
}
