/* Parts that are registered but break their rules at run time. */
#include <semfocus/plugin.h>

#include <math.h>

static size_t keep_none(uint32_t *kept, const sf_query *query) {
    (void)kept, (void)query;
    return 0;
}

static size_t keep_beyond(uint32_t *kept, const sf_query *query) {
    kept[0] = (uint32_t)query->query;
    kept[1] = 4000000000U;
    return 2;
}

static size_t keep_backwards(uint32_t *kept, const sf_query *query) {
    for (size_t j = 0; j < query->keys; j++) kept[j] = (uint32_t)(query->keys - 1 - j);
    return query->keys;
}

static size_t keep_too_many(uint32_t *kept, const sf_query *query) {
    for (size_t j = 0; j < query->keys; j++) kept[j] = (uint32_t)j;
    return 1000 * query->keys;
}

/* In order for k below 5. */
static size_t keep_some(uint32_t *kept, const sf_query *query) {
    kept[0] = (uint32_t)query->query;
    return query->k < 5;
}

#define SELECTOR_CALLED(variable, called, by, function)                                                                \
    static const sf_selector variable = {SF_SELECTOR, .name = (called), .summary = "misbehaves", .selects_by = (by),   \
                                         .keep = (function)}
SELECTOR_CALLED(none, "none", SF_BY_SCORE, keep_none);
SELECTOR_CALLED(beyond, "beyond", SF_BY_CHANCE, keep_beyond);
SELECTOR_CALLED(backwards, "backwards", SF_BY_VECTORS, keep_backwards);
SELECTOR_CALLED(many, "many", SF_BY_SCORE, keep_too_many);
SELECTOR_CALLED(fixed, "fixed", SF_BY_POSITION, keep_beyond);
static const sf_selector some = {
    SF_SELECTOR,      .name = "some", .summary = "misbehaves from k = 5 on", .takes_k = true, .selects_by = SF_BY_SCORE,
    .keep = keep_some};

static void weigh_nan(double *weights, const double *scores, const sf_weighing *row) {
    (void)scores;
    for (size_t j = 0; j < row->kept; j++) weights[j] = NAN;
}

static void weigh_equally(double *weights, const double *scores, const sf_weighing *row) {
    (void)scores;
    for (size_t j = 0; j < row->kept; j++) weights[j] = 1 / (double)row->kept;
}

static void backward_nan(double *dscores, const double *dweights, const double *weights, const double *scores,
                         const sf_weighing *row) {
    (void)dweights, (void)weights, (void)scores;
    for (size_t j = 0; j < row->kept; j++) dscores[j] = NAN;
}

static const sf_weighting not_finite = {SF_WEIGHTING, .name = "nan", .summary = "misbehaves", .weigh = weigh_nan,
                                        .weigh_backward = backward_nan};
static const sf_weighting not_finite_back = {SF_WEIGHTING, .name = "nan-back", .summary = "misbehaves",
                                             .weigh = weigh_equally, .weigh_backward = backward_nan};

#define TASK_CALLED(variable, called, function)                                                                        \
    static const sf_task variable = {SF_TASK,                                                                          \
                                     .info = {.name = (called),                                                        \
                                              .summary = "misbehaves",                                                 \
                                              .tokens = "0",                                                           \
                                              .pad = 2,                                                                \
                                              .classes = 2,                                                            \
                                              .shortest = 1,                                                           \
                                              .longest = 100},                                                         \
                                     .sample = (function), .solve = solve}

static sf_status solve(int32_t *label, const int32_t *tokens, size_t count) {
    (void)tokens, (void)count;
    *label = 0;
    return SF_OK;
}

static void sample_label(int32_t *tokens, size_t *count, int32_t *label, size_t length, sf_draws *draws) {
    (void)draws;
    for (size_t t = 0; t < length; t++) tokens[t] = 0;
    *count = length;
    *label = 2;
}

static void sample_token(int32_t *tokens, size_t *count, int32_t *label, size_t length, sf_draws *draws) {
    sample_label(tokens, count, label, length, draws);
    *label = 0;
    tokens[length - 1] = -1;
}

static void sample_count(int32_t *tokens, size_t *count, int32_t *label, size_t length, sf_draws *draws) {
    sample_label(tokens, count, label, length, draws);
    *label = 0;
    *count = length + 1000000;
}

TASK_CALLED(bad_label, "bad-label", sample_label);
TASK_CALLED(bad_token, "bad-token", sample_token);
TASK_CALLED(bad_count, "bad-count", sample_count);

static const sf_selector *const selectors[] = {&none, &beyond, &backwards, &many, &fixed, &some, NULL};
static const sf_weighting *const weightings[] = {&not_finite, &not_finite_back, NULL};
static const sf_task *const tasks[] = {&bad_label, &bad_token, &bad_count, NULL};
static const sf_plugin plugin = {SF_PLUGIN, .selectors = selectors, .weightings = weightings, .tasks = tasks};

const sf_plugin *sf_plugin_entry(const sf_plugin_host *host) {
    (void)host;
    return &plugin;
}
