#include "report/quantile_lines.h"

#include <math.h>

#include "report/figure.h"
#include "report/sheet.h"

enum { MOST_POINTS = 400, MOST_TOGETHER = 6, WIDTH = 300, HEIGHT = 200 };

typedef struct drawing {
    const sf_quantile_figure *figure;
    sf_sheet sheet;
    bool by_series; /* one panel each, otherwise one per quantile */
    sf_scale x, y;
} drawing;

/* Fitted to the data; logarithmic where most of it would lie on the bottom otherwise. */
static sf_scale fit(const sf_quantile_figure *f) {
    double low = INFINITY, high = 0, least_positive = INFINITY;
    for (size_t i = 0; i < f->count; i++)
        for (size_t e = 0; e < f->series[i].count; e++)
            for (size_t q = 0; q < SF_LINE_QUANTILES; q++) {
                const double value = f->series[i].values[e][q];
                if (isnan(value)) continue;
                low = fmin(low, value);
                high = fmax(high, value);
                if (value > 0) least_positive = fmin(least_positive, value);
            }
    if (!f->no_log && high / least_positive >= 20)
        return (sf_scale){.low = least_positive / 1.2, .high = 1.2 * high, .is_log = true};
    const double room = 0.05 * fmax(high - low, 1e-3 * high);
    return (sf_scale){.low = low < 0.5 * high ? 0 : fmax(0, low - room), .high = high > 0 ? high + room : 1};
}

/* The points of one line that have a value, thinned. */
static size_t take_points(double *xs, double *ys, const sf_quantile_series *s, size_t q) {
    const size_t step = s->count / MOST_POINTS + 1;
    size_t count = 0;
    for (size_t e = 0; e < s->count; e = e + step < s->count || e + 1 == s->count ? e + step : s->count - 1) {
        if (isnan(s->values[e][q])) continue;
        xs[count] = s->x[e];
        ys[count++] = s->values[e][q];
    }
    return count;
}

static void draw_line(const drawing *d, const sf_frame *at, const sf_quantile_series *s, size_t q) {
    FILE *out = d->sheet.out;
    const bool standalone = d->sheet.standalone;
    double xs[MOST_POINTS + 2], ys[MOST_POINTS + 2];
    const size_t count = take_points(xs, ys, s, q);
    if (count == 0) return;
    sf_series_begin(out, s->style, s->number, s->name);
    if (d->by_series) fprintf(out, " data-part=\"%s\"", d->figure->titles[q]);
    if (!standalone) {
        sf_series_numbers(out, "x", xs, count, 1);
        sf_series_numbers(out, "median", ys, count, 1);
    }
    fputs("><path class=\"line\" d=\"", out);
    sf_svg_path(out, &at->x, &at->y, xs, ys, count);
    fputc('"', out);
    sf_style_paint(out, s->style, false, standalone);
    if (d->by_series) fprintf(out, " stroke-opacity=\"%.2f\"", 0.4 + 0.2 * (double)q);
    fprintf(out, "/><circle class=\"end\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"", sf_scale_place(&at->x, xs[count - 1]),
            sf_scale_place(&at->y, ys[count - 1]));
    if (standalone) fprintf(out, " fill=\"%s\"", sf_style_ink(s->style));
    fputs("/></g>\n", out);
}

static size_t add_value(char out[SF_ABOUT_SIZE], size_t used, const char *name, const sf_quantile_series *s, size_t q) {
    if (used + SF_VARIANT_SIZE + 40 >= SF_ABOUT_SIZE || s->count == 0) return used;
    const double last = s->values[s->count - 1][q];
    if (!isfinite(last)) return used;
    return used + (size_t)snprintf(out + used, SF_ABOUT_SIZE - used, " %.*s %.3g;", SF_VARIANT_SIZE, name, last);
}

/* Where the lines of panel i end. */
static void describe_panel(char out[SF_ABOUT_SIZE], const drawing *d, size_t i) {
    const sf_quantile_figure *f = d->figure;
    size_t used = (size_t)snprintf(out, SF_ABOUT_SIZE, "%s:", f->subject);
    const size_t before = used;
    for (size_t q = 0; d->by_series && q < SF_LINE_QUANTILES; q++)
        used = add_value(out, used, f->titles[q], &f->series[i], q);
    for (size_t s = 0; !d->by_series && s < f->count; s++)
        used = add_value(out, used, f->series[s].name, &f->series[s], i);
    if (used == before)
        snprintf(out + used, SF_ABOUT_SIZE - used, " no values.");
    else
        out[used - 1] = '.';
}

static void draw_panel(drawing *d, size_t i) {
    const sf_quantile_figure *f = d->figure;
    const char *title = d->by_series ? f->series[i].name : f->titles[i];
    sf_frame at = {.x = d->x, .y = d->y};
    char about[SF_ABOUT_SIZE];
    describe_panel(about, d, i);
    d->sheet.about = about;
    sf_sheet_panel(&d->sheet, &at, i, title);
    if (!d->sheet.standalone)
        fprintf(d->sheet.out, " data-first=\"%g\" data-last=\"%g\" data-axis=\"%s\"", d->x.low, d->x.high,
                f->whole_x ? "epoch" : "radius");
    sf_sheet_begin(&d->sheet, &at, title);
    sf_svg_axis(d->sheet.out, &at.x, &at.y, true, f->whole_x, f->x_title);
    sf_svg_axis(d->sheet.out, &at.x, &at.y, false, false, f->y_title);
    if (d->by_series)
        for (size_t q = 0; q < SF_LINE_QUANTILES; q++) draw_line(d, &at, &f->series[i], q);
    else
        for (size_t s = 0; s < f->count; s++) draw_line(d, &at, &f->series[s], i);
    sf_sheet_end_panel(&d->sheet);
}

void sf_quantile_lines_draw(FILE *out, const sf_quantile_figure *figure, bool standalone) {
    sf_key keys[SF_MOST_SERIES];
    drawing d = {.figure = figure, .by_series = figure->count > MOST_TOGETHER};
    for (size_t i = 0; i < figure->count; i++) keys[i] = (sf_key){figure->series[i].name, figure->series[i].style};
    d.x = (sf_scale){.low = figure->x_low, .high = figure->x_high};
    d.y = fit(figure);
    d.sheet = (sf_sheet){.out = out,
                         .standalone = standalone,
                         .panels = d.by_series ? figure->count : SF_LINE_QUANTILES,
                         .width = WIDTH,
                         .height = HEIGHT,
                         .about = figure->about,
                         .keys = keys,
                         .key_count = figure->count};
    sf_sheet_open(&d.sheet);
    for (size_t i = 0; i < d.sheet.panels; i++) draw_panel(&d, i);
    sf_sheet_close(&d.sheet);
}
