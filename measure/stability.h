/* The constants of section 9 of docs/theory.md: how much weightings other than softmax move with their scores, how far
 * the weights of within:t jump, and the bound of Hardt, Recht and Singer (2016). Pure functions, all in double. */
#ifndef SF_MEASURE_STABILITY_H
#define SF_MEASURE_STABILITY_H

#include <stddef.h>

/* Scores to weights, l2 to l2, between any two scores over the same `kept` keys: none above `largest_score`, dispersion
 * at most `dispersion`. */
double sf_sigmoid_stability(double largest_score, double kept);
double sf_softmax1_stability(double dispersion, double largest_score, double kept);
/* alpha from above 1 to 2 (sparsemax), weights at most `largest_weight`; changes of the support included. */
double sf_entmax_stability(double alpha, double largest_weight);

/* How far the weights of within:cap move at most, l2, when `crossing` keys leave or join the kept set at once. */
double sf_within_jump(double cap, double crossing);

/* Stochastic gradient descent on losses between 0 and 1, each Lipschitz and smooth in the weights, with steps that do
 * not grow. */
typedef struct sf_hardt {
    double lipschitz, smoothness;
    double step_scale;            /* c: step t is at most c / t long, t from 1 */
    double steps, samples, batch; /* samples: of the training set; batch: of them per step */
} sf_hardt;
/* Uniform stability: the expected gap between held-out and training loss is at most this. */
double sf_hardt_bound(const sf_hardt *h);
/* The least that the bound can be, whatever the smoothness is. */
double sf_hardt_least(const sf_hardt *h);
/* The smallest c for steps of length rate * decay^epoch. */
double sf_hardt_step_scale(double rate, double decay, size_t epochs, size_t steps_per_epoch);

#endif
