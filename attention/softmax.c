/* softmax: weights proportional to exp(score), over the kept keys alone.
 *
 * w_j = exp(s_j - max s) / sum_i exp(s_i - max s);  ds_j = w_j (dw_j - sum_i w_i dw_i).
 * The default weighting; the spelling topk:5 means topk:5/softmax. */
#include <math.h>

#include "attention/attention.h"
#include "base/elementary.h"

static void softmax(double *weights, const double *scores, const sf_weighing *row) {
    double largest = scores[0];
    for (size_t j = 1; j < row->kept; j++) largest = fmax(largest, scores[j]);
    double total = 0;
    for (size_t j = 0; j < row->kept; j++) total += weights[j] = sf_exp(scores[j] - largest);
    for (size_t j = 0; j < row->kept; j++) weights[j] /= total;
}

static void softmax_backward(double *dscores, const double *dweights, const double *weights, const double *scores,
                             const sf_weighing *row) {
    (void)scores;
    double mean = 0;
    for (size_t j = 0; j < row->kept; j++) mean += weights[j] * dweights[j];
    for (size_t j = 0; j < row->kept; j++) dscores[j] = weights[j] * (dweights[j] - mean);
}

const sf_weighting sf_weighting_softmax = {
    SF_WEIGHTING,
    .name = "softmax",
    .summary = "exponential weights that sum to 1",
    .weigh = softmax,
    .has_softmax_theory = true,
    .weigh_backward = softmax_backward,
    .formula = "e^s / sum e^s",
    .cost = "linear in the kept keys",
    .source = "Vaswani et al. 2017",
};
