/* sigmoid: each kept score by itself, w = 1 / (1 + e^-s): a weighting that the theory of softmax says nothing about. */
#include <math.h>

#include "attention/attention.h"

static void weigh_by_sigmoid(double *weights, const double *scores, size_t kept) {
    for (size_t j = 0; j < kept; j++) weights[j] = 1 / (1 + exp(-scores[j]));
}

static void sigmoid_backward(double *dscores, const double *dweights, const double *weights, const double *scores,
                             size_t kept) {
    (void)scores;
    for (size_t j = 0; j < kept; j++) dscores[j] = dweights[j] * weights[j] * (1 - weights[j]);
}

extern const sf_weighting sf_weighting_sigmoid;
const sf_weighting sf_weighting_sigmoid = {
    .version = 1,
    .name = "sigmoid",
    .summary = "every kept score by itself",
    .weigh = weigh_by_sigmoid,
    .weigh_backward = sigmoid_backward,
};
