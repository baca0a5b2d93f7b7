/* parity: is the number of ones odd?
 *
 *   x_1 .. x_n fair bits        label = (x_1 + ... + x_n) mod 2
 *
 * Source: NNCH (Deletang et al., 2023). Lengths 1..65536, met exactly.
 * Example: 0 0 0 1 0 1 1 0 0 1 1 1 holds six ones, so its label is 0. */
#include "tasks/task.h"

static void sample(int32_t *tokens, size_t *count, int32_t *label, size_t length, sf_draws *draws) {
    int32_t ones = 0;
    for (size_t i = 0; i < length; i++) ones += tokens[i] = (int32_t)sf_draw_below(draws, 2);
    *count = length;
    *label = ones % 2;
}

/* A two-state automaton: each one flips the state. */
static sf_status solve(int32_t *label, const int32_t *tokens, size_t count) {
    int32_t odd = 0;
    for (size_t i = 0; i < count; i++) {
        switch (tokens[i]) {
        case 0:
            break;
        case 1:
            odd = !odd;
            break;
        default:
            return sf_fail(SF_BAD_INPUT, "token %d at position %zu (from 0) is not a bit; parity takes only 0 and 1",
                           tokens[i], i);
        }
    }
    *label = odd;
    return SF_OK;
}

static const char *const recipe[] = {"length", "40",    "epochs", "1000", "blocks", "5", "lr",
                                     "0.1",    "gamma", "0.9995", "pad",  "mask",   NULL};

const sf_task sf_task_parity = {
    SF_TASK,
    .info = {.name = "parity",
             .summary = "whether the number of ones is odd",
             .tokens = "0 1 bits",
             .pad = 2,
             .classes = 2,
             .shortest = 1,
             .longest = 65536,
             .recipe = recipe},
    .sample = sample,
    .solve = solve,
};
