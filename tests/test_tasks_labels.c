/* Datasets with one label per position: sampled, read and written, held out, swapped, and as views of other arrays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "semfocus/plugin.h"
#include "tasks/dataset.h"

enum { SEED = 20250614 };

/* Bits; the label of an even position is the number of ones so far, mod 3; odd positions have none. */
static void sample_ones(int32_t *tokens, int32_t *labels, size_t *count, size_t length, sf_draws *draws) {
    int32_t ones = 0;
    const size_t fewer = sf_draw_below(draws, 2);
    *count = length > 1 ? length - fewer : length;
    for (size_t t = 0; t < *count; t++) {
        ones += tokens[t] = (int32_t)sf_draw_below(draws, 2);
        labels[t] = t % 2 == 0 ? ones % 3 : -1;
    }
}

static sf_status solve_ones(int32_t *labels, const int32_t *tokens, size_t count) {
    for (size_t t = 0; t < count; t++) {
        labels[t] = -1;
        if (t % 2 == 1) continue;
        labels[t] = 0;
        for (size_t j = 0; j <= t; j++) labels[t] = (labels[t] + tokens[j]) % 3;
    }
    return SF_OK;
}

static const sf_task ones = {
    SF_TASK,
    .info = {.name = "ones", .summary = "", .tokens = "", .pad = 2, .classes = 3, .shortest = 1, .longest = 100},
    .sample_each = sample_ones,
    .solve_each = solve_ones,
};

static sf_dataset *sampled(size_t count, size_t length) {
    sf_dataset *data;
    if (sf_dataset_sample(&data, &ones, SF_TRAINING, SEED, count, length) != SF_OK) fail_msg("%s", sf_message());
    return data;
}

static bool same_row(const sf_dataset *a, size_t i, const sf_dataset *b, size_t j) {
    size_t counts[4];
    const int32_t *left = sf_dataset_tokens(a, i, &counts[0]), *right = sf_dataset_tokens(b, j, &counts[1]);
    const int32_t *left_labels = sf_dataset_labels(a, i, &counts[2]),
                  *right_labels = sf_dataset_labels(b, j, &counts[3]);
    return counts[0] == counts[1] && counts[2] == counts[3] && memcmp(left, right, counts[0] * sizeof *left) == 0 &&
           memcmp(left_labels, right_labels, counts[2] * sizeof *left_labels) == 0;
}

static void samples_have_a_label_per_position(void **state) {
    (void)state;
    assert_true(sf_task_labels_each(&ones));
    for (size_t length = 1; length < 20; length++) {
        sf_dataset *data = sampled(50, length);
        size_t labelled = 0, counts[3] = {0};
        assert_true(sf_dataset_labels_each(data));
        for (size_t i = 0; i < 50; i++) {
            size_t count, label_count;
            int32_t solved[20];
            const int32_t *tokens = sf_dataset_tokens(data, i, &count);
            const int32_t *labels = sf_dataset_labels(data, i, &label_count);
            assert_int_equal(count, label_count);
            assert_int_equal(sf_dataset_label(data, i), -1);
            assert_int_equal(sf_task_solve_each(solved, &ones, tokens, count), SF_OK);
            assert_memory_equal(solved, labels, count * sizeof *labels);
            for (size_t t = 0; t < count; t += 2, labelled++) counts[labels[t]]++;
        }
        assert_int_equal(sf_dataset_label_count(data), labelled);
        double share;
        assert_int_equal(sf_dataset_majority(&share, data), SF_OK);
        const size_t ahead = counts[0] > counts[1] ? counts[0] : counts[1],
                     most = ahead > counts[2] ? ahead : counts[2];
        assert_true(share == 100 * (double)most / (double)labelled);
        sf_dataset_destroy(data);
    }
}

static void solvers_know_their_kind(void **state) {
    (void)state;
    const sf_task *parity;
    int32_t tokens[] = {1, 0}, labels[2];
    assert_int_equal(sf_task_find(&parity, "parity"), SF_OK);
    assert_false(sf_task_labels_each(parity));
    assert_int_equal(sf_task_solve_each(labels, parity, tokens, 2), SF_BAD_INPUT);
    assert_int_equal(sf_task_solve(labels, &ones, tokens, 2), SF_BAD_INPUT);
    assert_int_equal(sf_task_solve_each(labels, &ones, tokens, 0), SF_BAD_INPUT);
}

