/* The tasks with variants, and those with one label per position: what their samplers draw, against exact
 * probabilities, and what their settings do. */
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
#include "semfocus/settings.h"

/* Pearson's statistic; beyond dof + 6 sqrt(2 dof) + 6 a true hypothesis is about as likely as one in a million. */
static void assert_distributed(const char *what, const size_t *observed, const double *probability, size_t classes) {
    double statistic = 0, total = 0;
    for (size_t c = 0; c < classes; c++) total += (double)observed[c];
    assert_true(total > 0);
    for (size_t c = 0; c < classes; c++) {
        const double expected = total * probability[c];
        statistic += pow((double)observed[c] - expected, 2) / expected;
    }
    const double freedom = (double)classes - 1;
    if (statistic > freedom + 6 * sqrt(2 * freedom) + 6)
        fail_msg("%s: chi-square %.1f with %.0f degrees of freedom (seed %d)", what, statistic, freedom, SEED);
}

static void assert_uniform(const char *what, const size_t *observed, size_t classes) {
    double probability[128];
    for (size_t c = 0; c < classes; c++) probability[c] = 1 / (double)classes;
    assert_distributed(what, observed, probability, classes);
}

static void assert_share(const char *what, size_t hits, size_t all, double probability) {
    const size_t observed[] = {hits, all - hits};
    const double shares[] = {probability, 1 - probability};
    assert_distributed(what, observed, shares, 2);
}

/* Settings as name, value, ..., NULL. */
static sf_config config_with(const char *const *settings) {
    sf_config config;
    sf_config_init(&config);
    for (; settings != NULL && *settings != NULL; settings += 2)
        if (sf_config_set(&config, settings[0], settings[1]) != SF_OK) fail_msg("%s", sf_message());
    return config;
}

static sf_dataset *drawn(const char *name, size_t count, size_t length, const char *const *settings) {
    const sf_config config = config_with(settings);
    const sf_task_options options = sf_task_options_of(&config);
    const sf_sampling what = {find(name), SF_TRAINING, SEED, count, length, 0, &options};
    sf_dataset *data;
    if (sf_dataset_draw(&data, &what) != SF_OK) fail_msg("%s", sf_message());
    return data;
}

#define WITH(...) ((const char *const[]){__VA_ARGS__, NULL})

enum { MANY = 20000 };

/* The slots of the first two keys: the first has its slot's share of all weights, the second that of what is left. */
static void recall_slots(void **state) {
    (void)state;
    enum { N = 64, D = 8, SLOTS = (N - 2 * D) / 2 };
    const size_t asks = (size_t)2 * D; /* the position of the first slot */
    double first[SLOTS], second[SLOTS] = {0}, total = 0;
    for (size_t g = 0; g < SLOTS; g++) total += first[g] = pow((double)g + 1, 0.01 - 1);
    for (size_t g = 0; g < SLOTS; g++) first[g] /= total;
    for (size_t g = 0; g < SLOTS; g++)
        for (size_t h = 0; h < SLOTS; h++)
            if (h != g) second[g] += first[h] * first[g] / (1 - first[h]);
    size_t observed[2][SLOTS] = {0}, keys[63] = {0}, values[64] = {0};
    sf_dataset *data = drawn("recall", MANY, N, NULL);
    for (size_t i = 0; i < MANY; i++) {
        size_t count, asked = 0;
        const int32_t *tokens = sf_dataset_tokens(data, i, &count), *labels = sf_dataset_labels(data, i, &count);
        assert_int_equal(count, N);
        keys[tokens[2 * (i % D)] - 1]++; /* one pair of each sequence, so that the draws are independent */
        values[tokens[2 * (i % D) + 1] - 64]++;
        for (size_t t = 0; t < N; t++) {
            assert_int_equal(labels[t] >= 0, t >= asks && tokens[t] != 0);
            asked += labels[t] >= 0;
            for (size_t pair = 0; pair < 2 && t >= asks; pair++)
                if (tokens[t] == tokens[2 * pair]) observed[pair][(t - asks) / 2]++;
        }
        assert_int_equal(asked, D);
    }
    assert_distributed("slot of the first key", observed[0], first, SLOTS);
    assert_distributed("slot of the second key", observed[1], second, SLOTS);
    assert_uniform("keys", keys, 63);
    assert_uniform("values", values, 64);
    sf_dataset_destroy(data);
}

