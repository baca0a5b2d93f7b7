/* The page: verdicts first, then curves, table and everything needed to trust and repeat them. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/elementary.h"
#include "base/memory.h"
#include "base/text.h"
#include "io/atomic_file.h"
#include "report/evidence.h"
#include "report/figure.h"
#include "report/mechanism_words.h"
#include "report/results_part.h"
#include "report/setting_figure.h"
#include "report/svg.h"
#include "semfocus/report.h"
#include "semfocus/version.h"
#include "store/environment.h"
#include "study/study.h"
#include "train/data.h"

extern const char sf_page_css[], sf_page_js[]; /* page.css and page.js */

static const char generator[] = "<meta name=\"generator\" content=\"semfocus " SF_VERSION "\">";

static void print_count(FILE *out, size_t count, const char *noun) {
    fprintf(out, "%zu %s%s", count, noun, count == 1 ? "" : "s");
}

static void print_head(FILE *out, const sf_study *study) {
    size_t runs;
    sf_study_runs(study, &runs);
    fprintf(out,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n%s\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            "<meta name=\"color-scheme\" content=\"light dark\">\n<title>semfocus report</title>\n<style>\n%s</style>\n"
            "</head>\n<body>\n<header>\n<h1>Which attention mechanism learns faster?</h1>\n<p class=\"lead\">",
            generator, sf_page_css);
    print_count(out, runs, "run");
    size_t tasks = 0;
    for (size_t from = 0; from < sf_study_group_count(study); from = sf_task_end(study, from)) tasks++;
    fputs(" on ", out);
    print_count(out, tasks, "task");
    fputs(", paired by seed.", out);
    char date[32] = "";
    const time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts) != NULL) strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &parts);
    fprintf(out, " <span class=\"time\">%s</span></p>\n</header>\n<main>\n", date);
}

static bool has_finished_runs(const sf_study *study, size_t from, size_t to) {
    size_t finished = 0;
    for (size_t g = from; g < to; g++) finished += sf_study_group(study, g)->finished;
    return finished > 0;
}

static void print_legend(FILE *out, const sf_study *study, size_t from, size_t to) {
    fputs("<ul class=\"legend\">\n", out);
    for (size_t g = from; g < to && g - from < SF_MOST_SERIES; g++) {
        const size_t style = sf_figure_style(study, from, g);
        fprintf(out,
                "<li class=\"c%zu d%zu\" data-series=\"%zu\"><svg viewBox=\"0 0 30 10\"><path class=\"line\" d=\"M1 "
                "5H29\"/></svg>",
                style == 0 ? 0 : 1 + (style - 1) % SF_COLOURS, style == 0 ? 0 : (style - 1) / SF_COLOURS, g - from);
        sf_markup_text(out, sf_study_group(study, g)->name);
        fputs("</li>\n", out);
    }
    fputs("</ul>\n", out);
    sf_mechanism_words_print(out, study, from, to);
    if (to - from > SF_MOST_SERIES)
        fprintf(out, "<p class=\"note\">The figures show the first %d of %zu; the table has them all.</p>\n",
                (int)SF_MOST_SERIES, to - from);
}

static sf_status print_figures(FILE *out, const sf_study *study, size_t from, size_t to) {
    fputs("<div class=\"figures\">\n", out);
    const sf_figure *figure;
    for (size_t i = 0; (figure = sf_figure_at(i)) != NULL; i++) {
        char text[SF_TITLE_SIZE];
        fprintf(out, "<figure id=\"%s-%zu\">\n<figcaption><b>", figure->name, from);
        sf_markup_text(out, sf_figure_title(text, figure, study));
        fputs("</b> ", out);
        sf_markup_text(out, sf_figure_note(text, figure, study));
        fputs("</figcaption>\n", out);
        SF_TRY(sf_figure_draw(out, figure, study, from, to, false));
        fputs("</figure>\n", out);
    }
    fputs("</div>\n", out);
    return SF_OK;
}

static sf_status print_evidence(FILE *out, const sf_study *study, sf_store *store, size_t from, size_t to) {
    sf_evidence evidence;
    SF_TRY(sf_evidence_open(&evidence, study, store, from, to));
    const sf_status status = sf_evidence_print(out, &evidence);
    sf_evidence_close(&evidence);
    return status;
}

