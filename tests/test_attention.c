/* Attention mechanisms: spelling, every selector against a definition written anew, softmax against its formula. */
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

#include "attention/attention.h"

enum { SEED = 20250614, LONGEST = 64 };

static sf_attention parsed(const char *text) {
    sf_attention attention;
    if (sf_attention_parse(&attention, text) != SF_OK) fail_msg("%s: %s", text, sf_message());
    return attention;
}

static sf_draws draws_of(uint32_t step, size_t query) {
    return sf_query_draws((sf_index){.seed = SEED, .stream = sf_stream(SF_RANDOM_KEYS, 0, 0), .step = step}, query);
}

static void spellings_round_trip(void **state) {
    (void)state;
    static const char *const spellings[][2] = {
        {"full", "full"},
        {"full/softmax", "full"},
        {"banded:5", "banded:5"},
        {"banded:1+global:1024", "banded:1+global:1024"},
        {"block:65536+global:3/softmax", "block:65536+global:3"},
        {"topk:9/softmax", "topk:9"},
        {"bottomk:5", "bottomk:5"},
        {"random:12345", "random:12345"},
        {"topk:5+global:1", "topk:5+global:1"},
        {"topp:0.90", "topp:0.9"},
        {"topp:1", "topp:1"},
        {"within:1e30", "within:1e30"},
        {"within:0.5000", "within:0.5"},
        {"blocktopk:64:4", "blocktopk:64:4"},
        {"kmeans:8:3", "kmeans:8:3"},
        {"kmeans:1e1:2", "kmeans:10:2"},
        {"within:2000", "within:2000"},
        {"lsh:65536:10", "lsh:65536:10"},
        {"full@softcap:30", "full@softcap:30"},
        {"lsh:16:2", "lsh:16:2"},
        {"full@logn:0.43", "full@logn"},
        {"full@logn:0.5", "full@logn:0.5"},
        {"full@softcap:5@rope", "full@rope@softcap:5"},
        {"full@qknorm:4@alibi@rope", "full@rope@qknorm:4@alibi"},
        {"full@softcap:2@alibi", "full@softcap:2@alibi"},
        {"topk:5+window:3+st+sink:1+random:2+global:1", "topk:5+global:1+random:2+sink:1+st+window:3"}};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        char text[SF_SPELLING_SIZE];
        const sf_attention attention = parsed(spellings[i][0]);
        sf_attention_spell(text, &attention);
        assert_string_equal(text, spellings[i][1]);
        assert_ptr_equal(attention.weighting, &sf_weighting_softmax);
        const sf_attention again = parsed(text);
        assert_ptr_equal(again.selector, attention.selector);
        assert_int_equal(again.k, attention.k);
        assert_int_equal(again.globals, attention.globals);
        assert_memory_equal(&again, &attention, sizeof again);
    }
    const sf_attention attention = parsed("block:7+global:2");
    assert_ptr_equal(attention.selector, &sf_selector_block);
    assert_int_equal(attention.k, 7);
    assert_int_equal(attention.globals, 2);
    assert_int_equal(parsed("full").k, 0);
}

