/* modular-arithmetic-brackets: the value mod 5 of a fully bracketed expression.
 *
 *   E(1) = d    E(2) = -d    E(3) = (d)    E(4) = (-d)        d a uniform digit 0..4
 *   E(n) = (E(a) op E(n-3-a))                                 a uniform on 1..n-4, op uniform on + - *
 *   label = E(n) mod 5, from 0 to 4
 *
 * Source: NNCH (Deletang et al., 2023). Lengths 1..65536, met exactly.
 * Example: ( ( - 2 ) + 1 ), the ids 8 8 6 2 9 5 1 9, is -1, so its label is 4. */
#include <stdbool.h>

#include "base/memory.h"
#include "tasks/task.h"

enum { MODULUS = 5, PLUS = 5, MINUS, TIMES, OPEN, CLOSE, PAD = 11 };

static int32_t sample_literal(int32_t *tokens, size_t length, sf_draws *draws) {
    const int32_t digit = (int32_t)sf_draw_below(draws, MODULUS);
    const bool bracketed = length >= 3, negative = length % 2 == 0;
    if (bracketed) {
        tokens[0] = OPEN;
        tokens[length - 1] = CLOSE;
    }
    if (negative) tokens[bracketed] = MINUS;
    tokens[bracketed + negative] = digit;
    return negative ? MODULUS - digit : digit;
}

/* Writes E(length) and returns its value. Only the shorter operand is a recursive call, so calls nest at most
 * log2(length) deep; the loop continues with the longer one. Each operator is affine in either operand, so the
 * expression around the rest is stored as  whole = scale * rest + shift. */
static int32_t sample_expression(int32_t *tokens, size_t length, sf_draws *draws) {
    int32_t scale = 1, shift = 0;
    while (length >= 5) {
        const size_t left = 1 + sf_draw_below(draws, (uint32_t)(length - 4)), right = length - 3 - left;
        const int32_t operation = PLUS + (int32_t)sf_draw_below(draws, 3);
        int32_t *const left_tokens = tokens + 1, *const right_tokens = tokens + 2 + left;
        tokens[0] = OPEN;
        tokens[1 + left] = operation;
        tokens[length - 1] = CLOSE;

        const bool left_is_shorter = left < right;
        const int32_t known = left_is_shorter ? sample_expression(left_tokens, left, draws)
                                              : sample_expression(right_tokens, right, draws);
        if (operation == TIMES) {
            scale *= known;
        } else {
            const int32_t right_sign = operation == MINUS ? -1 : 1;
            shift += scale * (left_is_shorter ? known : right_sign * known);
            scale *= left_is_shorter ? right_sign : 1;
        }
        scale %= MODULUS;
        shift %= MODULUS;
        tokens = left_is_shorter ? right_tokens : left_tokens;
        length = left_is_shorter ? right : left;
    }
    const int32_t value = scale * sample_literal(tokens, length, draws) + shift;
    return (value % MODULUS + MODULUS) % MODULUS;
}

static void sample(int32_t *tokens, size_t *count, int32_t *label, size_t length, sf_draws *draws) {
    *count = length;
    *label = sample_expression(tokens, length, draws);
}

typedef struct open_bracket {
    int32_t left;      /* the operand before the operator */
    int32_t operation; /* 0 until it is read */
} open_bracket;

static int32_t apply(int32_t operation, int32_t left, int32_t right) {
    switch (operation) {
    case PLUS:
        return (left + right) % MODULUS;
    case MINUS:
        return (left + MODULUS - right) % MODULUS;
    case TIMES:
        return left * right % MODULUS;
    default: /* a literal alone in its bracket */
        return right;
    }
}

/* Reads left to right, alternating between a place for an operand and a place after one, with the open brackets on a
 * stack of their own: depth costs memory, not C stack. */
