#include "report/figure.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "report/evidence.h"
#include "report/setting_figure.h"
#include "report/svg.h"
#include "semfocus/report.h"

static const sf_figure figures[] = {
    {"training-loss", "Training loss", "How fast does it fall? Line: median of the seeds; band: their middle half.",
     SF_TRAIN_LOSS},
    {"training-accuracy", "Training accuracy (%)", "How soon is the training set learned?", SF_TRAIN_ACCURACY},
    {"heldout-accuracy", "Held-out accuracy (%)",
     "How well does it generalize to sequences that it was not trained on?", SF_HELDOUT_ACCURACY},
    {"convergence", "Epochs to convergence",
     "How soon does each seed converge? One dot per seed; the bar marks the median.", SF_QUANTITIES},
};
enum {
    FIGURES = sizeof figures / sizeof *figures,
    MOST_POINTS = 400,
    WIDTH = SF_FIGURE_WIDTH,
    HEIGHT = SF_FIGURE_HEIGHT,
    ROW = 26,
    NEVER = 64
};

const sf_figure *sf_figure_at(size_t i) {
    return i < FIGURES ? &figures[i] : NULL;
}

bool sf_figure_describe(sf_figure_info *out, size_t i) {
    if (i == FIGURES) *out = sf_setting_figure_info;
    if (i == FIGURES) return true;
    if (i > FIGURES) return sf_evidence_describe(out, i - FIGURES - 1);
    *out = (sf_figure_info){figures[i].name, figures[i].title};
    return true;
}

const char *sf_figure_title(char out[SF_TITLE_SIZE], const sf_figure *figure, const sf_study *study) {
    char goal[SF_CRITERION_SIZE];
    if (figure->quantity == SF_QUANTITIES)
        snprintf(out, SF_TITLE_SIZE, "Epochs to %s", sf_criterion_name(goal, sf_study_criterion(study)));
    else
        snprintf(out, SF_TITLE_SIZE, "%s", figure->title);
    return out;
}

/* Whether the criterion is a value of this quantity. */
static bool shows_criterion(sf_quantity quantity, const sf_criterion *criterion) {
    return quantity == (criterion->is_loss ? SF_TRAIN_LOSS : SF_TRAIN_ACCURACY);
}

const char *sf_figure_note(char out[SF_TITLE_SIZE], const sf_figure *figure, const sf_study *study) {
    const sf_criterion *criterion = sf_study_criterion(study);
    char brief[SF_CRITERION_SIZE];
    sf_criterion_short(brief, criterion);
    if (shows_criterion(figure->quantity, criterion))
        snprintf(out, SF_TITLE_SIZE, "%s Dashed line: %s, where a run has converged.", figure->note, brief);
    else
        snprintf(out, SF_TITLE_SIZE, "%s", figure->note);
    return out;
}

size_t sf_figure_style(const sf_study *study, size_t from, size_t group) {
    const size_t baseline = sf_study_group(study, from)->baseline;
    if (group == baseline) return 0;
    return group - from + (group < baseline ? 1 : 0);
}

/* Okabe and Ito's palette, which colour-blind people can distinguish; the baseline is neutral. */
static const char *const palette[SF_COLOURS + 1] = {"#333333", "#0072b2", "#d55e00", "#009e73",
                                                    "#cc79a7", "#e69f00", "#56b4e9", "#8c510a"};

size_t sf_style_colour(size_t style) {
    return style == 0 ? 0 : 1 + (style - 1) % SF_COLOURS;
}

size_t sf_style_dash(size_t style) {
    return style == 0 ? 0 : (style - 1) / SF_COLOURS;
}

const char *sf_style_ink(size_t style) {
    return palette[sf_style_colour(style)];
}

void sf_figure_open(FILE *out, const char *task, const char *title, int height, bool standalone) {
    fprintf(out, "<svg class=\"figure\" viewBox=\"0 0 %d %d\" role=\"img\"", WIDTH, height);
    if (standalone)
        fprintf(out, " xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\"",
                WIDTH, height);
    fputs(" aria-label=\"", out);
    sf_markup_text(out, task);
    fputs(": ", out);
    sf_markup_text(out, title);
    fputc('"', out);
}