static void weightings_have_one_name(void **state) {
    (void)state;
    static const char *const spellings[][2] = {{"full/entmax:2", "full/sparsemax"},
                                               {"full/entmax:1.5", "full/entmax15"},
                                               {"full/entmax:1.30", "full/entmax:1.3"},
                                               {"topk:5/softplus:1", "topk:5/softplus"},
                                               {"topk:5/softplus:3", "topk:5/softplus:3"},
                                               {"full/doubly:1", "full/doubly"},
                                               {"topk:5+sink:1/entmax15@rope", "topk:5+sink:1/entmax15@rope"}};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        char text[SF_SPELLING_SIZE];
        const sf_attention attention = parsed(spellings[i][0]), again = parsed(spellings[i][1]);
        sf_attention_spell(text, &attention);
        assert_string_equal(text, spellings[i][1]);
        assert_memory_equal(&again, &attention, sizeof again);
    }
    static const char *const near[][2] = {{"topk:5+sinc:1", "sink"},       {"full/sigmoyd", "sigmoid"},
                                          {"full@ropes", "rope"},          {"topkk:5", "topk:5"},
                                          {"kmean:4:2", "kmeans:4:2"},     {"toppp:1", "topp:0.9"},
                                          {"entmax15", "'full/entmax15'"}, {"entmax", "'full/entmax:1.25'"},
                                          {"rope", "'full@rope'"},         {"softcap:30", "'full@softcap:5'"},
                                          {"sink:1", "'topk:5+sink:1'"},   {"st", "'topk:5+st'"},
                                          {"window:3", "'banded:5'"}};
    sf_attention attention;
    for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
        assert_int_equal(sf_attention_parse(&attention, near[i][0]), SF_BAD_INPUT);
        if (strstr(sf_message(), near[i][1]) == NULL) fail_msg("%s: %s", near[i][0], sf_message());
    }
}

static void causal_models_refuse_what_leaks(void **state) {
    (void)state;
    static const char *const leaks[] = {"kmeans:4:2", "topk:5/doubly", "topk:5+global:1", "full+global:1"};
    static const char *const others[] = {"full", "topk:5+st", "blocktopk:3:2", "lsh:4:2+sink:1",
                                         "banded:5/sigmoid@rope"};
    for (size_t i = 0; i < sizeof leaks / sizeof *leaks; i++) {
        sf_attention attention = parsed(leaks[i]);
        assert_int_equal(sf_attention_set_causal(&attention, false), SF_OK);
        assert_int_equal(sf_attention_set_causal(&attention, true), SF_BAD_INPUT);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        sf_attention attention = parsed(others[i]);
        assert_int_equal(sf_attention_set_causal(&attention, true), SF_OK);
    }
}

static void refuses_other_spellings(void **state) {
    (void)state;
    static const char *const wrong[] = {"",
                                        "Full",
                                        " full",
                                        "full ",
                                        "full:5",
                                        "full:",
                                        "fully",
                                        "topk",
                                        "topk:",
                                        "topk:0",
                                        "topk:-1",
                                        "topk:x",
                                        "topk:5x",
                                        "topk:5.0",
                                        "topk:1e1",
                                        "topk: 5",
                                        "topk:5:5",
                                        "topk:65537",
                                        "topk:18446744073709551617",
                                        "banded+global:1",
                                        "banded:5+",
                                        "banded:5+global",
                                        "banded:5+global:",
                                        "banded:5+global:0",
                                        "banded:5+global:-1",
                                        "banded:5+global:1025",
                                        "banded:5+globals:1",
                                        "banded:5+local:1",
                                        "banded:5+global:1+global:1",
                                        "topk:5+sink",
                                        "topk:5+sink:0",
                                        "topk:5+sink:1:2",
                                        "topk:5+sink:1+sink:2",
                                        "topk:5+st:1",
                                        "topk:5+st+st",
                                        "topk:5+window:1.5",
                                        "full+st/sigmoid",
                                        "topk:5+st/doubly",
                                        "topp",
                                        "topp:0",
                                        "topp:-0.5",
                                        "topp:1.01",
                                        "topp:nan",
                                        "topp:0.5:1",
                                        "within:-1",
                                        "within:inf",
                                        "within:1e31",
                                        "blocktopk:5",
                                        "blocktopk:0:2",
                                        "blocktopk:2:0",
                                        "blocktopk:2.5:2",
                                        "blocktopk:2:2:2",
                                        "kmeans:99999:1",
                                        "kmeans:0:1",
                                        "kmeans:4",
                                        "lsh:3:1",
                                        "lsh:0:1",
                                        "lsh:4:0",
                                        "lsh:4:65",
                                        "full/entmax",
                                        "full/entmax:1",
                                        "full/entmax:2.1",
                                        "full/softplus:0",
                                        "full/softplus:1:2",
                                        "full/doubly:0",
                                        "full/doubly:1.5",
                                        "full/sigmoid:2",
                                        "full@",
                                        "full@@rope",
                                        "full@rope@rope",
                                        "full@rope:2",
                                        "full@qknorm",
                                        "full@qknorm:0",
                                        "full@softcap",
                                        "full@softcap:-1",
                                        "full@logn:0",
                                        "full@rope/sigmoid",
                                        "full/sigmoid+sink:1",
                                        "topk:5/",
                                        "topk:5/Softmax",
                                        "topk:5/softmaxx",
                                        "topk:5/softmax/softmax"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sf_attention attention;
        if (sf_attention_parse(&attention, wrong[i]) != SF_BAD_INPUT) fail_msg("accepts \"%s\"", wrong[i]);
        assert_non_null(strstr(sf_message(), "attention '"));
    }
    sf_attention attention;
    char endless[2 * SF_SPELLING_SIZE] = "topk:";
    memset(endless + 5, '0', sizeof endless - 7);
    endless[sizeof endless - 2] = '5';
    assert_int_equal(sf_attention_parse(&attention, endless), SF_BAD_INPUT);
    assert_int_equal(sf_attention_parse(&attention, "topl:5"), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), "did you mean 'topk:5'"));
}

