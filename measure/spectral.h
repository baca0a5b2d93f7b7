/* Spectral norms, to a few units of the last place of a double: the largest eigenvalue of the Gram matrix, by
 * Householder's tridiagonal form and bisection. Cost: rows columns^2 + 4/3 columns^3 (the smaller side counts). */
#ifndef SF_MEASURE_SPECTRAL_H
#define SF_MEASURE_SPECTRAL_H

#include "model/model.h"

/* The largest singular value; NaN if some element is not finite. */
sf_status sf_spectral_norm(double *out, const double *matrix /* [rows,columns] */, size_t rows, size_t columns);

/* That of rows first .. first + rows - 1 of a linear layer, with the bias as an extra column: [W | b]. */
sf_status sf_linear_norm(double *out, const sf_param *weight, const float *params /* [size] */, size_t first,
                         size_t rows);

typedef struct sf_head_norms { /* of [W | b], as in docs/theory.md */
    double gamma;              /* |inverse temperature Q^T K| / sqrt(C) */
    double q, k;               /* |Q|, |K| */
    double upsilon;            /* |V| */
} sf_head_norms;

typedef struct sf_block_norms {
    sf_head_norms *heads; /* [H] */
    double wo, w1, w2;
} sf_block_norms;

sf_status sf_block_norms_open(sf_block_norms *out, const sf_model *model, const float *params /* [size] */,
                              size_t block);
void sf_block_norms_close(sf_block_norms *norms);

#endif
