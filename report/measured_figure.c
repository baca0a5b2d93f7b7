#include "report/measured_figure.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "report/figure.h"
#include "report/quantile_lines.h"
#include "study/statistics.h"

/* Which quantiles are shown: the upper ones, but for a separation the lower ones, since small ones matter. */
static size_t quantile_of(sf_measure measure, size_t panel) {
    static const size_t upper[SF_LINE_QUANTILES] = {5, 6, 7, 8}; /* 50, 75, 90, 95 % */
    return measure == SF_SEPARATION ? SF_QUANTILES - 1 - upper[panel] : upper[panel];
}

typedef struct curve { /* of a group */
    size_t group, count;
    size_t *epochs, *runs;               /* [count]; runs: with values there */
    double (*values)[SF_LINE_QUANTILES]; /* [count]: NaN where no run has one */
} curve;

static void close_curve(curve *c) {
    sf_release(c->epochs);
    sf_release(c->runs);
    sf_release(c->values);
    *c = (curve){0};
}

static int by_size(const void *a, const void *b) {
    const size_t left = *(const size_t *)a, right = *(const size_t *)b;
    return (left > right) - (left < right);
}

/* Every epoch at which a run of the group was measured, once. */
static sf_status collect_epochs(curve *c, const sf_measure_history *history) {
    const size_t members = sf_study_group(history->study, c->group)->runs;
    size_t total = 0;
    for (size_t m = 0; m < members; m++) total += history->runs[sf_study_member(history->study, c->group, m)].count;
    SF_TRY(SF_NEW(&c->epochs, total));
    for (size_t m = 0; m < members; m++) {
        const size_t run = sf_study_member(history->study, c->group, m);
        for (size_t r = 0; r < history->runs[run].count; r++)
            c->epochs[c->count++] = history->rows[history->runs[run].first + r].epoch;
    }
    if (c->count == 0) return SF_OK;
    qsort(c->epochs, c->count, sizeof *c->epochs, by_size);
    size_t kept = 1;
    for (size_t i = 1; i < c->count; i++)
        if (c->epochs[i] != c->epochs[kept - 1]) c->epochs[kept++] = c->epochs[i];
    c->count = kept;
    return SF_OK;
}

/* The run's last measurement at this epoch or before; a run that has stopped keeps its last value. */
static const sf_measure_row *row_at(const sf_measure_history *history, size_t run, size_t epoch) {
    const sf_measure_row *rows = history->rows + history->runs[run].first;
    size_t low = 0, high = history->runs[run].count; /* rows before low are of such epochs, from high on are not */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (rows[middle].epoch <= epoch)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? &rows[low - 1] : NULL;
}

static double median_at(size_t *runs, const sf_measure_history *history, size_t group, sf_measure measure,
                        size_t quantile, size_t epoch, double *values) {
    size_t count = 0;
    for (size_t m = 0; m < sf_study_group(history->study, group)->runs; m++) {
        const sf_measure_row *row = row_at(history, sf_study_member(history->study, group, m), epoch);
        if (row != NULL && isfinite(row->at[measure][quantile])) values[count++] = row->at[measure][quantile];
    }
    *runs = count;
    return count > 0 ? sf_quantile(values, count, 0.5) : NAN;
}

static sf_status open_curve(curve *c, const sf_measure_history *history, size_t group, sf_measure measure) {
    double *values;
    *c = (curve){.group = group};
    SF_TRY(SF_NEW(&values, sf_study_group(history->study, group)->runs));
    sf_status status = collect_epochs(c, history);
    if (status == SF_OK) status = SF_NEW(&c->runs, c->count);
    if (status == SF_OK) status = SF_NEW(&c->values, c->count);
    for (size_t e = 0; e < c->count && status == SF_OK; e++)
        for (size_t p = 0; p < SF_LINE_QUANTILES; p++)
            c->values[e][p] =
                median_at(&c->runs[e], history, group, measure, quantile_of(measure, p), c->epochs[e], values);
    sf_release(values);
    return status;
}

bool sf_measured_is_there(const sf_measure_history *history, sf_measure measure) {
    for (size_t i = 0; i < history->row_count; i++)
        if (isfinite(history->rows[i].at[measure][quantile_of(measure, 0)])) return true;
    return false;
}

typedef struct drawing {
    curve curves[SF_MOST_SERIES];
    double *xs[SF_MOST_SERIES]; /* the epochs of the curves */
    sf_quantile_series series[SF_MOST_SERIES];
    size_t count;
    double last; /* epoch */
} drawing;

