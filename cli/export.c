/* Runs for other programs: the weights of one, the curves of one or many, event files for TensorBoard. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *path_of(const sf_options *options) {
    return *options->out != '\0' ? options->out : "-";
}

/* The condition that names the run of the command line; an id has no characters that SQL could mistake. */
static sf_status name_run(char where[64], sf_stored_run *run, sf_store *store, const char *id) {
    const sf_status status = sf_store_find(run, store, id);
    if (status == SF_OK) snprintf(where, 64, "id = '%s'", run->id);
    return status;
}

typedef struct boards { /* runs on their way to TensorBoard */
    sf_store *store;
    const char *folder;
    size_t runs;
    sf_status status;
} boards;

static void write_board(void *context, const sf_stored_run *run) {
    boards *b = context;
    if (b->status != SF_OK || run->epochs == 0) return;
    b->status = sf_tensorboard_write_run(b->store, run, b->folder);
    b->runs++;
}

/* Median and quartiles over the seeds of the chosen runs. */
static sf_status write_groups(sf_store *store, const char *where, const char *folder) {
    sf_study *study = NULL;
    sf_status status = sf_study_create(&study);
    if (status == SF_OK) status = sf_study_plan_stored(study, store, where);
    if (status == SF_OK) status = sf_study_read_curves(study, store);
    if (status == SF_OK) status = sf_tensorboard_write_groups(study, folder);
    sf_study_destroy(study);
    return status;
}

static int export_boards(sf_store *store, const char *where, const sf_options *options, bool many) {
    boards b = {.store = store, .folder = options->out};
    sf_status status = sf_store_each_run(store, where, write_board, &b);
    if (status == SF_OK) status = b.status;
    if (status == SF_OK && many) status = write_groups(store, where, options->out);
    if (status != SF_OK) return fail(status);
    if (!options->quiet)
        printf("%zu run%s written; look at them with: tensorboard --logdir %s\n", b.runs, plural(b.runs), options->out);
    return finish_output();
}

static int export_one(sf_store *store, const cli_request *request) {
    const sf_options *options = &request->options;
    char where[64];
    sf_stored_run run;
    sf_status status = name_run(where, &run, store, request->words[0]);
    if (status == SF_OK && options->format == SF_TENSORBOARD) return export_boards(store, where, options, false);
    if (status == SF_OK && options->format == SF_SAFETENSORS)
        status = sf_store_export_weights(store, &run, options->best != 0, path_of(options));
    else if (status == SF_OK && options->format == SF_JSONL)
        status = sf_store_export_curves(store, where, SF_JSONL, path_of(options));
    else if (status == SF_OK)
        status = sf_store_export_curve(store, &run, path_of(options));
    return status == SF_OK ? EXIT_DONE : fail(status);
}

static int export_many(sf_store *store, const sf_options *options) {
    if (options->format == SF_TENSORBOARD) return export_boards(store, options->where, options, true);
    const sf_status status =
        sf_store_export_curves(store, options->where, (sf_export_format)options->format, path_of(options));
    return status == SF_OK ? EXIT_DONE : fail(status);
}

static int check_request(const cli_request *request) {
    const sf_options *options = &request->options;
    const bool one = request->word_count > 0;
    if (one && sf_options_given(options, "where")) return fail_usage("both a run and --where were given; choose one");
    if (!one && !sf_options_given(options, "where"))
        return fail_usage("name a run, or choose several with --where SQL (--where 1 is all of them)");
    if (!one && options->format == SF_SAFETENSORS)
        return fail_usage("--format safetensors writes the weights of one run; name it");
    if (options->best && options->format != SF_SAFETENSORS)
        return fail_usage("--best selects weights; add --format safetensors or leave it out");
    if (options->format == SF_TENSORBOARD && (*options->out == '\0' || strcmp(options->out, "-") == 0))
        return fail_usage("--format tensorboard writes a folder of event files; name it with --out DIR");
    return EXIT_DONE;
}

static int run(const cli_request *request) {
    const bool to_stdout = strcmp(path_of(&request->options), "-") == 0;
    const bool bytes = request->options.format == SF_SAFETENSORS && to_stdout;
    if (bytes && isatty(STDOUT_FILENO) != 0)
        return fail_usage(
            "weights are binary and are not written to a terminal; name a file with --out, or use a pipe");
    if (bytes) print_bytes_from_now_on();
    int code = check_request(request);
    if (code != EXIT_DONE) return code;
    sf_store *store;
    const sf_status status = open_for_query(&store, &request->options);
    if (status != SF_OK) return fail(status);
    code = request->word_count > 0 ? export_one(store, request) : export_many(store, &request->options);
    sf_store_close(store);
    return code;
}

const cli_verb verb_export = {
    .name = "export",
    .usage = "RUN|--where SQL [--format safetensors|csv|jsonl|tensorboard] [--best] [--out FILE|DIR]",
    .summary = "write weights (safetensors), curves (csv, jsonl) or event files (tensorboard)",
    .details =
        "RUN is an id from 'semfocus runs' or an unambiguous beginning of one. The csv of one run has the published\n"
        "columns epoch,tr-ce,tr-ac,va-ce,va-ac; the weights have their published names and load into PyTorch.\n"
        "With --where, the csv and jsonl of all these runs have one line per run and epoch, with every setting as a\n"
        "column. --format tensorboard writes a folder for 'tensorboard --logdir'; repeating the command adds what is\n"
        "new. With --where, it also writes the median and the quartiles over the seeds of every mechanism.\n"
        "examples: semfocus export 3f2a --format safetensors --out weights.safetensors\n"
        "          semfocus export --where \"task = 'even-pairs'\" --out curves.csv\n"
        "          semfocus export --where 1 --format tensorboard --out board\n",
    .groups = SF_GROUP_EXPORT | SF_GROUP_QUERY | SF_GROUP_OUT | COMMON_GROUPS,
    .most_words = 1,
    .first_word = "RUN",
    .run = run,
};
