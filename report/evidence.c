#include "report/evidence.h"

#include <string.h>

#include "base/memory.h"
#include "io/atomic_file.h"
#include "report/figure.h"
#include "report/measured_figure.h"
#include "report/region_figure.h"
#include "report/surface_figure.h"
#include "report/svg.h"
#include "study/landscape.h"
#include "study/stored_surfaces.h"

typedef struct entry {
    const char *name;
    const char *title; /* above it, and in lists with what it needs */
    const char *listed;
    const char *note;
    const char *axis;
    sf_measure measure; /* conditions: their regions */
} entry;

static const entry entries[] = {
    {"dispersion", "Dispersion of all scores, δs", "Dispersion of all scores over training (--every)",
     "How far apart are a query's scores? The largest minus the smallest; the larger, the sharper attention can be. "
     "One "
     "panel per quantile over queries (90 %: nine of ten queries have less), medians over seeds.",
     "δs", SF_DISPERSION},
    {"kept-dispersion", "Dispersion of the kept scores, δh", "Dispersion of the kept scores over training (--every)",
     "The same over the keys that each query keeps. The smaller it is beside δs, the better is the mechanism's bound "
     "on "
     "how fast the loss can change.",
     "δh", SF_KEPT_DISPERSION},
    {"separation", "Separation, Δh", "Separation of kept from other scores over training (--every)",
     "How clear is the choice of keys? The gap between the kept scores and the others, if keys are chosen by score: "
     "the "
     "smaller it is, the sooner the kept keys change.",
     "Δh", SF_SEPARATION},
    {"in-degree", "In-degree of keys", "In-degree of keys over training (--every)",
     "Do queries share their keys? For every key, how many queries keep it: a high value means that many queries "
     "depend "
     "on one key.",
     "queries per key", SF_IN_DEGREE},
    {"effective-keys", "Effective keys", "Effective keys of the queries over training (--every)",
     "How many keys does a query really use? 1 / the sum of its squared weights: as many keys of equal weight would be "
     "as sharp.",
     "keys", SF_EFFECTIVE_KEYS},
    {"entropy", "Entropy of the weights", "Entropy of the queries' weights over training (--every)",
     "How evenly does a query spread its weights? The sum of -w ln w: 0 if one key has all weight, ln n if n keys have "
     "equal weights.",
     "entropy", SF_ENTROPY},
    {"region-w", "Where condition W holds", "Region of condition W with the runs (--every)",
     "Does the theory favour this mechanism? Where the condition holds, its bound on how fast the loss changes with "
     "the parameters is better than that of full attention: left of the line for its δs. Filled points: the condition "
     "holds at their own δs. Area: where it holds at the median δs of the seeds. Dashed: the edge of the area for "
     "other "
     "δs, as written. δs is that of full attention; all other values are those of the mechanism, at the last epoch at "
     "which both were measured.",
     "", SF_CONDITION_W},
    {"region-x", "Where condition X holds", "Region of condition X with the runs (--every)",
     "The same for the bound on how fast the output changes with the input, which also depends on the sink ratio β = "
     "in-degree / k.",
     "", SF_CONDITION_X},
};
enum { ENTRIES = sizeof entries / sizeof *entries };

static const sf_figure_info surface_figures[] = {
    {"surface-loss", "Training loss around the weights (semfocus landscape)"},
    {"surface-accuracy", "Training accuracy around the weights (semfocus landscape)"},
    {"lipschitz", "Estimated Lipschitz constants of the loss (semfocus landscape)"},
};
enum { SURFACE_FIGURES = sizeof surface_figures / sizeof *surface_figures };

bool sf_evidence_describe(sf_figure_info *out, size_t i) {
    if (i >= ENTRIES + SURFACE_FIGURES) return false;
    *out = i < ENTRIES ? (sf_figure_info){entries[i].name, entries[i].listed} : surface_figures[i - ENTRIES];
    return true;
}

