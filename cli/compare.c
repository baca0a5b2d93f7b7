/* The main job: does this mechanism learn faster and generalize better? Plan, run what is missing, table, verdicts,
 * report. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/progress.h"

/* One measurement per group, and none if all of it is done or counted with another group. */
static sf_status estimate(double *seconds, bool *counted /* [runs] */, const sf_study *study, size_t g) {
    const sf_group *group = sf_study_group(study, g);
    size_t count;
    const sf_planned_run *runs = sf_study_runs(study, &count);
    double epoch = -1;
    *seconds = 0;
    for (size_t m = 0; m < group->runs; m++) {
        const size_t run = sf_study_member(study, g, m);
        if (counted[run] || sf_study_is_done(study, run)) continue;
        counted[run] = true;
        if (epoch < 0) {
            const sf_status status = sf_study_epoch_seconds(&epoch, &runs[run]);
            if (status != SF_OK) return status;
        }
        *seconds += epoch * (double)runs[run].config.epochs;
    }
    return SF_OK;
}

/* One line per run, or one row of JSON. */
static void tell_planned(json_t *rows, const sf_study *study, const cli_share *share, size_t g) {
    const sf_group *group = sf_study_group(study, g);
    size_t count;
    const sf_planned_run *runs = sf_study_runs(study, &count);
    for (size_t m = 0; m < group->runs; m++) {
        const size_t run = sf_study_member(study, g, m);
        if (!is_ours(share, run)) continue;
        const long long seed = (long long)runs[run].config.seed;
        const bool done = sf_study_is_done(study, run);
        if (rows != NULL)
            json_array_append_new(rows, json_pack("{s:s, s:o, s:o, s:I, s:b}", "id", runs[run].id, "task",
                                                  json_text(group->task), "variant", json_text(group->name), "seed",
                                                  (json_int_t)seed, "done", done));
        else
            printf("%s  %-28s %-28s seed %-10lld %s\n", runs[run].id, on_one_line(group->task),
                   on_one_line(group->name), seed, done ? "done" : "to do");
    }
}

static void print_sum(const cli_share *share, size_t count, size_t done, double seconds) {
    char left[32];
    say_time(left, seconds);
    if (!print_share(share)) printf("%zu run%s", count, plural(count));
    printf(", %zu done", done);
    if (done < count) printf("; the rest takes at most about %s on this machine", left);
    putchar('\n');
}

/* Estimates all our runs that are to do, each once. Returns the exit code. */
static int estimate_all(double *seconds, const sf_study *study, const cli_share *share, size_t count) {
    bool *counted = calloc(count > 0 ? count : 1, sizeof *counted);
    if (counted == NULL) {
        fail_usage("no memory left to plan %zu runs", count);
        return EXIT_FAILED;
    }
    double part;
    sf_status status = SF_OK;
    *seconds = 0;
    for (size_t i = 0; i < count; i++) counted[i] = !is_ours(share, i);
    for (size_t g = 0; g < sf_study_group_count(study) && status == SF_OK; g++) {
        status = estimate(&part, counted, study, g);
        *seconds += part;
    }
    free(counted);
    return status == SF_OK ? EXIT_DONE : fail(status);
}

static int print_plan(const sf_study *study, const cli_share *share, const sf_options *options) {
    size_t count, done = 0;
    double total;
    sf_study_runs(study, &count);
    for (size_t i = 0; i < count; i++) done += is_ours(share, i) && sf_study_is_done(study, i);
    const int code = estimate_all(&total, study, share, count);
    if (code != EXIT_DONE) return code;
    json_t *rows = options->json ? json_array() : NULL;
    for (size_t g = 0; g < sf_study_group_count(study); g++)
        if (rows != NULL || !options->quiet) tell_planned(rows, study, share, g);
    const size_t ours = count_ours(share, count), workers = sf_study_workers(study, (size_t)options->execution.threads);
    const double left = total / (double)(ours > 0 && ours < workers ? ours : workers);
    if (rows != NULL)
        return print_json(json_pack("{s:o, s:I, s:I, s:f}", "runs", rows, "count", (json_int_t)ours, "done",
                                    (json_int_t)done, "seconds_left", left));
    print_sum(share, ours, done, left);
    return finish_output();
}

static int dry_run(sf_study *study, const cli_share *share, const sf_options *options) {
    sf_store *store;
    sf_status status = open_if_there(&store, options->store);
    if (status == SF_OK) status = sf_study_judge(study, store);
    const int code = status == SF_OK ? print_plan(study, share, options) : fail(status);
    sf_store_close(store);
    return code;
}

