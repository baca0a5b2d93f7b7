/* Joins stores, such as those of the shards of a study. */
#include <stdio.h>

#include "cli/progress.h"

static void show_progress(void *line, const char *what, size_t done, size_t total) {
    moving_line_bar(line, total > 0 ? (double)done / (double)total : 0, "%s %zu of %zu runs", what, done, total);
}

static void print_problem(void *line, const char *sentence) {
    moving_line_close(line);
    print_sentence(sentence);
}

static void print_note(void *line, const char *sentence) {
    moving_line_close(line);
    fprintf(stderr, "semfocus: note: %s\n", on_one_line(sentence));
}

static int print_as_json(const sf_merge_result *merged, const cli_request *request) {
    json_t *sources = json_array();
    for (size_t i = 0; i < request->word_count; i++) json_array_append_new(sources, json_text(request->words[i]));
    return print_json(json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I}", "into", json_text(request->options.into),
                                "stores", sources, "runs", (json_int_t)merged->runs, "added", (json_int_t)merged->added,
                                "extended", (json_int_t)merged->extended, "unchanged", (json_int_t)merged->unchanged,
                                "left_out", (json_int_t)merged->left_out, "total", (json_int_t)merged->total));
}

static int print_as_text(const sf_merge_result *merged, const cli_request *request) {
    printf("%zu run%s of %zu store%s: %zu added, %zu extended, %zu already there", merged->runs, plural(merged->runs),
           request->word_count, plural(request->word_count), merged->added, merged->extended, merged->unchanged);
    if (merged->left_out > 0) printf(", %zu left out", merged->left_out);
    printf("; '%s' has %zu run%s\n", on_one_line(request->options.into), merged->total, plural(merged->total));
    return finish_output();
}

static int tell(const sf_merge_result *merged, const cli_request *request) {
    if (request->options.json) return print_as_json(merged, request);
    return request->options.quiet ? EXIT_DONE : print_as_text(merged, request);
}

static int run(const cli_request *request) {
    const sf_options *options = &request->options;
    moving_line line;
    sf_merge_result merged;
    if (*options->into == '\0')
        return fail_usage("--into is missing; name the store to join the others into: semfocus merge STORE... --into "
                          "STORE");
    moving_line_open(&line, options->quiet != 0 || options->json != 0);
    const sf_merge_watch watch = {.stop = watch_for_stop(),
                                  .on_progress = show_progress,
                                  .on_note = print_note,
                                  .on_problem = print_problem,
                                  .context = &line};
    const sf_status status =
        sf_store_merge(&merged, options->into, (const char *const *)request->words, request->word_count, &watch);
    moving_line_close(&line);
    if (ended_by_signal() != EXIT_DONE || status == SF_INTERRUPTED) return tell_stopped(options->into);
    const int told = status == SF_OK || merged.left_out > 0 ? tell(&merged, request) : EXIT_DONE;
    return status == SF_OK ? told : fail(status);
}

const cli_verb verb_merge = {
    .name = "merge",
    .usage = "STORE... --into STORE",
    .summary = "join stores: runs, curves, measurements and checkpoints",
    .details =
        "For studies that were trained in several stores, for example with --shard by the jobs of an array. The\n"
        "result does not depend on the order of the stores; merging a store again changes nothing. Of a run that\n"
        "several stores have, the longest curve, the latest checkpoint and all measurements are kept. First\n"
        "everything is verified. If anything is damaged, or if two stores have different bits for the same epoch of\n"
        "a run, nothing is merged, and the messages name the run, the epoch, the column and both values. A run that\n"
        "a process is training is left out (exit code 1). The stores are only read, and stay as they are. After\n"
        "Ctrl-C, a kill or a full disk, what was merged is kept; repeat the command to continue.\n"
        "examples: semfocus merge shard-1 shard-2 shard-3 --into all\n"
        "          semfocus report --store all\n",
    .groups = SF_GROUP_MERGE | SF_GROUP_PLUGIN | SF_GROUP_OUTPUT,
    .fewest_words = 1,
    .most_words = (size_t)-1,
    .first_word = "FOLDER",
    .next_words = "FOLDER",
    .run = run,
};
