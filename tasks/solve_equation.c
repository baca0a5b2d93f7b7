/* solve-equation: which digit does x stand for, mod 5?
 *
 *   E(1) = d    E(2) = -d    E(3) = (d)    E(4) = (-d)        d a uniform digit 0..4
 *   E(m) = (E(a) op E(m-3-a))                                 a uniform on 1..m-4, op uniform on + -
 *   a sequence of length n is E(n-2) = v with v its value mod 5; from a uniform position of E(n-2) to the right,
 *   cyclically, the first digit is replaced by x
 *   label = the digit replaced; each digit enters once, with + or -, so there is no other solution
 *
 * Source: NNCH (Deletang et al., 2023). Lengths 3..65536, met exactly.
 * Example: ( ( x ) + ( - 0 ) ) = 4, the ids 7 7 9 8 5 7 6 0 8 8 10 4, has label 4. */
#include <assert.h>
#include <stdbool.h>

#include "base/memory.h"
#include "tasks/task.h"

enum { MODULUS = 5, PLUS = 5, MINUS, OPEN, CLOSE, UNKNOWN, EQUALS, PAD };

/* A part of the expression that is still to be written: its first cell holds its length and sign. */
static int32_t planned(size_t length, bool negative) {
    return -(int32_t)(2 * length + negative);
}

static size_t planned_length(int32_t cell) {
    return (size_t)-cell / 2;
}

static bool planned_negative(int32_t cell) {
    return -cell % 2 == 1;
}

/* One pass from left to right turns each planned part into tokens followed by smaller planned parts: no recursion, no
 * stack. Because its sign is known, each digit is added to the value as it is drawn. */
static int32_t sample_expression(int32_t *tokens, size_t length, sf_draws *draws) {
    int32_t sum = 0;
    tokens[0] = planned(length, false);
    for (size_t i = 0; i < length; i++) {
        if (tokens[i] >= 0) continue;
        const size_t part = planned_length(tokens[i]);
        const bool negative = planned_negative(tokens[i]);
        if (part == 1) {
            tokens[i] = (int32_t)sf_draw_below(draws, MODULUS);
            sum += negative ? -tokens[i] : tokens[i];
        } else if (part == 2) {
            tokens[i] = MINUS;
            tokens[i + 1] = planned(1, !negative);
        } else {
            tokens[i] = OPEN;
            tokens[i + part - 1] = CLOSE;
            if (part < 5) {
                tokens[i + 1] = planned(part - 2, negative);
                continue;
            }
            const size_t left = 1 + sf_draw_below(draws, (uint32_t)(part - 4)), right = part - 3 - left;
            const bool subtract = sf_draw_below(draws, 2) == 1;
            tokens[i + 1] = planned(left, negative);
            tokens[i + 1 + left] = subtract ? MINUS : PLUS;
            tokens[i + 2 + left] = planned(right, negative != subtract);
        }
    }
    return (sum % MODULUS + MODULUS) % MODULUS;
}

static void sample(int32_t *tokens, size_t *count, int32_t *label, size_t length, sf_draws *draws) {
    assert(length >= 3);
    const size_t expression = length - 2;
    *count = length;
    tokens[length - 1] = sample_expression(tokens, expression, draws);
    tokens[length - 2] = EQUALS;
    size_t hidden = sf_draw_below(draws, (uint32_t)expression);
    while (tokens[hidden] >= MODULUS) hidden = (hidden + 1) % expression;
    *label = tokens[hidden];
    tokens[hidden] = UNKNOWN;
}

/* The left side is an expression of modular-arithmetic-brackets up to its ids, so that task's solver evaluates it
 * with each digit in turn for x. */
static sf_status solve_by_trial(int32_t *label, int32_t *left_side, size_t count, size_t unknown, int32_t right_side) {
    int32_t solutions = 0;
    for (int32_t guess = 0; guess < MODULUS; guess++) {
        int32_t value = 0;
        left_side[unknown] = guess;
        SF_TRY(sf_fail_in(sf_task_modular_arithmetic_brackets.solve(&value, left_side, count),
                          "left side of the equation, with ( as 8 and ) as 9"));
        if (value != right_side) continue;
        *label = guess;
        solutions++;
    }
    if (solutions != 1)
        return sf_fail(SF_BAD_INPUT, "the equation holds for %d of the digits 0..4; exactly one must solve it",
                       solutions);
    return SF_OK;
}

static sf_status solve(int32_t *label, const int32_t *tokens, size_t count) {
    if (count < 3)
        return sf_fail(SF_BAD_INPUT, "%zu tokens are not an equation; the shortest has 3, such as x = 1", count);
    if (tokens[count - 2] != EQUALS || tokens[count - 1] < 0 || tokens[count - 1] >= MODULUS)
        return sf_fail(SF_BAD_INPUT, "tokens %d %d end the equation; end it in = 10 and a digit 0..4",
                       tokens[count - 2], tokens[count - 1]);
    const size_t left_count = count - 2;
    size_t unknowns = 0, unknown = 0;
    for (size_t i = 0; i < left_count; i++) {
        if (tokens[i] < 0 || tokens[i] > UNKNOWN)
            return sf_fail(
                SF_BAD_INPUT,
                "token %d at position %zu (from 0) is out of place; on the left of = use digits 0..4, + 5, - 6, "
                "( 7, ) 8 and x 9",
                tokens[i], i);
        if (tokens[i] != UNKNOWN) continue;
        unknowns++;
        unknown = i;
    }
    if (unknowns != 1) return sf_fail(SF_BAD_INPUT, "the equation has %zu unknowns; write x 9 exactly once", unknowns);
    int32_t *left_side;
    SF_TRY(SF_NEW(&left_side, left_count));
    for (size_t i = 0; i < left_count; i++) left_side[i] = tokens[i] < OPEN ? tokens[i] : tokens[i] + 1;
    const sf_status status = solve_by_trial(label, left_side, left_count, unknown, tokens[count - 1]);
    sf_release(left_side);
    return status;
}

static const char *const recipe[] = {"length", "40",    "epochs", "600", "blocks", "5", "lr",
                                     "0.1",    "gamma", "0.9995", "pad", "mask",   NULL};

const sf_task sf_task_solve_equation = {
    SF_TASK,
    .info = {.name = "solve-equation",
             .summary = "the digit x of a bracketed equation in + -, mod 5",
             .tokens = "0-4 digits, 5 +, 6 -, 7 (, 8 ), 9 x, 10 =",
             .pad = PAD,
             .classes = MODULUS,
             .shortest = 3,
             .longest = 65536,
             .recipe = recipe},
    .sample = sample,
    .solve = solve,
};