static sf_status open_drawing(drawing *d, const sf_measure_history *history, sf_measure measure) {
    d->last = 1;
    for (size_t g = history->from; g < history->to && d->count < SF_MOST_SERIES; g++) {
        curve *c = &d->curves[d->count];
        double **xs = &d->xs[d->count];
        SF_TRY(open_curve(c, history, g, measure));
        SF_TRY(SF_NEW(xs, c->count));
        for (size_t e = 0; e < c->count; e++) {
            (*xs)[e] = (double)c->epochs[e];
            if (c->runs[e] > 0) d->last = fmax(d->last, (*xs)[e]);
        }
        d->series[d->count++] = (sf_quantile_series){.name = sf_study_group(history->study, g)->name,
                                                     .number = g - history->from,
                                                     .style = sf_figure_style(history->study, history->from, g),
                                                     .count = c->count,
                                                     .x = *xs,
                                                     .values = (const double(*)[SF_LINE_QUANTILES])c->values};
    }
    return SF_OK;
}

/* Where the middle of each series ends. */
static void describe(char out[SF_ABOUT_SIZE], const drawing *d, const char *title, const char *percent) {
    size_t used = (size_t)snprintf(out, SF_ABOUT_SIZE, "%s. The %s quantile at the end of training:", title, percent);
    for (size_t i = 0; i < d->count && used + SF_VARIANT_SIZE + 40 < SF_ABOUT_SIZE; i++) {
        const sf_quantile_series *s = &d->series[i];
        if (s->count > 0 && isfinite(s->values[s->count - 1][0]))
            used +=
                (size_t)snprintf(out + used, SF_ABOUT_SIZE - used, " %s %.3g;", s->name, s->values[s->count - 1][0]);
    }
    out[used - 1] = '.';
}

sf_status sf_measured_draw(FILE *out, const sf_measure_history *history, sf_measure measure, const char *title,
                           const char *axis, bool standalone) {
    drawing *d;
    SF_TRY(SF_NEW(&d, 1));
    *d = (drawing){0};
    const sf_status status = open_drawing(d, history, measure);
    if (status == SF_OK) {
        char percents[SF_LINE_QUANTILES][16], about[SF_ABOUT_SIZE], subject[SF_TITLE_SIZE];
        snprintf(subject, sizeof subject, "%.100s at the end of training", title);
        sf_quantile_figure figure = {.about = about,
                                     .subject = subject,
                                     .x_title = "epoch",
                                     .y_title = axis,
                                     .x_high = d->last,
                                     .whole_x = true,
                                     .no_log = measure == SF_IN_DEGREE,
                                     .series = d->series,
                                     .count = d->count};
        for (size_t p = 0; p < SF_LINE_QUANTILES; p++) {
            snprintf(percents[p], sizeof percents[p], "%g %%", sf_quantile_percents[quantile_of(measure, p)]);
            figure.titles[p] = percents[p];
        }
        describe(about, d, title, percents[0]);
        sf_quantile_lines_draw(out, &figure, standalone);
    }
    for (size_t i = 0; i < SF_MOST_SERIES; i++) {
        close_curve(&d->curves[i]);
        sf_release(d->xs[i]);
    }
    sf_release(d);
    return status;
}

static void write_rows(FILE *out, const curve *c, const char *name) {
    for (size_t e = 0; e < c->count; e++) {
        if (c->runs[e] == 0) continue;
        sf_csv_text(out, name);
        fprintf(out, ",%zu,%zu", c->epochs[e], c->runs[e]);
        for (size_t p = 0; p < SF_LINE_QUANTILES; p++) fprintf(out, ",%.10g", c->values[e][p]);
        fputc('\n', out);
    }
}

sf_status sf_measured_write_csv(FILE *out, const sf_measure_history *history, sf_measure measure) {
    fputs("variant,epoch,runs", out);
    for (size_t p = 0; p < SF_LINE_QUANTILES; p++) fprintf(out, ",q%g", sf_quantile_percents[quantile_of(measure, p)]);
    fputc('\n', out);
    for (size_t g = history->from; g < history->to; g++) {
        curve c;
        const sf_status status = open_curve(&c, history, g, measure);
        if (status == SF_OK) write_rows(out, &c, sf_study_group(history->study, g)->name);
        close_curve(&c);
        SF_TRY(status);
    }
    return SF_OK;
}
