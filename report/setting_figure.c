#include "report/setting_figure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "io/atomic_file.h"
#include "report/figure.h"
#include "report/svg.h"

#define STEM "epochs-by-"
const sf_figure_info sf_setting_figure_info = {STEM "SETTING", "Epochs to convergence against a setting that varies"};

enum {
    MOST_VALUES = 64,
    WIDTH = SF_PANEL_WIDTH,
    HEIGHT = SF_PANEL_HEIGHT,
    LEFT = 64, /* what sf_svg_axis_room() asks for at five digits */
    RIGHT = WIDTH - 12,
    TOP = 10,
    NOT_REACHED = 30,
    BOTTOM = HEIGHT - 42
};

typedef struct sweep { /* a task's groups by one setting */
    const sf_study *study;
    const sf_setting *setting;
    char values[MOST_VALUES][SF_TEXT_SIZE]; /* in ascending order, or in that of their appearance */
    size_t value_count;
    const char *mechanisms[SF_MOST_SERIES];
    size_t styles[SF_MOST_SERIES]; /* the colours of the mechanisms */
    size_t mechanism_count;
    size_t groups[SF_MOST_SERIES][MOST_VALUES]; /* the one that converges soonest; SIZE_MAX: there is none */
} sweep;

static const sf_planned_run *first_run(const sf_study *study, size_t group) {
    size_t count;
    return &sf_study_runs(study, &count)[sf_study_member(study, group, 0)];
}

static bool is_mechanism(const sf_setting *setting) {
    return strcmp(setting->name, "attention") == 0;
}

/* Whether a group differs in the setting from the first of its mechanism. */
static bool varies(const sf_study *study, const sf_setting *setting, size_t from, size_t to) {
    size_t firsts[SF_MOST_SERIES], count = 0;
    for (size_t g = from; g < to; g++) {
        const sf_planned_run *run = first_run(study, g);
        size_t m = 0;
        while (m < count && strcmp(first_run(study, firsts[m])->attention, run->attention) != 0) m++;
        if (m == SF_MOST_SERIES) continue; /* not drawn */
        if (m == count) firsts[count++] = g;
        char own[SF_TEXT_SIZE], first[SF_TEXT_SIZE];
        sf_config_text(own, &run->config, setting);
        sf_config_text(first, &first_run(study, firsts[m])->config, setting);
        if (strcmp(own, first) != 0) return true;
    }
    return false;
}

static int by_number(const void *a, const void *b) {
    const double left = strtod(a, NULL), right = strtod(b, NULL);
    return (left > right) - (left < right);
}

static size_t place_of_value(const sweep *s, size_t group) {
    char value[SF_TEXT_SIZE];
    sf_config_text(value, &first_run(s->study, group)->config, s->setting);
    size_t v = 0;
    while (v < s->value_count && strcmp(s->values[v], value) != 0) v++;
    return v;
}

static size_t place_of_mechanism(const sweep *s, size_t group) {
    size_t m = 0;
    while (m < s->mechanism_count && strcmp(s->mechanisms[m], first_run(s->study, group)->attention) != 0) m++;
    return m;
}

/* The median of its epochs; infinite: not reached, NaN: not known. */
static double epochs_of(const sweep *s, size_t m, size_t v) {
    const size_t group = s->groups[m][v];
    return group == SIZE_MAX ? NAN : sf_study_group(s->study, group)->quartiles[1];
}

static void collect(sweep *s, const sf_study *study, const sf_setting *setting, size_t from, size_t to) {
    *s = (sweep){.study = study, .setting = setting};
    for (size_t g = from; g < to; g++) {
        if (place_of_value(s, g) == s->value_count && s->value_count < MOST_VALUES)
            sf_config_text(s->values[s->value_count++], &first_run(study, g)->config, setting);
        if (place_of_mechanism(s, g) < s->mechanism_count || s->mechanism_count == SF_MOST_SERIES) continue;
        /* a line goes through all settings: it has none of their dashes */
        s->styles[s->mechanism_count] = sf_style_without_dashes(sf_figure_style(study, from, g));
        s->mechanisms[s->mechanism_count++] = first_run(study, g)->attention;
    }
    if (setting->kind == SF_INTEGER || setting->kind == SF_REAL)
        qsort(s->values, s->value_count, sizeof *s->values, by_number);
    for (size_t m = 0; m < SF_MOST_SERIES; m++)
        for (size_t v = 0; v < MOST_VALUES; v++) s->groups[m][v] = SIZE_MAX;
    for (size_t g = from; g < to; g++) {
        const size_t v = place_of_value(s, g), m = place_of_mechanism(s, g);
        if (v == s->value_count || m == s->mechanism_count || sf_study_group(study, g)->finished == 0) continue;
        const double before = epochs_of(s, m, v), now = sf_study_group(study, g)->quartiles[1];
        if (s->groups[m][v] == SIZE_MAX || now < before || (isnan(before) && !isnan(now))) s->groups[m][v] = g;
    }
}

