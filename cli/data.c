#include "cli/cli.h"

#include <stdio.h>

static json_t *row_as_json(const sf_dataset *data, size_t i) {
    size_t count, label_count;
    const int32_t *tokens = sf_dataset_tokens(data, i, &count);
    const int32_t *labels = sf_dataset_labels(data, i, &label_count);
    json_t *list = json_array(), *label_list = json_array();
    for (size_t t = 0; t < count; t++) json_array_append_new(list, json_integer(tokens[t]));
    if (!sf_dataset_labels_each(data)) {
        json_decref(label_list);
        return json_pack("{s:o, s:i}", "tokens", list, "label", (int)*labels);
    }
    for (size_t t = 0; t < label_count; t++)
        json_array_append_new(label_list, labels[t] < 0 ? json_null() : json_integer(labels[t]));
    return json_pack("{s:o, s:o}", "tokens", list, "labels", label_list);
}

static int print_rows_as_json(const sf_dataset *data) {
    json_t *rows = json_array();
    for (size_t i = 0; i < sf_dataset_count(data); i++) json_array_append_new(rows, row_as_json(data, i));
    json_dumpf(rows, stdout, JSON_COMPACT);
    json_decref(rows);
    putchar('\n');
    return finish_output();
}

/* Settings that only describe a user's own data. */
static int refuse_own_settings(const cli_request *request) {
    static const char *const names[] = {"tokenizer", "context", "tokens", "label",
                                        "classes",   "readout", "causal", "data-seed"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sf_config_given(&request->config, names[i]))
            return fail_usage("%s has no effect without --describe and a file; leave it out", names[i]);
    return EXIT_DONE;
}

static int describe(const cli_request *request) {
    static const char *const names[] = {"out", "count"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sf_options_given(&request->options, names[i]))
            return fail_usage("%s has no effect with --describe; leave it out", names[i]);
    return describe_data(request);
}

static int run(const cli_request *request) {
    sf_config config = request->config;
    const sf_options *options = &request->options;
    const sf_task *task;
    sf_dataset *data;
    if (options->describe) return describe(request);
    if (is_own_data(request->words[0]))
        return fail_usage("'%s' is data of your own, of which nothing is sampled; add --describe to see what is in it",
                          on_one_line(request->words[0]));
    const int refused = refuse_own_settings(request);
    if (refused != EXIT_DONE) return refused;
    sf_status status = sf_task_find(&task, request->words[0]);
    if (status == SF_OK) status = sf_config_apply_recipe(&config, sf_task_describe(task).recipe);
    if (status != SF_OK) return fail(status);
    if (options->json && *options->out != '\0')
        return fail_usage("--json goes to standard output; leave out --out or --json");
    status = sf_task_check(task, &config);
    if (status != SF_OK) return fail(status);
    const sf_task_options variant = sf_task_options_of(&config);
    const sf_sampling what = {.task = task,
                              .split = SF_TRAINING,
                              .seed = (uint32_t)config.seed,
                              .count = (size_t)options->count,
                              .length = (size_t)config.length,
                              .shortest = (size_t)config.min_length,
                              .options = &variant};
    status = sf_dataset_draw(&data, &what);
    if (status != SF_OK) return fail(status);
    int code = EXIT_DONE;
    if (options->json)
        code = print_rows_as_json(data);
    else if ((status = sf_dataset_write(data, *options->out != '\0' ? options->out : "-")) != SF_OK)
        code = fail(status);
    sf_dataset_destroy(data);
    return code;
}

const cli_verb verb_data = {
    .name = "data",
    .usage = "TASK [--count N] [--length N] [--seed S] [--pairs N ...] [--out FILE] | FILE --describe",
    .summary = "write labelled sequences of a task as TSV, or describe a file of your own",
    .details =
        "The sequences are those a run with this data seed trains on. A task with one label per position has as\n"
        "many labels as tokens, separated by blanks, with - where there is none.\n"
        "With --describe, FILE is data of your own as train takes it, or the name of a file that ends in .csv, .tsv,\n"
        ".jsonl or .txt.\n"
        "examples: semfocus data even-pairs --count 1000 --out even-pairs.tsv\n"
        "          semfocus data reviews.csv --describe\n",
    .groups = SF_GROUP_FILE | SF_GROUP_OUT | SF_GROUP_SAMPLE | SF_GROUP_TASK | SF_GROUP_DESCRIBE | COMMON_GROUPS,
    .fewest_words = 1,
    .most_words = 1,
    .first_word = "TASK",
    .run = run,
};
