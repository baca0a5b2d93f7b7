/* Which optional parts this build has. */
#ifndef SEMFOCUS_BUILD_PARTS_H
#define SEMFOCUS_BUILD_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "semfocus/api.h"
#include "semfocus/status.h"

SF_API_BEGIN

typedef struct sf_build_part {
    const char *name;   /* "mpi" */
    const char *does;   /* what it is for */
    const char *remedy; /* how to get it */
    bool built;
} sf_build_part;
bool sf_build_part_describe(sf_build_part *out, size_t i); /* false past the end */

/* Whether the part "nccl", if it is built in, finds its library; SF_UNSUPPORTED with a clause if not. */
sf_status sf_nccl_check(void);

/* The instruction set that runs are computed with on this machine. */
const char *sf_instruction_set(void);

SF_API_END

#endif
