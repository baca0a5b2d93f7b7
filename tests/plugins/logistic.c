/* logistic[:S]: each kept score by itself, w = 1 / (1 + e^(S - s)): a weighting that the theory of softmax says nothing
 * about. */
#include <semfocus/plugin.h>

static const sf_plugin_host *host;

static void weigh(double *weights, const double *scores, const sf_weighing *row) {
    for (size_t j = 0; j < row->kept; j++) weights[j] = 1 / (1 + host->exp(row->arguments[0] - scores[j]));
}

static void weigh_backward(double *dscores, const double *dweights, const double *weights, const double *scores,
                           const sf_weighing *row) {
    (void)scores;
    for (size_t j = 0; j < row->kept; j++) dscores[j] = dweights[j] * weights[j] * (1 - weights[j]);
}

static const sf_weighting logistic = {
    SF_WEIGHTING,
    .name = "logistic",
    .summary = "every kept score by itself",
    .arguments = {{.letter = "S", .meaning = "the shift", .low = -100, .high = 100, .initial = 0}},
    .weigh = weigh,
    .weigh_backward = weigh_backward,
};

static const sf_weighting *const weightings[] = {&logistic, NULL};
static const sf_plugin plugin = {SF_PLUGIN, .weightings = weightings};

const sf_plugin *sf_plugin_entry(const sf_plugin_host *given) {
    host = given;
    return &plugin;
}
