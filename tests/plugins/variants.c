/* Tasks of a plug-in with one label per position: `latest`, the token before, and `sums`, which comes in variants.
 *
 * sums: symbols 0..V-1, V from --vocab (5 by default); the label of a position is the sum so far mod V. */
#include <semfocus/plugin.h>

static const sf_plugin_host *host;

static void sample_latest(int32_t *tokens, int32_t *labels, size_t *count, size_t length, sf_draws *draws) {
    *count = length;
    for (size_t t = 0; t < length; t++) {
        tokens[t] = (int32_t)host->draw_below(draws, 3);
        labels[t] = t > 0 ? tokens[t - 1] : -1;
    }
}

static sf_status solve_latest(int32_t *labels, const int32_t *tokens, size_t count) {
    for (size_t t = count; t-- > 0;) {
        if (tokens[t] < 0 || tokens[t] > 2) return host->fail(SF_BAD_INPUT, "token %d is not 0..2", (int)tokens[t]);
        labels[t] = t == 0 ? -1 : tokens[t - 1];
    }
    return SF_OK;
}

static int32_t modulus(const sf_task_options *options) {
    return options->vocab > 0 ? options->vocab : 5;
}

static sf_status adapt(sf_task_info *info, const sf_task_options *options) {
    if (modulus(options) < 2) return host->fail(SF_BAD_INPUT, "a modulus of %d is too small", (int)modulus(options));
    info->pad = info->classes = modulus(options);
    return SF_OK;
}

static void sample_sums(int32_t *tokens, int32_t *labels, size_t *count, size_t length, const sf_task_options *options,
                        sf_draws *draws) {
    int32_t sum = 0;
    *count = length;
    for (size_t t = 0; t < length; t++) {
        tokens[t] = (int32_t)host->draw_below(draws, (uint32_t)modulus(options));
        labels[t] = sum = (sum + tokens[t]) % modulus(options);
    }
}

static sf_status solve_sums(int32_t *labels, const int32_t *tokens, size_t count, const sf_task_options *options) {
    int64_t total = 0;
    for (size_t t = 0; t < count; t++) {
        total += tokens[t];
        labels[t] = (int32_t)(total % modulus(options));
    }
    return SF_OK;
}

static const char *const each[] = {"length", "8", "readout", "each", "epochs", "2", NULL};
static const char *const settings[] = {"vocab", NULL};

static const sf_task latest = {
    SF_TASK,
    .info = {.name = "latest",
             .summary = "the token before",
             .tokens = "0..2",
             .pad = 3,
             .classes = 3,
             .shortest = 2,
             .longest = 100,
             .recipe = each},
    .sample_each = sample_latest,
    .solve_each = solve_latest,
};
static const sf_task sums = {
    SF_TASK,
    .info = {.name = "sums",
             .summary = "the sum so far",
             .tokens = "0..V-1",
             .pad = 5,
             .classes = 5,
             .shortest = 1,
             .longest = 100,
             .recipe = each},
    .settings = settings,
    .adapt = adapt,
    .labels_each = true,
    .sample_with = sample_sums,
    .solve_with = solve_sums,
};

static const sf_task *const tasks[] = {&latest, &sums, NULL};
static const sf_plugin plugin = {SF_PLUGIN, .tasks = tasks};

const sf_plugin *sf_plugin_entry(const sf_plugin_host *given) {
    host = given;
    return &plugin;
}
