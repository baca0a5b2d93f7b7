/* modular-arithmetic: the value mod 5 of an expression without brackets, * before + and -.
 *
 *   d op d op ... d, digits 0..4 and operators + - * uniform        label = its value mod 5, from 0 to 4
 *
 * Source: NNCH (Deletang et al., 2023). Lengths 1..65536; an even length is lowered by one.
 * Example: 2 + 3 * 3 + 2 + 1 - 4, the ids 2 5 3 7 3 5 2 5 1 6 4, is 10, so its label is 0. */
#include <stdbool.h>
#include <string.h>

#include "tasks/task.h"

enum { MODULUS = 5, PLUS = 5, MINUS, TIMES, PAD };

/* The value so far is sum + term; * changes only the term. */
static void sample(int32_t *tokens, size_t *count, int32_t *label, size_t length, sf_draws *draws) {
    *count = length - (length % 2 == 0);
    tokens[0] = (int32_t)sf_draw_below(draws, MODULUS);
    int32_t sum = 0, term = tokens[0];
    for (size_t i = 1; i < *count; i += 2) {
        const int32_t operation = PLUS + (int32_t)sf_draw_below(draws, 3);
        const int32_t digit = (int32_t)sf_draw_below(draws, MODULUS);
        tokens[i] = operation;
        tokens[i + 1] = digit;
        if (operation == TIMES) {
            term = term * digit % MODULUS;
        } else {
            sum = (sum + term) % MODULUS;
            term = operation == MINUS ? -digit : digit;
        }
    }
    *label = ((sum + term) % MODULUS + MODULUS) % MODULUS;
}

static sf_status check(const int32_t *tokens, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const bool is_digit = tokens[i] >= 0 && tokens[i] < MODULUS;
        const bool is_operator = tokens[i] >= PLUS && tokens[i] <= TIMES;
        if (i % 2 == 0 ? !is_digit : !is_operator)
            return sf_fail(SF_BAD_INPUT,
                           "token %d at position %zu (from 0) is out of place; modular-arithmetic has digits 0..4 at "
                           "even positions and + 5, - 6 or * 7 at odd ones",
                           tokens[i], i);
    }
    if (count % 2 == 0)
        return sf_fail(SF_BAD_INPUT, "token %d ends the expression; put a digit 0..4 after the operator",
                       tokens[count - 1]);
    return SF_OK;
}

/* Parses the grammar  expression = term { (+|-) term },  term = digit { * digit };  `at` moves past what is read. */
static int32_t parse_term(const int32_t **at, const int32_t *end) {
    int32_t product = *(*at)++;
    while (*at < end && **at == TIMES) {
        product = product * (*at)[1] % MODULUS;
        *at += 2;
    }
    return product;
}

static sf_status solve(int32_t *label, const int32_t *tokens, size_t count) {
    SF_TRY(check(tokens, count));
    const int32_t *at = tokens, *const end = tokens + count;
    int32_t value = parse_term(&at, end);
    while (at < end) {
        const bool subtract = *at++ == MINUS;
        const int32_t term = parse_term(&at, end);
        value = (value + (subtract ? MODULUS - term : term)) % MODULUS;
    }
    *label = value;
    return SF_OK;
}

/* The joint distribution of sum and last term, operator by operator; after a few dozen operators the value is
 * uniform. */
static double chance(size_t length) {
    enum { OPERATORS = 3 };
    double now[MODULUS][MODULUS] = {{0}}; /* [sum][term] */
    for (size_t digit = 0; digit < MODULUS; digit++) now[0][digit] = 1.0 / MODULUS;
    for (size_t i = 2; i < length && i < 1000; i += 2) {
        double next[MODULUS][MODULUS] = {{0}};
        for (size_t sum = 0; sum < MODULUS; sum++)
            for (size_t term = 0; term < MODULUS; term++)
                for (size_t digit = 0; digit < MODULUS; digit++) {
                    const double share = now[sum][term] / (MODULUS * OPERATORS);
                    next[sum][term * digit % MODULUS] += share;
                    next[(sum + term) % MODULUS][digit] += share;
                    next[(sum + term) % MODULUS][(MODULUS - digit) % MODULUS] += share;
                }
        memcpy(now, next, sizeof now);
    }
    double value[MODULUS] = {0}, most = 0;
    for (size_t sum = 0; sum < MODULUS; sum++)
        for (size_t term = 0; term < MODULUS; term++) value[(sum + term) % MODULUS] += now[sum][term];
    for (size_t v = 0; v < MODULUS; v++) most = value[v] > most ? value[v] : most;
    return most;
}

static const char *const recipe[] = {"length", "40",  "epochs", "600",    "blocks", "5",
                                     "lr",     "0.1", "gamma",  "0.9995", NULL};

const sf_task sf_task_modular_arithmetic = {
    SF_TASK,
    .info = {.name = "modular-arithmetic",
             .summary = "the value mod 5 of an expression in + - * without brackets",
             .tokens = "0-4 digits, 5 +, 6 -, 7 *",
             .pad = PAD,
             .classes = MODULUS,
             .shortest = 1,
             .longest = 65536,
             .recipe = recipe},
    .sample = sample,
    .solve = solve,
    .chance = chance,
};