/* A separate file has plain attributes instead of the page's style sheet, because every program reads those. */
void sf_figure_style_alone(FILE *out, int height) {
    fprintf(out,
            "<style>.grid{stroke:#ddd}.tick{fill:#555;font-size:12px}.axis{fill:#222;font-size:13px}"
            ".threshold{stroke:#777;stroke-dasharray:5 4}.chance{stroke:#222;stroke-dasharray:1 4}"
            ".key{fill:#222;font-size:13px}.small{paint-order:stroke;stroke:#fff;stroke-width:3px}</style>\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
            WIDTH, height);
}

/* What a name may take in a figure: about 7.4 pixels per character. Longer names are cut; the table has them in full.
 */
enum { MOST_NAME = 70 };
static const double name_pixels = 7.4;

static size_t shown_length(const char *name) {
    size_t characters = 0;
    for (; *name != '\0'; name++)
        characters += ((unsigned char)*name & 0xC0) != 0x80; /* not the inner bytes of UTF-8 */
    return characters < MOST_NAME ? characters : MOST_NAME;
}

void sf_figure_name(FILE *out, const char *name) {
    char cut[SF_VARIANT_SIZE];
    size_t used = 0, characters = 0;
    for (; name[used] != '\0'; used++) {
        characters += ((unsigned char)name[used] & 0xC0) != 0x80;
        if (characters > MOST_NAME - 1) break;
    }
    snprintf(cut, sizeof cut, "%.*s", (int)used, name);
    sf_markup_text(out, cut);
    if (name[used] != '\0') fputs("…", out);
}

static size_t longest_name(const sf_study *study, size_t from, size_t to) {
    size_t longest = 0;
    for (size_t g = from; g < to; g++) {
        const size_t length = shown_length(sf_study_group(study, g)->name);
        if (length > longest) longest = length;
    }
    return longest;
}

static void open_series(FILE *out, const sf_study *study, size_t from, size_t group, size_t runs) {
    const size_t style = sf_figure_style(study, from, group);
    fprintf(out, "<g class=\"series c%zu d%zu\" data-series=\"%zu\" data-name=\"", sf_style_colour(style),
            sf_style_dash(style), group - from);
    sf_markup_text(out, sf_study_group(study, group)->name);
    fprintf(out, "\" data-runs=\"%zu\"", runs);
}

static void print_numbers(FILE *out, const char *name, const double *values, size_t count, size_t step) {
    fprintf(out, " data-%s=\"", name);
    for (size_t i = 0; i < count; i += step) fprintf(out, i > 0 ? " %.5g" : "%.5g", values[i]);
    fputc('"', out);
}

void sf_style_paint(FILE *out, size_t style, bool is_band, bool standalone) {
    static const char *const dashes[] = {"none", "7 4", "2 3"};
    if (!standalone) return;
    if (is_band)
        fprintf(out, " fill=\"%s\" fill-opacity=\"0.18\"", palette[sf_style_colour(style)]);
    else
        fprintf(out, " fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\"",
                palette[sf_style_colour(style)], dashes[sf_style_dash(style) % 3]);
}

typedef struct drawing { /* the curves of a figure that is being drawn */
    sf_series series[SF_MOST_SERIES];
    size_t count;
    size_t epochs; /* of the longest */
    size_t step;   /* every step-th epoch is drawn, and each series' last */
    double low, high;
    sf_scale x, y;
} drawing;

static void close_drawing(drawing *d) {
    for (size_t i = 0; i < d->count; i++) sf_series_close(&d->series[i]);
}

