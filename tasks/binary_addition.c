/* binary-addition: the sum of two binary numbers.
 *
 *   x 2 y, then blanks; x has m bits, m uniform on 1..n-2, and y has n - 1 - m, the lowest bit first
 *   x uniform on 1..2^m - 1, y likewise
 *   labels on the blanks = the bits of x + y, the lowest first, without zeros behind the highest 1; then the
 *   terminator 2
 *
 * Source: NNCH (Deletang et al., 2023), which pads the output and does not count what follows the terminator; here the
 * sequence ends with it. Lengths 6..65536; n is half the length, and the sequence has at most 2n tokens.
 * With the recipe, full attention is right at 99.99 % of the held-out labels (docs/guide.md).
 * Example: 0 0 1 2 0 1 3 3 3 3 is 4 + 2, with the labels - - - - - - 0 1 1 2. */
#include "tasks/blanks.h"

enum { TERMINATOR = 2, BLANK = 3, PAD = 4 };

static void sample(int32_t *tokens, int32_t *labels, size_t *count, size_t length, sf_draws *draws) {
    sf_operands o;
    sf_operands_draw(&o, tokens, length / 2, draws);
    int32_t *sum = labels + o.input, carry = 0;
    size_t bits = 0; /* up to the highest 1 */
    for (size_t i = 0; i < o.m || i < o.n || carry != 0; i++) {
        const int32_t digits = (i < o.m ? o.x[i] : 0) + (i < o.n ? o.y[i] : 0) + carry;
        sum[i] = digits % 2;
        carry = digits / 2;
        if (sum[i] == 1) bits = i + 1;
    }
    sum[bits] = TERMINATOR;
    sf_blanks_append(tokens, labels, count, o.input, bits + 1, BLANK);
}

/* A 1 is carried out of position i if the two bits there are 1, or if one of them is and a 1 is carried in; the highest
 * position where the bits are equal below decides. */
static bool carried_into(const sf_operands *o, size_t position) {
    for (size_t i = position; i-- > 0;) {
        const bool a = i < o->m && o->x[i] == 1, b = i < o->n && o->y[i] == 1;
        if (a == b) return a;
    }
    return false;
}

static sf_status solve(int32_t *labels, const int32_t *tokens, size_t count) {
    sf_operands o;
    SF_TRY(sf_operands_read(&o, tokens, count, "binary-addition"));
    const size_t widest = o.m > o.n ? o.m : o.n;
    size_t bits = widest + 1;
    while (bits > 0 && !(((bits <= o.m && o.x[bits - 1] == 1) != (bits <= o.n && o.y[bits - 1] == 1)) !=
                         carried_into(&o, bits - 1)))
        bits--;
    SF_TRY(sf_blanks_check(labels, o.input, count, bits + 1, "binary-addition"));
    bool carry = false;
    for (size_t i = 0; i < bits; i++) {
        const bool a = i < o.m && o.x[i] == 1, b = i < o.n && o.y[i] == 1;
        labels[o.input + i] = (a != b) != carry;
        carry = (a && b) || ((a || b) && carry);
    }
    labels[o.input + bits] = TERMINATOR;
    return SF_OK;
}

static double chance(size_t length) {
    return sf_task_sampled_chance(&sf_task_binary_addition, length);
}

static const char *const recipe[] = {
    "length",      "40",    "readout",        "each", "optimizer", "adam", "lr",         "0.002",
    "gamma",       "0.93",  "batch",          "50",   "heads",     "4",    "head-width", "16",
    "train-count", "20000", "evaluate-count", "2000", "epochs",    "20",   NULL};

const sf_task sf_task_binary_addition = {
    SF_TASK,
    .info = {.name = "binary-addition",
             .summary = "the sum of two binary numbers",
             .tokens = "0 1 bits, 2 separator, 3 blank",
             .pad = PAD,
             .classes = 3,
             .shortest = 6,
             .longest = 65536,
             .recipe = recipe},
    .sample_each = sample,
    .solve_each = solve,
    .chance = chance,
};
