/* Tokenizers of our own: what comes back, which ids, which order; the list of words they are made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "io/tokenizer.h"
#include "io/words.h"

static sf_tokenizer *trained(const char *name, size_t vocab, const char *text) {
    sf_tokenizer *tokenizer;
    const sf_status status = sf_tokenizer_train(&tokenizer, name, vocab, text, strlen(text));
    if (status != SF_OK) fail_msg("%s", sf_message());
    return tokenizer;
}

static sf_ids encoded(const sf_tokenizer *tokenizer, const char *text, size_t size) {
    sf_ids ids = {0};
    assert_int_equal(sf_tokenizer_encode(&ids, tokenizer, text, size), SF_OK);
    return ids;
}

static void check_round_trip(const sf_tokenizer *tokenizer, const char *text, size_t size) {
    sf_ids ids = encoded(tokenizer, text, size);
    sf_bytes back = {0};
    assert_int_equal(sf_tokenizer_decode(&back, tokenizer, ids.at, ids.count), SF_OK);
    assert_int_equal(back.count, size);
    if (size > 0) assert_memory_equal(back.at, text, size);
    for (size_t i = 0; i < ids.count; i++) assert_in_range(ids.at[i], 0, tokenizer->vocab - 1);
    sf_ids_release(&ids);
    sf_bytes_release(&back);
}

/* Any bytes: uniform ones, and mostly valid UTF-8 with damage. */
static void fill(char *text, size_t size, sf_draws *draws) {
    static const char *const parts[] = {"a",        "é",  "日", "🙂", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                                        "\xE2\x82", "\n", ""};
    for (size_t at = 0; at < size;) {
        const uint32_t part = sf_draw_below(draws, 14);
        if (part >= sizeof parts / sizeof *parts) {
            text[at++] = (char)sf_draw_below(draws, 256);
            continue;
        }
        const size_t length = strlen(parts[part]), fits = length < size - at ? length : size - at;
        memcpy(text + at, parts[part], fits);
        at += fits;
    }
}

static void test_any_bytes_come_back(void **state) {
    (void)state;
    enum { LONGEST = 300, TEXTS = 500 };
    char text[LONGEST];
    sf_tokenizer *byte = trained("byte", 0, ""), *empty = trained("char", 0, ""), *some = trained("char", 0, "é日x");
    sf_draws draws = sf_draws_at((sf_index){.seed = 5, .stream = sf_stream(SF_TRAINING_DATA, 0, 0)});
    for (size_t i = 0; i < TEXTS; i++) {
        const size_t size = sf_draw_below(&draws, LONGEST);
        fill(text, size, &draws);
        check_round_trip(byte, text, size);
        check_round_trip(empty, text, size);
        check_round_trip(some, text, size);
    }
    sf_tokenizer_destroy(byte);
    sf_tokenizer_destroy(empty);
    sf_tokenizer_destroy(some);
}

static void check_ids(const sf_tokenizer *tokenizer, const char *text, size_t size, const int32_t *expected,
                      size_t count) {
    sf_ids ids = encoded(tokenizer, text, size);
    assert_int_equal(ids.count, count);
    for (size_t i = 0; i < count; i++) assert_int_equal(ids.at[i], expected[i]);
    sf_ids_release(&ids);
}

static void test_characters(void **state) {
    (void)state;
    sf_tokenizer *all = trained("char", 0, "日é日\xFFz"), *one = trained("char", 257, "日é日");
    assert_int_equal(all->vocab, 258); /* é comes before 日 */
    check_ids(all, "zé日", 6, (const int32_t[]){'z', 256, 257}, 3);
    check_ids(all, "\xC3", 1, (const int32_t[]){0xC3}, 1);
    check_ids(all, "ü\xED\xA0\x80", 5, (const int32_t[]){0xC3, 0xBC, 0xED, 0xA0, 0x80}, 5);
    assert_int_equal(one->vocab, 257); /* the more frequent one */
    check_ids(one, "日é", 5, (const int32_t[]){256, 0xC3, 0xA9}, 3);
    sf_tokenizer_destroy(all);
    sf_tokenizer_destroy(one);
    sf_tokenizer *refused;
    assert_int_equal(sf_tokenizer_train(&refused, "char", 100, "", 0), SF_BAD_INPUT);
    assert_int_equal(sf_tokenizer_train(&refused, "byte", 100, "", 0), SF_BAD_INPUT);
}

