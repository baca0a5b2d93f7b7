/* Update rules against PyTorch, clipping and norms against their formulas, schedules at their corners. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "train/optimizer.h"

enum { SEED = 20250614, SIZE = 4 };

static void assert_close(const char *what, double value, double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance * fabs(expected)))
        fail_msg("%s is %.12g but should be %.12g (relative error %.2g)", what, value, expected,
                 fabs(value - expected) / fabs(expected));
}

/* Parameters after 1 and after 5 steps by torch.optim of PyTorch 2.15.0 in float64:
 *   p = torch.tensor([0.5, -1.25, 3.0, 0.001]);  at step t = 1..5  p.grad[i] = (((i + 1) * t) % 7 - 3) / 4
 *   SGD(lr, momentum, weight_decay)  Adam(lr, (beta1, beta2), eps, weight_decay)  AdamW(the same)
 * PyTorch's own float32 differs from these by less than 3e-7. */
typedef struct trajectory {
    sf_optimizer optimizer;
    double lr, momentum, weight_decay, beta1, beta2, epsilon;
    double after_1[SIZE], after_5[SIZE];
} trajectory;

static const trajectory trajectories[] = {
    {SF_SGD, 0.125, 0, 0, 0.9, 0.999, 1e-8, {0.5625, -1.21875, 3, -0.03025}, {0.5, -1.28125, 2.9375, -0.09275}},
    {SF_SGD,
     0.125,
     0,
     0.25,
     0.9,
     0.999,
     1e-8,
     {0.546875, -1.1796875, 2.90625, -0.03028125},
     {0.417291209102, -1.09484212846, 2.50569334626, -0.0919793799222}},
    {SF_SGD,
     0.125,
     0.75,
     0,
     0.9,
     0.999,
     1e-8,
     {0.5625, -1.21875, 3, -0.03025},
     {0.658935546875, -1.34753417969, 2.76904296875, -0.107032226562}},
    {SF_SGD,
     0.125,
     0.75,
     0.25,
     0.9,
     0.999,
     1e-8,
     {0.546875, -1.1796875, 2.90625, -0.03028125},
     {0.469786688685, -0.951588563621, 1.84609881043, -0.103485347062}},
    {SF_ADAM,
     0.05,
     0,
     0,
     0.9,
     0.999,
     1e-8,
     {0.549999999, -1.200000002, 3, -0.048999998},
     {0.640282221886, -1.24321064809, 2.91060969252, -0.0588861156994}},
    {SF_ADAM,
     0.05,
     0,
     0.25,
     0.8,
     0.95,
     0.0625,
     {0.542857142857, -1.205, 2.95384615385, -0.0390079936051},
     {0.550579136441, -1.13247190201, 2.78387384198, -0.0470435272452}},
    {SF_ADAMW,
     0.05,
     0,
     0.25,
     0.9,
     0.999,
     1e-8,
     {0.543749999, -1.184375002, 2.9625, -0.049012498},
     {0.604540844603, -1.16855788856, 2.72988652634, -0.0569146743826}},
    {SF_ADAMW,
     0.05,
     0,
     0.5,
     0.8,
     0.95,
     0.0625,
     {0.531944444444, -1.17875, 2.925, -0.039025},
     {0.538720999158, -1.10442118464, 2.57032338909, -0.0462175137128}}};

static sf_config config_of(const trajectory *t) {
    sf_config config;
    sf_config_init(&config);
    config.optimizer = t->optimizer;
    config.momentum = t->momentum;
    config.weight_decay = t->weight_decay;
    config.beta1 = t->beta1;
    config.beta2 = t->beta2;
    config.epsilon = t->epsilon;
    return config;
}

