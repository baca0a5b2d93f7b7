#include "report/region_figure.h"

#include <math.h>
#include <string.h>

#include "base/elementary.h"
#include "base/memory.h"
#include "report/figure.h"
#include "report/sheet.h"
#include "study/statistics.h"

enum { PANELS = 4, WIDTH = 300, HEIGHT = 240 };
static const double percents[PANELS] = {75, 90, 95, 100}; /* the published ones */
static const double dispersions[] = {2, 5, 10, 20, 50};   /* of the lines */
enum { DISPERSIONS = sizeof dispersions / sizeof *dispersions, STEPS = 80, SHAPES = 4, KEY_ROW = 20, KEYS_LEFT = 12 };

typedef struct region {            /* one panel's */
    double dispersion, sink_ratio; /* medians over its points, those of the area; NaN without points */
    double c1[STEPS + 1], c2[STEPS + 1];
} region;

typedef struct drawing {
    sf_measure condition;
    const sf_region_point *points;
    size_t count;
    sf_frame frame;
    region regions[PANELS];
} drawing;

static double c1_of(const sf_region_point *p) {
    return p->at.kept_dispersion / p->at.dispersion;
}

static double c2_of(const sf_region_point *p) {
    return p->at.separation / p->at.dispersion;
}

static double left_side(sf_measure condition, const sf_region_point *p) {
    return condition == SF_CONDITION_W ? p->at.w : p->at.x;
}

static bool is_shown(const sf_region_point *p) {
    bool in_panel = false;
    for (size_t i = 0; i < PANELS; i++) in_panel = in_panel || p->at.percent == percents[i];
    return in_panel && isfinite(c1_of(p)) && isfinite(c2_of(p)) && c2_of(p) > 0 && isfinite(p->at.sink_ratio);
}

bool sf_region_is_there(const sf_region_point *points, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (is_shown(&points[i])) return true;
    return false;
}

static void choose_scales(drawing *d) {
    double farthest = 1, low = 1e-4, high = 1;
    for (size_t i = 0; i < d->count; i++) {
        if (!is_shown(&d->points[i])) continue;
        farthest = fmax(farthest, c1_of(&d->points[i]));
        low = fmin(low, c2_of(&d->points[i]));
        high = fmax(high, c2_of(&d->points[i]));
    }
    d->frame.x = (sf_scale){.low = 0, .high = 1.08 * farthest};
    d->frame.y =
        (sf_scale){.low = sf_pow(10, floor(sf_log10(low))), .high = sf_pow(10, ceil(sf_log10(high))), .is_log = true};
}

/* The edge of where the condition holds, from the bottom of the frame to its top; 0 where it holds nowhere. */
static void trace(double c1[STEPS + 1], double c2[STEPS + 1], const drawing *d, double dispersion, double sink_ratio) {
    const double low = sf_log10(d->frame.y.low), high = sf_log10(d->frame.y.high);
    for (size_t i = 0; i <= STEPS; i++) {
        c2[i] = sf_pow(10, low + (high - low) * (double)i / STEPS);
        c1[i] = fmax(0, sf_condition_limit(d->condition, dispersion, sink_ratio, c2[i]));
    }
}

static sf_status find_regions(drawing *d) {
    double *dispersion, *sink_ratio;
    SF_TRY(SF_NEW(&dispersion, 2 * d->count));
    sink_ratio = dispersion + d->count;
    for (size_t panel = 0; panel < PANELS; panel++) {
        region *r = &d->regions[panel];
        size_t count = 0;
        for (size_t i = 0; i < d->count; i++) {
            if (!is_shown(&d->points[i]) || d->points[i].at.percent != percents[panel]) continue;
            dispersion[count] = d->points[i].at.dispersion;
            sink_ratio[count++] = d->points[i].at.sink_ratio;
        }
        *r = (region){.dispersion = NAN, .sink_ratio = NAN};
        if (count == 0) continue;
        r->dispersion = sf_quantile(dispersion, count, 0.5);
        r->sink_ratio = sf_quantile(sink_ratio, count, 0.5);
        trace(r->c1, r->c2, d, r->dispersion, r->sink_ratio);
    }
    sf_release(dispersion);
    return SF_OK;
}

