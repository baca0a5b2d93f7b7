/* Every part of a mechanism, and random combinations of parts: the CPU kernels against the reference that keeps the
 * same keys, for any number of threads; and what a causal model must not see. */
#include <stdlib.h>
#include <string.h>

#include "attention/room.h"
#include "both_paths.h"
#include "instruction_set.h"

typedef struct kept_sets {
    const sf_shape *shape;
    bool *kept; /* [B,L,H,T,T] */
} kept_sets;

static void see_kept(void *context, size_t worker, const sf_attention_view *view) {
    const kept_sets *to = context;
    const sf_shape *s = to->shape;
    uint32_t *room;
    (void)worker;
    assert_int_equal(SF_NEW(&room, 2 * s->T), SF_OK);
    for (size_t i = 0; i < s->H * s->T; i++) {
        size_t count;
        bool *row = to->kept + ((view->sequence * s->L + view->block) * s->H * s->T + i) * s->T;
        const uint32_t *keys = sf_view_chosen(&count, room, view, s->T, i / s->T, i % s->T);
        if (count < 1 || count > s->T) fail_msg("a query keeps %zu keys", count);
        for (size_t n = 0; n < count; n++) {
            assert_true(keys[n] < sf_attention_visible(&s->attention, i % s->T, s->T));
            row[keys[n]] = true;
        }
    }
    sf_release(room);
}

/* The keys that the kernels keep; NULL: they depend on positions alone. */
static bool *kept_by_kernels(const sample *s) {
    const sf_shape *shape = &s->model.shape;
    kept_sets sets = {.shape = shape};
    if (sf_attention_selects_by(&shape->attention) == SF_BY_POSITION) return NULL;
    sf_cpu_plan *plan;
    sf_cpu_team *team;
    float *params;
    assert_int_equal(SF_NEW(&sets.kept, s->B * shape->L * shape->H * shape->T * shape->T), SF_OK);
    assert_int_equal(SF_NEW(&params, s->model.size), SF_OK);
    for (size_t i = 0; i < s->model.size; i++) params[i] = (float)s->params[i];
    assert_int_equal(sf_cpu_plan_create(&plan, &s->model, SF_F32), SF_OK);
    assert_int_equal(sf_cpu_team_create(&team, &plan, 1, 1, s->B), SF_OK);
    const sf_batch batch = sample_batch(s);
    sf_cpu_observe(team, &(sf_observer){see_kept, &sets}, plan, params, &batch, &s->moment);
    sf_cpu_team_destroy(team);
    sf_cpu_plan_destroy(plan);
    sf_release(params);
    return sets.kept;
}

/* What parity allows, and more where the gradient itself is that sensitive (entmax at the edge of its support, for
 * example): what a change of every weight by half a float's last bit changes in the reference, times the rounding steps
 * that a number goes through. */
static double limit_of(sf_reference *reference, const sample *s, const outcome *found) {
    enum { STEPS = 30 };
    outcome moved;
    double *params, apart = 0, norm = 0;
    outcome_open(&moved, s);
    assert_int_equal(SF_NEW(&params, s->model.size), SF_OK);
    sf_draws draws = sf_draws_at((sf_index){.seed = 1, .stream = 80});
    for (size_t i = 0; i < s->model.size; i++)
        params[i] = s->params[i] * (sf_draw_below(&draws, 2) ? 1 + 0x1p-24 : 1 - 0x1p-24);
    const sf_batch batch = sample_batch(s);
    sf_reference_run(reference, &moved.loss, moved.logits, moved.gradient, params, &batch, &s->moment);
    for (size_t i = 0; i < s->model.size; i++) {
        apart = fmax(apart, fabs(moved.gradient[i] - found->gradient[i]));
        norm += found->gradient[i] * found->gradient[i];
    }
    sf_release(params);
    outcome_close(&moved);
    return fmax(2e-5, STEPS * apart / (0.05 * sqrt(norm)));
}

/* Loss and gradient on some threads against the reference, with the keys that the kernels keep; the same bits on one
 * thread. Fills in the gradient. */
