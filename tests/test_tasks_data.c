/* Datasets: what a sample depends on, holding out, and the two file forms with everything that can be wrong in them. */
#include <math.h>
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
#include "io/lines.h"
#include "semfocus/task.h"

enum { SEED = 20250614 };

static const sf_task *find(const char *name) {
    const sf_task *task;
    if (sf_task_find(&task, name) != SF_OK) fail_msg("%s", sf_message());
    return task;
}

static sf_dataset *sampled(const char *name, sf_split split, uint32_t seed, size_t count, size_t length) {
    sf_dataset *data;
    if (sf_dataset_sample(&data, find(name), split, seed, count, length) != SF_OK) fail_msg("%s", sf_message());
    return data;
}

static bool same_row(const sf_dataset *a, size_t i, const sf_dataset *b, size_t j) {
    size_t a_count, b_count;
    const int32_t *a_tokens = sf_dataset_tokens(a, i, &a_count), *b_tokens = sf_dataset_tokens(b, j, &b_count);
    return a_count == b_count && memcmp(a_tokens, b_tokens, a_count * sizeof *a_tokens) == 0 &&
           sf_dataset_label(a, i) == sf_dataset_label(b, j);
}

static size_t same_rows(const sf_dataset *a, const sf_dataset *b, size_t count) {
    size_t same = 0;
    for (size_t i = 0; i < count; i++) same += same_row(a, i, b, i);
    return same;
}

static void sample_depends_on_its_index_alone(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t length;
    } tasks[] = {{"parity", 40}, {"solve-equation", 40}, {"stack-manipulation", 40}, {"listops", 599}};
    for (size_t t = 0; t < sizeof tasks / sizeof *tasks; t++) {
        const char *name = tasks[t].name;
        const size_t length = tasks[t].length;
        sf_dataset *few = sampled(name, SF_TRAINING, SEED, 20, length);
        sf_dataset *many = sampled(name, SF_TRAINING, SEED, 100, length);
        sf_dataset *heldout = sampled(name, SF_HELDOUT, SEED, 20, length);
        sf_dataset *reseeded = sampled(name, SF_TRAINING, SEED + 1, 20, length);
        assert_int_equal(same_rows(few, many, 20), 20);
        assert_int_equal(same_rows(few, heldout, 20), 0);
        assert_int_equal(same_rows(few, reseeded, 20), 0);
        for (size_t i = 1; i < 100; i++) assert_false(same_row(many, i - 1, many, i));
        sf_dataset_destroy(few);
        sf_dataset_destroy(many);
        sf_dataset_destroy(heldout);
        sf_dataset_destroy(reseeded);
    }
}

static void refuses_impossible_samples(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t count, length;
        const char *says;
    } refused[] = {
        {"parity", 10, 0, "length 0 is out of range; parity has lengths 1..65536"},
        {"parity", 10, 65537, "length 65537 is out of range; parity has lengths 1..65536"},
        {"solve-equation", 10, 2, "length 2 is out of range; solve-equation has lengths 3..65536"},
        {"listops", 10, 3, "length 3 is out of range; listops has lengths 4..2000"},
        {"listops", 10, 2001, "length 2001 is out of range; listops has lengths 4..2000"},
        {"parity", 0, 40, "cannot sample 0 sequences; ask for 1..4294967295"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        sf_dataset *data;
        assert_int_equal(
            sf_dataset_sample(&data, find(refused[i].name), SF_TRAINING, 1, refused[i].count, refused[i].length),
            SF_BAD_INPUT);
        assert_null(data);
        assert_string_equal(sf_message(), refused[i].says);
    }
    sf_dataset *data;
    assert_int_equal(sf_dataset_sample(&data, find("parity"), SF_TRAINING, 1, UINT32_MAX, 65536), SF_NO_MEMORY);
}