static bool has_points(const sweep *s) {
    for (size_t m = 0; m < s->mechanism_count; m++)
        for (size_t v = 0; v < s->value_count; v++)
            if (s->groups[m][v] != SIZE_MAX) return true;
    return false;
}

static sf_scale scale_of(const sweep *s, bool *some_not_reached) {
    double low = INFINITY, high = 1;
    *some_not_reached = false;
    for (size_t m = 0; m < s->mechanism_count; m++)
        for (size_t v = 0; v < s->value_count; v++) {
            const double epochs = epochs_of(s, m, v);
            *some_not_reached |= isinf(epochs) != 0;
            if (!isfinite(epochs)) continue;
            low = fmin(low, epochs);
            high = fmax(high, epochs);
        }
    const bool is_log = isfinite(low) && high / low >= 10;
    return (sf_scale){.low = is_log ? low / 1.2 : 0,
                      .high = high * (is_log ? 1.2 : 1.05),
                      .is_log = is_log,
                      .from = BOTTOM,
                      .to = *some_not_reached ? TOP + NOT_REACHED : TOP};
}

static double x_of(const sweep *s, size_t v) {
    return LEFT + (RIGHT - LEFT) * ((double)v + 0.5) / (double)s->value_count;
}

static void draw_values(FILE *out, const sweep *s) {
    double longest = 1;
    for (size_t v = 0; v < s->value_count; v++) longest = fmax(longest, sf_name_width(s->values[v]) + 6);
    const size_t step = (size_t)ceil((double)s->value_count * longest / (RIGHT - LEFT)); /* what there is room for */
    for (size_t v = 0; v<s->value_count; v += step> 0 ? step : 1) {
        fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", x_of(s, v), BOTTOM + 16);
        sf_figure_name(out, s->values[v]);
        fputs("</text>\n", out);
    }
    fprintf(out, "<text class=\"axis\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", 0.5 * (LEFT + RIGHT),
            BOTTOM + 34, s->setting->name);
}

static void draw_point(FILE *out, const sweep *s, size_t m, size_t v, double x, double y, const char *ink) {
    const double epochs = epochs_of(s, m, v);
    const sf_group *group = sf_study_group(s->study, s->groups[m][v]);
    fprintf(out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"", isfinite(epochs) ? "end" : "mark", x, y);
    if (ink != NULL && isfinite(epochs)) fprintf(out, " fill=\"%s\"", ink);
    if (ink != NULL && !isfinite(epochs)) fprintf(out, " fill=\"#fff\" stroke=\"%s\" stroke-width=\"1.5\"", ink);
    fputs("><title>", out);
    sf_markup_text(out, group->name);
    if (isfinite(epochs))
        fprintf(out, ": %.4g epochs, median of %zu seed%s</title></circle>", epochs, group->finished,
                group->finished == 1 ? "" : "s");
    else
        fprintf(out, ": not reached in %zu epoch%s</title></circle>", group->longest, group->longest == 1 ? "" : "s");
}

