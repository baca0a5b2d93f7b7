/* The constants of section 9 of docs/theory.md against pairs of inputs, random ones and adversaries that climb: they
 * keep every change of a pair that brings its ratio closer to the constant. */
#include "bounded.h"

#include <math.h>
#include <string.h>

#include "attention/attention.h"
#include "measure/bounds.h"
#include "measure/stability.h"

typedef struct scored_pair { /* scores of one query at two inputs, all kept */
    size_t n;
    double scores[2][MOST_KEYS];
} scored_pair;

typedef struct weighed_pair {
    double weights[2][MOST_KEYS];
    double dispersion, largest_score, largest_weight; /* of both */
    double moved, weights_moved;
} weighed_pair;

static weighed_pair weigh(const scored_pair *p, const char *weighting) {
    sf_attention attention;
    char spelling[64];
    weighed_pair out = {.largest_score = -INFINITY};
    snprintf(spelling, sizeof spelling, "full/%s", weighting);
    assert_int_equal(sf_attention_parse(&attention, spelling), SF_OK);
    for (size_t side = 0; side < 2; side++) {
        double low = INFINITY, high = -INFINITY;
        sf_attention_weigh(out.weights[side], &attention, p->scores[side], p->n, p->n);
        for (size_t j = 0; j < p->n; j++) {
            low = fmin(low, p->scores[side][j]);
            high = fmax(high, p->scores[side][j]);
            out.largest_weight = fmax(out.largest_weight, out.weights[side][j]);
        }
        out.dispersion = fmax(out.dispersion, high - low);
        out.largest_score = fmax(out.largest_score, high);
    }
    out.moved = distance(p->scores[0], p->scores[1], p->n);
    out.weights_moved = distance(out.weights[0], out.weights[1], p->n);
    return out;
}

typedef double constant(const weighed_pair *w, double n);

static double sigmoid(const weighed_pair *w, double n) {
    return sf_sigmoid_stability(w->largest_score, n);
}

static double softmax1(const weighed_pair *w, double n) {
    return sf_softmax1_stability(w->dispersion, w->largest_score, n);
}

static double sparsemax(const weighed_pair *w, double n) {
    (void)n;
    return sf_entmax_stability(2, w->largest_weight);
}

static double entmax15(const weighed_pair *w, double n) {
    (void)n;
    return sf_entmax_stability(1.5, w->largest_weight);
}

static double entmax_near_softmax(const weighed_pair *w, double n) {
    (void)n;
    return sf_entmax_stability(1.05, w->largest_weight);
}

/* How much of the constant the pair uses; a pair without distance uses nothing. */
static double ratio_of(const scored_pair *p, const char *weighting, constant *bound) {
    const weighed_pair w = weigh(p, weighting);
    return w.moved > 1e-9 ? w.weights_moved / (w.moved * bound(&w, (double)p->n)) : 0;
}

static void change(scored_pair *p, sf_draws *draws, double size) {
    const size_t j = sf_draw_below(draws, (uint32_t)p->n), side = sf_draw_below(draws, 3);
    const double by = size * sf_draw_normal(draws);
    if (side != 1) p->scores[0][j] += by;
    if (side != 0) p->scores[1][j] += by;
}

/* The largest ratio that climbing from random starts finds; it must not exceed 1. */
static double climb(const char *weighting, constant *bound) {
    sf_draws draws = sf_draws_at((sf_index){.seed = 19});
    double best = 0;
    for (size_t start = 0; start < 60; start++) {
        scored_pair p = {.n = 1 + sf_draw_below(&draws, start % 2 == 0 ? 3 : 12)};
        const double spread = pow(10, -1 + 2 * sf_draw_unit(&draws)), step = pow(10, -4 + 4 * sf_draw_unit(&draws));
        for (size_t j = 0; j < p.n; j++) {
            p.scores[0][j] = spread * sf_draw_normal(&draws);
            p.scores[1][j] = p.scores[0][j] + step * sf_draw_normal(&draws);
        }
        double here = ratio_of(&p, weighting, bound);
        for (size_t i = 0; i < 600; i++) {
            scored_pair next = p;
            change(&next, &draws, i % 2 == 0 ? step : 0.3 * spread);
            const double there = ratio_of(&next, weighting, bound);
            if (!(there <= slack)) fail_msg("%s: %.6f times the constant", weighting, there);
            if (there < here) continue;
            here = there;
            p = next;
        }
        best = fmax(best, here);
    }
    printf("  %s: up to %.4f of the constant\n", weighting, best);
    return best;
}

