/* The largest singular value of a matrix, from above: the Gram matrix is squared again and again, and the norm of its
 * 2^n-th power is between that power's Frobenius norm and the same over sqrt(size). Never below the true value by more
 * than rounding, and above it by a factor of at most size^(2^-25). Cost: up to 24 products of size^3. */
#ifndef SF_MEASURE_OPERATOR_NORM_H
#define SF_MEASURE_OPERATOR_NORM_H

#include "base/memory.h"

/* A matrix with a value that is not finite has norm NaN. */
sf_status sf_operator_norm(double *out, const double *matrix /* [rows,columns] */, size_t rows, size_t columns);

#endif
