/* Keys chosen by score in bf16. Rounding makes nearly equal scores change places, so the reference's choice is no
 * oracle; the same choice is made here from the queries and keys of the run itself, rounded to bf16 and multiplied in
 * double:
 *
 *   - what attention then gives must be what the kernels gave, as close as sums in f32 can be;
 *   - with these keys kept, the reference's gradient must be near that of bf16. */
#include "instruction_set.h"
#include "sample_model.h"
#include "to_bf16.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/attention.h"
#include "kernels/cpu/cpu.h"
#include "kernels/reference/reference.h"

typedef struct choice {
    const sample *s;
    uint32_t *kept;   /* [B,L,H,T,K], ascending */
    size_t ambiguous; /* queries whose K-th and next score are closer than f32 can tell */
    size_t compared;
} choice;

static uint32_t *kept_of(const choice *c, size_t b, size_t block, size_t h, size_t query) {
    const sf_shape *s = &c->s->model.shape;
    return c->kept + (((b * s->L + block) * s->H + h) * s->T + query) * s->attention.k;
}

typedef struct scored {
    double score; /* the greater the sooner it is kept */
    double error; /* of a sum in f32, at most */
    uint32_t key;
} scored;

static int best_first(const void *a, const void *b) {
    const scored *left = a, *right = b;
    if (left->score != right->score) return left->score > right->score ? -1 : 1;
    return left->key < right->key ? -1 : 1;
}

static int by_key(const void *a, const void *b) {
    return (((const scored *)a)->key > ((const scored *)b)->key) -
           (((const scored *)a)->key < ((const scored *)b)->key);
}

/* sum of q[c] * (scale * k[c]), both rounded; every one of C additions in f32 may be off by 2^-24 of what is added up.
 */
static scored score_of(const float *q, const float *k, float scale, size_t C, uint32_t key) {
    scored out = {.key = key};
    for (size_t c = 0; c < C; c++) {
        const double product = to_bf16((double)q[c]) * to_bf16((double)(scale * k[c]));
        out.score += product;
        out.error += fabs(product);
    }
    out.error *= (double)C * 0x1p-24;
    return out;
}

static void check_context(const float *context, const scored *kept, const sf_attention_view *seen, size_t h,
                          const choice *c) {
    const sf_shape *s = &c->s->model.shape;
    const size_t K = s->attention.k, Cp = sf_padded(s->C);
    const double sign = s->attention.selector == &sf_selector_topk ? 1 : -1;
    double weights[64], sum = 0, error = 0;
    assert_true(K <= 64);
    for (size_t n = 0; n < K; n++) {
        sum += weights[n] = exp(sign * (kept[n].score - kept[0].score));
        error = fmax(error, kept[n].error);
    }
    for (size_t x = 0; x < s->C; x++) {
        double expected = 0, size = 0;
        for (size_t n = 0; n < K; n++) {
            const double value = (double)seen->v[kept[n].key * seen->stride + h * Cp + x];
            expected += weights[n] / sum * value;
            size = fmax(size, fabs(value));
        }
        if (!(fabs((double)context[x] - expected) <= (4 * error + 2e-6) * size))
            fail_msg("channel %zu of head %zu is %.9g, expected %.9g", x, h, (double)context[x], expected);
    }
}

static void choose(choice *c, const sf_attention_view *seen, size_t h, size_t query) {
    const sf_shape *s = &c->s->model.shape;
    const size_t K = s->attention.k, Cp = sf_padded(s->C);
    const float scale = (float)(s->inverse_temperature / sqrt((double)s->C));
    scored all[256];
    assert_true(s->T <= 256);
    for (uint32_t j = 0; j < s->T; j++) {
        all[j] = score_of(seen->q + query * seen->stride + h * Cp, seen->k + j * seen->stride + h * Cp, scale, s->C, j);
        if (s->attention.selector == &sf_selector_bottomk) all[j].score = -all[j].score;
    }
    qsort(all, s->T, sizeof *all, best_first);
    const bool is_clear = all[K - 1].score - all[K].score > all[K - 1].error + all[K].error;
    qsort(all, K, sizeof *all, by_key);
    for (size_t n = 0; n < K; n++) kept_of(c, seen->sequence, seen->block, h, query)[n] = all[n].key;
    c->ambiguous += !is_clear;
    if (!is_clear) return;
    c->compared++;
    check_context(seen->context + query * s->H * Cp + h * Cp, all, seen, h, c);
}

static void see(void *context, size_t worker, const sf_attention_view *seen) {
    choice *c = context;
    (void)worker;
    for (size_t h = 0; h < c->s->model.shape.H; h++)
        for (size_t query = 0; query < c->s->model.shape.T; query++) choose(c, seen, h, query);
}

