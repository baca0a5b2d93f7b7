/* Learning curves: the median over seeds with a band of the quartiles. Up to six series share one panel; more are cut
 * into panels of what is compared with one another: a baseline and those that are compared with it, or with many of
 * them one panel each. All panels share their axes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "report/figure.h"

enum { MOST_POINTS = 400, MOST_TOGETHER = 6 };

typedef struct panel {
    size_t series[SF_MOST_SERIES]; /* indices into those of the drawing; the first is the baseline */
    size_t count;
    const char *title;
} panel;

typedef struct drawing { /* the curves of a figure that is being drawn */
    const sf_figure *figure;
    const sf_study *study;
    size_t from, to;
    sf_series series[SF_MOST_SERIES];
    size_t count;
    panel panels[SF_MOST_PANELS];
    size_t panel_count;
    size_t epochs; /* of the longest */
    size_t step;   /* every step-th epoch is drawn, and each series' last */
    double low, high;
    sf_scale x, y;
} drawing;

static bool is_accuracy(const drawing *d) {
    return d->figure->quantity != SF_TRAIN_LOSS;
}

static const sf_group *group_of(const drawing *d, size_t i) {
    return sf_study_group(d->study, d->series[i].group);
}

static sf_status open_series(drawing *d) {
    d->low = INFINITY;
    d->high = -INFINITY;
    for (size_t g = d->from; g < d->to && d->count < SF_MOST_SERIES; g++) {
        SF_TRY(sf_series_open(&d->series[d->count], d->study, g, d->figure->quantity));
        const sf_series *s = &d->series[d->count++];
        if (s->epochs > d->epochs) d->epochs = s->epochs;
        for (size_t e = 0; e < s->epochs; e++) {
            d->low = fmin(d->low, s->low[e]);
            d->high = fmax(d->high, s->high[e]);
        }
    }
    return SF_OK;
}

static panel *add_panel(drawing *d, size_t first, const char *title) {
    panel *added = &d->panels[d->panel_count++];
    added->title = title;
    added->series[0] = first;
    added->count = 1;
    return added;
}

static size_t family_size(const drawing *d, size_t baseline) {
    size_t count = 0;
    for (size_t i = 0; i < d->count; i++) count += group_of(d, i)->baseline == baseline;
    return count;
}

/* A panel for a baseline with those compared to it, or where they are many one panel for each of them. */
static void add_family(drawing *d, size_t first) {
    const size_t baseline = d->series[first].group;
    const bool together = family_size(d, baseline) <= MOST_TOGETHER;
    panel *shared = together ? add_panel(d, first, group_of(d, first)->name) : NULL;
    for (size_t i = 0; i < d->count; i++) {
        if (i == first || group_of(d, i)->baseline != baseline) continue;
        panel *own = together ? shared : add_panel(d, first, group_of(d, i)->name);
        own->series[own->count++] = i;
    }
}

static void choose_panels(drawing *d) {
    if (d->count <= MOST_TOGETHER) {
        panel *all = add_panel(d, 0, "");
        for (all->count = 0; all->count < d->count; all->count++) all->series[all->count] = all->count;
        return;
    }
    for (size_t i = 0; i < d->count; i++) {
        const size_t baseline = group_of(d, i)->baseline;
        if (baseline == d->series[i].group)
            add_family(d, i);
        else if (baseline - d->from >= d->count) /* its baseline is not drawn */
            add_panel(d, i, group_of(d, i)->name);
    }
}

/* What lies on the axis besides the data: chance, and what converged means. */
static void include_levels(drawing *d) {
    const sf_criterion *criterion = sf_study_criterion(d->study);
    for (size_t g = d->from; is_accuracy(d) && g < d->to; g++) {
        const double chance = sf_study_group(d->study, g)->chance;
        if (isnan(chance)) continue;
        d->low = fmin(d->low, chance);
        d->high = fmax(d->high, chance);
    }
    if (is_accuracy(d) && sf_figure_shows_criterion(d->figure->quantity, criterion))
        d->high = fmax(d->high, criterion->value);
}

static void choose_scales(drawing *d) {
    if (d->epochs == 0)
        d->low = d->high = 0; /* nothing is finished: an empty frame */
    else
        include_levels(d);
    d->step = (d->epochs + MOST_POINTS - 1) / MOST_POINTS;
    d->x = (sf_scale){.low = d->epochs > 1 ? 1 : 0, .high = d->epochs > 1 ? (double)d->epochs : 2};
    const double room = 0.05 * fmax(d->high - d->low, is_accuracy(d) ? 10 : 1e-3 * fabs(d->high));
    if (is_accuracy(d)) {
        const double below = 2.7 * room; /* so that the label of a chance line at the bottom is clear of the data */
        d->y = (sf_scale){.low = fmax(0, d->low - below), .high = fmin(100 + 0.3 * room, d->high + room)};
        return;
    }
    d->y.is_log = d->low > 0 && d->high / d->low >= 20; /* else most of it would lie on the bottom */
    if (d->y.is_log)
        d->y = (sf_scale){.low = d->low / 1.15, .high = d->high * 1.15, .is_log = true};
    else
        d->y = (sf_scale){.low = d->low < 0.5 * d->high ? 0 : d->low - room, .high = d->high > 0 ? d->high + room : 1};
}

