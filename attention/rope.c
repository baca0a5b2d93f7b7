/* @rope: queries and keys are rotated by angles that grow with their positions, so that their product depends on the
 * distance between them.
 *
 *   channels (a, b) = (2m, 2m+1) become (a cos t - b sin t, a sin t + b cos t),  t = position * 10000^(-2m/D)
 *
 * Positions from 0; a last odd channel stays. Source: Su et al. 2021 (RoFormer). Cost: T d.
 * Example: semfocus train even-pairs --attention topk:5@rope */
#include "attention/attention.h"
#include "base/elementary.h"

double sf_rope_angle(size_t position, size_t pair, size_t D) {
    return (double)position * sf_pow(10000.0, -(double)(2 * pair) / (double)D);
}

static void rotate(double *out, const double *in, const sf_vector_place *place, double direction) {
    for (size_t m = 0; 2 * m + 1 < place->D; m++) {
        const double angle = sf_rope_angle(place->position, m, place->D);
        const double a = in[2 * m], b = in[2 * m + 1], cosine = sf_cos(angle), sine = direction * sf_sin(angle);
        out[2 * m] = a * cosine - b * sine;
        out[2 * m + 1] = a * sine + b * cosine;
    }
    if (place->D % 2 == 1) out[place->D - 1] = in[place->D - 1];
}

static void turn(double *out, const double *vector, const sf_vector_place *place) {
    rotate(out, vector, place, 1);
}

static void turn_backward(double *dvector, const double *dout, const double *vector, const sf_vector_place *place) {
    (void)vector;
    rotate(dvector, dout, place, -1);
}

const sf_score_transform sf_transform_rope = {
    SF_SCORE_TRANSFORM,
    .name = "rope",
    .summary = "queries and keys are rotated by their positions",
    .turn = turn,
    .turn_backward = turn_backward,
    .formula = "channels (2m, 2m+1) are rotated by position * 10000^(-2m/D)",
    .cost = "T d",
    .source = "Su et al. 2021, arXiv 2104.09864 (RoFormer)",
};