static void registry_lists_all(void **state) {
    (void)state;
    sf_part_info info;
    size_t count = 0;
    for (; sf_selector_describe(&info, count); count++) {
        char text[SF_SPELLING_SIZE];
        const size_t numbers =
            (size_t)(strchr(info.spelling, ':') != NULL) + (strrchr(info.spelling, ':') > info.spelling);
        snprintf(text, sizeof text, "%s%s", info.name, numbers == 0 ? "" : numbers == 1 ? ":1" : ":2:2");
        const sf_attention attention = parsed(text);
        assert_string_equal(attention.selector->name, info.name);
        assert_int_equal(attention.selector->version, SF_SELECTOR_VERSION);
        assert_int_equal(attention.selector->size, sizeof(sf_selector));
        assert_true(strlen(info.summary) > 0);
    }
    assert_true(count >= 11);
    assert_true(sf_weighting_describe(&info, 0));
    assert_string_equal(info.name, "softmax");
    int (*const describe[])(sf_part_info *, size_t) = {sf_selector_describe, sf_extra_describe, sf_weighting_describe,
                                                       sf_score_transform_describe};
    for (size_t kind = 0; kind < 4; kind++) /* every built-in part says what it is */
        for (size_t i = 0; describe[kind](&info, i); i++)
            assert_true(strlen(info.summary) > 0 && strlen(info.formula) > 0 && strlen(info.cost) > 0 &&
                        strlen(info.source) > 0);
    assert_false(sf_selector_describe(&info, count));
}

/* The table of the specification, pair by pair. */
static bool band_holds(size_t query, size_t key, size_t n, size_t k) {
    if (k >= n) return true;
    const long wanted = (long)query - ((long)k - 1) / 2;
    long first = 0; /* of all windows inside 0..n-1, the one least shifted */
    for (long start = 0; start + (long)k <= (long)n; start++)
        if (labs(start - wanted) < labs(first - wanted)) first = start;
    return (long)key >= first && (long)key < first + (long)k;
}

static bool block_holds(size_t query, size_t key, size_t n, size_t k) {
    (void)n;
    return query / k == key / k;
}

static bool full_holds(size_t query, size_t key, size_t n, size_t k) {
    (void)query, (void)key, (void)n, (void)k;
    return true;
}

