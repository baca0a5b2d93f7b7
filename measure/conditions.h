/* When top-k has the better bound than full attention: the sufficient conditions of "Transformers Learn Faster with
 * Semantic Focus", as left sides that must be below 1.
 *
 * Softmax is stable in its input, l2 to l2, with xi = e^dispersion / keys over all keys or under a fixed mask, and
 * xi = e^dispersion / k (1 + 1 / separation) where the k keys are chosen by score. */
#ifndef SF_MEASURE_CONDITIONS_H
#define SF_MEASURE_CONDITIONS_H

#include <stddef.h>

typedef struct sf_condition_input {
    double dispersion;      /* delta_s: range of the scores of all keys */
    double kept_dispersion; /* delta_h: range of the kept ones */
    double separation;      /* Delta_h: distance of the kept scores from the others */
    double sink_ratio;      /* beta: in-degree / k */
} sf_condition_input;

/* W: in the parameters. X: in the input, where 2 Gamma Xi^2 = dispersion. Infinite where dispersion or separation is 0:
 * the bound of top-k is then never the better one. NaN where an input is. */
double sf_condition_w(const sf_condition_input *input);
double sf_condition_x(const sf_condition_input *input);

/* ln xi; the exponential may be too large for a double. */
double sf_ln_stability_fixed(double dispersion, size_t keys);
double sf_ln_stability_by_score(double dispersion, double separation, size_t k);

#define SF_LEAST_SEPARATION 1e-9 /* the published comparison raises smaller values to this */

#endif