/* `scale` times the gradient with `factor` 1 / scale must be the same update: the factor belongs to the gradient. */
static void check_trajectory(const trajectory *t, float scale) {
    const sf_config config = config_of(t);
    float params[SIZE] = {0.5F, -1.25F, 3.0F, 0.001F}, first[SIZE] = {0}, second[SIZE] = {0};
    const size_t states = sf_optimizer_moments(&config);
    assert_int_equal(states, t->optimizer != SF_SGD ? 2 : t->momentum > 0 ? 1 : 0);
    float *const moments[] = {states > 0 ? first : NULL, states > 1 ? second : NULL};
    for (int step = 1; step <= 5; step++) {
        float gradient[SIZE];
        for (int i = 0; i < SIZE; i++) gradient[i] = scale * (float)((i + 1) * step % 7 - 3) / 4;
        sf_optimizer_update(params, moments, gradient, 1 / scale, &config, t->lr, (size_t)step, SIZE);
        if (step != 1 && step != 5) continue;
        for (size_t i = 0; i < SIZE; i++) {
            char what[96];
            snprintf(what, sizeof what, "trajectory %d, parameter %zu after step %d", (int)(t - trajectories), i, step);
            assert_close(what, (double)params[i], step == 1 ? t->after_1[i] : t->after_5[i], 1e-6);
        }
    }
}

static void updates_as_pytorch(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof trajectories / sizeof *trajectories; i++) {
        check_trajectory(&trajectories[i], 1);
        check_trajectory(&trajectories[i], 8);
    }
}

static void padding_stays_zero(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof trajectories / sizeof *trajectories; i++) {
        const sf_config config = config_of(&trajectories[i]);
        float params[SIZE] = {1, 0, 3, 0}, first[SIZE] = {0}, second[SIZE] = {0};
        float *const moments[] = {sf_optimizer_moments(&config) > 0 ? first : NULL, second};
        for (size_t step = 1; step <= 5; step++)
            sf_optimizer_update(params, moments, (const float[SIZE]){1, 0, -1, 0}, 0.5F, &config, 0.1, step, SIZE);
        assert_true(params[1] == 0 && params[3] == 0);
        assert_true(params[0] != 1 && params[2] != 3);
    }
}

static void clips_by_the_formula(void **state) {
    (void)state;
    assert_true(sf_clip_factor(0, 0.5) == 1);
    assert_true(sf_clip_factor(0.4, 0.5) == 1);
    assert_true(sf_clip_factor(0.5 - 2e-6, 0.5) == 1);
    assert_true(sf_clip_factor(0.5, 0.5) < 1); /* |g| + 1e-6 is beyond the limit already */
    static const double norms[] = {0.5, 0.6, 1, 17, 1e6, 1e30};
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        assert_close("clip factor", sf_clip_factor(norms[i], 0.5), (double)(0.5L / ((long double)norms[i] + 1e-6L)),
                     1e-15);
    assert_close("clip factor", sf_clip_factor(8, 2), 2 / 8.000001, 1e-15);
    assert_true(sf_clip_factor(100, 0) == 1); /* 0: no clipping */
    assert_true(sf_clip_factor(0, 0) == 1);
}

static void norms_are_exact(void **state) {
    (void)state;
    static const double scales[] = {1, 1e-30, 1e30, 3e38};
    for (uint32_t size = 0; size < 200; size++) {
        sf_draws draws = sf_draws_at((sf_index){.seed = SEED, .sample = size});
        float gradient[200];
        long double total = 0;
        for (uint32_t i = 0; i < size; i++) {
            gradient[i] = (float)(scales[size % 4] * (2 * sf_draw_unit(&draws) - 1));
            total += (long double)gradient[i] * gradient[i];
        }
        assert_close("norm", sf_gradient_norm(gradient, size), (double)sqrtl(total), 1e-14);
    }
    assert_true(sf_gradient_norm(NULL, 0) == 0);
    assert_true(sf_gradient_norm((const float[]){3, 4}, 2) == 5);
}

/* "Not finite iff some element is not", wherever it stands. */
static void norms_tell_what_is_not_finite(void **state) {
    (void)state;
    static const float poisons[] = {NAN, INFINITY, -INFINITY};
    for (size_t at = 0; at < 21; at++)
        for (size_t p = 0; p < 3; p++) {
            float gradient[21];
            for (size_t i = 0; i < 21; i++) gradient[i] = i % 2 == 0 ? FLT_MAX : -FLT_MAX;
            assert_true(sf_gradient_norm(gradient, 21) < HUGE_VAL);
            gradient[at] = poisons[p];
            assert_false(sf_gradient_norm(gradient, 21) < HUGE_VAL);
        }
}

