#include "attention/products.h"

#include <string.h>

typedef double eight __attribute__((vector_size(64)));

#define INLINE static inline __attribute__((always_inline))

/* `vectors` (a constant where this is inlined) of eight columns each. */
INLINE void some_columns(double *products, const double *x, const double *columns, size_t row, size_t D,
                         size_t vectors) {
    enum { MOST = 8 };
    eight sums[MOST] = {{0}};
    for (size_t d = 0; d < D; d++)
        for (size_t v = 0; v < vectors; v++) {
            eight column;
            memcpy(&column, columns + d * row + v * 8, sizeof column);
            sums[v] += x[d] * column;
        }
    memcpy(products, sums, vectors * sizeof *sums);
}

INLINE void all_columns(double *products, const double *x, const double *columns, size_t row, size_t D, size_t count) {
    size_t n = 0;
    for (; n + 64 <= count; n += 64) some_columns(products + n, x, columns + n, row, D, 8);
    for (; n + 16 <= count; n += 16) some_columns(products + n, x, columns + n, row, D, 2);
    for (; n < count; n++) {
        products[n] = 0;
        for (size_t d = 0; d < D; d++) products[n] += x[d] * columns[d * row + n];
    }
}

static void products_of(double *products, const double *x, const double *columns, size_t row, size_t D, size_t count) {
    all_columns(products, x, columns, row, D, count);
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2"))) static void products_avx2(double *products, const double *x, const double *columns,
                                                          size_t row, size_t D, size_t count) {
    all_columns(products, x, columns, row, D, count);
}

__attribute__((target("avx512f"))) static void products_avx512(double *products, const double *x, const double *columns,
                                                               size_t row, size_t D, size_t count) {
    all_columns(products, x, columns, row, D, count);
}

void sf_products(double *products, const double *x, const double *columns, size_t row, size_t D, size_t count) {
    if (__builtin_cpu_supports("avx512f"))
        products_avx512(products, x, columns, row, D, count);
    else if (__builtin_cpu_supports("avx2"))
        products_avx2(products, x, columns, row, D, count);
    else
        products_of(products, x, columns, row, D, count);
}
#else
void sf_products(double *products, const double *x, const double *columns, size_t row, size_t D, size_t count) {
    products_of(products, x, columns, row, D, count);
}
#endif
