/* flip-flop: commands write a bit or ignore one; which bit was written last?
 *
 *   c1 b1 c2 b2 ... cm bm READ: c1 = WRITE, every other c is WRITE with probability w and else IGNORE; fair bits
 *   label = the bit of the last WRITE, one label per sequence
 *
 * Source: flip-flop language modeling (Liu et al., 2023); w = 0.1 leaves few writes, w = 0.8 many. Setting: --writes w,
 * 0..1. Lengths 3..65536; an even length is lowered by one.
 * Example: WRITE 1 IGNORE 0 READ, the ids 2 1 3 0 4, has the label 1. */
#include "tasks/task.h"

enum { WRITE = 2, IGNORE, READ, PAD };

static void sample(int32_t *tokens, int32_t *labels, size_t *count, size_t length, const sf_task_options *options,
                   sf_draws *draws) {
    *count = length - (length % 2 == 0);
    for (size_t t = 0; t + 1 < *count; t += 2) {
        const bool writes = sf_draw_unit(draws) < options->writes || t == 0;
        tokens[t] = writes ? WRITE : IGNORE;
        tokens[t + 1] = (int32_t)sf_draw_below(draws, 2);
        if (writes) labels[0] = tokens[t + 1];
    }
    tokens[*count - 1] = READ;
}

static sf_status check(const int32_t *tokens, size_t count) {
    for (size_t t = 0; t < count; t++) {
        const bool is_bit = tokens[t] == 0 || tokens[t] == 1, is_command = tokens[t] == WRITE || tokens[t] == IGNORE;
        if (t == 0 ? tokens[t] == WRITE : t == count - 1 ? tokens[t] == READ : t % 2 == 0 ? is_command : is_bit)
            continue;
        return sf_fail(SF_BAD_INPUT,
                       "token %d at position %zu (from 0) is out of place; flip-flop has WRITE 2 or IGNORE 3 and a bit "
                       "in turn, WRITE first and READ 4 last",
                       tokens[t], t);
    }
    if (count >= 3 && count % 2 == 1) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "a sequence of %zu tokens is not a flip-flop; it has pairs and one READ", count);
}

/* Goes back from the end to the last WRITE. */
static sf_status solve(int32_t *labels, const int32_t *tokens, size_t count, const sf_task_options *options) {
    (void)options;
    SF_TRY(check(tokens, count));
    size_t t = count - 3;
    while (tokens[t] != WRITE) t -= 2;
    labels[0] = tokens[t + 1];
    return SF_OK;
}

static const char *const settings[] = {"writes", NULL};
static const char *const recipe[] = {"length", "41",    "causal", "yes", "readout", "last", "optimizer", "adam",
                                     "lr",     "0.001", "epochs", "20",  "blocks",  "2",    NULL};

const sf_task sf_task_flip_flop = {
    SF_TASK,
    .info = {.name = "flip-flop",
             .summary = "the bit that was written last",
             .tokens = "0 1 bits, 2 WRITE, 3 IGNORE, 4 READ",
             .pad = PAD,
             .classes = 2,
             .shortest = 3,
             .longest = 65536,
             .recipe = recipe},
    .settings = settings,
    .sample_with = sample,
    .solve_with = solve,
};
