/* Trains what is missing of one run, or of every mechanism with every seed, into the store. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "cli/progress.h"

static void append_row(void *curve, const sf_epoch *row) {
    json_array_append_new(curve, json_pack("{s:I, s:f, s:f, s:f, s:f}", "epoch", (json_int_t)row->epoch, "tr-ce",
                                           row->train_loss, "tr-ac", row->train_accuracy, "va-ce", row->heldout_loss,
                                           "va-ac", row->heldout_accuracy));
}

/* Prints the runs as they are now stored: as JSON, or one sentence per run. */
static int print_runs(sf_store *store, const sf_study *study, const cli_share *share, bool json) {
    json_t *rows = json_array();
    const bool with_tasks = has_several_tasks(study);
    sf_status status = SF_OK;
    size_t count;
    const sf_planned_run *runs = sf_study_runs(study, &count);
    for (size_t i = 0; i < count && status == SF_OK; i++) {
        sf_stored_run run;
        if (!is_ours(share, i)) continue;
        status = sf_store_find(&run, store, runs[i].id);
        if (status == SF_OK && json) {
            json_t *row = run_as_json(&run), *curve = json_array();
            status = sf_store_each_epoch(store, &run, append_row, curve);
            if (status == SF_OK) status = add_text_result(row, store, &run);
            json_object_set_new(row, "curve", curve);
            json_array_append_new(rows, row);
        } else if (status == SF_OK) {
            print_ending(&run, with_tasks);
            status = print_text_result(store, &run);
        }
    }
    int code = status == SF_OK ? EXIT_DONE : fail(status);
    if (json && code == EXIT_DONE) return print_json(rows);
    json_decref(rows);
    return code == EXIT_DONE ? finish_output() : code;
}

/* A study's own default would be a list, and span a grid. */
static sf_status set_default(sf_study *study, const char *name) {
    const sf_setting *setting;
    const sf_status status = sf_setting_find(&setting, name, SF_RUN_GROUPS);
    return status == SF_OK ? sf_study_set(study, name, setting->initial) : status;
}

static int write_groups(sf_study *study, sf_store *store, const sf_options *options) {
    if (*options->tensorboard == '\0') return EXIT_DONE;
    const sf_status status = sf_study_judge(study, store);
    return status == SF_OK ? board_groups(study, options) : fail(status);
}

static int train_share(sf_study *study, const cli_share *share, const sf_options *options) {
    sf_store *store;
    bool done;
    const sf_status status = sf_store_open(&store, options->store, SF_STORE_WRITE);
    if (status != SF_OK) return fail(status);
    int code = run_study(study, store, options, share, EVERY_EPOCH, &done);
    if (done) {
        const int printed = print_runs(store, study, share, options->json != 0);
        if (code == EXIT_DONE) code = printed;
        if (code == EXIT_DONE) code = write_groups(study, store, options);
        tell_how_to_join(share, options);
    }
    sf_store_close(store);
    return code;
}

static int run(const cli_request *request) {
    sf_options options;
    sf_study *study = request->study;
    sf_status status = set_default(study, "attention"); /* one of each, unless set */
    if (status == SF_OK) status = set_default(study, "seed");
    if (status == SF_OK) status = sf_study_add_tasks(study, request->words[0]);
    sf_study_options(&options, study);
    if (status == SF_OK) status = sf_study_plan(study); /* everything is checked before anything is written */
    if (status != SF_OK) return fail(status);
    size_t count;
    cli_share share;
    const sf_planned_run *runs = sf_study_runs(study, &count);
    int code = open_share(&share, runs, count, &options);
    if (code == EXIT_DONE) code = train_share(study, &share, &options);
    close_share(&share);
    return code;
}

const cli_verb verb_train = {
    .name = "train",
    .usage = "TASK [--attention NAME[,...]] [--seed S[,...]] [--setting value ...]",
    .summary = "train models, store them and print their learning curves",
    .details =
        "TASK is a built-in task ('semfocus list tasks') or data of your own: text:, csv:, tsv: or "
        "jsonl:TRAIN[,HELDOUT].\n"
        "The recipe of a task replaces the defaults below; your options replace both.\n"
        "Repeating a command continues unfinished runs and skips finished ones; asking for more epochs continues\n"
        "a run. Ctrl-C and SIGTERM write a checkpoint and end within seconds, with exit code 130 and 143; a second\n"
        "one ends at once.\n"
        "examples: semfocus train even-pairs --attention topk:5 --stop-at 95\n"
        "          semfocus train even-pairs --attention full,topk:5 --seed 1,2,3 --epochs 20\n",
    .groups = SF_RUN_GROUPS | SF_GROUP_SAVING | SF_GROUP_SHARD | COMMON_GROUPS,
    .lists = SEED_AND_ATTENTION_LISTS,
    .fewest_words = 1,
    .most_words = 1,
    .first_word = "TASK|TSV",
    .run = run,
};
