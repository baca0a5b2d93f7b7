/* Gradient clipping, update rules and learning-rate schedules over flat blocks. Padding is zero and stays zero. */
#ifndef SF_TRAIN_OPTIMIZER_H
#define SF_TRAIN_OPTIMIZER_H

#include <stddef.h>

#include "semfocus/settings.h"

/* Euclidean norm in double, in a fixed order. Not finite iff some element is not finite. */
double sf_gradient_norm(const float *gradient, size_t size);

/* min(1, clip / (norm + 1e-6)); 1 where clip is 0. */
double sf_clip_factor(double norm, double clip);

/* How many blocks of state the rule keeps: 0, 1 (momentum) or 2 (moments). */
size_t sf_optimizer_moments(const sf_config *config);

/* One update with `factor` times the gradient. `step` counts updates from 1. moments[i] is NULL where the rule keeps
 * none. */
void sf_optimizer_update(float *params /* [size] */, float *const *moments /* [0..2][size] */,
                         const float *gradient /* [size] */, float factor, const sf_config *config, double lr,
                         size_t step, size_t size);

/* Learning rate of step `step` (from 0) of epoch `epoch` (from 1). */
double sf_learning_rate(const sf_config *config, size_t epoch, size_t step, size_t steps_per_epoch);

#endif