static void weightings_obey_their_constants(void **state) {
    (void)state;
    assert_true(climb("sigmoid", sigmoid) > 0.95);
    assert_true(climb("softmax1", softmax1) > 0.9);
    assert_true(climb("sparsemax", sparsemax) > 0.99);
    assert_true(climb("entmax15", entmax15) > 0.95);
    assert_true(climb("entmax:1.05", entmax_near_softmax) > 0.95);
}

/* The constants are those of the text at the ends. */
static void ends_of_the_constants(void **state) {
    (void)state;
    assert_true(sf_sigmoid_stability(50, 3) == 0.25);
    assert_true(fabs(sf_sigmoid_stability(0, 100) - 0.01) < 1e-15);
    assert_true(sf_entmax_stability(2, 0.3) == 1); /* sparsemax: a projection */
    for (int i = 0; i < 12; i++)                   /* without the further score of 0, softmax */
        assert_true(sf_softmax1_stability(0.5 * i, 700, 7) <=
                    sf_softmax_stability(SF_BOUND_PROVEN, 0.5 * i, INFINITY, 7) * (1 + 1e-12));
}

/* Weights of within:cap at scores, over all keys. */
static void weigh_within(double *weights, const double *scores, size_t n, double cap) {
    double largest = -INFINITY, total = 0;
    for (size_t j = 0; j < n; j++) largest = fmax(largest, scores[j]);
    for (size_t j = 0; j < n; j++) total += weights[j] = scores[j] >= largest - cap ? exp(scores[j] - largest) : 0;
    for (size_t j = 0; j < n; j++) weights[j] /= total;
}

static void within_jumps_no_further(void **state) {
    (void)state;
    static const double nudge = 1e-12;
    sf_draws draws = sf_draws_at((sf_index){.seed = 20});
    double closest = 0;
    for (size_t trial = 0; trial < 5000; trial++) {
        const size_t n = 2 + sf_draw_below(&draws, MOST_KEYS - 2),
                     crossing = 1 + sf_draw_below(&draws, (uint32_t)n - 1);
        const double cap = 4 * sf_draw_unit(&draws);
        double scores[2][MOST_KEYS], weights[2][MOST_KEYS];
        for (size_t j = 0; j < n; j++) { /* the first keys lie on the edge, on either side of it */
            const double inside = j + 1 == n ? 0 : -cap * sf_draw_unit(&draws) * (trial % 2 == 0 ? 1 : 1 - 1e-6);
            scores[0][j] = j < crossing ? -cap + nudge : inside;
            scores[1][j] = j < crossing ? -cap - nudge : inside;
        }
        for (size_t side = 0; side < 2; side++) weigh_within(weights[side], scores[side], n, cap);
        const double jump = distance(weights[0], weights[1], n), bound = sf_within_jump(cap, (double)crossing);
        if (jump > bound * slack + 1e-9)
            fail_msg("cap %g, %zu of %zu keys: %g above %g", cap, crossing, n, jump, bound);
        if (n == crossing + 1) assert_true(jump > bound * (1 - 1e-6)); /* one key stays: the bound is reached */
        closest = fmax(closest, jump / bound);
    }
    assert_true(closest > 0.999);
    assert_true(sf_within_jump(0, 1) > sf_within_jump(1, 1));
    assert_true(sf_within_jump(1, 50) > exp(-1)); /* several keys at once jump further than the weight of one */
}

