/* The local Lipschitz constant of attention layers: its products against finite differences of a forward pass written
 * here, its largest singular value against Jacobi rotations of the whole Jacobian. */
#include "rotations.h"
#include "sample_subject.h"

#include <math.h>
#include <string.h>

#include "measure/bounds.h"
#include "measure/domain.h"
#include "measure/lipschitz.h"

enum { MOST = 2048, ENTRIES = 131072 }; /* elements of the small inputs and Jacobians here */

typedef struct setting {
    sample s;
    float *params;
    sf_attention_layer *layer;
    double input[MOST];
    uint32_t keys[MOST];
    size_t offsets[128];
} setting;

/* The layer by definition, block 0: every sum written out. */
static void brute_force(double *out, const setting *at, const double *input) {
    const sf_shape *s = &at->s.model.shape;
    const sf_param *p = sf_model_block(&at->s.model, 0);
    const size_t T = s->T, C = s->C, H = s->H;
    const double scale = s->inverse_temperature / sqrt((double)C);
    double qkv[3][MOST], context[MOST] = {0};
    static const int projections[] = {SF_WQ, SF_WK, SF_WV};
    for (size_t i = 0; i < 3; i++)
        for (size_t t = 0; t < T; t++)
            for (size_t o = 0; o < H * C; o++) {
                double sum = (double)at->params[sf_param_index(&p[projections[i] + 1], 0, o)];
                for (size_t c = 0; c < C; c++)
                    sum += (double)at->params[sf_param_index(&p[projections[i]], o, c)] * input[t * C + c];
                qkv[i][t * H * C + o] = sum;
            }
    for (size_t h = 0; h < H; h++)
        for (size_t t = 0; t < T; t++) {
            const size_t first = at->offsets[h * T + t], count = at->offsets[h * T + t + 1] - first;
            double scores[64], weights[64];
            for (size_t n = 0; n < count; n++) {
                scores[n] = 0;
                for (size_t c = 0; c < C; c++)
                    scores[n] += scale * qkv[0][(t * H + h) * C + c] * qkv[1][(at->keys[first + n] * H + h) * C + c];
            }
            s->attention.weighting->weigh(weights, scores, &(sf_weighing){.kept = count});
            for (size_t n = 0; n < count; n++)
                for (size_t c = 0; c < C; c++)
                    context[(t * H + h) * C + c] += weights[n] * qkv[2][(at->keys[first + n] * H + h) * C + c];
        }
    for (size_t t = 0; t < T; t++)
        for (size_t o = 0; o < C; o++) {
            out[t * C + o] = (double)at->params[sf_param_index(&p[SF_BO], 0, o)];
            for (size_t c = 0; c < H * C; c++)
                out[t * C + o] += (double)at->params[sf_param_index(&p[SF_WO], o, c)] * context[t * H * C + c];
        }
}

static void open_setting(setting *out, const sample_case *c, const sf_weighting *weighting) {
    describe_case(c);
    sample_open(&out->s, c);
    sf_shape *s = &out->s.model.shape;
    if (weighting != NULL) s->attention.weighting = weighting;
    assert_int_equal(SF_NEW(&out->params, out->s.model.size), SF_OK);
    for (size_t i = 0; i < out->s.model.size; i++) out->params[i] = (float)out->s.params[i];
    sf_draws draws = sf_draws_at((sf_index){.seed = c->seed, .stream = 78});
    for (size_t i = 0; i < s->T * s->C; i++) out->input[i] = sf_draw_normal(&draws);
    /* any kept set will do: the mechanism's over scores drawn at random */
    for (size_t h = 0, kept = 0; h < s->H; h++)
        for (size_t i = 0; i < s->T; i++) {
            double scores[64];
            for (size_t j = 0; j < s->T; j++) scores[j] = sf_draw_normal(&draws);
            kept += sf_attention_keep(out->keys + kept, &s->attention, i, s->T, scores, &draws);
            out->offsets[h * s->T + i + 1] = kept;
        }
    out->offsets[0] = 0;
    assert_int_equal(sf_attention_layer_create(&out->layer, s), SF_OK);
    sf_attention_layer_load(out->layer, &out->s.model, out->params, 0);
    sf_attention_layer_place(out->layer, out->input, out->keys, out->offsets);
}

