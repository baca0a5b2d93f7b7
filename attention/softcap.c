/* @softcap:c: scores are squeezed into (-c, c).
 *
 *   s = c tanh(s / c)
 *
 * Source: Gemma 2 (2024), Bello et al. 2016. Settings: c from 1e-3 to 1e6. Cost: one exponential per score.
 * Example: semfocus train even-pairs --attention full@softcap:5 */
#include <math.h>

#include "attention/attention.h"
#include "base/elementary.h"

/* Near 0, where 1 - e would cancel, by its series: the next term is below the last bit. */
static double tanh_of(double x) {
    if (fabs(x) < 0.02) {
        const double square = x * x;
        return x * (1 + square * (-1.0 / 3 + square * (2.0 / 15 - square * (17.0 / 315))));
    }
    const double e = sf_exp(-2 * fabs(x)), value = (1 - e) / (1 + e);
    return x < 0 ? -value : value;
}

static void transform(double *out, const double *scores, const sf_score_row *row) {
    const double c = row->arguments[0];
    for (size_t n = 0; n < row->count; n++) out[n] = c * tanh_of(scores[n] / c);
}

static void transform_backward(double *dscores, const double *dout, const double *scores, const sf_score_row *row) {
    for (size_t n = 0; n < row->count; n++) {
        const double value = tanh_of(scores[n] / row->arguments[0]);
        dscores[n] = dout[n] * (1 - value * value);
    }
}

const sf_score_transform sf_transform_softcap = {
    SF_SCORE_TRANSFORM,
    .name = "softcap",
    .summary = "scores are squeezed into (-C, C)",
    .arguments =
        {{.letter = "C", .meaning = "the cap of the scores", .low = 1e-3, .high = 1e6, .initial = 5, .required = true}},
    .transform = transform,
    .transform_backward = transform_backward,
    .formula = "C tanh(s / C)",
    .cost = "one exponential per score",
    .source = "Bello et al. 2016, arXiv 1611.09940; Gemma 2, arXiv 2408.00118",
};