static void sample_too_large(int32_t *tokens, int32_t *labels, size_t *count, size_t length, sf_draws *draws) {
    sample_ones(tokens, labels, count, length, draws);
    labels[*count - 1] = 3;
}

static void refuses_labels_out_of_range(void **state) {
    (void)state;
    sf_task wrong = ones;
    wrong.sample_each = sample_too_large;
    sf_dataset *data;
    assert_int_equal(sf_dataset_sample(&data, &wrong, SF_TRAINING, SEED, 1, 5), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), "sampled label 3 but its labels are 0..2"));
    assert_null(data);
}

static void write_text(char path[32], const char *text) {
    snprintf(path, 32, "/tmp/semfocus-XXXXXX");
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
}

static sf_status read_text(sf_dataset **data, const char *text) {
    char path[32];
    write_text(path, text);
    const sf_status status = sf_dataset_read(data, path);
    unlink(path);
    return status;
}

static void files_come_back(void **state) {
    (void)state;
    static const size_t lengths[] = {1, 2, 3, 40};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        char path[32];
        write_text(path, "");
        sf_dataset *data = sampled(200, lengths[l]), *back;
        assert_int_equal(sf_dataset_write(data, path), SF_OK);
        assert_int_equal(sf_dataset_read(&back, path), SF_OK);
        unlink(path);
        assert_int_equal(sf_dataset_count(back), 200);
        for (size_t i = 0; i < 200; i++) assert_true(same_row(data, i, back, i));
        assert_int_equal(sf_dataset_label_count(back), sf_dataset_label_count(data));
        assert_int_equal(sf_dataset_largest_label(back), sf_dataset_largest_label(data));
        sf_dataset_destroy(data);
        sf_dataset_destroy(back);
    }
}

/* Rows of a single token are of both kinds until another row settles it. */
static void first_longer_row_settles_the_kind(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool each;
        size_t labels;
    } files[] = {
        {"tokens\tlabel\n5\t1\n6\t2\n", false, 2},
        {"tokens\tlabel\n5\t1\n6\t2\n7 8\t3\n", false, 3},
        {"tokens\tlabel\n5\t1\n6\t2\n7 8\t- 3\n5\t-\n", true, 3},
        {"tokens\tlabel\n5\t-\n6\t2\n7 8\t4 3\n", true, 3},
        {"tokens\tlabel\r\n5 5 5\t- 0  -\r\n6\t2\r\n", true, 2},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        sf_dataset *data;
        if (read_text(&data, files[i].text) != SF_OK) fail_msg("%s", sf_message());
        assert_int_equal(sf_dataset_labels_each(data), files[i].each);
        assert_int_equal(sf_dataset_label_count(data), files[i].labels);
        sf_dataset_destroy(data);
    }
    sf_dataset *data;
    size_t count;
    assert_int_equal(read_text(&data, files[2].text), SF_OK);
    assert_int_equal(sf_dataset_labels(data, 0, &count)[0], 1);
    assert_int_equal(sf_dataset_labels(data, 1, &count)[0], 2);
    assert_int_equal(sf_dataset_labels(data, 2, &count)[0], -1);
    assert_int_equal(sf_dataset_labels(data, 2, &count)[1], 3);
    assert_int_equal(sf_dataset_labels(data, 3, &count)[0], -1);
    sf_dataset_destroy(data);
}

static void refuses_bad_rows(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"tokens\tlabel\n1 2 3\t0 1\n", ":2: 2 labels for 3 tokens"},
        {"tokens\tlabel\n1 2 3\t0 1 2\n1 2 3\t1\n", ":3: 1 labels for 3 tokens"},
        {"tokens\tlabel\n1 2 3\t0\n1 2 3\t1 - 1\n", ":3: one label per token, but the rows before have one label"},
        {"tokens\tlabel\n1 2 3\t-\n", ":2: label '-' is not valid"},
        {"tokens\tlabel\n1 2\t0 x\n", ":2: label 'x' is not valid"},
        {"tokens\tlabel\n1 2\t0 -1\n", ":2: label '-1' is not valid"},
        {"tokens\tlabel\n1 2\t0 65536\n", ":2: label '65536' is not valid"},
        {"tokens\tlabel\n1 2\t- -\n1\t-\n", ": no token has a label"},
        {"Source\tTarget\n( ( [MAX 2 ) ] )\t3 - -\n", ":2: label '3 - -' is not valid"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sf_dataset *data;
        if (read_text(&data, bad[i].text) != SF_BAD_INPUT) fail_msg("accepts %s", bad[i].text);
        if (strstr(sf_message(), bad[i].says) == NULL) fail_msg("says %s for %s", sf_message(), bad[i].text);
        assert_null(data);
    }
}

