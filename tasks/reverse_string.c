/* reverse-string: the same bits, last one first.
 *
 *   n fair bits, then n blanks        labels on the blanks = the bits in reverse order
 *
 * Source: NNCH (Deletang et al., 2023). Lengths 2..65536; n is half the length, an odd length is lowered by one.
 * Example: 0 1 1 2 2 2 has the labels - - - 1 1 0. */
#include "tasks/blanks.h"

enum { BLANK = 2, PAD = 3 };

static void sample(int32_t *tokens, int32_t *labels, size_t *count, size_t length, sf_draws *draws) {
    const size_t n = length / 2;
    sf_blanks_append(tokens, labels, count, n, n, BLANK);
    for (size_t i = 0; i < n; i++) labels[2 * n - 1 - i] = tokens[i] = (int32_t)sf_draw_below(draws, 2);
}

static sf_status solve(int32_t *labels, const int32_t *tokens, size_t count) {
    size_t n;
    SF_TRY(sf_blanks_split(&n, tokens, count, BLANK, "reverse-string"));
    SF_TRY(sf_blanks_check(labels, n, count, n, "reverse-string"));
    for (size_t t = n; t < count; t++) labels[t] = tokens[count - 1 - t];
    return SF_OK;
}

static const char *const recipe[] = {"length", "40",    "readout", "each", "optimizer", "adam",
                                     "lr",     "0.001", "epochs",  "100",  NULL};

const sf_task sf_task_reverse_string = {
    SF_TASK,
    .info = {.name = "reverse-string",
             .summary = "the bits in reverse order",
             .tokens = "0 1 bits, 2 blank",
             .pad = PAD,
             .classes = 2,
             .shortest = 2,
             .longest = 65536,
             .recipe = recipe},
    .sample_each = sample,
    .solve_each = solve,
};
