/* The foundation: published vectors for generator and hash, the layout of dropout bits, strict text, settings, memory,
 * messages, threads. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/sorted.h"
#include "base/text.h"
#include "base/threads.h"

enum { SEED = 20250614 };

static sf_draws draws_for(uint32_t sample) {
    return sf_draws_at((sf_index){.seed = SEED, .stream = sf_stream(SF_SHUFFLE, 0, 0), .sample = sample});
}

/* Random123's known answers for philox4x32-10 (its kat_vectors file): counter, key, output. */
static void philox_known_answers(void **state) {
    (void)state;
    static const uint32_t vectors[][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {~0U, ~0U, ~0U, ~0U, ~0U, ~0U, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420,
         0x24126ea1}};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const uint32_t *v = vectors[i];
        const sf_index index = {.sample = v[1], .step = v[2], .epoch = v[3], .seed = v[4], .stream = v[5]};
        uint32_t words[4];
        sf_philox(words, &index, v[0]);
        for (size_t w = 0; w < 4; w++) assert_int_equal(words[w], v[6 + w]);
    }
}

static void words_come_in_order(void **state) {
    (void)state;
    sf_draws draws = draws_for(7), units = draws_for(7);
    for (uint32_t draw = 0; draw < 5; draw++) {
        uint32_t words[4];
        sf_philox(words, &draws.index, draw);
        for (size_t w = 0; w < 4; w++) {
            assert_int_equal(sf_draw_word(&draws), words[w]);
            assert_true(sf_draw_unit(&units) == ((double)words[w] + 0.5) / 4294967296.0);
        }
    }
    assert_int_equal(sf_stream(SF_DROP_WEIGHTS, 0, 0), 6);
    assert_int_equal(sf_stream(SF_DROP_WEIGHTS, 3, 5), 6 + (3 << 8) + (5 << 20));
}

/* Pearson's statistic; beyond dof + 6 sqrt(2 dof) + 6 a true hypothesis is about as likely as one in a million. */
static void assert_uniform(const char *what, const size_t *observed, size_t classes) {
    double statistic = 0, total = 0;
    for (size_t c = 0; c < classes; c++) total += (double)observed[c];
    const double expected = total / (double)classes, freedom = (double)classes - 1;
    for (size_t c = 0; c < classes; c++) statistic += pow((double)observed[c] - expected, 2) / expected;
    if (statistic > freedom + 6 * sqrt(2 * freedom) + 6)
        fail_msg("%s: chi-square %.1f with %.0f degrees of freedom (seed %d)", what, statistic, freedom, SEED);
}

static void bounded_draws_are_uniform(void **state) {
    (void)state;
    /* Bins: residues for 3 2^30, where multiplication without refusals takes one residue in three twice as often. */
    static const uint32_t bounds[] = {1, 2, 3, 7, 1000, 3U << 30, 0x80000001U, 0xffffffffU};
    for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
        const uint32_t bound = bounds[b];
        const size_t bins = bound < 1000 ? bound : 1000;
        size_t low[1000] = {0}, high[1000] = {0}, thirds[3] = {0};
        sf_draws draws = draws_for((uint32_t)b);
        for (size_t i = 0; i < 100000; i++) {
            const uint32_t value = sf_draw_below(&draws, bound);
            assert_true(value < bound);
            low[value % bins]++;
            high[(uint64_t)value * bins / bound]++;
            thirds[value % 3]++;
        }
        assert_uniform("residues", low, bins);
        assert_uniform("ranges", high, bins);
        if (bound % 3 == 0) assert_uniform("thirds", thirds, 3);
    }
}

static void dropout_rates(void **state) {
    (void)state;
    static const struct {
        double rate;
        uint32_t threshold;
    } cases[] = {{0, 0}, {0.00001, 1}, {0.01, 655}, {0.1, 6554}, {0.25, 16384}, {0.5, 32768}, {0.99, 64881}};
    const sf_index index = {.seed = SEED, .stream = sf_stream(SF_DROP_HIDDEN, 1, 0), .epoch = 2, .step = 3};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const sf_dropout dropout = sf_dropout_of(cases[i].rate);
        assert_int_equal(dropout.threshold, cases[i].threshold);
        assert_true(dropout.scale == 65536.0 / (65536.0 - cases[i].threshold));
        const double rows = 200, columns = 500, p = cases[i].threshold / 65536.0;
        double dropped = 0;
        for (size_t r = 0; r < (size_t)rows; r++)
            for (size_t c = 0; c < (size_t)columns; c++)
                dropped += sf_dropout_lane(&index, r, c, (size_t)columns) < dropout.threshold;
        if (fabs(dropped - rows * columns * p) > 5 * sqrt(rows * columns * p * (1 - p)))
            fail_msg("rate %g drops %g of %g elements (seed %d)", cases[i].rate, dropped, rows * columns, SEED);
    }
}