static void holds_out_a_share(void **state) {
    (void)state;
    static const struct {
        size_t rows;
        double share;
        size_t held;
    } cases[] = {{2, 0.5, 1},  {2, 0.01, 1},     {2, 0.99, 1},       {10, 0.25, 3},
                 {11, 0.2, 2}, {1000, 0.2, 200}, {1000, 0.9999, 999}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        sf_dataset *all = sampled("parity", SF_TRAINING, SEED, cases[c].rows, 64), *training, *heldout;
        assert_int_equal(sf_dataset_hold_out(&training, &heldout, all, SEED, cases[c].share), SF_OK);
        assert_int_equal(sf_dataset_count(heldout), cases[c].held);
        assert_int_equal(sf_dataset_count(training), cases[c].rows - cases[c].held);
        size_t t = 0, h = 0; /* a merge in order finds every row, so nothing is lost, doubled or moved */
        for (size_t i = 0; i < cases[c].rows; i++) {
            if (t < sf_dataset_count(training) && same_row(all, i, training, t))
                t++;
            else if (h < sf_dataset_count(heldout) && same_row(all, i, heldout, h))
                h++;
        }
        assert_int_equal(t + h, cases[c].rows);
        sf_dataset_destroy(all);
        sf_dataset_destroy(training);
        sf_dataset_destroy(heldout);
    }
}

/* Each of ten rows is held out in about 3 of 10 seeds: 3000 of 10000, standard deviation 46. */
static void holds_out_uniformly(void **state) {
    (void)state;
    sf_dataset *all = sampled("parity", SF_TRAINING, SEED, 10, 64);
    size_t held[10] = {0};
    for (uint32_t seed = 0; seed < 10000; seed++) {
        sf_dataset *training, *heldout;
        assert_int_equal(sf_dataset_hold_out(&training, &heldout, all, seed, 0.3), SF_OK);
        for (size_t i = 0, h = 0; i < 10 && h < 3; i++) {
            if (!same_row(all, i, heldout, h)) continue;
            held[i]++;
            h++;
        }
        sf_dataset_destroy(training);
        sf_dataset_destroy(heldout);
    }
    for (size_t i = 0; i < 10; i++) assert_in_range(held[i], 2770, 3230);
    sf_dataset_destroy(all);
}

static void refuses_impossible_shares(void **state) {
    (void)state;
    sf_dataset *one = sampled("parity", SF_TRAINING, SEED, 1, 40), *two = sampled("parity", SF_TRAINING, SEED, 2, 40);
    sf_dataset *training, *heldout;
    assert_int_equal(sf_dataset_hold_out(&training, &heldout, one, 1, 0.5), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), "1 row cannot be split"));
    static const double shares[] = {0, 1, -0.5, 2, NAN};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        assert_int_equal(sf_dataset_hold_out(&training, &heldout, two, 1, shares[i]), SF_BAD_INPUT);
        assert_null(training);
        assert_null(heldout);
    }
    sf_dataset_destroy(one);
    sf_dataset_destroy(two);
}

/* Writes the bytes to a temporary file; the caller removes it. */
static void write_file(char path[32], const char *bytes, size_t count) {
    snprintf(path, 32, "/tmp/semfocus-XXXXXX");
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, count), (ssize_t)count);
    close(file);
}

static sf_status read_bytes(sf_dataset **data, const char *bytes, size_t count) {
    char path[32];
    write_file(path, bytes, count);
    const sf_status status = sf_dataset_read(data, path);
    unlink(path);
    return status;
}

static void reads_token_rows(void **state) {
    (void)state;
    static const char *const texts[] = {
        "tokens\tlabel\n0 1 3 2 2\t0\n65535\t65535\n",
        "tokens\tlabel\n0 1 3 2 2\t0\n65535\t65535",
        "tokens\tlabel\r\n0 1 3 2 2\t0\r\n65535\t65535\r\n",
        "tokens\tlabel\n 0  1 3 2 2 \t0\n65535\t65535\r",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sf_dataset *data;
        if (read_bytes(&data, texts[i], strlen(texts[i])) != SF_OK) fail_msg("text %zu: %s", i, sf_message());
        static const int32_t first[] = {0, 1, 3, 2, 2};
        size_t count;
        assert_int_equal(sf_dataset_count(data), 2);
        assert_memory_equal(sf_dataset_tokens(data, 0, &count), first, sizeof first);
        assert_int_equal(count, 5);
        assert_int_equal(sf_dataset_label(data, 0), 0);
        assert_int_equal(*sf_dataset_tokens(data, 1, &count), 65535);
        assert_int_equal(count, 1);
        assert_int_equal(sf_dataset_label(data, 1), 65535);
        assert_int_equal(sf_dataset_longest(data), 5);
        assert_int_equal(sf_dataset_largest_token(data), 65535);
        assert_int_equal(sf_dataset_largest_label(data), 65535);
        sf_dataset_destroy(data);
    }
}

