/* What a judged study says, as a table with verdicts or as JSON, and what is drawn of it. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

const char *plural(size_t count) {
    return count == 1 ? "" : "s";
}

void say_time(char out[32], double seconds) {
    if (seconds <= 0)
        snprintf(out, 32, "no time");
    else if (seconds < 1.5)
        snprintf(out, 32, "a second");
    else if (seconds < 100)
        snprintf(out, 32, "%.0f s", seconds);
    else if (seconds < 100 * 60)
        snprintf(out, 32, "%.0f min", seconds / 60);
    else if (seconds < 72 * 3600)
        snprintf(out, 32, "%.1f h", seconds / 3600);
    else
        snprintf(out, 32, "%.0f days", seconds / 86400);
}

static bool is_baseline(const sf_study *study, size_t i) {
    return sf_study_group(study, i)->baseline == i;
}

json_t *number_or_null(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *loss_speedup_as_json(const sf_loss_speedup *loss) {
    return json_pack("{s:o, s:o, s:o, s:o}", "percent", number_or_null(loss->percent), "times",
                     number_or_null(loss->times), "largest_difference", number_or_null(loss->difference),
                     "largest_relative_difference", number_or_null(loss->relative));
}

static json_t *loss_as_json(const sf_study *study, size_t i) {
    sf_loss_speedup loss;
    if (is_baseline(study, i) || sf_study_loss_speedup(&loss, study, i) != SF_OK || isnan(loss.percent))
        return json_null();
    return loss_speedup_as_json(&loss);
}

static json_t *group_as_json(const sf_study *study, size_t i) {
    const sf_group *group = sf_study_group(study, i);
    json_t *row =
        json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:b, s:o}", "task", json_text(group->task), "variant",
                  json_text(group->name), "runs", (json_int_t)group->runs, "finished", (json_int_t)group->finished,
                  "converged", (json_int_t)group->converged, "diverged", (json_int_t)group->diverged, "baseline",
                  is_baseline(study, i), "compared_with", json_text(sf_study_group(study, group->baseline)->name));
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"epochs_q25", group->quartiles[0]},
                   {"epochs_median", group->quartiles[1]},
                   {"epochs_q75", group->quartiles[2]},
                   {"heldout_epochs_median", group->heldout_median},
                   {"last_heldout", group->last_heldout},
                   {"best_heldout", group->best_heldout},
                   {"gap", group->gap},
                   {"epoch_seconds", group->epoch_seconds},
                   {"speedup", group->speedup},
                   {"speedup_low", group->low},
                   {"speedup_high", group->high},
                   {"p", group->p_speed},
                   {"p_accuracy", group->p_accuracy}};
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
        json_object_set_new(row, numbers[n].name, number_or_null(group->finished > 0 ? numbers[n].value : NAN));
    json_object_set_new(row, "epochs_known", json_boolean(group->finished > 0 && !isnan(group->quartiles[1])));
    json_object_set_new(row, "heldout_epochs_known",
                        json_boolean(group->finished > 0 && !isnan(group->heldout_median)));
    json_object_set_new(row, "speedup_is_at_least", json_boolean(group->at_least));
    json_object_set_new(row, "speedup_is_at_most", json_boolean(group->at_most));
    json_object_set_new(row, "speedup_in_loss", loss_as_json(study, i));
    json_object_set_new(row, "verdict", *group->sentence != '\0' ? json_text(group->sentence) : json_null());
    json_object_set_new(row, "note", *group->note != '\0' ? json_text(group->note) : json_null());
    return row;
}

static void print_epochs(double epochs) {
    if (isfinite(epochs))
        printf(" %6.3g", epochs);
    else
        printf(" %6s", isnan(epochs) ? "-" : "never");
}

static void print_or_dash(const char *format, int width, double value) {
    if (isnan(value))
        printf(" %*s", width, "-");
    else
        printf(format, value);
}

static void print_group(const sf_study *study, size_t i, int width) {
    const sf_group *group = sf_study_group(study, i);
    printf("%-*s %3zu/%-3zu %9zu", width, group->name, group->finished, group->runs, group->converged);
    for (int q = 0; q < 3; q++) print_epochs(group->finished > 0 ? group->quartiles[q] : NAN);
    print_epochs(group->finished > 0 ? group->heldout_median : NAN);
    char speedup[32];
    const char *bound = group->at_least && group->at_most ? "~" : group->at_least ? ">" : group->at_most ? "<" : "";
    snprintf(speedup, sizeof speedup, "%s%.2f", bound, group->speedup);
    if (isfinite(group->speedup))
        printf(" %8s", speedup);
    else
        printf(" %8s", is_baseline(study, i) ? "baseline" : "-");
    if (group->finished > 0) {
        print_or_dash(" %8.2f%%", 9, group->last_heldout);
        print_or_dash(" %8.2f%%", 9, group->best_heldout);
        print_or_dash(" %6.1f", 6, group->gap);
        print_or_dash(" %8.3g", 8, group->epoch_seconds);
    }
    printf(group->diverged > 0 ? "  %zu diverged\n" : "\n", group->diverged);
}

static int name_width(const sf_study *study) {
    size_t width = 12;
    for (size_t i = 0; i < sf_study_group_count(study); i++) {
        const size_t length = strlen(sf_study_group(study, i)->name);
        if (length > width) width = length;
    }
    return (int)width;
}

/* Groups that differ in other settings have the same to say. */
static bool is_new_note(const sf_study *study, size_t from, size_t i) {
    const char *note = sf_study_group(study, i)->note;
    for (size_t before = from; before < i; before++)
        if (strcmp(sf_study_group(study, before)->note, note) == 0) return false;
    return *note != '\0';
}

