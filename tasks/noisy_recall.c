/* noisy-recall: pairs of a key and its value between tokens of noise; what follows a key that was seen before?
 *
 *   from left to right until N tokens are written: with probability q one noise token, else a key and its value
 *   8 keys, 8 values and 16 noise tokens, uniform; every sequence has a map of its own from keys to values, each value
 *   uniform and independent of the others. Where only one token is left, a key stands without its value.
 *   labels = at every key that was seen before, its value; no label elsewhere. To be learned by a causal model.
 *
 * Source: noisy in-context recall of MAD (Poli et al., 2024). Setting: --noise q, 0..0.99. Lengths 3..65536, met
 * exactly.
 * Example: 3 11 20 0 8 3 11 has the label 11 at its last 3 and no other. */
#include "tasks/task.h"

enum { KEYS = 8, VALUES = 8, NOISE = 16, FIRST_VALUE = KEYS, FIRST_NOISE = KEYS + VALUES, PAD = FIRST_NOISE + NOISE };

static void sample(int32_t *tokens, int32_t *labels, size_t *count, size_t length, const sf_task_options *options,
                   sf_draws *draws) {
    int32_t values[KEYS];
    bool seen[KEYS] = {false};
    for (size_t k = 0; k < KEYS; k++) values[k] = FIRST_VALUE + (int32_t)sf_draw_below(draws, VALUES);
    *count = length;
    for (size_t t = 0; t < length; t++) {
        labels[t] = -1;
        if (sf_draw_unit(draws) < options->noise) {
            tokens[t] = FIRST_NOISE + (int32_t)sf_draw_below(draws, NOISE);
            continue;
        }
        const uint32_t key = sf_draw_below(draws, KEYS);
        tokens[t] = (int32_t)key;
        if (seen[key]) labels[t] = values[key];
        seen[key] = true;
        if (++t == length) break;
        tokens[t] = values[key];
        labels[t] = -1;
    }
}

/* Searches the tokens before each key for the same key. */
static sf_status solve(int32_t *labels, const int32_t *tokens, size_t count, const sf_task_options *options) {
    (void)options;
    for (size_t t = 0; t < count; t++) {
        labels[t] = -1;
        const bool is_noise = tokens[t] >= FIRST_NOISE && tokens[t] < PAD;
        const bool is_value = tokens[t] >= FIRST_VALUE && tokens[t] < FIRST_NOISE;
        const bool follows_key = t > 0 && tokens[t - 1] >= 0 && tokens[t - 1] < KEYS;
        if (tokens[t] < 0 || tokens[t] >= PAD || is_value != follows_key)
            return sf_fail(SF_BAD_INPUT,
                           "token %d at position %zu (from 0) is out of place; noisy-recall has noise 16..31, and keys "
                           "0..7 each followed by a value 8..15",
                           tokens[t], t);
        if (is_noise) continue;
        const int32_t key = is_value ? tokens[t - 1] : tokens[t];
        const size_t at = is_value ? t - 1 : t;
        size_t before = 0;
        while (before < at && tokens[before] != key) before++;
        if (before == at) continue;
        if (!is_value)
            labels[t] = tokens[before + 1];
        else if (tokens[before + 1] != tokens[t])
            return sf_fail(
                SF_BAD_INPUT,
                "key %d has the value %d at position %zu (from 0) but %d before; a key of noisy-recall keeps "
                "its value",
                key, tokens[t], t, tokens[before + 1]);
    }
    return SF_OK;
}

static double chance(size_t length, const sf_task_options *options) {
    (void)length, (void)options;
    return 1.0 / VALUES;
}

static const char *const settings[] = {"noise", NULL};
static const char *const recipe[] = {"length",    "128",  "causal", "yes",   "readout", "each",
                                     "optimizer", "adam", "lr",     "0.003", "batch",   "32",
                                     "blocks",    "2",    "epochs", "30",    NULL};

const sf_task sf_task_noisy_recall = {
    SF_TASK,
    .info = {.name = "noisy-recall",
             .summary = "the value of each key that was seen before, between noise",
             .tokens = "0..7 keys, 8..15 values, 16..31 noise",
             .pad = PAD,
             .classes = FIRST_NOISE,
             .shortest = 3,
             .longest = 65536,
             .recipe = recipe},
    .settings = settings,
    .labels_each = true,
    .sample_with = sample,
    .solve_with = solve,
    .chance_with = chance,
};