/* The last place where the edge is still at the left, so that nothing is drawn below it. */
static size_t beginning_of(const double *c1) {
    size_t first = 0;
    while (first < STEPS && c1[first + 1] == 0) first++;
    return first;
}

static void draw_area(FILE *out, const drawing *d, const region *r, bool standalone) {
    const size_t first = beginning_of(r->c1);
    fprintf(out, "<path class=\"area\" data-dispersion=\"%.10g\" data-sink-ratio=\"%.10g\"", r->dispersion,
            r->sink_ratio);
    if (standalone) fputs(" fill=\"#333\" fill-opacity=\"0.14\" stroke=\"#333\" stroke-width=\"1.5\"", out);
    fprintf(out, " d=\"M%.2f %.2f", d->frame.x.from, sf_scale_place(&d->frame.y, r->c2[first]));
    for (size_t i = first; i <= STEPS; i++)
        fprintf(out, "L%.2f %.2f", sf_scale_place(&d->frame.x, r->c1[i]), sf_scale_place(&d->frame.y, r->c2[i]));
    fprintf(out, "L%.2f %.2fZ\"/>\n", d->frame.x.from, d->frame.y.to);
}

typedef struct label { /* the number of a line */
    double left, right, base;
} label;

static bool lies_on(const label *one, const label *other) {
    enum { LABEL_HEIGHT = 16 };
    return one->left < other->right && other->left < one->right && fabs(one->base - other->base) < LABEL_HEIGHT;
}

/* At the left edge where the line begins there, at the bottom else; farther up the line where other numbers are. */
static void label_line(FILE *out, const drawing *d, size_t line, const double *c1, const double *c2,
                       label labels[DISPERSIONS] /* of this line and those before */, bool standalone) {
    enum { DIGIT = 8, CLEAR = 3 };
    const double aside = 0.02 * (d->frame.x.high - d->frame.x.low);
    const double width = CLEAR + DIGIT * (dispersions[line] < 10 ? 1 : 2);
    labels[line] = (label){0};
    for (size_t i = 0; i < STEPS; i++) {
        const double y = sf_scale_place(&d->frame.y, c2[i]), left = sf_scale_place(&d->frame.x, c1[i]) + 4;
        if (c1[i] < aside) continue;
        if (y < d->frame.y.to + 16 || left + width > d->frame.x.to) return; /* no room below the title */
        const label here = {.left = left, .right = left + width, .base = fmin(y, d->frame.y.from - 2) - 3};
        bool free_here = true;
        for (size_t before = 0; before < line; before++) free_here = free_here && !lies_on(&here, &labels[before]);
        if (!free_here) continue;
        labels[line] = here;
        fprintf(out, "<text class=\"tick small\" x=\"%.1f\" y=\"%.1f\"%s>%g</text>\n", here.left, here.base,
                standalone ? " paint-order=\"stroke\" stroke=\"#fff\" stroke-width=\"3\"" : "", dispersions[line]);
        return;
    }
}

static void draw_lines(FILE *out, const drawing *d, const region *r, bool standalone) {
    double c1[STEPS + 1], c2[STEPS + 1];
    label labels[DISPERSIONS];
    for (size_t i = 0; i < DISPERSIONS; i++) {
        trace(c1, c2, d, dispersions[i], r->sink_ratio);
        const size_t first = beginning_of(c1);
        fputs("<path class=\"limit\"", out);
        if (standalone) fputs(" fill=\"none\" stroke=\"#777\" stroke-dasharray=\"3 3\"", out);
        fputs(" d=\"", out);
        sf_svg_path(out, &d->frame.x, &d->frame.y, c1 + first, c2 + first, STEPS + 1 - first);
        fputs("\"/>\n", out);
        label_line(out, d, i, c1, c2, labels, standalone);
    }
}

/* Groups differ in shape as well as in colour. */
static void print_shape(FILE *out, size_t style, double x, double y) {
    static const char *const shapes[SHAPES] = {
        "m-4.5 0c0 -2.5 2 -4.5 4.5 -4.5c2.5 0 4.5 2 4.5 4.5c0 2.5 -2 4.5 -4.5 4.5c-2.5 0 -4.5 -2 -4.5 -4.5z",
        "m-4 -4h8v8h-8z", "m0 -5l5 9h-10z", "m0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z"};
    fprintf(out, " d=\"M%.1f %.1f%s\"", x, y,
            shapes[(sf_style_colour(style) + sf_style_dash(style) + sf_style_round(style)) % SHAPES]);
}

