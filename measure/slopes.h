/* Estimated Lipschitz constants of a loss surface: the slopes between neighbouring grid points. */
#ifndef SF_MEASURE_SLOPES_H
#define SF_MEASURE_SLOPES_H

#include "measure/landscape.h"
#include "semfocus/landscape.h"

/* Whether the largest square holds two neighbouring points. */
bool sf_slopes_are_there(const sf_lattice *lattice);
sf_status sf_slopes_estimate(sf_lipschitz_curves *out, const double *losses /* [grid,grid] */,
                             const sf_lattice *lattice);

#endif
