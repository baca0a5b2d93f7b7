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
#include "lab/study.h"
#include "report/evidence.h"
#include "report/figure.h"
#include "report/svg.h"
#include "semfocus/report.h"
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
            "</head>\n<body>\n<header>\n<h1>Which attention learns faster?</h1>\n<p class=\"lead\">",
            generator, sf_page_css);
    print_count(out, runs, "run");
    size_t tasks = 0;
    for (size_t from = 0; from < sf_study_group_count(study); from = sf_task_end(study, from)) tasks++;
    fputs(" on ", out);
    print_count(out, tasks, "task");
    fputs(", compared seed by seed.", out);
    char date[32] = "";
    const time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts) != NULL) strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &parts);
    fprintf(out, " <span class=\"time\">%s</span></p>\n</header>\n<main>\n", date);
}

/* What stands before a speed-up that is only a bound. */
static const char *bound_of(const sf_group *group, bool inverse) {
    if (group->at_least && group->at_most) return "≈";
    if (!group->at_least && !group->at_most) return "";
    return group->at_least != inverse ? "≥" : "≤";
}

static void print_verdict(FILE *out, const sf_group *group) {
    const bool faster = group->speedup >= 1, near_one = fabs(sf_log(group->speedup)) < sf_log(1.05);
    fputs("<li><span class=\"factor\">", out);
    if (group->converged == 0)
        fprintf(out, "0 of %zu</span><span class=\"direction\">reach%s 95 %%</span><p>", group->finished,
                group->finished == 1 ? "es" : "");
    else if (isfinite(group->speedup) && near_one && !group->at_least && !group->at_most)
        fputs("1×</span><span class=\"direction\">as fast</span><p>", out);
    else if (isfinite(group->speedup))
        fprintf(out, "%s%.*g×</span><span class=\"direction\">%s</span><p>", bound_of(group, !faster), near_one ? 3 : 2,
                faster ? group->speedup : 1 / group->speedup, faster ? "faster" : "slower");
    else
        fputs("–</span><span class=\"direction\"></span><p>", out);
    sf_markup_text(out, group->sentence);
    fputs(".</p></li>\n", out);
}

static bool has_finished_runs(const sf_study *study, size_t from, size_t to) {
    size_t finished = 0;
    for (size_t g = from; g < to; g++) finished += sf_study_group(study, g)->finished;
    return finished > 0;
}

static void print_verdicts(FILE *out, const sf_study *study, size_t from, size_t to) {
    size_t judged = 0, unfinished = 0;
    for (size_t g = from; g < to; g++) {
        judged += *sf_study_group(study, g)->sentence != '\0';
        unfinished += sf_study_group(study, g)->runs - sf_study_group(study, g)->finished;
    }
    if (unfinished > 0) {
        fputs("<p class=\"warning\">", out);
        print_count(out, unfinished, "run");
        fputs(" not finished: what follows is about the others.</p>\n", out);
    }
    if (judged == 0) {
        fputs(
            "<p class=\"none\">There is nothing to compare here yet: it takes two mechanisms with finished runs.</p>\n",
            out);
        return;
    }
    fputs("<ul class=\"verdicts\">\n", out);
    for (size_t g = from; g < to; g++)
        if (*sf_study_group(study, g)->sentence != '\0') print_verdict(out, sf_study_group(study, g));
    fputs("</ul>\n", out);
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
    if (to - from > SF_MOST_SERIES)
        fprintf(out, "<p class=\"note\">The figures show the first %d of %zu; the table has them all.</p>\n",
                (int)SF_MOST_SERIES, to - from);
}

