/* missing-duplicate: a word is written twice and one of its bits erased; which bit was it?
 *
 *   w of floor(n/2) fair bits, the sequence w w with one uniformly chosen position replaced by the hole
 *   label = the erased bit
 *
 * Source: NNCH (Deletang et al., 2023). Lengths 1..65536, met exactly: an odd length ends in one PAD, and
 * length 1 is always the sequence 1 with label 1.
 * Example: 2 1 0 1 1 1 0 1 is 1101 twice without its first bit, so its label is 1. */
#include "tasks/task.h"

enum { HOLE = 2, PAD = 3 };

static void sample(int32_t *tokens, size_t *count, int32_t *label, size_t length, sf_draws *draws) {
    *count = length;
    if (length == 1) {
        *label = tokens[0] = 1;
        return;
    }
    const size_t half = length / 2;
    for (size_t i = 0; i < half; i++) tokens[i] = tokens[half + i] = (int32_t)sf_draw_below(draws, 2);
    if (length % 2 == 1) tokens[length - 1] = PAD;
    const uint32_t erased = sf_draw_below(draws, (uint32_t)(2 * half));
    *label = tokens[erased];
    tokens[erased] = HOLE;
}

static sf_status solve_single(int32_t *label, int32_t token) {
    if (token != 1)
        return sf_fail(SF_BAD_INPUT,
                       "token %d is not a missing-duplicate sequence; the sequence of length 1 is the token 1", token);
    *label = 1;
    return SF_OK;
}

/* Walks both copies side by side: they agree everywhere except at the hole, whose counterpart is the answer. */
static sf_status solve(int32_t *label, const int32_t *tokens, size_t count) {
    if (count == 1) return solve_single(label, tokens[0]);
    if (count % 2 == 1 && tokens[count - 1] != PAD)
        return sf_fail(SF_BAD_INPUT, "token %d ends a missing-duplicate of odd length %zu; put the PAD %d there",
                       tokens[count - 1], count, PAD);
    const size_t half = count / 2;
    for (size_t i = 0; i < 2 * half; i++)
        if (tokens[i] < 0 || tokens[i] > HOLE)
            return sf_fail(SF_BAD_INPUT,
                           "token %d at position %zu (from 0) is out of place; missing-duplicate takes the bits 0 and "
                           "1 and one hole %d",
                           tokens[i], i, HOLE);
    size_t holes = 0;
    for (size_t i = 0; i < half; i++) {
        const int32_t first = tokens[i], second = tokens[half + i];
        if (first == second && first != HOLE) continue;
        if (first != HOLE && second != HOLE)
            return sf_fail(SF_BAD_INPUT,
                           "tokens %d and %d at positions %zu and %zu (from 0) differ; the two halves of a "
                           "missing-duplicate agree except at the hole",
                           first, second, i, half + i);
        holes += (size_t)(first == HOLE) + (size_t)(second == HOLE);
        *label = first == HOLE ? second : first;
    }
    if (holes != 1)
        return sf_fail(SF_BAD_INPUT, "the sequence has %zu holes; a missing-duplicate has the hole %d exactly once",
                       holes, HOLE);
    return SF_OK;
}

static double chance(size_t length) {
    return length == 1 ? 1 : 0.5; /* there is only one sequence of length 1 */
}

static const char *const recipe[] = {"length", "40",    "epochs", "250", "blocks", "5", "lr",
                                     "0.1",    "gamma", "0.9995", "pad", "mask",   NULL};

const sf_task sf_task_missing_duplicate = {
    SF_TASK,
    .info = {.name = "missing-duplicate",
             .summary = "the bit erased from a word written twice",
             .tokens = "0 1 bits, 2 hole",
             .pad = PAD,
             .classes = 2,
             .shortest = 1,
             .longest = 65536,
             .recipe = recipe},
    .sample = sample,
    .solve = solve,
    .chance = chance,
};