static sf_status open_drawing(drawing *d, const sf_study *study, size_t from, size_t to, sf_quantity quantity) {
    *d = (drawing){.low = INFINITY, .high = -INFINITY};
    for (size_t g = from; g < to && d->count < SF_MOST_SERIES; g++) {
        SF_TRY(sf_series_open(&d->series[d->count], study, g, quantity));
        const sf_series *s = &d->series[d->count++];
        if (s->epochs > d->epochs) d->epochs = s->epochs;
        for (size_t e = 0; e < s->epochs; e++) {
            d->low = fmin(d->low, s->low[e]);
            d->high = fmax(d->high, s->high[e]);
        }
    }
    return SF_OK;
}

/* Chance levels within the scale, too. */
static void include_chance(drawing *d, const sf_study *study, size_t from, size_t to) {
    for (size_t g = from; g < to; g++)
        if (!isnan(sf_study_group(study, g)->chance)) d->low = fmin(d->low, sf_study_group(study, g)->chance);
}

static void choose_scales(drawing *d, sf_quantity quantity) {
    if (d->epochs == 0) d->low = d->high = 0; /* nothing is finished: an empty frame */
    d->step = (d->epochs + MOST_POINTS - 1) / MOST_POINTS;
    d->x =
        (sf_scale){.low = d->epochs > 1 ? 1 : 0, .high = d->epochs > 1 ? (double)d->epochs : 2, .from = 62, .to = 620};
    d->y = (sf_scale){.from = HEIGHT - 50, .to = 14};
    if (quantity != SF_TRAIN_LOSS) {
        d->y.low = fmin(90, 10 * floor(d->low / 10));
        d->y.high = 100 + 0.02 * (100 - d->y.low);
        return;
    }
    d->y.is_log = d->low > 0 && d->high / d->low >= 20; /* else most of it would lie on the bottom */
    d->y.low = d->y.is_log ? d->low / 1.15 : 0;
    d->y.high = d->y.is_log ? d->high * 1.15 : d->high > 0 ? d->high * 1.05 : 1;
}

static void draw_series(FILE *out, const drawing *d, const sf_series *s, const sf_study *study, size_t from,
                        bool standalone) {
    const size_t style = sf_figure_style(study, from, s->group);
    const size_t step = d->step;
    double xs[2 * MOST_POINTS + 2], ys[2 * MOST_POINTS + 2], medians[MOST_POINTS + 1];
    size_t count = 0;
    for (size_t e = 0; e < s->epochs; e = e + step < s->epochs || e + 1 == s->epochs ? e + step : s->epochs - 1) {
        xs[count] = (double)(e + 1);
        ys[count] = s->high[e];
        medians[count++] = s->median[e];
    }
    open_series(out, study, from, s->group, s->runs);
    if (!standalone) {
        fprintf(out, " data-step=\"%zu\"", step);
        print_numbers(out, "low", s->low, s->epochs, step);
        print_numbers(out, "median", s->median, s->epochs, step);
        print_numbers(out, "high", s->high, s->epochs, step);
    }
    fputs("><title>", out);
    sf_markup_text(out, sf_study_group(study, s->group)->name);
    fprintf(out, ", %zu seed%s</title>\n", s->runs, s->runs == 1 ? "" : "s");
    if (s->runs > 1) { /* forward along the upper edge, back along the lower */
        for (size_t i = 0; i < count; i++) {
            xs[count + i] = xs[count - 1 - i];
            ys[count + i] = s->low[(size_t)xs[count - 1 - i] - 1];
        }
        fputs("<path class=\"band\" d=\"", out);
        sf_svg_path(out, &d->x, &d->y, xs, ys, 2 * count);
        fputs("Z\"", out);
        sf_style_paint(out, style, true, standalone);
        fputs("/>\n", out);
    }
    fputs("<path class=\"line\" d=\"", out);
    sf_svg_path(out, &d->x, &d->y, xs, medians, count);
    fputc('"', out);
    sf_style_paint(out, style, false, standalone);
    fprintf(out, "/><circle class=\"end\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"", sf_scale_place(&d->x, xs[count - 1]),
            sf_scale_place(&d->y, medians[count - 1]));
    if (standalone) fprintf(out, " fill=\"%s\"", palette[sf_style_colour(style)]);
    fputs("/></g>\n", out);
}

