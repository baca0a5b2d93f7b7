/* Surfaces that the store holds of the runs of a study. */
#ifndef SF_LAB_STORED_SURFACES_H
#define SF_LAB_STORED_SURFACES_H

#include "lab/study.h"
#include "semfocus/landscape.h"

/* Of each of the groups from..to-1 the first run whose newest weights have a complete surface; all on the grid, extent,
 * directions and number of sequences that most of the groups have (of equals the finest). Series are group - from.
 * *out is NULL where there are none. */
sf_status sf_landscape_open_stored(sf_landscape **out, sf_store *store, const sf_study *study, size_t from, size_t to);

#endif
