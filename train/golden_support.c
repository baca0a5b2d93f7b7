#include "train/golden_support.h"

#include <math.h>
#include <string.h>

static void weigh(double *weights, const double *scores, const sf_weighing *row) {
    double total = 0;
    for (size_t j = 0; j < row->kept; j++) total += scores[j];
    for (size_t j = 0; j < row->kept; j++) weights[j] = scores[j] - (total - 1) / (double)row->kept;
}

static void weigh_backward(double *dscores, const double *dweights, const double *weights, const double *scores,
                           const sf_weighing *row) {
    (void)weights;
    (void)scores;
    double total = 0;
    for (size_t j = 0; j < row->kept; j++) total += dweights[j];
    for (size_t j = 0; j < row->kept; j++) dscores[j] = dweights[j] - total / (double)row->kept;
}

const sf_weighting sf_weighting_given_support = {
    SF_WEIGHTING,
    .name = "sparsemax on a given support",
    .weigh = weigh,
    .weigh_backward = weigh_backward,
};

/* A factor of a product: bf16 has 8 significant bits, tf32 11; halves go to even. */
static double rounded(float x, sf_precision precision) {
    const int dropped = precision == SF_BF16 ? 16 : precision == SF_TF32 ? 13 : 0;
    if (dropped == 0) return x;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits += (UINT32_C(1) << (dropped - 1)) - 1 + (bits >> dropped & 1);
    bits = bits >> dropped << dropped;
    memcpy(&x, &bits, sizeof x);
    return x;
}

size_t sf_keep_support(uint32_t *kept /* [count] */, size_t count, const sf_attention_view *view, const sf_shape *shape,
                       size_t head, size_t query, sf_precision precision, double *room /* [SF_MOST_TRANSFORMS+2,T] */) {
    const sf_attention *attention = &shape->attention;
    const size_t D = shape->D, steps = sf_attention_score_steps(attention);
    const float scale = (float)(shape->inverse_temperature / sqrt((double)D));
    const float *q = view->q + query * view->stride + head * sf_padded(D);
    /* Products of lists of kept keys are in f32 on every device. */
    const bool by_product =
        (sf_attention_selects_by(attention) & SF_BY_SCORE) != 0 || sf_attention_keeps_visible(attention);
    const sf_precision factors = by_product ? precision : SF_F32;
    double *weights = room + (steps + 1) * count;
    for (size_t n = 0; n < count; n++) {
        const float *k = view->k + kept[n] * view->stride + head * sf_padded(D);
        room[n] = 0;
        for (size_t c = 0; c < D; c++) room[n] += rounded(q[c], factors) * rounded(scale * k[c], factors);
    }
    const sf_scored_keys row = {
        .query = query, .count = count, .T = shape->T, .keys = kept, .head = head, .heads = shape->H};
    sf_attention_transform_scores(room, attention, &row);
    sf_attention_weigh(weights, attention, room + steps * count, count,
                       sf_attention_visible(attention, query, shape->T));
    size_t left = 0;
    for (size_t n = 0; n < count; n++)
        if (weights[n] > 0) kept[left++] = kept[n];
    return left;
}
