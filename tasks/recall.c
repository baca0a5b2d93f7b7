/* recall: pairs of keys and values are shown, then the keys are asked again; which value belongs to each?
 *
 *   k1 v1 k2 v2 ... kD vD, then N - 2D positions in which every key stands once and the rest is 0
 *   keys distinct, uniform on 1..V/2-1; values distinct, uniform on V/2..V-1
 *   key i is asked at position 2D + 2g, where its slot g of the (N-2D)/2 is drawn without replacement, key after key,
 *   with probability proportional to (g+1)^(a-1), a = 0.01: mostly soon, sometimes much later
 *   labels = at every asked key its value; no label elsewhere. To be learned by a causal model.
 *
 * Source: multi-query associative recall (MQAR) of Zoology (Arora et al., 2023). Settings: --pairs D, 1..4096;
 * --vocab V, at least 2D + 2; lengths 4D..65536, met exactly.
 * Example, with D = 2 and V = 16: 3 12 5 9 5 0 3 0 has the labels - - - - 9 - 12 -. */
#include "base/elementary.h"
#include "tasks/task.h"

enum { USUAL_VOCAB = 128, LONGEST = 65536, MOST_SLOTS = LONGEST / 2 };
static const double power = 0.01 - 1;

static int32_t vocab_of(const sf_task_options *options) {
    return options->vocab > 0 ? options->vocab : USUAL_VOCAB;
}

static sf_status adapt(sf_task_info *info, const sf_task_options *options) {
    const int32_t V = vocab_of(options), keys = V / 2 - 1;
    if (options->pairs > keys)
        return sf_fail_on(SF_BAD_INPUT, "pairs",
                          "pairs is %d but a vocabulary of %d has only %d keys; set vocab to %d or more",
                          options->pairs, V, keys > 0 ? keys : 0, 2 * options->pairs + 2);
    if (4 * (size_t)options->pairs > LONGEST)
        return sf_fail_on(SF_BAD_INPUT, "pairs", "pairs is %d but a sequence has at most %d tokens, four per pair",
                          options->pairs, LONGEST);
    info->pad = info->classes = V;
    info->shortest = 4 * (size_t)options->pairs;
    return SF_OK;
}

/* Writes `count` distinct numbers uniform on first..end-1 to every second token. */
static void draw_distinct(int32_t *tokens, size_t count, int32_t first, int32_t end, sf_draws *draws) {
    for (size_t i = 0; i < count; i++) {
        bool taken = true;
        while (taken) {
            tokens[2 * i] = first + (int32_t)sf_draw_below(draws, (uint32_t)(end - first));
            taken = false;
            for (size_t j = 0; j < i && !taken; j++) taken = tokens[2 * j] == tokens[2 * i];
        }
    }
}

/* One of the slots whose token is still 0. */
static size_t draw_slot(const int32_t *asked, const double *weights /* [slots] */, size_t slots, sf_draws *draws) {
    double left = 0;
    size_t last = 0;
    for (size_t g = 0; g < slots; g++) left += asked[2 * g] == 0 ? weights[g] : 0;
    left *= sf_draw_unit(draws);
    for (size_t g = 0; g < slots; g++) {
        if (asked[2 * g] != 0) continue;
        last = g;
        left -= weights[g];
        if (left < 0) break;
    }
    return last;
}

static void sample(int32_t *tokens, int32_t *labels, size_t *count, size_t length, const sf_task_options *options,
                   sf_draws *draws) {
    const int32_t V = vocab_of(options);
    const size_t D = (size_t)options->pairs, slots = (length - 2 * D) / 2;
    double weights[MOST_SLOTS];
    *count = length;
    draw_distinct(tokens, D, 1, V / 2, draws);
    draw_distinct(tokens + 1, D, V / 2, V, draws);
    for (size_t t = 2 * D; t < length; t++) tokens[t] = 0;
    for (size_t t = 0; t < length; t++) labels[t] = -1;
    for (size_t g = 0; g < slots; g++) weights[g] = sf_pow((double)(g + 1), power);
    for (size_t i = 0; i < D; i++) {
        const size_t at = 2 * D + 2 * draw_slot(tokens + 2 * D, weights, slots, draws);
        tokens[at] = tokens[2 * i];
        labels[at] = tokens[2 * i + 1];
    }
}

static sf_status out_of_place(const int32_t *tokens, size_t t, const char *rule) {
    return sf_fail(SF_BAD_INPUT, "token %d at position %zu (from 0) is out of place; recall has %s", tokens[t], t,
                   rule);
}

static sf_status check_pairs(const int32_t *tokens, size_t D, int32_t V) {
    for (size_t t = 0; t < 2 * D; t++) {
        const int32_t first = t % 2 == 0 ? 1 : V / 2, end = t % 2 == 0 ? V / 2 : V;
        if (tokens[t] < first || tokens[t] >= end)
            return out_of_place(tokens, t, "keys 1..V/2-1 and values V/2..V-1 in turn in its pairs");
        for (size_t j = 0; j < t && t % 2 == 0; j += 2)
            if (tokens[j] == tokens[t]) return out_of_place(tokens, t, "every key once in its pairs");
    }
    return SF_OK;
}

/* Looks every asked key up among the pairs. */
static sf_status solve(int32_t *labels, const int32_t *tokens, size_t count, const sf_task_options *options) {
    const size_t D = (size_t)options->pairs;
    sf_task_info info = {.shortest = 0};
    size_t asked = 0;
    SF_TRY(adapt(&info, options));
    if (count < info.shortest)
        return sf_fail(SF_BAD_INPUT,
                       "a sequence of %zu tokens is too short for %zu pairs; recall has four or more each", count, D);
    SF_TRY(check_pairs(tokens, D, info.pad));
    for (size_t t = 0; t < count; t++) {
        size_t pair = 0, before = 2 * D;
        labels[t] = -1;
        if (t < 2 * D || tokens[t] == 0) continue;
        while (pair < D && tokens[2 * pair] != tokens[t]) pair++;
        while (before < t && tokens[before] != tokens[t]) before++;
        if (pair == D || before < t || t % 2 == 1)
            return out_of_place(tokens, t, "every key of its pairs once behind them, at an even position, and else 0");
        labels[t] = tokens[2 * pair + 1];
        asked++;
    }
    if (asked == D) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "%zu of %zu keys are asked; recall asks every key once", asked, D);
}

static double chance(size_t length, const sf_task_options *options) {
    (void)length;
    const int32_t V = vocab_of(options), values = V - V / 2;
    return 1 / (double)values;
}

static const char *const settings[] = {"vocab", "pairs", NULL};
static const char *const recipe[] = {"length", "64",     "vocab",  "128",       "causal", "yes", "readout",
                                     "each",   "blocks", "2",      "optimizer", "adam",   "lr",  "0.003",
                                     "batch",  "32",     "epochs", "10",        NULL};

const sf_task sf_task_recall = {
    SF_TASK,
    .info = {.name = "recall",
             .summary = "the value that was shown with each key that is asked again",
             .tokens = "0 nothing, 1..V/2-1 keys, V/2..V-1 values",
             .pad = USUAL_VOCAB,
             .classes = USUAL_VOCAB,
             .shortest = 32,
             .longest = LONGEST,
             .recipe = recipe},
    .settings = settings,
    .adapt = adapt,
    .labels_each = true,
    .sample_with = sample,
    .solve_with = solve,
    .chance_with = chance,
};