/* Table, verdicts and page of what the store has; nothing for a shard that no run was dealt to. */
static int show_study(sf_study *study, sf_store *store, const cli_share *share, const cli_request *request,
                      const sf_options *options) {
    if (share->counts.runs == 0 && options->json) return print_json(json_array());
    if (share->counts.runs > 0) {
        const sf_status status = sf_study_judge(study, store);
        int code = status == SF_OK ? print_results(study, options->json != 0) : fail(status);
        if (code == EXIT_DONE) code = write_report(study, store, request, options);
        if (code == EXIT_DONE) code = board_groups(study, options);
        if (code != EXIT_DONE) return code;
    }
    tell_how_to_join(share, options);
    return finish_output();
}

static int run_and_report(sf_study *study, const cli_share *share, const cli_request *request,
                          const sf_options *options) {
    sf_store *store;
    sf_status status = wants_page(options) ? sf_report_check(report_path(options)) : SF_OK;
    if (status == SF_OK) status = sf_store_open(&store, options->store, SF_STORE_WRITE);
    if (status != SF_OK) return fail(status);
    bool done = false;
    int code = check_figures(options); /* the folder may be one within the store's */
    if (code == EXIT_DONE) code = run_study(study, store, options, share, EVERY_RUN, &done);
    if (done) {
        const int shown = show_study(study, store, share, request, options);
        if (code == EXIT_DONE) code = shown;
    }
    sf_store_close(store);
    return code;
}

static sf_status add_seeds(sf_study *study, const sf_options *options) {
    sf_store *store;
    sf_status status = open_if_there(&store, options->store);
    if (status == SF_OK) status = sf_study_add_seeds(study, store, (size_t)options->add_seeds);
    sf_store_close(store);
    return status;
}

int conduct_study(const cli_request *request) {
    sf_study *study = request->study;
    sf_options options;
    sf_study_options(&options, study);
    sf_status status = sf_study_converge_at(study, options.converged_at);
    if (status == SF_OK && options.add_seeds > 0) status = add_seeds(study, &options);
    if (status == SF_OK) status = sf_study_plan(study);
    if (status == SF_OK) status = sf_study_check_stops(study);
    if (status != SF_OK) return fail(status);
    if (options.fail_fast && sf_options_given(&options, "keep-going") && options.keep_going)
        return fail_usage("both --keep-going and --fail-fast were given; choose one");
    if (strcmp(report_path(&options), "-") == 0)
        return fail_usage("out is '-' but the table goes to standard output; name a file");
    size_t count;
    cli_share share;
    const sf_planned_run *runs = sf_study_runs(study, &count);
    int code = open_share(&share, runs, count, &options);
    if (code == EXIT_DONE)
        code = options.dry_run ? dry_run(study, &share, &options) : run_and_report(study, &share, request, &options);
    close_share(&share);
    return code;
}

static int run(const cli_request *request) {
    const sf_status status = sf_study_add_tasks(request->study, request->words[0]);
    return status == SF_OK ? conduct_study(request) : fail(status);
}

const cli_verb verb_compare = {
    .name = "compare",
    .usage = "TASK[,TASK] [--attention LIST] [--seeds N] [--setting LIST ...]",
    .summary = "train missing runs, then report which mechanism learns faster and generalizes better",
    .details =
        "Every setting of a run may be a list; the runs are the grid of all lists. Without --attention, full and\n"
        "topk:5 are compared. The baseline is full attention, or the first mechanism if full is not listed. Runs are\n"
        "paired by seed; a run that does not converge counts as later than all its epochs. The p-values of all\n"
        "comparisons of a task are corrected together, so more mechanisms need more seeds: 6 for one comparison, 7\n"
        "for two or three, 8 for up to six. Ctrl-C writes checkpoints; repeat the command to continue. At the end,\n"
        "prints a table and verdicts and writes a page to share (report.html, or --out FILE). With --shard it trains\n"
        "a part of the runs, for the jobs of an array, and writes a page only with --out; 'semfocus merge' joins the\n"
        "stores of all parts.\n"
        "--add-seeds N repeats the study with N seeds more than the store has of it, in the order of --seeds;\n"
        "seeds that only --seed named do not count.\n"
        "examples: semfocus compare even-pairs --attention full,topk:5,banded:5 --seeds 10 --stop-at 95\n"
        "          semfocus compare even-pairs --lr 0.05,0.1,0.2 --seeds 10 --converged-at loss:0.1\n"
        "          semfocus compare even-pairs,parity --blocks 2,5 --dry-run\n"
        "          semfocus compare even-pairs --shard $SLURM_ARRAY_TASK_ID/8 --store shard-$SLURM_ARRAY_TASK_ID\n",
    .groups = SF_STUDY_GROUPS | SF_GROUP_PLUGIN,
    .lists = ALL_LISTS,
    .fewest_words = 1,
    .most_words = 1,
    .first_word = "TASKS|TSV",
    .run = run,
};