static sf_status take_points(sf_evidence *out) {
    const sf_study *study = out->history.study;
    sf_measure_pair *pairs = NULL;
    size_t pair_count, run_count;
    const sf_planned_run *runs = sf_study_runs(study, &run_count);
    sf_status status = sf_measure_history_pairs(&pairs, &pair_count, &out->history);
    if (status == SF_OK) status = SF_NEW(&out->points, pair_count * SF_QUANTILES);
    for (size_t p = 0; p < pair_count && status == SF_OK; p++) {
        if (pairs[p].group - out->history.from >= SF_MOST_SERIES) continue;
        for (size_t i = 0; i < SF_QUANTILES; i++) {
            sf_region_point *point = &out->points[out->point_count++];
            *point = (sf_region_point){.seed = runs[pairs[p].run].config.seed,
                                       .series = pairs[p].group - out->history.from,
                                       .style = sf_figure_style(study, out->history.from, pairs[p].group),
                                       .at = pairs[p].at[i]};
            strcpy(point->name, sf_study_group(study, pairs[p].group)->name);
        }
    }
    sf_release(pairs);
    return status;
}

sf_status sf_evidence_open(sf_evidence *out, const sf_study *study, sf_store *store, size_t from, size_t to) {
    *out = (sf_evidence){0};
    sf_status status = sf_measure_history_open(&out->history, study, store, from, to);
    if (status == SF_OK) status = take_points(out);
    if (status == SF_OK) status = sf_landscape_open_stored(&out->landscape, store, study, from, to);
    if (status != SF_OK) {
        sf_evidence_close(out);
        return status;
    }
    for (size_t i = 0; out->landscape != NULL && i < out->landscape->count; i++) {
        sf_surface *surface = &out->landscape->surfaces[i];
        surface->style = sf_figure_style(study, from, from + surface->series);
    }
    return SF_OK;
}

void sf_evidence_close(sf_evidence *evidence) {
    sf_measure_history_close(&evidence->history);
    sf_release(evidence->points);
    sf_landscape_close(evidence->landscape);
    *evidence = (sf_evidence){0};
}

static bool is_region(const entry *e) {
    return e->measure == SF_CONDITION_W || e->measure == SF_CONDITION_X;
}

static bool is_there(const sf_evidence *evidence, const entry *e) {
    return is_region(e) ? sf_region_is_there(evidence->points, evidence->point_count)
                        : sf_measured_is_there(&evidence->history, e->measure);
}

static sf_status draw(FILE *out, const sf_evidence *evidence, const entry *e, bool standalone) {
    if (is_region(e)) return sf_region_draw(out, e->measure, evidence->points, evidence->point_count, standalone);
    return sf_measured_draw(out, &evidence->history, e->measure, e->title, e->axis, standalone);
}

static sf_status write_csv(FILE *out, const sf_evidence *evidence, const entry *e) {
    if (is_region(e)) return sf_region_write_csv(out, e->measure, evidence->points, evidence->point_count);
    return sf_measured_write_csv(out, &evidence->history, e->measure);
}

static sf_status print_measures(FILE *out, const sf_evidence *evidence) {
    bool any = false;
    for (size_t i = 0; i < ENTRIES; i++) {
        if (!is_there(evidence, &entries[i])) continue;
        if (!any) {
            fputs("<h3>What attention does while it learns</h3>\n", out);
            sf_legend_print(out, evidence->history.study, evidence->history.from, evidence->history.to);
            fputs("<div class=\"figures\">\n", out);
        }
        any = true;
        sf_figure_begin(out, entries[i].name, evidence->history.from, entries[i].title, entries[i].note);
        SF_TRY(draw(out, evidence, &entries[i], false));
        sf_figure_end(out);
    }
    if (any) fputs("</div>\n", out);
    return SF_OK;
}

static sf_status print_constants(FILE *out, const sf_landscape *landscape, size_t from) {
    sf_figure_begin(out, "lipschitz", from, "Estimated Lipschitz constants",
                    "How steep is the loss near the weights? The difference of the losses of two neighbouring points, "
                    "divided by their distance: quantiles over all pairs inside a square around the weights.");
    SF_TRY(sf_lipschitz_draw(out, landscape, false));
    sf_figure_end(out);
    return SF_OK;
}

