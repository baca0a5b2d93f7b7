#include "ranks/launcher.h"

#include <stddef.h>
#include <stdlib.h>

/* A job step of srun has SLURM_PROCID also without MPI, so it counts only together with a variable of PMI. */
static const struct {
    const char *size, *name;
} launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "the mpirun of Open MPI"},
    {"PMI_SIZE", "a launcher of MPICH"},
};

const char *sf_launcher(void) {
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const char *size = getenv(launchers[i].size);
        if (size != NULL && strtol(size, NULL, 10) > 1) return launchers[i].name;
    }
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    const int several = tasks != NULL && strtol(tasks, NULL, 10) > 1;
    return several && (getenv("PMIX_RANK") != NULL || getenv("PMI_RANK") != NULL) ? "srun" : NULL;
}
