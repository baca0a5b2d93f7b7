#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 10, HEADER_LINES = 1 };

typedef struct solving {
    const sf_task *task;
    sf_task_options options;
    sf_task_info info; /* of the variant */
    const sf_dataset *data;
    const char *name; /* of the file */
    int32_t *solved;  /* [longest] */
    json_t *differing;
    size_t labels, agree; /* labels of the file or the solver, and those that are equal */
} solving;

static size_t line_of(size_t i) {
    return i + 1 + HEADER_LINES;
}

/* Solves row i; a sequence or label that the task cannot have is SF_BAD_INPUT with its place in the file. */
static int solve_row(const solving *it, size_t i) {
    const int32_t classes = it->info.classes;
    size_t length, count;
    const int32_t *tokens = sf_dataset_tokens(it->data, i, &length), *labels = sf_dataset_labels(it->data, i, &count);
    for (size_t t = 0; t < count; t++)
        if (labels[t] >= classes)
            return fail_usage("%s:%zu: label %d is not a label of the task; write one of 0..%d", it->name, line_of(i),
                              labels[t], classes - 1);
    const sf_status status = sf_task_solve_with(it->solved, it->task, tokens, length, &it->options);
    return status == SF_OK ? EXIT_DONE : fail_usage("%s:%zu: %s", it->name, line_of(i), sf_message());
}

static json_t *label_as_json(int32_t label) {
    return label < 0 ? json_null() : json_integer(label);
}

static void compare_row(solving *it, size_t i) {
    size_t count;
    const int32_t *labels = sf_dataset_labels(it->data, i, &count);
    for (size_t t = 0; t < count; t++) {
        if (labels[t] < 0 && it->solved[t] < 0) continue;
        it->labels++;
        it->agree += labels[t] == it->solved[t];
        if (labels[t] == it->solved[t] || json_array_size(it->differing) >= SHOWN) continue;
        json_t *row = json_pack("{s:I, s:o, s:o}", "line", (json_int_t)line_of(i), "label", label_as_json(labels[t]),
                                "solved", label_as_json(it->solved[t]));
        if (sf_dataset_labels_each(it->data)) json_object_set_new(row, "position", json_integer((json_int_t)t));
        json_array_append_new(it->differing, row);
    }
}

static void print_label(const char *before, const json_t *label) {
    if (json_is_null(label))
        printf("%s none", before);
    else
        printf("%s %lld", before, (long long)json_integer_value(label));
}

static void print_differences(const solving *it) {
    for (size_t i = 0; i < json_array_size(it->differing); i++) {
        const json_t *row = json_array_get(it->differing, i), *position = json_object_get(row, "position");
        printf("line %lld", (long long)json_integer_value(json_object_get(row, "line")));
        if (position != NULL) printf(", position %lld", (long long)json_integer_value(position));
        print_label(": label", json_object_get(row, "label"));
        print_label(", but the solver says", json_object_get(row, "solved"));
        putchar('\n');
    }
    if (it->labels - it->agree > SHOWN) printf("... and %zu more\n", it->labels - it->agree - SHOWN);
}

static int solve_all(const cli_request *request, solving *it) {
    for (size_t i = 0; i < sf_dataset_count(it->data); i++) {
        const int code = solve_row(it, i);
        if (code != EXIT_DONE) return code;
        compare_row(it, i);
    }
    int code;
    if (request->options.json) {
        code = print_json(json_pack("{s:s, s:I, s:I, s:O}", "task", request->words[0], "count", (json_int_t)it->labels,
                                    "agree", (json_int_t)it->agree, "differing", it->differing));
    } else {
        if (!request->options.quiet) print_differences(it);
        printf("%zu of %zu labels agree\n", it->agree, it->labels);
        code = finish_output();
    }
    return it->agree == it->labels ? code : EXIT_FAILED;
}

/* A file with one token per row has the same form either way. */
static int check_kind(const solving *it) {
    const bool each = sf_task_labels_each(it->task);
    if (each == sf_dataset_labels_each(it->data) || (each && sf_dataset_longest(it->data) == 1)) return EXIT_DONE;
    return fail_usage(each ? "%s has one label per row, but %s has one per token; write as many labels as tokens"
                           : "%s has one label per token, but %s has one per row; write one label",
                      it->name, it->info.name);
}

static int solve_file(const cli_request *request, solving *it) {
    int code = check_kind(it);
    if (code != EXIT_DONE) return code;
    it->solved = calloc(sf_dataset_longest(it->data), sizeof *it->solved);
    if (it->solved == NULL) {
        fail_usage("no memory left for a sequence of %zu tokens", sf_dataset_longest(it->data));
        return EXIT_FAILED;
    }
    it->differing = json_array();
    code = solve_all(request, it);
    json_decref(it->differing);
    free(it->solved);
    return code;
}

static int run(const cli_request *request) {
    sf_config config = request->config;
    sf_dataset *data = NULL;
    solving it = {.name = request->words[1]};
    sf_status status = sf_task_find(&it.task, request->words[0]);
    if (status == SF_OK) status = sf_config_apply_recipe(&config, sf_task_describe(it.task).recipe);
    if (status == SF_OK) status = sf_task_check_settings(it.task, &config);
    it.options = sf_task_options_of(&config);
    if (status == SF_OK) status = sf_task_describe_with(&it.info, it.task, &it.options);
    if (status == SF_OK) status = sf_dataset_read(&data, request->words[1]);
    if (status != SF_OK) return fail(status);
    it.data = data;
    if (strcmp(it.name, "-") == 0) it.name = "standard input";
    const int code = solve_file(request, &it);
    sf_dataset_destroy(data);
    return code;
}

const cli_verb verb_solve = {
    .name = "solve",
    .usage = "TASK FILE|- [--pairs N ...]",
    .summary = "check the labels of a TSV file with a solver that is independent of the sampler",
    .details =
        "Exit code 0 if every label agrees, 1 if some differ, 2 if a line is not a sequence of the task.\n"
        "FILE may be a pipe that has a writer. Settings that 'data' was given for the task are given here as well.\n"
        "example: semfocus data listops --count 100 | semfocus solve listops -\n",
    .groups = SF_GROUP_TASK | COMMON_GROUPS,
    .fewest_words = 2,
    .most_words = 2,
    .first_word = "TASK",
    .next_words = "FILE",
    .run = run,
};
