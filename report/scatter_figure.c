#include "report/scatter_figure.h"

#include <math.h>
#include <string.h>

#include "report/figure.h"
#include "report/surface_figure.h"
#include "report/svg.h"

enum { LEFT = 64, TOP = 20, WIDTH = 560, HEIGHT = 360, RIGHT = 150, KEY_ROW = 24 };

/* With some room around the values; logarithmic where they span much. */
static sf_scale scale_of(const sf_paper_scatter *scatter, bool of_x) {
    double low = NAN, high = NAN;
    for (size_t i = 0; i < scatter->count; i++) {
        const double value = of_x ? scatter->points[i].x : scatter->points[i].y;
        low = fmin(low, value);
        high = fmax(high, value);
    }
    if (low > 0 && high / low >= 10) return (sf_scale){.low = low / 1.3, .high = high * 1.3, .is_log = true};
    const double room = high > low ? 0.1 * (high - low) : 0.5;
    return (sf_scale){.low = low - room, .high = high + room};
}

static size_t series_of(const sf_paper_scatter *scatter, size_t i) {
    size_t series = 0;
    for (size_t j = 0; j < i; j++) {
        if (strcmp(scatter->points[j].series, scatter->points[i].series) == 0) return series_of(scatter, j);
        bool before = false;
        for (size_t k = 0; k < j; k++) before |= strcmp(scatter->points[k].series, scatter->points[j].series) == 0;
        series += !before;
    }
    return series;
}

/* Later series are filled, the first is hollow: they differ without colours, too. */
static void print_mark(FILE *out, double x, double y, size_t series) {
    fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"%s\" stroke=\"%s\" stroke-width=\"2\"/>", x, y,
            series == 0 ? "#fff" : sf_style_ink(series + 1), sf_style_ink(series + 1));
}

/* Points upward: the value is larger than where it stands. */
static void print_censored_mark(FILE *out, double x, double y, size_t series) {
    fprintf(out, "<path d=\"M%.1f %.1f l6 10 h-12 z\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>", x, y - 6,
            sf_style_ink(series + 1));
}

static void draw_point(FILE *out, const sf_paper_point *point, size_t series, const sf_scale *x, const sf_scale *y) {
    const double at_x = sf_scale_place(x, point->x), at_y = sf_scale_place(y, point->y);
    (point->censored ? print_censored_mark : print_mark)(out, at_x, at_y, series);
    fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\">", at_x + 9, at_y - 6);
    sf_figure_name(out, point->name);
    fputs("</text>\n", out);
}

static bool any_censored(const sf_paper_scatter *scatter) {
    for (size_t i = 0; i < scatter->count; i++)
        if (scatter->points[i].censored) return true;
    return false;
}

void sf_scatter_draw(FILE *out, const sf_paper_scatter *scatter) {
    sf_scale x = scale_of(scatter, true), y = scale_of(scatter, false);
    size_t most = 0;
    x.from = LEFT;
    x.to = LEFT + WIDTH;
    y.from = TOP + HEIGHT;
    y.to = TOP;
    for (size_t i = 0; i < scatter->count; i++)
        if (series_of(scatter, i) > most) most = series_of(scatter, i);
    const int key_rows = (int)(most + 1) + any_censored(scatter);
    sf_surface_open_svg(out, LEFT + WIDTH + RIGHT, TOP + HEIGHT + 60 + KEY_ROW * key_rows, scatter->y_title, true);
    sf_svg_axis(out, &x, &y, true, false, scatter->x_title);
    sf_svg_axis(out, &x, &y, false, false, scatter->y_title);
    for (size_t i = 0, shown = 0; i < scatter->count; i++) {
        const size_t series = series_of(scatter, i);
        draw_point(out, &scatter->points[i], series, &x, &y);
        if (series < shown) continue;
        const double at = TOP + HEIGHT + 60 + KEY_ROW * (double)shown++;
        print_mark(out, LEFT + 8, at, series);
        fprintf(out, "<text class=\"key\" x=\"%d\" y=\"%.1f\">", LEFT + 24, at + 4);
        sf_figure_name(out, scatter->points[i].series);
        fputs("</text>\n", out);
    }
    if (any_censored(scatter)) {
        const double at = TOP + HEIGHT + 60 + KEY_ROW * (double)(key_rows - 1);
        print_censored_mark(out, LEFT + 8, at, 0);
        fprintf(out, "<text class=\"key\" x=\"%d\" y=\"%.1f\">median not reached in so many epochs</text>\n", LEFT + 24,
                at + 4);
    }
    fputs("</svg>\n", out);
}

void sf_scatter_write_csv(FILE *out, const sf_paper_scatter *scatter) {
    fputs("series,point,", out);
    sf_csv_text(out, scatter->x_title);
    fputc(',', out);
    sf_csv_text(out, scatter->y_title);
    fputs(",reached\n", out);
    for (size_t i = 0; i < scatter->count; i++) {
        sf_csv_text(out, scatter->points[i].series);
        fputc(',', out);
        sf_csv_text(out, scatter->points[i].name);
        fprintf(out, ",%.10g,%.10g,%s\n", scatter->points[i].x, scatter->points[i].y,
                scatter->points[i].censored ? "no" : "yes");
    }
}
