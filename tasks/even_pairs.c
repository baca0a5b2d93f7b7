/* even-pairs: is the number of neighbours 01 and 10 odd?
 *
 *   x_1 .. x_n fair bits        label = #{i : x_i != x_i+1} mod 2
 *
 * Every change of bit undoes the one before, so the label is 1 exactly when the first and the last bit differ.
 *
 * Source: NNCH (Deletang et al., 2023). Lengths 1..65536, met exactly; a single bit has label 0.
 * Example: 1 0 1 1 1 0 1 0 has five unequal neighbours, so its label is 1. */
#include "tasks/task.h"

static void sample(int32_t *tokens, size_t *count, int32_t *label, size_t length, sf_draws *draws) {
    int32_t changes = 0;
    for (size_t i = 0; i < length; i++) {
        tokens[i] = (int32_t)sf_draw_below(draws, 2);
        changes += i > 0 && tokens[i] != tokens[i - 1];
    }
    *count = length;
    *label = changes % 2;
}

static sf_status solve(int32_t *label, const int32_t *tokens, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (tokens[i] != 0 && tokens[i] != 1)
            return sf_fail(SF_BAD_INPUT,
                           "token %d at position %zu (from 0) is not a bit; even-pairs takes only 0 and 1", tokens[i],
                           i);
    *label = tokens[0] != tokens[count - 1];
    return SF_OK;
}

static double chance(size_t length) {
    return length == 1 ? 1 : 0.5; /* one bit has no neighbours */
}

static const char *const recipe[] = {"length", "40",    "epochs", "100", "blocks", "5", "lr",
                                     "0.1",    "gamma", "0.9995", "pad", "mask",   NULL};

const sf_task sf_task_even_pairs = {
    SF_TASK,
    .info = {.name = "even-pairs",
             .summary = "whether the number of unequal neighbours is odd",
             .tokens = "0 1 bits",
             .pad = 2,
             .classes = 2,
             .shortest = 1,
             .longest = 65536,
             .recipe = recipe},
    .sample = sample,
    .solve = solve,
    .chance = chance,
};