static void check_gradient(double *gradient, sample *s, size_t threads) {
    outcome cpu, again, reference;
    sf_reference *following;
    bool *kept = kept_by_kernels(s);
    outcome_open(&reference, s);
    assert_int_equal(sf_reference_create(&following, &s->model), SF_OK);
    sf_reference_follow(following, &(sf_reference_choices){.kept = kept});
    const sf_batch batch = sample_batch(s);
    sf_reference_run(following, &reference.loss, reference.logits, reference.gradient, s->params, &batch, &s->moment);
    run_cpu(&cpu, s, 1);
    run_cpu(&again, s, threads);
    assert_int_equal(sf_attention_check_fault(&s->model.shape.attention), SF_OK);
    assert_true(isfinite(cpu.loss));
    assert_close(s, &cpu, &reference, limit_of(following, s, &reference));
    assert_true(cpu.loss == again.loss);
    assert_memory_equal(cpu.gradient, again.gradient, s->model.size * sizeof *cpu.gradient);
    memcpy(gradient, reference.gradient, s->model.size * sizeof *gradient);
    outcome_close(&cpu);
    outcome_close(&again);
    outcome_close(&reference);
    sf_reference_destroy(following);
    sf_release(kept);
}

/* Some steps of gradient descent, each of them checked. */
static void check_steps(const sample_case *c, size_t steps) {
    sample s;
    double *gradient;
    sample_open(&s, c);
    assert_int_equal(SF_NEW(&gradient, s.model.size), SF_OK);
    for (size_t step = 0; step < steps; step++) {
        check_gradient(gradient, &s, 2 + step % 2);
        for (size_t i = 0; i < s.model.size; i++) s.params[i] = (float)(s.params[i] - 0.1 * gradient[i]);
        s.moment.step++;
    }
    sf_release(gradient);
    sample_close(&s);
}

static void check_case(const sample_case *c) {
    check_steps(c, 1);
}

static const char *const parts[] = {"topp:0.7",
                                    "within:0.9",
                                    "blocktopk:3:2",
                                    "kmeans:3:2",
                                    "lsh:4:2",
                                    "topk:3+sink:2",
                                    "topk:2+window:5",
                                    "banded:3+random:2",
                                    "topk:4+global:2",
                                    "topp:0.6+global:1",
                                    "kmeans:4:1+global:2+sink:1",
                                    "topk:3+st",
                                    "blocktopk:4:1+st",
                                    "within:0.5+st+sink:1",
                                    "full/softmax1",
                                    "full/sigmoid",
                                    "topk:5/softplus",
                                    "full/softplus:3",
                                    "full/sparsemax",
                                    "full/entmax15",
                                    "full/entmax:1.2",
                                    "full/fastmax",
                                    "topk:5/fastmax",
                                    "full/doubly",
                                    "topk:5/doubly:3",
                                    "within:1/doubly@alibi",
                                    "full@rope",
                                    "full@qknorm:4",
                                    "full@alibi",
                                    "full@softcap:2",
                                    "full@logn",
                                    "banded:5@rope@qknorm:3",
                                    "block:4@softcap:1",
                                    "topk:5@rope@softcap:3",
                                    "causal full",
                                    "causal full/fastmax",
                                    "causal topk:5",
                                    "causal bottomk:3",
                                    "causal random:4",
                                    "causal banded:5",
                                    "causal block:5/sigmoid",
                                    "causal blocktopk:4:2",
                                    "causal lsh:4:2@rope",
                                    "causal topp:0.8+window:3",
                                    "causal within:1+st@alibi@logn",
                                    "last full",
                                    "narrow full",
                                    "wide full@rope",
                                    "narrow topk:3@qknorm:2",
                                    "wide kmeans:3:2",
                                    "narrow full/fastmax",
                                    "wide full/doubly",
                                    "narrow causal lsh:4:2@rope",
                                    "wide causal blocktopk:4:2",
                                    "causal last topk:3/entmax15@qknorm:5"};
enum { PARTS = sizeof parts / sizeof *parts };

static void every_part_equals_the_reference(void **state) {
    (void)state;
    for (uint32_t i = 0; i < PARTS; i++)
        for (int dropped = 0; dropped < 2; dropped++) {
            const sample_case c = {parts[i],      19,     12, 10, 2, 2, 3, SF_GELU, i % 2 ? SF_POST_NORM : SF_PRE_NORM,
                                   dropped * 0.2, 300 + i};
            describe_case(&c);
            check_case(&c);
        }
}

