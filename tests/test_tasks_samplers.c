/* The tasks' samplers against their solvers, a third evaluator and exact theory. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "known_task.h"

/* How many of `length` tokens a sequence has: at least, and at most. */
static void expected_count(size_t *fewest, size_t *most, const char *name, size_t length) {
    static const struct {
        const char *name;
        size_t multiple, rest; /* the largest multiple of the one, plus the other, that fits */
    } rounded[] = {{"modular-arithmetic", 2, 1}, {"flip-flop", 2, 1},        {"reverse-string", 2, 0},
                   {"odds-first", 2, 0},         {"duplicate-string", 3, 0}, {"bucket-sort", 2, 0}};
    *fewest = *most = length;
    for (size_t i = 0; i < sizeof rounded / sizeof *rounded; i++)
        if (strcmp(name, rounded[i].name) == 0)
            *fewest = *most = (length - rounded[i].rest) / rounded[i].multiple * rounded[i].multiple + rounded[i].rest;
    if (strcmp(name, "listops") == 0) *fewest = (length * 501 + 598) / 599;
    if (strncmp(name, "binary-", 7) == 0) *fewest = length / 2 + 2;
    if (strcmp(name, "compute-sqrt") == 0) {
        while (*fewest + (*fewest + 1) / 2 > length) --*fewest;
        *fewest = *most = *fewest + (*fewest + 1) / 2;
    }
}

static void check_labels(const sf_task_info *info, const sf_dataset *data, size_t i, size_t length, int32_t *solved) {
    const sf_task *task = find(info->name);
    const bool each = sf_task_labels_each(task);
    size_t count, label_count;
    const int32_t *tokens = sf_dataset_tokens(data, i, &count), *labels = sf_dataset_labels(data, i, &label_count);
    assert_int_equal(label_count, each ? count : 1);
    if (sf_task_solve_with(solved, task, tokens, count, NULL) != SF_OK)
        fail_msg("%s seed %d length %zu sample %zu: %s", info->name, SEED, length, i, sf_message());
    for (size_t t = 0; t < label_count; t++)
        if (solved[t] != labels[t] || labels[t] < (each ? -1 : 0) || labels[t] >= info->classes)
            fail_msg("%s seed %d length %zu sample %zu, label %zu: solver says %d, sampler %d", info->name, SEED,
                     length, i, t, solved[t], labels[t]);
}

/* Labels and ids in range, solver agrees, lengths as the task promises. */
static void check_samples(const sf_task_info *info, size_t count, size_t length) {
    sf_dataset *data = sampled(info->name, count, length);
    assert_int_equal(sf_dataset_count(data), count);
    int32_t *solved = malloc(length * sizeof *solved);
    size_t fewest, most;
    expected_count(&fewest, &most, info->name, length);
    for (size_t i = 0; i < count; i++) {
        size_t tokens_count;
        const int32_t *tokens = sf_dataset_tokens(data, i, &tokens_count);
        check_labels(info, data, i, length, solved);
        assert_in_range(tokens_count, fewest, most);
        const bool ends_in_pad = strcmp(info->name, "missing-duplicate") == 0 && length % 2 == 1 && length > 1;
        for (size_t j = 0; j < tokens_count - ends_in_pad; j++) assert_in_range(tokens[j], 0, info->pad - 1);
        if (ends_in_pad) assert_int_equal(tokens[tokens_count - 1], info->pad);
    }
    free(solved);
    sf_dataset_destroy(data);
}

static void samplers_and_solvers_agree(void **state) {
    (void)state;
    for (size_t t = 0; sf_task_at(t) != NULL; t++) {
        const sf_task_info info = sf_task_describe(sf_task_at(t));
        assert_string_equal(info.recipe[0], "length");
        check_samples(&info, 10000, strtoul(info.recipe[1], NULL, 10));
        for (size_t length = info.shortest; length <= 60; length++) check_samples(&info, 100, length);
        check_samples(&info, 3, info.longest);
        check_samples(&info, 3, info.longest - 1);
    }
}

/* Pearson's statistic; beyond dof + 6 sqrt(2 dof) + 6 a true hypothesis is about as likely as one in a million. */
static void assert_distributed(const char *what, const size_t *observed, const double *probability, size_t classes) {
    double statistic = 0, total = 0;
    for (size_t c = 0; c < classes; c++) total += (double)observed[c];
    for (size_t c = 0; c < classes; c++) {
        const double expected = total * probability[c];
        statistic += pow((double)observed[c] - expected, 2) / expected;
    }
    const double freedom = (double)classes - 1;
    if (statistic > freedom + 6 * sqrt(2 * freedom) + 6)
        fail_msg("%s: chi-square %.1f with %.0f degrees of freedom (seed %d)", what, statistic, freedom, SEED);
}

static void assert_uniform(const char *what, const size_t *observed, size_t classes) {
    double probability[64];
    for (size_t c = 0; c < classes; c++) probability[c] = 1 / (double)classes;
    assert_distributed(what, observed, probability, classes);
}