static sf_status print_figures(FILE *out, const sf_study *study, size_t from, size_t to) {
    fputs("<div class=\"figures\">\n", out);
    const sf_figure *figure;
    for (size_t i = 0; (figure = sf_figure_at(i)) != NULL; i++) {
        fprintf(out, "<figure id=\"%s-%zu\">\n<figcaption><b>", figure->name, from);
        sf_markup_text(out, figure->title);
        fputs("</b> ", out);
        sf_markup_text(out, figure->note);
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

static void print_epochs(FILE *out, double epochs) {
    if (isfinite(epochs))
        fprintf(out, "<td>%.4g</td>", epochs);
    else
        fprintf(out, "<td>%s</td>", isnan(epochs) ? "–" : "never");
}

static void print_accuracies(FILE *out, const sf_group *g) {
    if (isnan(g->best_heldout)) {
        fputs("<td>–</td><td>–</td><td>–</td><td>–</td>", out);
        return;
    }
    fprintf(out, "<td>%.2f</td><td>%.2f</td><td>%.1f</td><td><span class=\"time\">%.3g</span></td>", g->last_heldout,
            g->best_heldout, g->gap, g->epoch_seconds);
}

static void print_speedup(FILE *out, const sf_group *g, bool is_baseline) {
    if (!isfinite(g->speedup)) {
        fprintf(out, "<td>%s</td><td>–</td>", is_baseline ? "baseline" : "–");
        return;
    }
    fprintf(out, "<td>%s%.3g", bound_of(g, false), g->speedup);
    if (isfinite(g->low)) fprintf(out, " <small>(%.2g–%.2g)</small>", g->low, g->high);
    fprintf(out, "</td><td>%.2g</td>", g->p_speed);
}

static void print_row(FILE *out, const sf_study *study, size_t i) {
    const sf_group *g = sf_study_group(study, i);
    fprintf(out, "<tr%s><th scope=\"row\">", g->baseline == i ? " class=\"baseline\"" : "");
    sf_markup_text(out, g->name);
    fprintf(out, "</th><td>%zu/%zu</td><td>%zu</td>", g->finished, g->runs, g->converged);
    if (g->finished == 0) {
        fputs("<td colspan=\"11\">not finished</td></tr>\n", out);
        return;
    }
    for (int q = 0; q < 3; q++) print_epochs(out, g->quartiles[q]);
    print_epochs(out, g->heldout_median);
    print_speedup(out, g, g->baseline == i);
    print_accuracies(out, g);
    if (isfinite(g->quartiles[1]))
        fprintf(out, "<td><span class=\"time\">%.3g</span></td>", g->quartiles[1] * g->epoch_seconds);
    else
        print_epochs(out, g->quartiles[1]);
    fprintf(out, g->diverged > 0 ? "<td>%zu diverged</td></tr>\n" : "<td></td></tr>\n", g->diverged);
}

static void print_table(FILE *out, const sf_study *study, size_t from, size_t to) {
    fputs("<div class=\"scroll\"><table>\n<thead><tr><th rowspan=\"2\" scope=\"col\">mechanism</th>"
          "<th rowspan=\"2\" scope=\"col\">runs</th><th rowspan=\"2\" scope=\"col\">con&shy;verged</th>"
          "<th colspan=\"3\" scope=\"colgroup\">epochs to 95 % training</th>"
          "<th scope=\"colgroup\">held-out</th><th colspan=\"2\" scope=\"colgroup\">speed-up, paired</th>"
          "<th colspan=\"2\" scope=\"colgroup\">held-out accuracy, %</th><th rowspan=\"2\" scope=\"col\">gap</th>"
          "<th colspan=\"2\" scope=\"colgroup\">seconds</th><th rowspan=\"2\"></th></tr>\n"
          "<tr><th scope=\"col\">25 %</th><th scope=\"col\">median</th><th scope=\"col\">75 %</th>"
          "<th scope=\"col\">median</th><th scope=\"col\">median (95 %)</th><th scope=\"col\">p</th>"
          "<th scope=\"col\">last</th><th scope=\"col\">best</th><th scope=\"col\">an epoch</th>"
          "<th scope=\"col\">to 95 %</th></tr></thead>\n<tbody>\n",
          out);
    for (size_t g = from; g < to; g++) print_row(out, study, g);
    fputs("</tbody></table></div>\n", out);
    for (size_t g = from; g < to; g++) {
        if (*sf_study_group(study, g)->note == '\0') continue;
        fputs("<p class=\"note\"><b>", out);
        sf_markup_text(out, sf_study_group(study, g)->name);
        fputs(":</b> ", out);
        sf_markup_text(out, sf_study_group(study, g)->note);
        fputs(".</p>\n", out);
    }
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
        if (study->stored && !sf_setting_changes_numbers(setting, &run->config)) continue; /* the store cannot tell */
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
    print_verdicts(out, study, from, to);
    if (has_finished_runs(study, from, to)) {
        print_legend(out, study, from, to);
        SF_TRY(print_figures(out, study, from, to));
        SF_TRY(print_evidence(out, study, store, from, to));
    }
    print_table(out, study, from, to);
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

static void note_environment(void *context, const char *text) {
    environments *found = context;
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

static sf_status print_environments(FILE *out, const sf_study *study, sf_store *store) {
    environments found = {0};
    size_t count;
    const sf_planned_run *runs = sf_study_runs(study, &count);
    sf_status status = SF_OK;
    for (size_t i = 0; i < count && status == SF_OK; i++) {
        size_t rows;
        bool finished;
        sf_study_curve(study, i, &rows, &finished);
        char *text = NULL;
        if (finished) status = sf_store_environment(&text, store, runs[i].id);
        if (status == SF_OK && text != NULL) note_environment(&found, text);
        free(text);
    }
    fputs("<section>\n<h2>Where it was computed</h2>\n", out);
    for (size_t i = 0; i < found.count; i++) {
        print_environment(out, found.each[i].text, found.each[i].runs);
        free(found.each[i].text);
    }
    if (found.others > 0) fprintf(out, "<p class=\"note\">And %zu runs elsewhere.</p>\n", found.others);
    fputs("</section>\n", out);
    return status;
}

static void print_ending(FILE *out, const char *command) {
    fputs("<section>\n<h2>Make it again</h2>\n<pre><code>", out);
    sf_markup_text(out, command);
    fputs("</code></pre>\n"
          "<p class=\"note\">The same command gives the same numbers, bit by bit, on any number of threads of one kind "
          "of CPU (its instruction set is named above); only times differ.</p>\n"
          "</section>\n"
          "<section>\n"
          "<h2>How to read it</h2>\n"
          "<p>A run <b>converges</b> at the first epoch whose training accuracy, measured without dropout on the whole "
          "training set, is at least 95 %. A run that does not get there is not dropped: it counts as later than all "
          "its epochs, and one that diverged as later than the longest run it is compared with. <b>Never</b> is: in "
          "none of the epochs that were trained; a dash stands where runs ended too early to tell. The <b>speed-up</b> "
          "is the median over seeds of (epochs of the baseline) / (epochs of this one), each seed being its own pair, "
          "with a 95 % bootstrap interval. <b>p</b> is Wilcoxon’s signed-rank test on those pairs, exact up to 200 of "
          "them, or the exact sign test where some ratios are only bounds; fewer than six seeds cannot reach 0.05. "
          "<b>Best</b> and <b>last</b> are medians over seeds of the best and the last held-out accuracy, the "
          "<b>gap</b> that of training minus held-out accuracy at the end. In the curves a run that has stopped keeps "
          "its last value until the last run of its mechanism stops, which a dot marks. Seconds are those of one run "
          "on its share of the machine.</p>\n"
          "</section>\n"
          "</main>\n",
          out);
    fprintf(out, "<script>\n%s</script>\n</body>\n</html>\n", sf_page_js);
}

static sf_status print_page(FILE *out, const sf_study *study, sf_store *store, const char *command) {
    print_head(out, study);
    for (size_t from = 0, to; from < sf_study_group_count(study); from = to) {
        to = sf_task_end(study, from);
        SF_TRY(print_task(out, study, store, from, to));
    }
    SF_TRY(print_environments(out, study, store));
    print_ending(out, command);
    return SF_OK;
}

static sf_status check_is_report(const char *path) {
    FILE *file = fopen(path, "rb");
    char beginning[512] = "";
    if (file == NULL)
        return sf_fail(SF_BAD_INPUT, "cannot look at '%s': %s; name another with --out", path, strerror(errno));
    const size_t size = fread(beginning, 1, sizeof beginning - 1, file);
    fclose(file);
    beginning[size] = '\0';
    if (size == 0 || strstr(beginning, "content=\"semfocus ") != NULL) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "'%s' is there and is no report of semfocus; move it, or name another with --out",
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
        return sf_fail(SF_BAD_INPUT, "figures is '%.40s...' but must be a shorter path", folder);
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
        return sf_fail(SF_IO_ERROR, "cannot make the folder '%s': %s; name another with --figures", folder,
                       errno == EEXIST ? "there is a file of that name" : strerror(errno));
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
        SF_TRY(write_evidence(study, store, folder, from, to));
    }
    return SF_OK;
}
