/* What the files that call MPI share. */
#ifndef SF_RANKS_MPI_JOB_H
#define SF_RANKS_MPI_JOB_H

#include <mpi.h>
#include <pthread.h>

#include "base/status.h"

/* MPI is initialized for calls of one thread at a time: whoever calls it holds this lock. */
extern pthread_mutex_t sf_mpi_lock;

/* The communicator of ranks/post.h. */
MPI_Comm sf_mpi_post(void);

/* What ranks/transfer.h needs: after MPI_Init, and before MPI_Finalize, at every rank. */
sf_status sf_transfer_start(void);
void sf_transfer_finish(void);

#endif
