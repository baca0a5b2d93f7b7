#include "io/atomic_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK ".semfocus-" /* then process, "-", number and ".part" */

/* The files that this process is writing, for sf_files_abandon(). If there are more, a later process removes the
 * rest. */
enum { MOST_OPEN = 64 };
static const char *_Atomic being_written[MOST_OPEN];

static void replace_note(const char *old, const char *new) {
    for (size_t i = 0; i < MOST_OPEN; i++) {
        const char *expected = old;
        if (atomic_compare_exchange_strong(&being_written[i], &expected, new)) return;
    }
}

void sf_files_abandon(void) {
    for (size_t i = 0; i < MOST_OPEN; i++) {
        const char *name = atomic_load(&being_written[i]);
        if (name != NULL) unlink(name);
    }
}

static sf_status cannot_write(const char *path) {
    return sf_fail(SF_IO_ERROR, "cannot write '%s': %s; nothing was changed", path, strerror(errno));
}

/* Locks the open file; the kernel drops the lock when the process dies, on any host. */
static bool lock(int file) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(file, F_OFD_SETLK, &whole) == 0;
}

static bool is_scratch(const char *name) {
    const char *mark = NULL;
    for (const char *at = name; (at = strstr(at, MARK)) != NULL; at++) mark = at;
    if (mark == NULL) return false;
    const char *number = mark + strlen(MARK);
    const size_t digits = strspn(number, "0123456789-");
    return digits > 0 && strcmp(number + digits, ".part") == 0;
}

/* The writer holds a lock as long as it runs. */
static void remove_if_left(int folder, const char *name) {
    const int file = openat(folder, name, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (file < 0) return;
    if (lock(file)) unlinkat(folder, name, 0);
    close(file);
}

static void remove_left_overs(int folder) {
    DIR *listing = fdopendir(folder);
    if (listing == NULL) {
        close(folder);
        return;
    }
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;)
        if (is_scratch(entry->d_name)) remove_if_left(folder, entry->d_name);
    closedir(listing);
}

