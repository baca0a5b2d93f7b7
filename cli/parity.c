#include "cli/cli.h"

#include <math.h>
#include <stdio.h>

static json_t *path_as_json(const sf_golden_path *path) {
    return json_pack("{s:o, s:s, s:f, s:b}", "worst", isfinite(path->worst) ? json_real(path->worst) : json_null(),
                     "in", path->worst_name, "limit", path->limit, "passes", path->passes);
}

static int run(const cli_request *request) {
    json_t *files = json_array();
    size_t failed = 0;
    int code = EXIT_DONE;
    for (size_t i = 0; i < request->word_count; i++) {
        sf_golden golden;
        const sf_status status = sf_golden_check(&golden, request->words[i]);
        if (status != SF_OK) {
            const int now = fail(status);
            code = now > code ? now : code;
            continue;
        }
        const bool passes = golden.reference.passes && golden.f32.passes;
        failed += !passes;
        if (request->options.json)
            json_array_append_new(files, json_pack("{s:o, s:b, s:o, s:o}", "file", json_text(request->words[i]),
                                                   "passes", passes, "reference", path_as_json(&golden.reference),
                                                   "f32", path_as_json(&golden.f32)));
        else if (!request->options.quiet || !passes)
            printf("%-4s %-42s reference %.1e (%s)   f32 %.1e (%s)\n", passes ? "pass" : "FAIL",
                   on_one_line(request->words[i]), golden.reference.worst, golden.reference.worst_name,
                   golden.f32.worst, golden.f32.worst_name);
    }
    if (failed > 0 && code == EXIT_DONE) code = EXIT_FAILED;
    if (request->options.json) {
        const int printed = print_json(files);
        return code != EXIT_DONE ? code : printed;
    }
    json_decref(files);
    const int printed = finish_output();
    return code != EXIT_DONE ? code : printed;
}

const cli_verb verb_parity = {
    .name = "parity",
    .usage = "FILE.safetensors...",
    .summary = "compare the reference (limit 1e-9) and the f32 path (2e-5) with golden tensors",
    .details = "Prints one line per file with the largest error of each path and the tensor it was found in. Exit code "
               "0 only if\n"
               "all files pass.\n"
               "error: |a-b|/|b| for logits, losses and the gradient norm;\n"
               "       |a-b|/max(|b|, 1e-3 of the gradient norm) for each gradient\n"
               "example: semfocus parity tests/golden/*.safetensors\n",
    .groups = COMMON_GROUPS,
    .fewest_words = 1,
    .most_words = (size_t)-1,
    .first_word = "FILE",
    .next_words = "FILE",
    .run = run,
};
