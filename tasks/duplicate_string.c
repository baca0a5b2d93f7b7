/* duplicate-string: the same bits, twice.
 *
 *   n fair bits, then 2n blanks        labels on the blanks = the bits, and the bits again
 *
 * Source: NNCH (Deletang et al., 2023). Lengths 3..65536; n is a third of the length, rounded down.
 * Example: 0 1 2 2 2 2 has the labels - - 0 1 0 1. */
#include "tasks/blanks.h"

enum { BLANK = 2, PAD = 3 };

static void sample(int32_t *tokens, int32_t *labels, size_t *count, size_t length, sf_draws *draws) {
    const size_t n = length / 3;
    sf_blanks_append(tokens, labels, count, n, 2 * n, BLANK);
    for (size_t i = 0; i < n; i++) labels[n + i] = labels[2 * n + i] = tokens[i] = (int32_t)sf_draw_below(draws, 2);
}

static sf_status solve(int32_t *labels, const int32_t *tokens, size_t count) {
    size_t n;
    SF_TRY(sf_blanks_split(&n, tokens, count, BLANK, "duplicate-string"));
    SF_TRY(sf_blanks_check(labels, n, count, 2 * n, "duplicate-string"));
    for (size_t t = n; t < count; t++) labels[t] = tokens[t % n];
    return SF_OK;
}

static const char *const recipe[] = {"length", "42",    "readout", "each", "optimizer", "adam",
                                     "lr",     "0.001", "epochs",  "100",  NULL};

const sf_task sf_task_duplicate_string = {
    SF_TASK,
    .info = {.name = "duplicate-string",
             .summary = "the bits, written twice",
             .tokens = "0 1 bits, 2 blank",
             .pad = PAD,
             .classes = 2,
             .shortest = 3,
             .longest = 65536,
             .recipe = recipe},
    .sample_each = sample,
    .solve_each = solve,
};