static int open_folder_of(const char *path) {
    char copy[4096];
    strcpy(copy, path);
    return open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Once per process and folder: there may be thousands of files in it. */
static void tidy_folder_of(const char *path) {
    enum { KNOWN = 16 };
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    static struct {
        dev_t device;
        ino_t inode;
    } known[KNOWN];
    static size_t count;
    struct stat about;
    const int folder = open_folder_of(path);
    if (folder < 0 || fstat(folder, &about) != 0) {
        if (folder >= 0) close(folder);
        return;
    }
    pthread_mutex_lock(&turn);
    bool tidied = false;
    for (size_t i = 0; i < KNOWN && i < count; i++)
        tidied |= known[i].device == about.st_dev && known[i].inode == about.st_ino;
    if (!tidied) {
        known[count % KNOWN].device = about.st_dev;
        known[count++ % KNOWN].inode = about.st_ino;
    }
    pthread_mutex_unlock(&turn);
    if (tidied)
        close(folder);
    else
        remove_left_overs(folder);
}

/* Under a unique name. Between its creation and its lock a file looks abandoned, and another process may remove it:
 * then it is created again. A file system without locks works, too. */
static int make_scratch(sf_atomic_file *out) {
    static atomic_ulong made;
    for (;;) {
        snprintf(out->scratch, sizeof out->scratch, "%s" MARK "%ld-%lu.part", out->path, (long)getpid(),
                 atomic_fetch_add(&made, 1));
        const int file = open(out->scratch, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file < 0 && errno == EEXIST) continue;
        if (file < 0) return file;
        const bool taken = !lock(file) && (errno == EAGAIN || errno == EACCES);
        struct stat about;
        if (!taken && fstat(file, &about) == 0 && about.st_nlink > 0) return file;
        close(file);
    }
}

static sf_status check_place(const char *path) {
    struct stat about;
    if (stat(path, &about) != 0 || S_ISREG(about.st_mode)) return SF_OK;
    if (S_ISDIR(about.st_mode)) return sf_fail(SF_BAD_INPUT, "'%s' is a folder; name a file in it", path);
    /* a device or pipe cannot be renamed over */
    return sf_fail(SF_BAD_INPUT, "'%s' exists and is not a regular file; name another, or leave it out and use a pipe",
                   path);
}

sf_status sf_atomic_open(sf_atomic_file *file, const char *path) {
    *file = (sf_atomic_file){0};
    if (strlen(path) >= sizeof file->path)
        return sf_fail(SF_BAD_INPUT, "the file name is longer than %zu characters; use a shorter one",
                       sizeof file->path);
    strcpy(file->path, path);
    SF_TRY(check_place(path));
    tidy_folder_of(path);
    const int scratch = make_scratch(file);
    if (scratch < 0) return cannot_write(path);
    replace_note(NULL, file->scratch);
    file->stream = fdopen(scratch, "wb");
    if (file->stream != NULL) return SF_OK;
    const sf_status status = cannot_write(path);
    close(scratch);
    unlink(file->scratch);
    replace_note(file->scratch, NULL);
    return status;
}

/* Makes the rename survive a power cut. A folder that may be written but not read cannot be synced: the file is in
 * place. */
static bool sync_folder(const char *path) {
    const int folder = open_folder_of(path);
    if (folder < 0) return true;
    const bool synced = fsync(folder) == 0;
    close(folder);
    return synced;
}

sf_status sf_atomic_append(sf_atomic_file *file, const void *bytes, size_t count) {
    const char *at = bytes;
    while (count > 0) {
        const ssize_t written = write(fileno(file->stream), at, count);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return cannot_write(file->path);
        at += written;
        count -= (size_t)written;
    }
    return SF_OK;
}

static bool sync_file(const sf_atomic_file *file) {
    return fflush(file->stream) == 0 && ferror(file->stream) == 0 && fsync(fileno(file->stream)) == 0;
}

/* The file is renamed while it is open, since closing it drops its lock. */
static sf_status put_in_place(sf_atomic_file *file) {
    const bool good = rename(file->scratch, file->path) == 0;
    const sf_status status = good ? SF_OK : cannot_write(file->path);
    if (!good) unlink(file->scratch);
    replace_note(file->scratch, NULL);
    fclose(file->stream);
    file->stream = NULL;
    return status;
}

static sf_status sync_folder_of(const char *path) {
    if (sync_folder(path)) return SF_OK;
    return sf_fail(SF_IO_ERROR, "'%s' is written, but its folder could not be synced: %s", path, strerror(errno));
}

sf_status sf_atomic_commit(sf_atomic_file *file) {
    if (!sync_file(file)) {
        const sf_status status = cannot_write(file->path);
        sf_atomic_abandon(file);
        return status;
    }
    SF_TRY(put_in_place(file));
    return sync_folder_of(file->path);
}

typedef struct syncing {         /* files that several threads sync, each taking the next one */
    const sf_atomic_file *files; /* [count] */
    size_t count;
    atomic_size_t next;
    atomic_int why; /* the first failure; 0: none */
    _Atomic(const sf_atomic_file *) failed;
} syncing;

static void *sync_the_next(void *context) {
    syncing *s = context;
    for (size_t i; (i = atomic_fetch_add(&s->next, 1)) < s->count && atomic_load(&s->why) == 0;) {
        if (sync_file(&s->files[i])) continue;
        int none = 0;
        const int why = errno != 0 ? errno : EIO;
        if (atomic_compare_exchange_strong(&s->why, &none, why)) atomic_store(&s->failed, &s->files[i]);
    }
    return NULL;
}

/* With more threads than cores, because the disk serves several requests at once. As many as can be started, and this
 * one. */
static void sync_together(syncing *s) {
    enum { OTHERS = 15 };
    pthread_t threads[OTHERS];
    size_t started = 0;
    while (started < OTHERS && started + 1 < s->count && pthread_create(&threads[started], NULL, sync_the_next, s) == 0)
        started++;
    sync_the_next(s);
    for (size_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
}

sf_status sf_atomic_commit_all(sf_atomic_file *files, size_t count) {
    syncing s = {.files = files, .count = count};
    if (count == 0) return SF_OK;
    sync_together(&s);
    errno = s.why;
    sf_status status = s.why != 0 ? cannot_write(s.failed->path) : SF_OK;
    for (size_t i = 0; i < count && status == SF_OK; i++) status = put_in_place(&files[i]);
    if (status == SF_OK) return sync_folder_of(files[0].path);
    for (size_t i = 0; i < count; i++) sf_atomic_abandon(&files[i]);
    return status;
}

void sf_atomic_abandon(sf_atomic_file *file) {
    if (file->stream == NULL) return;
    unlink(file->scratch);
    replace_note(file->scratch, NULL);
    fclose(file->stream);
    file->stream = NULL;
}

sf_status sf_atomic_write(const char *path, const void *bytes, size_t size) {
    sf_atomic_file file;
    SF_TRY(sf_atomic_open(&file, path));
    fwrite(bytes, 1, size, file.stream); /* a failure shows in ferror() */
    return sf_atomic_commit(&file);
}
