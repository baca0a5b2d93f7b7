/* The files in a store's folder of checkpoints, by name; train/checkpoint.c handles their contents. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/store_inside.h"

/* Files keep the name that the run began with: nothing is renamed when ids change, so no crash can interrupt that. */
static const char *name_of(const sf_stored_run *run) {
    return *run->earlier_id != '\0' ? run->earlier_id : run->id;
}

void sf_store_checkpoint_path(char out[SF_CHECKPOINT_PATH_SIZE], const sf_store *store, const sf_stored_run *run,
                              bool best, size_t epoch) {
    snprintf(out, SF_CHECKPOINT_PATH_SIZE, "%s/checkpoints/%s-%s%zu.safetensors", store->folder, name_of(run),
             best ? "best-" : "", epoch);
}

static DIR *open_folder(char path[SF_CHECKPOINT_PATH_SIZE], const sf_store *store) {
    snprintf(path, SF_CHECKPOINT_PATH_SIZE, "%s/checkpoints", store->folder);
    return opendir(path);
}

void sf_store_sweep(const sf_store *store, const sf_stored_run *run, size_t epoch, size_t best_epoch) {
    const char *name = name_of(run);
    char last[SF_CHECKPOINT_PATH_SIZE], best[SF_CHECKPOINT_PATH_SIZE], folder[SF_CHECKPOINT_PATH_SIZE];
    sf_store_checkpoint_path(last, store, run, false, epoch);
    sf_store_checkpoint_path(best, store, run, true, best_epoch);
    DIR *listing = open_folder(folder, store);
    if (listing == NULL) return; /* left-overs do no harm */
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        char path[SF_CHECKPOINT_PATH_SIZE + 300];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (strncmp(entry->d_name, name, strlen(name)) == 0 && strcmp(path, last) != 0 && strcmp(path, best) != 0)
            unlink(path);
    }
    closedir(listing);
}

static sf_status unreachable(const sf_stored_run *run, const char *path, int why) {
    return sf_fail(SF_IO_ERROR,
                   "run %s: its checkpoint '%s' cannot be reached (%s), and the store is left as it is; make the file "
                   "readable again, then repeat the command to continue",
                   run->id, path, strerror(why));
}

/* A file counts as missing only in a folder that can be listed. */
static sf_status look_for(bool *gone, const sf_store *store, const sf_stored_run *run, bool best, size_t epoch) {
    char path[SF_CHECKPOINT_PATH_SIZE], folder[SF_CHECKPOINT_PATH_SIZE];
    struct stat about;
    if (epoch == 0) return SF_OK;
    sf_store_checkpoint_path(path, store, run, best, epoch);
    if (access(path, R_OK) == 0) return SF_OK;
    const int why = errno;
    if (why != ENOENT || lstat(path, &about) == 0) return unreachable(run, path, why);
    DIR *listing = open_folder(folder, store);
    if (listing == NULL) return unreachable(run, path, errno);
    errno = 0;
    const bool listed = readdir(listing) != NULL;
    const int failed = errno;
    closedir(listing);
    if (!listed) return unreachable(run, path, failed != 0 ? failed : ENOENT); /* even an empty one has two entries */
    *gone = true;
    return SF_OK;
}

sf_status sf_store_look_for_files(bool *gone, const sf_store *store, const sf_stored_run *run) {
    *gone = false;
    SF_TRY(look_for(gone, store, run, false, run->checkpoint_epoch));
    return look_for(gone, store, run, true, run->best_saved_epoch);
}