static const sf_planned_run *first_run(const sf_study *study, size_t group) {
    size_t count;
    return &sf_study_runs(study, &count)[sf_study_member(study, group, 0)];
}

static bool differs(const sf_study *study, size_t from, size_t to, const sf_setting *setting) {
    char first[SF_TEXT_SIZE], other[SF_TEXT_SIZE];
    sf_config_text(first, &first_run(study, from)->config, setting);
    for (size_t g = from + 1; g < to; g++) {
        sf_config_text(other, &first_run(study, g)->config, setting);
        if (strcmp(first, other) != 0) return true;
    }
    return false;
}

/* The settings all runs of a task share, and which of them are not the task's own recipe. */
static sf_status print_settings(FILE *out, const sf_study *study, size_t from, size_t to) {
    const sf_planned_run *run = first_run(study, from);
    sf_config recipe;
    sf_config_init(&recipe);
    SF_TRY(sf_run_data_recipe(&recipe, run->task));
    char *shared = NULL, *changed = NULL;
    size_t shared_size, changed_size;
    FILE *table = open_memstream(&shared, &shared_size), *changes = open_memstream(&changed, &changed_size);
    if (table == NULL || changes == NULL) {
        if (table != NULL) fclose(table);
        if (changes != NULL) fclose(changes);
        free(shared);
        free(changed);
        return sf_fail(SF_NO_MEMORY, "no memory left to write the report");
    }
    const sf_setting *setting;
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++) {
        if ((setting->group & SF_RUN_GROUPS) == 0 || strcmp(setting->name, "seed") == 0) continue;
        if (study->stored && !sf_setting_changes_numbers(setting, &run->config)) continue; /* the store does not know */
        const bool varies = differs(study, from, to, setting);
        char value[SF_TEXT_SIZE], usual[SF_TEXT_SIZE];
        sf_config_text(value, &run->config, setting);
        sf_config_text(usual, &recipe, setting);
        fprintf(table, "<div><dt>%s</dt><dd>", setting->name);
        sf_markup_text(table, varies ? "varies" : value);
        fputs("</dd></div>\n", table);
        const bool is_model = strcmp(setting->name, "attention") != 0 && strcmp(setting->name, "stop-at") != 0;
        if (varies || strcmp(value, usual) == 0 || !is_model) continue; /* what is studied, and when to stop looking */
        fprintf(changes, "%s%s ", ftell(changes) > 0 ? ", " : "", setting->name);
        sf_markup_text(changes, value);
        fputs(" instead of ", changes);
        sf_markup_text(changes, usual);
    }
    const bool failed = ferror(table) != 0 || ferror(changes) != 0;
    if (fclose(table) != 0 || fclose(changes) != 0 || failed) {
        free(shared);
        free(changed);
        return sf_fail(SF_NO_MEMORY, "no memory left to write the report");
    }
    if (*changed != '\0') fprintf(out, "<p class=\"note\"><b>Not the paper’s recipe:</b> %s.</p>\n", changed);
    fprintf(out, "<details><summary>Settings</summary><dl>\n%s</dl></details>\n", shared);
    free(shared);
    free(changed);
    return SF_OK;
}

static sf_status print_task(FILE *out, const sf_study *study, sf_store *store, size_t from, size_t to) {
    fputs("<section class=\"task\">\n<h2>", out);
    sf_markup_text(out, sf_study_group(study, from)->task);
    fputs("</h2>\n", out);
    sf_print_verdicts(out, study, from, to);
    if (has_finished_runs(study, from, to)) {
        print_legend(out, study, from, to);
        SF_TRY(print_figures(out, study, from, to));
        SF_TRY(sf_setting_figures_print(out, study, from, to));
        SF_TRY(print_evidence(out, study, store, from, to));
    }
    sf_print_table(out, study, from, to);
    SF_TRY(print_settings(out, study, from, to));
    fputs("</section>\n", out);
    return SF_OK;
}

enum { MOST_ENVIRONMENTS = 8 };