static void reads_published_listops(void **state) {
    (void)state;
    static const char text[] = "Source\tTarget\n"
                               "( ( ( [MAX 2 ) 3 ) ] )\t3\n"
                               "( ( ( ( ( [SM 9 ) 9 ) 5 ) ( ( ( [MED 0 ) 9 ) ] ) ) ] )\t7\n"
                               "( ( ( [MIN 8 ) 6 ) ] )\t6\n";
    static const int32_t second[] = {13, 9, 9, 5, 12, 0, 9, 14, 14};
    sf_dataset *data;
    if (read_bytes(&data, text, strlen(text)) != SF_OK) fail_msg("%s", sf_message());
    assert_int_equal(sf_dataset_count(data), 3);
    size_t count;
    assert_memory_equal(sf_dataset_tokens(data, 1, &count), second, sizeof second);
    assert_int_equal(count, 9);
    for (size_t i = 0; i < 3; i++) {
        const int32_t *tokens = sf_dataset_tokens(data, i, &count);
        int32_t label;
        assert_int_equal(sf_task_solve(&label, find("listops"), tokens, count), SF_OK);
        assert_int_equal(label, sf_dataset_label(data, i));
    }
    sf_dataset_destroy(data);
}

static void refuses_bad_files(void **state) {
    (void)state;
    static const struct {
        const char *text, *says; /* the message after the path */
    } bad[] = {
        {"", ":1: is empty"},
        {"tokens\tlabel\n", ":1: no row follows the header"},
        {"tokens\tlabel", ":1: no row follows the header"},
        {"\n", ":1: the file starts with ''"},
        {"0 1 1\t0\n", ":1: the file starts with '0 1 1?0'"},
        {"tokens label\n0 1\t0\n", ":1: the file starts with 'tokens label'"},
        {"Tokens\tLabel\n0 1\t0\n", ":1: the file starts with"},
        {"\177ELF\1\2\n", ":1: the file starts with '?ELF\?\?'"},
        {"tokens\tlabel\n0 1\t0\n0 1\n", ":3: '0 1' has no tab"},
        {"tokens\tlabel\n0 1\t0\n\n", ":3: '' has no tab"},
        {"tokens\tlabel\n0 1\t0\t1\n", ":2: '0 1?0?1' has more than one tab"},
        {"tokens\tlabel\n\t0\n", ":2: the sequence before the tab is empty"},
        {"tokens\tlabel\n  \t0\n", ":2: the sequence before the tab is empty"},
        {"tokens\tlabel\n0 1\t\n", ":2: label '' is not valid"},
        {"tokens\tlabel\n0 1\t0\n0 1\t", ":3: label '' is not valid"},
        {"tokens\tlabel\n0 1\t 1\n", ":2: label ' 1' is not valid"},
        {"tokens\tlabel\n0 1\t65536\n", ":2: label '65536' is not valid; write an integer 0..65535"},
        {"tokens\tlabel\n0 1\t-1\n", ":2: label '-1'"},
        {"tokens\tlabel\n0 -1\t1\n", ":2: token '-1'"},
        {"tokens\tlabel\n0 65536\t1\n", ":2: token '65536'"},
        {"tokens\tlabel\n0 99999999999999999999\t1\n", ":2: token '99999999999999999999'"},
        {"tokens\tlabel\n0 1.5\t1\n", ":2: token '1.5'"},
        {"tokens\tlabel\n0 one\t1\n", ":2: token 'one'"},
        {"tokens\tlabel\n0\r1\t1\n", ":2: token '0?1'"},
        {"tokens\tlabel\n0 0x1\t1\n", ":2: token '0x1'"},
        {"Source\tTarget\n( [MIN 3 ) ]\t3\n( [MEAN 3 ) ]\t3\n", ":3: '[MEAN' is not a word of ListOps"},
        {"Source\tTarget\n([MIN 3 ) ]\t3\n", ":2: '([MIN' is not a word"},
        {"Source\tTarget\n10\t3\n", ":2: '10' is not a word"},
        {"Source\tTarget\n( )\t3\n", ":2: the sequence before the tab is empty"},
        {"Source\tTarget\n3\t10\n", ":2: label '10' is not valid; write an integer 0..9"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char path[32];
        write_file(path, bad[i].text, strlen(bad[i].text));
        sf_dataset *data;
        const sf_status status = sf_dataset_read(&data, path);
        unlink(path);
        if (status != SF_BAD_INPUT) fail_msg("accepts %s", bad[i].text);
        assert_null(data);
        const char *message = sf_message();
        if (strncmp(message, path, strlen(path)) != 0 ||
            strncmp(message + strlen(path), bad[i].says, strlen(bad[i].says)) != 0)
            fail_msg("says: %s\nexpected after the path: %s", message, bad[i].says);
    }
    static const char nul[] = "tokens\tlabel\n0 1\t0\n0 \0 1\t0\n";
    sf_dataset *data;
    assert_int_equal(read_bytes(&data, nul, sizeof nul - 1), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), ":3: contains a NUL byte"));
}