static void check_pattern(const sf_attention *attention, size_t n, bool (*holds)(size_t, size_t, size_t, size_t)) {
    const size_t T = n + attention->globals;
    char text[SF_SPELLING_SIZE];
    sf_attention_spell(text, attention);
    sf_pattern pattern;
    assert_int_equal(sf_pattern_create(&pattern, attention, T), SF_OK);
    size_t total = 0;
    for (size_t i = 0; i < T; i++) {
        uint32_t expected[LONGEST], kept[LONGEST];
        size_t count = 0;
        for (size_t j = 0; j < T; j++)
            if (i >= n || j >= n || holds(i, j, n, attention->k)) expected[count++] = (uint32_t)j;
        const size_t found = sf_attention_keep(kept, attention, i, T, NULL, NULL);
        if (found != count || memcmp(kept, expected, count * sizeof *kept) != 0)
            fail_msg("%s, query %zu of %zu: keeps %zu keys, first %u; expected %zu, first %u", text, i, T, found,
                     kept[0], count, expected[0]);
        assert_int_equal(pattern.offsets[i], total);
        assert_memory_equal(pattern.keys + total, expected, count * sizeof *expected);
        total += count;
    }
    assert_int_equal(pattern.offsets[T], total);
    sf_pattern_destroy(&pattern);
    assert_null(pattern.offsets);
}

static void fixed_patterns(void **state) {
    (void)state;
    static const size_t globals[] = {0, 1, 3};
    const size_t in_use = sf_bytes_in_use();
    for (size_t n = 1; n <= 40; n++) {
        const sf_attention full = parsed("full");
        check_pattern(&full, n, full_holds);
        for (size_t k = 1; k <= n + 3; k++)
            for (size_t g = 0; g < 3; g++) {
                sf_attention attention = {
                    .selector = &sf_selector_banded, .weighting = &sf_weighting_softmax, .k = k, .globals = globals[g]};
                check_pattern(&attention, n, band_holds);
                attention.selector = &sf_selector_block;
                check_pattern(&attention, n, block_holds);
            }
    }
    assert_int_equal(sf_bytes_in_use(), in_use);
}

static void patterns_chosen_during_forward(void **state) {
    (void)state;
    static const sf_selector *const chosen[] = {&sf_selector_topk, &sf_selector_bottomk, &sf_selector_random};
    for (size_t s = 0; s < 3; s++)
        for (size_t k = 1; k <= 9; k++) {
            const sf_attention attention = {.selector = chosen[s], .weighting = &sf_weighting_softmax, .k = k};
            sf_pattern pattern;
            assert_int_equal(sf_pattern_create(&pattern, &attention, 7), SF_OK);
            assert_null(pattern.keys);
            for (size_t i = 0; i <= 7; i++) assert_int_equal(pattern.offsets[i], i * (k < 7 ? k : 7));
            sf_pattern_destroy(&pattern);
        }
}

typedef struct scored {
    double score;
    uint32_t key;
} scored;

static int larger_first(const void *a, const void *b) {
    const scored *left = a, *right = b;
    if (left->score != right->score) return left->score > right->score ? -1 : 1; /* -0 == 0 */
    return left->key < right->key ? -1 : 1;
}

static int smaller_first(const void *a, const void *b) {
    const scored *left = a, *right = b;
    if (left->score != right->score) return left->score < right->score ? -1 : 1;
    return left->key < right->key ? -1 : 1;
}

static void check_extreme(const double *scores, size_t T, size_t k, const sf_selector *selector,
                          int (*compare)(const void *, const void *)) {
    const sf_attention attention = {.selector = selector, .weighting = &sf_weighting_softmax, .k = k};
    scored order[LONGEST];
    bool expected[LONGEST] = {false};
    for (size_t j = 0; j < T; j++) order[j] = (scored){scores[j], (uint32_t)j};
    qsort(order, T, sizeof *order, compare);
    for (size_t j = 0; j < T && j < k; j++) expected[order[j].key] = true;
    uint32_t kept[LONGEST];
    const size_t found = sf_attention_keep(kept, &attention, 0, T, scores, NULL);
    assert_int_equal(found, k < T ? k : T);
    for (size_t j = 0, next = 0; j < T; j++)
        if (expected[j] && (next >= found || kept[next++] != j))
            fail_msg("%s:%zu of %zu scores (seed %d): key %zu is missing", selector->name, k, T, SEED, j);
}

