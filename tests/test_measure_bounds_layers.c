/* Attention layers, MLPs and blocks stay below their bounds, forward passes written out here. Adversaries climb: they
 * keep every change of a pair that brings its ratio closer to the constant. */
#include "bounded.h"

#include <math.h>
#include <string.h>

#include "kernels/reference/layers.h"
#include "measure/bounds.h"
#include "measure/lipschitz.h"

enum { MOST = 1024 }; /* elements of the small inputs here */

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
    const size_t T = s->T, D = s->D, H = s->H;
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
                for (size_t c = 0; c < D; c++) scores[j] += q[(i * H + h) * D + c] * k[(j * H + h) * D + c];
                scores[j] *= s->inverse_temperature / sqrt((double)D);
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
                for (size_t c = 0; c < D; c++)
                    context[(i * H + h) * D + c] += weights[j] / total * v[(j * H + h) * D + c];
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
        for (size_t c = 0; c < s->C; c++) sum += at->input[side][t * s->C + c] * at->input[side][t * s->C + c];
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
            x[t * s->C + c] = sf_draw_normal(draws);
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
    sf_attention_layer *layer;
    double q[MOST] = {0}, k[MOST] = {0}, ahead[MOST];
    linear(q, at->input[0], at->params[0], &sf_model_block(&at->model, BLOCK)[SF_WQ], s->T);
    linear(k, at->input[0], at->params[0], &sf_model_block(&at->model, BLOCK)[SF_WK], s->T);
    offsets[0] = 0;
    for (size_t h = 0; h < s->H; h++)
        for (size_t i = 0; i < s->T; i++) {
            double scores[MOST_KEYS] = {0};
            for (size_t j = 0; j < s->T; j++)
                for (size_t c = 0; c < s->D; c++)
                    scores[j] += q[(i * s->H + h) * s->D + c] * k[(j * s->H + h) * s->D + c];
            const size_t slot = h * s->T + i;
            offsets[slot + 1] =
                offsets[slot] + sf_attention_keep(keys + offsets[slot], &s->attention, i, s->T, scores, NULL);
        }
    assert_int_equal(sf_attention_layer_create(&layer, s), SF_OK);
    sf_attention_layer_load(layer, &at->model, at->params[0], BLOCK);
    sf_attention_layer_place(layer, at->input[0], keys, offsets);
    for (size_t i = 0; i < n; i++) direction[i] = sf_draw_normal(draws);
    for (size_t round = 0; round < 20; round++) {
        sf_attention_layer_forward(layer, ahead, direction);
        sf_attention_layer_backward(layer, direction, ahead);
        const double zero[MOST] = {0}, length = distance(direction, zero, n);
        for (size_t i = 0; i < n && length > 0; i++) direction[i] /= length;
    }
    sf_attention_layer_destroy(layer);
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
            for (size_t n = 0; n < s->T * s->C; n++)
                direction[n] = sf_draw_below(draws, 3) == 0 ? sf_draw_normal(draws) : 0;
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
    {"narrow full", 7, 5, 2, 1},
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
                    for (size_t n = 0; n < s->T * s->C; n++) direction[n] = sf_draw_normal(&draws);
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

/* Without scores to tell keys apart, 30 queries give half of their weight to the global token: when it moves, they all
 * move half as far. */
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
                at->params[1][i] = at->params[0][i] + (float)(moves ? step * sf_draw_normal(draws) : 0);
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
        if (moved != 0 && s->norm == SF_POST_NORM) /* the same input: the layer alone can be checked, too */
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
                    for (size_t n = 0; n < s->T * s->C; n++) direction[n] = sf_draw_normal(&draws);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_layers_stay_below),
        cmocka_unit_test(a_sink_moves_everyone),
        cmocka_unit_test(blocks_stay_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
