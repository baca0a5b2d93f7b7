/* Small random models and batches for the kernel tests. A test that fails prints the case it was in. */
#ifndef SF_TESTS_SAMPLE_MODEL_H
#define SF_TESTS_SAMPLE_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kernels.h"

typedef struct sample {
    sf_model model;
    double *params; /* [size] */
    int32_t *tokens, *labels;
    size_t B;
    sf_moment moment;
} sample;

typedef struct sample_case {
    const char *attention;
    size_t T, C, F, H, L, B; /* T without globals */
    sf_activation activation;
    sf_norm norm;
    double dropout;
    uint32_t seed;
} sample_case;

static inline void describe_case(const sample_case *c) {
    printf("  case: %s T=%zu C=%zu F=%zu H=%zu L=%zu B=%zu activation %d norm %d dropout %g seed %u\n", c->attention,
           c->T, c->C, c->F, c->H, c->L, c->B, (int)c->activation, (int)c->norm, c->dropout, c->seed);
}

static inline bool sample_word(const char **text, const char *word) {
    if (strncmp(*text, word, strlen(word)) != 0) return false;
    *text += strlen(word);
    return true;
}

/* Under the readout `each`, a third of the positions have no label, but the first has one. */
static inline void sample_labels(int32_t *labels, const sf_shape *shape, sf_draws *draws) {
    for (size_t i = 0; i < sf_shape_labels(shape); i++) {
        labels[i] = (int32_t)sf_draw_below(draws, (uint32_t)shape->classes);
        if (i > 0 && sf_draw_below(draws, 3) == 0) labels[i] = SF_NO_LABEL;
    }
}

/* Weights at twice their usual size, so that attention is far from uniform. */
static inline void sample_open(sample *out, const sample_case *c) {
    sf_shape shape = {.classes = 3,
                      .C = c->C,
                      .F = c->F,
                      .H = c->H,
                      .L = c->L,
                      .activation = c->activation,
                      .norm = c->norm,
                      .inverse_temperature = 1.5,
                      .dropout = c->dropout};
    const char *spelling = c->attention; /* may follow words */
    if (sample_word(&spelling, "many ")) shape.classes = 1501;
    if (sample_word(&spelling, "tied ")) shape.tied = true;
    if (sample_word(&spelling, "narrow ")) shape.D = (c->C + 1) / 2; /* heads */
    if (sample_word(&spelling, "wide ")) shape.D = c->C + 13;
    const bool causal = sample_word(&spelling, "causal ");
    if (sample_word(&spelling, "last ")) shape.readout = SF_READ_LAST;
    if (sample_word(&spelling, "cls ")) shape.readout = SF_READ_CLS;
    if (sample_word(&spelling, "each ")) shape.readout = SF_READ_EACH;
    if (sf_attention_parse(&shape.attention, spelling) != SF_OK) fail_msg("%s: %s", spelling, sf_message());
    assert_int_equal(sf_attention_set_causal(&shape.attention, causal), SF_OK);
    shape.V = 5 + shape.attention.globals;
    shape.T = c->T + shape.attention.globals;
    *out = (sample){.B = c->B, .moment = {.seed = c->seed, .epoch = 3, .step = 7, .training = c->dropout > 0}};
    assert_int_equal(sf_model_create(&out->model, &shape), SF_OK);
    assert_int_equal(SF_NEW(&out->params, out->model.size), SF_OK);
    assert_int_equal(SF_NEW(&out->tokens, c->B * shape.T), SF_OK);
    assert_int_equal(SF_NEW(&out->labels, c->B * sf_shape_labels(&shape)), SF_OK);
    sf_draws draws = sf_draws_at((sf_index){.seed = c->seed, .stream = 77});
    for (size_t p = 0; p < out->model.param_count; p++) {
        const sf_param *param = &out->model.params[p];
        const double bound = param->bound > 0 ? 2 * param->bound : 0.1;
        for (size_t r = 0; r < param->rows; r++)
            for (size_t k = 0; k < param->columns; k++) /* values a float can hold */
                out->params[sf_param_index(param, r, k)] = (double)(float)(bound * (2 * sf_draw_unit(&draws) - 1));
    }
    for (size_t b = 0; b < c->B; b++) {
        for (size_t t = 0; t < c->T; t++) out->tokens[b * shape.T + t] = (int32_t)sf_draw_below(&draws, 5);
        for (size_t t = c->T; t < shape.T; t++) out->tokens[b * shape.T + t] = (int32_t)(5 + t - c->T);
        sample_labels(out->labels + b * sf_shape_labels(&shape), &shape, &draws);
    }
}

static inline void sample_close(sample *s) {
    sf_model_destroy(&s->model);
    sf_release(s->params);
    sf_release(s->tokens);
    sf_release(s->labels);
}

static inline sf_batch sample_batch(const sample *s) {
    return (sf_batch){.tokens = s->tokens, .labels = s->labels, .B = s->B};
}

#endif