/* The layout again, derived from the bits: 64 columns share eight draws, lane by lane. */
static void dropout_layout(void **state) {
    (void)state;
    static const size_t widths[] = {1, 7, 40, 63, 64, 65, 128, 131};
    const sf_index index = {.seed = SEED, .stream = sf_stream(SF_DROP_WEIGHTS, 4, 1), .epoch = 9, .sample = 5};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const size_t columns = widths[i];
        uint32_t first_draw = 0;
        for (size_t row = 0; row < 4; row++)
            for (size_t chunk = 0; chunk < columns; chunk += 64, first_draw += 8)
                for (uint32_t draw = 0; draw < 8; draw++) {
                    uint32_t words[4];
                    sf_philox(words, &index, first_draw + draw);
                    for (size_t lane = 0; lane < 8; lane++) {
                        const size_t column = chunk + 8 * lane + draw;
                        if (column >= columns) continue;
                        const uint32_t word = words[lane / 2];
                        const uint32_t bits = lane % 2 == 0 ? word % 65536 : word / 65536;
                        assert_int_equal(sf_dropout_lane(&index, row, column, columns), bits);
                    }
                }
        assert_int_equal(first_draw, 4 * sf_dropout_draws_per_row(columns));
    }
}

static void hash_known_answers(void **state) { /* from the FNV authors' test suite */
    (void)state;
    assert_true(sf_hash(SF_HASH_START, "", 0) == UINT64_C(0xcbf29ce484222325));
    assert_true(sf_hash(SF_HASH_START, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(sf_hash(SF_HASH_START, "foobar", 6) == UINT64_C(0x85944171f73967e8));
}

static void reads_numbers_strictly(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool integer;
        double value;
    } numbers[] = {{"0", true, 0},
                   {"-17", true, -17},
                   {"007", true, 7},
                   {"9007199254740992", true, 9007199254740992.0},
                   {"-9223372036854775808", true, -0x1p63},
                   {"-9223372036854775809", false, -0x1p63}, /* one too small for an integer */
                   {"9223372036854775808", false, 0x1p63},
                   {"1.5", false, 1.5},
                   {".5", false, 0.5},
                   {"-.25", false, -0.25},
                   {"5.", false, 5},
                   {"1e3", false, 1000},
                   {"2.5E-1", false, 0.25},
                   {"1e-400", false, 0}};
    int64_t integer;
    double real;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (sf_text_integer(&integer, numbers[i].text) != numbers[i].integer) fail_msg("\"%s\"", numbers[i].text);
        if (numbers[i].integer) assert_true((double)integer == numbers[i].value);
        if (!sf_text_real(&real, numbers[i].text) || real != numbers[i].value) fail_msg("\"%s\"", numbers[i].text);
    }
    static const char *const others[] = {"",          "+5",  "-",   "+",     ".",    "-.",     "--1",   "+-1",  " 1",
                                         "1 ",        "\t1", "1\n", "1 2",   "0x10", "-0X1p3", "nan",   "-nan", "inf",
                                         "-Infinity", "e5",  "1e",  "12abc", "1,5",  "1e400",  "-1e400"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        integer = 42, real = 42;
        if (sf_text_integer(&integer, others[i]) || sf_text_real(&real, others[i])) fail_msg("\"%s\"", others[i]);
        assert_true(integer == 42 && real == 42);
    }
}

static const char *name_at(const void *names, size_t i) {
    return ((const char *const *)names)[i];
}

