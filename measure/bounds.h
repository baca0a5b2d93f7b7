/* The constants of docs/theory.md, from the weights of a model and the domain of its inputs. Section numbers refer to
 * that page. All in double. */
#ifndef SF_MEASURE_BOUNDS_H
#define SF_MEASURE_BOUNDS_H

#include "measure/spectral.h"
#include "semfocus/theory.h"

/* Largest slope of the activation: section 4. */
double sf_activation_slope(sf_activation activation);

/* A weight is at most this where n keys are kept with dispersion at most delta: section 1. */
double sf_largest_weight(double dispersion, double kept);

/* Softmax stability, l2 to l2: section 1. `kept` keys per query; a separation of INFINITY means that the kept set does
 * not depend on the scores. */
double sf_softmax_stability(sf_bound_kind kind, double dispersion, double separation, double kept);

/* Every constant of one block. */
void sf_block_bounds_of(sf_block_bounds *out, const sf_block_norms *norms, const sf_shape *shape,
                        const sf_bound_domain *domain);

/* All blocks and their composition through the head to the loss: section 5. */
sf_status sf_bounds_create(sf_bounds **out, const sf_model *model, const float *params /* [size] */,
                           const sf_bound_domain *domains /* [L] */);
void sf_bounds_destroy(sf_bounds *bounds);

#endif