static void count_labels(size_t *counts /* [classes] */, size_t classes, const char *name, size_t samples,
                         size_t length) {
    sf_dataset *data = sampled(name, samples, length);
    memset(counts, 0, classes * sizeof *counts);
    for (size_t i = 0; i < samples; i++) counts[sf_dataset_label(data, i)]++;
    sf_dataset_destroy(data);
}

static void uniform_labels(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t classes;
    } uniform[] = {
        {"parity", 2}, {"even-pairs", 2}, {"missing-duplicate", 2}, {"cycle-navigation", 5}, {"solve-equation", 5},
    };
    for (size_t i = 0; i < sizeof uniform / sizeof *uniform; i++) {
        size_t counts[5];
        count_labels(counts, uniform[i].classes, uniform[i].name, 20000, 40);
        assert_uniform(uniform[i].name, counts, uniform[i].classes);
    }
}

/* A walk of three steps: 27 equally likely ones, of which 1 3 6 7 6 3 1 end at -3..3. */
static void short_walks(void **state) {
    (void)state;
    static const double exact[] = {7 / 27.0, 6 / 27.0, 4 / 27.0, 4 / 27.0, 6 / 27.0};
    size_t counts[5];
    count_labels(counts, 5, "cycle-navigation", 20000, 3);
    assert_distributed("cycle-navigation of length 3", counts, exact, 5);
}

static void hole_is_uniform(void **state) {
    (void)state;
    sf_dataset *data = sampled("missing-duplicate", 20000, 41);
    size_t counts[40] = {0};
    for (size_t i = 0; i < 20000; i++) {
        size_t count, hole = 0;
        const int32_t *tokens = sf_dataset_tokens(data, i, &count);
        while (tokens[hole] != 2) hole++;
        counts[hole]++;
    }
    assert_uniform("missing-duplicate hole", counts, 40);
    sf_dataset_destroy(data);
}

/* Number of tokens of the expression that starts here. */
static size_t operand_length(const int32_t *tokens, int32_t open, int32_t close, int32_t minus) {
    if (tokens[0] == minus) return 2;
    size_t length = 0, depth = 0;
    do {
        depth += tokens[length] == open;
        depth -= tokens[length] == close;
        length++;
    } while (depth > 0);
    return length;
}

static void splits_are_uniform(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t length, splits, operations;
        int32_t open;
    } tasks[] = {{"modular-arithmetic-brackets", 40, 36, 3, 8}, {"solve-equation", 42, 36, 2, 7}};
    for (size_t t = 0; t < 2; t++) {
        sf_dataset *data = sampled(tasks[t].name, 20000, tasks[t].length);
        size_t splits[36] = {0}, operations[3] = {0};
        for (size_t i = 0; i < 20000; i++) {
            size_t count;
            const int32_t *tokens = sf_dataset_tokens(data, i, &count);
            const size_t left = operand_length(tokens + 1, tasks[t].open, tasks[t].open + 1, 6);
            splits[left - 1]++;
            operations[tokens[1 + left] - 5]++;
        }
        assert_uniform("length of the left operand", splits, tasks[t].splits);
        assert_uniform("operation", operations, tasks[t].operations);
        sf_dataset_destroy(data);
    }
}

/* The exact law of the value of E(n), by its own recursion. */
static void bracket_values(void **state) {
    (void)state;
    static double law[41][5];
    for (size_t n = 1; n <= 40; n++) {
        for (size_t v = 0; v < 5; v++) law[n][v] = n < 5 ? 0.2 : 0;
        for (size_t a = 1; n >= 5 && a <= n - 4; a++) {
            for (size_t l = 0; l < 5; l++) {
                for (size_t r = 0; r < 5; r++) {
                    const double p = law[a][l] * law[n - 3 - a][r] / (3 * (double)(n - 4));
                    law[n][(l + r) % 5] += p;
                    law[n][(l + 5 - r) % 5] += p;
                    law[n][l * r % 5] += p;
                }
            }
        }
    }
    for (size_t n = 5; n <= 40; n += 7) {
        size_t counts[5];
        count_labels(counts, 5, "modular-arithmetic-brackets", 20000, n);
        assert_distributed("value of brackets", counts, law[n], 5);
    }
}

/* x replaces the digit after a uniform position, so it is w/(n-2) likely to be a digit that w positions lead to, and
 * the mean of that w is the mean of sum w^2 / (n-2). */
static void unknown_is_next_to_a_uniform_position(void **state) {
    (void)state;
    enum { SAMPLES = 20000, LEFT = 38 };
    sf_dataset *data = sampled("solve-equation", SAMPLES, LEFT + 2);
    double difference = 0, variance = 0;
    for (size_t i = 0; i < SAMPLES; i++) {
        size_t count;
        const int32_t *tokens = sf_dataset_tokens(data, i, &count);
        double mean = 0, square = 0, seen = 0;
        for (size_t j = 0; j < LEFT; j++) {
            if (tokens[j] >= 5 && tokens[j] != 9) continue;
            size_t before = 1;
            for (size_t k = (j + LEFT - 1) % LEFT; tokens[k] >= 5 && tokens[k] != 9; k = (k + LEFT - 1) % LEFT)
                before++;
            const double w = (double)before;
            mean += w * w / LEFT;
            square += w * w * w / LEFT;
            if (tokens[j] == 9) seen = w;
        }
        difference += seen - mean;
        variance += square - mean * mean;
    }
    if (fabs(difference) > 5 * sqrt(variance))
        fail_msg("x is %.1f sigma off (seed %d)", difference / sqrt(variance), SEED);
    sf_dataset_destroy(data);
}

