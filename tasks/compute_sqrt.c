/* compute-sqrt: the integer square root of a binary number.
 *
 *   x of n bits, the highest first, uniform on 1..2^n - 1; then ceil(n/2) blanks
 *   labels on the blanks = floor(sqrt(x)) in ceil(n/2) bits, the highest first
 *
 * Source: NNCH (Deletang et al., 2023). Lengths 2..65536; n is two thirds of the length, rounded down.
 * With the recipe, full attention is right at 97.8 % of the held-out labels (docs/guide.md).
 * Example: 1 0 0 1 0 1 2 2 2 is 37, with the labels - - - - - - 1 1 0. */
#include <string.h>

#include "tasks/blanks.h"

enum { BLANK = 2, PAD = 3, LONGEST = 65536, WORD = 32, MOST_BITS = LONGEST * 2 / 3, WORDS = MOST_BITS / WORD + 2 };

/* 2 number + bit */
static void append_bit(uint32_t *number, size_t words, uint32_t bit) {
    for (size_t i = 0; i < words; i++) {
        const uint32_t top = number[i] >> (WORD - 1);
        number[i] = number[i] << 1 | bit;
        bit = top;
    }
}

static bool at_least(const uint32_t *a, const uint32_t *b, size_t words) {
    while (words > 0 && a[words - 1] == b[words - 1]) words--;
    return words == 0 || a[words - 1] > b[words - 1];
}

static void subtract(uint32_t *a, const uint32_t *b, size_t words) {
    uint64_t borrow = 0;
    for (size_t i = 0; i < words; i++) {
        const uint64_t difference = (uint64_t)a[i] - b[i] - borrow;
        a[i] = (uint32_t)difference;
        borrow = difference >> 63;
    }
}

/* Two bits of x at a time: the next bit of the root is 1 if 4 root + 1 can be taken from the remainder. The remainder
 * is at most twice the root, so both have about half as many bits as x. */
static void sample(int32_t *tokens, int32_t *labels, size_t *count, size_t length, sf_draws *draws) {
    const size_t n = 2 * length / 3, bits = (n + 1) / 2, words = (bits + 3) / WORD + 1;
    uint32_t remainder[WORDS / 2 + 1] = {0}, trial[WORDS / 2 + 1] = {0};
    sf_blanks_append(tokens, labels, count, n, bits, BLANK);
    sf_bits_draw(tokens, n, draws);
    for (size_t i = 0; i < bits; i++) { /* trial is the root on entry, and again on exit */
        const size_t low = 2 * i + 1 - n % 2;
        append_bit(remainder, words, low > 0 ? (uint32_t)tokens[low - 1] : 0);
        append_bit(remainder, words, (uint32_t)tokens[low]);
        append_bit(trial, words, 0);
        append_bit(trial, words, 1);
        const bool fits = at_least(remainder, trial, words);
        if (fits) subtract(remainder, trial, words);
        for (size_t w = 0; w < words; w++) trial[w] = trial[w] >> 1 | (w + 1 < words ? trial[w + 1] << (WORD - 1) : 0);
        trial[0] = (trial[0] & ~UINT32_C(1)) | fits;
        labels[n + i] = fits;
    }
}

/* Word j of number * 2^shift. */
static uint32_t shifted_word(const uint32_t number[WORDS], size_t j, size_t shift) {
    const size_t whole = shift / WORD, part = shift % WORD;
    if (j < whole) return 0;
    const uint32_t high = number[j - whole] << part;
    return part == 0 || j == whole ? high : high | number[j - whole - 1] >> (WORD - part);
}

/* Takes 2^(k+1) r + 2^2k, by which (r + 2^k)^2 is larger than r^2, from what is left of x; false: it is too much. */
static bool take_bit(uint32_t left[WORDS], const uint32_t root[WORDS], size_t k, size_t words) {
    uint32_t after[WORDS] = {0};
    int64_t carry = 0;
    for (size_t j = 0; j < words; j++) {
        const int64_t square = 2 * k / WORD == j ? INT64_C(1) << 2 * k % WORD : 0;
        carry += (int64_t)left[j] - shifted_word(root, j, k + 1) - square;
        after[j] = (uint32_t)(carry & UINT32_MAX);
        carry >>= WORD;
    }
    if (carry < 0) return false;
    memcpy(left, after, words * sizeof *after);
    return true;
}

static sf_status solve(int32_t *labels, const int32_t *tokens, size_t count) {
    size_t n;
    SF_TRY(sf_blanks_split(&n, tokens, count, BLANK, "compute-sqrt"));
    const size_t bits = (n + 1) / 2, words = n / WORD + 2;
    SF_TRY(sf_blanks_check(labels, n, count, bits, "compute-sqrt"));
    uint32_t left[WORDS] = {0}, root[WORDS] = {0};
    bool is_zero = true;
    for (size_t t = 0; t < n; t++) {
        left[(n - 1 - t) / WORD] |= (uint32_t)tokens[t] << (n - 1 - t) % WORD;
        is_zero &= tokens[t] == 0;
    }
    if (is_zero) return sf_fail(SF_BAD_INPUT, "the number has no bit that is 1; compute-sqrt has numbers from 1 on");
    for (size_t k = bits; k-- > 0;) {
        const bool fits = take_bit(left, root, k, words);
        labels[count - 1 - k] = fits;
        root[k / WORD] |= (uint32_t)fits << k % WORD;
    }
    return SF_OK;
}

static double chance(size_t length) {
    return sf_task_sampled_chance(&sf_task_compute_sqrt, length);
}

static const char *const recipe[] = {
    "length",      "30",    "readout",        "each", "optimizer", "adam", "lr",         "0.002",
    "gamma",       "0.93",  "batch",          "50",   "heads",     "4",    "head-width", "16",
    "train-count", "20000", "evaluate-count", "2000", "epochs",    "30",   NULL};

const sf_task sf_task_compute_sqrt = {
    SF_TASK,
    .info = {.name = "compute-sqrt",
             .summary = "the integer square root of a binary number",
             .tokens = "0 1 bits, 2 blank",
             .pad = PAD,
             .classes = 2,
             .shortest = 2,
             .longest = LONGEST,
             .recipe = recipe},
    .sample_each = sample,
    .solve_each = solve,
    .chance = chance,
};
