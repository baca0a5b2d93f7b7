/* What a causal model of text writes after a prompt. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int print_text(const sf_stored_run *run, const char *text, const sf_options *options) {
    if (options->json)
        return print_json(json_pack("{s:o, s:o, s:I, s:o}", "run", json_text(run->id), "prompt",
                                    json_text(options->prompt), "tokens", (json_int_t)options->new_tokens, "text",
                                    json_text(text)));
    puts(text);
    return finish_output();
}

static int run(const cli_request *request) {
    const sf_options *options = &request->options;
    sf_store *store;
    sf_stored_run stored;
    char *text = NULL;
    const char *arithmetic = given_arithmetic(request);
    if (arithmetic != NULL)
        return fail_usage("--%s has no effect on generate, which computes as the run was trained; leave it out",
                          arithmetic);
    sf_status status = open_to_read(&store, options->store, SF_STORE_READ);
    if (status != SF_OK) return fail(status);
    const sf_generation_request what = {.at = (sf_weights_at)options->at,
                                        .prompt = options->prompt,
                                        .tokens = (size_t)options->new_tokens,
                                        .temperature = options->temperature,
                                        .top = (size_t)options->top,
                                        .seed = (uint32_t)request->config.seed,
                                        .execution = options->execution};
    status = sf_store_find(&stored, store, request->words[0]);
    if (status == SF_OK) status = sf_generate(&text, store, &stored, &what);
    const int code = status == SF_OK ? print_text(&stored, text, options) : fail(status);
    free(text);
    sf_store_close(store);
    return code;
}

const cli_verb verb_generate = {
    .name = "generate",
    .usage = "RUN [--prompt TEXT] [--new-tokens N] [--temperature X] [--top N] [--seed S]",
    .summary = "print what a causal model of text writes after a prompt",
    .details =
        "The run must be of text:, with --readout each --causal. The same command prints the same text on every\n"
        "machine; another --seed draws other tokens.\n"
        "example: semfocus generate 2b2ceb --prompt \"In the beginning\" --temperature 0.8\n",
    .groups = SF_GROUP_GENERATE | SF_GROUP_WEIGHTS | COMMON_GROUPS,
    .fewest_words = 1,
    .most_words = 1,
    .first_word = "RUN",
    .run = run,
};
