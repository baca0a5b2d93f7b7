/* sparsemax in low precision. Its gradient jumps where a weight becomes 0, so a rounded score near the threshold
 * changes it at once, however small the weight. A comparison with the reference is made on the keys to which the device
 * gives a weight: there sparsemax is an affine map, which the reference then computes. */
#ifndef SF_TRAIN_GOLDEN_SUPPORT_H
#define SF_TRAIN_GOLDEN_SUPPORT_H

#include "kernels/kernels.h"
#include "model/model.h"

static inline bool sf_has_support(const sf_attention *attention) {
    return attention->weighting == &sf_weighting_sparsemax;
}

/* sparsemax whose support is every kept key. */
extern const sf_weighting sf_weighting_given_support;

/* Leaves the keys of a query that have a weight, of `count` kept ones; returns how many. The scores are computed from
 * the view, with factors rounded as the device's products round them. */
size_t sf_keep_support(uint32_t *kept /* [count] */, size_t count, const sf_attention_view *view, const sf_shape *shape,
                       size_t head, size_t query, sf_precision precision, double *room /* [SF_MOST_TRANSFORMS+2,T] */);

#endif