static void close_setting(setting *at) {
    sf_attention_layer_destroy(at->layer);
    sf_release(at->params);
    sample_close(&at->s);
}

static void sigmoid_share(double *weights, const double *scores, const sf_weighing *row) {
    double total = 0;
    for (size_t j = 0; j < row->kept; j++) total += weights[j] = 1 / (1 + exp(-scores[j]));
    for (size_t j = 0; j < row->kept; j++) weights[j] /= total;
}

/* w_j = g_j / sum g: its Jacobian is not symmetric, unlike softmax's. */
static void sigmoid_share_backward(double *dscores, const double *dweights, const double *weights, const double *scores,
                                   const sf_weighing *row) {
    double total = 0, mean = 0;
    for (size_t j = 0; j < row->kept; j++) {
        total += 1 / (1 + exp(-scores[j]));
        mean += weights[j] * dweights[j];
    }
    for (size_t j = 0; j < row->kept; j++) {
        const double g = 1 / (1 + exp(-scores[j]));
        dscores[j] = g * (1 - g) * (dweights[j] - mean) / total;
    }
}

static const sf_weighting shares = {SF_WEIGHTING, .name = "shares", .weigh = sigmoid_share,
                                    .weigh_backward = sigmoid_share_backward};

static void check_jacobian(const sample_case *c, const sf_weighting *weighting) {
    setting at;
    open_setting(&at, c, weighting);
    const size_t n = at.s.model.shape.T * at.s.model.shape.C;
    static double jacobian[ENTRIES], above[MOST], below[MOST], column[MOST], row[MOST], unit[MOST];
    assert_true(n * n <= ENTRIES);
    sf_attention_layer_output(at.layer, above);
    brute_force(below, &at, at.input);
    for (size_t i = 0; i < n; i++) assert_true(fabs(above[i] - below[i]) <= 1e-12 * (1 + fabs(below[i])));
    double largest = 0;
    for (size_t i = 0; i < n; i++) {
        const double h = 1e-5, value = at.input[i];
        at.input[i] = value + h;
        brute_force(above, &at, at.input);
        at.input[i] = value - h;
        brute_force(below, &at, at.input);
        at.input[i] = value;
        for (size_t r = 0; r < n; r++) {
            jacobian[r * n + i] = (above[r] - below[r]) / (2 * h);
            largest = fmax(largest, fabs(jacobian[r * n + i]));
        }
    }
    for (size_t i = 0; i < n; i++) {
        memset(unit, 0, sizeof unit);
        unit[i] = 1;
        sf_attention_layer_forward(at.layer, column, unit);
        sf_attention_layer_backward(at.layer, row, unit);
        for (size_t r = 0; r < n; r++) {
            if (!(fabs(column[r] - jacobian[r * n + i]) <= 1e-7 * largest))
                fail_msg("J[%zu,%zu] %.12g, finite difference %.12g", r, i, column[r], jacobian[r * n + i]);
            if (!(fabs(row[r] - jacobian[i * n + r]) <= 1e-7 * largest))
                fail_msg("J^T[%zu,%zu] %.12g, finite difference %.12g", r, i, row[r], jacobian[i * n + r]);
        }
    }
    const sf_spectral_estimate estimate = sf_attention_layer_norm(at.layer, (sf_index){.seed = c->seed});
    const double expected = norm_by_rotations(jacobian, n, n);
    assert_true(estimate.converged);
    if (!(estimate.norm <= expected * (1 + 1e-7) && estimate.norm >= expected * (1 - 1e-5)))
        fail_msg("norm %.12g after %zu rounds, by Jacobi rotations %.12g", estimate.norm, estimate.rounds, expected);
    close_setting(&at);
}

static const char *const mechanisms[] = {"full",   "banded:3",  "banded:3+global:2", "block:3",
                                         "topk:3", "bottomk:2", "random:3"};
enum { MECHANISMS = sizeof mechanisms / sizeof *mechanisms };

