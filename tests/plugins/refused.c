/* A plug-in that is in order but for one thing, which -D says. */
#include <semfocus/plugin.h>

#ifndef PLUGIN
#define PLUGIN
#endif
#ifndef SELECTOR
#define SELECTOR
#endif
#ifndef WEIGHTING
#define WEIGHTING
#endif
#ifndef TASK
#define TASK
#endif
#ifndef INFO
#define INFO
#endif
#ifndef TABLE
#define TABLE &plugin
#endif

static inline size_t keep(uint32_t *kept, const sf_query *query) {
    kept[0] = (uint32_t)query->query;
    return 1;
}

static inline void weigh(double *weights, const double *scores, const sf_weighing *row) {
    for (size_t j = 0; j < row->kept; j++) weights[j] = scores[j];
}

static inline void weigh_backward(double *dscores, const double *dweights, const double *weights, const double *scores,
                                  const sf_weighing *row) {
    (void)weights, (void)scores;
    for (size_t j = 0; j < row->kept; j++) dscores[j] = dweights[j];
}

static inline void weigh_matrix(double *weights, const double *scores, const sf_weighing_matrix *rows) {
    (void)weights, (void)scores, (void)rows;
}

static inline void sample(int32_t *tokens, size_t *count, int32_t *label, size_t length, sf_draws *draws) {
    (void)draws;
    for (size_t t = 0; t < length; t++) tokens[t] = 0;
    *count = length;
    *label = 0;
}

static inline void sample_each(int32_t *tokens, int32_t *labels, size_t *count, size_t length, sf_draws *draws) {
    (void)labels, (void)draws;
    for (size_t t = 0; t < length; t++) tokens[t] = 0;
    *count = length;
}

static inline sf_status solve(int32_t *label, const int32_t *tokens, size_t count) {
    (void)tokens, (void)count;
    *label = 0;
    return SF_OK;
}

static inline void sample_with(int32_t *tokens, int32_t *labels, size_t *count, size_t length,
                               const sf_task_options *options, sf_draws *draws) {
    (void)options;
    sample(tokens, count, labels, length, draws);
}

static inline double chance_of_two(size_t length) {
    (void)length;
    return 2;
}

static const sf_selector selector = {
    SF_SELECTOR, .name = "mine", .summary = "a selector", .selects_by = SF_BY_POSITION, .keep = keep, SELECTOR};
static const sf_weighting weighting = {
    SF_WEIGHTING, .name = "mine", .summary = "a weighting", .weigh = weigh, .weigh_backward = weigh_backward,
    WEIGHTING};
static const sf_task task = {SF_TASK,
                             .info = {.name = "mine",
                                      .summary = "a task",
                                      .tokens = "0",
                                      .pad = 1,
                                      .classes = 2,
                                      .shortest = 1,
                                      .longest = 100,
                                      INFO},
                             .sample = sample, .solve = solve, TASK};
static const sf_score_transform transform = {SF_SCORE_TRANSFORM, .name = "mine"};

static const sf_selector *const selectors[] = {&selector, NULL};
static const sf_selector *const twice[] = {&selector, &selector, NULL};
static const sf_weighting *const weightings[] = {&weighting, NULL};
static const sf_task *const tasks[] = {&task, NULL};
static const sf_score_transform *const transforms[] = {&transform, NULL};
static const void *const all[] = {twice,
                                  transforms,
                                  (const void *)weigh_matrix,
                                  (const void *)sample_each,
                                  (const void *)sample_with,
                                  (const void *)chance_of_two}; /* each is one case's */

static const sf_plugin plugin = {SF_PLUGIN, .selectors = selectors, .weightings = weightings, .tasks = tasks, PLUGIN};

#ifndef NO_ENTRY
const sf_plugin *sf_plugin_entry(const sf_plugin_host *host) {
    return host != NULL && all[0] != NULL ? TABLE : NULL;
}
#endif
