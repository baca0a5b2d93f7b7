#include "kernels/reference/layers.h"

#include <math.h>
#include <string.h>

void sf_ref_linear_forward(double *y /* [T,outputs] */, const double *x /* [T,inputs] */, const double *params,
                           sf_ref_linear linear, size_t T) {
    const size_t outputs = linear.weight->rows, inputs = linear.weight->columns;
    for (size_t t = 0; t < T; t++)
        for (size_t o = 0; o < outputs; o++) {
            double sum = params[sf_param_index(linear.bias, 0, o)];
            for (size_t i = 0; i < inputs; i++) sum += params[sf_param_index(linear.weight, o, i)] * x[t * inputs + i];
            y[t * outputs + o] = sum;
        }
}

void sf_ref_linear_backward(double *dx /* [T,inputs] */, double *gradient, const double *dy /* [T,outputs] */,
                            const double *x /* [T,inputs] */, const double *params, sf_ref_linear linear, size_t T) {
    const size_t outputs = linear.weight->rows, inputs = linear.weight->columns;
    for (size_t t = 0; t < T; t++)
        for (size_t o = 0; o < outputs; o++) {
            const double slope = dy[t * outputs + o];
            gradient[sf_param_index(linear.bias, 0, o)] += slope;
            for (size_t i = 0; i < inputs; i++) {
                const size_t at = sf_param_index(linear.weight, o, i);
                gradient[at] += slope * x[t * inputs + i];
                dx[t * inputs + i] += slope * params[at];
            }
        }
}

static bool all_equal(const double *row, size_t C) {
    for (size_t c = 1; c < C; c++)
        if (row[c] != row[0]) return false;
    return true;
}

void sf_ref_norm_forward(double *y /* [T,C] */, double *rstd /* [T] */, const double *x /* [T,C] */, double epsilon,
                         size_t T, size_t C) {
    for (size_t t = 0; t < T; t++) {
        const double *row = x + t * C;
        double mean = 0, variance = 0;
        for (size_t c = 0; c < C; c++) mean += row[c] / (double)C;
        for (size_t c = 0; c < C; c++) variance += (row[c] - mean) * (row[c] - mean) / (double)C;
        /* Without variance and epsilon the output and its gradient are 0 by definition. */
        rstd[t] = epsilon == 0 && all_equal(row, C) ? 0 : 1 / sqrt(variance + epsilon);
        for (size_t c = 0; c < C; c++) y[t * C + c] = (row[c] - mean) * rstd[t];
    }
}

void sf_ref_norm_backward(double *dx /* [T,C] */, const double *dy /* [T,C] */, const double *y /* [T,C] */,
                          const double *rstd /* [T] */, size_t T, size_t C) {
    for (size_t t = 0; t < T; t++) {
        double mean = 0, along = 0; /* of dy, and of dy's component along y */
        for (size_t c = 0; c < C; c++) {
            mean += dy[t * C + c] / (double)C;
            along += dy[t * C + c] * y[t * C + c] / (double)C;
        }
        for (size_t c = 0; c < C; c++) dx[t * C + c] = rstd[t] * (dy[t * C + c] - mean - y[t * C + c] * along);
    }
}

static double softplus(double z) {
    return z > 0 ? z + log1p(exp(-z)) : log1p(exp(z));
}

static double normal_cdf(double z) {
    return 0.5 * erfc(-z * M_SQRT1_2);
}

double sf_ref_activate(double z, sf_activation activation) {
    switch (activation) {
    case SF_RELU:
        return z > 0 ? z : 0;
    case SF_GELU:
        return z * normal_cdf(z);
    case SF_MISH:
        return z * tanh(softplus(z));
    }
    return 0;
}

double sf_ref_activate_slope(double z, sf_activation activation) {
    switch (activation) {
    case SF_RELU:
        return z > 0 ? 1 : 0;
    case SF_GELU:
        return normal_cdf(z) + z * exp(-0.5 * z * z) * M_2_SQRTPI * M_SQRT1_2 / 2;
    case SF_MISH: {
        const double t = tanh(softplus(z));
        return t + z * (1 - t * t) / (1 + exp(-z));
    }
    }
    return 0;
}

double sf_ref_keep_factor(double rate, const sf_index *index, size_t row, size_t column, size_t columns) {
    const sf_dropout dropout = sf_dropout_of(rate);
    return sf_dropout_lane(index, row, column, columns) < dropout.threshold ? 0 : dropout.scale;
}

void sf_ref_drop(double *y /* [T,columns] */, const double *x /* [T,columns] */, double rate, const sf_index *index,
                 size_t T, size_t columns) {
    for (size_t t = 0; t < T; t++)
        for (size_t c = 0; c < columns; c++) {
            const double factor = rate > 0 ? sf_ref_keep_factor(rate, index, t, c, columns) : 1;
            y[t * columns + c] = x[t * columns + c] * factor;
        }
}