typedef struct environments { /* distinct ones, with how many runs had each */
    struct {
        char *text;
        size_t runs;
    } each[MOST_ENVIRONMENTS];
    size_t count, others;
} environments;

/* How many runs trained at a time depends on which were left: it concerns the table's seconds, not the page. */
static char *without_company(const char *text) {
    json_t *facts = json_loads(text, 0, NULL);
    json_object_del(facts, SF_RUNS_AT_A_TIME);
    char *rest = facts != NULL ? json_dumps(facts, JSON_COMPACT) : NULL;
    json_decref(facts);
    return rest;
}

static void note_environment(environments *found, const char *text) {
    size_t i = 0;
    while (i < found->count && strcmp(found->each[i].text, text) != 0) i++;
    if (i == found->count) {
        char *copy = found->count < MOST_ENVIRONMENTS ? strdup(text) : NULL;
        if (copy == NULL) {
            found->others++;
            return;
        }
        found->each[found->count++].text = copy;
    }
    found->each[i].runs++;
}

static void print_environment(FILE *out, const char *text, size_t runs) {
    json_t *facts = json_loads(text, 0, NULL);
    fputs("<dl>\n<div><dt>runs</dt><dd>", out);
    fprintf(out, "%zu</dd></div>\n", runs);
    const char *key;
    json_t *value;
    json_object_foreach(facts, key, value) {
        fputs("<div><dt>", out);
        sf_markup_text(out, key);
        fputs("</dt><dd>", out);
        if (json_is_string(value))
            sf_markup_text(out, json_string_value(value));
        else
            fprintf(out, "%lld", (long long)json_integer_value(value));
        fputs("</dd></div>\n", out);
    }
    fputs("</dl>\n", out);
    json_decref(facts);
}

static sf_status collect_environments(environments *found, const sf_study *study, sf_store *store) {
    size_t count;
    const sf_planned_run *runs = sf_study_runs(study, &count);
    char *last = NULL, *facts = NULL; /* most runs have the one of the run before */
    sf_status status = SF_OK;
    for (size_t i = 0; i < count && status == SF_OK; i++) {
        size_t rows;
        bool finished;
        char *text = NULL;
        sf_study_curve(study, i, &rows, &finished);
        if (!finished) continue;
        status = sf_store_environment(&text, store, runs[i].id);
        if (status != SF_OK || text == NULL) continue;
        if (last == NULL || strcmp(last, text) != 0) {
            free(last);
            free(facts);
            last = text;
            facts = without_company(text);
        } else {
            free(text);
        }
        if (facts != NULL) note_environment(found, facts);
    }
    free(last);
    free(facts);
    return status;
}

static sf_status print_environments(FILE *out, const sf_study *study, sf_store *store) {
    environments found = {0};
    const sf_status status = collect_environments(&found, study, store);
    fputs("<section>\n<h2>Where the runs were computed</h2>\n", out);
    for (size_t i = 0; i < found.count; i++) {
        print_environment(out, found.each[i].text, found.each[i].runs);
        free(found.each[i].text);
    }
    if (found.others > 0)
        fprintf(out, "<p class=\"note\">Another %zu runs were computed elsewhere.</p>\n", found.others);
    fputs("</section>\n", out);
    return status;
}