static double random_score(sf_draws *draws, int kind) {
    static const double special[] = {-0.0, 0.0, INFINITY, -INFINITY, 1, -1, 5e-324, -5e-324};
    if (kind == 0) return 20 * sf_draw_unit(draws) - 10;
    if (kind == 1) return (double)sf_draw_below(draws, 3) - 1; /* many ties */
    if (kind == 2) return 0.5;
    return special[sf_draw_below(draws, 8)];
}

static void extreme_scores(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 4000; round++) {
        sf_draws draws = draws_of(round, 0);
        double scores[LONGEST];
        const size_t T = 1 + sf_draw_below(&draws, LONGEST), k = 1 + sf_draw_below(&draws, (uint32_t)T + 3);
        for (size_t j = 0; j < T; j++) scores[j] = random_score(&draws, (int)(round % 4));
        check_extreme(scores, T, k, &sf_selector_topk, larger_first);
        check_extreme(scores, T, k, &sf_selector_bottomk, smaller_first);
    }
}

static void assert_ascending(const uint32_t *kept, size_t found, size_t T, size_t k) {
    assert_int_equal(found, k < T ? k : T);
    for (size_t j = 0; j < found; j++) {
        assert_true(kept[j] < T);
        if (j > 0) assert_true(kept[j] > kept[j - 1]);
    }
}

/* A diverging run meets NaN before this is noticed: the kept set must still be valid. */
static void survives_nan(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 2000; round++) {
        sf_draws draws = draws_of(round, 1);
        double scores[LONGEST];
        const size_t T = 1 + sf_draw_below(&draws, LONGEST), k = 1 + sf_draw_below(&draws, (uint32_t)T + 3);
        for (size_t j = 0; j < T; j++) {
            const uint32_t kind = sf_draw_below(&draws, 1 + round % 4);
            scores[j] = kind == 0 ? NAN : kind == 1 ? -NAN : random_score(&draws, 3);
        }
        uint32_t kept[LONGEST];
        const sf_selector *selectors[] = {&sf_selector_topk, &sf_selector_bottomk};
        for (size_t s = 0; s < 2; s++) {
            const sf_attention attention = {.selector = selectors[s], .weighting = &sf_weighting_softmax, .k = k};
            assert_ascending(kept, sf_attention_keep(kept, &attention, 0, T, scores, NULL), T, k);
        }
    }
}

/* Every subset of k keys is equally likely: 7 over k of them. */
static void random_subsets_are_uniform(void **state) {
    (void)state;
    enum { T = 7, ROUNDS = 40000 };
    for (size_t k = 1; k <= T + 2; k++) {
        const sf_attention attention = {.selector = &sf_selector_random, .weighting = &sf_weighting_softmax, .k = k};
        size_t observed[1 << T] = {0};
        double subsets = 0, statistic = 0;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            sf_draws draws = draws_of(round, round % T);
            uint32_t kept[T], mask = 0;
            const size_t found = sf_attention_keep(kept, &attention, round % T, T, NULL, &draws);
            assert_ascending(kept, found, T, k);
            for (size_t j = 0; j < found; j++) mask |= 1U << kept[j];
            observed[mask]++;
        }
        for (unsigned mask = 0; mask < 1 << T; mask++) subsets += (size_t)__builtin_popcount(mask) == (k < T ? k : T);
        for (unsigned mask = 0; mask < 1 << T; mask++)
            if ((size_t)__builtin_popcount(mask) == (k < T ? k : T))
                statistic += pow((double)observed[mask] - ROUNDS / subsets, 2) / (ROUNDS / subsets);
        if (statistic > subsets - 1 + 6 * sqrt(2 * (subsets - 1)) + 6)
            fail_msg("random:%zu: chi-square %.1f over %.0f subsets (seed %d)", k, statistic, subsets, SEED);
    }
}