static void nearest_names(void **state) {
    (void)state;
    char endless[200];
    memset(endless, 'a', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    const char *const names[] = {"attention", "grape", "grapes", endless, "lr", NULL};
    static const char *const cases[][2] = {{"attention", "attention"},
                                           {"atention", "attention"},
                                           {"attentoin", "attention"},
                                           {"attentionn", "attention"},
                                           {"xttention", "attention"},
                                           {"ttention", "attention"},
                                           {"grap", "grape"},
                                           {"grapse", "grape"},
                                           {"grapess", "grapes"},
                                           {"rl", NULL},
                                           {"l", "lr"},
                                           {"lr2", "lr"},
                                           {"", NULL},
                                           {"zzzzzzzzz", NULL},
                                           {"attxxxxxn", NULL},
                                           {"attexxxon", "attention"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *nearest = sf_text_nearest(cases[i][0], name_at, names);
        if ((nearest == NULL) != (cases[i][1] == NULL) || (nearest != NULL && strcmp(nearest, cases[i][1]) != 0))
            fail_msg("\"%s\" is near \"%s\"", cases[i][0], nearest == NULL ? "(none)" : nearest);
    }
    assert_null(sf_text_nearest(endless, name_at, names));
    assert_null(sf_text_nearest("x", name_at, names + 5));
}

static void quotes_fit_a_line(void **state) {
    (void)state;
    char quoted[SF_QUOTE_SIZE], text[300];
    assert_string_equal(sf_text_quote(quoted, "a\nb\x1b[0m\x7f\tc"), "a?b?[0m??c");
    for (size_t length = 0; length < sizeof text; length++) {
        memset(text, 'x', length);
        text[length] = '\0';
        const size_t shown = strlen(sf_text_quote(quoted, text));
        assert_true(shown < SF_QUOTE_SIZE);
        if (length <= 60)
            assert_string_equal(quoted, text);
        else
            assert_string_equal(quoted + shown - 3, "...");
    }
}

static void blocks_are_zeroed_and_aligned(void **state) {
    (void)state;
    const size_t in_use = sf_bytes_in_use(), count = sf_allocation_count();
    for (size_t size = 0; size < 300; size++)
        for (int again = 0; again < 2; again++) {
            unsigned char *block;
            assert_int_equal(SF_NEW(&block, size), SF_OK);
            assert_non_null(block);
            assert_int_equal((uintptr_t)block % 64, 0);
            for (size_t i = 0; i < size; i++) assert_int_equal(block[i], 0);
            memset(block, 0xff, size);
            assert_true(sf_bytes_in_use() >= in_use + size);
            sf_release(block);
        }
    assert_int_equal(sf_allocation_count(), count + 600);
    assert_int_equal(sf_bytes_in_use(), in_use);
    sf_release(NULL);
    assert_int_equal(sf_bytes_in_use(), in_use);
}

static void absurd_sizes_are_refused(void **state) {
    (void)state;
    const size_t machine = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    const size_t sizes[][2] = {{SIZE_MAX, 1},      {1, SIZE_MAX}, {SIZE_MAX / 2, 4}, {(size_t)1 << 32, (size_t)1 << 32},
                               {SIZE_MAX - 63, 1}, {machine, 1},  {machine / 8, 8},  {machine - 256, 1},
                               {SIZE_MAX / 2, 1}};
    void *held;
    assert_int_equal(sf_allocate(&held, 1000, 1), SF_OK); /* so that machine - 256 is too much in total only */
    const size_t in_use = sf_bytes_in_use(), count = sf_allocation_count();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *block = &held;
        assert_int_equal(sf_allocate(&block, sizes[i][0], sizes[i][1]), SF_NO_MEMORY);
        assert_null(block);
        assert_non_null(strstr(sf_message(), "GiB"));
    }
    assert_int_equal(sf_bytes_in_use(), in_use);
    assert_int_equal(sf_allocation_count(), count);
    sf_release(held);
}

static void arenas_are_laid_out_twice(void **state) {
    (void)state;
    static const size_t sizes[][2] = {{3, 4}, {0, 8}, {5, 8}, {1, 1}, {64, 1}, {65, 1}, {9, 100}};
    enum { PIECES = sizeof sizes / sizeof *sizes };
    const size_t in_use = sf_bytes_in_use(), count = sf_allocation_count();
    sf_arena arena = {0};
    unsigned char *pieces[PIECES + 1];
    for (size_t i = 0; i < PIECES; i++) assert_null(sf_arena_take(&arena, sizes[i][0], sizes[i][1]));
    const size_t needed = arena.used;
    assert_int_equal(sf_arena_open(&arena), SF_OK);
    assert_int_equal(sf_allocation_count(), count + 1);
    assert_int_equal(arena.capacity, needed);
    for (size_t i = 0; i < PIECES; i++) pieces[i] = sf_arena_take(&arena, sizes[i][0], sizes[i][1]);
    pieces[PIECES] = arena.base + arena.capacity;
    for (size_t i = 0; i < PIECES; i++) {
        const size_t size = sizes[i][0] * sizes[i][1];
        assert_int_equal((uintptr_t)pieces[i] % 64, 0);
        assert_true(pieces[i] + size <= pieces[i + 1]);
        for (size_t j = 0; j < size; j++) assert_int_equal(pieces[i][j], 0);
    }
    assert_int_equal(arena.used, needed);
    sf_arena_close(&arena);
    assert_null(arena.base);
    assert_int_equal(arena.used, 0);
    assert_int_equal(sf_bytes_in_use(), in_use);

    sf_arena_take(&arena, SIZE_MAX / 2, 4); /* the product overflows */
    assert_int_equal(sf_arena_open(&arena), SF_NO_MEMORY);
    sf_arena_close(&arena);
    for (int i = 0; i < 4; i++) sf_arena_take(&arena, SIZE_MAX / 4, 1); /* the sum overflows */
    assert_int_equal(sf_arena_open(&arena), SF_NO_MEMORY);
    assert_null(arena.base);
    sf_arena_close(&arena);
}

static void *fail_elsewhere(void *message) {
    sf_fail(SF_IO_ERROR, "on another thread");
    strcpy(message, sf_message());
    return NULL;
}

static void messages(void **state) {
    (void)state;
    assert_int_equal(sf_fail(SF_UNSUPPORTED, "%s is %d", "width", 7), SF_UNSUPPORTED);
    assert_string_equal(sf_message(), "width is 7");
    assert_int_equal(sf_fail_in(SF_OK, "not %s", "this"), SF_OK);
    assert_string_equal(sf_message(), "width is 7");
    assert_int_equal(sf_fail_in(SF_BAD_INPUT, "row %d", 3), SF_BAD_INPUT);
    assert_string_equal(sf_message(), "row 3: width is 7");
    assert_int_equal(sf_fail(SF_IO_ERROR, "again: %s", sf_message()), SF_IO_ERROR);
    assert_string_equal(sf_message(), "again: row 3: width is 7");

    char other[64] = "";
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, other), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(other, "on another thread");
    assert_string_equal(sf_message(), "again: row 3: width is 7");

    for (int i = 0; i < 1000; i++) sf_fail_in(SF_BAD_INPUT, "%0600d", i); /* cut, never overrun */
    assert_in_range(strlen(sf_message()), 500, 1023);
    assert_int_equal(strncmp(sf_message(), "000", 3), 0);
}