static void draw_mechanism(FILE *out, const sweep *s, size_t m, const sf_scale *y, bool standalone) {
    const size_t style = s->styles[m];
    double xs[MOST_VALUES], ys[MOST_VALUES];
    size_t count = 0;
    const sf_scale x = {.low = LEFT, .high = RIGHT, .from = LEFT, .to = RIGHT};
    fprintf(out, "<g class=\"c%zu d%zu\" data-mechanism=\"", sf_style_colour(style), sf_style_dash(style));
    sf_markup_text(out, s->mechanisms[m]);
    fputs("\">", out);
    for (size_t v = 0; v < s->value_count; v++) {
        if (!isfinite(epochs_of(s, m, v))) continue;
        xs[count] = x_of(s, v);
        ys[count++] = epochs_of(s, m, v);
    }
    if (count > 1) {
        fputs("<path class=\"line\" d=\"", out);
        sf_svg_path(out, &x, y, xs, ys, count);
        fputc('"', out);
        sf_style_paint(out, style, false, standalone);
        fputs("/>", out);
    }
    for (size_t v = 0; v < s->value_count; v++) {
        const double epochs = epochs_of(s, m, v);
        if (isnan(epochs)) continue;
        const double shift = 7 * ((double)m - 0.5 * (double)(s->mechanism_count - 1)); /* side by side at the top */
        draw_point(out, s, m, v, x_of(s, v) + (isinf(epochs) ? shift : 0),
                   isinf(epochs) ? TOP + 8 : sf_scale_place(y, epochs), standalone ? sf_style_ink(style) : NULL);
    }
    fputs("</g>\n", out);
}

static void make_title(char out[SF_TITLE_SIZE], const sweep *s) {
    char goal[SF_CRITERION_SIZE];
    snprintf(out, SF_TITLE_SIZE, "Epochs to %s", sf_criterion_name(goal, sf_study_criterion(s->study)));
}

/* Where each mechanism converges soonest. */
static void describe(char out[SF_ABOUT_SIZE], const sweep *s, size_t from, const char *title) {
    size_t used =
        (size_t)snprintf(out, SF_ABOUT_SIZE, "%.300s: %s by %s. Soonest:", sf_study_group(s->study, from)->task, title,
                         s->setting->name);
    for (size_t m = 0; m < s->mechanism_count && used + SF_TEXT_SIZE + 120 < SF_ABOUT_SIZE; m++) {
        size_t best = s->value_count;
        for (size_t v = 0; v < s->value_count; v++)
            if (isfinite(epochs_of(s, m, v)) && (best == s->value_count || epochs_of(s, m, v) < epochs_of(s, m, best)))
                best = v;
        used += (size_t)snprintf(out + used, SF_ABOUT_SIZE - used, "%s %.60s ", m > 0 ? ";" : "", s->mechanisms[m]);
        if (best < s->value_count)
            used += (size_t)snprintf(out + used, SF_ABOUT_SIZE - used, "%.4g epochs at %.60s", epochs_of(s, m, best),
                                     s->values[best]);
        else
            used += (size_t)snprintf(out + used, SF_ABOUT_SIZE - used, "not reached");
    }
    snprintf(out + used, SF_ABOUT_SIZE - used, ".");
}

static void draw(FILE *out, const sweep *s, size_t from, bool standalone) {
    bool some_not_reached;
    char title[SF_TITLE_SIZE], about[SF_ABOUT_SIZE];
    sf_key keys[SF_MOST_SERIES];
    const sf_scale y = scale_of(s, &some_not_reached), x = {.low = 0, .high = 1, .from = LEFT, .to = RIGHT};
    for (size_t m = 0; m < s->mechanism_count; m++) keys[m] = (sf_key){s->mechanisms[m], s->styles[m]};
    const int height = HEIGHT + (standalone ? sf_keys_height(keys, s->mechanism_count, WIDTH) : 0);
    make_title(title, s);
    describe(about, s, from, title);
    sf_svg_open(out, WIDTH, height, about, standalone);
    fputs(standalone ? ">\n" : " data-marks=\"\">\n", out);
    if (standalone) sf_svg_style_alone(out, WIDTH, height);
    sf_svg_axis(out, &x, &y, false, false, "epochs to converge");
    draw_values(out, s);
    if (some_not_reached) fprintf(out, "<text class=\"tick\" x=\"2\" y=\"%d\">not reached</text>\n", TOP + 12);
    for (size_t m = 0; m < s->mechanism_count; m++) draw_mechanism(out, s, m, &y, standalone);
    if (standalone) sf_keys_draw(out, keys, s->mechanism_count, WIDTH, HEIGHT);
    fputs("</svg>\n", out);
}

/* Which colour is which mechanism, below the figure of a page. */
static void print_names(FILE *out, const sweep *s) {
    fputs("<ul class=\"legend\">\n", out);
    for (size_t m = 0; m < s->mechanism_count; m++) sf_legend_item(out, s->styles[m], SF_NO_SWITCH, s->mechanisms[m]);
    fputs("</ul>\n", out);
}

