#include "report/condition_figure.h"

#include <math.h>

#include "report/figure.h"
#include "report/surface_figure.h"
#include "report/svg.h"

enum {
    STEPS = 200, /* of c1, from 0 to 1 */
    LEFT = 64,
    TOP = 30,
    GAP = 56,
    ROW_GAP = 64,
    SIDE = 250, /* of one of six panels */
    LONE_WIDTH = 560,
    LONE_HEIGHT = 380,
    KEY_ROW = 24,
    KEYS_IN_A_ROW = 4,
    KEY_WIDTH = 140
};
static const double lowest_c2 = 1e-4, highest_c2 = 1; /* delta_h + Delta_h is at most delta_s */

static double c1_at(size_t step) {
    return (double)step / STEPS;
}

static void draw_line(FILE *out, sf_measure condition, size_t i, double sink_ratio, const sf_scale *x,
                      const sf_scale *y) {
    double c1[STEPS + 1], c2[STEPS + 1];
    size_t count = 0;
    for (size_t step = 0; step <= STEPS; step++) {
        const double least = sf_condition_least_c2(condition, sf_paper_dispersions[i], sink_ratio, c1_at(step));
        if (least < lowest_c2 || least > highest_c2) continue; /* it rises with c1: the rest is one piece */
        c1[count] = c1_at(step);
        c2[count++] = least;
    }
    if (count == 0) return;
    fputs("<path class=\"line\" d=\"", out);
    sf_svg_path(out, x, y, c1, c2, count);
    fputc('"', out);
    sf_style_paint(out, i, false, true);
    fputs("/>\n", out);
}

static void draw_panel(FILE *out, sf_measure condition, size_t beta, int panels) {
    const size_t row = beta / 3, column = beta % 3;
    const double width = panels == 1 ? LONE_WIDTH : SIDE, height = panels == 1 ? LONE_HEIGHT : SIDE;
    const double left = LEFT + (double)column * (SIDE + GAP), top = TOP + (double)row * (SIDE + ROW_GAP);
    const sf_scale x = {.low = 0, .high = 1, .from = left, .to = left + width};
    const sf_scale y = {.low = lowest_c2, .high = highest_c2, .is_log = true, .from = top + height, .to = top};
    sf_svg_axis(out, &x, &y, true, false, "c1 = δh / δs");
    sf_svg_axis(out, &x, &y, false, false, column == 0 ? "least c2 = Δh / δs" : "");
    if (panels > 1)
        fprintf(out, "<text class=\"key\" x=\"%.1f\" y=\"%.1f\">β = %g</text>\n", left, top - 8,
                sf_paper_sink_ratios[beta]);
    for (size_t i = 0; i < SF_PAPER_DISPERSIONS; i++) draw_line(out, condition, i, sf_paper_sink_ratios[beta], &x, &y);
}

static void draw_keys(FILE *out, int top) {
    for (int i = 0; i < SF_PAPER_DISPERSIONS; i++) {
        const int x = LEFT + i % KEYS_IN_A_ROW * KEY_WIDTH, y = top + i / KEYS_IN_A_ROW * KEY_ROW;
        fprintf(out, "<path d=\"M%d %dh26\"", x, y);
        sf_style_paint(out, (size_t)i, false, true);
        fprintf(out, "/><text class=\"key\" x=\"%d\" y=\"%d\">δs = %g</text>\n", x + 33, y + 4,
                sf_paper_dispersions[i]);
    }
}

void sf_condition_draw(FILE *out, sf_measure condition) {
    const int panels = condition == SF_CONDITION_W ? 1 : SF_PAPER_SINK_RATIOS;
    const int width = panels == 1 ? LEFT + LONE_WIDTH + 20 : LEFT + 3 * SIDE + 2 * GAP + 20;
    const int bottom = panels == 1 ? TOP + LONE_HEIGHT + 60 : TOP + 2 * SIDE + ROW_GAP + 60;
    const int rows = (SF_PAPER_DISPERSIONS + KEYS_IN_A_ROW - 1) / KEYS_IN_A_ROW;
    sf_surface_open_svg(out, width, bottom + (rows + 1) * KEY_ROW,
                        panels == 1 ? "the least c2 that satisfies condition W, for each c1"
                                    : "the least c2 that satisfies condition X, for each c1",
                        true);
    for (int beta = 0; beta < panels; beta++) draw_panel(out, condition, (size_t)beta, panels);
    draw_keys(out, bottom);
    fprintf(out,
            "<text class=\"tick\" x=\"%d\" y=\"%d\">the condition holds above the line of its δs; without a line, it "
            "holds for no c2 "
            "up to 1</text>\n",
            LEFT, bottom + rows * KEY_ROW);
    fputs("</svg>\n", out);
}

/* An empty field: no c2 satisfies it. */
void sf_condition_write_csv(FILE *out, sf_measure condition) {
    const size_t panels = condition == SF_CONDITION_W ? 1 : SF_PAPER_SINK_RATIOS;
    fputs(condition == SF_CONDITION_W ? "delta_s,c1,least_c2\n" : "beta,delta_s,c1,least_c2\n", out);
    for (size_t beta = 0; beta < panels; beta++)
        for (size_t i = 0; i < SF_PAPER_DISPERSIONS; i++)
            for (size_t step = 0; step <= STEPS; step++) {
                const double least =
                    sf_condition_least_c2(condition, sf_paper_dispersions[i], sf_paper_sink_ratios[beta], c1_at(step));
                if (panels > 1) fprintf(out, "%g,", sf_paper_sink_ratios[beta]);
                fprintf(out, "%g,%g,", sf_paper_dispersions[i], c1_at(step));
                if (isfinite(least)) fprintf(out, "%.10g", least);
                fputc('\n', out);
            }
}