/* A selector that keeps what was chosen: the reference asks sequence by sequence, block by block, head by head. */
static const uint32_t *next_kept;

static size_t keep_chosen(uint32_t *kept, const sf_query *query) {
    memcpy(kept, next_kept, query->k * sizeof *kept);
    next_kept += query->k;
    return query->k;
}

static const sf_selector chosen = {.version = 1,
                                   .name = "chosen",
                                   .summary = "what bf16 chose",
                                   .takes_k = true,
                                   .selects_by = SF_BY_SCORE,
                                   .keep = keep_chosen};

static void run_reference(double *gradient, const sample *s, const choice *c) {
    sample replayed = *s;
    double loss, *logits;
    sf_reference *reference;
    replayed.model.shape.attention.selector = &chosen;
    next_kept = c->kept;
    assert_int_equal(SF_NEW(&logits, s->B * s->model.shape.classes), SF_OK);
    assert_int_equal(sf_reference_create(&reference, &replayed.model), SF_OK);
    const sf_batch batch = sample_batch(s);
    sf_reference_run(reference, &loss, logits, gradient, s->params, &batch, &s->moment);
    assert_ptr_equal(next_kept, kept_of(c, s->B, 0, 0, 0));
    sf_reference_destroy(reference);
    sf_release(logits);
}

/* Parameter by parameter: how far apart, beside its norm (a hundredth of all parameters' at least). */
static void assert_near(const sample *s, const float *ours, const double *theirs, double limit) {
    double whole = 0;
    for (size_t i = 0; i < s->model.size; i++) whole += theirs[i] * theirs[i];
    for (size_t p = 0; p < s->model.param_count; p++) {
        const sf_param *param = &s->model.params[p];
        double norm = 0, apart = 0;
        for (size_t i = 0; i < param->rows * param->columns; i++) {
            const size_t at = sf_param_index(param, i / param->columns, i % param->columns);
            norm += theirs[at] * theirs[at];
            apart += pow((double)ours[at] - theirs[at], 2);
        }
        if (!(sqrt(apart) <= limit * fmax(sqrt(norm), 0.01 * sqrt(whole))))
            fail_msg("%s is %.3g away from a gradient of norm %.3g", param->name, sqrt(apart), sqrt(norm));
    }
}

static void check(const sample_case *of) {
    sample s;
    sf_cpu_plan *plan;
    sf_cpu_team *team;
    float *params, *gradient;
    double loss, *expected;
    describe_case(of);
    sample_open(&s, of);
    const sf_shape *shape = &s.model.shape;
    choice c = {.s = &s};
    assert_int_equal(SF_NEW(&c.kept, s.B * shape->L * shape->H * shape->T * shape->attention.k), SF_OK);
    assert_int_equal(SF_NEW(&params, s.model.size), SF_OK);
    assert_int_equal(SF_NEW(&gradient, s.model.size), SF_OK);
    assert_int_equal(SF_NEW(&expected, s.model.size), SF_OK);
    for (size_t i = 0; i < s.model.size; i++) params[i] = (float)s.params[i];
    assert_int_equal(sf_cpu_plan_create(&plan, &s.model, SF_BF16), SF_OK);
    assert_int_equal(sf_cpu_team_create(&team, &plan, 1, 1, s.B), SF_OK);
    const sf_batch batch = sample_batch(&s);
    sf_cpu_observe(team, &(sf_observer){see, &c}, plan, params, &batch, &s.moment);
    assert_int_equal(c.compared + c.ambiguous, s.B * shape->L * shape->H * shape->T);
    assert_true(100 * c.ambiguous <= c.compared);
    sf_cpu_gradient(team, &loss, gradient, plan, params, &batch, &s.moment);
    run_reference(expected, &s, &c);
    assert_near(&s, gradient, expected, 0.05);
    sf_cpu_team_destroy(team);
    sf_cpu_plan_destroy(plan);
    sf_release(c.kept);
    sf_release(params);
    sf_release(gradient);
    sf_release(expected);
    sample_close(&s);
}

static void keys_chosen_by_score_are_those_of_rounded_factors(void **state) {
    (void)state;
    static const char *const mechanisms[] = {"topk:1", "topk:5", "topk:24", "bottomk:5", "topk:40"};
    static const size_t lengths[] = {41, 97, 230};
    for (size_t m = 0; m < sizeof mechanisms / sizeof *mechanisms; m++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            for (size_t H = 1; H <= 2; H++)
                check(&(sample_case){mechanisms[m], lengths[i], 40 / H, 30, H, 2, 2, SF_GELU, SF_PRE_NORM, 0,
                                     860 + (uint32_t)i});
}

int main(void) {
    if (!has_instruction_set(SF_BF16)) return SKIPPED;
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys_chosen_by_score_are_those_of_rounded_factors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
