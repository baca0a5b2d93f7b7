/* Bounds are bounds: no ratio seen over random and adversarial pairs exceeds the constant computed for exactly the
 * domain that holds both of the pair. Forward passes are written out here. Adversaries climb: they keep whatever change
 * of a pair brings its ratio closer to the constant. */
#include "sample_subject.h"

#include <math.h>
#include <string.h>

#include "kernels/reference/layers.h"
#include "kernels/reference/reference.h"
#include "measure/bounds.h"
#include "measure/domain.h"
#include "measure/lipschitz.h"

enum { MOST_KEYS = 32, MOST = 1024 };

/* Rounding of the two sides. */
static const double slack = 1 + 1e-9;

static double normal(sf_draws *draws) {
    return sf_draw_normal(draws);
}

static double distance(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum);
}

/* ---- the pieces */

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
            x[0][c] = size * normal(&draws);
            x[1][c] = x[0][c] + size * step * normal(&draws);
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
    for (size_t j = 0; j < p->T; j++) p->scores[0][j] = size * normal(draws);
    for (size_t j = 0; j < p->T; j++) p->scores[1][j] = p->scores[0][j] + step * normal(draws);
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
                const double step = scale * normal(draws);
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

/* ---- one attention layer and one block */

typedef struct scene { /* two inputs of block 1 under two sets of weights, and what lies between */
    sf_model model;
    float *params[2];
    sf_block_norms norms[2];
    double x[2][MOST]; /* [T,C]: the block's input */
    double attended[2][MOST], out[2][MOST];
    double input[2][MOST];  /* what the attention gets */
    sf_bound_domain domain; /* holds both */
} scene;

enum { BLOCK = 1 }; /* block 0's first norm has epsilon 0 */

static void linear(double *y, const double *x, const float *params, const sf_param *weight, size_t T) {
    for (size_t t = 0; t < T; t++)
        for (size_t o = 0; o < weight->rows; o++) {
            double sum = (double)params[sf_param_index(weight + 1, 0, o)];
            for (size_t c = 0; c < weight->columns; c++)
                sum += (double)params[sf_param_index(weight, o, c)] * x[t * weight->columns + c];
            y[t * weight->rows + o] = sum;
        }
}

static void attend(scene *at, size_t side) {
    const sf_shape *s = &at->model.shape;
    const sf_param *p = sf_model_block(&at->model, BLOCK);
    const size_t T = s->T, C = s->C, H = s->H;
    const bool by_score = s->attention.selector->selects_by == SF_BY_SCORE;
    double q[MOST] = {0}, k[MOST] = {0}, v[MOST] = {0}, context[MOST] = {0};
    linear(q, at->input[side], at->params[side], &p[SF_WQ], T);
    linear(k, at->input[side], at->params[side], &p[SF_WK], T);
    linear(v, at->input[side], at->params[side], &p[SF_WV], T);
    for (size_t h = 0; h < H; h++) {
        double degree[MOST_KEYS] = {0};
        for (size_t i = 0; i < T; i++) {
            double scores[MOST_KEYS], weights[MOST_KEYS], total = 0;
            bool kept[MOST_KEYS] = {false};
            uint32_t keys[MOST_KEYS];
            for (size_t j = 0; j < T; j++) {
                scores[j] = 0;
                for (size_t c = 0; c < C; c++) scores[j] += q[(i * H + h) * C + c] * k[(j * H + h) * C + c];
                scores[j] *= s->inverse_temperature / sqrt((double)C);
            }
            const size_t count = sf_attention_keep(keys, &s->attention, i, T, scores, NULL);
            double low = INFINITY, high = -INFINITY, other_low = INFINITY, other_high = -INFINITY;
            for (size_t n = 0; n < count; n++) kept[keys[n]] = true;
            for (size_t j = 0; j < T; j++) {
                if (kept[j]) {
                    degree[j]++;
                    low = fmin(low, scores[j]);
                    high = fmax(high, scores[j]);
                } else {
                    other_low = fmin(other_low, scores[j]);
                    other_high = fmax(other_high, scores[j]);
                }
            }
            for (size_t j = 0; j < T; j++) total += weights[j] = kept[j] ? exp(scores[j] - high) : 0;
            for (size_t j = 0; j < T; j++)
                for (size_t c = 0; c < C; c++)
                    context[(i * H + h) * C + c] += weights[j] / total * v[(j * H + h) * C + c];
            sf_bound_domain *d = &at->domain;
            d->dispersion = fmax(d->dispersion, high - low);
            if (by_score) d->separation = fmin(d->separation, fmax(low - other_high, other_low - high));
            d->fewest_kept = fmin(d->fewest_kept, (double)count);
            d->most_kept = fmax(d->most_kept, (double)count);
        }
        for (size_t j = 0; j < T; j++) at->domain.in_degree = fmax(at->domain.in_degree, degree[j]);
    }
    linear(at->attended[side], context, at->params[side], &p[SF_WO], T);
    for (size_t t = 0; t < T; t++) {
        double sum = 0;
        for (size_t c = 0; c < C; c++) sum += at->input[side][t * C + c] * at->input[side][t * C + c];
        at->domain.token_norm = fmax(at->domain.token_norm, sqrt(sum));
    }
}

