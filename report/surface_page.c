/* The page of loss surfaces, and their figures as files. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "io/atomic_file.h"
#include "report/figure.h"
#include "report/page.h"
#include "report/surface_figure.h"
#include "report/svg.h"
#include "semfocus/report.h"

static void print_head(FILE *out, const sf_landscape *landscape) {
    const size_t count = sf_landscape_count(landscape);
    char date[32] = "";
    const time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts) != NULL) strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &parts);
    sf_page_open(out, "semfocus landscape", "How steep is the loss around the weights?");
    fprintf(out,
            "<p class=\"lead\">%zu run%s. <span class=\"time\">%s</span></p>\n</header>\n<main>\n<section "
            "class=\"task\">\n",
            count, count == 1 ? "" : "s", date);
}

/* Without large numbers: one run and one pair of directions are an observation, no finding. */
static void print_sentences(FILE *out, const sf_landscape *landscape) {
    fputs("<ul class=\"verdicts\">\n", out);
    for (size_t i = 0; i < sf_landscape_count(landscape); i++) {
        const sf_surface *surface = sf_landscape_surface(landscape, i);
        if (*surface->sentence == '\0') continue;
        fputs("<li><p>", out);
        sf_markup_text(out, surface->sentence);
        fputs(".</p></li>\n", out);
    }
    fputs(
        "</ul>\n<p class=\"note\">One pair of directions and one run per mechanism: an observation, not a test.</p>\n",
        out);
}

static bool has_sentence(const sf_landscape *landscape) {
    for (size_t i = 0; i < sf_landscape_count(landscape); i++)
        if (*sf_landscape_surface(landscape, i)->sentence != '\0') return true;
    return false;
}

static void print_name(FILE *out, const sf_landscape *landscape, size_t i) {
    char name[SF_SURFACE_NAME_SIZE];
    sf_surface_name(name, landscape, i);
    sf_markup_name(out, name);
}

static sf_status print_maps(FILE *out, const sf_landscape *landscape, sf_surface_quantity quantity) {
    fputs("<div class=\"figures\">\n", out);
    for (size_t i = 0; i < sf_landscape_count(landscape); i++) {
        const sf_surface *surface = sf_landscape_surface(landscape, i);
        fputs("<figure data-file=\"surface\">\n<figcaption><b>", out);
        print_name(out, landscape, i);
        fprintf(out, "</b> %s. Cross: the weights%s.",
                quantity == SF_SURFACE_LOSS ? "Training loss" : "Training accuracy, %",
                surface->epoch == 0 ? " before training" : "");
        if (surface->not_finite > 0)
            fprintf(out, " Hatched: the loss is not finite (%zu points).", surface->not_finite);
        fputs("</figcaption>\n", out);
        SF_TRY(sf_surface_draw(out, landscape, i, quantity, false));
        fputs("</figure>\n", out);
    }
    fputs("</div>\n", out);
    return SF_OK;
}

static void print_legend(FILE *out, const sf_landscape *landscape) {
    fputs("<ul class=\"legend\">\n", out);
    for (size_t i = 0; i < sf_landscape_count(landscape); i++) {
        char name[SF_SURFACE_NAME_SIZE];
        sf_surface_name(name, landscape, i);
        sf_legend_item(out, sf_landscape_surface(landscape, i)->style, i, name);
    }
    fputs("</ul>\n", out);
}

static sf_status print_curves(FILE *out, const sf_landscape *landscape) {
    print_legend(out, landscape);
    fputs("<figure data-file=\"lipschitz\">\n<figcaption><b>Estimated Lipschitz constants</b> Quantiles over the "
          "pairs of neighbouring points "
          "inside the square.</figcaption>\n",
          out);
    SF_TRY(sf_lipschitz_draw(out, landscape, false));
    fputs("</figure>\n", out);
    return SF_OK;
}

static void print_cell(FILE *out, double value) {
    if (isfinite(value))
        fprintf(out, "<td>%.4g</td>", value);
    else
        fputs("<td>–</td>", out);
}

