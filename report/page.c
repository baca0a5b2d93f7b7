/* The page: the results of all tasks at one look, then for each task verdicts, figures and table, and everything needed
 * to trust and repeat them. */
#include "report/page.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/text.h"
#include "io/atomic_file.h"
#include "report/evidence.h"
#include "report/figure.h"
#include "report/mechanism_words.h"
#include "report/own_data_part.h"
#include "report/results_part.h"
#include "report/setting_figure.h"
#include "report/svg.h"
#include "semfocus/report.h"
#include "semfocus/version.h"
#include "study/verdict.h"

static const char generator[] = "<meta name=\"generator\" content=\"semfocus " SF_VERSION "\">";

void sf_page_open(FILE *out, const char *title, const char *heading) {
    fprintf(out,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n%s\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            "<meta name=\"color-scheme\" content=\"light dark\">\n<title>%s</title>\n<style>\n%s</style>\n"
            "</head>\n<body>\n<header>\n<h1>%s</h1>\n",
            generator, title, sf_page_css, heading);
}

static void print_count(FILE *out, size_t count, const char *noun) {
    fprintf(out, "%zu %s%s", count, noun, count == 1 ? "" : "s");
}

void sf_page_lead(FILE *out, const sf_study *study) {
    size_t runs, tasks = 0;
    sf_study_runs(study, &runs);
    for (size_t from = 0; from < sf_study_group_count(study); from = sf_task_end(study, from)) tasks++;
    fputs("<p class=\"lead\">", out);
    print_count(out, runs, "run");
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

void sf_page_contents(FILE *out, const sf_study *study) {
    fputs("<nav aria-label=\"Contents\">\n<ul class=\"contents\">\n<li><a href=\"#summary\">Summary</a></li>\n", out);
    for (size_t from = 0, to; from < sf_study_group_count(study); from = to) {
        to = sf_task_end(study, from);
        fprintf(out, "<li><a href=\"#task-%zu\">", from);
        sf_markup_text(out, sf_study_group(study, from)->task);
        fputs("</a>", out);
        if (has_finished_runs(study, from, to)) fprintf(out, " <a href=\"#figures-%zu\">figures</a>", from);
        fprintf(out, " <a href=\"#table-%zu\">table</a></li>\n", from);
    }
    fputs("<li><a href=\"#machines\">Machines</a></li>\n<li><a href=\"#reproduce\">Reproduce</a></li>\n"
          "<li><a href=\"#reading\">How to read this page</a></li>\n</ul>\n</nav>\n",
          out);
}

static void print_legend(FILE *out, const sf_study *study, size_t from, size_t to) {
    sf_legend_print(out, study, from, to);
    sf_mechanism_words_print(out, study, from, to);
    if (to - from > SF_MOST_SERIES)
        fprintf(out, "<p class=\"note\">The figures show the first %d of %zu; the table has them all.</p>\n",
                (int)SF_MOST_SERIES, to - from);
}

static sf_status print_figures(FILE *out, const sf_study *study, size_t from, size_t to) {
    fputs("<div class=\"figures\">\n", out);
    const sf_figure *figure;
    for (size_t i = 0; (figure = sf_figure_at(i)) != NULL; i++) {
        char title[SF_TITLE_SIZE], note[SF_TITLE_SIZE];
        sf_figure_begin(out, figure->name, from, sf_figure_title(title, figure, study),
                        sf_figure_note(note, figure, study));
        SF_TRY(sf_figure_draw(out, figure, study, from, to, false));
        sf_figure_end(out);
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

sf_status sf_page_task(FILE *out, const sf_study *study, sf_store *store, size_t from, size_t to) {
    fprintf(out, "<section class=\"task\" id=\"task-%zu\">\n<h2>", from);
    sf_markup_text(out, sf_study_group(study, from)->task);
    fputs("</h2>\n", out);
    sf_print_verdicts(out, study, from, to);
    if (has_finished_runs(study, from, to)) {
        fprintf(out, "<h3 id=\"figures-%zu\">How runs learn</h3>\n", from);
        print_legend(out, study, from, to);
        SF_TRY(print_figures(out, study, from, to));
        SF_TRY(sf_setting_figures_print(out, study, from, to));
        SF_TRY(print_evidence(out, study, store, from, to));
    }
    fprintf(out, "<h3 id=\"table-%zu\">All numbers</h3>\n", from);
    sf_print_table(out, study, from, to);
    SF_TRY(sf_page_settings(out, study, from, to));
    fputs("</section>\n", out);
    return SF_OK;
}

void sf_page_reading(FILE *out, const sf_study *study) {
    const sf_criterion *criterion = sf_study_criterion(study);
    char goal[SF_CRITERION_SIZE];
    fprintf(
        out,
        "<section id=\"reading\">\n<h2>How to read this page</h2>\n"
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

void sf_page_command(FILE *out, const char *command, const char *note) {
    fputs("<section id=\"reproduce\">\n<h2>Reproduce this report</h2>\n<div class=\"command\"><pre><code>", out);
    sf_markup_text(out, command);
    fprintf(out, "</code></pre></div>\n%s</section>\n", note);
}

void sf_page_close(FILE *out) {
    fprintf(out, "</main>\n<script>\n%s%s</script>\n</body>\n</html>\n", sf_page_files_js, sf_page_js);
}

sf_status sf_page_print_parts(FILE *out, const sf_study *study, sf_store *store) {
    sf_page_contents(out, study);
    sf_page_summary(out, study);
    for (size_t from = 0, to; from < sf_study_group_count(study); from = to) {
        to = sf_task_end(study, from);
        SF_TRY(sf_page_task(out, study, store, from, to));
    }
    SF_TRY(sf_page_labels(out, study, store));
    SF_TRY(sf_print_own_data(out, study, store));
    return sf_page_environments(out, study, store);
}

static sf_status print_page(FILE *out, const sf_study *study, sf_store *store, const char *command) {
    sf_page_open(out, "semfocus report", "Which attention mechanism learns faster?");
    sf_page_lead(out, study);
    SF_TRY(sf_page_print_parts(out, study, store));
    sf_page_command(out, command,
                    "<p class=\"note\">The same command gives the same numbers, bit by bit, on any CPU and with any "
                    "number of threads; only times differ.</p>\n");
    sf_page_reading(out, study);
    sf_page_close(out);
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
