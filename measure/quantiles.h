/* Quantiles of any number of values in bounded memory.
 *
 * Up to SF_EXACT_VALUES values are kept as they are. Beyond that they are counted in bins: the f32 bits of a value, cut
 * after 11 bits of mantissa. A value read from a bin is the edge of the bin nearer to zero, so
 *   - least and greatest value are always exact,
 *   - values of at most 12 significant bits (every whole number up to 4096) are exact,
 *   - other magnitudes from 2^-126 to 2^128 come out too small, with a relative error below 2^-11; below that, and
 *     beyond it, they count as 0 and infinity, save for the extremes.
 * What is read depends on the values alone, not on their order or on how they were merged. */
#ifndef SF_MEASURE_QUANTILES_H
#define SF_MEASURE_QUANTILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory.h"

enum { SF_EXACT_VALUES = 4096 };

typedef struct sf_quantiles { /* zeroed: empty */
    uint64_t count;           /* of values, without NaN */
    uint64_t not_numbers;
    double least, greatest;
    double *exact; /* [room], the first `count` in use; NULL once there are bins */
    size_t room;
    uint64_t **pages; /* [512]: one page of bins per sign and exponent, NULL where there are no values */
    bool failed;      /* memory ran out: there is no result */
} sf_quantiles;

/* Infinite values count, NaN is counted by itself. */
void sf_quantiles_add(sf_quantiles *quantiles, double value);
void sf_quantiles_merge(sf_quantiles *into, const sf_quantiles *from);

/* Linear interpolation between order statistics; NaN where there are no values. SF_NO_MEMORY if values were lost. */
sf_status sf_quantiles_read(double *out /* [count] */, sf_quantiles *quantiles, const double *percents /* [count] */,
                            size_t count);

void sf_quantiles_clear(sf_quantiles *quantiles);

#endif
