/* Preloaded into the program under test: the N-th allocation or the N-th writing call of the process fails.
 *
 *   FAIL_ALLOCATION=N   malloc, calloc, realloc and their kin give NULL, once
 *   FAIL_WRITE=N        write, pwrite, fsync, fdatasync, rename, ftruncate and mkdir give ENOSPC, from then on
 *   KILL_WRITE=N        the process dies at that call instead
 *   FAIL_COUNT=FILE     how many of each there were, written there at exit ("ALLOCATIONS WRITES")
 *
 * Calls count from main() on: what libraries do before it, such as CUDA's runtime, is not the program's. */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): glibc's own names */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static atomic_long allocations, writes, fail_allocation = -1, fail_write = -1, kill_write = -1;
static atomic_int ready;

static long from_environment(const char *name) {
    const char *text = getenv(name);
    return text != NULL ? strtol(text, NULL, 10) : 0;
}

typedef int main_function(int count, char **words, char **environment);
static main_function *program;

static int begin(int count, char **words, char **environment) {
    fail_allocation = from_environment("FAIL_ALLOCATION");
    fail_write = from_environment("FAIL_WRITE");
    kill_write = from_environment("KILL_WRITE");
    ready = 1;
    return program(count, words, environment);
}

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): glibc's own name */
int __libc_start_main(main_function *start, int count, char **words, void (*init)(void), void (*fini)(void),
                      void (*at_end)(void), void *stack);
int __libc_start_main(main_function *start, int count, char **words, void (*init)(void), void (*fini)(void),
                      void (*at_end)(void), void *stack) {
    typedef int start_main(main_function *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
    program = start;
    return ((start_main *)dlsym(RTLD_NEXT, "__libc_start_main"))(begin, count, words, init, fini, at_end, stack);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

__attribute__((destructor)) static void end(void) {
    ready = 0;
    const char *path = getenv("FAIL_COUNT");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL) return;
    fprintf(file, "%ld %ld\n", (long)allocations, (long)writes);
    fclose(file);
}

static int this_allocation_fails(void) {
    return ready && ++allocations == fail_allocation;
}

void *malloc(size_t size) {
    return this_allocation_fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    return this_allocation_fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
    return this_allocation_fails() ? NULL : __libc_realloc(block, size);
}

/* Standard output and error are no part of what is tested. */
static int this_write_fails(int file) {
    if (!ready || file == STDOUT_FILENO || file == STDERR_FILENO) return 0;
    const long number = ++writes;
    if (number == kill_write) raise(SIGKILL);
    if (fail_write <= 0 || number < fail_write) return 0;
    errno = ENOSPC;
    return 1;
}

#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))

ssize_t write(int file, const void *bytes, size_t count) {
    if (this_write_fails(file)) return -1;
    return NEXT(ssize_t(*)(int, const void *, size_t), "write")(file, bytes, count);
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t at) {
    if (this_write_fails(file)) return -1;
    return NEXT(ssize_t(*)(int, const void *, size_t, off_t), "pwrite")(file, bytes, count, at);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) {
    if (this_write_fails(file)) return -1;
    return NEXT(ssize_t(*)(int, const void *, size_t, off64_t), "pwrite64")(file, bytes, count, at);
}

int fsync(int file) {
    return this_write_fails(file) ? -1 : NEXT(int (*)(int), "fsync")(file);
}

int fdatasync(int file) {
    return this_write_fails(file) ? -1 : NEXT(int (*)(int), "fdatasync")(file);
}

int ftruncate(int file, off_t size) {
    return this_write_fails(file) ? -1 : NEXT(int (*)(int, off_t), "ftruncate")(file, size);
}

int ftruncate64(int file, off64_t size) {
    return this_write_fails(file) ? -1 : NEXT(int (*)(int, off64_t), "ftruncate64")(file, size);
}

int rename(const char *from, const char *to) {
    return this_write_fails(-1) ? -1 : NEXT(int (*)(const char *, const char *), "rename")(from, to);
}

int mkdir(const char *path, mode_t mode) {
    return this_write_fails(-1) ? -1 : NEXT(int (*)(const char *, mode_t), "mkdir")(path, mode);
}
