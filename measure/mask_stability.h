/* How many kept keys stay when Gaussian noise is added to the embedded tokens: by block, by noise, and by the query's
 * separation without noise. Counts are whole numbers, so the shares are the same for any number of threads; the noise
 * of a sample is the same draw at every scale. */
#ifndef SF_MEASURE_MASK_STABILITY_H
#define SF_MEASURE_MASK_STABILITY_H

#include "measure/observation.h"
#include "semfocus/theory.h"

/* Patterns by position and by chance do not depend on the input: for them the model is not run. */
sf_status sf_mask_stability_measure(sf_mask_stability **out, const sf_subject *subject, const double *scales,
                                    size_t scale_count);
void sf_mask_stability_destroy(sf_mask_stability *stability);

#endif