static void recall_sizes(void **state) {
    (void)state;
    static const struct {
        const char *pairs, *vocab;
        size_t length;
    } sizes[] = {{"1", "4", 4}, {"1", "5", 5}, {"3", "8", 12}, {"20", "1000", 81}, {"63", "128", 252}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const char *const *settings = WITH("pairs", sizes[s].pairs, "vocab", sizes[s].vocab);
        const sf_config config = config_with(settings);
        const sf_task_options options = sf_task_options_of(&config);
        sf_dataset *data = drawn("recall", 300, sizes[s].length, settings);
        sf_task_info info;
        assert_int_equal(sf_task_describe_with(&info, find("recall"), &options), SF_OK);
        assert_int_equal(info.classes, config.vocab);
        assert_int_equal(info.shortest, 4 * config.pairs);
        assert_int_equal(sf_dataset_label_count(data), 300 * (size_t)config.pairs);
        for (size_t i = 0; i < 300; i++) {
            size_t count;
            int32_t solved[252];
            const int32_t *tokens = sf_dataset_tokens(data, i, &count), *labels = sf_dataset_labels(data, i, &count);
            if (sf_task_solve_with(solved, find("recall"), tokens, count, &options) != SF_OK)
                fail_msg("%s", sf_message());
            assert_memory_equal(solved, labels, count * sizeof *labels);
        }
        sf_dataset_destroy(data);
    }
}

static void noisy_recall_draws(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double q;
    } noises[] = {{"0", 0}, {"0.2", 0.2}, {"0.8", 0.8}};
    for (size_t n = 0; n < 3; n++) {
        sf_dataset *data = drawn("noisy-recall", 2000, 128, WITH("noise", noises[n].text));
        size_t noise = 0, pairs = 0, keys[8] = {0}, others[16] = {0}, same = 0, sequences = 0;
        for (size_t i = 0; i < 2000; i++) {
            size_t count;
            int32_t map[8] = {0};
            const int32_t *tokens = sf_dataset_tokens(data, i, &count);
            for (size_t t = 0; t < count; t++) {
                noise += tokens[t] >= 16;
                pairs += tokens[t] < 8;
                if (tokens[t] >= 16) others[tokens[t] - 16]++;
                if (tokens[t] < 8) keys[tokens[t]]++;
                if (tokens[t] < 8 && t + 1 < count) map[tokens[t]] = tokens[t + 1];
            }
            if (map[0] == 0 || map[1] == 0) continue;
            sequences++;
            same += map[0] == map[1]; /* the map need not be one to one */
        }
        if (noises[n].q == 0)
            assert_int_equal(noise, 0);
        else
            assert_share("noise", noise, noise + pairs, noises[n].q);
        if (noise > 0) assert_uniform("noise tokens", others, 16);
        assert_uniform("keys", keys, 8);
        assert_share("two keys with the same value", same, sequences, 1 / 8.0);
        sf_dataset_destroy(data);
    }
}

/* The last write lies j pairs before the end with probability w (1-w)^j, and at the first pair with the rest. */
static void flip_flop_draws(void **state) {
    (void)state;
    enum { PAIRS = 20 };
    static const struct {
        const char *text;
        double w;
    } writes[] = {{"0.1", 0.1}, {"0.8", 0.8}};
    for (size_t n = 0; n < 2; n++) {
        sf_dataset *data = drawn("flip-flop", MANY, 2 * PAIRS + 1, WITH("writes", writes[n].text));
        size_t written = 0, ones = 0, last[6] = {0}, labels = 0;
        double law[6] = {[5] = 1};
        for (size_t j = 0; j < 5; j++) law[5] -= law[j] = writes[n].w * pow(1 - writes[n].w, (double)j);
        for (size_t i = 0; i < MANY; i++) {
            size_t count, behind = 0;
            const int32_t *tokens = sf_dataset_tokens(data, i, &count);
            assert_int_equal(count, 2 * PAIRS + 1);
            for (size_t t = 0; t + 1 < count; t += 2) {
                written += t > 0 && tokens[t] == 2;
                ones += tokens[t + 1] == 1;
            }
            while (behind < 5 && tokens[2 * (PAIRS - 1 - behind)] != 2) behind++;
            last[behind]++;
            labels += sf_dataset_label(data, i) == 1;
        }
        assert_share("writes", written, (size_t)MANY * (PAIRS - 1), writes[n].w);
        assert_share("bits", ones, (size_t)MANY * PAIRS, 0.5);
        assert_share("labels", labels, MANY, 0.5);
        assert_distributed("last write", last, law, 6);
        sf_dataset_destroy(data);
    }
}

static int32_t product(int32_t a, int32_t b, const sf_task_options *options) {
    const int32_t tokens[] = {a, b};
    int32_t labels[2];
    if (sf_task_solve_with(labels, find("word-problem"), tokens, 2, options) != SF_OK) fail_msg("%s", sf_message());
    assert_int_equal(labels[0], a);
    return labels[1];
}

