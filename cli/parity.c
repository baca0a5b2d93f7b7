#include "cli/cli.h"

#include <math.h>
#include <stdio.h>

static json_t *path_as_json(const sf_golden_path *path) {
    return json_pack("{s:o, s:s, s:f, s:b}", "worst", isfinite(path->worst) ? json_real(path->worst) : json_null(),
                     "in", path->worst_name, "limit", path->limit, "passes", path->passes);
}

static const char *const names[] = {[SF_F32] = "f32", [SF_BF16] = "bf16", [SF_TF32] = "tf32"};

static bool passes_both(const sf_golden *golden) {
    return golden->reference.passes && golden->computed.passes;
}

static json_t *file_as_json(const char *file, const sf_golden *golden, sf_precision precision) {
    json_t *row = json_pack("{s:o, s:b, s:o, s:o}", "file", json_text(file), "passes", passes_both(golden), "reference",
                            path_as_json(&golden->reference), names[precision], path_as_json(&golden->computed));
    if (precision != SF_F32) json_object_set_new(row, "equal_kept", json_real(golden->equal_kept));
    return row;
}

static void print_file(const char *file, const sf_golden *golden, sf_precision precision) {
    printf("%-4s %-42s reference %.1e (%s)   %s %.1e (%s)", passes_both(golden) ? "pass" : "FAIL", on_one_line(file),
           golden->reference.worst, golden->reference.worst_name, names[precision], golden->computed.worst,
           golden->computed.worst_name);
    if (precision != SF_F32) printf("   %.2f %% of kept sets equal", 100 * golden->equal_kept);
    putchar('\n');
}

static int run(const cli_request *request) {
    const sf_precision precision = (sf_precision)request->config.precision;
    json_t *files = json_array();
    size_t failed = 0;
    int code = EXIT_DONE;
    for (size_t i = 0; i < request->word_count; i++) {
        sf_golden golden;
        const sf_status status = sf_golden_check(&golden, request->words[i], precision, &request->options.execution);
        if (status != SF_OK) {
            const int now = fail(status);
            code = now > code ? now : code;
            continue;
        }
        const bool passes = passes_both(&golden);
        failed += !passes;
        if (request->options.json)
            json_array_append_new(files, file_as_json(request->words[i], &golden, precision));
        else if (!request->options.quiet || !passes)
            print_file(request->words[i], &golden, precision);
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
    .usage = "FILE.safetensors... [--device cpu|cuda] [--precision f32|bf16|tf32]",
    .summary = "compare the reference (limit 1e-9) and the f32 path (2e-5) with golden tensors",
    .details =
        "Prints one line per file with the largest error of each path and the tensor it was found in. Exit code "
        "0 only if\n"
        "all files pass.\n"
        "error: |a-b|/|b| for losses and the gradient norm;\n"
        "       |a-b|/max(|b|, 1e-2 of the largest logit) for logits;\n"
        "       |a-b|/max(|b|, 1e-3 of the gradient norm) for each gradient\n"
        "bf16 (limit 0.03) and tf32 (0.004) round the factors of products. They are compared tensor by tensor (norm "
        "of a-b /\n"
        "norm of b) with the reference that keeps the keys they keep, and whose ReLUs are open where theirs are; the "
        "share\n"
        "of queries that keep the same keys as in the reference is printed, too.\n"
        "example: semfocus parity tests/golden/*.safetensors\n",
    .groups = COMMON_GROUPS,
    .fewest_words = 1,
    .most_words = (size_t)-1,
    .first_word = "FILE",
    .next_words = "FILE",
    .run = run,
};
