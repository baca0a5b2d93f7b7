/* stack-manipulation: what lies on top of a stack after some pushes and pops?
 *
 *   k uniform on 1..n-1; k fair bits, the initial stack with its top last; n-k uniform actions
 *   POP 2 (nothing on an empty stack), PUSH 0 3, PUSH 1 4        label = the top bit, 2 if the stack is empty
 *
 * Source: NNCH (Deletang et al., 2023). Lengths 1..65536, met exactly; length 1 is one bit and its own label.
 * Example: 0 1 3 2 2 pushes a 0 on 01 and pops twice, which leaves 0: its label is 0. */
#include "tasks/task.h"

enum { POP = 2, PUSH_0, PUSH_1, EMPTY = 2, LONGEST = 65536 };

static void sample(int32_t *tokens, size_t *count, int32_t *label, size_t length, sf_draws *draws) {
    unsigned char stack[LONGEST];
    const size_t initial = length == 1 ? 1 : 1 + sf_draw_below(draws, (uint32_t)(length - 1));
    size_t height = 0;
    for (size_t i = 0; i < initial; i++) {
        const uint32_t bit = sf_draw_below(draws, 2);
        tokens[i] = (int32_t)bit;
        stack[height++] = (unsigned char)bit;
    }
    for (size_t i = initial; i < length; i++) {
        tokens[i] = POP + (int32_t)sf_draw_below(draws, 3);
        if (tokens[i] != POP)
            stack[height++] = tokens[i] == PUSH_1;
        else if (height > 0)
            height--;
    }
    *count = length;
    *label = height == 0 ? EMPTY : stack[height - 1];
}

/* Reads backwards: a pop removes the nearest earlier push or bit that no later pop removes, so the first one that is
 * left over is the top. */
static sf_status solve(int32_t *label, const int32_t *tokens, size_t count) {
    size_t initial = 0;
    while (initial < count && (tokens[initial] == 0 || tokens[initial] == 1)) initial++;
    if (initial == 0)
        return sf_fail(SF_BAD_INPUT, "token %d is not a cell; a stack-manipulation starts with at least one bit 0 or 1",
                       tokens[0]);
    if (initial == count && count > 1)
        return sf_fail(SF_BAD_INPUT, "%zu bits without an action; end in at least one POP 2, PUSH 3 or PUSH 4", count);
    for (size_t i = initial; i < count; i++)
        if (tokens[i] < POP || tokens[i] > PUSH_1)
            return sf_fail(SF_BAD_INPUT,
                           "token %d at position %zu (from 0) is not an action; after the first action only 2, 3 and 4 "
                           "may follow",
                           tokens[i], i);
    size_t pops = 0;
    for (size_t i = count; i-- > 0;) {
        if (tokens[i] == POP) {
            pops++;
        } else if (pops > 0) {
            pops--;
        } else {
            *label = tokens[i] == 1 || tokens[i] == PUSH_1;
            return SF_OK;
        }
    }
    *label = EMPTY;
    return SF_OK;
}

/* 0 and 1 are equally frequent; the rest is the share of the empty stack, which vanishes for long sequences. empty[h]
 * is the probability that a stack of height h is empty after the actions so far. */
static double chance(size_t length) {
    enum { MOST = 400 };
    double empty[MOST + 2] = {1}, sum = 0;
    if (length == 1 || length > MOST) return 0.5;
    for (size_t actions = 1; actions < length; actions++) {
        double below = empty[0];
        for (size_t height = 0; height <= length; height++) {
            const double here = empty[height];
            empty[height] = (below + 2 * empty[height + 1]) / 3;
            below = here;
        }
        sum += empty[length - actions];
    }
    const double share = sum / (double)(length - 1), other = 0.5 * (1 - share);
    return share > other ? share : other;
}

static const char *const recipe[] = {"length", "40",    "epochs", "200", "blocks", "5", "lr",
                                     "0.1",    "gamma", "0.9995", "pad", "mask",   NULL};

const sf_task sf_task_stack_manipulation = {
    SF_TASK,
    .info = {.name = "stack-manipulation",
             .summary = "the top of a stack after pushes and pops, 2 if it is empty",
             .tokens = "0 1 cells, 2 POP, 3 PUSH 0, 4 PUSH 1",
             .pad = 5,
             .classes = 3,
             .shortest = 1,
             .longest = LONGEST,
             .recipe = recipe},
    .sample = sample,
    .solve = solve,
    .chance = chance,
};
