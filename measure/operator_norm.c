#include "measure/operator_norm.h"

#include <math.h>

enum { SQUARINGS = 24 };

/* Symmetric, of the shorter side. */
static void gram(double *out /* [n,n] */, const double *matrix, size_t rows, size_t columns) {
    const size_t n = rows < columns ? rows : columns, length = rows < columns ? columns : rows;
    const size_t step = rows < columns ? columns : 1, along = rows < columns ? 1 : columns;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;
            for (size_t l = 0; l < length; l++) sum += matrix[i * step + l * along] * matrix[j * step + l * along];
            out[i * n + j] = out[j * n + i] = sum;
        }
}

static void square(double *out /* [n,n] */, const double *in /* [n,n] */, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double *row = out + i * n;
        for (size_t j = 0; j < n; j++) row[j] = 0;
        for (size_t l = 0; l < n; l++) {
            const double factor = in[i * n + l];
            for (size_t j = 0; j < n; j++) row[j] += factor * in[l * n + j];
        }
    }
}

/* Divides by the Frobenius norm and gives it. */
static double normalize(double *matrix, size_t count) {
    double largest = 0, sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(matrix[i])) return NAN;
        largest = fmax(largest, fabs(matrix[i]));
    }
    if (largest == 0) return 0;
    for (size_t i = 0; i < count; i++) sum += matrix[i] / largest * (matrix[i] / largest);
    const double norm = largest * sqrt(sum);
    for (size_t i = 0; i < count; i++) matrix[i] /= norm;
    return norm;
}

static double trace(const double *matrix, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += matrix[i * n + i];
    return sum;
}

sf_status sf_operator_norm(double *out, const double *matrix /* [rows,columns] */, size_t rows, size_t columns) {
    const size_t n = rows < columns ? rows : columns;
    double *power, *next;
    *out = 0;
    SF_TRY(SF_NEW(&power, 2 * n * n));
    next = power + n * n;
    gram(power, matrix, rows, columns);
    double norm = normalize(power, n * n), logarithm = log(norm), weight = 1;
    /* A power of rank one has Frobenius norm = trace = operator norm. */
    for (size_t i = 0; i < SQUARINGS && norm > 0 && trace(power, n) > 1 + 1e-15; i++) {
        square(next, power, n);
        double *old = power;
        power = next;
        next = old;
        norm = normalize(power, n * n);
        weight /= 2;
        logarithm += weight * log(norm);
    }
    *out = norm > 0 || isnan(norm) ? exp(logarithm / 2) : 0;
    sf_release(power < next ? power : next);
    return SF_OK;
}
