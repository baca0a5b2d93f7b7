/* Rank 0's connection to the other ranks of its job: opened when it is first needed, closed by sf_ranks_dismiss(). */
#ifndef SF_STUDY_JOB_H
#define SF_STUDY_JOB_H

#include "study/clerk.h"

/* *clerk is NULL where there is no other rank. */
sf_status sf_job_clerk(sf_clerk **clerk);

/* Tells the other ranks to follow what the backend of train/ranks_backend.h orders. */
sf_status sf_job_share_model(void);

#endif
