/* The largest singular value by one-sided Jacobi rotations: pairs of columns are turned until all are orthogonal; the
 * longest is the norm. It shares nothing with the iterations and the tridiagonal form that it checks. */
#ifndef SF_TESTS_ROTATIONS_H
#define SF_TESTS_ROTATIONS_H

#include <math.h>
#include <stddef.h>

/* Overwrites the matrix. */
static inline double norm_by_rotations(double *a /* [rows,columns] */, size_t rows, size_t columns) {
    for (int sweep = 0; sweep < 60; sweep++) {
        double worst = 0;
        for (size_t i = 0; i < columns; i++)
            for (size_t j = i + 1; j < columns; j++) {
                double ii = 0, jj = 0, ij = 0;
                for (size_t r = 0; r < rows; r++) {
                    const double x = a[r * columns + i], y = a[r * columns + j];
                    ii += x * x;
                    jj += y * y;
                    ij += x * y;
                }
                if (ij == 0 || ii == 0 || jj == 0) continue;
                worst = fmax(worst, fabs(ij) / sqrt(ii * jj));
                const double zeta = (jj - ii) / (2 * ij);
                const double tangent = (zeta >= 0 ? 1 : -1) / (fabs(zeta) + sqrt(1 + zeta * zeta));
                const double cosine = 1 / sqrt(1 + tangent * tangent), sine = cosine * tangent;
                for (size_t r = 0; r < rows; r++) {
                    const double x = a[r * columns + i], y = a[r * columns + j];
                    a[r * columns + i] = cosine * x - sine * y;
                    a[r * columns + j] = sine * x + cosine * y;
                }
            }
        if (worst < 1e-15) break;
    }
    double longest = 0;
    for (size_t c = 0; c < columns; c++) {
        double square = 0;
        for (size_t r = 0; r < rows; r++) square += a[r * columns + c] * a[r * columns + c];
        longest = fmax(longest, sqrt(square));
    }
    return longest;
}

#endif
