/* The epochs to convergence: one row per mechanism with one dot per seed and a bar at the median. */
#include <math.h>

#include "report/figure.h"

enum { WIDTH = SF_PANEL_WIDTH, ROW = 24, TOP = 10, BOTTOM = 42, NEVER = 48, MOST_BESIDE = 96 };

size_t sf_convergence_of(const sf_study *study, size_t run, bool *finished) {
    size_t count;
    (void)sf_study_curve(study, run, &count, finished);
    return sf_study_arrival(study, run);
}

static bool all_arrive(const sf_study *study, size_t from, size_t to) {
    for (size_t g = from; g < to; g++)
        if (sf_study_group(study, g)->converged < sf_study_group(study, g)->finished) return false;
    return true;
}

static sf_scale scale_of(const sf_study *study, size_t from, size_t to, double left) {
    double low = INFINITY, high = 1;
    for (size_t g = from; g < to; g++) {
        for (size_t m = 0; m < sf_study_group(study, g)->runs; m++) {
            bool finished;
            const double epoch = (double)sf_convergence_of(study, sf_study_member(study, g, m), &finished);
            if (!finished || epoch == 0) continue;
            low = fmin(low, epoch);
            high = fmax(high, epoch);
        }
    }
    const bool is_log = low >= 1 && high / low >= 10;
    return (sf_scale){.low = is_log ? low / 1.2 : 0,
                      .high = high * (is_log ? 1.2 : 1.05),
                      .is_log = is_log,
                      .from = left,
                      .to = all_arrive(study, from, to) ? WIDTH - 14 : WIDTH - NEVER - 42 /* half the label */};
}

typedef struct dot_row { /* where a group's dots and name go */
    double y, name_x, name_y;
    const char *anchor;
} dot_row;

static void draw_dot(FILE *out, const sf_study *study, size_t run, size_t epoch, double x, double y, const char *ink) {
    size_t count, trained;
    bool finished;
    const sf_planned_run *runs = sf_study_runs(study, &count);
    fprintf(out, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"", x, y);
    if (ink != NULL) fprintf(out, " fill=\"%s\" fill-opacity=\"0.55\"", ink);
    fprintf(out, "><title>seed %lld: ", (long long)runs[run].config.seed);
    sf_study_curve(study, run, &trained, &finished);
    if (epoch > 0)
        fprintf(out, "epoch %zu</title></circle>\n", epoch);
    else
        fprintf(out, "not reached in %zu epoch%s</title></circle>\n", trained, trained == 1 ? "" : "s");
}

static void draw_row(FILE *out, const sf_scale *x, const sf_study *study, size_t from, size_t group, dot_row row,
                     bool standalone) {
    const sf_group *g = sf_study_group(study, group);
    const size_t style = sf_figure_style(study, from, group);
    sf_series_begin(out, style, group - from, g->name);
    fprintf(out, " data-runs=\"%zu\"><text class=\"key\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", g->finished,
            row.name_x, row.name_y, row.anchor);
    sf_figure_name(out, g->name);
    fputs("</text>\n", out);
    if (g->finished > 0 && isfinite(g->quartiles[1])) {
        fprintf(out, "<path class=\"line median\" d=\"M%.1f %.1fV%.1f\"", sf_scale_place(x, g->quartiles[1]), row.y - 9,
                row.y + 9);
        if (standalone) fprintf(out, " fill=\"none\" stroke=\"%s\" stroke-width=\"2\"", sf_style_ink(style));
        fprintf(out, "><title>median: epoch %.4g</title></path>\n", g->quartiles[1]);
    }
    const size_t never = g->finished - g->converged; /* side by side around their label */
    const double spread = never > 1 ? fmin(6, 60 / (double)(never - 1)) : 0;
    double next = x->to + NEVER - 0.5 * spread * (double)(never > 0 ? never - 1 : 0);
    for (size_t m = 0; m < g->runs; m++) {
        bool finished;
        const size_t run = sf_study_member(study, group, m), epoch = sf_convergence_of(study, run, &finished);
        if (!finished) continue;
        draw_dot(out, study, run, epoch, epoch > 0 ? sf_scale_place(x, (double)epoch) : next, row.y,
                 standalone ? sf_style_ink(style) : NULL);
        if (epoch == 0) next += spread;
    }
    fputs("</g>\n", out);
}

/* "even-pairs: Epochs to 95 % training accuracy. Medians: full 20.5, topk:5 12, banded:5 not reached." */
static void describe(char out[SF_ABOUT_SIZE], const char *title, const sf_study *study, size_t from, size_t to) {
    size_t used =
        (size_t)snprintf(out, SF_ABOUT_SIZE, "%.300s: %s. Medians:", sf_study_group(study, from)->task, title);
    for (size_t g = from; g < to && used + SF_VARIANT_SIZE + 40 < SF_ABOUT_SIZE; g++) {
        const sf_group *group = sf_study_group(study, g);
        used += (size_t)snprintf(out + used, SF_ABOUT_SIZE - used, "%s %s ", g > from ? "," : "", group->name);
        if (group->finished > 0 && isfinite(group->quartiles[1]))
            used += (size_t)snprintf(out + used, SF_ABOUT_SIZE - used, "%.4g", group->quartiles[1]);
        else
            used += (size_t)snprintf(out + used, SF_ABOUT_SIZE - used, "%s",
                                     group->finished > 0 && isinf(group->quartiles[1]) ? "not reached" : "not known");
    }
    snprintf(out + used, SF_ABOUT_SIZE - used, ".");
}

sf_status sf_convergence_draw(FILE *out, const sf_figure *figure, const sf_study *study, size_t from, size_t to,
                              bool standalone) {
    if (to - from > SF_MOST_SERIES) to = from + SF_MOST_SERIES;
    double longest = 0;
    for (size_t g = from; g < to; g++) longest = fmax(longest, sf_name_width(sf_study_group(study, g)->name));
    const bool beside = longest < MOST_BESIDE; /* else names are above their rows */
    const double row_height = beside ? ROW : 1.7 * ROW;
    const int height = TOP + BOTTOM + 6 + (int)(row_height * (double)(to - from));
    const sf_scale x = scale_of(study, from, to, beside ? longest + 22 : 22), y = {.from = height - BOTTOM, .to = TOP};
    char title[SF_TITLE_SIZE], about[SF_ABOUT_SIZE];
    sf_figure_title(title, figure, study);
    describe(about, title, study, from, to);
    sf_svg_open(out, WIDTH, height, about, standalone);
    fputs(standalone ? ">\n" : " data-marks=\"\">\n", out);
    if (standalone) sf_svg_style_alone(out, WIDTH, height);
    sf_svg_axis(out, &x, &y, true, true, "");
    fprintf(out, "<text class=\"axis\" x=\"%d\" y=\"%.1f\" text-anchor=\"middle\">", WIDTH / 2, y.from + 34);
    sf_markup_text(out, title);
    fputs("</text>\n", out);
    if (!all_arrive(study, from, to))
        fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">not reached</text>\n",
                x.to + NEVER, y.from + 16);
    for (size_t g = from; g < to; g++) {
        const double bottom = TOP + row_height * (double)(g - from + 1), middle = bottom - 0.5 * ROW;
        const dot_row row = beside ? (dot_row){middle, x.from - 10, middle + 4, "end"}
                                   : (dot_row){middle, 12, middle - 0.6 * ROW, "start"};
        draw_row(out, &x, study, from, g, row, standalone);
    }
    fputs("</svg>\n", out);
    return SF_OK;
}