static void print_reading(FILE *out, const sf_study *study) {
    const sf_criterion *criterion = sf_study_criterion(study);
    char goal[SF_CRITERION_SIZE];
    fprintf(
        out,
        "<section>\n<h2>How to read this page</h2>\n"
        "<p>A run <b>converges</b> at the first epoch with %s%s, measured without dropout on the whole training set. A "
        "run that does not converge is not dropped: it counts as later than all its epochs, and a run that diverged as "
        "later than the longest run it is compared with. <b>Not reached</b> means: in none of the epochs that were "
        "trained. <b>Not run</b> means that there is no run yet. A dash means that runs ended too early to "
        "tell.</p>\n",
        criterion->is_loss ? "" : "at least ", sf_criterion_name(goal, criterion));
    fprintf(
        out,
        "<p>The <b>speed-up</b> is the median over seeds of (epochs of the baseline) / (epochs of this one), one "
        "ratio per seed; the epochs in the sentences are the medians of each mechanism alone. Intervals are 95 %% "
        "bootstrap intervals of a median, given for %d seeds or more; with 6 to 15 seeds they contain the true value "
        "in "
        "about 9 of 10 cases. <b>p</b> is that of Wilcoxon’s signed-rank test on the pairs, exact up to 200 pairs, or "
        "of "
        "the exact sign test if some ratios are only bounds. The tests of speed on a task are corrected together by "
        "Holm’s method, and so are those of accuracy. A mechanism is called faster or slower, and its "
        "accuracy higher or lower, only if the corrected p is at most %.2f and the interval agrees. One comparison "
        "needs at least 6 seeds for that, two or "
        "three need 7, four to six need 8.</p>\n",
        (int)SF_FEWEST_SEEDS, SF_SIGNIFICANT);
    fputs("<p>A mechanism is <b>at chance</b> if its median held-out accuracy after the last epoch is at most 1.96 "
          "standard errors above chance, computed for the held-out set of one run. Sentences and tests are about the "
          "<b>last epoch</b>; the best epoch of a run was chosen on the held-out data itself, so its accuracy is too "
          "optimistic. In the curves, a run that has stopped keeps its last value until the last run of its mechanism "
          "stops, which a dot marks. Seconds are those of one run on its share of the machine; other work on the "
          "machine is "
          "not known.</p>\n"
          "</section>\n",
          out);
}

static void print_ending(FILE *out, const sf_study *study, const char *command) {
    fputs("<section>\n<h2>Reproduce this report</h2>\n<pre><code>", out);
    sf_markup_text(out, command);
    fputs("</code></pre>\n"
          "<p class=\"note\">The same command gives the same numbers, bit by bit, on any CPU and with any number of "
          "threads; "
          "only times differ.</p>\n"
          "</section>\n",
          out);
    print_reading(out, study);
    fprintf(out, "</main>\n<script>\n%s</script>\n</body>\n</html>\n", sf_page_js);
}

static sf_status print_page(FILE *out, const sf_study *study, sf_store *store, const char *command) {
    print_head(out, study);
    for (size_t from = 0, to; from < sf_study_group_count(study); from = to) {
        to = sf_task_end(study, from);
        SF_TRY(print_task(out, study, store, from, to));
    }
    SF_TRY(print_environments(out, study, store));
    print_ending(out, study, command);
    return SF_OK;
}

static sf_status check_is_report(const char *path) {
    FILE *file = fopen(path, "rb");
    char beginning[512] = "";
    if (file == NULL)
        return sf_fail(SF_BAD_INPUT, "cannot read '%s': %s; name another file with --out", path, strerror(errno));
    const size_t size = fread(beginning, 1, sizeof beginning - 1, file);
    fclose(file);
    beginning[size] = '\0';
    if (size == 0 || strstr(beginning, "content=\"semfocus ") != NULL) return SF_OK;
    return sf_fail(SF_BAD_INPUT,
                   "'%s' already exists and was not written by semfocus; move it, or name another file with --out",
                   path);
}

sf_status sf_report_check(const char *path) {
    struct stat about;
    if (strcmp(path, "-") == 0) return SF_OK;
    if (sf_text_ends_with(path, ".md") || sf_text_ends_with(path, ".markdown"))
        return sf_fail(SF_BAD_INPUT,
                       "out is '%s' but the page is HTML, not Markdown; give it a name that ends in .html", path);
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        return sf_fail(SF_BAD_INPUT, "'%s' is a folder; name a file with --out", path);
    if (stat(path, &about) == 0 && S_ISREG(about.st_mode)) SF_TRY(check_is_report(path));
    sf_atomic_file trial;
    SF_TRY(sf_atomic_open(&trial, path));
    sf_atomic_abandon(&trial);
    return SF_OK;
}

sf_status sf_report_write(const sf_study *study, sf_store *store, const char *path, const char *command) {
    if (strcmp(path, "-") == 0) return print_page(stdout, study, store, command);
    SF_TRY(sf_report_check(path));
    sf_atomic_file file;
    SF_TRY(sf_atomic_open(&file, path));
    const sf_status status = print_page(file.stream, study, store, command);
    if (status == SF_OK) return sf_atomic_commit(&file);
    sf_atomic_abandon(&file);
    return status;
}

