/* Arithmetic of the mathematics, each operation counted once: the linear layers, and per query the products with the
 * keys that it scores and keeps. Backward is twice the forward pass; what is scored but not kept counts forward only.
 */
#ifndef SF_TRAIN_FLOPS_H
#define SF_TRAIN_FLOPS_H

#include "model/model.h"

typedef struct sf_flops { /* of one sequence */
    double forward;
    double training; /* forward and backward */
} sf_flops;

/* `scored` and `kept`: keys per query, on average. */
sf_flops sf_flops_of(const sf_shape *shape, double scored, double kept);

/* From the settings alone: keys are counted as far as the spelling of the mechanism tells. */
sf_flops sf_flops_of_run(const sf_config *config, const char *attention);

#endif
