/* Curves for the terminal: one mark per mechanism, the median over seeds, above a line of dots at chance. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "report/figure.h"
#include "semfocus/report.h"

enum { ROWS = 13, LEFT = 8, MOST_COLUMNS = 120 };
static const char marks[] = "ox+*#@%&ABCDEFGH";
_Static_assert(sizeof marks - 1 == SF_MOST_SERIES, "one mark per series");
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

static sf_status plot_task(FILE *out, const sf_study *study, size_t from, size_t to, const sf_figure *figure,
                           size_t width) {
    sf_series series[SF_MOST_SERIES];
    canvas c = {.low = 100, .high = 100};
    size_t count = 0;
    sf_status status = SF_OK;
    c.columns = width > LEFT + 9 ? width - LEFT - 9 : 1; /* "  epoch" follows the last column */
    if (c.columns > MOST_COLUMNS) c.columns = MOST_COLUMNS;
    for (size_t row = 0; row < ROWS; row++) memset(c.cells[row], ' ', c.columns);
    for (size_t g = from; g < to && count < SF_MOST_SERIES && status == SF_OK; g++) {
        status = sf_series_open(&series[count++], study, g, figure->quantity);
        const sf_series *s = &series[count - 1];
        if (status != SF_OK) break;
        if (s->epochs > c.epochs) c.epochs = s->epochs;
        for (size_t e = 0; e < s->epochs; e++) c.low = fmin(c.low, s->median[e]);
    }
    if (status == SF_OK && c.epochs > 0) {
        const double chance = sf_study_group(study, from)->chance;
        if (!isnan(chance)) c.low = fmin(c.low, chance);
        c.low = fmin(90, 10 * floor(c.low / 10));
        if (!isnan(chance)) memset(c.cells[row_of(&c, chance)], chance_mark, c.columns);
        for (size_t i = 0; i < count; i++)
            if (series[i].epochs > 0) put_series(&c, &series[i], marks[i]);
        print_canvas(out, &c, sf_study_group(study, from)->task, figure->title);
        for (size_t i = 0; i < count; i++)
            fprintf(out, "%*s %c %s\n", LEFT, "", marks[i], sf_study_group(study, from + i)->name);
        if (!isnan(chance)) fprintf(out, "%*s %c chance, %.3g %%\n", LEFT, "", chance_mark, chance);
        fputc('\n', out);
    }
    for (size_t i = 0; i < count; i++) sf_series_close(&series[i]);
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