typedef sf_status figure_writer(FILE *out, const sf_figure *figure, const sf_study *study, size_t from, size_t to);

static sf_status draw_alone(FILE *out, const sf_figure *figure, const sf_study *study, size_t from, size_t to) {
    return sf_figure_draw(out, figure, study, from, to, true);
}

enum { STEM_SIZE = 96 };
_Static_assert(STEM_SIZE + 24 <= SF_FILE_STEM_SIZE, "a number fits behind the name");

/* The beginning of a task's file names: what cannot be part of one becomes '-'. */
static void file_stem(char out[STEM_SIZE], const sf_study *study, size_t from) {
    snprintf(out, STEM_SIZE, "%s", sf_study_group(study, from)->task);
    for (char *at = out; *at != '\0'; at++)
        if (strchr("/:,\\ ", *at) != NULL || (unsigned char)*at < ' ') *at = '-';
}

/* Tasks whose names would give the same files are numbered. */
static void unique_stem(char out[STEM_SIZE + 24], const sf_study *study, size_t from) {
    char mine[STEM_SIZE], other[STEM_SIZE];
    size_t before = 0;
    file_stem(mine, study, from);
    for (size_t task = 0; task < from; task = sf_task_end(study, task)) {
        file_stem(other, study, task);
        before += strcmp(mine, other) == 0;
    }
    snprintf(out, STEM_SIZE + 24, before > 0 ? "%s-%zu" : "%s", mine, before + 1);
}

static sf_status write_figure(const sf_study *study, const char *folder, size_t from, size_t to,
                              const sf_figure *figure, const char *kind, figure_writer *writer) {
    char path[SF_PATH_SIZE], stem[STEM_SIZE + 24];
    unique_stem(stem, study, from);
    const int length = snprintf(path, sizeof path, "%s/%s-%s.%s", folder, stem, figure->name, kind);
    if (length < 0 || (size_t)length >= sizeof path)
        return sf_fail(SF_BAD_INPUT, "the path '%.40s...' of --figures is too long; use a shorter one", folder);
    sf_atomic_file file;
    SF_TRY(sf_atomic_open(&file, path));
    const sf_status status = writer(file.stream, figure, study, from, to);
    if (status == SF_OK) return sf_atomic_commit(&file);
    sf_atomic_abandon(&file);
    return status;
}

sf_status sf_figures_folder(const char *folder) {
    struct stat about;
    if (mkdir(folder, 0777) != 0 && (errno != EEXIST || stat(folder, &about) != 0 || !S_ISDIR(about.st_mode)))
        return sf_fail(SF_IO_ERROR, "cannot create the folder '%s': %s; name another with --figures", folder,
                       errno == EEXIST ? "a file has that name" : strerror(errno));
    return SF_OK;
}

static sf_status write_evidence(const sf_study *study, sf_store *store, const char *folder, size_t from, size_t to) {
    char stem[STEM_SIZE + 24];
    sf_evidence evidence;
    unique_stem(stem, study, from);
    SF_TRY(sf_evidence_open(&evidence, study, store, from, to));
    const sf_status status = sf_evidence_write(&evidence, folder, stem);
    sf_evidence_close(&evidence);
    return status;
}

sf_status sf_report_write_figures(const sf_study *study, sf_store *store, const char *folder) {
    SF_TRY(sf_figures_folder(folder));
    for (size_t from = 0, to; from < sf_study_group_count(study); from = to) {
        to = sf_task_end(study, from);
        const sf_figure *figure;
        for (size_t i = 0; (figure = sf_figure_at(i)) != NULL; i++) {
            SF_TRY(write_figure(study, folder, from, to, figure, "svg", draw_alone));
            SF_TRY(write_figure(study, folder, from, to, figure, "csv", sf_figure_write_csv));
        }
        char stem[STEM_SIZE + 24];
        unique_stem(stem, study, from);
        SF_TRY(sf_setting_figures_write(study, folder, stem, from, to));
        SF_TRY(write_evidence(study, store, folder, from, to));
    }
    return SF_OK;
}