/* Names under the plot, for a separate file: as many columns as the longest leaves room for. */
enum { LEGEND_LEFT = 62, LEGEND_MARK = 33, LEGEND_ROW = 24 };

static size_t key_count(const sf_keys *keys) {
    return keys->to - keys->from < SF_MOST_SERIES ? keys->to - keys->from : SF_MOST_SERIES;
}

static size_t key_columns(const sf_keys *keys) {
    if (key_count(keys) == 0) return 1;
    const double longest = name_pixels * (double)longest_name(keys->study, keys->from, keys->from + key_count(keys));
    const size_t columns = (size_t)((WIDTH - LEGEND_LEFT) / (LEGEND_MARK + 16 + longest));
    return columns < 1 ? 1 : columns > 3 ? 3 : columns;
}

int sf_keys_height(const sf_keys *keys) {
    const size_t columns = key_columns(keys);
    return LEGEND_ROW * (int)((key_count(keys) + columns - 1) / columns) + 10;
}

void sf_keys_draw(FILE *out, const sf_keys *keys, int top) {
    const size_t columns = key_columns(keys);
    for (size_t i = 0; i < key_count(keys); i++) {
        const int x = LEGEND_LEFT + (int)(i % columns) * (WIDTH - LEGEND_LEFT) / (int)columns;
        const int y = top + 8 + (int)(i / columns) * LEGEND_ROW;
        fprintf(out, "<path d=\"M%d %dh26\"", x, y);
        sf_style_paint(out, sf_figure_style(keys->study, keys->from, keys->from + i), false, true);
        fprintf(out, "/><text class=\"key\" x=\"%d\" y=\"%d\">", x + LEGEND_MARK, y + 4);
        sf_figure_name(out, sf_study_group(keys->study, keys->from + i)->name);
        fputs("</text>\n", out);
    }
}

static void draw_level(FILE *out, const drawing *d, const char *name, double value) {
    fprintf(out, "<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", name, d->x.from, d->x.to,
            sf_scale_place(&d->y, value), sf_scale_place(&d->y, value));
}

/* A labelled line for each chance level of the groups; mostly they share one. */
static void draw_chance(FILE *out, const drawing *d, const sf_study *study, size_t from, size_t to) {
    for (size_t g = from; g < to; g++) {
        const double chance = sf_study_group(study, g)->chance;
        bool drawn = isnan(chance);
        for (size_t before = from; before < g; before++) drawn |= sf_study_group(study, before)->chance == chance;
        if (drawn) continue;
        draw_level(out, d, "chance", chance);
        const double y = sf_scale_place(&d->y, chance);
        fprintf(out, "<text class=\"tick small\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">chance, %.3g %%</text>\n",
                d->x.to - 4, y + 14 < d->y.from ? y + 14 : y - 4, chance); /* under it where there is room */
    }
}

static sf_status draw_curves(FILE *out, const sf_figure *figure, const sf_study *study, size_t from, size_t to,
                             bool standalone) {
    drawing d;
    const sf_status status = open_drawing(&d, study, from, to, figure->quantity);
    if (status == SF_OK) {
        const sf_criterion *criterion = sf_study_criterion(study);
        if (figure->quantity != SF_TRAIN_LOSS && d.epochs > 0) include_chance(&d, study, from, to);
        choose_scales(&d, figure->quantity);
        const sf_keys keys = {.study = study, .from = from, .to = to};
        const int height = HEIGHT + (standalone ? sf_keys_height(&keys) : 0);
        sf_figure_open(out, sf_study_group(study, from)->task, figure->title, height, standalone);
        if (!standalone)
            fprintf(out, " data-left=\"%.1f\" data-right=\"%.1f\" data-first=\"%g\" data-last=\"%g\"", d.x.from, d.x.to,
                    d.x.low, d.x.high);
        fputs(">\n", out);
        if (standalone) sf_figure_style_alone(out, height);
        sf_svg_axis(out, &d.x, &d.y, true, true, "epoch");
        sf_svg_axis(out, &d.x, &d.y, false, false, figure->title);
        if (shows_criterion(figure->quantity, criterion)) draw_level(out, &d, "threshold", criterion->value);
        for (size_t i = 0; i < d.count; i++)
            if (d.series[i].epochs > 0) draw_series(out, &d, &d.series[i], study, from, standalone);
        if (figure->quantity != SF_TRAIN_LOSS && d.epochs > 0) draw_chance(out, &d, study, from, to);
        if (standalone) sf_keys_draw(out, &keys, HEIGHT);
        fputs("</svg>\n", out);
    }
    close_drawing(&d);
    return status;
}