static void paint_shape(FILE *out, size_t style, bool holds, bool standalone) {
    if (standalone)
        fprintf(out, " fill=\"%s\" fill-opacity=\"%s\" stroke=\"%s\" stroke-width=\"1.5\"", sf_style_ink(style),
                holds ? "0.75" : "0", sf_style_ink(style));
}

static void draw_point(FILE *out, const drawing *d, const sf_region_point *p, bool standalone) {
    const bool holds = left_side(d->condition, p) < 1;
    fprintf(out, "<g class=\"series c%zu\" data-series=\"%zu\" data-name=\"", sf_style_colour(p->style), p->series);
    sf_markup_text(out, p->name);
    fprintf(out, "\"><path class=\"%s\"", holds ? "mark holds" : "mark");
    print_shape(out, p->style, sf_scale_place(&d->frame.x, c1_of(p)), sf_scale_place(&d->frame.y, c2_of(p)));
    paint_shape(out, p->style, holds, standalone);
    fputs("><title>", out);
    sf_markup_text(out, p->name);
    fprintf(
        out,
        ", seed %lld, %g %%: c1 = %.3g, c2 = %.3g, delta_s = %.3g, beta = %.3g, left side %.3g</title></path></g>\n",
        (long long)p->seed, p->at.percent, c1_of(p), c2_of(p), p->at.dispersion, p->at.sink_ratio,
        left_side(d->condition, p));
}

static void draw_panel(sf_sheet *sheet, drawing *d, size_t panel) {
    const region *r = &d->regions[panel];
    char title[96];
    int used = snprintf(title, sizeof title, "%g %%", percents[panel]);
    if (!isnan(r->dispersion))
        used += snprintf(title + used, sizeof title - (size_t)used, ", area: δs = %.3g", r->dispersion);
    if (!isnan(r->dispersion) && d->condition == SF_CONDITION_X)
        snprintf(title + used, sizeof title - (size_t)used, ", all: β = %.3g", r->sink_ratio);
    sf_sheet_panel(sheet, &d->frame, panel, title);
    if (!sheet->standalone) fputs(" data-marks=\"\"", sheet->out);
    sf_sheet_begin(sheet, &d->frame, title);
    sf_svg_axis(sheet->out, &d->frame.x, &d->frame.y, true, false, "c1 = δh / δs");
    sf_svg_axis(sheet->out, &d->frame.x, &d->frame.y, false, false, "c2 = Δh / δs");
    if (!isnan(r->dispersion)) {
        draw_area(sheet->out, d, r, sheet->standalone);
        draw_lines(sheet->out, d, r, sheet->standalone);
        for (size_t i = 0; i < d->count; i++)
            if (is_shown(&d->points[i]) && d->points[i].at.percent == percents[panel])
                draw_point(sheet->out, d, &d->points[i], sheet->standalone);
    }
    sf_sheet_end_panel(sheet);
}

/* Whether a point before has the same name. */
static bool is_named_before(const drawing *d, size_t i) {
    if (i > 0 && d->points[i - 1].series == d->points[i].series) return true; /* they mostly come together */
    for (size_t j = 0; j < i; j++)
        if (d->points[j].series == d->points[i].series) return true;
    return false;
}

static size_t name_count(const drawing *d) {
    size_t count = 0;
    for (size_t i = 0; i < d->count; i++) count += !is_named_before(d, i);
    return count;
}

static void draw_keys(FILE *out, const drawing *d, int top) {
    int y = top + 12;
    for (size_t i = 0; i < d->count; i++) {
        if (is_named_before(d, i)) continue;
        fputs("<path", out);
        print_shape(out, d->points[i].style, KEYS_LEFT + 8, y);
        paint_shape(out, d->points[i].style, true, true);
        fprintf(out, "/><text class=\"key\" x=\"%d\" y=\"%d\">", KEYS_LEFT + 24, y + 4);
        sf_figure_name(out, d->points[i].name);
        fputs("</text>\n", out);
        y += KEY_ROW;
    }
    fprintf(out,
            "<text class=\"tick\" x=\"%d\" y=\"%d\">filled: it holds at the point’s own δs%s; hollow: it does not; "
            "dashed: its edge for δs as written</text>\n",
            KEYS_LEFT, y + 4, d->condition == SF_CONDITION_X ? " and β" : "");
}

