/* /sparsemax, /entmax15 and /entmax:a: weights that are exactly 0 for low scores and sum to 1.
 *
 *   w_j = [(a-1) s_j - tau]_+ ^ (1/(a-1)),  tau such that they sum to 1
 *   backward: g = w^(2-a) on the support, ds = g (dw - sum(g dw) / sum(g))
 *
 * a = 2 is sparsemax (Martins and Astudillo 2016), a = 1.5 entmax15, a near 1 close to softmax (Peters, Niculae and
 * Martins 2019). Settings: a from 1.05 to 2. Cost: a few passes over the kept keys.
 * Example: semfocus train even-pairs --attention full/entmax15,topk:5/entmax:1.3 */
#include <math.h>

#include "attention/attention.h"
#include "base/elementary.h"

/* x^p for the p of sparsemax and entmax15 without pow. */
static double power(double x, double p) {
    return p == 1 ? x : p == 2 ? x * x : p == 0 ? 1 : p == 0.5 ? sqrt(x) : sf_pow(x, p);
}

typedef struct sums { /* over the support: of y^p and of y^(p-1), y = (a-1) s - tau */
    double powers, slopes;
} sums;

static sums sums_at(double tau, const double *scores, size_t count, double alpha) {
    const double p = 1 / (alpha - 1);
    sums at = {0, 0};
    for (size_t j = 0; j < count; j++) {
        const double y = (alpha - 1) * scores[j] - tau;
        if (!(y > 0)) continue;
        const double slope = power(y, p - 1);
        at.powers += slope * y;
        at.slopes += slope;
    }
    return at;
}

/* Newton's method on sum [y]_+^p - 1, which falls and is convex in tau: from the left it never passes the root. It
 * begins at the larger of two bounds from the left: the largest score alone has weight at most 1, and by convexity the
 * weight at the mean score is at most the mean weight, 1/n. */
static double threshold(const double *scores, size_t count, double alpha) {
    enum { MOST_STEPS = 200 };
    const double p = 1 / (alpha - 1);
    double largest = scores[0], mean = 0;
    for (size_t j = 0; j < count; j++) {
        largest = scores[j] > largest ? scores[j] : largest;
        mean += scores[j] / (double)count;
    }
    double tau = fmax((alpha - 1) * largest - 1, (alpha - 1) * mean - power(1 / (double)count, alpha - 1));
    for (int step = 0; step < MOST_STEPS; step++) {
        const sums at = sums_at(tau, scores, count, alpha);
        const double next = tau + (at.powers - 1) / (p * at.slopes);
        if (!(next > tau)) break;
        tau = next;
    }
    return tau;
}

static void weigh_with(double *weights, const double *scores, size_t count, double alpha) {
    const double tau = threshold(scores, count, alpha);
    for (size_t j = 0; j < count; j++) {
        const double y = (alpha - 1) * scores[j] - tau;
        weights[j] = y <= 0 ? 0 : power(y, 1 / (alpha - 1));
    }
}

static void backward_with(double *dscores, const double *dweights, const double *weights, size_t count, double alpha) {
    double total = 0, sum = 0;
    for (size_t j = 0; j < count; j++) {
        if (!(weights[j] > 0)) continue;
        const double g = power(weights[j], 2 - alpha);
        total += g;
        sum += g * dweights[j];
    }
    for (size_t j = 0; j < count; j++)
        dscores[j] = weights[j] > 0 ? power(weights[j], 2 - alpha) * (dweights[j] - sum / total) : 0;
}

static void sparsemax(double *weights, const double *scores, const sf_weighing *row) {
    weigh_with(weights, scores, row->kept, 2);
}

static void sparsemax_backward(double *dscores, const double *dweights, const double *weights, const double *scores,
                               const sf_weighing *row) {
    (void)scores;
    backward_with(dscores, dweights, weights, row->kept, 2);
}

static void entmax15(double *weights, const double *scores, const sf_weighing *row) {
    weigh_with(weights, scores, row->kept, 1.5);
}

static void entmax15_backward(double *dscores, const double *dweights, const double *weights, const double *scores,
                              const sf_weighing *row) {
    (void)scores;
    backward_with(dscores, dweights, weights, row->kept, 1.5);
}

static void entmax(double *weights, const double *scores, const sf_weighing *row) {
    weigh_with(weights, scores, row->kept, row->arguments[0]);
}

static void entmax_backward(double *dscores, const double *dweights, const double *weights, const double *scores,
                            const sf_weighing *row) {
    (void)scores;
    backward_with(dscores, dweights, weights, row->kept, row->arguments[0]);
}

#define FORMULA(a) "[(" a "-1) s - tau]_+ ^ (1/(" a "-1)), tau so that they sum to 1"
#define COST       "a few passes over the kept keys"

const sf_weighting sf_weighting_sparsemax = {
    SF_WEIGHTING,
    .name = "sparsemax",
    .summary = "the nearest point of the simplex: low scores get exactly 0",
    .weigh = sparsemax,
    .weigh_backward = sparsemax_backward,
    .formula = "[s - tau]_+, tau so that they sum to 1",
    .cost = COST,
    .source = "Martins and Astudillo 2016, arXiv 1602.02068",
};

const sf_weighting sf_weighting_entmax15 = {
    SF_WEIGHTING,
    .name = "entmax15",
    .summary = "between softmax and sparsemax",
    .weigh = entmax15,
    .weigh_backward = entmax15_backward,
    .formula = "[s/2 - tau]_+ ^ 2, tau so that they sum to 1",
    .cost = COST,
    .source = "Peters, Niculae and Martins 2019, arXiv 1905.05702",
};

const sf_weighting sf_weighting_entmax = {
    SF_WEIGHTING,
    .name = "entmax",
    .summary = "from near softmax (A = 1.05) to sparsemax (A = 2)",
    .arguments = {{.letter = "A",
                   .meaning = "the exponent of entmax",
                   .low = 1.05,
                   .high = 2,
                   .initial = 1.25,
                   .required = true}},
    .weigh = entmax,
    .weigh_backward = entmax_backward,
    .formula = FORMULA("A"),
    .cost = COST,
    .source = "Peters, Niculae and Martins 2019, arXiv 1905.05702",
};
