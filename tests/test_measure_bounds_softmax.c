/* What bounds are made of: operator norms, slopes, normalization, and softmax over kept keys, whose adversaries climb:
 * they keep every change of a pair that brings its ratio closer to the constant. */
#include "bounded.h"

#include <math.h>
#include <string.h>

#include "kernels/reference/layers.h"
#include "measure/bounds.h"

static void activations_are_no_steeper(void **state) {
    (void)state;
    for (int activation = SF_RELU; activation <= SF_MISH; activation++) {
        const double bound = sf_activation_slope((sf_activation)activation);
        double steepest = 0;
        for (int i = -200000; i < 200000; i++) {
            const double z = i * 1e-4;
            steepest = fmax(steepest, fabs(sf_ref_activate_slope(z, (sf_activation)activation)));
            assert_true(fabs(sf_ref_activate(z, (sf_activation)activation)) <= fabs(z));
        }
        assert_true(steepest <= bound && bound <= steepest * (1 + 1e-6));
    }
}

static void norms_stay_on_their_domain(void **state) {
    (void)state;
    sf_draws draws = sf_draws_at((sf_index){.seed = 3});
    double closest = 0;
    for (size_t trial = 0; trial < 20000; trial++) {
        const size_t C = 1 + sf_draw_below(&draws, 8);
        const double epsilon = trial % 3 == 0 ? 0 : 1e-5, size = pow(10, -3 + 4 * sf_draw_unit(&draws));
        const double step = pow(10, -6 + 6 * sf_draw_unit(&draws));
        double x[2][8], y[2][8], rstd[2];
        for (size_t c = 0; c < C; c++) {
            x[0][c] = size * sf_draw_normal(&draws);
            x[1][c] = x[0][c] + size * step * sf_draw_normal(&draws);
        }
        for (size_t side = 0; side < 2; side++) sf_ref_norm_forward(y[side], &rstd[side], x[side], epsilon, 1, C);
        if (rstd[0] == 0 || rstd[1] == 0) continue; /* no variance: outside of every domain */
        const double bound = fmax(rstd[0], rstd[1]) * distance(x[0], x[1], C);
        assert_true(distance(y[0], y[1], C) <= bound * slack + 1e-12);
        closest = fmax(closest, distance(y[0], y[1], C) / bound);
    }
    printf("  closest: %.3f\n", closest);
    assert_true(closest > 0.9);
}

/* ---- softmax */

typedef struct pair { /* scores of one query at two inputs */
    size_t T, k;
    bool by_score; /* top-k; else the first k keys are kept */
    double scores[2][MOST_KEYS];
} pair;

typedef struct view {
    uint32_t kept[MOST_KEYS];
    double weights[MOST_KEYS];
    double dispersion, separation;
} view;

static view view_of(const pair *p, const double *scores) {
    view out = {.separation = INFINITY};
    for (size_t j = 0; j < p->k; j++) out.kept[j] = (uint32_t)j;
    if (p->by_score) {
        const sf_attention top = {.selector = &sf_selector_topk, .weighting = &sf_weighting_softmax, .k = p->k};
        sf_attention_keep(out.kept, &top, 0, p->T, scores, NULL);
    }
    bool kept[MOST_KEYS] = {false};
    double low = INFINITY, high = -INFINITY, other = -INFINITY, total = 0;
    for (size_t n = 0; n < p->k; n++) {
        kept[out.kept[n]] = true;
        low = fmin(low, scores[out.kept[n]]);
        high = fmax(high, scores[out.kept[n]]);
    }
    for (size_t j = 0; j < p->T; j++) {
        if (kept[j])
            total += out.weights[j] = exp(scores[j] - high);
        else
            other = fmax(other, scores[j]);
    }
    for (size_t j = 0; j < p->T; j++) out.weights[j] /= total;
    out.dispersion = high - low;
    if (p->by_score) out.separation = low - other;
    return out;
}

/* How much of the constant the pair uses up. */
static double used(const pair *p, sf_bound_kind kind) {
    const view a = view_of(p, p->scores[0]), b = view_of(p, p->scores[1]);
    const double separation = fmin(a.separation, b.separation);
    const double apart = distance(p->scores[0], p->scores[1], p->T);
    if (apart < 1e-7 || separation < 1e-9) return 0; /* rounding, or a tie */
    const double bound = sf_softmax_stability(kind, fmax(a.dispersion, b.dispersion), separation, (double)p->k);
    const double far = distance(a.weights, b.weights, p->T);
    return far == 0 ? 0 : far / (bound * apart);
}

static void check_used(double share, const pair *p, sf_bound_kind kind) {
    if (!(share <= slack))
        fail_msg("softmax over %zu of %zu keys (%s): %.6f of the %s constant", p->k, p->T,
                 p->by_score ? "top-k" : "fixed", share, sf_bound_kind_name(kind));
}

