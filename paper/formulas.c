/* Figures 21 and 22: no run, only the conditions. For each c1 = delta_h / delta_s the least c2 = Delta_h / delta_s that
 * satisfies condition W or X. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "paper/groups.h"

const double sf_paper_dispersions[SF_PAPER_DISPERSIONS] = {.25, .5, 1, 1.5, 2, 2.5, 3, 4, 8, 16, 32};
const double sf_paper_sink_ratios[SF_PAPER_SINK_RATIOS] = {1, 2, 4, 8, 16, 32};

static const double shown_c1[] = {0, 0.2, 0.4, 0.6, 0.8};

static sf_status add_edge(sf_paper *paper, sf_measure condition, double dispersion, double sink_ratio, const char *of) {
    sf_paper_row *row;
    SF_TRY(sf_paper_add_row(&row, paper, of, "", ""));
    row->word = SF_SHOWN;
    for (size_t i = 0; i < sizeof shown_c1 / sizeof *shown_c1; i++) {
        const double c2 = sf_condition_least_c2(condition, dispersion, sink_ratio, shown_c1[i]);
        const size_t used = strlen(row->numbers);
        char text[24] = "none";
        if (isfinite(c2)) snprintf(text, sizeof text, "%.3g", c2);
        snprintf(row->numbers + used, sizeof row->numbers - used, "%sc1 = %.1f: %s", i == 0 ? "least c2 at " : ", ",
                 shown_c1[i], text);
    }
    return SF_OK;
}

sf_status sf_rows_of_condition_w(sf_paper *paper, sf_store *store) {
    (void)store;
    for (size_t i = 0; i < SF_PAPER_DISPERSIONS; i++) {
        char of[64];
        snprintf(of, sizeof of, "delta_s = %g", sf_paper_dispersions[i]);
        SF_TRY(add_edge(paper, SF_CONDITION_W, sf_paper_dispersions[i], 0, of));
    }
    return SF_OK;
}

sf_status sf_rows_of_condition_x(sf_paper *paper, sf_store *store) {
    (void)store;
    for (size_t b = 0; b < SF_PAPER_SINK_RATIOS; b++)
        for (size_t i = 0; i < SF_PAPER_DISPERSIONS; i++) {
            char of[64];
            snprintf(of, sizeof of, "beta = %g, delta_s = %g", sf_paper_sink_ratios[b], sf_paper_dispersions[i]);
            SF_TRY(add_edge(paper, SF_CONDITION_X, sf_paper_dispersions[i], sf_paper_sink_ratios[b], of));
        }
    return SF_OK;
}
