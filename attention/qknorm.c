/* @qknorm:g: scores are g times the cosine between query and key.
 *
 *   s = inv_temp g q.k / (sqrt(q.q + 1e-12) sqrt(k.k + 1e-12))
 *
 * It replaces the division by sqrt(D); with rope it comes after it. A query becomes g sqrt(D) q / sqrt(q.q + 1e-12), a
 * key k / sqrt(k.k + 1e-12), and the usual scale does the rest. Source: Henry et al. 2020. Settings: g from 1e-6 to
 * 1e6. Cost: T d. Example: semfocus train even-pairs --attention full@qknorm:4 */
#include <math.h>

#include "attention/attention.h"

static double length_of(const double *vector, size_t D) {
    double square = 0;
    for (size_t c = 0; c < D; c++) square += vector[c] * vector[c];
    return sqrt(square + 1e-12);
}

double sf_qknorm_factor(const double *arguments, size_t D, bool is_key) {
    return is_key ? 1 : arguments[0] * sqrt((double)D);
}

static void turn(double *out, const double *vector, const sf_vector_place *place) {
    const double factor = sf_qknorm_factor(place->arguments, place->D, place->is_key) / length_of(vector, place->D);
    for (size_t c = 0; c < place->D; c++) out[c] = factor * vector[c];
}

/* dx = f/n (dy - (x/n) (x/n . dy)) */
static void turn_backward(double *dvector, const double *dout, const double *vector, const sf_vector_place *place) {
    const double length = length_of(vector, place->D);
    const double factor = sf_qknorm_factor(place->arguments, place->D, place->is_key) / length;
    double along = 0;
    for (size_t c = 0; c < place->D; c++) along += vector[c] / length * dout[c];
    for (size_t c = 0; c < place->D; c++) dvector[c] = factor * (dout[c] - vector[c] / length * along);
}

const sf_score_transform sf_transform_qknorm = {
    SF_SCORE_TRANSFORM,
    .name = "qknorm",
    .summary = "scores are G times the cosine of query and key",
    .arguments = {{.letter = "G",
                   .meaning = "the factor of the cosine",
                   .low = 1e-6,
                   .high = 1e6,
                   .initial = 8,
                   .required = true}},
    .turn = turn,
    .turn_backward = turn_backward,
    .formula = "s = inv_temp G q.k / (sqrt(q.q + 1e-12) sqrt(k.k + 1e-12))",
    .cost = "T d",
    .source = "Henry et al. 2020, arXiv 2010.04245",
};