/* Number of elements of each order: they tell the three groups from all others of their size that matter here. */
static void word_problem_groups(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int32_t size;
        size_t orders[7]; /* how many elements have order 0, 1, ..., 6 */
    } groups[] = {{"s5", 120, {0, 1, 25, 20, 30, 24, 20}},
                  {"a5", 60, {0, 1, 15, 20, 0, 24, 0}},
                  {"z60", 60, {0, 1, 1, 2, 2, 4, 2}}};
    for (size_t g = 0; g < 3; g++) {
        const sf_config config = config_with(WITH("group", groups[g].name));
        const sf_task_options options = sf_task_options_of(&config);
        size_t orders[7] = {0}, counts[120] = {0}, products[120] = {0};
        bool commutes = true;
        for (int32_t a = 0; a < groups[g].size; a++) {
            bool reached[120] = {false};
            assert_int_equal(product(a, 0, &options), a);
            assert_int_equal(product(0, a, &options), a);
            for (int32_t b = 0; b < groups[g].size; b++) {
                const int32_t c = product(a, b, &options);
                assert_false(reached[c]);
                reached[c] = true;
                commutes &= c == product(b, a, &options);
                const int32_t third = (a * 7 + b * 11) % groups[g].size;
                assert_int_equal(product(c, third, &options), product(a, product(b, third, &options), &options));
            }
            size_t order = 1;
            for (int32_t power = a; power != 0; power = product(power, a, &options)) order++;
            if (order < 7) orders[order]++;
        }
        assert_memory_equal(orders, groups[g].orders, sizeof orders);
        assert_int_equal(commutes, g == 2);
        sf_dataset *data = drawn("word-problem", MANY, 12, WITH("group", groups[g].name));
        for (size_t i = 0; i < MANY; i++) {
            size_t count;
            counts[sf_dataset_tokens(data, i, &count)[i % 12]]++;
            products[sf_dataset_labels(data, i, &count)[11]]++;
        }
        assert_uniform("elements", counts, (size_t)groups[g].size);
        assert_uniform("products", products, (size_t)groups[g].size);
        sf_dataset_destroy(data);
    }
}

/* Of n = 20 tokens, the first number has 1..18 bits; numbers of two bits are 1, 2 or 3. */
static void operands_are_uniform(void **state) {
    (void)state;
    static const char *const names[] = {"binary-addition", "binary-multiplication"};
    for (size_t n = 0; n < 2; n++) {
        sf_dataset *data = drawn(names[n], MANY, 40, NULL);
        size_t widths[18] = {0}, numbers[3] = {0};
        for (size_t i = 0; i < MANY; i++) {
            size_t count, m = 0;
            const int32_t *tokens = sf_dataset_tokens(data, i, &count);
            while (tokens[m] != 2) m++;
            widths[m - 1]++;
            if (m == 2) numbers[tokens[0] + 2 * tokens[1] - 1]++;
        }
        assert_uniform("bits of the first number", widths, 18);
        assert_uniform("numbers of two bits", numbers, 3);
        sf_dataset_destroy(data);
    }
    size_t numbers[15] = {0};
    sf_dataset *data = drawn("compute-sqrt", MANY, 6, NULL);
    for (size_t i = 0; i < MANY; i++) {
        size_t count;
        const int32_t *x = sf_dataset_tokens(data, i, &count);
        numbers[8 * x[0] + 4 * x[1] + 2 * x[2] + x[3] - 1]++;
    }
    assert_uniform("numbers under the root", numbers, 15);
    sf_dataset_destroy(data);
}

/* Small numbers in plain integers. */
static void arithmetic_exhaustively(void **state) {
    (void)state;
    for (unsigned x = 1; x < 64; x++) {
        for (unsigned y = 1; y < 32; y++) {
            for (int times = 0; times < 2; times++) {
                const unsigned result = times ? x * y : x + y;
                int32_t tokens[32], labels[32];
                size_t count = 0, output;
                for (int bit = 0; bit < 6; bit++) tokens[count++] = (int32_t)(x >> bit & 1);
                tokens[count++] = 2;
                for (int bit = 0; bit < 5; bit++) tokens[count++] = (int32_t)(y >> bit & 1);
                for (output = 0; result >> output != 0; output++) tokens[count++] = 3;
                tokens[count++] = 3;
                const sf_task *task = find(times ? "binary-multiplication" : "binary-addition");
                if (sf_task_solve_each(labels, task, tokens, count) != SF_OK) fail_msg("%s", sf_message());
                for (size_t bit = 0; bit < output; bit++) assert_int_equal(labels[12 + bit], result >> bit & 1);
                assert_int_equal(labels[count - 1], 2);
                tokens[count] = 3;
                assert_int_equal(sf_task_solve_each(labels, task, tokens, count + 1), SF_BAD_INPUT);
                assert_int_equal(sf_task_solve_each(labels, task, tokens, count - 1), SF_BAD_INPUT);
            }
        }
    }
    for (size_t n = 1; n <= 13; n++) {
        for (unsigned x = 1; x < 1U << n; x++) {
            int32_t tokens[32], labels[32];
            const size_t count = n + (n + 1) / 2;
            for (size_t t = 0; t < count; t++) tokens[t] = t < n ? (int32_t)(x >> (n - 1 - t) & 1) : 2;
            assert_int_equal(sf_task_solve_each(labels, find("compute-sqrt"), tokens, count), SF_OK);
            unsigned root = 0;
            for (size_t t = n; t < count; t++) root = 2 * root + (unsigned)labels[t];
            assert_true(root * root <= x && (root + 1) * (root + 1) > x);
        }
    }
}