static void jacobian_matches_finite_differences(void **state) {
    (void)state;
    for (size_t m = 0; m < MECHANISMS; m++)
        for (size_t H = 1; H <= 3; H += 2) {
            const sample_case c = {mechanisms[m], 7, 6, 5, H, 1, 1, SF_RELU, SF_PRE_NORM, 0, 40 + (uint32_t)m};
            check_jacobian(&c, NULL);
            check_jacobian(&c, &shares);
        }
    check_jacobian(&(sample_case){"full", 1, 5, 3, 2, 1, 1, SF_RELU, SF_PRE_NORM, 0, 60}, NULL);
    check_jacobian(&(sample_case){"topk:1", 5, 4, 3, 1, 1, 1, SF_RELU, SF_PRE_NORM, 0, 61}, NULL);
    check_jacobian(&(sample_case){"full", 11, 1, 3, 2, 1, 1, SF_RELU, SF_PRE_NORM, 0, 62}, NULL);
}

static void products_are_adjoint(void **state) {
    (void)state;
    for (size_t m = 0; m < MECHANISMS; m++)
        for (int generic = 0; generic < 2; generic++) {
            setting at;
            open_setting(&at, &(sample_case){mechanisms[m], 13, 9, 5, 2, 1, 1, SF_RELU, SF_PRE_NORM, 0, 70},
                         generic ? &shares : NULL);
            const size_t n = at.s.model.shape.T * at.s.model.shape.C;
            double x[MOST], y[MOST], jx[MOST], jy[MOST];
            sf_draws draws = sf_draws_at((sf_index){.seed = 71, .sample = (uint32_t)m});
            for (size_t trial = 0; trial < 10; trial++) {
                double left = 0, right = 0, size = 0;
                for (size_t i = 0; i < n; i++) {
                    x[i] = sf_draw_normal(&draws);
                    y[i] = sf_draw_normal(&draws);
                }
                sf_attention_layer_forward(at.layer, jx, x);
                sf_attention_layer_backward(at.layer, jy, y);
                for (size_t i = 0; i < n; i++) {
                    left += jx[i] * y[i];
                    right += x[i] * jy[i];
                    size += fabs(jx[i] * y[i]);
                }
                assert_true(fabs(left - right) <= 1e-13 * size);
            }
            close_setting(&at);
        }
}

/* Through a whole model: the same for any number of threads, in order, and below the local bound and the law of the
 * same inputs. */
static void samples_lie_below_their_bounds(void **state) {
    (void)state;
    for (size_t m = 0; m < MECHANISMS; m++)
        for (int norm = SF_PRE_NORM; norm <= SF_POST_NORM; norm++) {
            const sample_case c = {mechanisms[m], 12, 8, 8, 2, 2, 5, SF_GELU, (sf_norm)norm, 0, 80 + (uint32_t)m};
            describe_case(&c);
            sample_subject it;
            sf_bound_domain domains[2];
            sf_bounds *bounds;
            sf_local_lipschitz *one, *three;
            size_t samples;
            subject_open(&it, &c);
            assert_int_equal(sf_domain_measure(domains, &samples, &it.subject, 1), SF_OK);
            assert_int_equal(samples, 5);
            assert_int_equal(sf_bounds_create(&bounds, &it.s.model, it.params, domains), SF_OK);
            assert_int_equal(sf_local_lipschitz_measure(&one, &it.subject, bounds->blocks), SF_OK);
            it.subject.machine.threads = 3;
            assert_int_equal(sf_local_lipschitz_measure(&three, &it.subject, bounds->blocks), SF_OK);
            assert_int_equal(one->samples, 5);
            assert_memory_equal(one->values, three->values, 10 * sizeof *one->values);
            for (size_t l = 0; l < 2; l++) {
                const sf_block_lipschitz *block = &one->blocks[l];
                double largest = 0;
                for (size_t n = 0; n < 5; n++) largest = fmax(largest, one->values[l * 5 + n]);
                assert_true(block->largest == largest && block->least > 0 && block->unconverged == 0);
                assert_true(block->least <= block->median && block->median <= block->largest);
                assert_true(block->largest_over_bound <= 1 && block->largest_over_law <= 1);
                assert_true(block->largest_over_bound > 1e-3);
            }
            sf_local_lipschitz_destroy(one);
            sf_local_lipschitz_destroy(three);
            sf_bounds_destroy(bounds);
            subject_close(&it);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jacobian_matches_finite_differences),
        cmocka_unit_test(products_are_adjoint),
        cmocka_unit_test(samples_lie_below_their_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
