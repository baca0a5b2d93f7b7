/* Trains what is missing of one run, or of every mechanism with every seed, into the store. */
#include "cli/cli.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/progress.h"

static atomic_int stop_requested;

static void request_stop(int signal) {
    (void)signal;
    atomic_store(&stop_requested, 1);
}

/* The first signal asks for a checkpoint, a second one kills as usual. */
static void watch_signals(void) {
    struct sigaction action = {.sa_handler = request_stop, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static size_t list_length(const char *list) {
    size_t length = 1;
    for (; list != NULL && *list != '\0'; list++) length += *list == ',';
    return length;
}

/* Element i of a comma-separated list; every element was checked when the command line was read. */
static sf_status set_element(sf_config *config, const char *name, const char *list, size_t i) {
    if (list == NULL) return SF_OK;
    for (; i > 0; i--) list = strchr(list, ',') + 1;
    char element[SF_TEXT_SIZE];
    snprintf(element, sizeof element, "%.*s", (int)strcspn(list, ","), list);
    return sf_config_set(config, name, element);
}

/* Every mechanism with every seed, each checked against its task before anything is written. */
static sf_status plan(run_plan *runs, const cli_request *request) {
    const size_t seeds = list_length(request->seeds);
    for (size_t i = 0; i < runs->count; i++) {
        sf_config *config = &runs->configs[i];
        *config = request->config;
        sf_status status = set_element(config, "attention", request->attentions, i / seeds);
        if (status == SF_OK) status = set_element(config, "seed", request->seeds, i % seeds);
        if (status == SF_OK) status = sf_run_identify(runs->names[i].id, runs->names[i].attention, config, runs->task);
        if (status != SF_OK) return status;
    }
    return SF_OK;
}

static void append_row(void *curve, const sf_epoch *row) {
    json_array_append_new(curve, json_pack("{s:I, s:f, s:f, s:f, s:f}", "epoch", (json_int_t)row->epoch, "tr-ce",
                                           row->train_loss, "tr-ac", row->train_accuracy, "va-ce", row->heldout_loss,
                                           "va-ac", row->heldout_accuracy));
}

static bool is_repeated(const run_plan *runs, size_t i) {
    for (size_t other = 0; other < i; other++)
        if (strcmp(runs->names[other].id, runs->names[i].id) == 0) return true;
    return false;
}

/* What the store now says of the runs: JSON, or a sentence each. */
static int print_results(sf_store *store, const run_plan *runs, bool json) {
    json_t *rows = json_array();
    sf_status status = SF_OK;
    for (size_t i = 0; i < runs->count && status == SF_OK; i++) {
        sf_stored_run run;
        if (is_repeated(runs, i)) continue;
        status = sf_store_find(&run, store, runs->names[i].id);
        if (status == SF_OK && json) {
            json_t *row = run_as_json(&run), *curve = json_array();
            status = sf_store_each_epoch(store, &run, append_row, curve);
            json_object_set_new(row, "curve", curve);
            json_array_append_new(rows, row);
        } else if (status == SF_OK) {
            print_ending(&run);
        }
    }
    int code = status == SF_OK ? EXIT_DONE : fail(status);
    if (json && code == EXIT_DONE) return print_json(rows);
    json_decref(rows);
    return code == EXIT_DONE ? finish_output() : code;
}

static int train(const cli_request *request, const run_plan *runs) {
    const sf_config *config = &request->config;
    sf_store *store;
    sf_status status = sf_store_open(&store, config->store, SF_STORE_WRITE);
    if (status != SF_OK) return fail(status);
    progress shown;
    progress_open(&shown, runs, store, &stop_requested, config->quiet != 0 || config->json != 0);
    watch_signals();
    const sf_session session = {.task = runs->task,
                                .configs = runs->configs,
                                .count = runs->count,
                                .stop = &stop_requested,
                                .on_event = progress_event,
                                .context = &shown};
    status = sf_session_run(store, &session);
    progress_close(&shown);
    int code = EXIT_DONE;
    if (shown.output_failed) {
        code = finish_output();
    } else if (status == SF_INTERRUPTED) {
        fprintf(stderr, "semfocus: stopped and checkpointed in '%s'; the same command goes on\n", config->store);
        code = EXIT_FAILED;
    } else if (status != SF_OK && runs->count == 1) {
        code = EXIT_FAILED; /* its sentence was printed when it failed */
        if (shown.finished + shown.failed == 0) fail(status);
    } else {
        const int printed = print_results(store, runs, config->json != 0);
        code = status != SF_OK ? fail(status) : printed;
    }
    sf_store_close(store);
    return code;
}

static int run(const cli_request *request) {
    enum { MOST = 10000 };
    run_plan runs = {.task = request->words[0],
                     .count = list_length(request->seeds) * list_length(request->attentions)};
    if (runs.count > MOST)
        return fail_usage("%zu runs were asked for but one command takes at most %d; shorten the lists", runs.count,
                          MOST);
    runs.configs = calloc(runs.count, sizeof *runs.configs);
    runs.names = calloc(runs.count, sizeof *runs.names);
    int code;
    if (runs.configs == NULL || runs.names == NULL) {
        fail_usage("no memory for %zu runs; shorten the lists", runs.count);
        code = EXIT_FAILED;
    } else {
        const sf_status status = plan(&runs, request);
        code = status == SF_OK ? train(request, &runs) : fail(status);
    }
    free(runs.configs);
    free(runs.names);
    return code;
}

const cli_verb verb_train = {
    .name = "train",
    .usage = "TASK [--attention NAME[,...]] [--seed S[,...]] [--setting value ...]",
    .summary = "train models into the store and print their curves",
    .details = "TASK is a built-in task ('semfocus list tasks') or tsv:TRAIN.tsv[,HELDOUT.tsv].\n"
               "A task's own recipe replaces the defaults below; what you set replaces both.\n"
               "The same command again goes on with what is unfinished and skips what is done; asking for\n"
               "more epochs goes on with the run. Ctrl-C checkpoints.\n"
               "examples: semfocus train even-pairs --attention topk:5 --stop-at 95\n"
               "          semfocus train even-pairs --attention full,topk:5 --seed 1,2,3 --epochs 20\n",
    .groups = SF_GROUP_SAMPLE | SF_GROUP_DATA | SF_GROUP_MODEL | SF_GROUP_TRAINING | SF_GROUP_MACHINE | SF_GROUP_STORE |
              SF_GROUP_OUTPUT,
    .takes_lists = true,
    .fewest_words = 1,
    .most_words = 1,
    .run = run,
};