/* The chance of an empty stack, from the law of its height. */
static double empty_probability(size_t n) {
    double empty = 0;
    for (size_t initial = 1; initial < n; initial++) {
        double height[128] = {0};
        height[initial] = 1;
        for (size_t action = initial; action < n; action++) {
            double next[128] = {0};
            for (size_t h = 0; h < 127; h++) {
                next[h == 0 ? 0 : h - 1] += height[h] / 3;
                next[h + 1] += height[h] * 2 / 3;
            }
            memcpy(height, next, sizeof height);
        }
        empty += height[0] / (double)(n - 1);
    }
    return empty;
}

static void empty_stacks(void **state) {
    (void)state;
    print_message("probability of an empty stack at length 40: %.2e\n", empty_probability(40));
    static const size_t lengths[] = {2, 3, 4, 7, 12, 40};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t counts[3];
        count_labels(counts, 3, "stack-manipulation", 100000, lengths[i]);
        const double empty = empty_probability(lengths[i]);
        const double exact[] = {(1 - empty) / 2, (1 - empty) / 2, empty};
        assert_distributed("stack-manipulation", counts, exact, 3);
    }
}

static void initial_stacks_are_uniform(void **state) {
    (void)state;
    sf_dataset *data = sampled("stack-manipulation", 20000, 40);
    size_t counts[39] = {0};
    for (size_t i = 0; i < 20000; i++) {
        size_t count, initial = 0;
        const int32_t *tokens = sf_dataset_tokens(data, i, &count);
        while (initial < count && tokens[initial] < 2) initial++;
        counts[initial - 1]++;
    }
    assert_uniform("initial stack size", counts, 39);
    sf_dataset_destroy(data);
}

static void listops_label_shares(void **state) {
    (void)state;
    static const double published[] = {.157, .094, .079, .082, .096, .090, .077, .077, .083, .166};
    size_t counts[10];
    count_labels(counts, 10, "listops", 5000, 599);
    print_message("listops label shares of 5000:");
    for (size_t c = 0; c < 10; c++) print_message(" %.3f", (double)counts[c] / 5000);
    print_message("\n");
    for (size_t c = 0; c < 10; c++) assert_true(fabs((double)counts[c] / 5000 - published[c]) < 0.015);
}

/* A recursive evaluator of its own: the value of the node at *at, which moves behind it. */
static int32_t listops_value(const int32_t **at) {
    const int32_t operation = *(*at)++;
    if (operation < 10) return operation;
    int32_t values[10], sum = 0, smallest = 9, largest = 0;
    size_t count = 0;
    for (; **at != 14; count++) {
        values[count] = listops_value(at);
        sum += values[count];
        if (values[count] < smallest) smallest = values[count];
        if (values[count] > largest) largest = values[count];
    }
    ++*at;
    if (operation == 10) return smallest;
    if (operation == 11) return largest;
    if (operation == 13) return sum % 10;
    int32_t middle = 0; /* twice the median: the values with as many below as above, by counting */
    for (size_t rank = (count - 1) / 2; rank <= count / 2; rank++) {
        for (int32_t v = 0; v < 10; v++) {
            size_t below = 0, equal = 0;
            for (size_t i = 0; i < count; i++) {
                below += values[i] < v;
                equal += values[i] == v;
            }
            if (below <= rank && rank < below + equal) middle += v;
        }
    }
    return count % 2 == 1 ? middle : middle / 2;
}

static void listops_third_evaluator(void **state) {
    (void)state;
    sf_dataset *data = sampled("listops", 2000, 599);
    for (size_t i = 0; i < 2000; i++) {
        size_t count;
        const int32_t *tokens = sf_dataset_tokens(data, i, &count), *at = tokens;
        assert_int_equal(listops_value(&at), sf_dataset_label(data, i));
        assert_ptr_equal(at, tokens + count);
    }
    sf_dataset_destroy(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samplers_and_solvers_agree),
        cmocka_unit_test(uniform_labels),
        cmocka_unit_test(short_walks),
        cmocka_unit_test(hole_is_uniform),
        cmocka_unit_test(splits_are_uniform),
        cmocka_unit_test(bracket_values),
        cmocka_unit_test(unknown_is_next_to_a_uniform_position),
        cmocka_unit_test(empty_stacks),
        cmocka_unit_test(initial_stacks_are_uniform),
        cmocka_unit_test(listops_label_shares),
        cmocka_unit_test(listops_third_evaluator),
    };
    print_message("seed %d\n", SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
