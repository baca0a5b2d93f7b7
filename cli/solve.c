#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN = 10, HEADER_LINES = 1 };

/* Solves row i; a sequence or label that the task cannot have is SF_BAD_INPUT with its place in the file. */
static int solve_row(int32_t *solved, const sf_task *task, const sf_dataset *data, size_t i, const char *path) {
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    const size_t line = i + 1 + HEADER_LINES;
    const int32_t label = sf_dataset_label(data, i), classes = sf_task_describe(task).classes;
    size_t length;
    const int32_t *tokens = sf_dataset_tokens(data, i, &length);
    if (label >= classes)
        return fail_usage("%s:%zu: label %d is not a label of the task; write one of 0..%d", name, line, label,
                          classes - 1);
    if (sf_task_solve(solved, task, tokens, length) != SF_OK) return fail_usage("%s:%zu: %s", name, line, sf_message());
    return EXIT_DONE;
}

static void print_differences(const json_t *differing, size_t count, size_t agree) {
    for (size_t i = 0; i < json_array_size(differing); i++) {
        const json_t *row = json_array_get(differing, i);
        printf("line %lld: label %lld, but the solver says %lld\n",
               (long long)json_integer_value(json_object_get(row, "line")),
               (long long)json_integer_value(json_object_get(row, "label")),
               (long long)json_integer_value(json_object_get(row, "solved")));
    }
    if (count - agree > SHOWN) printf("... and %zu more\n", count - agree - SHOWN);
}

static int solve_all(const cli_request *request, const sf_task *task, const sf_dataset *data, json_t *differing) {
    const size_t count = sf_dataset_count(data);
    size_t agree = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t solved = 0;
        const int code = solve_row(&solved, task, data, i, request->words[1]);
        if (code != EXIT_DONE) return code;
        const int32_t label = sf_dataset_label(data, i);
        const size_t line = i + 1 + HEADER_LINES;
        agree += solved == label;
        if (solved != label && json_array_size(differing) < SHOWN)
            json_array_append_new(differing, json_pack("{s:I, s:i, s:i}", "line", (json_int_t)line, "label", (int)label,
                                                       "solved", (int)solved));
    }
    int code;
    if (request->options.json) {
        code = print_json(json_pack("{s:s, s:I, s:I, s:O}", "task", request->words[0], "count", (json_int_t)count,
                                    "agree", (json_int_t)agree, "differing", differing));
    } else {
        if (!request->options.quiet) print_differences(differing, count, agree);
        printf("%zu of %zu labels agree\n", agree, count);
        code = finish_output();
    }
    return agree == count ? code : EXIT_FAILED;
}

static int run(const cli_request *request) {
    const sf_task *task;
    sf_dataset *data = NULL;
    sf_status status = sf_task_find(&task, request->words[0]);
    if (status == SF_OK) status = sf_dataset_read(&data, request->words[1]);
    if (status != SF_OK) return fail(status);
    json_t *differing = json_array();
    const int code = solve_all(request, task, data, differing);
    json_decref(differing);
    sf_dataset_destroy(data);
    return code;
}

const cli_verb verb_solve = {
    .name = "solve",
    .usage = "TASK FILE|-",
    .summary = "check the labels of a TSV file with a solver that is independent of the sampler",
    .details = "Exit code 0 if every label agrees, 1 if some differ, 2 if a line is not a sequence of the task.\n"
               "FILE may be a pipe that has a writer.\n"
               "example: semfocus data listops --count 100 | semfocus solve listops -\n",
    .groups = COMMON_GROUPS,
    .fewest_words = 2,
    .most_words = 2,
    .first_word = "TASK",
    .next_words = "FILE",
    .run = run,
};