static void write_csv(FILE *out, const sweep *s) {
    fprintf(out, "mechanism,%s,variant,runs,q25,median,q75\n", s->setting->name);
    for (size_t m = 0; m < s->mechanism_count; m++)
        for (size_t v = 0; v < s->value_count; v++) {
            if (s->groups[m][v] == SIZE_MAX) continue;
            const sf_group *group = sf_study_group(s->study, s->groups[m][v]);
            sf_csv_text(out, s->mechanisms[m]);
            fputc(',', out);
            sf_csv_text(out, s->values[v]);
            fputc(',', out);
            sf_csv_text(out, group->name);
            fprintf(out, ",%zu", group->finished);
            for (int q = 0; q < 3; q++)
                if (isfinite(group->quartiles[q]))
                    fprintf(out, ",%.10g", group->quartiles[q]);
                else
                    fputc(',', out); /* not reached, or ended too early to tell */
            fputc('\n', out);
        }
}

typedef sf_status sweep_user(void *context, const sweep *s);

/* For every setting that varies, if there is anything to draw. */
static sf_status each_sweep(const sf_study *study, size_t from, size_t to, sweep_user *use, void *context) {
    const sf_setting *setting;
    sweep *s;
    SF_TRY(SF_NEW(&s, 1));
    sf_status status = SF_OK;
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL && status == SF_OK; i++) {
        if ((setting->group & SF_RUN_GROUPS) == 0 || is_mechanism(setting) || strcmp(setting->name, "seed") == 0)
            continue;
        if (strcmp(setting->name, "stop-at") == 0 || strcmp(setting->name, "epochs") == 0) continue;
        if (!varies(study, setting, from, to)) continue;
        collect(s, study, setting, from, to);
        if (has_points(s)) status = use(context, s);
    }
    sf_release(s);
    return status;
}

typedef struct printing {
    FILE *out;
    size_t from;
    bool headed;
} printing;

static sf_status print_sweep(void *context, const sweep *s) {
    printing *p = context;
    char title[SF_TITLE_SIZE];
    make_title(title, s);
    if (!p->headed) fputs("<h3>What is the effect of the setting?</h3>\n<div class=\"figures sweeps\">\n", p->out);
    p->headed = true;
    char name[SF_TEXT_SIZE], caption[SF_TITLE_SIZE + SF_TEXT_SIZE];
    snprintf(name, sizeof name, STEM "%s", s->setting->name);
    snprintf(caption, sizeof caption, "%s by %s", title, s->setting->name);
    sf_figure_begin(p->out, name, p->from, caption,
                    "Does another value of this setting help, and does it help one mechanism more than another? Median "
                    "over seeds, at the best of the other settings if several vary.");
    draw(p->out, s, p->from, false);
    print_names(p->out, s);
    sf_figure_end(p->out);
    return SF_OK;
}

sf_status sf_setting_figures_print(FILE *out, const sf_study *study, size_t from, size_t to) {
    printing p = {.out = out, .from = from};
    const sf_status status = each_sweep(study, from, to, print_sweep, &p);
    if (p.headed) fputs("</div>\n", out);
    return status;
}

typedef struct place {
    const char *folder, *stem;
    size_t from;
} place;

static sf_status write_file(const place *to, const sweep *s, const char *kind) {
    char path[SF_PATH_SIZE];
    const int length = snprintf(path, sizeof path, "%s/%s-" STEM "%s.%s", to->folder, to->stem, s->setting->name, kind);
    if (length < 0 || (size_t)length >= sizeof path)
        return sf_fail(SF_BAD_INPUT, "the path '%.40s...' of --figures is too long; use a shorter one", to->folder);
    sf_atomic_file file;
    SF_TRY(sf_atomic_open(&file, path));
    if (strcmp(kind, "csv") == 0)
        write_csv(file.stream, s);
    else
        draw(file.stream, s, to->from, true);
    return sf_atomic_commit(&file);
}

static sf_status write_sweep(void *context, const sweep *s) {
    SF_TRY(write_file(context, s, "svg"));
    return write_file(context, s, "csv");
}

sf_status sf_setting_figures_write(const sf_study *study, const char *folder, const char *stem, size_t from,
                                   size_t to) {
    place p = {.folder = folder, .stem = stem, .from = from};
    return each_sweep(study, from, to, write_sweep, &p);
}
