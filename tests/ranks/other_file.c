/* For one rank of a job, $OTHER_RANK, the file $OTHER_FILE is $OTHER_CONTENT: as if its machine had another one. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_that_rank(void) {
    const char *wanted = getenv("OTHER_RANK"), *open_mpi = getenv("OMPI_COMM_WORLD_RANK"), *mpich = getenv("PMI_RANK");
    const char *rank = open_mpi != NULL ? open_mpi : mpich;
    return wanted != NULL && rank != NULL && strcmp(rank, wanted) == 0;
}

static const char *as_seen(const char *path) {
    const char *file = getenv("OTHER_FILE");
    return file != NULL && strcmp(path, file) == 0 && is_that_rank() ? getenv("OTHER_CONTENT") : path;
}

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const int mode = (flags & O_CREAT) != 0 ? va_arg(arguments, int) : 0;
    va_end(arguments);
    return ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open"))(as_seen(path), flags, mode);
}

FILE *fopen(const char *path, const char *mode) {
    return ((FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen"))(as_seen(path), mode);
}