static void refuses_unreadable_paths(void **state) {
    (void)state;
    sf_dataset *data;
    assert_int_equal(sf_dataset_read(&data, "/nowhere/at-all.tsv"), SF_BAD_INPUT);
    assert_string_equal(sf_message(), "/nowhere/at-all.tsv: cannot be opened: No such file or directory");
    assert_int_equal(sf_dataset_read(&data, "/tmp"), SF_BAD_INPUT);
    assert_string_equal(sf_message(), "/tmp: cannot be read: Is a directory");
    assert_null(data);
}

static sf_status read_standard_input(sf_dataset **data, const char *text) {
    char path[32];
    write_file(path, text, strlen(text));
    assert_non_null(freopen(path, "rb", stdin));
    unlink(path);
    return sf_dataset_read(data, "-");
}

static void reads_standard_input(void **state) {
    (void)state;
    sf_dataset *data;
    assert_int_equal(read_standard_input(&data, "tokens\tlabel\n1 2\t0\n"), SF_OK);
    assert_int_equal(sf_dataset_count(data), 1);
    sf_dataset_destroy(data);
    assert_int_equal(read_standard_input(&data, "tokens\tlabel\n1 2\tx\n"), SF_BAD_INPUT);
    assert_string_equal(sf_message(), "standard input:2: label 'x' is not valid; write an integer 0..65535");
}

/* Beyond the first block of text and of rows, with one row longer than all before it. */
static void reads_large_files(void **state) {
    (void)state;
    enum { ROWS = 20000, LONG = 300000 };
    char path[32], *text = NULL;
    size_t size;
    FILE *memory = open_memstream(&text, &size);
    fputs("tokens\tlabel\n", memory);
    for (int i = 0; i < ROWS; i++) fprintf(memory, "%d %d\t%d\n", i, i % 7, i % 3);
    for (int i = 0; i < LONG; i++) fprintf(memory, "%d ", i % 10);
    fputs("\t1", memory);
    fclose(memory);
    write_file(path, text, size);
    free(text);
    sf_dataset *data;
    assert_int_equal(sf_dataset_read(&data, path), SF_OK);
    unlink(path);
    assert_int_equal(sf_dataset_count(data), ROWS + 1);
    assert_int_equal(sf_dataset_longest(data), LONG);
    for (int i = 0; i < ROWS; i++) {
        size_t count;
        const int32_t *tokens = sf_dataset_tokens(data, (size_t)i, &count);
        assert_true(count == 2 && tokens[0] == i && tokens[1] == i % 7 && sf_dataset_label(data, (size_t)i) == i % 3);
    }
    sf_dataset_destroy(data);
}