static void draw_band(const sf_sheet *sheet, const sf_frame *at, const sf_series *s, double *xs, double *ys,
                      size_t count, size_t style) {
    for (size_t i = 0; i < count; i++) { /* forward along the upper edge, back along the lower */
        xs[count + i] = xs[count - 1 - i];
        ys[i] = s->high[(size_t)xs[i] - 1];
        ys[count + i] = s->low[(size_t)xs[count - 1 - i] - 1];
    }
    fputs("<path class=\"band\" d=\"", sheet->out);
    sf_svg_path(sheet->out, &at->x, &at->y, xs, ys, 2 * count);
    fputs("Z\"", sheet->out);
    sf_style_paint(sheet->out, style, true, sheet->standalone);
    fputs("/>\n", sheet->out);
}

static void draw_series(const sf_sheet *sheet, const drawing *d, const sf_frame *at, const sf_series *s) {
    FILE *out = sheet->out;
    const size_t style = sf_figure_style(d->study, d->from, s->group), step = d->step;
    const char *name = sf_study_group(d->study, s->group)->name;
    double xs[2 * MOST_POINTS + 2], ys[2 * MOST_POINTS + 2], medians[MOST_POINTS + 1];
    size_t count = 0;
    if (s->epochs == 0) return;
    for (size_t e = 0; e < s->epochs; e = e + step < s->epochs || e + 1 == s->epochs ? e + step : s->epochs - 1) {
        xs[count] = (double)(e + 1);
        medians[count++] = s->median[e];
    }
    sf_series_begin(out, style, s->group - d->from, name);
    fprintf(out, " data-runs=\"%zu\"", s->runs);
    if (!sheet->standalone) {
        fprintf(out, " data-step=\"%zu\"", step);
        sf_series_numbers(out, "low", s->low, s->epochs, step);
        sf_series_numbers(out, "median", s->median, s->epochs, step);
        sf_series_numbers(out, "high", s->high, s->epochs, step);
        fprintf(out, " data-last=\"%zu\"", s->epochs);
    }
    fputs("><title>", out);
    sf_markup_text(out, name);
    fprintf(out, ", %zu seed%s</title>\n", s->runs, s->runs == 1 ? "" : "s");
    if (s->runs > 1) draw_band(sheet, at, s, xs, ys, count, style);
    fputs("<path class=\"line\" d=\"", out);
    sf_svg_path(out, &at->x, &at->y, xs, medians, count);
    fputc('"', out);
    sf_style_paint(out, style, false, sheet->standalone);
    fprintf(out, "/><circle class=\"end\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"", sf_scale_place(&at->x, xs[count - 1]),
            sf_scale_place(&at->y, medians[count - 1]));
    if (sheet->standalone) fprintf(out, " fill=\"%s\"", sf_style_ink(style));
    fputs("/></g>\n", out);
}

static void draw_level(FILE *out, const sf_frame *at, const char *name, double value) {
    fprintf(out, "<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", name, at->x.from, at->x.to,
            sf_scale_place(&at->y, value), sf_scale_place(&at->y, value));
}

enum { LABEL_HEIGHT = 14, LABEL_WIDTH = 82 };

/* At how many epochs a median lies on a label with this base line, which begins at x. */
static size_t count_crossings(const drawing *d, const panel *p, const sf_frame *at, double x, double base) {
    size_t count = 0;
    for (size_t k = 0; k < p->count; k++) {
        const sf_series *s = &d->series[p->series[k]];
        for (size_t e = 0; e < s->epochs; e++) {
            const double place = sf_scale_place(&at->x, (double)(e + 1)), y = sf_scale_place(&at->y, s->median[e]);
            const size_t next = e + 1 < s->epochs ? e + 1 : e;
            const double then = sf_scale_place(&at->y, s->median[next]);
            const bool beside = place < x - 4 || place > x + LABEL_WIDTH + 4;
            const bool clear = fmin(y, then) > base + 5 || fmax(y, then) < base - LABEL_HEIGHT;
            count += !beside && !clear;
        }
    }
    return count;
}

/* Where the label of a line at y lies: under it, at its end, or where fewer curves cross it. */
static void place_label(double *x, double *base, const drawing *d, const panel *p, const sf_frame *at, double y) {
    const double xs[] = {at->x.to - 4 - LABEL_WIDTH, at->x.from + 4, (at->x.from + at->x.to - LABEL_WIDTH) / 2};
    const double bases[] = {y + LABEL_HEIGHT, y - 4};
    size_t least = SIZE_MAX;
    for (size_t b = 0; b < 2; b++)
        for (size_t i = 0; i < 3; i++) {
            if (bases[b] >= at->y.from || bases[b] - LABEL_HEIGHT < at->y.to) continue;
            const size_t crossings = count_crossings(d, p, at, xs[i], bases[b]);
            if (crossings >= least) continue;
            least = crossings;
            *x = xs[i];
            *base = bases[b];
        }
}

