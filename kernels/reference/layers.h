/* Layers as pure functions over double arrays. Outputs first; the gradient of x is dx; backward functions add to
 * parameter gradients and overwrite activation gradients unless stated otherwise. */
#ifndef SF_KERNELS_REFERENCE_LAYERS_H
#define SF_KERNELS_REFERENCE_LAYERS_H

#include "kernels/kernels.h"

typedef struct sf_ref_linear { /* a weight and the bias that follows it in the table */
    const sf_param *weight, *bias;
} sf_ref_linear;

void sf_ref_linear_forward(double *y /* [T,outputs] */, const double *x /* [T,inputs] */, const double *params,
                           sf_ref_linear linear, size_t T);
/* Adds to dx. */
void sf_ref_linear_backward(double *dx /* [T,inputs] */, double *gradient, const double *dy /* [T,outputs] */,
                            const double *x /* [T,inputs] */, const double *params, sf_ref_linear linear, size_t T);

void sf_ref_norm_forward(double *y /* [T,C] */, double *rstd /* [T] */, const double *x /* [T,C] */, double epsilon,
                         size_t T, size_t C);
/* y and dx may be the same as dy's array. */
void sf_ref_norm_backward(double *dx /* [T,C] */, const double *dy /* [T,C] */, const double *y /* [T,C] */,
                          const double *rstd /* [T] */, size_t T, size_t C);

double sf_ref_activate(double z, sf_activation activation);
double sf_ref_activate_slope(double z, sf_activation activation);

/* y = x with dropout; its own backward. In place is fine. */
void sf_ref_drop(double *y /* [T,columns] */, const double *x /* [T,columns] */, double rate, const sf_index *index,
                 size_t T, size_t columns);
double sf_ref_keep_factor(double rate, const sf_index *index, size_t row, size_t column, size_t columns);

#endif
