#include "measure/spectral.h"

#include <math.h>
#include <string.h>

/* gram = a a^T over the shorter side: both products have the same largest eigenvalue. */
static void make_gram(double *gram /* [n,n] */, const double *a, size_t rows, size_t columns) {
    if (rows <= columns) {
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j <= i; j++) {
                double sum = 0;
                for (size_t c = 0; c < columns; c++) sum += a[i * columns + c] * a[j * columns + c];
                gram[i * rows + j] = gram[j * rows + i] = sum;
            }
        return;
    }
    memset(gram, 0, columns * columns * sizeof *gram);
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < columns; i++) {
            const double factor = a[r * columns + i];
            for (size_t j = 0; j < columns; j++) gram[i * columns + j] += factor * a[r * columns + j];
        }
}

/* Turns a symmetric matrix into tridiagonal form with the same eigenvalues, reflection by reflection. */
static void make_tridiagonal(double *diagonal /* [n] */, double *beside /* [n] */, double *a /* [n,n] */,
                             double *u /* [n] */, double *p /* [n] */, size_t n) {
    for (size_t k = 0; k + 1 < n; k++) {
        double below = 0;
        for (size_t i = k + 2; i < n; i++) below += a[i * n + k] * a[i * n + k];
        beside[k] = a[(k + 1) * n + k];
        if (below == 0) continue;
        const double first = a[(k + 1) * n + k], length = sqrt(first * first + below);
        for (size_t i = k + 1; i < n; i++) u[i] = a[i * n + k];
        u[k + 1] += first >= 0 ? length : -length;
        beside[k] = first >= 0 ? -length : length;
        const double half = (u[k + 1] * u[k + 1] + below) / 2; /* H = I - u u^T / half */
        double share = 0;
        for (size_t i = k + 1; i < n; i++) {
            double sum = 0;
            for (size_t j = k + 1; j < n; j++) sum += a[i * n + j] * u[j];
            p[i] = sum / half;
            share += u[i] * p[i];
        }
        share /= 2 * half;
        for (size_t i = k + 1; i < n; i++) p[i] -= share * u[i];
        for (size_t i = k + 1; i < n; i++)
            for (size_t j = k + 1; j < n; j++) a[i * n + j] -= u[i] * p[j] + p[i] * u[j];
    }
    for (size_t i = 0; i < n; i++) diagonal[i] = a[i * n + i];
}

/* Whether every eigenvalue is below x: all pivots of T - x I are negative. */
static bool is_above_all(double x, const double *diagonal, const double *beside, size_t n) {
    double pivot = diagonal[0] - x;
    for (size_t i = 1; i < n && pivot < 0; i++) pivot = diagonal[i] - x - beside[i - 1] * beside[i - 1] / pivot;
    return pivot < 0;
}

static double largest_eigenvalue(const double *diagonal, const double *beside, size_t n) {
    double low = diagonal[0], high = 0;
    for (size_t i = 0; i < n; i++) { /* Gershgorin's discs */
        const double radius = (i > 0 ? fabs(beside[i - 1]) : 0) + (i + 1 < n ? fabs(beside[i]) : 0);
        low = fmax(low, diagonal[i]);
        high = fmax(high, diagonal[i] + radius);
    }
    for (;;) {
        const double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high) return high;
        if (is_above_all(middle, diagonal, beside, n))
            high = middle;
        else
            low = middle;
    }
}

static double largest_magnitude(const double *matrix, size_t count) {
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(matrix[i])) return NAN;
        largest = fmax(largest, fabs(matrix[i]));
    }
    return largest;
}

sf_status sf_spectral_norm(double *out, const double *matrix /* [rows,columns] */, size_t rows, size_t columns) {
    const size_t n = rows < columns ? rows : columns, count = rows * columns;
    *out = largest_magnitude(matrix, count);
    if (!(*out > 0)) return SF_OK;
    int exponent;
    frexp(*out, &exponent); /* scaled by a power of two, which is exact: squares neither overflow nor underflow */
    double *scaled = NULL, *gram = NULL, *rest = NULL;
    sf_status status = SF_NEW(&scaled, count);
    if (status == SF_OK) status = SF_NEW(&gram, n * n);
    if (status == SF_OK) status = SF_NEW(&rest, 4 * n);
    if (status == SF_OK) {
        for (size_t i = 0; i < count; i++) scaled[i] = ldexp(matrix[i], -exponent);
        make_gram(gram, scaled, rows, columns);
        make_tridiagonal(rest, rest + n, gram, rest + 2 * n, rest + 3 * n, n);
        *out = ldexp(sqrt(largest_eigenvalue(rest, rest + n, n)), exponent);
    }
    sf_release(scaled);
    sf_release(gram);
    sf_release(rest);
    return status;
}