static sf_status print_surfaces(FILE *out, const sf_landscape *landscape, size_t from) {
    const sf_surface *first = sf_landscape_surface(landscape, 0);
    fprintf(out,
            "<h3>The loss around the weights</h3>\n<p class=\"note\">Is the minimum flat or steep? %zu × %zu points "
            "within ±%.6g along two random "
            "directions of seed %lu, %zu training sequences; one run per mechanism. The cross marks the weights; all "
            "maps share one scale.</p>\n<div class=\"figures maps\">\n",
            first->grid, first->grid, first->extent, (unsigned long)first->seed, first->samples);
    for (size_t i = 0; i < sf_landscape_count(landscape); i++) {
        const sf_surface *surface = sf_landscape_surface(landscape, i);
        char name[SF_SURFACE_NAME_SIZE], id[48], note[128];
        sf_surface_name(name, landscape, i);
        snprintf(id, sizeof id, "surface-loss-%s", surface->run.id);
        snprintf(note, sizeof note, "Training loss; seed %lld, epoch %zu.%s", (long long)surface->run.seed,
                 surface->epoch, surface->not_finite > 0 ? " Hatched: not finite." : "");
        sf_figure_begin(out, id, from, name, note);
        SF_TRY(sf_surface_draw(out, landscape, i, SF_SURFACE_LOSS, false));
        sf_figure_end(out);
    }
    if (sf_lipschitz_is_there(landscape)) SF_TRY(print_constants(out, landscape, from));
    fputs("</div>\n", out);
    return SF_OK;
}

sf_status sf_evidence_print(FILE *out, const sf_evidence *evidence) {
    SF_TRY(print_measures(out, evidence));
    if (evidence->landscape == NULL) return SF_OK;
    return print_surfaces(out, evidence->landscape, evidence->history.from);
}

static sf_status write_file(const sf_evidence *evidence, const char *folder, const char *stem, const entry *e,
                            bool is_csv) {
    char path[SF_PATH_SIZE];
    const int length = snprintf(path, sizeof path, "%s/%s%s.%s", folder, stem, e->name, is_csv ? "csv" : "svg");
    if (length < 0 || (size_t)length >= sizeof path)
        return sf_fail(SF_BAD_INPUT, "the path '%.40s...' of --figures is too long; use a shorter one", folder);
    sf_atomic_file file;
    SF_TRY(sf_atomic_open(&file, path));
    const sf_status status = is_csv ? write_csv(file.stream, evidence, e) : draw(file.stream, evidence, e, true);
    if (status == SF_OK) return sf_atomic_commit(&file);
    sf_atomic_abandon(&file);
    return status;
}

static sf_status write_entries(const sf_evidence *evidence, const char *folder, const char *stem) {
    for (size_t i = 0; i < ENTRIES; i++) {
        if (!is_there(evidence, &entries[i])) continue;
        SF_TRY(write_file(evidence, folder, stem, &entries[i], false));
        SF_TRY(write_file(evidence, folder, stem, &entries[i], true));
    }
    return SF_OK;
}

sf_status sf_evidence_write(const sf_evidence *evidence, const char *folder, const char *stem) {
    char beginning[SF_FILE_STEM_SIZE + 1];
    snprintf(beginning, sizeof beginning, "%s-", stem);
    SF_TRY(write_entries(evidence, folder, beginning));
    if (evidence->landscape == NULL) return SF_OK;
    return sf_surfaces_write(evidence->landscape, folder, beginning);
}

sf_status sf_regions_write_figures(const sf_region_point *points, size_t count, const char *folder) {
    const sf_evidence only = {.points = (sf_region_point *)points, .point_count = count};
    if (!sf_region_is_there(points, count))
        return sf_fail(SF_BAD_INPUT,
                       "there is no point to draw: at every quantile shown, a delta_s is 0 or not finite");
    SF_TRY(sf_figures_folder(folder));
    return write_entries(&only, folder, "");
}
