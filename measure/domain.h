/* The domain of the bounds of each block, measured on a model's own data. */
#ifndef SF_MEASURE_DOMAIN_H
#define SF_MEASURE_DOMAIN_H

#include "measure/observation.h"
#include "semfocus/theory.h"

/* Dispersions, in-degrees and norms at the quantile `share`, separations and deviations at 1 - share, by linear
 * interpolation: share 1 gives the extremes, and then every sample lies in the domain. Memory: 6 doubles per position,
 * head, block and sample. */
sf_status sf_domain_measure(sf_bound_domain *out /* [L] */, size_t *samples, const sf_subject *subject, double share);

#endif
