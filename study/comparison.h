/* The published comparison of a run with full attention and one that chooses keys by score. */
#ifndef SF_STUDY_COMPARISON_H
#define SF_STUDY_COMPARISON_H

#include "semfocus/measure.h"

/* Whether everything that changes numbers is equal, but for the mechanism. */
bool sf_same_but_for_the_mechanism(const sf_config *a, const sf_config *b);

typedef struct sf_compared { /* quantiles, as many as there are percents */
    const double *dispersion;
    const double *kept_dispersion, *separation, *in_degree;
    double k;
} sf_compared;
void sf_compare_quantiles(sf_comparison out[SF_QUANTILES], const sf_compared *quantiles);

#endif