static void normalize_rows(double *y, double *deviation, const double *x, const sf_shape *s) {
    double rstd[MOST_KEYS];
    sf_ref_norm_forward(y, rstd, x, 1e-5, s->T, s->C);
    for (size_t t = 0; t < s->T; t++) *deviation = fmin(*deviation, 1 / rstd[t]);
}

static void reset_domain(scene *at) {
    at->domain = (sf_bound_domain){
        .separation = INFINITY, .fewest_kept = INFINITY, .attention_deviation = INFINITY, .mlp_deviation = INFINITY};
}

static void run_mlp(scene *at, double *branch, const double *x, size_t side) {
    const sf_shape *s = &at->model.shape;
    const sf_param *p = sf_model_block(&at->model, BLOCK);
    double hidden[MOST] = {0};
    linear(hidden, x, at->params[side], &p[SF_W1], s->T);
    for (size_t i = 0; i < s->T * s->F; i++) hidden[i] = sf_ref_activate(hidden[i], s->activation);
    linear(branch, hidden, at->params[side], &p[SF_W2], s->T);
}

static void run_block(scene *at, size_t side) {
    const sf_shape *s = &at->model.shape;
    const size_t n = s->T * s->C;
    double middle[MOST] = {0}, normed[MOST], branch[MOST] = {0};
    if (s->norm == SF_PRE_NORM)
        normalize_rows(at->input[side], &at->domain.attention_deviation, at->x[side], s);
    else
        memcpy(at->input[side], at->x[side], n * sizeof *middle);
    attend(at, side);
    for (size_t i = 0; i < n; i++) middle[i] = at->x[side][i] + at->attended[side][i];
    if (s->norm == SF_PRE_NORM) {
        normalize_rows(normed, &at->domain.mlp_deviation, middle, s);
        run_mlp(at, branch, normed, side);
        for (size_t i = 0; i < n; i++) at->out[side][i] = middle[i] + branch[i];
        return;
    }
    normalize_rows(normed, &at->domain.attention_deviation, middle, s);
    run_mlp(at, branch, normed, side);
    for (size_t i = 0; i < n; i++) middle[i] = normed[i] + branch[i];
    normalize_rows(at->out[side], &at->domain.mlp_deviation, middle, s);
}

static void open_scene(scene *out, const sample_case *c) {
    sample s;
    memset(out, 0, sizeof *out);
    sample_open(&s, c);
    assert_int_equal(sf_model_create(&out->model, &s.model.shape), SF_OK);
    for (size_t side = 0; side < 2; side++) {
        assert_int_equal(SF_NEW(&out->params[side], out->model.size), SF_OK);
        for (size_t i = 0; i < out->model.size; i++) out->params[side][i] = (float)s.params[i];
        assert_int_equal(sf_block_norms_open(&out->norms[side], &out->model, out->params[side], BLOCK), SF_OK);
    }
    sample_close(&s);
}

static void close_scene(scene *at) {
    for (size_t side = 0; side < 2; side++) {
        sf_release(at->params[side]);
        sf_block_norms_close(&at->norms[side]);
    }
    sf_model_destroy(&at->model);
}