/* The epoch in which a run converged; 0: in none. */
static size_t arrival_of(const sf_study *study, size_t run, bool *finished) {
    size_t count;
    (void)sf_study_curve(study, run, &count, finished);
    return sf_study_arrival(study, run);
}

static bool all_arrive(const sf_study *study, size_t from, size_t to) {
    for (size_t g = from; g < to; g++)
        if (sf_study_group(study, g)->converged < sf_study_group(study, g)->finished) return false;
    return true;
}

static sf_scale convergence_scale(const sf_study *study, size_t from, size_t to, double left) {
    double low = INFINITY, high = 1;
    for (size_t g = from; g < to; g++) {
        for (size_t m = 0; m < sf_study_group(study, g)->runs; m++) {
            bool finished;
            const double epoch = (double)arrival_of(study, sf_study_member(study, g, m), &finished);
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
                      .to = all_arrive(study, from, to) ? WIDTH - 20 : WIDTH - NEVER - 44 /* half the label */};
}

typedef struct dot_row { /* where a group's dots and name go */
    double y, name_x, name_y;
    const char *anchor;
} dot_row;

static void draw_dots(FILE *out, const sf_scale *x, const sf_study *study, size_t from, size_t group, dot_row row,
                      bool standalone) {
    const sf_group *g = sf_study_group(study, group);
    const char *colour = palette[sf_style_colour(sf_figure_style(study, from, group))];
    size_t count;
    const sf_planned_run *runs = sf_study_runs(study, &count);
    open_series(out, study, from, group, g->finished);
    fprintf(out, "><text class=\"key\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", row.name_x, row.name_y, row.anchor);
    sf_figure_name(out, g->name);
    fputs("</text>\n", out);
    if (g->finished > 0 && isfinite(g->quartiles[1])) {
        const double at = sf_scale_place(x, g->quartiles[1]);
        fprintf(out, "<path class=\"line\" d=\"M%.1f %.1fV%.1f\"", at, row.y - 10, row.y + 10);
        sf_style_paint(out, sf_figure_style(study, from, group), false, standalone);
        fputs("/>\n", out);
    }
    const size_t never = g->finished - g->converged; /* side by side around their label */
    const double spread = never > 1 ? fmin(6, 60 / (double)(never - 1)) : 0;
    double next = x->to + NEVER - 0.5 * spread * (double)(never > 0 ? never - 1 : 0);
    for (size_t m = 0; m < g->runs; m++) {
        bool finished;
        const size_t run = sf_study_member(study, group, m), epoch = arrival_of(study, run, &finished);
        if (!finished) continue;
        const double at = epoch > 0 ? sf_scale_place(x, (double)epoch) : next;
        if (epoch == 0) next += spread;
        fprintf(out, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"", at, row.y);
        if (standalone) fprintf(out, " fill=\"%s\" fill-opacity=\"0.55\"", colour);
        fprintf(out, "><title>seed %lld: ", (long long)runs[run].config.seed);
        size_t trained;
        sf_study_curve(study, run, &trained, &finished);
        if (epoch > 0)
            fprintf(out, "epoch %zu</title></circle>\n", epoch);
        else
            fprintf(out, "not reached in %zu epoch%s</title></circle>\n", trained, trained == 1 ? "" : "s");
    }
    fputs("</g>\n", out);
}

static sf_status draw_convergence(FILE *out, const sf_figure *figure, const sf_study *study, size_t from, size_t to,
                                  bool standalone) {
    if (to - from > SF_MOST_SERIES) to = from + SF_MOST_SERIES;
    const bool beside = name_pixels * (double)longest_name(study, from, to) < 160; /* else names are above their rows */
    const double row_height = beside ? ROW : 1.7 * ROW;
    const int height = 70 + (int)(row_height * (double)(to - from));
    const sf_scale x = convergence_scale(study, from, to, beside ? 190 : 62), y = {.from = height - 50, .to = 14};
    char title[SF_TITLE_SIZE];
    sf_figure_title(title, figure, study);
    sf_figure_open(out, sf_study_group(study, from)->task, title, height, standalone);
    fputs(">\n", out);
    if (standalone) sf_figure_style_alone(out, height);
    sf_svg_axis(out, &x, &y, true, true, title);
    if (!all_arrive(study, from, to))
        fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">not reached</text>\n",
                x.to + NEVER, y.from + 18);
    for (size_t g = from; g < to; g++) {
        const double bottom = 14 + row_height * (double)(g - from + 1), middle = bottom - 0.5 * ROW;
        const dot_row row = beside ? (dot_row){middle, x.from - 12, middle + 4, "end"}
                                   : (dot_row){middle, x.from, middle - 0.6 * ROW, "start"};
        draw_dots(out, &x, study, from, g, row, standalone);
    }
    fputs("</svg>\n", out);
    return SF_OK;
}

