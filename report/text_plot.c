/* Curves for the terminal: one mark per mechanism, the median over seeds, above a line of dots at chance. Of more than
 * six, the baseline and the five that differ most from it and from one another are drawn. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "report/figure.h"
#include "semfocus/report.h"

enum { ROWS = 13, LEFT = 8, MOST_COLUMNS = 120, MOST_DRAWN = 6 };
static const char marks[] = "ox+*#@";
_Static_assert(sizeof marks - 1 == MOST_DRAWN, "one mark per series");
static const char chance_mark = '.';

typedef struct canvas {
    char cells[ROWS][MOST_COLUMNS + 1];
    size_t columns;
    double low, high;
    size_t epochs;
} canvas;

static size_t row_of(const canvas *c, double value) {
    const double height = (value - c->low) / (c->high - c->low);
    return (size_t)((1 - fmin(fmax(height, 0), 1)) * (ROWS - 1) + 0.5);
}

static void put_series(canvas *c, const sf_series *s, char mark) {
    for (size_t column = 0; column < c->columns; column++) {
        const double share = c->columns > 1 ? (double)column / (double)(c->columns - 1) : 0;
        const size_t epoch = (size_t)(share * (double)(c->epochs - 1) + 0.5);
        if (epoch >= s->epochs) return;
        c->cells[row_of(c, s->median[epoch])][column] = mark;
    }
}

static void print_canvas(FILE *out, const canvas *c, const char *task, const char *title) {
    fprintf(out, "%s: %s, median over seeds\n", task, title);
    for (size_t row = 0; row < ROWS; row++) {
        const double value = c->high - (c->high - c->low) * (double)row / (ROWS - 1);
        if (row % 3 == 0)
            fprintf(out, "%*.4g |", LEFT - 2, value);
        else
            fprintf(out, "%*s |", LEFT - 2, "");
        fprintf(out, "%s\n", c->cells[row]);
    }
    fprintf(out, "%*s +", LEFT - 2, "");
    for (size_t column = 0; column < c->columns; column++) fputc('-', out);
    fprintf(out, "\n%*s1%*zu  epoch\n", LEFT, "", (int)c->columns - 1, c->epochs);
}

static double value_at(const sf_series *s, size_t epoch) {
    return s->median[epoch < s->epochs ? epoch : s->epochs - 1];
}

/* The mean distance of two curves; a run that has stopped keeps its last value. */
static double distance(const sf_series *a, const sf_series *b) {
    const size_t epochs = a->epochs > b->epochs ? a->epochs : b->epochs;
    double sum = 0;
    for (size_t e = 0; e < epochs; e++) sum += fabs(value_at(a, e) - value_at(b, e));
    return sum / (double)epochs;
}

/* Marks the series to draw: the baseline, then again and again the one that is farthest from all that are marked. */
static size_t choose(bool *chosen, const sf_series *series, size_t count, size_t baseline) {
    size_t marked = 0;
    for (size_t i = 0; i < count; i++) chosen[i] = false;
    for (size_t next = baseline; next < count && marked < MOST_DRAWN;) {
        chosen[next] = series[next].epochs > 0;
        marked += chosen[next];
        double farthest = -1;
        next = count;
        for (size_t i = 0; i < count; i++) {
            if (chosen[i] || series[i].epochs == 0) continue;
            double nearest = INFINITY;
            for (size_t other = 0; other < count; other++)
                if (chosen[other]) nearest = fmin(nearest, distance(&series[i], &series[other]));
            if (nearest <= farthest) continue;
            farthest = nearest;
            next = i;
        }
    }
    return marked;
}

typedef struct plot {
    const sf_study *study;
    const sf_figure *figure;
    size_t from, count;
    sf_series *series; /* [count] */
    bool *chosen;      /* [count] */
    size_t drawn, with_curves;
} plot;

