#include "measure/conditions.h"

#include <math.h>
#include <stdbool.h>

#include "base/elementary.h"

static bool is_unusable(double *out, const sf_condition_input *in) {
    *out = isnan(in->dispersion) || isnan(in->kept_dispersion) || isnan(in->separation) ? NAN : INFINITY;
    return !(in->dispersion > 0) || !(in->separation > 0) || isnan(*out);
}

/* With c1 = kept / all and c2 = separation / all:  c1 + ln(2 (1 + 1 / (c2 all))) / all. */
double sf_condition_w(const sf_condition_input *in) {
    double unusable;
    if (is_unusable(&unusable, in)) return unusable;
    return (in->kept_dispersion + M_LN2 + sf_log1p(1 / in->separation)) / in->dispersion;
}

/* c1 + ln(all (1 + beta)(1 + 1 / (c2 all)) + beta) / all - ln(all + 1) / all. */
double sf_condition_x(const sf_condition_input *in) {
    double unusable;
    if (isnan(in->sink_ratio)) return NAN;
    if (is_unusable(&unusable, in)) return unusable;
    const double all = in->dispersion, beta = in->sink_ratio;
    const double grown = all * (1 + beta) * (1 + 1 / in->separation) + beta;
    return (in->kept_dispersion + sf_log(grown) - sf_log1p(all)) / all;
}

double sf_ln_stability_fixed(double dispersion, size_t keys) {
    return dispersion - sf_log((double)keys);
}

double sf_ln_stability_by_score(double dispersion, double separation, size_t k) {
    return dispersion - sf_log((double)k) + sf_log1p(1 / separation);
}
