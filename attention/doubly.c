/* /doubly:r: weights that are normalized over queries and over keys, r times (Sinkhorn's iteration).
 *
 *   each round: e^s over its sum over the queries that keep the key, then over its sum over the keys of the query
 *
 * so the weights of a query sum to 1, and no key collects all attention. In logarithms a round subtracts b_j, then a_i:
 * l_ij = s_ij - b_j - a_i; the backward pass undoes the rounds one after the other from these numbers. Every weight
 * depends on all queries, so the whole matrix of kept scores is held at once, and causal models cannot have it. Source:
 * Sander et al. 2022 (Sinkformers). Settings: r from 1 (the default) to 32.
 * Cost: T^2 memory; 2 r passes over the kept keys. Example: semfocus train even-pairs --attention full/doubly:3 */
#include <math.h>
#include <string.h>

#include "attention/attention.h"
#include "base/elementary.h"

typedef struct potentials { /* what the rounds have subtracted in total, after each of their two steps */
    double *columns;        /* [rounds,T]: b */
    double *rows;           /* [rounds,T]: a */
    double *largest, *sums; /* [T]: of the step in progress */
} potentials;

static size_t rounds_of(const double *arguments) {
    return (size_t)arguments[0];
}

static size_t scratch(size_t T, const double *arguments) {
    return (2 * rounds_of(arguments) + 2) * T;
}

static potentials lay_out(const sf_weighing_matrix *m) {
    const size_t steps = rounds_of(m->arguments) * m->T;
    return (potentials){m->scratch, m->scratch + steps, m->scratch + 2 * steps, m->scratch + 2 * steps + m->T};
}

/* l, with the potentials of a round's two steps; NULL: none yet. */
static double log_weight(double score, const double *a, const double *b, size_t i, size_t j) {
    return score - (b != NULL ? b[j] : 0) - (a != NULL ? a[i] : 0);
}

/* b grows by the logarithm of each column's sum of e^l. */
static void normalize_columns(double *b, const double *old_a, const double *old_b, const potentials *p,
                              const double *scores, const sf_weighing_matrix *m) {
    for (size_t j = 0; j < m->T; j++) {
        p->largest[j] = -INFINITY;
        p->sums[j] = 0;
    }
    for (size_t i = 0; i < m->T; i++)
        for (size_t n = m->offsets[i]; n < m->offsets[i + 1]; n++) {
            const size_t j = m->keys[n];
            const double l = log_weight(scores[n], old_a, old_b, i, j);
            p->largest[j] = l > p->largest[j] ? l : p->largest[j];
        }
    for (size_t i = 0; i < m->T; i++)
        for (size_t n = m->offsets[i]; n < m->offsets[i + 1]; n++) {
            const size_t j = m->keys[n];
            p->sums[j] += sf_exp(log_weight(scores[n], old_a, old_b, i, j) - p->largest[j]);
        }
    for (size_t j = 0; j < m->T; j++) /* a key that nobody keeps has no weights */
        b[j] = (old_b != NULL ? old_b[j] : 0) + (p->sums[j] > 0 ? p->largest[j] + sf_log(p->sums[j]) : 0);
}

/* a grows by the logarithm of each row's sum of e^l. */
static void normalize_rows(double *a, const double *old_a, const double *b, const double *scores,
                           const sf_weighing_matrix *m) {
    for (size_t i = 0; i < m->T; i++) {
        double largest = -INFINITY, sum = 0;
        for (size_t n = m->offsets[i]; n < m->offsets[i + 1]; n++) {
            const double l = log_weight(scores[n], old_a, b, i, m->keys[n]);
            largest = l > largest ? l : largest;
        }
        for (size_t n = m->offsets[i]; n < m->offsets[i + 1]; n++)
            sum += sf_exp(log_weight(scores[n], old_a, b, i, m->keys[n]) - largest);
        a[i] = (old_a != NULL ? old_a[i] : 0) + largest + sf_log(sum);
    }
}

static void weigh_matrix(double *weights, const double *scores, const sf_weighing_matrix *m) {
    const potentials p = lay_out(m);
    const size_t T = m->T, rounds = rounds_of(m->arguments);
    const double *a = NULL, *b = NULL;
    for (size_t round = 0; round < rounds; round++) {
        normalize_columns(p.columns + round * T, a, b, &p, scores, m);
        b = p.columns + round * T;
        normalize_rows(p.rows + round * T, a, b, scores, m);
        a = p.rows + round * T;
    }
    for (size_t i = 0; i < T; i++)
        for (size_t n = m->offsets[i]; n < m->offsets[i + 1]; n++)
            weights[n] = sf_exp(log_weight(scores[n], a, b, i, m->keys[n]));
}

/* dl of the logarithms after a step becomes dl before it: dl -= e^l times the sum of dl over the row. */
static void rows_backward(double *dl, const double *a, const double *b, const double *scores,
                          const sf_weighing_matrix *m) {
    for (size_t i = 0; i < m->T; i++) {
        double sum = 0;
        for (size_t n = m->offsets[i]; n < m->offsets[i + 1]; n++) sum += dl[n];
        for (size_t n = m->offsets[i]; n < m->offsets[i + 1]; n++)
            dl[n] -= sum * sf_exp(log_weight(scores[n], a, b, i, m->keys[n]));
    }
}

static void columns_backward(double *dl, const double *a, const double *b, const potentials *p, const double *scores,
                             const sf_weighing_matrix *m) {
    memset(p->sums, 0, m->T * sizeof *p->sums);
    for (size_t n = 0; n < m->offsets[m->T]; n++) p->sums[m->keys[n]] += dl[n];
    for (size_t i = 0; i < m->T; i++)
        for (size_t n = m->offsets[i]; n < m->offsets[i + 1]; n++)
            dl[n] -= p->sums[m->keys[n]] * sf_exp(log_weight(scores[n], a, b, i, m->keys[n]));
}

static void weigh_matrix_backward(double *dscores, const double *dweights, const double *weights, const double *scores,
                                  const sf_weighing_matrix *m) {
    const potentials p = lay_out(m);
    const size_t T = m->T;
    for (size_t n = 0; n < m->offsets[T]; n++) dscores[n] = dweights[n] * weights[n]; /* of the logarithms */
    for (size_t round = rounds_of(m->arguments); round-- > 0;) {
        const double *b = p.columns + round * T;
        rows_backward(dscores, p.rows + round * T, b, scores, m);
        columns_backward(dscores, round > 0 ? p.rows + (round - 1) * T : NULL, b, &p, scores, m);
    }
}

const sf_weighting sf_weighting_doubly = {
    SF_WEIGHTING,
    .name = "doubly",
    .summary = "normalized over queries and over keys, R times (1)",
    .arguments =
        {{.letter = "R", .meaning = "the number of rounds", .low = 1, .high = 32, .initial = 1, .whole = true}},
    .not_causal = true,
    .weigh_matrix = weigh_matrix,
    .weigh_matrix_backward = weigh_matrix_backward,
    .matrix_scratch = scratch,
    .formula = "R rounds: e^s over its sum over the queries that keep the key, then over the keys of the query",
    .cost = "holds the whole matrix of kept scores by definition; 2 R passes over it",
    .source = "Sander et al. 2022, arXiv 2110.11773 (Sinkformers)",
};
