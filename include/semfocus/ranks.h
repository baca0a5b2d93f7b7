/* Processes that a launcher of MPI (mpirun, srun) started together work as one. Rank 0 does what a single process would
 * do: it alone owns the store, prints, and trains runs like any other. The other ranks train runs for it. Without a
 * launcher, or in a build without MPI, there is one rank, and every function here is legal and does nothing. */
#ifndef SEMFOCUS_RANKS_H
#define SEMFOCUS_RANKS_H

#include <stdbool.h>
#include <stddef.h>

#include "semfocus/api.h"
#include "semfocus/status.h"

SF_API_BEGIN

/* Once, before anything else. SF_UNSUPPORTED if a launcher of MPI started this process but the build cannot join. */
sf_status sf_ranks_start(void);
size_t sf_ranks_count(void); /* at least 1 */
size_t sf_ranks_rank(void);  /* of this process, from 0 */

/* On ranks other than 0, instead of any other work: trains runs for rank 0 until that dismisses the ranks. Not NULL,
 * `unable` says why this rank cannot take part (its plug-in is missing, say). */
sf_status sf_ranks_work(const char *unable);

/* On rank 0, last: ends the work of the others. False: some did not answer. */
bool sf_ranks_dismiss(void);
/* Once, after that, on every rank. Where some did not answer, the launcher ends them, and this process with them, with
 * this exit code. */
void sf_ranks_end(bool all_answered, int code);

SF_API_END

#endif