static void print_table(FILE *out, const sf_landscape *landscape) {
    fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Losses and Lipschitz constants by "
          "run\"><table>\n<thead><tr><th rowspan=\"2\" scope=\"col\">run</th>"
          "<th rowspan=\"2\" scope=\"col\">epoch</th><th colspan=\"3\" scope=\"colgroup\">training loss</th>"
          "<th rowspan=\"2\" scope=\"col\">accuracy of the weights, %</th><th rowspan=\"2\" scope=\"col\">points not "
          "finite</th><th colspan=\"4\" scope=\"colgroup\">estimated Lipschitz constants, largest square</th></tr>\n"
          "<tr><th scope=\"col\">of the weights</th><th scope=\"col\">smallest</th><th scope=\"col\">largest</th>"
          "<th scope=\"col\">50 %</th><th scope=\"col\">75 %</th><th scope=\"col\">95 %</th><th scope=\"col\">99 %</th>"
          "</tr></thead>\n<tbody>\n",
          out);
    for (size_t i = 0; i < sf_landscape_count(landscape); i++) {
        const sf_surface *s = sf_landscape_surface(landscape, i);
        fprintf(out, "<tr%s><th scope=\"row\">", s->baseline == i ? " class=\"baseline\"" : "");
        print_name(out, landscape, i);
        fprintf(out, "<br><small>%s</small></th><td>%zu</td>", s->run.id, s->epoch);
        print_cell(out, s->centre_loss);
        print_cell(out, s->least);
        print_cell(out, s->most);
        fprintf(out, "<td>%.2f</td><td>%zu of %zu</td>", s->centre_accuracy, s->not_finite, s->grid * s->grid);
        for (size_t q = 0; q < SF_LIPSCHITZ_QUANTILES; q++)
            print_cell(out, s->lipschitz.quantiles[SF_LIPSCHITZ_RADII - 1][q]);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

/* Once, or where they differ for each run. */
static void print_samples(FILE *out, const sf_landscape *landscape) {
    const size_t first = sf_landscape_surface(landscape, 0)->samples;
    bool differ = false;
    for (size_t i = 0; i < sf_landscape_count(landscape); i++)
        differ |= sf_landscape_surface(landscape, i)->samples != first;
    for (size_t i = 0; differ && i < sf_landscape_count(landscape); i++) {
        fputs(i > 0 ? ", " : "", out);
        print_name(out, landscape, i);
        fprintf(out, ": %zu", sf_landscape_surface(landscape, i)->samples);
    }
    if (!differ) fprintf(out, "%zu", first);
}

static void print_ending(FILE *out, const sf_landscape *landscape, const char *command) {
    const sf_surface *s = sf_landscape_surface(landscape, 0);
    fprintf(out,
            "</section>\n<section>\n<h2>Reproduce this report</h2>\n<dl>\n<div><dt>grid</dt><dd>%zu × %zu</dd></div>\n"
            "<div><dt>extent</dt><dd>±%.6g</dd></div>\n<div><dt>training sequences</dt><dd>",
            s->grid, s->grid, s->extent);
    print_samples(out, landscape);
    fprintf(out,
            "</dd></div>\n<div><dt>direction seed</dt><dd>%lu</dd></div>\n</dl>\n<div class=\"command\"><pre><code>",
            (unsigned long)s->seed);
    sf_markup_text(out, command);
    fputs(
        "</code></pre></div>\n"
        "</section>\n"
        "<section>\n"
        "<h2>How to read this page</h2>\n"
        "<p>The plane is spanned by two random directions through a model’s weights. In each direction every tensor is "
        "Gaussian and scaled to the length (Frobenius norm) of the same tensor of the weights, so that at distance 1 "
        "the step is as "
        "large as the weights themselves. The maps show the loss of the perturbed models on training sequences, "
        "without "
        "dropout; all maps share one scale, and the contour lines are at the values marked on it. The <b>estimated "
        "Lipschitz "
        "constants</b> are the differences of the losses of neighbouring points, divided by the distance of the "
        "points, along "
        "both axes, inside squares around the weights: they show how steep the loss is there. Runs that differ in the "
        "mechanism "
        "alone and did not diverge are compared. Where a top-k mechanism changes its kept keys, the loss jumps, "
        "and the estimate grows as the grid gets finer. Models of one shape have the same directions, but "
        "these are one pair of many, and each model is one run: an observation, not a test.</p>\n"
        "</section>\n",
        out);
    sf_page_close(out);
}

static sf_status print_page(FILE *out, const sf_landscape *landscape, const char *command) {
    print_head(out, landscape);
    if (has_sentence(landscape)) print_sentences(out, landscape);
    SF_TRY(print_maps(out, landscape, SF_SURFACE_LOSS));
    if (sf_lipschitz_is_there(landscape)) SF_TRY(print_curves(out, landscape));
    print_table(out, landscape);
    fputs("<details><summary>Training accuracy</summary>\n", out);
    SF_TRY(print_maps(out, landscape, SF_SURFACE_ACCURACY));
    fputs("</details>\n", out);
    print_ending(out, landscape, command);
    return SF_OK;
}

static sf_status finish(sf_atomic_file *file, sf_status status) {
    if (status == SF_OK) return sf_atomic_commit(file);
    sf_atomic_abandon(file);
    return status;
}

sf_status sf_landscape_write(const sf_landscape *landscape, const char *path, const char *command) {
    sf_atomic_file file;
    SF_TRY(sf_report_check(path));
    SF_TRY(sf_atomic_open(&file, path));
    return finish(&file, print_page(file.stream, landscape, command));
}

static void print_number(FILE *out, double value, const char *ending) {
    if (isfinite(value)) fprintf(out, "%.10g", value);
    fputs(ending, out);
}

static sf_status write_points(FILE *out, const sf_landscape *landscape, size_t i) {
    const sf_surface *s = sf_landscape_surface(landscape, i);
    fputs("x,y,loss,accuracy\n", out);
    for (size_t row = 0; row < s->grid; row++)
        for (size_t column = 0; column < s->grid; column++) {
            print_number(out, sf_surface_coordinate(s, column), ",");
            print_number(out, sf_surface_coordinate(s, row), ",");
            print_number(out, s->losses[row * s->grid + column], ",");
            print_number(out, s->accuracies[row * s->grid + column], "\n");
        }
    return SF_OK;
}

static sf_status write_constants(FILE *out, const sf_landscape *landscape, size_t unused) {
    (void)unused;
    fputs("run,attention,seed,radius,pairs,q50,q75,q95,q99\n", out);
    for (size_t i = 0; i < sf_landscape_count(landscape); i++) {
        const sf_surface *s = sf_landscape_surface(landscape, i);
        for (size_t r = 0; r < SF_LIPSCHITZ_RADII; r++) {
            if (s->lipschitz.pairs[r] == 0) continue;
            sf_csv_text(out, s->run.id);
            fputc(',', out);
            sf_csv_text(out, s->run.attention);
            fprintf(out, ",%lld,%.10g,%zu,", (long long)s->run.seed, s->lipschitz.radii[r], s->lipschitz.pairs[r]);
            for (size_t q = 0; q < SF_LIPSCHITZ_QUANTILES; q++)
                print_number(out, s->lipschitz.quantiles[r][q], q + 1 < SF_LIPSCHITZ_QUANTILES ? "," : "\n");
        }
    }
    return SF_OK;
}

static sf_status draw_loss(FILE *out, const sf_landscape *landscape, size_t i) {
    return sf_surface_draw(out, landscape, i, SF_SURFACE_LOSS, true);
}

static sf_status draw_accuracy(FILE *out, const sf_landscape *landscape, size_t i) {
    return sf_surface_draw(out, landscape, i, SF_SURFACE_ACCURACY, true);
}

static sf_status draw_constants(FILE *out, const sf_landscape *landscape, size_t unused) {
    (void)unused;
    return sf_lipschitz_draw(out, landscape, true);
}

typedef sf_status surface_writer(FILE *out, const sf_landscape *landscape, size_t i);

typedef struct place { /* where files go */
    const char *folder, *prefix;
} place;

static sf_status write_file(const sf_landscape *landscape, place to, const char *stem, const char *kind, size_t i,
                            surface_writer *writer) {
    char path[SF_PATH_SIZE];
    const int length = snprintf(path, sizeof path, "%s/%s%s.%s", to.folder, to.prefix, stem, kind);
    if (length < 0 || (size_t)length >= sizeof path)
        return sf_fail(SF_BAD_INPUT, "the path '%.40s...' of --figures is too long; use a shorter one", to.folder);
    sf_atomic_file file;
    SF_TRY(sf_atomic_open(&file, path));
    return finish(&file, writer(file.stream, landscape, i));
}

sf_status sf_surfaces_write(const sf_landscape *landscape, const char *folder, const char *prefix) {
    const place to = {folder, prefix};
    for (size_t i = 0; i < sf_landscape_count(landscape); i++) {
        const char *id = sf_landscape_surface(landscape, i)->run.id;
        char stem[64];
        snprintf(stem, sizeof stem, "surface-accuracy-%s", id);
        SF_TRY(write_file(landscape, to, stem, "svg", i, draw_accuracy));
        snprintf(stem, sizeof stem, "surface-loss-%s", id);
        SF_TRY(write_file(landscape, to, stem, "svg", i, draw_loss));
        snprintf(stem, sizeof stem, "surface-%s", id);
        SF_TRY(write_file(landscape, to, stem, "csv", i, write_points));
    }
    if (!sf_lipschitz_is_there(landscape)) return SF_OK;
    SF_TRY(write_file(landscape, to, "lipschitz", "svg", 0, draw_constants));
    return write_file(landscape, to, "lipschitz", "csv", 0, write_constants);
}

sf_status sf_landscape_write_figures(const sf_landscape *landscape, const char *folder) {
    SF_TRY(sf_figures_folder(folder));
    return sf_surfaces_write(landscape, folder, "");
}