static sf_block_bounds bounds_of(const scene *at) {
    sf_block_bounds bounds;
    sf_block_bounds_of(&bounds, &at->norms[0], &at->model.shape, &at->domain);
    return bounds;
}

static void check_ratio(const char *what, double far, double apart, double bound, sf_bound_kind kind) {
    if (!(far <= bound * apart * slack + 1e-9))
        fail_msg("%s: moved by %.9g over %.9g, the %s constant is %.9g", what, far, apart, sf_bound_kind_name(kind),
                 bound);
}

/* Rows of norm sqrt(C) at most, as a LayerNorm leaves them. */
static void draw_rows(double *x, const sf_shape *s, double size, sf_draws *draws) {
    for (size_t t = 0; t < s->T; t++) {
        double sum = 0;
        for (size_t c = 0; c < s->C; c++) {
            x[t * s->C + c] = normal(draws);
            sum += x[t * s->C + c] * x[t * s->C + c];
        }
        for (size_t c = 0; c < s->C; c++) x[t * s->C + c] *= size * sqrt((double)s->C / sum);
    }
}

/* The second input a step away, pulled back into the ball. */
static void step_to(double *y, const double *x, const double *direction, double step, double radius,
                    const sf_shape *s) {
    for (size_t t = 0; t < s->T; t++) {
        double sum = 0;
        for (size_t c = 0; c < s->C; c++) {
            const size_t i = t * s->C + c;
            y[i] = x[i] + step * direction[i];
            sum += y[i] * y[i];
        }
        for (size_t c = 0; c < s->C && sum > radius * radius; c++) y[t * s->C + c] *= radius / sqrt(sum);
    }
}

static double check_attention(scene *at) {
    const size_t n = at->model.shape.T * at->model.shape.C;
    reset_domain(at);
    attend(at, 0);
    attend(at, 1);
    if (at->domain.separation < 1e-9) return 0;
    const sf_block_bounds bounds = bounds_of(at);
    const double far = distance(at->attended[0], at->attended[1], n), apart = distance(at->input[0], at->input[1], n);
    if (apart == 0) return 0;
    for (sf_bound_kind kind = SF_BOUND_PUBLISHED; kind <= SF_BOUND_PROVEN; kind++)
        check_ratio("attention layer", far, apart, bounds.attention_input[kind], kind);
    assert_true(bounds.attention_input[SF_BOUND_PROVEN] <= bounds.attention_input[SF_BOUND_PUBLISHED] * slack);
    return far / apart / bounds.attention_input[SF_BOUND_PROVEN];
}

/* A direction that stretches most, by power iteration on differences of the layer itself. */
static void steepest_direction(double *direction, scene *at, sf_draws *draws) {
    const sf_shape *s = &at->model.shape;
    const size_t n = s->T * s->C;
    uint32_t keys[MOST];
    size_t offsets[4 * MOST_KEYS];
    sf_layer *layer;
    double q[MOST] = {0}, k[MOST] = {0}, ahead[MOST];
    linear(q, at->input[0], at->params[0], &sf_model_block(&at->model, BLOCK)[SF_WQ], s->T);
    linear(k, at->input[0], at->params[0], &sf_model_block(&at->model, BLOCK)[SF_WK], s->T);
    offsets[0] = 0;
    for (size_t h = 0; h < s->H; h++)
        for (size_t i = 0; i < s->T; i++) {
            double scores[MOST_KEYS] = {0};
            for (size_t j = 0; j < s->T; j++)
                for (size_t c = 0; c < s->C; c++)
                    scores[j] += q[(i * s->H + h) * s->C + c] * k[(j * s->H + h) * s->C + c];
            const size_t slot = h * s->T + i;
            offsets[slot + 1] =
                offsets[slot] + sf_attention_keep(keys + offsets[slot], &s->attention, i, s->T, scores, NULL);
        }
    assert_int_equal(sf_layer_create(&layer, s), SF_OK);
    sf_layer_load(layer, &at->model, at->params[0], BLOCK);
    sf_layer_place(layer, at->input[0], keys, offsets);
    for (size_t i = 0; i < n; i++) direction[i] = normal(draws);
    for (size_t round = 0; round < 20; round++) {
        sf_layer_forward(layer, ahead, direction);
        sf_layer_backward(layer, direction, ahead);
        const double zero[MOST] = {0}, length = distance(direction, zero, n);
        for (size_t i = 0; i < n && length > 0; i++) direction[i] /= length;
    }
    sf_layer_destroy(layer);
}

