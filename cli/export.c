#include "cli/cli.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int export_run(sf_store *store, const cli_request *request) {
    const sf_options *options = &request->options;
    sf_stored_run run;
    sf_status status = sf_store_find(&run, store, request->words[0]);
    if (status != SF_OK) return fail(status);
    const char *path = *options->out != '\0' ? options->out : "-";
    status = options->format == SF_SAFETENSORS ? sf_store_export_weights(store, &run, options->best != 0, path)
                                               : sf_store_export_curve(store, &run, path);
    return status == SF_OK ? EXIT_DONE : fail(status);
}

static int run(const cli_request *request) {
    const bool to_stdout = *request->options.out == '\0' || strcmp(request->options.out, "-") == 0;
    const bool bytes = request->options.format == SF_SAFETENSORS && to_stdout;
    if (bytes && isatty(STDOUT_FILENO) != 0)
        return fail_usage(
            "weights are binary and are not written to a terminal; name a file with --out, or use a pipe");
    if (bytes) print_bytes_from_now_on();
    if (request->options.best && request->options.format != SF_SAFETENSORS)
        return fail_usage("--best selects weights; add --format safetensors or leave it out");
    sf_store *store;
    const sf_status status = open_to_read(&store, request->options.store, SF_STORE_READ);
    if (status != SF_OK) return fail(status);
    const int code = export_run(store, request);
    sf_store_close(store);
    return code;
}

const cli_verb verb_export = {
    .name = "export",
    .usage = "RUN [--format safetensors|csv] [--best] [--out FILE]",
    .summary = "write a run's weights (safetensors) or its curve (csv)",
    .details =
        "RUN is an id from 'semfocus runs' or an unambiguous beginning of one. The csv has the published columns\n"
        "epoch,tr-ce,tr-ac,va-ce,va-ac; the weights have their published names and load into PyTorch.\n"
        "example: semfocus export 3f2a --format safetensors --out weights.safetensors\n",
    .groups = SF_GROUP_EXPORT | SF_GROUP_OUT | COMMON_GROUPS,
    .fewest_words = 1,
    .most_words = 1,
    .first_word = "RUN",
    .run = run,
};