/* A labelled line for each chance level of the groups; mostly they share one. */
static void draw_chance(FILE *out, const drawing *d, const panel *p, const sf_frame *at) {
    double above = INFINITY; /* the last label's place: labels do not lie on one another */
    for (size_t g = d->from; g < d->to; g++) {
        const double chance = sf_study_group(d->study, g)->chance;
        bool drawn = isnan(chance);
        for (size_t before = d->from; before < g; before++) drawn |= sf_study_group(d->study, before)->chance == chance;
        if (drawn) continue;
        draw_level(out, at, "chance", chance);
        const double y = sf_scale_place(&at->y, chance);
        double x = at->x.to - 4 - LABEL_WIDTH, base = y - 4;
        place_label(&x, &base, d, p, at, y);
        if (fabs(base - above) < LABEL_HEIGHT) continue;
        above = base;
        const bool at_end = x > (at->x.from + at->x.to) / 2;
        fprintf(out, "<text class=\"tick small\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">chance, %.3g %%</text>\n",
                at_end ? x + LABEL_WIDTH : x, base, at_end ? "end" : "start", chance);
    }
}

static void draw_panel(sf_sheet *sheet, const drawing *d, size_t i) {
    const panel *p = &d->panels[i];
    const sf_criterion *criterion = sf_study_criterion(d->study);
    sf_frame at = {.x = d->x, .y = d->y};
    sf_sheet_panel(sheet, &at, i, p->title);
    if (!sheet->standalone) fprintf(sheet->out, " data-first=\"%g\" data-last=\"%g\"", d->x.low, d->x.high);
    sf_sheet_begin(sheet, &at, p->title);
    sf_svg_axis(sheet->out, &at.x, &at.y, true, true, "epoch");
    sf_svg_axis(sheet->out, &at.x, &at.y, false, false, d->figure->title);
    const double threshold = criterion->value;
    if (sf_figure_shows_criterion(d->figure->quantity, criterion) && threshold >= d->y.low && threshold <= d->y.high)
        draw_level(sheet->out, &at, "threshold", threshold);
    for (size_t k = 0; k < p->count; k++) draw_series(sheet, d, &at, &d->series[p->series[k]]);
    if (is_accuracy(d) && d->epochs > 0) draw_chance(sheet->out, d, p, &at);
    sf_sheet_end_panel(sheet);
}

/* "even-pairs: Training loss. Median after the last epoch: full 0.14, topk:5 0.18." Of all, or of those of a panel. */
static void describe(char out[SF_ABOUT_SIZE], const drawing *d, const panel *p) {
    const size_t count = p != NULL ? p->count : d->count;
    size_t used = (size_t)snprintf(out, SF_ABOUT_SIZE,
                                   "%.300s: %s. Median after the last epoch:", sf_study_group(d->study, d->from)->task,
                                   d->figure->title);
    bool any = false;
    for (size_t k = 0; k < count && used + SF_VARIANT_SIZE + 40 < SF_ABOUT_SIZE; k++) {
        const size_t i = p != NULL ? p->series[k] : k;
        const sf_series *s = &d->series[i];
        if (s->epochs == 0) continue;
        used += (size_t)snprintf(out + used, SF_ABOUT_SIZE - used, "%s %s %.3g", any ? "," : "", group_of(d, i)->name,
                                 s->median[s->epochs - 1]);
        any = true;
    }
    snprintf(out + used, SF_ABOUT_SIZE - used, any ? "." : " no run is finished.");
}

static void draw(FILE *out, drawing *d, bool standalone) {
    char about[SF_ABOUT_SIZE];
    sf_key keys[SF_MOST_SERIES];
    choose_panels(d);
    choose_scales(d);
    describe(about, d, NULL);
    for (size_t i = 0; i < d->count; i++)
        keys[i] = (sf_key){group_of(d, i)->name, sf_figure_style(d->study, d->from, d->series[i].group)};
    sf_sheet sheet = {.out = out,
                      .standalone = standalone,
                      .panels = d->panel_count,
                      .width = SF_PANEL_WIDTH,
                      .height = SF_PANEL_HEIGHT,
                      .about = about,
                      .keys = keys,
                      .key_count = d->count};
    sf_sheet_open(&sheet);
    for (size_t i = 0; i < d->panel_count; i++) {
        describe(about, d, &d->panels[i]);
        draw_panel(&sheet, d, i);
    }
    sf_sheet_close(&sheet);
}

sf_status sf_curves_draw(FILE *out, const sf_figure *figure, const sf_study *study, size_t from, size_t to,
                         bool standalone) {
    drawing *d;
    SF_TRY(SF_NEW(&d, 1));
    *d = (drawing){.figure = figure, .study = study, .from = from, .to = to};
    const sf_status status = open_series(d);
    if (status == SF_OK) draw(out, d, standalone);
    for (size_t i = 0; i < d->count; i++) sf_series_close(&d->series[i]);
    sf_release(d);
    return status;
}