static void test_words(void **state) {
    (void)state;
    sf_tokenizer *words = trained("word", 6, "b a, b c\nc a b, zebra");
    /* 3 b, then the comma, a and c, two each, by their bytes; zebra is out */
    assert_int_equal(words->vocab, 6);
    check_ids(words, " b,\tc a dog", 11, (const int32_t[]){2, 3, 5, 4, 0}, 5);
    check_ids(words, " \n", 2, NULL, 0);
    sf_bytes back = {0};
    assert_int_equal(sf_tokenizer_decode(&back, words, (const int32_t[]){2, 3, 4, 1, 5, 0}, 6), SF_OK);
    assert_int_equal(back.count, strlen("b, a\nc <unknown>"));
    assert_memory_equal(back.at, "b, a\nc <unknown>", back.count);
    sf_bytes_release(&back);
    sf_tokenizer_destroy(words);
}

static void test_files(void **state) {
    (void)state;
    static const char *const names[] = {"byte", "char", "word"};
    for (size_t i = 0; i < 3; i++) {
        sf_tokenizer *first = trained(names[i], 0, "über den Wolken, über den"), *second;
        assert_int_equal(sf_tokenizer_parse(&second, first->file.at, first->file.count), SF_OK);
        assert_ptr_equal(second->kind, first->kind);
        assert_int_equal(second->vocab, first->vocab);
        assert_true(second->hash == first->hash);
        sf_ids ids = encoded(first, "den über Wolken", 16);
        check_ids(second, "den über Wolken", 16, ids.at, ids.count);
        sf_ids_release(&ids);
        sf_tokenizer_destroy(first);
        sf_tokenizer_destroy(second);
    }
    static const char *const damaged[] = {"",
                                          "x",
                                          "semfocus tokenizer other\n",
                                          "semfocus tokenizer char\nab\n",
                                          "semfocus tokenizer char\né\né\n",
                                          "semfocus tokenizer word\na"};
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        sf_tokenizer *refused;
        assert_int_not_equal(sf_tokenizer_parse(&refused, damaged[i], strlen(damaged[i])), SF_OK);
        assert_null(refused);
    }
}

static void test_list_of_words(void **state) {
    (void)state;
    enum { COUNT = 5000 };
    sf_words words = {0}, sorted;
    char name[16];
    size_t index;
    assert_false(sf_words_find(&index, &words, "x", 1));
    for (size_t round = 0; round < 2; round++)
        for (size_t i = round; i < COUNT; i++) {
            snprintf(name, sizeof name, "%zu", i * 7919 % COUNT);
            assert_int_equal(sf_words_add(&index, &words, name, strlen(name)), SF_OK);
            assert_int_equal(index, i);
        }
    assert_int_equal(words.count, COUNT);
    assert_int_equal(words.at[0].tally, 1);
    assert_int_equal(words.at[1].tally, 2);
    assert_int_equal(sf_words_sorted(&sorted, &words, SF_MOST_FREQUENT_FIRST, COUNT - 1), SF_OK);
    assert_int_equal(sorted.count, COUNT - 1);
    assert_string_equal(sf_words_text(&sorted, 0), "1"); /* "0" is the one that was added once */
    assert_false(sf_words_find(&index, &sorted, "0", 1));
    sf_words_release(&sorted);
    sf_words_release(&words);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_bytes_come_back),
        cmocka_unit_test(test_characters),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_list_of_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
