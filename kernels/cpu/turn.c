/* The transforms of queries and keys, in place, right after their projection: rope with a table of cosines and sines,
 * then qknorm, which saves what it multiplied a row by. The backward pass goes the other way, before the projection's.
 */
#include <math.h>

#include "kernels/cpu/attention.h"

enum { PAIRS = 64 }; /* of channels that are rotated at once */

typedef struct pairs { /* even and odd channels apart: interleaved, gcc 12 fuses a product into the sum */
    float even[PAIRS], odd[PAIRS];
} pairs;

/* out = a b + sign c d, each operation rounded by itself. Not inlined, for the same reason. */
static __attribute__((noinline)) void add_products(float *out, const float *a, const float *b, float sign,
                                                   const float *c, const float *d, size_t count) {
    for (size_t m = 0; m < count; m++) out[m] = a[m] * b[m] + sign * c[m] * d[m];
}

/* (a, b) -> (a cos - b sin, a sin + b cos); direction -1: back. */
static void rotate(float *x, const float *angles /* [2,count]: cosines, sines */, size_t count, float direction) {
    const float *cosines = angles, *sines = angles + count;
    for (size_t first = 0; first < count; first += PAIRS) {
        const size_t some = count - first < PAIRS ? count - first : PAIRS;
        pairs in, out;
        for (size_t m = 0; m < some; m++) {
            in.even[m] = x[2 * (first + m)];
            in.odd[m] = x[2 * (first + m) + 1];
        }
        add_products(out.even, in.even, cosines + first, -direction, in.odd, sines + first, some);
        add_products(out.odd, in.odd, cosines + first, direction, in.even, sines + first, some);
        for (size_t m = 0; m < some; m++) {
            x[2 * (first + m)] = out.even[m];
            x[2 * (first + m) + 1] = out.odd[m];
        }
    }
}

void sf_turn(float *qkv /* [R,3,H,Dp] */, float *norms /* [R,2,H] */, const sf_cpu_plan *plan, size_t first_row,
             size_t R) {
    const sf_shape *s = &plan->model->shape;
    const size_t Dp = plan->rows.Dp, count = s->D / 2;
    for (size_t r = 0; r < R; r++)
        for (size_t n = 0; n < 2 * s->H; n++) { /* queries, then keys */
            float *x = qkv + r * 3 * plan->rows.HDp + n * Dp;
            if (plan->angles != NULL) rotate(x, plan->angles + (first_row + r) % s->T * 2 * count, count, 1.0F);
            if (plan->norm_factors[0] == 0) continue;
            const float factor = plan->norm_factors[n / s->H] / sqrtf(sf_dot(x, x, Dp) + 1e-12F);
            norms[r * 2 * s->H + n] = factor;
            sf_row_scale(x, factor, Dp);
        }
}

/* dx = factor (dy - y (y . dy) / f^2), where y = factor x and |y| is nearly f. */
static void norm_backward(float *dx, const float *y, float factor, float f, size_t Dp) {
    const float along = sf_dot(y, dx, Dp) / (f * f);
    sf_add_scaled(dx, -along, y, Dp);
    sf_row_scale(dx, factor, Dp);
}

void sf_turn_backward(float *dqkv /* [R,3,H,Dp] */, const float *qkv, const float *norms, const sf_cpu_plan *plan,
                      size_t first_row, size_t R) {
    const sf_shape *s = &plan->model->shape;
    const size_t Dp = plan->rows.Dp, count = s->D / 2;
    for (size_t r = 0; r < R; r++)
        for (size_t n = 0; n < 2 * s->H; n++) {
            const size_t at = r * 3 * plan->rows.HDp + n * Dp;
            if (plan->norm_factors[0] != 0)
                norm_backward(dqkv + at, qkv + at, norms[r * 2 * s->H + n], plan->norm_factors[n / s->H], Dp);
            if (plan->angles != NULL)
                rotate(dqkv + at, plan->angles + (first_row + r) % s->T * 2 * count, count, -1.0F);
        }
}