/* Keeps what brings a pair of inputs closer to the constant. */
static double climb_inputs(scene *at, sf_draws *draws) {
    const sf_shape *s = &at->model.shape;
    const double radius = sqrt((double)s->C);
    double best = check_attention(at), kept[2][MOST], direction[MOST] = {0};
    memcpy(kept, at->input, sizeof kept);
    for (int round = 0; round < 227; round++) {
        const double scale = pow(0.97, round);
        for (size_t side = 0; side < 2; side++) {
            for (size_t n = 0; n < s->T * s->C; n++) direction[n] = sf_draw_below(draws, 3) == 0 ? normal(draws) : 0;
            step_to(at->input[side], kept[side], direction, scale * (double)sf_draw_below(draws, 2), radius, s);
        }
        const double now = check_attention(at);
        if (now <= best) continue;
        best = now;
        memcpy(kept, at->input, sizeof kept);
    }
    return best;
}

typedef struct shape_case {
    const char *attention;
    size_t T, C, H;
    double inverse_temperature;
} shape_case;

static const shape_case shapes[] = {
    {"full", 6, 4, 1, 0.3},
    {"full", 9, 3, 2, 2},
    {"banded:3", 8, 4, 1, 1},
    {"block:3", 8, 3, 2, 0.5},
    {"banded:3+global:1", 7, 4, 1, 1},
    {"topk:1", 6, 4, 1, 1},
    {"topk:3", 7, 4, 1, 0.3},
    {"topk:2", 8, 3, 2, 2},
    {"bottomk:2", 7, 4, 1, 1},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static sample_case case_of(const shape_case *shape, uint32_t seed) {
    return (sample_case){shape->attention,          shape->T,    shape->C, 5,   shape->H, 2, 1,
                         (sf_activation)(seed % 3), SF_PRE_NORM, 0,        seed};
}

static void attention_layers_stay_below(void **state) {
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        sf_draws draws = sf_draws_at((sf_index){.seed = 21, .sample = (uint32_t)i});
        double closest = 0;
        for (uint32_t seed = 0; seed < 30; seed++) {
            scene at;
            const sample_case c = case_of(&shapes[i], 100 + seed);
            open_scene(&at, &c);
            at.model.shape.inverse_temperature = shapes[i].inverse_temperature;
            for (size_t side = 0; side < 2; side++) {
                sf_block_norms_close(&at.norms[side]);
                assert_int_equal(sf_block_norms_open(&at.norms[side], &at.model, at.params[side], BLOCK), SF_OK);
            }
            const sf_shape *s = &at.model.shape;
            const double radius = sqrt((double)s->C);
            double direction[MOST] = {0};
            for (size_t trial = 0; trial < 40; trial++) {
                draw_rows(at.input[0], s, trial % 4 == 0 ? 0.1 : 1, &draws);
                if (trial % 2 == 0)
                    steepest_direction(direction, &at, &draws);
                else
                    for (size_t n = 0; n < s->T * s->C; n++) direction[n] = normal(&draws);
                /* from far below the separation, over its like where masks swap, to far away */
                for (int power = 0; power < 9; power++) {
                    const double step = 1e-4 * pow(4, power);
                    step_to(at.input[1], at.input[0], direction, step, radius, s);
                    closest = fmax(closest, check_attention(&at));
                }
                if (trial < 4) closest = fmax(closest, climb_inputs(&at, &draws));
            }
            close_scene(&at);
        }
        printf("  %s: at most %.3f of the proven constant\n", shapes[i].attention, closest);
        assert_true(closest > 0.005);
    }
}

/* Without scores to tell keys apart, 30 queries give half of their weight to the global token: what it moves by, they
 * all move by half of. */
