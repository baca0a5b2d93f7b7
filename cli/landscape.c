/* The loss around the weights of runs: computes what is missing of the grids, then table, comparison, page, figures. */
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/progress.h"

typedef struct shown_work { /* what is shown of the work under way */
    const sf_landscape *landscape;
    moving_line line;
    size_t surface, before; /* the one under way, and the points it had */
} shown_work;

static void show_points(void *context, size_t surface, size_t done, size_t points) {
    shown_work *s = context;
    if (surface != s->surface) {
        s->surface = surface;
        s->before = done;
        moving_line_restart(&s->line);
    }
    const double seconds = moving_line_seconds(&s->line);
    const double rate = seconds > 0 ? (double)(done - s->before) / seconds : 0;
    const double left = rate > 0 ? (double)(points - done) / rate : 0;
    char name[SF_SURFACE_NAME_SIZE];
    sf_surface_name(name, s->landscape, surface);
    moving_line_bar(&s->line, points > 0 ? (double)done / (double)points : 0,
                    "%s (%zu of %zu): %zu of %zu points  %.1f points/s  about %d:%02d left for it", name, surface + 1,
                    sf_landscape_count(s->landscape), done, points, rate, (int)(left / 60), (int)left % 60);
}

/* Printed directly: grids are large, and this way output cannot fail for lack of memory. */
static void json_number(const char *key, double value) {
    if (isfinite(value))
        printf("%s%.17g", key, value);
    else
        printf("%snull", key);
}

/* Text that is not UTF-8 loses its non-ASCII characters; control characters are escaped, those beyond ASCII, too. */
static void json_words(const char *key, const char *text) {
    json_t *valid = json_string(text);
    const unsigned char last = valid != NULL ? 255 : '~';
    json_decref(valid);
    printf("%s\"", key);
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        const bool beyond = at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0 && last == 255;
        if (*at == '"' || *at == '\\') putchar('\\');
        if (beyond)
            printf("\\u%04x", *++at);
        else if (*at < ' ' || *at == 0x7f)
            printf("\\u%04x", *at);
        else
            putchar(*at > last ? '?' : *at);
    }
    putchar('"');
}

static void json_numbers(const char *key, const double *values, size_t count) {
    printf("%s[", key);
    for (size_t i = 0; i < count; i++) json_number(i > 0 ? ", " : "", values[i]);
    putchar(']');
}

static void json_grid(const char *key, const double *values, size_t grid) {
    printf("%s[\n", key);
    for (size_t i = 0; i < grid; i++) {
        json_numbers("      ", values + i * grid, grid);
        fputs(i + 1 < grid ? ",\n" : "]", stdout);
    }
}

static void json_curves(const char *key, const sf_lipschitz_curves *curves) {
    const char *separator = "\n";
    printf("%s[", key);
    for (size_t r = 0; r < SF_LIPSCHITZ_RADII; r++) {
        if (curves->pairs[r] == 0) continue;
        printf("%s      {\"radius\": %.17g, \"pairs\": %zu", separator, curves->radii[r], curves->pairs[r]);
        for (size_t q = 0; q < SF_LIPSCHITZ_QUANTILES; q++)
            printf(", \"q%.0f\": %.17g", 100 * sf_lipschitz_shares[q], curves->quantiles[r][q]);
        putchar('}');
        separator = ",\n";
    }
    putchar(']');
}

static void json_surface(const sf_landscape *landscape, size_t i) {
    const sf_surface *s = sf_landscape_surface(landscape, i);
    json_words("  {\n    \"id\": ", s->run.id);
    json_words(",\n    \"task\": ", s->run.task);
    json_words(",\n    \"attention\": ", s->run.attention);
    printf(",\n    \"seed\": %lld,\n    \"epoch\": %zu,\n    \"weights\": \"%016" PRIx64 "\",\n    \"grid\": %zu",
           (long long)s->run.seed, s->epoch, s->weights_hash, s->grid);
    json_number(",\n    \"extent\": ", s->extent);
    printf(",\n    \"samples\": %zu,\n    \"direction_seed\": %lu,\n    \"not_finite\": %zu", s->samples,
           (unsigned long)s->seed, s->not_finite);
    json_number(",\n    \"centre_loss\": ", s->centre_loss);
    json_number(",\n    \"centre_accuracy\": ", s->centre_accuracy);
    json_number(",\n    \"least_loss\": ", s->least);
    json_number(",\n    \"most_loss\": ", s->most);
    json_grid(",\n    \"losses\": ", s->losses, s->grid);
    json_grid(",\n    \"accuracies\": ", s->accuracies, s->grid);
    json_curves(",\n    \"lipschitz\": ", &s->lipschitz);
    if (s->baseline == i) {
        printf(",\n    \"compared_with\": null,\n    \"ratios\": null,\n    \"comparison\": null\n  }");
        return;
    }
    json_words(",\n    \"compared_with\": ", sf_landscape_surface(landscape, s->baseline)->run.id);
    json_numbers(",\n    \"ratios\": ", s->ratios, SF_LIPSCHITZ_QUANTILES);
    json_words(",\n    \"comparison\": ", s->sentence);
    printf("\n  }");
}

