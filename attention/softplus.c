/* /softplus:p: weights proportional to a power of softplus.
 *
 *   h_j = ln(1 + e^s_j)^p,  w_j = h_j / sum_i h_i;  ds_j = p w_j (dw_j - sum_i w_i dw_i) sigma(s_j) / ln(1 + e^s_j)
 *
 * Grows like s^p instead of e^s: less sharp than softmax for large scores. Source: Gao et al. 2025 (softplus attention
 * with re-weighting). Settings: p from 0.1 to 100, 1 by default. Cost: linear in the kept keys.
 * Example: semfocus train even-pairs --attention full/softplus:3 */
#include "attention/attention.h"
#include "base/elementary.h"

/* Below this, ln(1 + e^s) is e^s to the last bit. */
static const double flat = -37;

static double softplus(double s) {
    return s > 0 ? s + sf_log1p(sf_exp(-s)) : sf_log1p(sf_exp(s));
}

static double ln_softplus(double s) {
    return s < flat ? s : sf_log(softplus(s));
}

/* Powers of ratios to the largest, so that nothing overflows or becomes 0 / 0. */
static void weigh(double *weights, const double *scores, const sf_weighing *row) {
    double largest = scores[0], total = 0;
    for (size_t j = 1; j < row->kept; j++) largest = scores[j] > largest ? scores[j] : largest;
    const double ln_largest = ln_softplus(largest);
    for (size_t j = 0; j < row->kept; j++)
        total += weights[j] = sf_exp(row->arguments[0] * (ln_softplus(scores[j]) - ln_largest));
    for (size_t j = 0; j < row->kept; j++) weights[j] /= total;
}

/* d ln softplus / ds */
static double ln_slope(double s) {
    return s < flat ? 1 : 1 / ((1 + sf_exp(-s)) * softplus(s));
}

static void weigh_backward(double *dscores, const double *dweights, const double *weights, const double *scores,
                           const sf_weighing *row) {
    double mean = 0;
    for (size_t j = 0; j < row->kept; j++) mean += weights[j] * dweights[j];
    for (size_t j = 0; j < row->kept; j++)
        dscores[j] = row->arguments[0] * weights[j] * (dweights[j] - mean) * ln_slope(scores[j]);
}

const sf_weighting sf_weighting_softplus = {
    SF_WEIGHTING,
    .name = "softplus",
    .summary = "weights proportional to softplus to the power P (1)",
    .arguments = {{.letter = "P", .meaning = "the power of softplus", .low = 0.1, .high = 100, .initial = 1}},
    .weigh = weigh,
    .weigh_backward = weigh_backward,
    .formula = "softplus(s)^P / sum softplus(s)^P",
    .cost = "linear in the kept keys",
    .source = "Gao et al. 2025, arXiv 2501.13428",
};
