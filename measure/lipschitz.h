/* The local Lipschitz constant of an attention layer: the largest singular value of the Jacobian of
 *
 *   h [T,C]  ->  W_o concat over heads (weights(q k^T) v) + b_o  [T,C],    q, k, v = W h + b,
 *
 * kept sets held fixed, by power iteration on J^T J with exact products J x and J^T y in double. Each round takes the
 * best vector in the span of the last vector, its product with J^T J, and the last step, which converges much faster
 * than plain power iteration if singular values lie close together. The estimate is never above the true value; an
 * iteration ends when it has grown by less than 1e-8 of itself twice in a row, or after 500 rounds. Starts from
 * Gaussian vectors that depend on (seed, block, sample) alone. */
#ifndef SF_MEASURE_LIPSCHITZ_H
#define SF_MEASURE_LIPSCHITZ_H

#include "measure/observation.h"
#include "semfocus/theory.h"

#define SF_LIPSCHITZ_TOLERANCE 1e-8
enum { SF_LIPSCHITZ_ROUNDS = 500 };

typedef struct sf_attention_layer sf_attention_layer; /* an attention layer at one input */

sf_status sf_attention_layer_create(sf_attention_layer **out, const sf_shape *shape);
void sf_attention_layer_destroy(sf_attention_layer *layer);

/* The layer's weights, as in the model's table. */
void sf_attention_layer_load(sf_attention_layer *layer, const sf_model *model, const float *params /* [size] */,
                             size_t block);

/* Puts the layer at an input: projections, and weights over the keys kept. Those of query i of head h are
 * keys[offsets[h * T + i]] ..; `offsets` has H * T + 1 entries. The keys are copied. */
void sf_attention_layer_place(sf_attention_layer *layer, const double *input /* [T,C] */, const uint32_t *keys,
                              const size_t *offsets);

void sf_attention_layer_output(const sf_attention_layer *layer, double *out /* [T,C] */);
void sf_attention_layer_forward(sf_attention_layer *layer, double *dout /* [T,C] */,
                                const double *din /* [T,C] */); /* J din */
void sf_attention_layer_backward(sf_attention_layer *layer, double *din /* [T,C] */,
                                 const double *dout /* [T,C] */); /* J^T dout */

typedef struct sf_spectral_estimate {
    double norm;
    size_t rounds;
    bool converged;
} sf_spectral_estimate;

sf_spectral_estimate sf_attention_layer_norm(sf_attention_layer *layer, sf_index start);

/* Every block at every sample of the subject. `bounds` are those of a domain that holds the same samples; NULL if the
 * weighting has none: the ratios to them are then NAN. */
sf_status sf_local_lipschitz_measure(sf_local_lipschitz **out, const sf_subject *subject,
                                     const sf_block_bounds *bounds /* [L], may be NULL */);
void sf_local_lipschitz_destroy(sf_local_lipschitz *lipschitz);

#endif