static void schedules(void **state) {
    (void)state;
    sf_config config;
    sf_config_init(&config);
    config.lr = 0.1;
    config.gamma = 0.9995;
    config.schedule = SF_DECAY;
    for (size_t step = 0; step < 200; step += 199) { /* the same for every step of an epoch */
        assert_true(sf_learning_rate(&config, 1, step, 200) == 0.1);
        assert_close("rate of epoch 2", sf_learning_rate(&config, 2, step, 200), 0.09995, 1e-15);
        assert_close("rate of epoch 3", sf_learning_rate(&config, 3, step, 200), 0.099900025, 1e-15);
        assert_close("rate of epoch 1000", sf_learning_rate(&config, 1000, step, 200), 0.1 * exp(999 * log(0.9995)),
                     1e-12);
    }
    config.gamma = 0;
    assert_true(sf_learning_rate(&config, 1, 0, 200) == 0.1);
    assert_true(sf_learning_rate(&config, 2, 0, 200) == 0);
    config.schedule = SF_CONSTANT;
    config.gamma = 0.5;
    assert_true(sf_learning_rate(&config, 1, 0, 200) == 0.1);
    assert_true(sf_learning_rate(&config, 999, 7, 200) == 0.1);
}

static void warm_up_and_cosine(void **state) {
    (void)state;
    sf_config config;
    sf_config_init(&config);
    config.schedule = SF_COSINE;
    config.lr = 0.8;
    config.warmup = 2; /* 20 steps up, then 80 down */
    config.epochs = 10;
    assert_close("first step", sf_learning_rate(&config, 1, 0, 10), 0.04, 1e-15);
    assert_close("middle of the warm-up", sf_learning_rate(&config, 1, 9, 10), 0.4, 1e-15);
    assert_close("last of the warm-up", sf_learning_rate(&config, 2, 9, 10), 0.8, 1e-15);
    assert_close("top", sf_learning_rate(&config, 3, 0, 10), 0.8, 1e-15);
    assert_close("a quarter down", sf_learning_rate(&config, 5, 0, 10), 0.4 * (1 + sqrt(0.5)), 1e-14);
    assert_close("half-way", sf_learning_rate(&config, 7, 0, 10), 0.4, 1e-14);
    assert_close("three quarters down", sf_learning_rate(&config, 9, 0, 10), 0.4 * (1 - sqrt(0.5)), 1e-14);
    assert_close("last step", sf_learning_rate(&config, 10, 9, 10), 0.8 * pow(sin(acos(-1.0) / 160), 2), 1e-9);
    assert_true(fabs(sf_learning_rate(&config, 11, 0, 10)) < 1e-15);
    double previous = 1; /* never rises after the warm-up */
    for (size_t epoch = 3; epoch <= 10; epoch++)
        for (size_t step = 0; step < 10; step++) {
            const double rate = sf_learning_rate(&config, epoch, step, 10);
            assert_true(rate < previous && rate > 0);
            previous = rate;
        }
    config.warmup = 0;
    assert_true(sf_learning_rate(&config, 1, 0, 10) == 0.8);
    assert_close("half-way", sf_learning_rate(&config, 6, 0, 10), 0.4, 1e-14);
    config.warmup = 10; /* all of it: finite to the end */
    assert_close("last of the warm-up", sf_learning_rate(&config, 10, 9, 10), 0.8, 1e-15);
    config.warmup = 20;
    assert_close("cut warm-up", sf_learning_rate(&config, 10, 9, 10), 0.4, 1e-15);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(updates_as_pytorch),
                                       cmocka_unit_test(padding_stays_zero),
                                       cmocka_unit_test(clips_by_the_formula),
                                       cmocka_unit_test(norms_are_exact),
                                       cmocka_unit_test(norms_tell_what_is_not_finite),
                                       cmocka_unit_test(schedules),
                                       cmocka_unit_test(warm_up_and_cosine)};
    print_message("seed %d\n", SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