static void random_keys_are_a_function_of_their_index(void **state) {
    (void)state;
    const sf_attention attention = parsed("random:8");
    uint32_t first[40][40], again[40];
    for (size_t q = 0; q < 40; q++) {
        sf_draws draws = draws_of(3, q);
        assert_int_equal(draws.next_draw, q << 15);
        assert_int_equal(sf_attention_keep(first[q], &attention, q, 40, NULL, &draws), 8);
        draws = draws_of(3, q);
        sf_attention_keep(again, &attention, q, 40, NULL, &draws);
        assert_memory_equal(first[q], again, 8 * sizeof *again);
        for (size_t other = 0; other < q; other++) /* equal by chance: 1 in 77 million */
            assert_memory_not_equal(first[q], first[other], 8 * sizeof *again);
        draws = draws_of(4, q);
        sf_attention_keep(again, &attention, q, 40, NULL, &draws);
        assert_memory_not_equal(first[q], again, 8 * sizeof *again);
    }
}

static bool keeps_every_key(const sf_attention *attention, size_t T) {
    for (size_t q = 0; q < T; q++) {
        double scores[LONGEST];
        uint32_t kept[LONGEST];
        sf_draws draws = draws_of(0, q);
        for (size_t j = 0; j < T; j++) scores[j] = sf_draw_unit(&draws);
        if (sf_attention_keep(kept, attention, q, T, scores, &draws) != T) return false;
        for (size_t j = 0; j < T; j++)
            if (kept[j] != j) return false;
    }
    return true;
}

static void all_keys_at_the_limit(void **state) {
    (void)state;
    sf_part_info info;
    for (size_t s = 0; sf_selector_describe(&info, s); s++)
        for (size_t T = 1; T <= 20 && strcmp(info.spelling, ":K") == 0; T++)
            for (size_t k = T; k <= T + 3; k++) {
                char text[SF_SPELLING_SIZE];
                snprintf(text, sizeof text, "%s:%zu", info.name, k);
                const sf_attention attention = parsed(text), resolved = sf_attention_resolve(attention, T);
                const bool full = resolved.selector == &sf_selector_full;
                assert_ptr_equal(resolved.weighting, attention.weighting);
                assert_int_equal(resolved.k, full ? 0 : k);
                if (full) assert_true(keeps_every_key(&attention, T));
                if (!full) { /* by position, and the fewer the larger k is */
                    assert_int_equal(attention.selector->selects_by, SF_BY_POSITION);
                    assert_false(attention.selector->keeps_all_from_k);
                    assert_ptr_equal(resolved.selector, attention.selector);
                }
                const sf_attention shorter = sf_attention_resolve(attention, k + 1);
                assert_ptr_equal(shorter.selector, attention.selector);
                assert_int_equal(shorter.k, attention.k);
            }
    const sf_attention with_globals = sf_attention_resolve(parsed("banded:9+global:1"), 9);
    assert_ptr_equal(with_globals.selector, &sf_selector_banded); /* its global token is more than full has */
    assert_int_equal(with_globals.globals, 1);
    static const char *const known[] = {"banded:9",        "block:9",       "topk:9",          "bottomk:9",
                                        "random:9",        "topp:1",        "blocktopk:3:3",   "blocktopk:9:1",
                                        "kmeans:1:4",      "topk:2+sink:9", "topk:2+window:9", "banded:2+random:9",
                                        "topk:2+window:20"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_ptr_equal(sf_attention_resolve(parsed(known[i]), 9).selector, &sf_selector_full);
}

static void lengths(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t at_40, at_599, unpadded;
    } cases[] = {{"full", 40, 599, 40},
                 {"topk:5", 40, 600, 40},
                 {"topk:9", 45, 603, 40},
                 {"bottomk:9", 45, 603, 40},
                 {"random:9", 45, 603, 40},
                 {"banded:5", 40, 600, 40},
                 {"banded:5+global:1", 41, 601, 41},
                 {"block:5+global:3", 43, 603, 43},
                 {"block:9", 45, 603, 40},
                 {"banded:9+global:1", 46, 604, 41},
                 {"banded:9+global:3", 48, 606, 43}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const sf_attention attention = parsed(cases[i].text);
        assert_int_equal(sf_attention_positions(&attention, 40, true), cases[i].at_40);
        assert_int_equal(sf_attention_positions(&attention, 599, true), cases[i].at_599);
        assert_int_equal(sf_attention_positions(&attention, 40, false), cases[i].unpadded);
    }
}