/* The end of the text may fall anywhere around the end of a block. */
static void reads_lines_at_block_ends(void **state) {
    (void)state;
    for (size_t size = 65530; size < 65545; size++) {
        char path[32], *text = malloc(size);
        memset(text, 'a', size);
        text[size / 2] = '\n';
        write_file(path, text, size);
        free(text);
        sf_lines lines;
        assert_int_equal(sf_lines_read(&lines, path), SF_OK);
        unlink(path);
        assert_int_equal(strlen(sf_lines_next(&lines)), size / 2);
        assert_int_equal(strlen(sf_lines_next(&lines)), size - size / 2 - 1);
        assert_int_equal(lines.number, 2);
        assert_null(sf_lines_next(&lines));
        sf_lines_release(&lines);
    }
}

static void published_labels_agree(void **state) {
    (void)state;
    const char *folder = getenv("SEMFOCUS_PUBLISHED_DATA");
    if (folder == NULL) {
        print_message("skipped: SEMFOCUS_PUBLISHED_DATA does not name the folder of the published files\n");
        skip();
    }
    static const char *const names[] = {"cycle-navigation", "modular-arithmetic-brackets", "solve-equation",
                                        "stack-manipulation"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s-len40-val.tsv", folder, names[n]);
        sf_dataset *data;
        if (sf_dataset_read(&data, path) != SF_OK) fail_msg("%s", sf_message());
        size_t agree = 0;
        for (size_t i = 0; i < sf_dataset_count(data); i++) {
            size_t count;
            const int32_t *tokens = sf_dataset_tokens(data, i, &count);
            int32_t label = -1;
            if (sf_task_solve(&label, find(names[n]), tokens, count) != SF_OK)
                print_message("%s row %zu: %s\n", names[n], i, sf_message());
            agree += label == sf_dataset_label(data, i);
        }
        print_message("%s: %zu of %zu labels agree\n", names[n], agree, sf_dataset_count(data));
        assert_int_equal(sf_dataset_count(data), 2000);
        assert_int_equal(agree, 2000);
        sf_dataset_destroy(data);
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

/* The chance level that a task computes, against the most frequent label of sequences that its sampler drew. */
static void chance_levels(void **state) {
    (void)state;
    enum { COUNT = 4000 };
    static const size_t lengths[] = {1, 2, 3, 5, 7, 9, 12, 21, 40, 100};
    const sf_task *task;
    for (size_t t = 0; (task = sf_task_at(t)) != NULL; t++) {
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            if (sf_task_check_length(task, lengths[i]) != SF_OK) continue;
            sf_dataset *data;
            double share;
            assert_int_equal(sf_dataset_sample(&data, task, SF_TRAINING, 7, COUNT, lengths[i]), SF_OK);
            assert_int_equal(sf_dataset_majority(&share, data), SF_OK);
            const size_t labels = sf_dataset_label_count(data) < COUNT ? sf_dataset_label_count(data) : COUNT;
            const double chance = sf_task_chance(task, lengths[i]);
            const double noise = sqrt(chance * (100 - chance) / (double)labels);
            if (fabs(share - chance) > 3.5 * noise)
                fail_msg("%s of length %zu: chance is %.2f but %.2f %% of %zu labels are the same",
                         sf_task_describe(task).name, lengths[i], chance, share, sf_dataset_label_count(data));
            sf_dataset_destroy(data);
        }
    }
}

int main(void) {
#define CHECKED(test) cmocka_unit_test_setup_teardown(test, note_memory, nothing_leaks)
    const struct CMUnitTest tests[] = {
        CHECKED(sample_depends_on_its_index_alone),
        CHECKED(refuses_impossible_samples),
        CHECKED(holds_out_a_share),
        CHECKED(holds_out_uniformly),
        CHECKED(refuses_impossible_shares),
        CHECKED(reads_token_rows),
        CHECKED(reads_published_listops),
        CHECKED(refuses_bad_files),
        CHECKED(refuses_unreadable_paths),
        CHECKED(reads_standard_input),
        CHECKED(reads_large_files),
        CHECKED(reads_lines_at_block_ends),
        CHECKED(published_labels_agree),
        CHECKED(chance_levels),
    };
    print_message("seed %d\n", SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
