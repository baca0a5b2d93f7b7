/* Surfaces that the store holds of the runs of a study. */
#ifndef SF_STUDY_STORED_SURFACES_H
#define SF_STUDY_STORED_SURFACES_H

#include "semfocus/landscape.h"
#include "study/study.h"

/* For each of the groups from..to-1, the first run whose newest weights have a complete surface. All share one grid,
 * extent, directions and number of sequences: the finest grid that at least two groups have, else the finest; one too
 * coarse for slopes only if there is no other. Series are group - from. *out is NULL where there are none. */
sf_status sf_landscape_open_stored(sf_landscape **out, sf_store *store, const sf_study *study, size_t from, size_t to);

#endif
