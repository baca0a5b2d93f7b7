/* The larger and the smaller of two sizes. */
#ifndef SF_BASE_SIZES_H
#define SF_BASE_SIZES_H

#include <stddef.h>

static inline size_t sf_larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static inline size_t sf_smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

#endif
