/* /softmax1: softmax with one more score of 0 whose weight is thrown away, so that a query may attend to nothing.
 *
 *   w_j = e^s_j / (1 + sum_i e^s_i);  ds_j = w_j (dw_j - sum_i w_i dw_i)
 *
 * Source: Miller 2023, "Attention is off by one". Cost: linear in the kept keys.
 * Example: semfocus train even-pairs --attention topk:5/softmax1 */
#include "attention/attention.h"
#include "base/elementary.h"

static void weigh(double *weights, const double *scores, const sf_weighing *row) {
    double largest = 0;
    for (size_t j = 0; j < row->kept; j++) largest = scores[j] > largest ? scores[j] : largest;
    double total = sf_exp(-largest);
    for (size_t j = 0; j < row->kept; j++) total += weights[j] = sf_exp(scores[j] - largest);
    for (size_t j = 0; j < row->kept; j++) weights[j] /= total;
}

static void weigh_backward(double *dscores, const double *dweights, const double *weights, const double *scores,
                           const sf_weighing *row) {
    (void)scores;
    double mean = 0;
    for (size_t j = 0; j < row->kept; j++) mean += weights[j] * dweights[j];
    for (size_t j = 0; j < row->kept; j++) dscores[j] = weights[j] * (dweights[j] - mean);
}

const sf_weighting sf_weighting_softmax1 = {
    SF_WEIGHTING,
    .name = "softmax1",
    .summary = "softmax that may leave weight to nothing",
    .weigh = weigh,
    .weigh_backward = weigh_backward,
    .formula = "e^s / (1 + sum e^s)",
    .cost = "linear in the kept keys",
    .source = "Miller 2023, Attention is off by one",
};
