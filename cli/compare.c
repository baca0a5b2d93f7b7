/* The main job: does this mechanism learn faster and generalize better? Plan, run what is missing, table, verdicts. */
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static json_t *number_or_null(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *group_as_json(const sf_group *group) {
    json_t *row = json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:b}", "task", json_text(group->task), "variant",
                            group->name, "runs", (json_int_t)group->runs, "finished", (json_int_t)group->finished,
                            "converged", (json_int_t)group->converged, "diverged", (json_int_t)group->diverged,
                            "baseline", group->is_baseline);
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
                   {"speedup", group->speedup},
                   {"speedup_low", group->low},
                   {"speedup_high", group->high},
                   {"p", group->p_speed}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_object_set_new(row, numbers[i].name, number_or_null(numbers[i].value));
    json_object_set_new(row, "verdict", *group->sentence != '\0' ? json_string(group->sentence) : json_null());
    return row;
}

static void print_epochs(double epochs) {
    if (isfinite(epochs))
        printf(" %6.3g", epochs);
    else
        printf(" %6s", "never");
}

static void print_group(const sf_group *group) {
    printf("%-28s %3zu/%-3zu %9zu", group->name, group->finished, group->runs, group->converged);
    for (int q = 0; q < 3; q++) print_epochs(group->finished > 0 ? group->quartiles[q] : NAN);
    if (isfinite(group->speedup))
        printf(" %8.2f", group->speedup);
    else
        printf(" %8s", group->is_baseline ? "baseline" : "-");
    if (group->finished > 0) printf(" %8.2f%% %8.2f%% %6.1f", group->last_heldout, group->best_heldout, group->gap);
    printf(group->diverged > 0 ? "  %zu diverged\n" : "\n", group->diverged);
}

static void print_table(const sf_study *study) {
    const char *task = "";
    for (size_t i = 0; i < sf_study_group_count(study); i++) {
        const sf_group *group = sf_study_group(study, i);
        if (strcmp(task, group->task) != 0) {
            task = group->task;
            printf("%s: epochs to 95 %% training accuracy (quartiles), held-out accuracy\n", task);
            printf("%-28s %7s %9s %6s %6s %6s %8s %9s %9s %6s\n", "", "runs", "converged", "25 %", "median", "75 %",
                   "speed-up", "last", "best", "gap");
        }
        print_group(group);
        const bool last = i + 1 == sf_study_group_count(study) || strcmp(sf_study_group(study, i + 1)->task, task) != 0;
        if (!last) continue;
        putchar('\n');
        for (size_t j = 0; j <= i; j++) {
            const sf_group *judged = sf_study_group(study, j);
            if (strcmp(judged->task, task) == 0 && *judged->sentence != '\0') printf("%s.\n", judged->sentence);
        }
        putchar('\n');
    }
}

static int print_results(const sf_study *study, bool json) {
    if (!json) {
        print_table(study);
        return finish_output();
    }
    json_t *rows = json_array();
    for (size_t i = 0; i < sf_study_group_count(study); i++)
        json_array_append_new(rows, group_as_json(sf_study_group(study, i)));
    return print_json(rows);
}

static bool has_option(const cli_request *request, const char *name) {
    for (size_t i = 0; i < request->option_count; i++)
        if (strcmp(request->options[i].name, name) == 0) return true;
    return false;
}

/* --seeds N spells out as a list of seeds, --attention has a default of its own. */
static sf_status set_defaults(sf_study *study, const cli_request *request) {
    sf_status status = SF_OK;
    if (!has_option(request, "attention")) status = sf_study_set(study, "attention", "full,topk:5");
    if (status != SF_OK || has_option(request, "seed")) return status;
    char seeds[16 * 1024] = "";
    size_t used = 0;
    for (size_t i = 0; i < (size_t)request->config.seeds; i++)
        used += (size_t)snprintf(seeds + used, sizeof seeds - used, i > 0 ? ",%u" : "%u", sf_study_seed(i));
    return sf_study_set(study, "seed", seeds);
}

