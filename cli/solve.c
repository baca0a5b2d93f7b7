#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN = 10, HEADER_LINES = 1 };

static int run(const cli_request *request) {
    const char *path = request->words[1];
    const sf_task *task;
    sf_dataset *data;
    sf_status status = sf_task_find(&task, request->words[0]);
    if (status == SF_OK) status = sf_dataset_read(&data, path);
    if (status != SF_OK) return fail(status);

    const size_t count = sf_dataset_count(data);
    size_t agree = 0;
    json_t *differing = json_array();
    for (size_t i = 0; i < count; i++) {
        const size_t line = i + 1 + HEADER_LINES;
        size_t length;
        const int32_t *tokens = sf_dataset_tokens(data, i, &length);
        const int32_t label = sf_dataset_label(data, i);
        int32_t solved;
        status = sf_task_solve(&solved, task, tokens, length);
        if (status != SF_OK) {
            fprintf(stderr, "semfocus: %s:%zu: %s\n", strcmp(path, "-") == 0 ? "standard input" : path, line,
                    sf_message());
            json_decref(differing);
            sf_dataset_destroy(data);
            return EXIT_USAGE;
        }
        agree += solved == label;
        if (solved != label && json_array_size(differing) < SHOWN)
            json_array_append_new(differing, json_pack("{s:I, s:i, s:i}", "line", (json_int_t)line, "label", (int)label,
                                                       "solved", (int)solved));
    }
    sf_dataset_destroy(data);

    int code;
    if (request->config.json) {
        code = print_json(json_pack("{s:s, s:I, s:I, s:O}", "task", request->words[0], "count", (json_int_t)count,
                                    "agree", (json_int_t)agree, "differing", differing));
    } else {
        for (size_t i = 0; i < json_array_size(differing); i++) {
            const json_t *row = json_array_get(differing, i);
            printf("line %lld: label %lld, but the solver says %lld\n",
                   (long long)json_integer_value(json_object_get(row, "line")),
                   (long long)json_integer_value(json_object_get(row, "label")),
                   (long long)json_integer_value(json_object_get(row, "solved")));
        }
        if (count - agree > SHOWN) printf("... and %zu more\n", count - agree - SHOWN);
        printf("%zu of %zu labels agree\n", agree, count);
        code = finish_output();
    }
    json_decref(differing);
    return agree == count ? code : EXIT_FAILED;
}

const cli_verb verb_solve = {
    .name = "solve",
    .usage = "TASK FILE|-",
    .summary = "check the labels of a TSV with a solver independent of the sampler",
    .details = "Exit code 0 only if every label agrees, 1 if some differ, 2 if a line is not of the task.\n"
               "example: semfocus data listops --count 100 | semfocus solve listops -\n",
    .groups = SF_GROUP_OUTPUT,
    .fewest_words = 2,
    .most_words = 2,
    .run = run,
};
