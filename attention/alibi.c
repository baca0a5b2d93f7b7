/* @alibi: scores fall linearly with the distance between query and key, with a slope of its own for every head.
 *
 *   s_ij -= 2^(-8(h+1)/H) |i - j|,  h = 0..H-1
 *
 * Source: Press et al. 2021. Cost: one operation per score. Example: semfocus train even-pairs --attention full@alibi
 */
#include <string.h>

#include "attention/attention.h"
#include "base/elementary.h"

static void transform(double *out, const double *scores, const sf_score_row *row) {
    const double slope = sf_pow(2, -8 * (double)(row->head + 1) / (double)row->heads);
    for (size_t n = 0; n < row->count; n++) {
        const size_t j = row->keys[n], distance = j < row->query ? row->query - j : j - row->query;
        out[n] = scores[n] - slope * (double)distance;
    }
}

static void transform_backward(double *dscores, const double *dout, const double *scores, const sf_score_row *row) {
    (void)scores;
    memmove(dscores, dout, row->count * sizeof *dscores);
}

const sf_score_transform sf_transform_alibi = {
    SF_SCORE_TRANSFORM,
    .name = "alibi",
    .summary = "scores fall with the distance between query and key",
    .transform = transform,
    .transform_backward = transform_backward,
    .formula = "s_ij - 2^(-8(h+1)/H) |i - j|",
    .cost = "one operation per score",
    .source = "Press et al. 2021, arXiv 2108.12409",
};