/* Every length from the shortest to the longest is equally likely, and the sequences of a length are not special. */
static void drawn_lengths(void **state) {
    (void)state;
    const sf_sampling what = {find("parity"), SF_TRAINING, SEED, MANY, 12, 3, NULL};
    sf_dataset *data;
    assert_int_equal(sf_dataset_draw(&data, &what), SF_OK);
    size_t lengths[10] = {0}, ones[10] = {0};
    for (size_t i = 0; i < MANY; i++) {
        size_t count;
        sf_dataset_tokens(data, i, &count);
        lengths[count - 3]++;
        ones[count - 3] += (size_t)sf_dataset_label(data, i);
    }
    assert_uniform("lengths", lengths, 10);
    for (size_t l = 0; l < 10; l++) assert_share("parity", ones[l], lengths[l], 0.5);
    sf_dataset_destroy(data);
    sf_sampling wrong = what;
    wrong.shortest = 13;
    assert_int_equal(sf_dataset_draw(&data, &wrong), SF_BAD_INPUT);
    assert_null(data);
    wrong.task = find("recall");
    wrong.length = 64;
    assert_int_equal(sf_dataset_draw(&data, &wrong), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), "recall has lengths 32..65536"));
}

static void refuses_settings(void **state) {
    (void)state;
    static const struct {
        const char *task, *settings[7], *says;
    } refused[] = {
        {"parity", {"pairs", "4"}, "pairs is not a setting of the task parity; leave it out"},
        {"recall", {"length", "64", "noise", "0.2"}, "noise is not a setting of the task recall"},
        {"noisy-recall", {"vocab", "32"}, "vocab is not a setting of the task noisy-recall"},
        {"flip-flop", {"group", "s5"}, "group is not a setting of the task flip-flop"},
        {"word-problem", {"writes", "0.5"}, "writes is not a setting of the task word-problem"},
        {"recall",
         {"length", "64", "pairs", "64", "vocab", "128"},
         "pairs is 64 but a vocabulary of 128 has only 63 keys"},
        {"recall", {"length", "64", "vocab", "3"}, "pairs is 8 but a vocabulary of 3 has only 0 keys"},
        {"recall", {"length", "64", "pairs", "17"}, "length 64 is out of range; recall has lengths 68..65536"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const sf_config config = config_with(refused[i].settings);
        assert_int_equal(sf_task_check(find(refused[i].task), &config), SF_BAD_INPUT);
        if (strstr(sf_message(), refused[i].says) == NULL) fail_msg("says %s", sf_message());
    }
}

static void chance_follows_the_variant(void **state) {
    (void)state;
    const sf_config config = config_with(WITH("vocab", "1000", "group", "a5"));
    const sf_task_options options = sf_task_options_of(&config);
    assert_true(fabs(sf_task_chance_with(find("recall"), 64, &options) - 0.2) < 1e-12);
    assert_true(fabs(sf_task_chance_with(find("word-problem"), 64, &options) - 100 / 60.0) < 1e-12);
    assert_true(fabs(sf_task_chance(find("word-problem"), 64) - 100 / 120.0) < 1e-12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recall_slots),
        cmocka_unit_test(recall_sizes),
        cmocka_unit_test(noisy_recall_draws),
        cmocka_unit_test(flip_flop_draws),
        cmocka_unit_test(word_problem_groups),
        cmocka_unit_test(operands_are_uniform),
        cmocka_unit_test(arithmetic_exhaustively),
        cmocka_unit_test(drawn_lengths),
        cmocka_unit_test(refuses_settings),
        cmocka_unit_test(chance_follows_the_variant),
    };
    print_message("seed %d\n", SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
