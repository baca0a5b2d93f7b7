/* The results of a judged study as a table with verdicts or as JSON, and its report and figures. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* ">35" where it was not reached in 35 epochs, "-" where runs ended too early to tell. */
static void print_epochs(double epochs, size_t longest, int width) {
    char text[24] = "-";
    if (isfinite(epochs))
        snprintf(text, sizeof text, "%.3g", epochs);
    else if (isinf(epochs))
        snprintf(text, sizeof text, ">%zu", longest);
    printf(" %*s", width, text);
}

static void print_or_dash(const char *format, int width, double value) {
    if (isnan(value))
        printf(" %*s", width, "-");
    else
        printf(format, width, value);
}

static void print_speedup(const sf_group *group, bool baseline) {
    char text[32];
    const char *bound = group->at_least && group->at_most ? "~" : group->at_least ? ">" : group->at_most ? "<" : "";
    snprintf(text, sizeof text, "%s%.2f", bound, group->speedup);
    printf(" %8s", isfinite(group->speedup) ? text : baseline ? "baseline" : "-");
}

/* Columns of the table: all side by side, or in several tables below one another where a terminal is narrower. */
enum {
    RUNS = 1,
    EPOCHS = 2,
    HELDOUT = 4,
    ACCURACY = 8,
    REST = 16,
    SPEED = RUNS | EPOCHS | HELDOUT,
    LATTER = ACCURACY | REST
};
enum { PARTS = 5, INDENT = 2 };
static const size_t part_columns[PARTS] = {16, 21, 21, 23, 21};

typedef struct layout {
    int name_width;
    bool names_apart; /* on lines of their own */
    size_t diverged;  /* columns of the remark at the end of a row */
} layout;

static size_t columns_of(int parts, const layout *l) {
    size_t columns = (size_t)l->name_width;
    for (size_t i = 0; i < PARTS; i++)
        if ((parts & 1 << i) != 0) columns += part_columns[i];
    return columns + ((parts & REST) != 0 ? l->diverged : 0);
}

static void print_group(const sf_study *study, size_t i, const layout *l, int parts) {
    const sf_group *group = sf_study_group(study, i);
    if (l->names_apart) print_indented(INDENT, "%s", group->name);
    printf("%-*s", l->name_width, l->names_apart ? "" : group->name);
    if ((parts & RUNS) != 0) printf(" %3zu/%-3zu", group->finished, group->runs);
    if (group->finished == 0) {
        printf("  %s\n", group->begun > 0 ? "not finished" : "not run");
        return;
    }
    if ((parts & RUNS) != 0) printf(" %7zu", group->converged);
    for (int q = 0; q < 3 && (parts & EPOCHS) != 0; q++) print_epochs(group->quartiles[q], group->longest, 6);
    if ((parts & HELDOUT) != 0) {
        print_epochs(group->heldout_median, group->longest, 11);
        print_speedup(group, is_baseline(study, i));
    }
    if ((parts & ACCURACY) != 0) {
        print_or_dash(" %*.2f", 10, group->last_heldout);
        print_or_dash(" %*.2f", 11, group->best_heldout);
    }
    if ((parts & REST) != 0) {
        print_or_dash(" %*.1f", 10, group->gap);
        print_or_dash(" %*.3g", 9, group->epoch_seconds);
        if (group->diverged > 0) printf("  %zu diverged", group->diverged);
    }
    putchar('\n');
}

static int name_width(const sf_study *study) {
    size_t width = 12;
    for (size_t i = 0; i < sf_study_group_count(study); i++) {
        const size_t length = strlen(sf_study_group(study, i)->name);
        if (length > width) width = length;
    }
    return (int)width;
}

/* Groups that differ in other settings have the same note. */
static bool is_new_note(const sf_study *study, size_t from, size_t i) {
    const char *note = sf_study_group(study, i)->note;
    for (size_t before = from; before < i; before++)
        if (strcmp(sf_study_group(study, before)->note, note) == 0) return false;
    return *note != '\0';
}

static void print_question(const sf_study *study, size_t from) {
    const sf_group *first = sf_study_group(study, from);
    char goal[SF_CRITERION_SIZE], chance[48] = "";
    if (!isnan(first->chance)) snprintf(chance, sizeof chance, " Chance is %.3g %%.", first->chance);
    print_paragraph("%s: how soon do runs reach %s, and how well do they generalize?%s", on_one_line(first->task),
                    sf_criterion_name(goal, sf_study_criterion(study)), chance);
}