/* The second scores: near, far, or with `m` kept keys changing places with others. */
static void draw_pair(pair *p, sf_draws *draws) {
    const double size = pow(10, -1.5 + 2.5 * sf_draw_unit(draws)), step = pow(10, -4 + 5 * sf_draw_unit(draws));
    p->T = 2 + sf_draw_below(draws, 12);
    p->k = p->by_score ? 1 + sf_draw_below(draws, (uint32_t)p->T - 1) : 1 + sf_draw_below(draws, (uint32_t)p->T);
    for (size_t j = 0; j < p->T; j++) p->scores[0][j] = size * sf_draw_normal(draws);
    for (size_t j = 0; j < p->T; j++) p->scores[1][j] = p->scores[0][j] + step * sf_draw_normal(draws);
    if (!p->by_score || sf_draw_below(draws, 2) == 0) return;
    const view a = view_of(p, p->scores[0]);
    memcpy(p->scores[1], p->scores[0], sizeof p->scores[0]);
    for (size_t m = 1 + sf_draw_below(draws, (uint32_t)p->k); m > 0; m--) {
        const uint32_t inside = a.kept[sf_draw_below(draws, (uint32_t)p->k)];
        const uint32_t any = sf_draw_below(draws, (uint32_t)p->T);
        const double value = p->scores[1][inside];
        p->scores[1][inside] = p->scores[1][any];
        p->scores[1][any] = value;
    }
}

static double climb(pair *p, sf_bound_kind kind, sf_draws *draws) {
    double best = used(p, kind);
    for (int round = 0; round < 95; round++) {
        const double scale = pow(0.93, round);
        pair next = *p;
        const size_t side = sf_draw_below(draws, 3);
        for (size_t j = 0; j < p->T; j++)
            if (sf_draw_below(draws, 2) == 0) {
                const double step = scale * sf_draw_normal(draws);
                if (side != 1) next.scores[0][j] += step;
                if (side != 0) next.scores[1][j] += step;
            }
        const double now = used(&next, kind);
        check_used(now, &next, kind);
        if (now > best) {
            best = now;
            *p = next;
        }
    }
    return best;
}

static void check_softmax(bool by_score, uint32_t seed) {
    static const double least[2][2] = {{0.9, 0.9}, {0.4, 0.7}}; /* fixed, top-k: how close the adversary must come */
    sf_draws draws = sf_draws_at((sf_index){.seed = seed});
    for (sf_bound_kind kind = SF_BOUND_PUBLISHED; kind <= SF_BOUND_PROVEN; kind++) {
        double closest = 0;
        for (size_t trial = 0; trial < 10000; trial++) {
            pair p = {.by_score = by_score};
            draw_pair(&p, &draws);
            check_used(used(&p, kind), &p, kind);
            if (trial % 10 == 0) closest = fmax(closest, climb(&p, kind, &draws));
        }
        printf("  %s masks: the adversary uses up %.3f of the %s constant\n", by_score ? "top-k" : "fixed", closest,
               sf_bound_kind_name(kind));
        assert_true(closest > least[by_score][kind]);
    }
}

static void softmax_is_stable_under_fixed_masks(void **state) {
    (void)state;
    check_softmax(false, 5);
}

static void softmax_is_stable_under_top_k(void **state) {
    (void)state;
    check_softmax(true, 6);
}

/* Values by hand: the constants of the paper at 4 keys, 2 of them kept, dispersion 1, separation 1/2. */
static void stabilities_are_the_formulas(void **state) {
    (void)state;
    assert_true(fabs(sf_softmax_stability(SF_BOUND_PUBLISHED, 1, INFINITY, 4) - M_E / 4) <= 1e-15);
    assert_true(fabs(sf_softmax_stability(SF_BOUND_PUBLISHED, 1, 0.5, 2) - M_E / 2 * 3) <= 1e-14);
    assert_true(fabs(sf_softmax_stability(SF_BOUND_LOCAL, 0, INFINITY, 4) - 0.25) <= 1e-15);
    assert_true(sf_softmax_stability(SF_BOUND_LOCAL, 50, INFINITY, 4) == 0.5);
    assert_true(sf_softmax_stability(SF_BOUND_LOCAL, 0, INFINITY, 1) == 0);
    assert_true(sf_softmax_stability(SF_BOUND_PROVEN, 0, 4, 1) == 0.25);
    assert_true(isinf(sf_softmax_stability(SF_BOUND_PUBLISHED, 1, 0, 2)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_are_no_steeper),    cmocka_unit_test(norms_stay_on_their_domain),
        cmocka_unit_test(stabilities_are_the_formulas),  cmocka_unit_test(softmax_is_stable_under_fixed_masks),
        cmocka_unit_test(softmax_is_stable_under_top_k),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
