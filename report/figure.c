#include "report/figure.h"

#include <math.h>
#include <string.h>

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
enum { FIGURES = sizeof figures / sizeof *figures };

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

bool sf_figure_shows_criterion(sf_quantity quantity, const sf_criterion *criterion) {
    return quantity == (criterion->is_loss ? SF_TRAIN_LOSS : SF_TRAIN_ACCURACY);
}

const char *sf_figure_note(char out[SF_TITLE_SIZE], const sf_figure *figure, const sf_study *study) {
    const sf_criterion *criterion = sf_study_criterion(study);
    char brief[SF_CRITERION_SIZE];
    sf_criterion_short(brief, criterion);
    if (sf_figure_shows_criterion(figure->quantity, criterion))
        snprintf(out, SF_TITLE_SIZE, "%s Dashed line: %s, where a run has converged.", figure->note, brief);
    else
        snprintf(out, SF_TITLE_SIZE, "%s", figure->note);
    return out;
}

void sf_figure_begin(FILE *out, const char *name, size_t number, const char *title, const char *note) {
    fprintf(out, "<figure id=\"%s-%zu\" data-file=\"%s\">\n<figcaption><b>", name, number, name);
    sf_markup_text(out, title);
    fputs("</b> ", out);
    sf_markup_text(out, note);
    fputs("</figcaption>\n", out);
}

void sf_figure_end(FILE *out) {
    fputs("</figure>\n", out);
}

sf_status sf_figure_draw(FILE *out, const sf_figure *figure, const sf_study *study, size_t from, size_t to,
                         bool standalone) {
    return (figure->quantity == SF_QUANTITIES ? sf_convergence_draw : sf_curves_draw)(out, figure, study, from, to,
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
        const size_t run = sf_study_member(study, group, m), epoch = sf_convergence_of(study, run, &finished);
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