/* Longer than a tile of queries, and than the rows of a stretch. */
static void long_sequences_equal_the_reference(void **state) {
    (void)state;
    static const char *const few[] = {
        "topp:0.7",          "within:1",  "blocktopk:16:2",       "kmeans:5:2",  "lsh:4:2",      "lsh:8:2+sink:1",
        "full/sigmoid@rope", "topk:9+st", "causal full@qknorm:4", "full/doubly", "full/fastmax", "causal last topk:7"};
    for (uint32_t i = 0; i < sizeof few / sizeof *few; i++) {
        const sample_case c = {few[i], 211, 16, 8, 1, 1, 2, SF_GELU, SF_PRE_NORM, i % 2 * 0.1, 700 + i};
        describe_case(&c);
        check_case(&c);
    }
}

/* Rows of 64 channels, which some kernels hold in registers; blocks of whole vectors, with dropout and without; enough
 * positions for the features of fastmax. */
static void wide_rows_equal_the_reference(void **state) {
    (void)state;
    static const char *const few[] = {"blocktopk:32:2",  "blocktopk:16:3",       "blocktopk:16:3@rope",
                                      "blocktopk:48:1",  "kmeans:3:2",           "lsh:4:2",
                                      "topp:0.5+sink:1", "causal blocktopk:16:2"};
    for (uint32_t i = 0; i < 2 * sizeof few / sizeof *few; i++) {
        const sample_case c = {few[i / 2], 109, 64, 5, 1, 1, 1, SF_GELU, SF_PRE_NORM, i % 2 * 0.1, 800 + i};
        describe_case(&c);
        check_steps(&c, 2);
    }
    const sample_case linear = {"full/fastmax", 541, 64, 5, 1, 1, 1, SF_GELU, SF_PRE_NORM, 0, 900};
    describe_case(&linear);
    check_case(&linear);
}

/* Buffers may have room for what is announced, and no more: global tokens keep all keys. */
static void no_query_keeps_more_than_announced(void **state) {
    (void)state;
    enum { T = 23 };
    static const char *const few[] = {"topk:4+global:2",   "banded:3+global:1",   "topk:3+global:1+sink:2",
                                      "random:3+global:2", "within:0.5+global:3", "topk:5",
                                      "block:4+random:2"};
    for (size_t c = 0; c < sizeof few / sizeof *few; c++) {
        sf_attention attention;
        sf_draws draws = sf_draws_at((sf_index){.seed = (uint32_t)c, .stream = 81});
        double scores[T];
        uint32_t kept[2 * T];
        size_t largest = 0;
        printf("  %s\n", few[c]);
        assert_int_equal(sf_attention_parse(&attention, few[c]), SF_OK);
        for (size_t i = 0; i < T; i++) {
            for (size_t j = 0; j < T; j++) scores[j] = sf_draw_normal(&draws);
            const size_t count = sf_attention_keep(kept, &attention, i, T, scores, &draws);
            assert_true(count >= 1 && count <= sf_attention_most_kept_by(&attention, i, T));
            largest = count > largest ? count : largest;
        }
        assert_true(largest <= sf_attention_most_kept(&attention, T));
        if (attention.globals > 0) assert_int_equal(largest, T);
    }
}

typedef struct grammar { /* a random spelling */
    sf_draws draws;
    char text[SF_SPELLING_SIZE];
} grammar;

