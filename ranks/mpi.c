#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/threads.h"
#include "ranks/launcher.h"
#include "ranks/mpi_job.h"
#include "ranks/node.h"
#include "semfocus/ranks.h"

static struct {
    bool joined;
    size_t rank, count;
    MPI_Comm post;
} job = {.count = 1};

MPI_Comm sf_mpi_post(void) {
    return job.post;
}

/* "Open MPI 4.1.4". */
static const char *library(void) {
    static char name[64];
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    if (*name != '\0') return name;
    MPI_Get_library_version(text, &length);
    char version[16] = "";
#ifdef OPEN_MPI
    sscanf(text, "Open MPI v%15[0-9.]", version);
    snprintf(name, sizeof name, "Open MPI %s", version);
#else
    sscanf(text, "MPICH Version: %15[0-9.]", version);
    snprintf(name, sizeof name, "MPICH %s", version);
#endif
    return name;
}

/* MPI's launcher started us, but not that of our library: every process would believe to be alone. */
static sf_status refuse_other_launcher(const char *launcher) {
    return sf_fail(SF_UNSUPPORTED,
                   "%s started several processes, but this program is linked with %s, which does not see them; use the "
                   "launcher of that library, or build the program with the other one (-DMPI_C_COMPILER=...)",
                   launcher, library());
}

/* The ranks of a machine share its cores and GPUs. */
static sf_status divide_machine(void) {
    MPI_Comm node;
    cpu_set_t own, *all;
    int rank, count;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &rank);
    MPI_Comm_size(node, &count);
    if (sched_getaffinity(0, sizeof own, &own) != 0) CPU_ZERO(&own);
    const sf_status status = SF_NEW(&all, (size_t)count);
    if (status == SF_OK) {
        MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, node);
        sf_threads_by_default(sf_node_threads(all, (size_t)count, (size_t)rank));
        if (count > 1) sf_node_take_gpu((size_t)rank);
        sf_release(all);
    }
    MPI_Comm_free(&node);
    return status;
}

sf_status sf_ranks_start(void) {
    int provided, rank, count;
    const char *launcher = sf_launcher();
    if (launcher == NULL || job.joined) return SF_OK;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
        return sf_fail(SF_UNSUPPORTED, "%s could not start; see its own message", library());
    job.joined = true;
    if (provided < MPI_THREAD_SERIALIZED)
        return sf_fail(SF_UNSUPPORTED, "%s was built without threads, which semfocus needs", library());
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    job.rank = (size_t)rank;
    job.count = (size_t)count;
    if (count == 1) return refuse_other_launcher(launcher);
    MPI_Comm_dup(MPI_COMM_WORLD, &job.post);
    SF_TRY(sf_transfer_start());
    return divide_machine();
}

size_t sf_ranks_count(void) {
    return job.count;
}

size_t sf_ranks_rank(void) {
    return job.rank;
}

void sf_ranks_end(bool all, int code) {
    if (!job.joined) return;
    job.joined = false;
    if (all) {
        sf_transfer_finish();
        MPI_Finalize();
    } else {
        MPI_Abort(MPI_COMM_WORLD, code);
    }
}
