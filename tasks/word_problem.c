/* word-problem: elements of a finite group; what is the product of all elements so far?
 *
 *   x1 x2 ... xn uniform on the group              label at position t = x1 x2 ... xt
 *
 * s5: the 120 permutations of five things, numbered in lexicographic order, 0 is the identity; x y is x, then y: it
 *     takes i to y(x(i)). a5: the 60 even ones among them, in the same order. z60: addition modulo 60.
 * s5 and a5 are not solvable: keeping track of their products is complete for NC1. z60 is abelian. To be learned by a
 * causal model.
 *
 * Source: the word problems of Merrill, Petty and Sabharwal (2024) and Liu et al. (2022). Setting: --group s5, a5 or
 * z60. Lengths 1..65536, met exactly.
 * With the recipe (s5, length 4), full attention is right at 99.8 % of the held-out labels; at length 6 it learns the
 * first four positions within ten epochs and the last two not (docs/guide.md).
 * Example, in z60: 50 20 1 has the labels 50 10 11. */
#include <string.h>

#include "tasks/task.h"

enum { POINTS = 5, ALL = 120, EVEN = 60, MODULUS = 60 };

static int32_t order_of(const sf_task_options *options) {
    return options->group == SF_S5 ? ALL : options->group == SF_A5 ? EVEN : MODULUS;
}

static sf_status adapt(sf_task_info *info, const sf_task_options *options) {
    info->pad = info->classes = order_of(options);
    return SF_OK;
}

/* The permutation of a number below 120: its digits in the factorial system say which of the points left comes next. */
static void unrank(int32_t permutation[POINTS], int32_t number) {
    static const int32_t factorials[POINTS] = {24, 6, 2, 1, 1};
    int32_t left[POINTS] = {0, 1, 2, 3, 4};
    for (int32_t i = 0; i < POINTS; i++) {
        const int32_t digit = number / factorials[i];
        number %= factorials[i];
        permutation[i] = left[digit];
        for (int32_t j = digit; j + 1 < POINTS - i; j++) left[j] = left[j + 1];
    }
}

static int32_t rank(const int32_t permutation[POINTS]) {
    int32_t number = 0;
    for (int32_t i = 0; i < POINTS; i++) {
        int32_t smaller = 0;
        for (int32_t j = i + 1; j < POINTS; j++) smaller += permutation[j] < permutation[i];
        number = number * (POINTS - i) + smaller;
    }
    return number;
}

/* Two neighbours 2m and 2m + 1 differ in their last two points alone: one of them is even. */
static int32_t even_of_pair(int32_t m) {
    int32_t digits = 0;
    for (int32_t rest = 2 * m, base = 2; base <= POINTS; rest /= base, base++) digits += rest % base;
    return 2 * m + digits % 2;
}

static void sample(int32_t *tokens, int32_t *labels, size_t *count, size_t length, const sf_task_options *options,
                   sf_draws *draws) {
    const int32_t order = order_of(options);
    int32_t product[POINTS] = {0, 1, 2, 3, 4}, sum = 0;
    *count = length;
    for (size_t t = 0; t < length; t++) {
        tokens[t] = (int32_t)sf_draw_below(draws, (uint32_t)order);
        if (options->group == SF_Z60) {
            labels[t] = sum = (sum + tokens[t]) % MODULUS;
            continue;
        }
        int32_t element[POINTS];
        unrank(element, options->group == SF_A5 ? even_of_pair(tokens[t]) : tokens[t]);
        for (size_t i = 0; i < POINTS; i++) product[i] = element[product[i]];
        labels[t] = options->group == SF_A5 ? rank(product) / 2 : rank(product);
    }
}

/* All words of five letters in order, without those that repeat one, and for a5 without those of odd parity. */
static void list_elements(int8_t elements[ALL][POINTS], bool only_even) {
    size_t count = 0;
    for (int word = 0; word < 3125; word++) {
        const int8_t letters[POINTS] = {(int8_t)(word / 625), (int8_t)(word / 125 % 5), (int8_t)(word / 25 % 5),
                                        (int8_t)(word / 5 % 5), (int8_t)(word % 5)};
        bool repeats = false, odd = false;
        for (size_t i = 0; i < POINTS; i++)
            for (size_t j = i + 1; j < POINTS; j++) {
                repeats |= letters[i] == letters[j];
                odd ^= letters[i] > letters[j];
            }
        if (!repeats && !(only_even && odd)) memcpy(elements[count++], letters, sizeof letters);
    }
}

static int32_t find_element(const int8_t elements[ALL][POINTS], const int8_t wanted[POINTS]) {
    int32_t at = 0;
    while (memcmp(elements[at], wanted, POINTS) != 0) at++;
    return at;
}

static sf_status solve(int32_t *labels, const int32_t *tokens, size_t count, const sf_task_options *options) {
    const int32_t order = order_of(options);
    int8_t elements[ALL][POINTS], where[POINTS] = {0, 1, 2, 3, 4}; /* where each point has been taken */
    int64_t total = 0;
    if (options->group != SF_Z60) list_elements(elements, options->group == SF_A5);
    for (size_t t = 0; t < count; t++) {
        if (tokens[t] < 0 || tokens[t] >= order)
            return sf_fail(SF_BAD_INPUT, "token %d at position %zu (from 0) is not an element; the group has 0..%d",
                           tokens[t], t, order - 1);
        total += tokens[t];
        if (options->group == SF_Z60) {
            labels[t] = (int32_t)(total % MODULUS);
            continue;
        }
        for (size_t i = 0; i < POINTS; i++) where[i] = elements[tokens[t]][where[i]];
        labels[t] = find_element(elements, where);
    }
    return SF_OK;
}

static const char *const settings[] = {"group", NULL};
static const char *const recipe[] = {
    "length",      "4",      "causal",         "yes",  "readout",    "each", "optimizer", "adam",
    "lr",          "0.002",  "gamma",          "0.93", "batch",      "100",  "width",     "128",
    "mlp-width",   "256",    "heads",          "4",    "head-width", "32",   "blocks",    "3",
    "train-count", "100000", "evaluate-count", "2000", "epochs",     "12",   NULL};

const sf_task sf_task_word_problem = {
    SF_TASK,
    .info = {.name = "word-problem",
             .summary = "the product of all elements of a group so far",
             .tokens = "0..119 (s5) or 0..59 (a5, z60) elements of the group",
             .pad = ALL,
             .classes = ALL,
             .shortest = 1,
             .longest = 65536,
             .recipe = recipe},
    .settings = settings,
    .adapt = adapt,
    .labels_each = true,
    .sample_with = sample,
    .solve_with = solve,
};