static const char *one_of(grammar *g, const char *const *choices, uint32_t count) {
    return choices[sf_draw_below(&g->draws, count)];
}
#define ONE_OF(g, ...)                                                                                                 \
    one_of(g, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void append(grammar *g, const char *text) {
    assert_true(strlen(g->text) + strlen(text) < sizeof g->text);
    strcat(g->text, text);
}

/* "narrow ", "wide ", "causal ", "last " and so on are words of the sample model. */
static void draw_spelling(grammar *g) {
    const bool causal = sf_draw_below(&g->draws, 3) == 0;
    g->text[0] = '\0';
    if (sf_draw_below(&g->draws, 4) == 0) append(g, ONE_OF(g, "narrow ", "wide "));
    if (causal) append(g, "causal ");
    if (sf_draw_below(&g->draws, 3) == 0)
        append(g, causal ? ONE_OF(g, "last ", "each ") : ONE_OF(g, "last ", "cls ", "each "));
    append(g, causal ? ONE_OF(g, "full", "banded:3", "block:4", "topk:3", "bottomk:2", "random:3", "topp:0.6",
                              "within:0.8", "blocktopk:3:2", "blocktopk:2:3", "lsh:4:2", "lsh:6:1")
                     : ONE_OF(g, "full", "banded:4", "block:3", "topk:4", "bottomk:3", "random:2", "topp:0.3",
                              "topp:0.9", "within:0.4", "within:2", "blocktopk:3:2", "blocktopk:4:1", "kmeans:3:2",
                              "kmeans:5:0", "lsh:2:1", "lsh:4:3"));
    const bool matrix = !causal && sf_draw_below(&g->draws, 8) == 0;
    const char *weighting = matrix ? ONE_OF(g, "/doubly", "/doubly:2")
                                   : ONE_OF(g, "", "", "", "/softmax1", "/sigmoid", "/softplus", "/softplus:2.5",
                                            "/sparsemax", "/entmax15", "/entmax:1.25", "/entmax:1.7", "/fastmax");
    if (!causal && sf_draw_below(&g->draws, 5) == 0) append(g, ONE_OF(g, "+global:1", "+global:2"));
    if (sf_draw_below(&g->draws, 5) == 0) append(g, ONE_OF(g, "+random:1", "+random:3"));
    if (sf_draw_below(&g->draws, 5) == 0) append(g, ONE_OF(g, "+sink:1", "+sink:2"));
    if (*weighting == '\0' && sf_draw_below(&g->draws, 4) == 0) append(g, "+st");
    if (sf_draw_below(&g->draws, 5) == 0) append(g, ONE_OF(g, "+window:2", "+window:3"));
    append(g, weighting);
    if (sf_draw_below(&g->draws, 4) == 0) append(g, "@rope");
    if (sf_draw_below(&g->draws, 5) == 0) append(g, ONE_OF(g, "@qknorm:1", "@qknorm:3.5"));
    if (sf_draw_below(&g->draws, 5) == 0) append(g, "@alibi");
    if (sf_draw_below(&g->draws, 5) == 0) append(g, ONE_OF(g, "@softcap:1", "@softcap:4"));
    if (sf_draw_below(&g->draws, 5) == 0) append(g, ONE_OF(g, "@logn", "@logn:0.7"));
}

static void check_round_trip(const char *text) {
    sf_attention attention, again;
    char spelling[SF_SPELLING_SIZE];
    static const char *const words[] = {"narrow ", "wide ", "causal ", "last ", "cls ", "each "};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) sample_word(&text, words[i]);
    assert_int_equal(sf_attention_parse(&attention, text), SF_OK);
    sf_attention_spell(spelling, &attention);
    assert_string_equal(spelling, text);
    assert_int_equal(sf_attention_parse(&again, spelling), SF_OK);
    assert_memory_equal(&again, &attention, sizeof again);
}

/* SEMFOCUS_FUZZ is the number of spellings; the seed of each is printed where it fails. */
static void random_spellings_equal_the_reference(void **state) {
    (void)state;
    const char *asked = getenv("SEMFOCUS_FUZZ");
    const uint32_t rounds = asked != NULL ? (uint32_t)strtoul(asked, NULL, 10) : 2000;
    for (uint32_t round = 0; round < rounds; round++) {
        grammar g = {.draws = sf_draws_at((sf_index){.seed = round, .stream = 78})};
        draw_spelling(&g);
        check_round_trip(g.text);
        const sample_case c = {g.text,
                               1 + sf_draw_below(&g.draws, 24),
                               6 + sf_draw_below(&g.draws, 15), /* narrower norms are ill-conditioned */
                               1 + sf_draw_below(&g.draws, 9),
                               1 + sf_draw_below(&g.draws, 3),
                               1 + sf_draw_below(&g.draws, 2),
                               1 + sf_draw_below(&g.draws, 3),
                               SF_GELU,
                               sf_draw_below(&g.draws, 2) ? SF_POST_NORM : SF_PRE_NORM,
                               sf_draw_below(&g.draws, 2) ? 0.25 : 0,
                               round};
        describe_case(&c);
        check_steps(&c, 2);
    }
}

