#include "store/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int open_claims(const char *folder, int flags) {
    char path[4200];
    snprintf(path, sizeof path, "%s/claims", folder);
    return open(path, flags | O_CLOEXEC | O_NONBLOCK, 0666); /* does not wait if the file is a pipe */
}

static struct flock byte_of(int64_t run) {
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = run, .l_len = 1};
}

static sf_status open_to_lock(int *claim, const char *folder) {
    *claim = open_claims(folder, O_RDWR | O_CREAT);
    if (*claim >= 0) return SF_OK;
    return sf_fail(SF_IO_ERROR, "cannot open '%s/claims': %s; correct that, or name another store with --store", folder,
                   strerror(errno));
}

static sf_status lock(bool *taken, int claim, const char *folder, int64_t run, int how) {
    struct flock byte = byte_of(run);
    int code;
    do code = fcntl(claim, how, &byte);
    while (code != 0 && errno == EINTR);
    *taken = code == 0;
    if (*taken || errno == EAGAIN || errno == EACCES) return SF_OK;
    return sf_fail(SF_IO_ERROR, "cannot lock '%s/claims': %s; use a store on a local disk", folder, strerror(errno));
}

static sf_status take(int *claim, const char *folder, int64_t run, int how) {
    bool taken;
    SF_TRY(open_to_lock(claim, folder));
    const sf_status status = lock(&taken, *claim, folder, run, how);
    if (status == SF_OK && taken) return SF_OK;
    close(*claim);
    *claim = -1;
    return status;
}

sf_status sf_claim_take(int *claim, const char *folder, int64_t run) {
    return take(claim, folder, run, F_OFD_SETLK);
}

sf_status sf_claim_store(int *claim, const char *folder) {
    return take(claim, folder, 0, F_OFD_SETLKW);
}

sf_status sf_claim_take_also(bool *taken, int *claim, const char *folder, int64_t run) {
    *taken = false;
    if (*claim < 0) SF_TRY(open_to_lock(claim, folder));
    return lock(taken, *claim, folder, run, F_OFD_SETLK);
}

sf_status sf_claim_merging(int *claim, const char *folder) {
    return take(claim, folder, INT64_MAX - 1, F_OFD_SETLK);
}

void sf_claim_give_back(int claim) {
    if (claim >= 0) close(claim);
}

static bool is_locked(const char *folder, struct flock bytes) {
    const int file = open_claims(folder, O_RDONLY);
    if (file < 0) return false;
    const bool held = fcntl(file, F_OFD_GETLK, &bytes) == 0 && bytes.l_type != F_UNLCK;
    close(file);
    return held;
}

bool sf_claim_is_held(const char *folder, int64_t run) {
    return is_locked(folder, byte_of(run));
}

bool sf_claim_is_any_held(const char *folder) {
    struct flock every_run = byte_of(1);
    every_run.l_len = 0; /* to the end */
    return is_locked(folder, every_run);
}