static int print_all_json(const sf_landscape *landscape) {
    for (size_t i = 0; i < sf_landscape_count(landscape); i++) {
        fputs(i == 0 ? "[\n" : ",\n", stdout);
        json_surface(landscape, i);
    }
    puts("\n]");
    return finish_output();
}

static void print_number(double value, int width) {
    if (isfinite(value))
        printf(" %*.4g", width, value);
    else
        printf(" %*s", width, "-");
}

static int name_width(const sf_landscape *landscape) {
    size_t width = 12;
    for (size_t i = 0; i < sf_landscape_count(landscape); i++) {
        char name[SF_SURFACE_NAME_SIZE];
        sf_surface_name(name, landscape, i);
        if (strlen(name) > width) width = strlen(name);
    }
    return (int)width;
}

static bool samples_differ(const sf_landscape *landscape) {
    for (size_t i = 1; i < sf_landscape_count(landscape); i++)
        if (sf_landscape_surface(landscape, i)->samples != sf_landscape_surface(landscape, 0)->samples) return true;
    return false;
}

static void print_losses(const sf_landscape *landscape, int width) {
    const bool with_samples = samples_differ(landscape);
    printf("%-*s  %-16s %6s", width, "training loss", "run", "epoch");
    if (with_samples) printf(" %9s", "sequences");
    printf(" %11s %10s %10s %10s %10s\n", "the weights", "least", "most", "accuracy", "not finite");
    for (size_t i = 0; i < sf_landscape_count(landscape); i++) {
        const sf_surface *s = sf_landscape_surface(landscape, i);
        char name[SF_SURFACE_NAME_SIZE];
        sf_surface_name(name, landscape, i);
        printf("%-*s  %-16s %6zu", width, name, s->run.id, s->epoch);
        if (with_samples) printf(" %9zu", s->samples);
        print_number(s->centre_loss, 11);
        print_number(s->least, 10);
        print_number(s->most, 10);
        printf(" %9.2f%% %10zu\n", s->centre_accuracy, s->not_finite);
    }
}

/* A few of the squares: the rest is in --json and in the figures. */
static void print_constants(const sf_landscape *landscape, int width) {
    static const size_t shown[] = {9, 29, 68};
    printf("\n%-*s  %9s %8s %10s %10s %10s %10s\n", width, "estimated Lipschitz constants", "|x|,|y|<=", "pairs",
           "50 %", "75 %", "95 %", "99 %");
    for (size_t n = 0; n < sizeof shown / sizeof *shown; n++)
        for (size_t i = 0; i < sf_landscape_count(landscape); i++) {
            const sf_lipschitz_curves *curves = &sf_landscape_surface(landscape, i)->lipschitz;
            char name[SF_SURFACE_NAME_SIZE];
            sf_surface_name(name, landscape, i);
            printf("%-*s  %9.3g %8zu", width, name, curves->radii[shown[n]], curves->pairs[shown[n]]);
            for (size_t q = 0; q < SF_LIPSCHITZ_QUANTILES; q++) print_number(curves->quantiles[shown[n]][q], 10);
            putchar('\n');
        }
}

static void print_comparisons(const sf_landscape *landscape) {
    bool compared = false;
    for (size_t i = 0; i < sf_landscape_count(landscape); i++) {
        const sf_surface *s = sf_landscape_surface(landscape, i);
        if (*s->sentence == '\0') continue;
        if (!compared) putchar('\n');
        print_paragraph("%s.", s->sentence);
        compared = true;
    }
    if (compared)
        puts("One pair of directions and one run per mechanism: an observation, not a test.");
    else if (sf_landscape_count(landscape) > 1)
        puts("\n"
             "Not compared: no two of these runs (without diverged ones) differ only in the mechanism.");
}

static int print_tables(const sf_landscape *landscape) {
    const sf_surface *first = sf_landscape_surface(landscape, 0);
    int width = name_width(landscape);
    if (width < 29) width = 29;
    printf("%zu x %zu points over +-%.6g along two directions (seed %lu), ", first->grid, first->grid, first->extent,
           (unsigned long)first->seed);
    if (samples_differ(landscape))
        printf("on different numbers of training sequences\n"
               "\n");
    else
        printf("%zu training sequences\n\n", first->samples);
    print_losses(landscape, width);
    print_constants(landscape, width);
    print_comparisons(landscape);
    return finish_output();
}