/* And while the kept set stays, the cap bounds the stability of softmax. */
static void within_caps_the_stability(void **state) {
    (void)state;
    sf_draws draws = sf_draws_at((sf_index){.seed = 21});
    for (size_t trial = 0; trial < 20000; trial++) {
        const size_t n = 2 + sf_draw_below(&draws, MOST_KEYS - 2);
        const double cap = 3 * sf_draw_unit(&draws), step = pow(10, -5 + 5 * sf_draw_unit(&draws));
        double scores[2][MOST_KEYS], weights[2][MOST_KEYS];
        size_t kept[2] = {0};
        bool same = true;
        for (size_t j = 0; j < n; j++) {
            scores[0][j] = 2 * sf_draw_normal(&draws);
            scores[1][j] = scores[0][j] + step * sf_draw_normal(&draws);
        }
        for (size_t side = 0; side < 2; side++) {
            weigh_within(weights[side], scores[side], n, cap);
            for (size_t j = 0; j < n; j++) kept[side] += weights[side][j] > 0;
        }
        for (size_t j = 0; j < n; j++) same = same && (weights[0][j] > 0) == (weights[1][j] > 0);
        if (!same) continue;
        double moved = 0; /* only kept scores count */
        for (size_t j = 0; j < n; j++)
            if (weights[0][j] > 0) moved += (scores[0][j] - scores[1][j]) * (scores[0][j] - scores[1][j]);
        const double bound = fmin(0.5, sf_largest_weight(cap, (double)kept[0])) * sqrt(moved);
        assert_true(distance(weights[0], weights[1], n) <= bound * slack + 1e-12);
        assert_true(sf_largest_weight(cap, (double)kept[0]) <= exp(cap) / (double)kept[0] * (1 + 1e-12));
    }
}

/* The largest range of a query's scores with the keys of a set of positions, over all permutations of other rows. */
static double widest(const double *scores /* [T], of the query with each row */, size_t T, const bool *kept,
                     size_t query) {
    double widest = 0;
    size_t order[6];
    for (size_t code = 0; code < 720; code++) { /* of 6 rows: each code is an order, or is skipped */
        size_t rest = code, left[6], count = T;
        for (size_t j = 0; j < T; j++) left[j] = j;
        for (size_t j = 0; j < T; j++) {
            const size_t pick = rest % count;
            rest /= count;
            order[j] = left[pick];
            left[pick] = left[--count];
        }
        if (order[query] != query) continue;
        double low = INFINITY, high = -INFINITY;
        for (size_t j = 0; j < T; j++) {
            if (!kept[j] || j == query) continue;
            low = fmin(low, scores[order[j]]);
            high = fmax(high, scores[order[j]]);
        }
        widest = fmax(widest, high - low);
    }
    return widest;
}

/* The theorem on input-agnostic masks, by brute force. */
static void masks_do_not_narrow_the_range(void **state) {
    (void)state;
    enum { T = 6 };
    static const bool all[T] = {true, true, true, true, true, true};
    sf_draws draws = sf_draws_at((sf_index){.seed = 22});
    for (size_t trial = 0; trial < 200; trial++) {
        const size_t query = sf_draw_below(&draws, T);
        double scores[T];
        bool kept[T];
        size_t others = 0;
        for (size_t j = 0; j < T; j++) {
            scores[j] = sf_draw_normal(&draws);
            kept[j] = sf_draw_below(&draws, 2) == 0;
            others += kept[j] && j != query;
        }
        if (others >= 2)
            assert_true(widest(scores, T, kept, query) == widest(scores, T, all, query));
        else if (others == 1) /* one other key has no range: the assumption is needed */
            assert_true(widest(scores, T, kept, query) == 0);
    }
}

/* The loss (1 + sin(w z + b)) / 2 of a sample (z, b) has L = |z|/2 and beta = z^2/2. */
typedef struct wave {
    double z, b;
} wave;

static double loss_of(double w, wave s) {
    return (1 + sin(w * s.z + s.b)) / 2;
}

/* Weights after SGD with steps c / t, on samples of which the first may be replaced; the same choices for both. */
static double descend(const wave *samples, size_t count, wave first, const sf_hardt *h, uint32_t seed) {
    sf_draws draws = sf_draws_at((sf_index){.seed = seed});
    double w = 0;
    for (size_t t = 1; t <= (size_t)h->steps; t++) {
        double slope = 0; /* of the mean over a batch of neighbours, so that no sample is there twice */
        const size_t start = sf_draw_below(&draws, (uint32_t)count);
        for (size_t i = 0; i < (size_t)h->batch; i++) {
            const size_t chosen = (start + i) % count;
            const wave s = chosen == 0 ? first : samples[chosen];
            slope += 0.5 * s.z * cos(w * s.z + s.b) / h->batch;
        }
        w -= h->step_scale / (double)t * slope;
    }
    return w;
}