sf_status sf_figure_draw(FILE *out, const sf_figure *figure, const sf_study *study, size_t from, size_t to,
                         bool standalone) {
    return (figure->quantity == SF_QUANTITIES ? draw_convergence : draw_curves)(out, figure, study, from, to,
                                                                                standalone);
}

/* Spreadsheets take what begins with one of these for a formula, quoted or not; behind an apostrophe it is text. */
static bool looks_like_a_formula(const char *text) {
    return *text != '\0' && strchr("=+-@\t\r", *text) != NULL;
}

void sf_csv_text(FILE *out, const char *text) {
    fputs(looks_like_a_formula(text) ? "\"'" : "\"", out);
    for (; *text != '\0'; text++) {
        if (*text == '"') fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void write_arrivals(FILE *out, const sf_study *study, size_t group) {
    size_t count;
    const sf_planned_run *runs = sf_study_runs(study, &count);
    for (size_t m = 0; m < sf_study_group(study, group)->runs; m++) {
        bool finished;
        const size_t run = sf_study_member(study, group, m), epoch = arrival_of(study, run, &finished);
        if (!finished) continue;
        sf_csv_text(out, sf_study_group(study, group)->name);
        fprintf(out, ",%lld,", (long long)runs[run].config.seed);
        if (epoch > 0) fprintf(out, "%zu", epoch);
        fputc('\n', out);
    }
}

sf_status sf_figure_write_csv(FILE *out, const sf_figure *figure, const sf_study *study, size_t from, size_t to) {
    const bool curves = figure->quantity != SF_QUANTITIES;
    fputs(curves ? "variant,epoch,runs,q25,median,q75\n" : "variant,seed,epochs\n", out);
    for (size_t g = from; g < to; g++) {
        if (!curves) {
            write_arrivals(out, study, g);
            continue;
        }
        sf_series s;
        SF_TRY(sf_series_open(&s, study, g, figure->quantity));
        for (size_t e = 0; e < s.epochs; e++) {
            sf_csv_text(out, sf_study_group(study, g)->name);
            fprintf(out, ",%zu,%zu,%.10g,%.10g,%.10g\n", e + 1, s.runs, s.low[e], s.median[e], s.high[e]);
        }
        sf_series_close(&s);
    }
    return SF_OK;
}