/* ---- norms of the weights */

typedef struct matrix {
    double *values; /* [rows,columns] */
    size_t rows, columns;
} matrix;

static sf_status matrix_norm(double *out, const matrix *m) {
    return sf_spectral_norm(out, m->values, m->rows, m->columns);
}

/* Rows first .. first + rows - 1 of a linear layer, with the bias as the last column. */
static sf_status join(matrix *out, const sf_param *weight, const float *params, size_t first, size_t rows) {
    const sf_param *bias = weight + 1;
    *out = (matrix){.rows = rows, .columns = weight->columns + 1};
    SF_TRY(SF_NEW(&out->values, rows * out->columns));
    for (size_t r = 0; r < rows; r++) {
        double *row = out->values + r * out->columns;
        for (size_t c = 0; c < weight->columns; c++) row[c] = (double)params[sf_param_index(weight, first + r, c)];
        row[weight->columns] = (double)params[sf_param_index(bias, 0, first + r)];
    }
    return SF_OK;
}

sf_status sf_linear_norm(double *out, const sf_param *weight, const float *params, size_t first, size_t rows) {
    matrix joined;
    SF_TRY(join(&joined, weight, params, first, rows));
    const sf_status status = matrix_norm(out, &joined);
    sf_release(joined.values);
    return status;
}

/* |scale q^T k|, both [C,n]. */
static sf_status norm_of_product(double *out, double scale, const matrix *q, const matrix *k) {
    const size_t n = q->columns;
    double *product;
    SF_TRY(SF_NEW(&product, n * n));
    for (size_t r = 0; r < q->rows; r++)
        for (size_t i = 0; i < n; i++) {
            const double factor = scale * q->values[r * n + i];
            for (size_t j = 0; j < n; j++) product[i * n + j] += factor * k->values[r * n + j];
        }
    const sf_status status = sf_spectral_norm(out, product, n, n);
    sf_release(product);
    return status;
}

static sf_status norms_of_head(sf_head_norms *out, const sf_shape *s, const float *params, const sf_param *block,
                               size_t head) {
    const size_t first = head * s->D;
    matrix q, k = {0};
    SF_TRY(join(&q, &block[SF_WQ], params, first, s->D));
    sf_status status = join(&k, &block[SF_WK], params, first, s->D);
    if (status == SF_OK) status = norm_of_product(&out->gamma, s->inverse_temperature / sqrt((double)s->D), &q, &k);
    if (status == SF_OK) status = matrix_norm(&out->q, &q);
    if (status == SF_OK) status = matrix_norm(&out->k, &k);
    if (status == SF_OK) status = sf_linear_norm(&out->upsilon, &block[SF_WV], params, first, s->D);
    sf_release(q.values);
    sf_release(k.values);
    return status;
}

sf_status sf_block_norms_open(sf_block_norms *out, const sf_model *model, const float *params /* [size] */,
                              size_t block) {
    const sf_shape *s = &model->shape;
    const sf_param *entries = sf_model_block(model, block);
    *out = (sf_block_norms){0};
    SF_TRY(SF_NEW(&out->heads, s->H));
    sf_status status = sf_linear_norm(&out->wo, &entries[SF_WO], params, 0, s->C);
    if (status == SF_OK) status = sf_linear_norm(&out->w1, &entries[SF_W1], params, 0, s->F);
    if (status == SF_OK) status = sf_linear_norm(&out->w2, &entries[SF_W2], params, 0, s->C);
    for (size_t h = 0; h < s->H && status == SF_OK; h++) status = norms_of_head(&out->heads[h], s, params, entries, h);
    if (status != SF_OK) sf_block_norms_close(out);
    return status;
}

void sf_block_norms_close(sf_block_norms *norms) {
    sf_release(norms->heads);
    *norms = (sf_block_norms){0};
}
