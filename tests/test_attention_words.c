/* Mechanisms in words: the sentences are English, name every part and every number of the spelling, and fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "attention/attention.h"
#include "attention/registry.h"

static void say(char out[SF_WORDS_SIZE], const char *spelling) {
    sf_attention attention;
    if (sf_attention_parse(&attention, spelling) != SF_OK) fail_msg("%s", sf_message());
    sf_attention_say(out, &attention);
}

static void sentences(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"full", "each query keeps every key, weighted by softmax"},
        {"topk:5+sink:1/entmax15@rope",
         "each query keeps the keys with the 5 largest scores and the first key, weighted by entmax15, between softmax "
         "and sparsemax; queries and keys are rotated by their positions beforehand"},
        {"topk:1", "each query keeps the key with the largest score, weighted by softmax"},
        {"block:5+global:1",
         "each query keeps the keys of its own block of 5 positions and one global token that keeps "
         "all keys and is kept by all queries, weighted by softmax"},
        {"banded:3+global:2+random:1+sink:4",
         "each query keeps the 3 positions nearest to its own, 2 global tokens that keep all keys and are kept by all "
         "queries, one key drawn at random at every step and the first 4 keys, weighted by softmax"},
        {"blocktopk:8:1", "each query keeps its own block of 8 keys, weighted by softmax"},
        {"blocktopk:8:3",
         "each query keeps the 3 blocks of 8 keys that match it best, its own among them, weighted by softmax"},
        {"topk:5+st", "each query keeps the keys with the 5 largest scores, weighted by softmax; gradients flow as if "
                      "every key had been kept"},
        {"within:2.5/softplus:3@softcap:20@logn",
         "each query keeps the keys whose scores are at most 2.5 below its largest, weighted by softplus to the power "
         "3, "
         "divided by the sum; scores are squeezed into (-20, 20); scores are multiplied by 0.43 times the logarithm of "
         "the number of visible keys"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[SF_WORDS_SIZE];
        say(words, cases[i][0]);
        assert_string_equal(words, cases[i][1]);
    }
}

/* ":K:P" becomes ":6:4", and the sentence must have both numbers. Brackets mark what may be left out. */
static void check_part(const char *before, const sf_part_info *part, const char *after) {
    char spelling[SF_SPELLING_SIZE], words[SF_WORDS_SIZE];
    const bool is_topp = strcmp(part->name, "topp") == 0, is_entmax = strcmp(part->name, "entmax") == 0;
    const char *numbers[SF_MOST_ARGUMENTS] = {is_topp ? "0.25" : is_entmax ? "1.25" : "6", "4"};
    size_t count = 0, used = (size_t)snprintf(spelling, sizeof spelling, "%s%s", before, part->name);
    for (const char *at = part->spelling; *at != '\0'; at++)
        if (*at == ':' && count < SF_MOST_ARGUMENTS)
            used += (size_t)snprintf(spelling + used, sizeof spelling - used, ":%s", numbers[count++]);
    snprintf(spelling + used, sizeof spelling - used, "%s", after);
    say(words, spelling);
    if (strpbrk(words, "{}#|") != NULL) fail_msg("%s: %s", spelling, words);
    for (size_t i = 0; i < count; i++)
        if (strstr(words, numbers[i]) == NULL) fail_msg("%s: %s lacks %s", spelling, words, numbers[i]);
    char fallback[64];
    snprintf(fallback, sizeof fallback, " (%s", part->name);
    if (strstr(words, fallback) != NULL) fail_msg("%s has no phrase of its own: %s", spelling, words);
}

static void every_part_and_number(void **state) {
    (void)state;
    sf_part_info part;
    size_t parts = 0;
    for (size_t i = 0; sf_selector_describe(&part, i); i++, parts++) check_part("", &part, "");
    for (size_t i = 0; sf_extra_describe(&part, i); i++, parts++) check_part("topk:9+", &part, "");
    for (size_t i = 0; sf_weighting_describe(&part, i); i++, parts++) check_part("full/", &part, "");
    for (size_t i = 0; sf_score_transform_describe(&part, i); i++, parts++) check_part("full@", &part, "");
    assert_true(parts >= 30);
}

static size_t keep_first(uint32_t *kept, const sf_query *query) {
    (void)query;
    kept[0] = 0;
    return 1;
}

/* A part of a plug-in is described by its summary and its numbers. */
static void parts_without_a_phrase(void **state) {
    (void)state;
    static const sf_selector strided = {SF_SELECTOR,
                                        .name = "strided",
                                        .summary = "every K-th key",
                                        .takes_k = true,
                                        .selects_by = SF_BY_POSITION,
                                        .keep = keep_first};
    char words[SF_WORDS_SIZE];
    assert_int_equal(sf_selector_register(&strided), SF_OK);
    say(words, "strided:7+sink:2");
    assert_string_equal(
        words, "each query keeps every K-th key (strided with K = 7) and the first 2 keys, weighted by softmax");
}

/* The longest spelling that there can be does not end in the middle. */
static void long_ones_fit(void **state) {
    (void)state;
    char words[SF_WORDS_SIZE];
    say(words, "kmeans:4096:9+global:3+random:99+sink:9+window:9/doubly:9@rope@qknorm:9@alibi@softcap:9@logn:9");
    assert_true(strlen(words) + 1 < SF_WORDS_SIZE);
    assert_non_null(strstr(words, "9 times the logarithm of the number of visible keys"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentences),
        cmocka_unit_test(every_part_and_number),
        cmocka_unit_test(long_ones_fit),
        cmocka_unit_test(parts_without_a_phrase),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
