/* binary-multiplication: the product of two binary numbers.
 *
 *   x 2 y, then blanks; x has m bits, m uniform on 1..n-2, and y has n - 1 - m, the lowest bit first
 *   x uniform on 1..2^m - 1, y likewise
 *   labels on the blanks = the bits of x y, the lowest first, without zeros behind the highest 1; then the
 *   terminator 2
 *
 * Source: NNCH (Deletang et al., 2023), which pads the output and does not count what follows the terminator; here the
 * sequence ends with it. Lengths 6..65536; n is half the length, and the sequence has at most 2n tokens.
 * With the recipe, full attention is right at 97.0 % of the held-out labels (docs/guide.md).
 * Example: 0 1 2 1 1 3 3 3 3 is 2 * 3, with the labels - - - - - 0 1 1 2. */
#include <string.h>

#include "tasks/blanks.h"

enum { TERMINATOR = 2, BLANK = 3, PAD = 4, LONGEST = 65536, WORD = 32, WORDS = LONGEST / 2 / WORD + 1 };

static size_t pack(uint32_t words[WORDS], const int32_t *bits, size_t count) {
    const size_t used = (count + WORD - 1) / WORD;
    memset(words, 0, used * sizeof *words);
    for (size_t i = 0; i < count; i++) words[i / WORD] |= (uint32_t)bits[i] << i % WORD;
    return used;
}

static void sample(int32_t *tokens, int32_t *labels, size_t *count, size_t length, sf_draws *draws) {
    sf_operands o;
    uint32_t x[WORDS], y[WORDS], product[2 * WORDS] = {0};
    sf_operands_draw(&o, tokens, length / 2, draws);
    const size_t x_words = pack(x, o.x, o.m), y_words = pack(y, o.y, o.n);
    for (size_t i = 0; i < x_words; i++) {
        uint64_t carry = 0;
        for (size_t j = 0; j < y_words; j++) {
            carry += (uint64_t)x[i] * y[j] + product[i + j];
            product[i + j] = (uint32_t)carry;
            carry >>= WORD;
        }
        product[i + y_words] = (uint32_t)carry;
    }
    size_t bits = o.m + o.n;
    while ((product[(bits - 1) / WORD] >> (bits - 1) % WORD & 1) == 0) bits--;
    sf_blanks_append(tokens, labels, count, o.input, bits + 1, BLANK);
    for (size_t i = 0; i < bits; i++) labels[o.input + i] = (int32_t)(product[i / WORD] >> i % WORD & 1);
    labels[o.input + bits] = TERMINATOR;
}

/* Column by column, as on paper. The columns beyond the blanks must be 0. */
static sf_status solve(int32_t *labels, const int32_t *tokens, size_t count) {
    sf_operands o;
    SF_TRY(sf_operands_read(&o, tokens, count, "binary-multiplication"));
    uint32_t carry = 0;
    size_t bits = 0; /* up to the highest 1 */
    for (size_t column = 0; column < o.m + o.n; column++) {
        const size_t first = column >= o.n ? column - o.n + 1 : 0, last = column < o.m ? column : o.m - 1;
        for (size_t i = first; i <= last; i++) carry += (uint32_t)(o.x[i] & o.y[column - i]);
        if (carry % 2 == 1) bits = column + 1;
        if (o.input + column < count) labels[o.input + column] = (int32_t)(carry % 2);
        carry /= 2;
    }
    SF_TRY(sf_blanks_check(labels, o.input, count, bits + 1, "binary-multiplication"));
    labels[count - 1] = TERMINATOR;
    return SF_OK;
}

static double chance(size_t length) {
    return sf_task_sampled_chance(&sf_task_binary_multiplication, length);
}

static const char *const recipe[] = {
    "length",      "32",    "readout",        "each", "optimizer", "adam", "lr",         "0.002",
    "gamma",       "0.93",  "batch",          "50",   "heads",     "4",    "head-width", "16",
    "train-count", "20000", "evaluate-count", "2000", "epochs",    "40",   NULL};

const sf_task sf_task_binary_multiplication = {
    SF_TASK,
    .info = {.name = "binary-multiplication",
             .summary = "the product of two binary numbers",
             .tokens = "0 1 bits, 2 separator, 3 blank",
             .pad = PAD,
             .classes = 3,
             .shortest = 6,
             .longest = LONGEST,
             .recipe = recipe},
    .sample_each = sample,
    .solve_each = solve,
    .chance = chance,
};
