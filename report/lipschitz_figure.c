#include <math.h>

#include "report/figure.h"
#include "report/quantile_lines.h"
#include "report/surface_figure.h"

_Static_assert((int)SF_LIPSCHITZ_QUANTILES == (int)SF_LINE_QUANTILES, "one line per quantile");
_Static_assert((int)SF_MOST_SURFACES <= (int)SF_MOST_SERIES, "every surface can be drawn");

bool sf_lipschitz_is_there(const sf_landscape *landscape) {
    for (size_t i = 0; i < sf_landscape_count(landscape); i++)
        for (size_t r = 0; r < SF_LIPSCHITZ_RADII; r++)
            if (sf_landscape_surface(landscape, i)->lipschitz.pairs[r] > 0) return true;
    return false;
}

/* The 95 % of the largest square, by which mechanisms are told apart. */
static void describe(char out[SF_ABOUT_SIZE], const sf_quantile_series *series, size_t count) {
    size_t used = (size_t)snprintf(out, SF_ABOUT_SIZE, "Estimated Lipschitz constants of the loss; 95 %% quantile:");
    for (size_t i = 0; i < count && used + SF_SURFACE_NAME_SIZE + 40 < SF_ABOUT_SIZE; i++) {
        const double last = series[i].values[SF_LIPSCHITZ_RADII - 1][2];
        if (isfinite(last))
            used += (size_t)snprintf(out + used, SF_ABOUT_SIZE - used, " %s %.3g;", series[i].name, last);
    }
    out[used - 1] = '.';
}

sf_status sf_lipschitz_draw(FILE *out, const sf_landscape *landscape, bool standalone) {
    const size_t count = sf_landscape_count(landscape);
    char names[SF_MOST_SURFACES][SF_SURFACE_NAME_SIZE], titles[SF_LIPSCHITZ_QUANTILES][16], about[SF_ABOUT_SIZE];
    sf_quantile_series series[SF_MOST_SURFACES];
    sf_quantile_figure figure = {.about = about,
                                 .subject = "Estimated Lipschitz constants of the loss in the largest square",
                                 .x_title = "radius r: the square |x|, |y| ≤ r",
                                 .y_title = "slope of the loss",
                                 .x_high = 0.7 * sf_landscape_surface(landscape, 0)->extent,
                                 .series = series,
                                 .count = count};
    for (size_t i = 0; i < count; i++) {
        const sf_surface *surface = sf_landscape_surface(landscape, i);
        sf_surface_name(names[i], landscape, i);
        series[i] = (sf_quantile_series){.name = names[i],
                                         .number = surface->series,
                                         .style = surface->style,
                                         .count = SF_LIPSCHITZ_RADII,
                                         .x = surface->lipschitz.radii,
                                         .values = (const double(*)[SF_LINE_QUANTILES])surface->lipschitz.quantiles};
    }
    for (size_t q = 0; q < SF_LIPSCHITZ_QUANTILES; q++) {
        snprintf(titles[q], sizeof titles[q], "%.0f %%", 100 * sf_lipschitz_shares[q]);
        figure.titles[q] = titles[q];
    }
    describe(about, series, count);
    sf_quantile_lines_draw(out, &figure, standalone);
    return SF_OK;
}