static void quantiles_of_sorted_numbers(void **state) {
    (void)state;
    double values[] = {8, -1, INFINITY, 2, 4};
    sf_sort(values, 5);
    const double expected[] = {-1, 2, 4, 8, INFINITY};
    for (size_t i = 0; i < 5; i++) {
        assert_true(values[i] == expected[i]);
        assert_true(sf_sorted_quantile(values, 5, 0.25 * (double)i) == expected[i]);
    }
    assert_true(sf_sorted_quantile(values, 5, 0.125) == 0.5); /* halfway from -1 to 2 */
    assert_true(sf_sorted_quantile(values, 4, 0.25) == 1.25); /* three quarters of the way */
    assert_true(isinf(sf_sorted_quantile(values, 5, 0.8)));
    assert_true(isinf(sf_sorted_quantile((double[]){INFINITY, INFINITY}, 2, 0.5)));
    assert_true(sf_sorted_quantile(values, 1, 0.7) == -1);
    assert_true(isnan(sf_sorted_quantile(values, 0, 0.5)));
}

/* A forked process has none of OpenMP's threads: a parallel region of the thread that forked would wait forever. */
static int without_threads(void) {
    return sf_threads_for(2) == 1 && sf_threads_at_most(0) == 1 && sf_threads_start(2) == SF_UNSUPPORTED ? 0 : 1;
}

static void *with_threads(void *unused) {
    (void)unused;
    static int yes;
    return sf_threads_at_most(2) == 2 ? &yes : NULL;
}

static void forked_processes_do_not_wait_for_threads(void **state) {
    (void)state;
    assert_int_equal(sf_threads_at_most(2), 2);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20); /* ends a child that waits */
        pthread_t other;
        void *found;
        if (without_threads() != 0 || pthread_create(&other, NULL, with_threads, NULL) != 0) _exit(1);
        pthread_join(other, &found);
        _exit(found != NULL ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(sf_threads_at_most(2), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(philox_known_answers),
                                       cmocka_unit_test(words_come_in_order),
                                       cmocka_unit_test(bounded_draws_are_uniform),
                                       cmocka_unit_test(dropout_rates),
                                       cmocka_unit_test(dropout_layout),
                                       cmocka_unit_test(hash_known_answers),
                                       cmocka_unit_test(reads_numbers_strictly),
                                       cmocka_unit_test(nearest_names),
                                       cmocka_unit_test(quotes_fit_a_line),
                                       cmocka_unit_test(blocks_are_zeroed_and_aligned),
                                       cmocka_unit_test(absurd_sizes_are_refused),
                                       cmocka_unit_test(arenas_are_laid_out_twice),
                                       cmocka_unit_test(messages),
                                       cmocka_unit_test(quantiles_of_sorted_numbers),
                                       cmocka_unit_test(forked_processes_do_not_wait_for_threads)};
    print_message("seed %d\n", SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
