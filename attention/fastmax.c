/* /fastmax: the second-order Taylor polynomial of softmax's exponential.
 *
 *   f_j = 1 + s_j + s_j^2 / 2,  w_j = f_j / sum_i f_i;  ds_j = (1 + s_j) (dw_j - sum_i w_i dw_i) / sum_i f_i
 *
 * f is a polynomial in q and k, so where every key is kept and no weight is dropped, sums over keys are taken once for
 * all queries, over 1 + D + D(D+1)/2 features: time linear in T (kernels/cpu/attention_fastmax.c). Source: Gerami et
 * al. 2024. Cost: linear in the kept keys; T D^3 per head in that case. Example: semfocus train even-pairs --attention
 * full/fastmax --dropout 0 */
#include "attention/attention.h"

static double value(double s) {
    return 1 + s + s * s / 2;
}

static void weigh(double *weights, const double *scores, const sf_weighing *row) {
    double total = 0;
    for (size_t j = 0; j < row->kept; j++) total += weights[j] = value(scores[j]);
    for (size_t j = 0; j < row->kept; j++) weights[j] /= total;
}

static void weigh_backward(double *dscores, const double *dweights, const double *weights, const double *scores,
                           const sf_weighing *row) {
    double mean = 0, total = 0;
    for (size_t j = 0; j < row->kept; j++) {
        mean += weights[j] * dweights[j];
        total += value(scores[j]);
    }
    for (size_t j = 0; j < row->kept; j++) dscores[j] = (1 + scores[j]) * (dweights[j] - mean) / total;
}

const sf_weighting sf_weighting_fastmax = {
    SF_WEIGHTING,
    .name = "fastmax",
    .summary = "a polynomial in place of softmax's exponential",
    .weigh = weigh,
    .weigh_backward = weigh_backward,
    .formula = "f / sum f, f = 1 + s + s^2/2",
    .cost = "with every key kept and no dropout T d^3, linear in T; else linear in the kept keys",
    .source = "Gerami et al. 2024, arXiv 2402.07901",
};
