#include "train/optimizer.h"

#include <math.h>

#include "base/elementary.h"
#include "base/sizes.h"

enum { LANES = 16, STRETCH = 1024 };

/* Like sums over a row in docs/numerics.md, in double. */
static double sum_of_squares(const float *x, size_t count) {
    double sums[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t l = 0; l < LANES; l++) sums[l] += (double)x[i + l] * (double)x[i + l];
    for (size_t l = 0; i + l < count; l++) sums[l] += (double)x[i + l] * (double)x[i + l];
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++) sums[l] += sums[l + half];
    return sums[0];
}

double sf_gradient_norm(const float *gradient, size_t size) {
    double total = 0;
    for (size_t first = 0; first < size; first += STRETCH)
        total += sum_of_squares(gradient + first, sf_smaller(size - first, STRETCH));
    return sqrt(total);
}

double sf_clip_factor(double norm, double clip) {
    return clip > 0 ? fmin(1.0, clip / (norm + 1e-6)) : 1.0;
}

size_t sf_optimizer_moments(const sf_config *config) {
    if (config->optimizer != SF_SGD) return 2;
    return config->momentum > 0 ? 1 : 0;
}

static void sgd(float *params, float *velocity, const float *gradient, float factor, const sf_config *config, float lr,
                size_t size) {
    const float decay = (float)config->weight_decay, momentum = (float)config->momentum;
    for (size_t i = 0; i < size; i++) {
        float slope = factor * gradient[i] + decay * params[i];
        if (velocity != NULL) slope = velocity[i] = momentum * velocity[i] + slope;
        params[i] -= lr * slope;
    }
}

/* Adam adds the L2 penalty to the gradient; AdamW decays the weights separately. */
static void adam(float *params, float *const *moments, const float *gradient, float factor, const sf_config *config,
                 double lr, size_t step, size_t size) {
    const float beta1 = (float)config->beta1, beta2 = (float)config->beta2, epsilon = (float)config->epsilon;
    const float fresh1 = (float)(1.0 - config->beta1), fresh2 = (float)(1.0 - config->beta2);
    const float penalty = config->optimizer == SF_ADAM ? (float)config->weight_decay : 0.0F;
    const float keep = config->optimizer == SF_ADAMW ? (float)(1.0 - lr * config->weight_decay) : 1.0F;
    const float rate = (float)(lr / (1.0 - sf_pow(config->beta1, (double)step)));
    const float widen = (float)(1.0 / sqrt(1.0 - sf_pow(config->beta2, (double)step)));
    float *first = moments[0], *second = moments[1];
    for (size_t i = 0; i < size; i++) {
        const float slope = factor * gradient[i] + penalty * params[i];
        first[i] = beta1 * first[i] + fresh1 * slope;
        second[i] = beta2 * second[i] + fresh2 * slope * slope;
        params[i] = keep * params[i] - rate * first[i] / (sqrtf(second[i]) * widen + epsilon);
    }
}

void sf_optimizer_update(float *params /* [size] */, float *const *moments /* [0..2][size] */,
                         const float *gradient /* [size] */, float factor, const sf_config *config, double lr,
                         size_t step, size_t size) {
    if (config->optimizer == SF_SGD)
        sgd(params, moments[0], gradient, factor, config, (float)lr, size);
    else
        adam(params, moments, gradient, factor, config, lr, step, size);
}

double sf_learning_rate(const sf_config *config, size_t epoch, size_t step, size_t steps_per_epoch) {
    switch ((sf_schedule)config->schedule) {
    case SF_CONSTANT:
        return config->lr;
    case SF_DECAY:
        return config->lr * sf_pow(config->gamma, (double)(epoch - 1));
    case SF_COSINE: {
        const double steps = (double)steps_per_epoch, now = (double)(epoch - 1) * steps + (double)step;
        const double warm = (double)config->warmup * steps + (double)config->warmup_steps,
                     all = (double)config->epochs * steps;
        if (now < warm) return config->lr * (now + 1) / warm;
        return config->lr * 0.5 * (1 + sf_cos(M_PI * (now - warm) / (all - warm)));
    }
    }
    return config->lr;
}