static void print_head(const sf_study *study, const layout *l, int parts) {
    char brief[SF_CRITERION_SIZE];
    sf_criterion_short(brief, sf_study_criterion(study));
    char epochs[SF_CRITERION_SIZE + 16], heldout[SF_CRITERION_SIZE + 8];
    snprintf(epochs, sizeof epochs, "epochs to %s", brief);
    snprintf(heldout, sizeof heldout, "to %s", brief);
    printf("%-*s", l->name_width, "");
    if ((parts & RUNS) != 0) printf(" %7s %7s", "runs", "runs");
    if ((parts & EPOCHS) != 0) printf(" %20s", epochs);
    if ((parts & HELDOUT) != 0) printf(" %11s %8s", heldout, "speed-up");
    if ((parts & ACCURACY) != 0) printf(" %22s", "held-out accuracy, %");
    if ((parts & REST) != 0) printf(" %10s %9s", "training -", "seconds");
    printf("\n%-*s", l->name_width, "");
    if ((parts & RUNS) != 0) printf(" %7s %7s", "done", "reached");
    if ((parts & EPOCHS) != 0) printf(" %6s %6s %6s", "25 %", "median", "75 %");
    if ((parts & HELDOUT) != 0) printf(" %11s %8s", "held-out", "per seed");
    if ((parts & ACCURACY) != 0) printf(" %10s %11s", "last epoch", "best epoch*");
    if ((parts & REST) != 0) printf(" %10s %9s", "held-out", "per epoch");
    putchar('\n');
}

static void print_table(const sf_study *study, size_t from, size_t to, const layout *l, int parts) {
    print_head(study, l, parts);
    for (size_t i = from; i < to; i++) print_group(study, i, l, parts);
}

/* Speed and accuracy side by side, else below one another, else in as many tables as the terminal asks for. Names that
 * leave too little of its width stand above their rows. */
static void print_tables(const sf_study *study, size_t from, size_t to, int name_width) {
    const size_t width = output_width();
    layout l = {.name_width = name_width};
    for (size_t i = from; i < to; i++)
        if (sf_study_group(study, i)->diverged > 0) l.diverged = strlen("  1000 diverged");
    if (columns_of(SPEED | LATTER, &l) <= width) {
        print_table(study, from, to, &l, SPEED | LATTER);
        return;
    }
    l.names_apart = columns_of(SPEED, &l) > width && (size_t)name_width > width / 3;
    if (l.names_apart) l.name_width = INDENT;
    const bool halves = columns_of(SPEED, &l) <= width && columns_of(LATTER, &l) <= width;
    for (int part = 0, parts; part < PARTS; part += parts) {
        int taken = 1 << part;
        for (parts = 1; part + parts < PARTS; parts++) {
            const int more = taken | 1 << (part + parts);
            if (halves ? (more & SPEED) != 0 && (more & LATTER) != 0 : columns_of(more, &l) > width) break;
            taken = more;
        }
        if (part > 0) putchar('\n');
        print_table(study, from, to, &l, taken);
    }
}

static bool is_beyond(const sf_group *group) {
    return group->finished > 0 && (isinf(group->quartiles[2]) || isinf(group->heldout_median));
}

static bool lacks_seconds(const sf_group *group) {
    return group->finished > 0 && isnan(group->epoch_seconds) && !isnan(group->last_heldout);
}

static bool lacks_epochs(const sf_group *group) {
    return group->finished > 0 && (isnan(group->quartiles[0]) || isnan(group->quartiles[1]) ||
                                   isnan(group->quartiles[2]) || isnan(group->heldout_median));
}

/* Explains the marks that occur in the table. */
static void print_marks(const sf_study *study, size_t from, size_t to) {
    size_t beyond = 0, seconds = 0, epochs = 0, example = 0;
    for (size_t i = from; i < to; i++) {
        const sf_group *group = sf_study_group(study, i);
        if (is_beyond(group) && beyond++ == 0) example = group->longest;
        seconds += lacks_seconds(group);
        epochs += lacks_epochs(group);
    }
    char not_reached[80] = "";
    if (beyond > 0)
        snprintf(not_reached, sizeof not_reached, " >%zu: not reached in %zu epoch%s.", example, example,
                 plural(example));
    print_paragraph("* best epoch: chosen on held-out data.%s%s", not_reached,
                    epochs > 0 ? " -: runs ended too early to tell." : "");
    if (seconds > 0)
        print_paragraph(
            "Seconds per epoch are not shown for runs under different conditions (CPU, threads, runs at a time).");
}

