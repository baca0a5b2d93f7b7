#include "measure/stability.h"

#include <math.h>

#include "base/elementary.h"

double sf_sigmoid_stability(double largest_score, double kept) {
    return fmin(0.25, sf_exp(largest_score) / kept);
}

double sf_softmax1_stability(double dispersion, double largest_score, double kept) {
    return fmin(0.5, 1 / (1 + (kept - 1) * sf_exp(-dispersion) + sf_exp(-largest_score)));
}

double sf_entmax_stability(double alpha, double largest_weight) {
    return sf_pow(largest_weight, 2 - alpha);
}

double sf_within_jump(double cap, double crossing) {
    return crossing / (crossing + sf_exp(cap)) * sqrt(1 + 1 / crossing);
}

/* (1 + 1/(beta c)) B/(n - 1) * (2 c L^2/B)^(1/(beta c + 1)) * T^(beta c/(beta c + 1)), with u = beta c/(beta c + 1). */
static double ln_scale(const sf_hardt *h) {
    return sf_log(2 * h->step_scale * h->lipschitz * h->lipschitz / h->batch);
}

static double bound_at(const sf_hardt *h, double u) {
    return h->batch * sf_exp(u * sf_log(h->steps) + (1 - u) * ln_scale(h)) / (u * (h->samples - 1));
}

double sf_hardt_bound(const sf_hardt *h) {
    const double product = h->smoothness * h->step_scale;
    return bound_at(h, product / (product + 1));
}

/* The logarithm of bound_at() is convex in u, with its least value at u = 1 / ln(T B / (2 c L^2)), if that is below 1.
 */
double sf_hardt_least(const sf_hardt *h) {
    const double slope = sf_log(h->steps) - ln_scale(h);
    return bound_at(h, slope > 1 ? 1 / slope : 1);
}

/* Within an epoch t times the step grows, so its last step counts. */
double sf_hardt_step_scale(double rate, double decay, size_t epochs, size_t steps_per_epoch) {
    double scale = 0, step = rate;
    for (size_t epoch = 1; epoch <= epochs; epoch++) {
        scale = fmax(scale, step * (double)(epoch * steps_per_epoch));
        step *= decay;
    }
    return scale;
}
