/* Products of a vector with many others, for selectors that compare queries and keys with blocks, centroids or buckets.
 */
#ifndef SF_ATTENTION_PRODUCTS_H
#define SF_ATTENTION_PRODUCTS_H

#include <stddef.h>

/* products[n] = the sum over d of x[d] * columns[d][n], in ascending order of d, every operation rounded by itself: the
 * same bits whatever vectors the machine has. */
void sf_products(double *products /* [count] */, const double *x /* [D] */, const double *columns /* [D,row] */,
                 size_t row, size_t D, size_t count);

#endif
