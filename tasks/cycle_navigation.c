/* cycle-navigation: where does a walk on a ring of five places end?
 *
 *   x_1 .. x_n uniform on 0 left, 1 stay, 2 right        label = (sum of x_i - 1) mod 5, from 0 to 4
 *
 * Source: NNCH (Deletang et al., 2023). Lengths 1..65536, met exactly.
 * Example: 0 2 1 1 1 1 1 0 0 makes three steps left and one right, so its label is 3. */
#include "tasks/task.h"

enum { LEFT, STAY, RIGHT, STEPS, PLACES = 5 };

static void sample(int32_t *tokens, size_t *count, int32_t *label, size_t length, sf_draws *draws) {
    int32_t sum = 0;
    for (size_t i = 0; i < length; i++) {
        tokens[i] = (int32_t)sf_draw_below(draws, STEPS);
        sum += tokens[i] - STAY;
    }
    *count = length;
    *label = (sum % PLACES + PLACES) % PLACES;
}

/* Walks the ring itself, place by place. */
static sf_status solve(int32_t *label, const int32_t *tokens, size_t count) {
    static const int32_t next[PLACES][STEPS] = {{4, 0, 1}, {0, 1, 2}, {1, 2, 3}, {2, 3, 4}, {3, 4, 0}};
    int32_t place = 0;
    for (size_t i = 0; i < count; i++) {
        if (tokens[i] < LEFT || tokens[i] > RIGHT)
            return sf_fail(SF_BAD_INPUT,
                           "token %d at position %zu (from 0) is not a step; cycle-navigation takes 0 left, 1 stay "
                           "and 2 right",
                           tokens[i], i);
        place = next[place][tokens[i]];
    }
    *label = place;
    return SF_OK;
}

/* The walk's distribution step by step; after a few dozen steps it is uniform. */
static double chance(size_t length) {
    double share[PLACES] = {1}, most = 0;
    for (size_t i = 0; i < length && i < 1000; i++) {
        double before[PLACES];
        for (size_t place = 0; place < PLACES; place++) before[place] = share[place];
        for (size_t place = 0; place < PLACES; place++)
            share[place] =
                (before[place] + before[(place + 1) % PLACES] + before[(place + PLACES - 1) % PLACES]) / STEPS;
    }
    for (size_t place = 0; place < PLACES; place++) most = share[place] > most ? share[place] : most;
    return most;
}

static const char *const recipe[] = {"length", "40",    "epochs", "750", "blocks", "5", "lr",
                                     "0.1",    "gamma", "0.9995", "pad", "mask",   NULL};

const sf_task sf_task_cycle_navigation = {
    SF_TASK,
    .info = {.name = "cycle-navigation",
             .summary = "the end of a walk on a ring of five places",
             .tokens = "0 left, 1 stay, 2 right",
             .pad = 3,
             .classes = PLACES,
             .shortest = 1,
             .longest = 65536,
             .recipe = recipe},
    .sample = sample,
    .solve = solve,
    .chance = chance,
};