static sf_status open_drawing(drawing **out, sf_measure condition, const sf_region_point *points, size_t count) {
    SF_TRY(SF_NEW(out, 1));
    **out = (drawing){.condition = condition, .points = points, .count = count};
    choose_scales(*out);
    const sf_status status = find_regions(*out);
    if (status != SF_OK) sf_release(*out);
    return status;
}

/* How many of the points satisfy the condition: of all, or of those of a panel. */
static void describe(char out[SF_TITLE_SIZE], const drawing *d, size_t panel) {
    size_t shown = 0, holds = 0;
    for (size_t i = 0; i < d->count; i++) {
        if (!is_shown(&d->points[i]) || (panel < PANELS && d->points[i].at.percent != percents[panel])) continue;
        shown++;
        holds += left_side(d->condition, &d->points[i]) < 1;
    }
    snprintf(out, SF_TITLE_SIZE, "Where condition %c holds, and the runs: it holds at %zu of %zu points.",
             d->condition == SF_CONDITION_W ? 'W' : 'X', holds, shown);
}

sf_status sf_region_draw(FILE *out, sf_measure condition, const sf_region_point *points, size_t count,
                         bool standalone) {
    drawing *d;
    char about[SF_TITLE_SIZE];
    SF_TRY(open_drawing(&d, condition, points, count));
    describe(about, d, PANELS);
    sf_sheet sheet = {.out = out,
                      .standalone = standalone,
                      .panels = PANELS,
                      .width = WIDTH,
                      .height = HEIGHT,
                      .about = about,
                      .below = KEY_ROW * (int)(name_count(d) + 1) + 10};
    sf_sheet_open(&sheet);
    for (size_t panel = 0; panel < PANELS; panel++) {
        describe(about, d, panel);
        draw_panel(&sheet, d, panel);
    }
    if (standalone) draw_keys(out, d, sf_sheet_bottom(&sheet));
    sf_sheet_close(&sheet);
    sf_release(d);
    return SF_OK;
}

static void write_edge(FILE *out, const char *kind, double percent, double dispersion, double sink_ratio,
                       const double *c1, const double *c2) {
    for (size_t i = 0; i <= STEPS; i++)
        fprintf(out, "%s,%g,,,%.10g,%.10g,%.10g,%.10g,\n", kind, percent, dispersion, sink_ratio, c1[i], c2[i]);
}

sf_status sf_region_write_csv(FILE *out, sf_measure condition, const sf_region_point *points, size_t count) {
    drawing *d;
    double c1[STEPS + 1], c2[STEPS + 1];
    SF_TRY(open_drawing(&d, condition, points, count));
    fputs("kind,percent,variant,seed,delta_s,beta,c1,c2,left_side\n", out);
    for (size_t i = 0; i < count; i++) {
        if (!is_shown(&points[i])) continue;
        fprintf(out, "point,%g,", points[i].at.percent);
        sf_csv_text(out, points[i].name);
        fprintf(out, ",%lld,%.10g,%.10g,%.10g,%.10g,%.10g\n", (long long)points[i].seed, points[i].at.dispersion,
                points[i].at.sink_ratio, c1_of(&points[i]), c2_of(&points[i]), left_side(condition, &points[i]));
    }
    for (size_t panel = 0; panel < PANELS; panel++) {
        const region *r = &d->regions[panel];
        if (isnan(r->dispersion)) continue;
        write_edge(out, "area", percents[panel], r->dispersion, r->sink_ratio, r->c1, r->c2);
        for (size_t i = 0; i < DISPERSIONS; i++) {
            trace(c1, c2, d, dispersions[i], r->sink_ratio);
            write_edge(out, "line", percents[panel], dispersions[i], r->sink_ratio, c1, c2);
        }
    }
    sf_release(d);
    return SF_OK;
}