static sf_status evaluate(int32_t *out, const int32_t *tokens, size_t count, open_bracket *brackets) {
    size_t depth = 0;
    int32_t value = 0;
    bool after_operand = false, is_literal = false;
    for (size_t i = 0; i < count; i++) {
        const int32_t token = tokens[i];
        if (!after_operand) {
            if (token == OPEN) {
                brackets[depth++] = (open_bracket){0};
                continue;
            }
            const bool negative = token == MINUS;
            if (negative) i++;
            if (i == count || tokens[i] < 0 || tokens[i] >= MODULUS)
                return sf_fail(
                    SF_BAD_INPUT,
                    "token %d at position %zu (from 0) does not start an operand; put a digit 0..4, - and a digit, "
                    "or ( there",
                    token, i - negative);
            value = negative ? (MODULUS - tokens[i]) % MODULUS : tokens[i];
            after_operand = is_literal = true;
        } else if (depth == 0) {
            return sf_fail(SF_BAD_INPUT, "token %d at position %zu (from 0) follows a complete expression; remove it",
                           token, i);
        } else if (token >= PLUS && token <= TIMES && brackets[depth - 1].operation == 0) {
            brackets[depth - 1] = (open_bracket){.left = value, .operation = token};
            after_operand = false;
        } else if (token == CLOSE && (is_literal || brackets[depth - 1].operation != 0)) {
            depth--;
            value = apply(brackets[depth].operation, brackets[depth].left, value);
            is_literal = false;
        } else {
            return sf_fail(SF_BAD_INPUT,
                           "token %d at position %zu (from 0) is out of place; a bracket holds a digit, - and a "
                           "digit, or two operands around one of + 5, - 6, * 7, and ends in ) 9",
                           token, i);
        }
    }
    if (!after_operand || depth > 0)
        return sf_fail(SF_BAD_INPUT, "the expression ends after %zu tokens with %zu open brackets; complete it", count,
                       depth);
    *out = value;
    return SF_OK;
}

static sf_status solve(int32_t *label, const int32_t *tokens, size_t count) {
    open_bracket *brackets;
    SF_TRY(SF_NEW(&brackets, count));
    const sf_status status = evaluate(label, tokens, count, brackets);
    sf_release(brackets);
    return status;
}

/* Products make 0 the most frequent value. Multiplying by a unit does not change the distribution of an expression, so
 * the share z of 0 determines it: x + y and x - y are 0 with probability z_x z_y + (1 - z_x)(1 - z_y) / 4, x y with
 * z_x + z_y - z_x z_y. The share goes to 1/3 slowly; at MOST tokens, where we stop, it is 0.32. */
static double chance(size_t length) {
    enum { MOST = 1024 };
    double zero[MOST + 1];
    const size_t last = length < MOST ? length : MOST;
    for (size_t n = 0; n <= last; n++) {
        zero[n] = 1.0 / MODULUS;
        if (n < 5) continue;
        double sum = 0;
        for (size_t left = 1; left <= n - 4; left++) {
            const double x = zero[left], y = zero[n - 3 - left];
            sum += 2 * (x * y + (1 - x) * (1 - y) / (MODULUS - 1)) + (x + y - x * y);
        }
        zero[n] = sum / (3 * (double)(n - 4));
    }
    return zero[last];
}

static const char *const recipe[] = {"length", "40",    "epochs", "600", "blocks", "5", "lr",
                                     "0.1",    "gamma", "0.9995", "pad", "mask",   NULL};

const sf_task sf_task_modular_arithmetic_brackets = {
    SF_TASK,
    .info = {.name = "modular-arithmetic-brackets",
             .summary = "the value mod 5 of a bracketed expression in + - *",
             .tokens = "0-4 digits, 5 +, 6 -, 7 *, 8 (, 9 ), 10 unused",
             .pad = PAD,
             .classes = MODULUS,
             .shortest = 1,
             .longest = 65536,
             .recipe = recipe},
    .sample = sample,
    .solve = solve,
    .chance = chance,
};