static void hardt_bounds_measured_stability(void **state) {
    (void)state;
    enum { SAMPLES = 10, REPEATS = 3000, PLACES = 16 };
    static const double largest_z = 2;
    double closest = 0;
    for (size_t trial = 0; trial < 6; trial++) {
        sf_draws draws = sf_draws_at((sf_index){.seed = 23, .sample = (uint32_t)trial});
        const sf_hardt h = {.lipschitz = largest_z / 2,
                            .smoothness = largest_z * largest_z / 2,
                            .step_scale = 0.05 + 0.3 * (double)trial / 5,
                            .steps = 40,
                            .samples = SAMPLES,
                            .batch = trial % 2 == 0 ? 1 : 3};
        wave samples[SAMPLES];
        for (size_t i = 0; i < SAMPLES; i++)
            samples[i] = (wave){(i % 2 == 0 ? 1 : -1) * largest_z, 6 * sf_draw_unit(&draws)};
        const wave other = {largest_z, 6 * sf_draw_unit(&draws)}; /* in place of the first */
        double apart[PLACES] = {0}, worst = 0;
        for (uint32_t r = 0; r < REPEATS; r++) {
            const double w = descend(samples, SAMPLES, samples[0], &h, r), v = descend(samples, SAMPLES, other, &h, r);
            for (size_t p = 0; p < PLACES; p++) {
                const wave at = {largest_z, 6.283 * (double)p / PLACES};
                apart[p] += (loss_of(w, at) - loss_of(v, at)) / REPEATS;
            }
        }
        for (size_t p = 0; p < PLACES; p++) worst = fmax(worst, fabs(apart[p]));
        if (worst > sf_hardt_bound(&h)) fail_msg("c = %g: %g above %g", h.step_scale, worst, sf_hardt_bound(&h));
        closest = fmax(closest, worst / sf_hardt_bound(&h));
    }
    printf("  measured stability: up to %.3f of the bound\n", closest);
    assert_true(closest > 0.01);
}

/* Against the formula as it is printed, and against a search over the smoothness. */
static void hardt_formula(void **state) {
    (void)state;
    sf_draws draws = sf_draws_at((sf_index){.seed = 24});
    for (size_t trial = 0; trial < 500; trial++) {
        sf_hardt h = {.lipschitz = pow(10, -3 + 4 * sf_draw_unit(&draws)),
                      .smoothness = pow(10, -2 + 4 * sf_draw_unit(&draws)),
                      .step_scale = pow(10, -3 + 4 * sf_draw_unit(&draws)),
                      .steps = 10 + 1e5 * sf_draw_unit(&draws),
                      .samples = 100 + 1e4 * sf_draw_unit(&draws),
                      .batch = trial % 2 == 0 ? 1 : 25};
        const double q = h.smoothness * h.step_scale, L = h.lipschitz;
        const double passes = h.batch / (h.samples - 1), scale = 2 * h.step_scale * L * L / h.batch;
        const double printed = (1 + 1 / q) * passes * pow(scale, 1 / (q + 1)) * pow(h.steps, q / (q + 1));
        assert_true(fabs(sf_hardt_bound(&h) / printed - 1) < 1e-9);
        const double least = sf_hardt_least(&h);
        double found = INFINITY;
        for (int i = -8000; i < 12000; i++) {
            h.smoothness = pow(10, 0.001 * i) / h.step_scale;
            found = fmin(found, sf_hardt_bound(&h));
        }
        assert_true(found >= least * (1 - 1e-9) && found <= least * (1 + 1e-4));
    }
    assert_true(fabs(sf_hardt_step_scale(0.1, 1, 3, 200) - 60) < 1e-12);
    assert_true(fabs(sf_hardt_step_scale(0.1, 0.25, 3, 200) - 20) < 1e-12); /* the first epoch's last step */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weightings_obey_their_constants),
        cmocka_unit_test(ends_of_the_constants),
        cmocka_unit_test(within_jumps_no_further),
        cmocka_unit_test(within_caps_the_stability),
        cmocka_unit_test(masks_do_not_narrow_the_range),
        cmocka_unit_test(hardt_bounds_measured_stability),
        cmocka_unit_test(hardt_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