/* The logits that the readout `last` gives at a position, with other tokens after it. */
static void logits_at(float *logits, const sample *s, size_t position, int32_t later) {
    const sf_shape *shape = &s->model.shape;
    sf_cpu_plan *plan;
    sf_cpu_team *team;
    float *params;
    int32_t *tokens;
    sf_evaluation unused;
    uint32_t last[8];
    assert_true(s->B <= 8);
    for (size_t n = 0; n < s->B; n++) last[n] = (uint32_t)position;
    assert_int_equal(SF_NEW(&params, s->model.size), SF_OK);
    assert_int_equal(SF_NEW(&tokens, s->B * shape->T), SF_OK);
    for (size_t i = 0; i < s->model.size; i++) params[i] = (float)s->params[i];
    for (size_t i = 0; i < s->B * shape->T; i++) tokens[i] = i % shape->T > position ? later : s->tokens[i];
    assert_int_equal(sf_cpu_plan_create(&plan, &s->model, SF_F32), SF_OK);
    assert_int_equal(sf_cpu_team_create(&team, &plan, 1, 1, s->B), SF_OK);
    const sf_batch batch = {.tokens = tokens, .labels = s->labels, .B = s->B, .last = last};
    sf_cpu_evaluate(team, &unused, logits, plan, params, &batch, &s->moment);
    sf_cpu_team_destroy(team);
    sf_cpu_plan_destroy(plan);
    sf_release(params);
    sf_release(tokens);
}

static void causal_models_do_not_see_later_tokens(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 150; round++) {
        grammar g = {.draws = sf_draws_at((sf_index){.seed = round, .stream = 79})};
        do draw_spelling(&g);
        while (strncmp(g.text, "causal last ", 12) != 0);
        const size_t T = 2 + sf_draw_below(&g.draws, 20);
        const sample_case c = {g.text, T, 9, 7, 2, 2, 2, SF_GELU, SF_PRE_NORM, 0, round};
        describe_case(&c);
        sample s;
        sample_open(&s, &c);
        const size_t position = sf_draw_below(&g.draws, (uint32_t)T - 1);
        float one[6], other[6];
        logits_at(one, &s, position, 0);
        logits_at(other, &s, position, 3);
        assert_memory_equal(one, other, sizeof one);
        sample_close(&s);
    }
}

/* Around the edges of tiles of 96 queries and 128 keys; beyond 640 positions the backward pass scores again. */
static void causal_tiles_equal_the_reference(void **state) {
    (void)state;
    static const size_t lengths[] = {95, 96, 97, 128, 129, 193, 257, 700};
    for (uint32_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const sample_case c = {"causal full", lengths[i], 16, 8, 1, 1, 2, SF_GELU, SF_PRE_NORM, i % 2 * 0.1, 800 + i};
        describe_case(&c);
        check_case(&c);
    }
}

static void causal_tiles_do_not_see_later_tokens(void **state) {
    (void)state;
    static const size_t positions[] = {0, 94, 95, 96, 127, 128, 200, 298};
    const sample_case c = {"causal last full", 300, 9, 7, 2, 2, 2, SF_GELU, SF_PRE_NORM, 0, 6};
    sample s;
    sample_open(&s, &c);
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        float one[6], other[6];
        logits_at(one, &s, positions[i], 0);
        logits_at(other, &s, positions[i], 3);
        assert_memory_equal(one, other, sizeof one);
    }
    sample_close(&s);
}