static bool is_done(sf_store *store, const sf_planned_run *run) {
    sf_stored_run stored;
    if (store == NULL || sf_store_find(&stored, store, run->id) != SF_OK) return false;
    const bool ended = strcmp(stored.status, "done") == 0;
    return strcmp(stored.status, "diverged") == 0 || stored.checkpoint_epoch >= (size_t)run->config.epochs ||
           (ended && run->config.stop_at > 0);
}

static int print_plan(const sf_study *study, sf_store *store, const sf_config *config) {
    size_t count, done = 0, next = 0;
    const sf_planned_run *runs = sf_study_runs(study, &count);
    double seconds = 0;
    for (size_t g = 0; g < sf_study_group_count(study); g++) {
        const sf_group *group = sf_study_group(study, g);
        double epoch = -1; /* not measured yet: one measurement a group, and none if all is done */
        for (size_t i = 0; i < group->runs; i++, next++) {
            const bool finished = is_done(store, &runs[next]);
            if (!finished && epoch < 0) {
                const sf_status status = sf_study_epoch_seconds(&epoch, &runs[next]);
                if (status != SF_OK) return fail(status);
            }
            done += finished;
            if (!finished) seconds += epoch * (double)runs[next].config.epochs;
            if (!config->quiet)
                printf("%s  %-28s %-28s seed %-10lld %s\n", runs[next].id, group->task, group->name,
                       (long long)runs[next].config.seed, finished ? "done" : "to do");
        }
    }
    printf("%zu runs, %zu done; the others take at most about %.3g minutes here\n", count, done,
           seconds / (double)sf_study_workers(study) / 60);
    return finish_output();
}

static int dry_run(const sf_study *study, const sf_config *config) {
    sf_store *store = NULL; /* there may be none yet */
    if (sf_store_open(&store, config->store, SF_STORE_READ) != SF_OK) store = NULL;
    const int code = print_plan(study, store, config);
    sf_store_close(store);
    return code;
}

static int compare(sf_study *study, const sf_config *config) {
    sf_store *store;
    sf_status status = sf_store_open(&store, config->store, SF_STORE_WRITE);
    if (status != SF_OK) return fail(status);
    bool done;
    int code = run_study(study, store, config, &done);
    if (done) {
        status = sf_study_judge(study, store);
        const int printed = status == SF_OK ? print_results(study, config->json != 0) : fail(status);
        if (code == EXIT_DONE) code = printed;
    }
    sf_store_close(store);
    return code;
}

static int run(const cli_request *request) {
    if (has_option(request, "seed") && has_option(request, "seeds"))
        return fail_usage("both --seed and --seeds were given; name the seeds or their number");
    sf_study *study = NULL;
    sf_status status = study_of(&study, request, true);
    if (status == SF_OK) status = set_defaults(study, request);
    if (status == SF_OK) status = sf_study_plan(study);
    int code;
    if (status != SF_OK)
        code = fail(status);
    else
        code = request->config.dry_run ? dry_run(study, &request->config) : compare(study, &request->config);
    sf_study_destroy(study);
    return code;
}

const cli_verb verb_compare = {
    .name = "compare",
    .usage = "TASK[,TASK] [--attention LIST] [--seeds N] [--setting LIST ...]",
    .summary = "train what is missing, then say which mechanism learns faster and generalizes better",
    .details = "Every setting may be a list: the runs are their grid. The baseline is full attention, or the first "
               "mechanism.\n"
               "Runs are paired by seed; a run that never gets there counts as later than all its epochs.\n"
               "examples: semfocus compare even-pairs --attention full,topk:5,banded:5 --seeds 10 --stop-at 95\n"
               "          semfocus compare even-pairs,parity --blocks 2,5 --dry-run\n",
    .groups = SF_GROUP_STUDY | SF_GROUP_SAMPLE | SF_GROUP_DATA | SF_GROUP_MODEL | SF_GROUP_TRAINING | SF_GROUP_SAVING |
              COMMON_GROUPS,
    .lists = ALL_LISTS,
    .fewest_words = 1,
    .most_words = 1,
    .run = run,
};