static void print_task(const sf_study *study, size_t from, size_t to, int width) {
    printf("%s: epochs to 95 %% training accuracy (quartiles; held-out: median), held-out accuracy, seconds an epoch\n",
           on_one_line(sf_study_group(study, from)->task));
    printf("%-*s %7s %9s %6s %6s %6s %6s %8s %9s %9s %6s %8s\n", width, "", "runs", "converged", "25 %", "median",
           "75 %", "h-out", "speed-up", "last", "best", "gap", "s/epoch");
    for (size_t i = from; i < to; i++) print_group(study, i, width);
    putchar('\n');
    for (size_t i = from; i < to; i++)
        if (*sf_study_group(study, i)->sentence != '\0') printf("%s.\n", sf_study_group(study, i)->sentence);
    for (size_t i = from; i < to; i++)
        if (is_new_note(study, from, i)) printf("%s.\n", sf_study_group(study, i)->note);
    putchar('\n');
}

int print_results(const sf_study *study, bool json) {
    const size_t count = sf_study_group_count(study);
    if (json) {
        json_t *rows = json_array();
        for (size_t i = 0; i < count; i++) json_array_append_new(rows, group_as_json(study, i));
        return print_json(rows);
    }
    const int width = name_width(study);
    for (size_t from = 0, to; from < count; from = to) {
        const char *task = sf_study_group(study, from)->task;
        for (to = from + 1; to < count && strcmp(sf_study_group(study, to)->task, task) == 0;) to++;
        print_task(study, from, to, width);
    }
    return finish_output();
}

static size_t plot_width(void) {
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40 ? size.ws_col : 80;
}

static int print_plot(const sf_study *study) {
    char *text;
    const sf_status status = sf_report_plot(&text, study, plot_width());
    if (status != SF_OK) return fail(status);
    fputs(text, stdout);
    free(text);
    return finish_output();
}

const char *report_path(const sf_config *config) {
    return *config->out != '\0' ? config->out : "report.html";
}

static int refuse_figures(const char *folder, const char *why) {
    fail_usage("figures cannot be written to the folder '%.300s': %s; name another with --figures", folder, why);
    return EXIT_FAILED;
}

int check_figures(const sf_config *config) {
    const char *folder = config->figures;
    struct stat about;
    if (*folder == '\0') return EXIT_DONE;
    const bool there = stat(folder, &about) == 0;
    if (there && !S_ISDIR(about.st_mode)) return refuse_figures(folder, "there is a file of that name");
    const bool writable = there ? access(folder, W_OK | X_OK) == 0
                                : mkdir(folder, 0777) == 0 && rmdir(folder) == 0; /* only tried: nothing stays */
    return writable ? EXIT_DONE : refuse_figures(folder, strerror(errno));
}

int write_report(const sf_study *study, sf_store *store, const cli_request *request, const sf_config *config) {
    const char *path = report_path(config);
    const bool to_stdout = strcmp(path, "-") == 0, tells = !config->json && !to_stdout;
    if (config->plot && tells) {
        const int code = print_plot(study);
        if (code != EXIT_DONE) return code;
    }
    sf_status status = sf_report_write(study, store, path, request->command);
    if (status != SF_OK) return fail(status);
    if (tells) printf("report: %s\n", on_one_line(path));
    if (*config->figures != '\0') {
        status = sf_report_write_figures(study, store, config->figures);
        if (status != SF_OK) return fail(status);
        if (tells) printf("figures: %s\n", on_one_line(config->figures));
    }
    return finish_output();
}