static void print_best_settings(const sf_study *study, size_t from, size_t to) {
    char goal[SF_CRITERION_SIZE];
    bool headed = false;
    for (size_t i = from; i < to; i++) {
        const sf_group *group = sf_study_group(study, i);
        if (*group->best_sentence == '\0') continue;
        if (!headed) {
            putchar('\n');
            print_paragraph(
                "Each mechanism at its best setting: the one with the fewest epochs to %s (median). It was chosen on "
                "the same seeds, which favours it.",
                sf_criterion_name(goal, sf_study_criterion(study)));
        }
        headed = true;
        print_paragraph("%s.", group->best_sentence);
    }
}

static void print_task(const sf_study *study, size_t from, size_t to, int width) {
    print_question(study, from);
    print_tables(study, from, to, width);
    print_marks(study, from, to);
    putchar('\n');
    size_t tests = 0;
    for (size_t i = from; i < to; i++) {
        const sf_group *group = sf_study_group(study, i);
        if (group->speed_tests > tests) tests = group->speed_tests;
        if (*group->sentence != '\0') print_paragraph("%s.", group->sentence);
    }
    print_best_settings(study, from, to);
    if (tests > 1) {
        putchar('\n');
        print_paragraph("The p-values of these %zu comparisons are corrected together (Holm), separately for speed and "
                        "accuracy.",
                        tests);
    }
    for (size_t i = from; i < to; i++)
        if (is_new_note(study, from, i)) print_paragraph("%s.", sf_study_group(study, i)->note);
    putchar('\n');
}

static int print_groups_as_json(const sf_study *study) {
    char *text;
    const sf_status status = sf_study_results_json(&text, study);
    if (status != SF_OK) return fail(status);
    json_t *groups = json_loads(text, 0, NULL);
    sf_text_release(text);
    return print_json(groups);
}

int print_results(const sf_study *study, bool json) {
    const size_t count = sf_study_group_count(study);
    if (json) return print_groups_as_json(study);
    const int width = name_width(study);
    for (size_t from = 0, to; from < count; from = to) {
        const char *task = sf_study_group(study, from)->task;
        for (to = from + 1; to < count && strcmp(sf_study_group(study, to)->task, task) == 0;) to++;
        print_task(study, from, to, width);
    }
    return finish_output();
}

/* Titles and names may be wider than the plot. */
static void print_plot_line(const char *line, size_t length) {
    const size_t spaces = strspn(line, " ");
    if (length <= output_width())
        printf("%.*s\n", (int)length, line);
    else
        print_indented(spaces > 0 ? spaces + 2 : 0, "%.*s", (int)length, line);
}

static int print_plot(const sf_study *study) {
    char *text;
    const sf_status status = sf_report_plot(&text, study, terminal_width(STDOUT_FILENO));
    if (status != SF_OK) return fail(status);
    for (const char *line = text; *line != '\0';) {
        const size_t length = strcspn(line, "\n");
        print_plot_line(line, length);
        line += length + (line[length] == '\n');
    }
    free(text);
    return finish_output();
}

const char *report_path(const sf_options *options) {
    return *options->out != '\0' ? options->out : "report.html";
}

bool wants_page(const sf_options *options) {
    return *options->shard == '\0' || *options->out != '\0';
}

static int refuse_figures(const char *folder, const char *why) {
    fail_usage("figures cannot be written to the folder '%.300s': %s; name another with --figures", folder, why);
    return EXIT_FAILED;
}

int check_figures(const sf_options *options) {
    const char *folder = options->figures;
    struct stat about;
    if (*folder == '\0') return EXIT_DONE;
    const bool there = stat(folder, &about) == 0;
    if (there && !S_ISDIR(about.st_mode)) return refuse_figures(folder, "a file has that name");
    const bool writable = there ? access(folder, W_OK | X_OK) == 0
                                : mkdir(folder, 0777) == 0 && rmdir(folder) == 0; /* only tried: nothing stays */
    return writable ? EXIT_DONE : refuse_figures(folder, strerror(errno));
}

int write_report(const sf_study *study, sf_store *store, const cli_request *request, const sf_options *options) {
    const char *path = report_path(options);
    const bool to_stdout = strcmp(path, "-") == 0, tells = !options->json && !to_stdout;
    if (options->plot && tells) {
        const int code = print_plot(study);
        if (code != EXIT_DONE) return code;
    }
    sf_status status = wants_page(options) ? sf_report_write(study, store, path, request->command) : SF_OK;
    if (status != SF_OK) return fail(status);
    if (tells && wants_page(options)) printf("report: %s\n", on_one_line(path));
    if (*options->figures != '\0') {
        status = sf_report_write_figures(study, store, options->figures);
        if (status != SF_OK) return fail(status);
        if (tells) printf("figures: %s\n", on_one_line(options->figures));
    }
    return finish_output();
}
