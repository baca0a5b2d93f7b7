/* /sigmoid: every key is weighted by itself; the weights need not sum to 1.
 *
 *   w_j = sigma(s_j - ln n) with n kept keys;  ds_j = w_j (1 - w_j) dw_j
 *
 * With all scores 0 every weight is 1 / (1 + n), close to the mean. Source: Ramapuram et al. 2024. Cost: linear in the
 * kept keys. Example: semfocus train even-pairs --attention full/sigmoid */
#include "attention/attention.h"
#include "base/elementary.h"

static void weigh(double *weights, const double *scores, const sf_weighing *row) {
    const double shift = sf_log((double)row->kept);
    for (size_t j = 0; j < row->kept; j++) weights[j] = 1 / (1 + sf_exp(shift - scores[j]));
}

static void weigh_backward(double *dscores, const double *dweights, const double *weights, const double *scores,
                           const sf_weighing *row) {
    (void)scores;
    for (size_t j = 0; j < row->kept; j++) dscores[j] = weights[j] * (1 - weights[j]) * dweights[j];
}

const sf_weighting sf_weighting_sigmoid = {
    SF_WEIGHTING,
    .name = "sigmoid",
    .summary = "every key weighted by itself",
    .weigh = weigh,
    .weigh_backward = weigh_backward,
    .formula = "sigma(s - ln n), n the kept keys",
    .cost = "linear in the kept keys",
    .source = "Ramapuram et al. 2024, arXiv 2409.04431",
};