/* At its limit a mechanism is full attention, and entmax near 1 is close to softmax. */
static void limits_equal_full_attention(void **state) {
    (void)state;
    static const struct {
        const char *text, *like;
        double within;
    } cases[] = {{"within:1e30", "full", 1e-6},
                 {"topp:1", "full", 1e-6},
                 {"blocktopk:4:5", "full", 1e-6},
                 {"kmeans:1:3", "full", 1e-6},
                 {"topk:2+window:17", "full", 1e-6},
                 {"full+st", "full", 1e-6},
                 {"full/entmax:1.05", "full", 0.05},
                 {"causal within:1e30", "causal full", 1e-6},
                 {"causal blocktopk:4:5", "causal full", 1e-6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sample s, like;
        outcome ours, theirs;
        sample_open(&s, &(sample_case){cases[i].text, 17, 8, 6, 1, 2, 2, SF_GELU, SF_PRE_NORM, 0, 5});
        sample_open(&like, &(sample_case){cases[i].like, 17, 8, 6, 1, 2, 2, SF_GELU, SF_PRE_NORM, 0, 5});
        run_cpu(&ours, &s, 1);
        run_cpu(&theirs, &like, 1);
        printf("  %s like %s\n", cases[i].text, cases[i].like);
        for (size_t n = 0; n < 6; n++)
            assert_true(fabs(ours.logits[n] - theirs.logits[n]) <= cases[i].within * (1 + fabs(theirs.logits[n])));
        outcome_close(&ours);
        outcome_close(&theirs);
        sample_close(&s);
        sample_close(&like);
    }
}

/* Queries that share their list of keys are computed together. An extra that adds the query's own key, which lsh keeps
 * anyway, prevents that: then each is computed alone. */
static void queries_together_equal_queries_alone(void **state) {
    (void)state;
    static const char *const both[][2] = {{"lsh:4:2", "lsh:4:2+window:1"},
                                          {"lsh:2:1", "lsh:2:1+window:1"},
                                          {"lsh:16:3/sigmoid", "lsh:16:3+window:1/sigmoid"}};
    static const size_t widths[] = {64, 20};
    for (size_t i = 0; i < 2 * sizeof both / sizeof *both; i++) {
        sample together, alone;
        outcome ours, theirs;
        const size_t C = widths[i % 2];
        sample_open(&together, &(sample_case){both[i / 2][0], 301, C, 8, 1, 1, 2, SF_GELU, SF_PRE_NORM, 0.1, 7});
        sample_open(&alone, &(sample_case){both[i / 2][1], 301, C, 8, 1, 1, 2, SF_GELU, SF_PRE_NORM, 0.1, 7});
        run_cpu(&ours, &together, 1);
        run_cpu(&theirs, &alone, 1);
        printf("  %s like %s, width %zu\n", both[i / 2][0], both[i / 2][1], C);
        assert_memory_equal(ours.logits, theirs.logits, sample_logits(&together) * sizeof *ours.logits);
        assert_int_equal(together.model.size, alone.model.size);
        assert_memory_equal(ours.gradient, theirs.gradient, together.model.size * sizeof *ours.gradient);
        outcome_close(&ours);
        outcome_close(&theirs);
        sample_close(&together);
        sample_close(&alone);
    }
}

/* The last normalization of doubly is over the keys of a query. */
static void rows_of_doubly_sum_to_1(void **state) {
    (void)state;
    enum { T = 11 };
    for (uint32_t round = 0; round < 60; round++) {
        sf_draws draws = sf_draws_at((sf_index){.seed = round, .stream = 82});
        sf_attention attention;
        size_t offsets[T + 1] = {0};
        uint32_t keys[T * T];
        double scores[T * T], weights[T * T], scratch[1024];
        assert_int_equal(sf_attention_parse(&attention, round % 2 ? "full/doubly" : "full/doubly:3"), SF_OK);
        for (uint32_t i = 0; i < T; i++) { /* random kept sets with their own keys */
            size_t count = offsets[i];
            for (uint32_t j = 0; j < T; j++)
                if (i == j || sf_draw_below(&draws, 3) > 0) keys[count++] = j;
            offsets[i + 1] = count;
        }
        for (size_t n = 0; n < offsets[T]; n++) scores[n] = 4 * sf_draw_normal(&draws);
        assert_true(sf_attention_matrix_scratch(&attention, T) <= sizeof scratch / sizeof *scratch);
        sf_weighing_matrix rows = {.T = T, .offsets = offsets, .keys = keys, .scratch = scratch};
        sf_attention_weigh_matrix(weights, &attention, scores, &rows);
        for (size_t i = 0; i < T; i++) {
            double total = 0;
            for (size_t n = offsets[i]; n < offsets[i + 1]; n++) total += weights[n];
            assert_true(fabs(total - 1) < 1e-12);
        }
    }
}

int main(void) {
    if (!has_instruction_set(SF_F32)) return SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_equals_the_reference),      cmocka_unit_test(long_sequences_equal_the_reference),
        cmocka_unit_test(random_spellings_equal_the_reference), cmocka_unit_test(causal_models_do_not_see_later_tokens),
        cmocka_unit_test(causal_tiles_equal_the_reference),     cmocka_unit_test(causal_tiles_do_not_see_later_tokens),
        cmocka_unit_test(limits_equal_full_attention),          cmocka_unit_test(wide_rows_equal_the_reference),
        cmocka_unit_test(no_query_keeps_more_than_announced),   cmocka_unit_test(rows_of_doubly_sum_to_1),
        cmocka_unit_test(queries_together_equal_queries_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
