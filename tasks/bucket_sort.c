/* bucket-sort: the same symbols in ascending order.
 *
 *   n uniform symbols of 5, then n blanks        labels on the blanks = the symbols, sorted
 *
 * Source: NNCH (Deletang et al., 2023). Lengths 2..65536; n is half the length, an odd length is lowered by one.
 * Example: 4 0 3 0 5 5 5 5 has the labels - - - - 0 0 3 4. */
#include "tasks/blanks.h"

enum { SYMBOLS = 5, BLANK = 5, PAD = 6 };

/* Counts the symbols, then deals them out. */
static void sample(int32_t *tokens, int32_t *labels, size_t *count, size_t length, sf_draws *draws) {
    const size_t n = length / 2;
    size_t counts[SYMBOLS] = {0}, at = n;
    sf_blanks_append(tokens, labels, count, n, n, BLANK);
    for (size_t i = 0; i < n; i++) counts[tokens[i] = (int32_t)sf_draw_below(draws, SYMBOLS)]++;
    for (int32_t symbol = 0; symbol < SYMBOLS; symbol++)
        for (size_t i = 0; i < counts[symbol]; i++) labels[at++] = symbol;
}

/* Takes all zeros of the input, then all ones, and so on. */
static sf_status solve(int32_t *labels, const int32_t *tokens, size_t count) {
    size_t n;
    SF_TRY(sf_blanks_split(&n, tokens, count, BLANK, "bucket-sort"));
    SF_TRY(sf_blanks_check(labels, n, count, n, "bucket-sort"));
    int32_t *next = labels + n;
    for (int32_t symbol = 0; symbol < SYMBOLS; symbol++)
        for (size_t t = 0; t < n; t++)
            if (tokens[t] == symbol) *next++ = symbol;
    return SF_OK;
}

static const char *const recipe[] = {"length", "40",    "readout", "each", "optimizer", "adam",
                                     "lr",     "0.001", "epochs",  "100",  NULL};

const sf_task sf_task_bucket_sort = {
    SF_TASK,
    .info = {.name = "bucket-sort",
             .summary = "the symbols in ascending order",
             .tokens = "0..4 symbols, 5 blank",
             .pad = PAD,
             .classes = SYMBOLS,
             .shortest = 2,
             .longest = 65536,
             .recipe = recipe},
    .sample_each = sample,
    .solve_each = solve,
};