/* w_j = 1 / sum_i exp(s_i - s_j): no maximum to subtract, so another way through the same formula. */
static void softmax_formula(void **state) {
    (void)state;
    static const double spreads[] = {0, 1, 10, 1e3, 1e4};
    for (uint32_t round = 0; round < 500; round++) {
        sf_draws draws = draws_of(round, 2);
        const size_t count = 1 + sf_draw_below(&draws, 20);
        const double shift = (round / 5) % 3 * 2000.0 - 2000.0;
        double scores[20], weights[20], sum = 0;
        for (size_t j = 0; j < count; j++) scores[j] = shift + spreads[round % 5] * (sf_draw_unit(&draws) - 0.5);
        sf_weighting_softmax.weigh(weights, scores, &(sf_weighing){.kept = count});
        for (size_t j = 0; j < count; j++) {
            long double total = 0;
            for (size_t i = 0; i < count; i++) total += expl((long double)scores[i] - scores[j]);
            assert_true(fabs(weights[j] - (double)(1 / total)) <= 1e-14);
            if (1 / total > 1e-300L) assert_true(fabs(weights[j] * (double)total - 1) <= 1e-13);
            sum += weights[j];
        }
        assert_true(fabs(sum - 1) <= 1e-14);
    }
    double weights[3];
    sf_weighting_softmax.weigh(weights, (const double[]){-1e3, 0, 1e3}, &(sf_weighing){.kept = 3});
    assert_true(weights[0] == 0 && weights[1] == 0 && weights[2] == 1);
}

static void softmax_gradient(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 200; round++) {
        sf_draws draws = draws_of(round, 3);
        const size_t count = 1 + sf_draw_below(&draws, 12);
        const double h = 1e-5;
        double scores[12], weights[12], dweights[12], dscores[12], in_place[12];
        for (size_t j = 0; j < count; j++) {
            scores[j] = 6 * sf_draw_unit(&draws) - 3;
            in_place[j] = dweights[j] = 2 * sf_draw_unit(&draws) - 1;
        }
        sf_weighting_softmax.weigh(weights, scores, &(sf_weighing){.kept = count});
        sf_weighting_softmax.weigh_backward(dscores, dweights, weights, scores, &(sf_weighing){.kept = count});
        sf_weighting_softmax.weigh_backward(in_place, in_place, weights, scores, &(sf_weighing){.kept = count});
        for (size_t j = 0; j < count; j++) {
            double moved[12], above[12], below[12], slope = 0;
            memcpy(moved, scores, sizeof moved);
            moved[j] = scores[j] + h;
            sf_weighting_softmax.weigh(above, moved, &(sf_weighing){.kept = count});
            moved[j] = scores[j] - h;
            sf_weighting_softmax.weigh(below, moved, &(sf_weighing){.kept = count});
            for (size_t i = 0; i < count; i++) slope += dweights[i] * (above[i] - below[i]) / (2 * h);
            assert_true(fabs(slope - dscores[j]) < 1e-9);
            assert_true(in_place[j] == dscores[j]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(spellings_round_trip),
                                       cmocka_unit_test(weightings_have_one_name),
                                       cmocka_unit_test(causal_models_refuse_what_leaks),
                                       cmocka_unit_test(refuses_other_spellings),
                                       cmocka_unit_test(registry_lists_all),
                                       cmocka_unit_test(fixed_patterns),
                                       cmocka_unit_test(patterns_chosen_during_forward),
                                       cmocka_unit_test(extreme_scores),
                                       cmocka_unit_test(survives_nan),
                                       cmocka_unit_test(random_subsets_are_uniform),
                                       cmocka_unit_test(random_keys_are_a_function_of_their_index),
                                       cmocka_unit_test(all_keys_at_the_limit),
                                       cmocka_unit_test(lengths),
                                       cmocka_unit_test(softmax_formula),
                                       cmocka_unit_test(softmax_gradient)};
    print_message("seed %d\n", SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
