/* What a selector needs of a whole head before its queries: vectors, draws, scratch, and all scores where it looks at
 * them. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "attention/room.h"
#include "base/stop.h"

static bool looks_at(const sf_attention *attention, unsigned what) {
    return (attention->selector->selects_by & what) != 0;
}

static size_t rounded_up(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

typedef struct all_scores { /* behind the selector's own scratch */
    double *scores;         /* [T,T] */
    double *steps;          /* [score steps + 1,T] */
    float *columns;         /* [D,T]: of the keys, scaled */
    float *products;        /* [T]: of a query with every key */
    uint32_t *every;        /* [T] */
} all_scores;

static size_t lay_out(all_scores *out, unsigned char *at, const sf_attention *attention, size_t T, size_t D) {
    const size_t steps = sf_attention_score_steps(attention) + 1;
    const size_t sizes[] = {T * T * sizeof(double), steps * T * sizeof(double), T * D * sizeof(float),
                            T * sizeof(float), T * sizeof(uint32_t)};
    void *places[5] = {NULL};
    size_t used = 0;
    for (size_t i = 0; i < 5; i++) {
        if (at != NULL) places[i] = at + used;
        used += rounded_up(sizes[i]);
    }
    *out = (all_scores){places[0], places[1], places[2], places[3], places[4]};
    return used;
}

static size_t own_size(const sf_attention *attention, size_t T, size_t D, size_t heads) {
    const sf_head_input input = {.T = T, .D = D, .heads = heads, .k = attention->k, .arguments = attention->arguments};
    return attention->selector->scratch_size(&input);
}

size_t sf_head_scratch_size(const sf_attention *attention, size_t T, size_t D, size_t heads) {
    const size_t plain = T - attention->globals;
    all_scores unused;
    if (attention->selector->scratch_size == NULL) return 0;
    const size_t own = own_size(attention, plain, D, heads);
    return looks_at(attention, SF_BY_ALL_SCORES) ? rounded_up(own) + lay_out(&unused, NULL, attention, plain, D) : own;
}

static _Thread_local const atomic_int *preparation_stop;

void sf_preparation_obey(const atomic_int *stop) {
    preparation_stop = stop;
}

bool sf_preparation_is_stopped(void) {
    return sf_stop_asked(preparation_stop);
}

/* In float, as the kernels compute them, so that a selector sees the scores that it would see in keep(): a product is a
 * chain of fused multiply-adds over the channels, with the scaled key. */
static inline __attribute__((always_inline)) void multiply(float *products /* [count] */, const double *q,
                                                           const all_scores *all, size_t count,
                                                           const sf_head_input *head) {
    memset(products, 0, count * sizeof *products);
    for (size_t c = 0; c < head->D; c++) {
        const float x = (float)q[c], *column = all->columns + c * head->T;
        for (size_t j = 0; j < count; j++) products[j] = fmaf(x, column[j], products[j]);
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
/* Without these instructions fmaf() is a function: the same bits, but slow. */
__attribute__((target("avx2,fma"))) static void multiply_avx2(float *products, const double *q, const all_scores *all,
                                                              size_t count, const sf_head_input *head) {
    multiply(products, q, all, count, head);
}
#endif

static void multiply_all(float *products, const double *q, const all_scores *all, size_t count,
                         const sf_head_input *head) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        multiply_avx2(products, q, all, count, head);
        return;
    }
#endif
    multiply(products, q, all, count, head);
}

static void score_query(const all_scores *all, const sf_attention *attention, const sf_head_input *head, size_t i) {
    const double *q = head->queries + i * head->stride;
    const size_t steps = sf_attention_score_steps(attention);
    const sf_scored_keys row = {.query = i,
                                .count = sf_attention_visible(attention, i, head->T),
                                .T = head->T,
                                .keys = all->every,
                                .head = head->head,
                                .heads = head->heads};
    double *scores = all->scores + i * head->T;
    multiply_all(all->products, q, all, row.count, head);
    for (size_t j = 0; j < row.count; j++) all->steps[j] = all->products[j];
    sf_attention_transform_scores(all->steps, attention, &row);
    for (size_t j = 0; j < head->T; j++) scores[j] = j < row.count ? (float)all->steps[steps * row.count + j] : 0;
}

/* To `scores`, or, if that is NULL, to a place behind the selector's scratch. */
static const double *score_all(double *scores, void *scratch, const sf_attention *attention,
                               const sf_head_input *head) {
    all_scores all;
    unsigned char *at = (unsigned char *)scratch + rounded_up(own_size(attention, head->T, head->D, head->heads));
    lay_out(&all, at, attention, head->T, head->D);
    if (scores != NULL) all.scores = scores;
    assert(head->queries != NULL && head->keys != NULL);
    for (size_t j = 0; j < head->T; j++) {
        all.every[j] = (uint32_t)j;
        for (size_t c = 0; c < head->D; c++)
            all.columns[c * head->T + j] = (float)head->score_scale * (float)head->keys[j * head->stride + c];
    }
    for (size_t i = 0; i < head->T && !sf_preparation_is_stopped(); i++) score_query(&all, attention, head, i);
    return all.scores;
}

static void complete(sf_head_input *input, const sf_attention *attention, size_t T) {
    input->T = T - attention->globals;
    input->k = attention->k;
    input->arguments = attention->arguments;
    input->causal = attention->causal;
    if (!looks_at(attention, SF_BY_VECTORS | SF_BY_ALL_SCORES)) input->queries = input->keys = NULL;
}

void sf_head_score(double *scores /* [T,T] without globals */, sf_head_state *state, const sf_attention *attention,
                   size_t T) {
    complete(&state->input, attention, T);
    state->input.scores = score_all(scores, state->scratch, attention, &state->input);
}

size_t sf_head_choice_size(const sf_attention *attention, size_t T, size_t D, size_t heads) {
    return rounded_up(own_size(attention, T - attention->globals, D, heads));
}

void sf_head_prepare(sf_head_state *state, const sf_attention *attention, size_t T, sf_index key_index) {
    complete(&state->input, attention, T);
    if (sf_attention_prepares_batch(attention)) {
        sf_head_score(NULL, state, attention, T);
        attention->selector->prepare_batch(&state->scratch, &state->input, 1);
        return;
    }
    if (attention->selector->prepare == NULL) return;
    sf_index index = key_index;
    index.stream = key_index.stream - SF_RANDOM_KEYS + SF_RANDOM_PREPARATION; /* evaluation follows training in both */
    sf_draws sequence = sf_draws_at(index);
    index.sample = UINT32_MAX; /* no sequence has this number */
    sf_draws step = sf_draws_at(index);
    const bool draws = looks_at(attention, SF_BY_CHANCE);
    sf_head_input input = state->input;
    input.sequence_draws = draws ? &sequence : NULL;
    input.step_draws = draws ? &step : NULL;
    if (looks_at(attention, SF_BY_ALL_SCORES)) input.scores = score_all(NULL, state->scratch, attention, &input);
    attention->selector->prepare(state->scratch, &input);
}
