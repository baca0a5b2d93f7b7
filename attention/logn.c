/* @logn:a: scores grow with the logarithm of the number of visible keys, so that attention does not flatten with
 * length.
 *
 *   s_ij *= a ln(max(2, visible keys of i))
 *
 * The scalable softmax (Nakanishi 2025) with a fixed factor. Settings: a from 1e-6 to 1e6, 0.43 by default. Cost: one
 * operation per score. Example: semfocus train even-pairs --attention full@logn */
#include "attention/attention.h"
#include "base/elementary.h"

static double factor_of(const sf_score_row *row) {
    return row->arguments[0] * sf_log(row->visible > 2 ? (double)row->visible : 2);
}

static void transform(double *out, const double *scores, const sf_score_row *row) {
    const double factor = factor_of(row);
    for (size_t n = 0; n < row->count; n++) out[n] = scores[n] * factor;
}

static void transform_backward(double *dscores, const double *dout, const double *scores, const sf_score_row *row) {
    (void)scores;
    transform(dscores, dout, row);
}

const sf_score_transform sf_transform_logn = {
    SF_SCORE_TRANSFORM,
    .name = "logn",
    .summary = "scores grow with the logarithm of the visible keys",
    .arguments = {{.letter = "A", .meaning = "the factor of the logarithm", .low = 1e-6, .high = 1e6, .initial = 0.43}},
    .transform = transform,
    .transform_backward = transform_backward,
    .formula = "A s_ij ln(max(2, visible keys of i))",
    .cost = "one operation per score",
    .source = "Nakanishi 2025, arXiv 2501.19399 (scalable softmax)",
};
