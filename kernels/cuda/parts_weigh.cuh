/* Weights of a query's kept scores and their gradients, as the files of attention/ compute them: softmax in floats,
 * other weightings in double, all sums in ascending order of the keys. */
#ifndef SF_KERNELS_CUDA_PARTS_WEIGH_CUH
#define SF_KERNELS_CUDA_PARTS_WEIGH_CUH

#include "kernels/cuda/parts.cuh"

namespace sf {

/* Scores become weights, in place. */
__device__ inline void softmax_of(const Column<float> &weights, uint32_t count) {
    float largest = weights[0], lanes[SUM_LANES];
    for (uint32_t n = 1; n < count; n++) largest = weights[n] > largest ? weights[n] : largest;
#pragma unroll
    for (int l = 0; l < SUM_LANES; l++) lanes[l] = 0.0F;
    for (uint32_t n = 0; n < count; n += SUM_LANES)
#pragma unroll
        for (uint32_t l = 0; l < SUM_LANES; l++)
            if (n + l < count) {
                const float weight = exp_below_zero(weights[n + l] - largest);
                weights[n + l] = weight;
                lanes[l] += weight;
            }
    const float inverse = 1.0F / total_of(lanes);
    for (uint32_t n = 0; n < count; n++) weights[n] *= inverse;
}

/* Gradients of the weights become those of the scores. */
__device__ inline void softmax_back(const Column<float> &slopes, const Column<float> &weights, uint32_t count) {
    float lanes[SUM_LANES];
#pragma unroll
    for (int l = 0; l < SUM_LANES; l++) lanes[l] = 0.0F;
    for (uint32_t n = 0; n < count; n += SUM_LANES)
#pragma unroll
        for (uint32_t l = 0; l < SUM_LANES; l++)
            if (n + l < count) lanes[l] = __fmaf_rn(weights[n + l], slopes[n + l], lanes[l]);
    const float mean = total_of(lanes);
    for (uint32_t n = 0; n < count; n++) slopes[n] = weights[n] * (slopes[n] - mean);
}

__device__ inline double softplus(double s) {
    return s > 0 ? s + log1p_of_double(exp_of_double(-s)) : log1p_of_double(exp_of_double(s));
}

/* Below this, ln(1 + e^s) is e^s to the last bit. */
__device__ inline bool is_flat(double s) {
    return s < -37;
}

__device__ inline double ln_softplus(double s) {
    return is_flat(s) ? s : log_of_double(softplus(s));
}

__device__ inline double ln_softplus_slope(double s) {
    return is_flat(s) ? 1 : 1 / ((1 + exp_of_double(-s)) * softplus(s));
}

__device__ inline double power(double x, double p) {
    return p == 1 ? x : p == 2 ? x * x : p == 0 ? 1 : p == 0.5 ? sqrt(x) : pow_of_double(x, p);
}

/* As entmax.c: Newton's method. */
__device__ inline double entmax_threshold(const Query &query, double alpha) {
    enum { MOST_STEPS = 200 };
    const double p = 1 / (alpha - 1), count = (double)query.count;
    double largest = (double)query.scores[0], mean = 0;
    for (uint32_t n = 0; n < query.count; n++) {
        const double score = (double)query.scores[n];
        largest = score > largest ? score : largest;
        mean += score / count;
    }
    double tau = fmax((alpha - 1) * largest - 1, (alpha - 1) * mean - power(1 / count, alpha - 1));
    for (int step = 0; step < MOST_STEPS; step++) {
        double powers = 0, slopes = 0;
        for (uint32_t n = 0; n < query.count; n++) {
            const double y = (alpha - 1) * (double)query.scores[n] - tau;
            if (!(y > 0)) continue;
            const double slope = power(y, p - 1);
            powers += slope * y;
            slopes += slope;
        }
        const double next = tau + (powers - 1) / (p * slopes);
        if (!(next > tau)) break;
        tau = next;
    }
    return tau;
}

__device__ inline double fastmax_value(double s) {
    return 1 + s + s * s / 2;
}

/* The largest of `begin` and the scores. */
__device__ inline double largest_score(const Query &query, double begin) {
    for (uint32_t n = 0; n < query.count; n++)
        begin = (double)query.scores[n] > begin ? (double)query.scores[n] : begin;
    return begin;
}

/* Weights in double, from the scores. */
__device__ inline void weigh_exactly(const Query &query, const Parts &p) {
    const uint32_t count = query.count;
    double total = 0;
    if (p.weighting == SF_CUDA_SIGMOID) {
        const double shift = log_of_double((double)count);
        for (uint32_t n = 0; n < count; n++) query.exact[n] = 1 / (1 + exp_of_double(shift - (double)query.scores[n]));
        return;
    }
    if (p.weighting == SF_CUDA_ENTMAX) {
        const double alpha = p.weighting_argument, tau = entmax_threshold(query, alpha);
        for (uint32_t n = 0; n < count; n++) {
            const double y = (alpha - 1) * (double)query.scores[n] - tau;
            query.exact[n] = y <= 0 ? 0 : power(y, 1 / (alpha - 1));
        }
        return;
    }
    if (p.weighting == SF_CUDA_SOFTMAX1) {
        const double largest = largest_score(query, 0);
        total = exp_of_double(-largest);
        for (uint32_t n = 0; n < count; n++) total += query.exact[n] = exp_of_double((double)query.scores[n] - largest);
    } else if (p.weighting == SF_CUDA_SOFTPLUS) {
        const double ln_largest = ln_softplus(largest_score(query, (double)query.scores[0]));
        for (uint32_t n = 0; n < count; n++)
            total += query.exact[n] =
                exp_of_double(p.weighting_argument * (ln_softplus((double)query.scores[n]) - ln_largest));
    } else {
        for (uint32_t n = 0; n < count; n++) total += query.exact[n] = fastmax_value((double)query.scores[n]);
    }
    for (uint32_t n = 0; n < count; n++) query.exact[n] /= total;
}

/* Gradients of the weights, in `wide`, become those of the scores. */
__device__ inline void weigh_exactly_back(const Query &query, const Parts &p) {
    const uint32_t count = query.count;
    if (p.weighting == SF_CUDA_SIGMOID) {
        for (uint32_t n = 0; n < count; n++) query.wide[n] = query.exact[n] * (1 - query.exact[n]) * query.wide[n];
        return;
    }
    double mean = 0, total = 0;
    if (p.weighting == SF_CUDA_ENTMAX) {
        const double alpha = p.weighting_argument;
        for (uint32_t n = 0; n < count; n++) {
            if (!(query.exact[n] > 0)) continue;
            const double g = power(query.exact[n], 2 - alpha);
            total += g;
            mean += g * query.wide[n];
        }
        for (uint32_t n = 0; n < count; n++)
            query.wide[n] = query.exact[n] > 0 ? power(query.exact[n], 2 - alpha) * (query.wide[n] - mean / total) : 0;
        return;
    }
    for (uint32_t n = 0; n < count; n++) {
        mean += query.exact[n] * query.wide[n];
        if (p.weighting == SF_CUDA_FASTMAX) total += fastmax_value((double)query.scores[n]);
    }
    for (uint32_t n = 0; n < count; n++) {
        const double score = (double)query.scores[n], slope = query.wide[n] - mean;
        query.wide[n] = p.weighting == SF_CUDA_SOFTMAX1 ? query.exact[n] * slope
                        : p.weighting == SF_CUDA_SOFTPLUS
                            ? p.weighting_argument * query.exact[n] * slope * ln_softplus_slope(score)
                            : (1 + score) * slope / total;
    }
}

__device__ inline void weigh(const Query &query, const Parts &p) {
    if (p.weighting == SF_CUDA_SOFTMAX) return softmax_of(query.weights, query.count); /* which are the scores */
    weigh_exactly(query, p);
    for (uint32_t n = 0; n < query.count; n++) {
        query.weights[n] = (float)query.exact[n];
        if (p.rounds_weights) query.exact[n] = (double)query.weights[n];
    }
}

/* Slopes: gradients of the weights become those of the scores. */
__device__ inline void weigh_back(const Query &query, const Parts &p) {
    if (p.weighting == SF_CUDA_SOFTMAX) return softmax_back(query.slopes, query.weights, query.count);
    for (uint32_t n = 0; n < query.count; n++) query.wide[n] = (double)query.slopes[n];
    weigh_exactly_back(query, p);
    for (uint32_t n = 0; n < query.count; n++) query.slopes[n] = (float)query.wide[n];
}

} // namespace sf

#endif