static sf_status open_plot(plot *p) {
    SF_TRY(SF_NEW(&p->series, p->count));
    for (size_t i = 0; i < p->count; i++) p->series[i] = (sf_series){0};
    SF_TRY(SF_NEW(&p->chosen, p->count));
    for (size_t i = 0; i < p->count; i++) {
        SF_TRY(sf_series_open(&p->series[i], p->study, p->from + i, p->figure->quantity));
        p->with_curves += p->series[i].epochs > 0;
    }
    const size_t baseline = sf_study_group(p->study, p->from)->baseline - p->from;
    p->drawn = choose(p->chosen, p->series, p->count, baseline < p->count ? baseline : 0);
    return SF_OK;
}

static void close_plot(plot *p) {
    for (size_t i = 0; p->series != NULL && i < p->count; i++) sf_series_close(&p->series[i]);
    sf_release(p->series);
    sf_release(p->chosen);
}

static void print_names(FILE *out, const plot *p) {
    for (size_t i = 0, mark = 0; i < p->count; i++)
        if (p->chosen[i])
            fprintf(out, "%*s %c %s\n", LEFT, "", marks[mark++], sf_study_group(p->study, p->from + i)->name);
    if (p->drawn < p->with_curves)
        fprintf(out, "%*s   (the %zu of %zu that differ most; the report shows more)\n", LEFT, "", p->drawn,
                p->with_curves);
}

static void print_plot(FILE *out, const plot *p, size_t width) {
    canvas c = {.low = 100, .high = 100};
    c.columns = width > LEFT + 9 ? width - LEFT - 9 : 1; /* "  epoch" follows the last column */
    if (c.columns > MOST_COLUMNS) c.columns = MOST_COLUMNS;
    for (size_t row = 0; row < ROWS; row++) memset(c.cells[row], ' ', c.columns);
    for (size_t i = 0; i < p->count; i++) {
        if (!p->chosen[i]) continue;
        if (p->series[i].epochs > c.epochs) c.epochs = p->series[i].epochs;
        for (size_t e = 0; e < p->series[i].epochs; e++) c.low = fmin(c.low, p->series[i].median[e]);
    }
    if (c.epochs == 0) return;
    const sf_group *first = sf_study_group(p->study, p->from);
    if (!isnan(first->chance)) c.low = fmin(c.low, first->chance);
    c.low = fmin(90, 10 * floor(c.low / 10));
    if (!isnan(first->chance)) memset(c.cells[row_of(&c, first->chance)], chance_mark, c.columns);
    for (size_t i = 0, mark = 0; i < p->count; i++)
        if (p->chosen[i]) put_series(&c, &p->series[i], marks[mark++]);
    print_canvas(out, &c, first->task, p->figure->title);
    print_names(out, p);
    if (!isnan(first->chance)) fprintf(out, "%*s %c chance, %.3g %%\n", LEFT, "", chance_mark, first->chance);
    fputc('\n', out);
}

static sf_status plot_task(FILE *out, const sf_study *study, size_t from, size_t to, const sf_figure *figure,
                           size_t width) {
    plot p = {.study = study, .figure = figure, .from = from, .count = to - from};
    const sf_status status = open_plot(&p);
    if (status == SF_OK) print_plot(out, &p, width);
    close_plot(&p);
    return status;
}

sf_status sf_report_plot(char **out, const sf_study *study, size_t width) {
    size_t size;
    *out = NULL;
    FILE *text = open_memstream(out, &size);
    if (text == NULL) return sf_fail(SF_NO_MEMORY, "no memory left to plot");
    sf_status status = SF_OK;
    for (size_t from = 0, to; from < sf_study_group_count(study) && status == SF_OK; from = to) {
        to = sf_task_end(study, from);
        const sf_figure *figure;
        for (size_t i = 0; (figure = sf_figure_at(i)) != NULL && status == SF_OK; i++)
            if (figure->quantity == SF_TRAIN_ACCURACY || figure->quantity == SF_HELDOUT_ACCURACY)
                status = plot_task(text, study, from, to, figure, width);
    }
    const bool failed = ferror(text) != 0;
    if ((fclose(text) != 0 || failed) && status == SF_OK) status = sf_fail(SF_NO_MEMORY, "no memory left to plot");
    if (status != SF_OK) {
        free(*out);
        *out = NULL;
    }
    return status;
}