static void holds_out_and_swaps(void **state) {
    (void)state;
    sf_dataset *all = sampled(60, 9), *training, *heldout;
    assert_int_equal(sf_dataset_hold_out(&training, &heldout, all, SEED, 0.25), SF_OK);
    assert_int_equal(sf_dataset_count(heldout), 15);
    size_t t = 0, h = 0;
    for (size_t i = 0; i < 60; i++) {
        if (t < 45 && same_row(all, i, training, t))
            t++;
        else if (h < 15 && same_row(all, i, heldout, h))
            h++;
    }
    assert_int_equal(t + h, 60);
    assert_int_equal(sf_dataset_label_count(training) + sf_dataset_label_count(heldout), sf_dataset_label_count(all));
    sf_dataset *before = sampled(60, 9);
    const sf_sampling what = {.task = &ones, .split = SF_TRAINING, .seed = SEED, .count = 60, .length = 9};
    assert_int_equal(sf_dataset_redraw(&all, &what, 7, 9), SF_OK);
    for (size_t i = 0; i < 60; i++) assert_int_equal(same_row(all, i, before, i), i != 7);
    sf_dataset_destroy(all);
    sf_dataset_destroy(before);
    sf_dataset_destroy(training);
    sf_dataset_destroy(heldout);
}

/* A stream of tokens in which the label of a position is the next token, and windows with one label behind them. */
static void views_of_a_stream(void **state) {
    (void)state;
    enum { TOKENS = 101, C = 10 };
    int32_t stream[TOKENS];
    for (int32_t t = 0; t < TOKENS; t++) stream[t] = t * t % 37;
    for (size_t each = 0; each < 2; each++) {
        const sf_dataset_view view = {stream, stream + (each ? 1 : C), each, 36, 36};
        sf_dataset *data, *training, *heldout;
        assert_int_equal(sf_dataset_borrow(&data, &view, 0), SF_OK);
        for (size_t start = 0; start + C < TOKENS; start += each ? C : 1)
            assert_int_equal(sf_dataset_add_view(data, start, C), SF_OK);
        assert_int_equal(sf_dataset_count(data), each ? 10 : TOKENS - C);
        assert_int_equal(sf_dataset_label_count(data), each ? 100 : TOKENS - C);
        assert_int_equal(sf_dataset_longest(data), C);
        for (size_t i = 0; i < sf_dataset_count(data); i++) {
            size_t count;
            const size_t start = each ? i * C : i;
            assert_ptr_equal(sf_dataset_tokens(data, i, &count), stream + start);
            assert_int_equal(count, C);
            assert_ptr_equal(sf_dataset_labels(data, i, &count), stream + start + (each ? 1 : C));
            assert_int_equal(count, each ? C : 1);
            assert_int_equal(sf_dataset_label(data, i), each ? -1 : stream[start + C]);
        }
        assert_int_equal(sf_dataset_hold_out(&training, &heldout, data, SEED, 0.2), SF_OK);
        sf_dataset_destroy(data); /* the rows of a view belong to the stream */
        size_t count;
        const int32_t *tokens = sf_dataset_tokens(heldout, 0, &count);
        assert_true(tokens >= stream && tokens < stream + TOKENS);
        assert_ptr_equal(sf_dataset_labels(heldout, 0, &count), tokens + (each ? 1 : C));
        assert_int_equal(sf_dataset_largest_token(heldout), 36);
        sf_dataset_destroy(training);
        sf_dataset_destroy(heldout);
    }
}

static int note_memory(void **state) {
    static size_t before;
    before = sf_bytes_in_use();
    *state = &before;
    return 0;
}

static int nothing_leaks(void **state) {
    const size_t *before = *state;
    return sf_bytes_in_use() == *before ? 0 : -1;
}

int main(void) {
#define CHECKED(test) cmocka_unit_test_setup_teardown(test, note_memory, nothing_leaks)
    const struct CMUnitTest tests[] = {
        CHECKED(samples_have_a_label_per_position),
        CHECKED(solvers_know_their_kind),
        CHECKED(refuses_labels_out_of_range),
        CHECKED(files_come_back),
        CHECKED(first_longer_row_settles_the_kind),
        CHECKED(refuses_bad_rows),
        CHECKED(holds_out_and_swaps),
        CHECKED(views_of_a_stream),
    };
    print_message("seed %d\n", SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