static void a_sink_moves_everyone(void **state) {
    (void)state;
    scene at;
    open_scene(&at, &(sample_case){"banded:1+global:1", 30, 2, 3, 1, 2, 1, SF_RELU, SF_PRE_NORM, 0, 1});
    const sf_shape *s = &at.model.shape;
    const sf_param *p = sf_model_block(&at.model, BLOCK);
    for (size_t side = 0; side < 2; side++) {
        memset(at.params[side], 0, at.model.size * sizeof(float));
        for (size_t c = 0; c < 2; c++) {
            at.params[side][sf_param_index(&p[SF_WV], c, c)] = 1;
            at.params[side][sf_param_index(&p[SF_WO], c, c)] = 1;
        }
        sf_block_norms_close(&at.norms[side]);
        assert_int_equal(sf_block_norms_open(&at.norms[side], &at.model, at.params[side], BLOCK), SF_OK);
    }
    at.input[1][(s->T - 1) * 2] = 1;
    reset_domain(&at);
    attend(&at, 0);
    attend(&at, 1);
    const sf_block_bounds bounds = bounds_of(&at);
    const double far = distance(at.attended[0], at.attended[1], s->T * 2);
    assert_true(fabs(far - sqrt(30.0 / 4 + 1.0 / (31 * 31))) <= 1e-12);
    for (sf_bound_kind kind = 0; kind < SF_BOUND_KINDS; kind++)
        check_ratio("sink", far, 1, bounds.attention_input[kind], kind);
    assert_true(bounds.attention_input[SF_BOUND_LOCAL] < 1.5 * far);
    close_scene(&at);
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* Norms that hold for both sets of weights. */
static void join_norms(scene *at) {
    for (size_t h = 0; h < at->model.shape.H; h++) {
        sf_head_norms *a = &at->norms[0].heads[h];
        const sf_head_norms *b = &at->norms[1].heads[h];
        *a = (sf_head_norms){larger(a->gamma, b->gamma), larger(a->q, b->q), larger(a->k, b->k),
                             larger(a->upsilon, b->upsilon)};
    }
    at->norms[0].wo = larger(at->norms[0].wo, at->norms[1].wo);
    at->norms[0].w1 = larger(at->norms[0].w1, at->norms[1].w1);
    at->norms[0].w2 = larger(at->norms[0].w2, at->norms[1].w2);
}

/* Moves the block's parameters, all or one tensor; gives how far. */
static double move_weights(scene *at, double step, sf_draws *draws) {
    const sf_param *p = sf_model_block(&at->model, BLOCK);
    const uint32_t only = sf_draw_below(draws, 2 * SF_PARAMS_PER_BLOCK);
    double sum = 0;
    for (uint32_t which = 0; which < SF_PARAMS_PER_BLOCK; which++)
        for (size_t r = 0; r < p[which].rows; r++)
            for (size_t c = 0; c < p[which].columns; c++) {
                const size_t i = sf_param_index(&p[which], r, c);
                const bool moves = only >= SF_PARAMS_PER_BLOCK || only == which;
                at->params[1][i] = at->params[0][i] + (float)(moves ? step * normal(draws) : 0);
                const double by = (double)at->params[1][i] - (double)at->params[0][i];
                sum += by * by;
            }
    sf_block_norms_close(&at->norms[0]);
    sf_block_norms_close(&at->norms[1]);
    for (size_t side = 0; side < 2; side++)
        assert_int_equal(sf_block_norms_open(&at->norms[side], &at->model, at->params[side], BLOCK), SF_OK);
    join_norms(at);
    return sqrt(sum);
}

static void check_block(scene *at, double moved) {
    const sf_shape *s = &at->model.shape;
    const size_t n = s->T * s->C;
    reset_domain(at);
    run_block(at, 0);
    run_block(at, 1);
    if (at->domain.separation < 1e-9) return;
    const sf_block_bounds bounds = bounds_of(at);
    const double far = distance(at->out[0], at->out[1], n), apart = distance(at->x[0], at->x[1], n);
    for (sf_bound_kind kind = SF_BOUND_PUBLISHED; kind <= SF_BOUND_PROVEN; kind++) {
        if (moved == 0)
            check_ratio("block, its input", far, apart, bounds.block_input[kind], kind);
        else
            check_ratio("block, its weights", far / sqrt((double)s->T), moved, bounds.block_weights[kind], kind);
        if (moved != 0 && s->norm == SF_POST_NORM) /* the same input: the layer alone can be told too */
            check_ratio("attention layer, its weights",
                        distance(at->attended[0], at->attended[1], n) / sqrt((double)s->T), moved,
                        bounds.attention_weights[kind], kind);
    }
}

/* The MLP by itself: in a block the attention's constant hides it. */
static double check_mlp(scene *at, double moved) {
    const sf_shape *s = &at->model.shape;
    const size_t n = s->T * s->C;
    double out[2][MOST];
    for (size_t side = 0; side < 2; side++) run_mlp(at, out[side], at->x[side], side);
    const sf_block_bounds bounds = bounds_of(at);
    const double far = distance(out[0], out[1], n), apart = distance(at->x[0], at->x[1], n);
    const double bound = moved == 0 ? bounds.mlp_input * apart : bounds.mlp_weights * moved * sqrt((double)s->T);
    check_ratio(moved == 0 ? "MLP, its input" : "MLP, its weights", far, 1, bound, SF_BOUND_PROVEN);
    return bound == 0 ? 0 : far / bound;
}

/* Branches so weak that a block does little but normalize. */
static void weaken(scene *at) {
    const sf_param *p = sf_model_block(&at->model, BLOCK);
    static const int last[] = {SF_WO, SF_BO, SF_W2, SF_B2};
    for (size_t i = 0; i < 4; i++)
        for (size_t r = 0; r < p[last[i]].rows; r++)
            for (size_t c = 0; c < p[last[i]].columns; c++) {
                float *value = &at->params[0][sf_param_index(&p[last[i]], r, c)];
                *value *= 1e-3F;
                at->params[1][sf_param_index(&p[last[i]], r, c)] = *value;
            }
    for (size_t side = 0; side < 2; side++) {
        sf_block_norms_close(&at->norms[side]);
        assert_int_equal(sf_block_norms_open(&at->norms[side], &at->model, at->params[side], BLOCK), SF_OK);
    }
}

static void blocks_stay_below(void **state) {
    (void)state;
    double mlp_closest[2] = {0};
    for (size_t i = 0; i < SHAPES; i++)
        for (int norm = SF_PRE_NORM; norm <= SF_POST_NORM; norm++) {
            sf_draws draws = sf_draws_at((sf_index){.seed = 22, .sample = (uint32_t)i, .step = (uint32_t)norm});
            for (uint32_t seed = 0; seed < 12; seed++) {
                scene at;
                sample_case c = case_of(&shapes[i], 200 + seed);
                c.norm = (sf_norm)norm;
                open_scene(&at, &c);
                if (seed % 3 == 0) weaken(&at);
                const sf_shape *s = &at.model.shape;
                const double radius = sqrt((double)s->C);
                double direction[MOST] = {0}, moved;
                for (size_t trial = 0; trial < 12; trial++) {
                    draw_rows(at.x[0], s, trial % 3 == 0 ? 0.5 : 1, &draws);
                    for (size_t n = 0; n < s->T * s->C; n++) direction[n] = normal(&draws);
                    for (int power = 0; power < 8; power++) {
                        const double step = 1e-4 * pow(5, power);
                        step_to(at.x[1], at.x[0], direction, step, norm == SF_PRE_NORM ? INFINITY : radius, s);
                        check_block(&at, 0);
                        mlp_closest[0] = fmax(mlp_closest[0], check_mlp(&at, 0));
                    }
                    memcpy(at.x[1], at.x[0], sizeof at.x[0]);
                    moved = move_weights(&at, pow(10, -4 + 4 * sf_draw_unit(&draws)), &draws);
                    check_block(&at, moved);
                    mlp_closest[1] = fmax(mlp_closest[1], check_mlp(&at, moved));
                    memcpy(at.params[1], at.params[0], at.model.size * sizeof(float));
                }
                close_scene(&at);
            }
        }
    printf("  MLP: at most %.3f (input) and %.3f (weights) of the constant\n", mlp_closest[0], mlp_closest[1]);
    assert_true(mlp_closest[0] > 0.3 && mlp_closest[1] > 0.1);
}

/* ---- the whole model */

/* The domain measured on the f32 path against scores and kept sets of the double one. */
static void domains_are_those_of_the_reference(void **state) {
    (void)state;
    static const char *const mechanisms[] = {"full",   "banded:3",  "banded:3+global:2", "block:3",
                                             "topk:3", "bottomk:2", "random:3"};
    for (size_t m = 0; m < sizeof mechanisms / sizeof *mechanisms; m++) {
        const sample_case c = {mechanisms[m], 11, 8, 6, 2, 2, 4, SF_RELU, SF_PRE_NORM, 0, 300 + (uint32_t)m};
        describe_case(&c);
        sample_subject it;
        sf_bound_domain domains[2];
        sf_reference *reference;
        size_t samples;
        int32_t tokens[MOST_KEYS], label;
        double loss, logits[3];
        subject_open(&it, &c);
        it.subject.samples = 99; /* there are only 4 */
        it.subject.threads = 2;
        assert_int_equal(sf_domain_measure(domains, &samples, &it.subject, 1), SF_OK);
        assert_int_equal(samples, 4);
        assert_int_equal(sf_reference_create(&reference, &it.s.model), SF_OK);
        const sf_shape *s = &it.s.model.shape;
        double dispersion[2] = {0}, separation[2] = {INFINITY, INFINITY}, in_degree[2] = {0};
        double fewest = INFINITY, most = 0;
        for (size_t n = 0; n < 4; n++) {
            const sf_batch batch = subject_batch(&it, n, tokens, &label);
            const sf_moment moment = subject_moment(&it, n, 0);
            sf_reference_run(reference, &loss, logits, NULL, it.s.params, &batch, &moment);
            for (size_t l = 0; l < 2; l++)
                for (size_t h = 0; h < s->H; h++)
                    for (size_t i = 0; i < s->T; i++) {
                        const double *scores = sf_reference_scores(reference, l) + (h * s->T + i) * s->T;
                        const bool *kept = sf_reference_kept(reference, l) + (h * s->T + i) * s->T;
                        double count = 0, degree = 0;
                        for (size_t j = 0; j < s->T; j++) {
                            count += kept[j];
                            degree += sf_reference_kept(reference, l)[(h * s->T + j) * s->T + i];
                            for (size_t o = 0; o < s->T && kept[j]; o++) {
                                if (kept[o])
                                    dispersion[l] = fmax(dispersion[l], scores[j] - scores[o]);
                                else if (m == 4 || m == 5)
                                    separation[l] = fmin(separation[l], fabs(scores[j] - scores[o]));
                            }
                        }
                        in_degree[l] = fmax(in_degree[l], degree);
                        fewest = fmin(fewest, count);
                        most = fmax(most, count);
                    }
        }
        for (size_t l = 0; l < 2; l++) {
            assert_true(fabs(domains[l].dispersion - dispersion[l]) <= 1e-4 * dispersion[l]);
            assert_true(separation[l] == INFINITY ? domains[l].separation == INFINITY
                                                  : fabs(domains[l].separation - separation[l]) <= 1e-4);
            assert_true(domains[l].in_degree == in_degree[l]);
            assert_true(domains[l].fewest_kept == fewest && domains[l].most_kept == most);
            assert_true(domains[l].token_norm <= sqrt((double)s->C) * (1 + 1e-5));
            assert_true(domains[l].attention_deviation > 0 && domains[l].mlp_deviation > 0);
        }
        sf_bound_domain half[2];
        assert_int_equal(sf_domain_measure(half, &samples, &it.subject, 0.5), SF_OK);
        assert_true(half[1].dispersion < domains[1].dispersion && half[1].separation >= domains[1].separation);
        assert_int_equal(sf_domain_measure(half, &samples, &it.subject, 0), SF_BAD_INPUT);
        assert_int_equal(sf_domain_measure(half, &samples, &it.subject, 1.5), SF_BAD_INPUT);
        sf_reference_destroy(reference);
        subject_close(&it);
    }
}

/* The gradient of a sequence's loss is no longer than the composed local constant, in all weights and in each block. */
static void gradients_stay_below(void **state) {
    (void)state;
    static const char *const mechanisms[] = {"full", "banded:3+global:2", "topk:3", "topk:1"};
    for (size_t m = 0; m < sizeof mechanisms / sizeof *mechanisms; m++)
        for (int norm = SF_PRE_NORM; norm <= SF_POST_NORM; norm++) {
            const sample_case c = {mechanisms[m], 9, 6, 5, 2, 3, 8, SF_MISH, (sf_norm)norm, 0, 400 + (uint32_t)m};
            describe_case(&c);
            sample_subject it;
            sf_bound_domain domains[3];
            sf_bounds *bounds;
            sf_reference *reference;
            size_t samples;
            int32_t tokens[MOST_KEYS], label;
            double loss, logits[3], *gradient;
            subject_open(&it, &c);
            assert_int_equal(sf_domain_measure(domains, &samples, &it.subject, 1), SF_OK);
            assert_int_equal(sf_bounds_create(&bounds, &it.s.model, it.params, domains), SF_OK);
            assert_int_equal(sf_reference_create(&reference, &it.s.model), SF_OK);
            assert_int_equal(SF_NEW(&gradient, it.s.model.size), SF_OK);
            for (size_t n = 0; n < samples; n++) {
                const sf_batch batch = subject_batch(&it, n, tokens, &label);
                const sf_moment moment = subject_moment(&it, n, 0);
                sf_reference_run(reference, &loss, logits, gradient, it.s.params, &batch, &moment);
                double sum = 0;
                for (size_t i = 0; i < it.s.model.size; i++) sum += gradient[i] * gradient[i];
                for (sf_bound_kind kind = 0; kind < SF_BOUND_KINDS; kind++)
                    assert_true(log10(sum) / 2 <= bounds->log10_loss_weights[kind]);
            }
            assert_true(isfinite(bounds->log10_loss_embedding[SF_BOUND_LOCAL]));
            sf_release(gradient);
            sf_reference_destroy(reference);
            sf_bounds_destroy(bounds);
            subject_close(&it);
        }
}

/* One position: a softmax over a single key never moves. A separation of 0 has no constant, and dispersions beyond
 * what e^x can hold leave the others finite. */
static void edges_are_defined(void **state) {
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        const sample_case c = {m == 0 ? "full" : "topk:2", m == 0 ? 1 : 5, 4, 3, 1, 1, 2, SF_RELU, SF_PRE_NORM, 0, 500};
        sample_subject it;
        sf_bound_domain domain;
        sf_bounds *bounds;
        size_t samples;
        subject_open(&it, &c);
        assert_int_equal(sf_domain_measure(&domain, &samples, &it.subject, 1), SF_OK);
        if (m == 1) {
            domain.separation = 0;
            domain.dispersion = 2000;
        }
        assert_int_equal(sf_bounds_create(&bounds, &it.s.model, it.params, &domain), SF_OK);
        const sf_block_bounds *b = &bounds->blocks[0];
        if (m == 0) {
            assert_true(domain.dispersion == 0 && domain.separation == INFINITY && domain.in_degree == 1);
            assert_true(b->softmax[SF_BOUND_PROVEN] == 0);
            assert_true(fabs(b->attention_input[SF_BOUND_PROVEN] - b->wo * b->upsilon) <= 1e-12 * b->wo * b->upsilon);
        } else {
            assert_true(isinf(b->attention_input[SF_BOUND_PUBLISHED]) && isinf(b->attention_input[SF_BOUND_PROVEN]));
            assert_true(isfinite(b->attention_input[SF_BOUND_LOCAL]) &&
                        isfinite(bounds->log10_loss_weights[SF_BOUND_LOCAL]));
        }
        sf_bounds_destroy(bounds);
        subject_close(&it);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_are_no_steeper),
        cmocka_unit_test(norms_stay_on_their_domain),
        cmocka_unit_test(stabilities_are_the_formulas),
        cmocka_unit_test(softmax_is_stable_under_fixed_masks),
        cmocka_unit_test(softmax_is_stable_under_top_k),
        cmocka_unit_test(attention_layers_stay_below),
        cmocka_unit_test(a_sink_moves_everyone),
        cmocka_unit_test(blocks_stay_below),
        cmocka_unit_test(domains_are_those_of_the_reference),
        cmocka_unit_test(gradients_stay_below),
        cmocka_unit_test(edges_are_defined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
