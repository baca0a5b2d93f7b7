#include "base/threads.h"

#include <omp.h>

int sf_threads_for(size_t asked) {
    if (omp_in_parallel()) return 1;
    return asked > 0 ? (int)asked : omp_get_num_procs();
}