static int print_plot(const sf_landscape *landscape) {
    char *text;
    const sf_status status = sf_landscape_plot(&text, landscape);
    if (status != SF_OK) return fail(status);
    fputs(text, stdout);
    free(text);
    return finish_output();
}

static int show_results(const sf_landscape *landscape, const cli_request *request) {
    const sf_options *options = &request->options;
    int code = options->json ? print_all_json(landscape) : print_tables(landscape);
    if (code == EXIT_DONE && options->plot && !options->json) code = print_plot(landscape);
    if (code == EXIT_DONE && *options->out != '\0') {
        const sf_status status = sf_landscape_write(landscape, options->out, request->command);
        if (status != SF_OK) return fail(status);
        if (!options->json) printf("page: %s\n", on_one_line(options->out));
    }
    if (code == EXIT_DONE && *options->figures != '\0') {
        const sf_status status = sf_landscape_write_figures(landscape, options->figures);
        if (status != SF_OK) return fail(status);
        if (!options->json) printf("figures: %s\n", on_one_line(options->figures));
    }
    return code == EXIT_DONE ? finish_output() : code;
}

static int compute_and_show(sf_store *store, const cli_request *request) {
    const sf_options *options = &request->options;
    sf_landscape *landscape;
    sf_status status =
        sf_landscape_open(&landscape, store, (const char *const *)request->words, request->word_count, options);
    if (status != SF_OK) return fail(status);
    shown_work s = {.landscape = landscape, .surface = SIZE_MAX};
    moving_line_open(&s.line, options->quiet != 0 || options->json != 0);
    const sf_landscape_watch watch = {.stop = watch_for_stop(), .on_points = show_points, .context = &s};
    status = sf_landscape_compute(landscape, store, &watch);
    moving_line_close(&s.line);
    int code;
    if (status == SF_INTERRUPTED || (status == SF_OK && ended_by_signal() != EXIT_DONE))
        code = tell_stopped(options->store);
    else
        code = status == SF_OK ? show_results(landscape, request) : fail(status);
    sf_landscape_close(landscape);
    return code;
}

/* Opens for reading first, so that a missing store is not created. */
static sf_status open_existing(sf_store **store, const char *folder) {
    const sf_status status = sf_store_open(store, folder, SF_STORE_READ);
    if (status != SF_OK) return status;
    sf_store_close(*store);
    return sf_store_open(store, folder, SF_STORE_WRITE);
}

static int run(const cli_request *request) {
    const sf_options *options = &request->options;
    sf_store *store = NULL;
    const char *arithmetic = given_arithmetic(request);
    if (arithmetic != NULL)
        return fail_usage(
            "--%s has no effect here: surfaces are computed in f32, whatever a run was trained in; leave it out",
            arithmetic);
    if (strcmp(options->out, "-") == 0)
        return fail_usage("out is '-' but the table goes to standard output; name a file");
    const int writable = check_figures(options);
    if (writable != EXIT_DONE) return writable;
    sf_status status = *options->out != '\0' ? sf_report_check(options->out) : SF_OK;
    if (status == SF_OK) status = open_existing(&store, options->store);
    const int code = status == SF_OK ? compute_and_show(store, request) : fail(status);
    sf_store_close(store);
    return code;
}

const cli_verb verb_landscape = {
    .name = "landscape",
    .usage = "RUN... [--grid N] [--samples N] [--at last|best|init] [--out FILE.html] [--figures DIR]",
    .summary = "map the loss around the weights of runs and estimate how steep it is",
    .details =
        "RUN is an id from 'semfocus runs' or an unambiguous beginning of one; several runs, at most 16, share one "
        "scale,\n"
        "and those that differ only in the mechanism are compared. Two Gaussian directions, each tensor scaled\n"
        "to the norm of the weights' own, span a plane; the slopes between neighbouring points estimate Lipschitz\n"
        "constants. The loss is that of 1000 training sequences, spread over all of them, unless --samples says\n"
        "otherwise. It is computed in f32, whatever the run was trained in: --precision is refused. By default it "
        "takes\n"
        "about three minutes per run of the paper's NNCH shape on two cores; the paper's --grid 200 --samples 0 takes "
        "hours.\n"
        "Points are stored as they are computed: after Ctrl-C or a kill, repeat the command to continue.\n"
        "example: semfocus landscape 3f2a 91bc --out landscape.html\n",
    .groups = SF_GROUP_SURFACE | SF_GROUP_SAMPLES | SF_GROUP_WEIGHTS | SF_GROUP_OUT | SF_GROUP_REPORT | COMMON_GROUPS,
    .fewest_words = 1,
    .most_words = (size_t)-1,
    .first_word = "RUN",
    .next_words = "RUN",
    .run = run,
};
