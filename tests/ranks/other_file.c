/* For one rank of a job, $OTHER_RANK, the file $OTHER_FILE is $OTHER_CONTENT: as if its machine had another one. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static int is_that_rank(void) {
    const char *wanted = getenv("OTHER_RANK"), *open_mpi = getenv("OMPI_COMM_WORLD_RANK"), *mpich = getenv("PMI_RANK");
    const char *rank = open_mpi != NULL ? open_mpi : mpich;
    return wanted != NULL && rank != NULL && strcmp(rank, wanted) == 0;
}

int open(const char *path, int flags, ...) {
    const char *file = getenv("OTHER_FILE");
    va_list arguments;
    va_start(arguments, flags);
    const int mode = (flags & O_CREAT) != 0 ? va_arg(arguments, int) : 0;
    va_end(arguments);
    if (file != NULL && strcmp(path, file) == 0 && is_that_rank()) path = getenv("OTHER_CONTENT");
    return ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open"))(path, flags, mode);
}
