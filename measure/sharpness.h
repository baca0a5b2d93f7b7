/* How sharp attention is: the weights of each query of a head, and what they say of it. */
#ifndef SF_MEASURE_SHARPNESS_H
#define SF_MEASURE_SHARPNESS_H

#include "model/model.h"

typedef struct sf_sharpness { /* of a query's weights divided by their sum, so that weightings can be compared */
    double effective_keys;    /* 1 / sum w^2 */
    double entropy;           /* -sum w ln w */
} sf_sharpness;

typedef struct sf_weighed {   /* memory for one head */
    double *scores, *weights; /* [T], or [T*T] for a weighting over the whole matrix */
    sf_weighing_matrix matrix;
    size_t *offsets;
    uint32_t *keys;
    sf_sharpness *sharpness; /* [T] */
} sf_weighed;

sf_status sf_weighed_open(sf_weighed *out, const sf_shape *shape);
void sf_weighed_close(sf_weighed *weighed);
/* The queries of a head, in order; then `sharpness` is valid after sf_weighed_finish(). */
void sf_weighed_add(sf_weighed *weighed, const sf_shape *shape, size_t query, const double *scores /* [T] */,
                    const uint32_t *keys /* [count] */, size_t count);
void sf_weighed_finish(sf_weighed *weighed, const sf_shape *shape);

#endif
