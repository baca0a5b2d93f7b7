#include "study/comparison.h"

#include <math.h>
#include <string.h>

#include "base/elementary.h"
#include "measure/conditions.h"

bool sf_same_but_for_the_mechanism(const sf_config *a, const sf_config *b) {
    const sf_setting *setting;
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++) {
        const bool counts = sf_setting_changes_numbers(setting, a) || sf_setting_changes_numbers(setting, b);
        if (!counts || strcmp(setting->name, "attention") == 0) continue;
        char left[SF_TEXT_SIZE], right[SF_TEXT_SIZE];
        sf_config_text(left, a, setting);
        sf_config_text(right, b, setting);
        if (strcmp(left, right) != 0) return false;
    }
    return true;
}

/* NaN if it is. */
static double at_least_separated(double separation) {
    return separation < SF_LEAST_SEPARATION ? SF_LEAST_SEPARATION : separation;
}

void sf_compare_quantiles(sf_comparison out[SF_QUANTILES], const sf_compared *quantiles) {
    for (size_t i = 0; i < SF_QUANTILES; i++) {
        const sf_condition_input input = {
            .dispersion = quantiles->dispersion[i],
            .kept_dispersion = quantiles->kept_dispersion[i],
            .separation = at_least_separated(quantiles->separation[SF_QUANTILES - 1 - i]),
            .sink_ratio = quantiles->in_degree[i] / quantiles->k,
        };
        out[i] = (sf_comparison){.percent = sf_quantile_percents[i],
                                 .dispersion = input.dispersion,
                                 .kept_dispersion = input.kept_dispersion,
                                 .separation = input.separation,
                                 .in_degree = quantiles->in_degree[i],
                                 .sink_ratio = input.sink_ratio,
                                 .w = sf_condition_w(&input),
                                 .x = sf_condition_x(&input)};
    }
}

double sf_condition_limit(sf_measure condition, double dispersion, double sink_ratio, double c2) {
    const sf_condition_input at_zero = {
        .dispersion = dispersion, .separation = c2 * dispersion, .sink_ratio = sink_ratio};
    return 1 - (condition == SF_CONDITION_W ? sf_condition_w : sf_condition_x)(&at_zero);
}

/* Both conditions solved for c2: W is  c2 > 1 / (all (e^(all (1 - c1)) / 2 - 1)),  and X is
 * c2 > (1 + beta) / ((all + 1) e^(all (1 - c1)) - beta - all (1 + beta)),  where these are positive. */
double sf_condition_least_c2(sf_measure condition, double dispersion, double sink_ratio, double c1) {
    const double grown = sf_exp(dispersion * (1 - c1));
    const double above = condition == SF_CONDITION_W
                             ? dispersion * (grown / 2 - 1)
                             : ((dispersion + 1) * grown - sink_ratio) / (1 + sink_ratio) - dispersion;
    return above > 0 ? 1 / above : INFINITY;
}
