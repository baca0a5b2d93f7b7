/* Trains one model, or a fleet where --seed or --attention are lists, and prints the curve. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const status_names[] = {"running", "done", "stopped", "diverged"};

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

/* Every mechanism with every seed. */
static sf_status fill_configs(sf_config *configs, const cli_request *request) {
    const size_t seeds = list_length(request->seeds), count = seeds * list_length(request->attentions);
    for (size_t i = 0; i < count; i++) {
        configs[i] = request->config;
        sf_status status = set_element(&configs[i], "attention", request->attentions, i / seeds);
        if (status == SF_OK) status = set_element(&configs[i], "seed", request->seeds, i % seeds);
        if (status != SF_OK) return status;
    }
    return SF_OK;
}

enum { BAR = 24, NAME_SIZE = SF_SPELLING_SIZE + 24 };

static void run_name(char out[NAME_SIZE], const sf_fleet *fleet, size_t s) {
    snprintf(out, NAME_SIZE, "%s %lld", sf_fleet_report(fleet, s).attention,
             (long long)sf_fleet_config(fleet, s)->seed);
}

/* Width of the table's first column: a bar for one run, names for several. */
static int left_width(const sf_fleet *fleet) {
    int width = BAR;
    for (size_t s = 0; s < sf_fleet_count(fleet); s++) {
        char name[NAME_SIZE];
        run_name(name, fleet, s);
        if ((int)strlen(name) > width) width = (int)strlen(name);
    }
    return width;
}

static const char *plural(long long count) {
    return count == 1 ? "" : "s";
}

static void print_heading(const sf_fleet *fleet, const char *task) {
    const sf_report first = sf_fleet_report(fleet, 0);
    const sf_config *config = sf_fleet_config(fleet, 0);
    printf("%s: %zu training and %zu held-out sequences, %lld block%s of width %lld, %zu parameters\n", task,
           first.train_count, first.heldout_count, (long long)config->blocks, plural(config->blocks),
           (long long)config->width, first.parameters);
    for (size_t s = 0; s < sf_fleet_count(fleet); s++) {
        const sf_report report = sf_fleet_report(fleet, s);
        printf("%s, seed %lld, %zu position%s\n", report.attention, (long long)sf_fleet_config(fleet, s)->seed,
               report.positions, plural((long long)report.positions));
    }
    printf("\n%-*s %6s  %10s %9s  %13s %12s\n", left_width(fleet),
           sf_fleet_count(fleet) > 1 ? "run" : "training accuracy", "epoch", "train loss", "train acc", "held-out loss",
           "held-out acc");
    fflush(stdout);
}

static void print_row(const sf_fleet *fleet, size_t s, const sf_epoch *row) {
    char left[NAME_SIZE];
    if (sf_fleet_count(fleet) > 1) {
        run_name(left, fleet, s);
    } else { /* a bar from 0 to 100 % */
        const int filled = (int)(row->train_accuracy / 100.0 * BAR + 0.5);
        snprintf(left, sizeof left, "%.*s%.*s", filled, "########################", BAR - filled,
                 "........................");
    }
    const bool moderate = row->train_loss < 1e5 && row->heldout_loss < 1e5;
    printf(moderate ? "%-*s %6zu  %10.4f %8.2f%%  %13.4f %11.2f%%\n" : "%-*s %6zu  %10.3e %8.2f%%  %13.3e %11.2f%%\n",
           left_width(fleet), left, row->epoch, row->train_loss, row->train_accuracy, row->heldout_loss,
           row->heldout_accuracy);
}

static void print_ending(const sf_fleet *fleet, size_t s) {
    const sf_report report = sf_fleet_report(fleet, s);
    printf("%s, seed %lld: ", report.attention, (long long)sf_fleet_config(fleet, s)->seed);
    if (report.status == SF_RUN_DIVERGED && report.diverged_step > 0)
        printf("diverged in epoch %zu, step %zu (loss or gradient not finite); ", report.diverged_epoch,
               report.diverged_step);
    else if (report.status == SF_RUN_DIVERGED)
        printf("diverged in the evaluation of epoch %zu (loss not finite); ", report.diverged_epoch);
    if (report.converged_epoch > 0)
        printf("95 %% training accuracy in epoch %zu; ", report.converged_epoch);
    else if (report.last.epoch > 0)
        printf("95 %% training accuracy not reached in %zu epoch%s; ", report.last.epoch,
               plural((long long)report.last.epoch));
    if (report.last.epoch > 0)
        printf("at the end %.2f %% training, %.2f %% held out; ", report.last.train_accuracy,
               report.last.heldout_accuracy);
    printf("weights %016" PRIx64 "\n", sf_fleet_weights_hash(fleet, s));
}

static json_t *run_as_json(const sf_fleet *fleet, const char *task, size_t s, json_t *curve) {
    const sf_report report = sf_fleet_report(fleet, s);
    const bool has_rows = report.last.epoch > 0;
    char hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, sf_fleet_weights_hash(fleet, s));
    json_t *run = json_pack("{s:o, s:s, s:I, s:s, s:I}", "task", json_text(task), "attention", report.attention, "seed",
                            (json_int_t)sf_fleet_config(fleet, s)->seed, "status", status_names[report.status],
                            "epochs", (json_int_t)report.last.epoch);
    json_object_set_new(run, "converged_epoch",
                        report.converged_epoch > 0 ? json_integer((json_int_t)report.converged_epoch) : json_null());
    json_object_set_new(run, "train_accuracy", has_rows ? json_real(report.last.train_accuracy) : json_null());
    json_object_set_new(run, "heldout_accuracy", has_rows ? json_real(report.last.heldout_accuracy) : json_null());
    if (report.status == SF_RUN_DIVERGED) {
        json_object_set_new(run, "diverged_epoch", json_integer((json_int_t)report.diverged_epoch));
        json_object_set_new(run, "diverged_step", json_integer((json_int_t)report.diverged_step));
    }
    json_object_set_new(run, "weights", json_string(hash));
    json_object_set(run, "curve", curve);
    return run;
}

/* Advances to the end; rows are printed as they come, or collected for JSON. */
static int train(sf_fleet *fleet, const sf_config *config, json_t *curves) {
    while (!sf_fleet_finished(fleet)) {
        const sf_status status = sf_fleet_advance(fleet);
        if (status != SF_OK) return fail(status);
        for (size_t s = 0; s < sf_fleet_count(fleet); s++) {
            json_t *curve = json_array_get(curves, s);
            const sf_epoch row = sf_fleet_report(fleet, s).last;
            if (row.epoch == json_array_size(curve)) continue; /* it had finished before */
            json_array_append_new(curve, json_pack("{s:I, s:f, s:f, s:f, s:f}", "epoch", (json_int_t)row.epoch, "tr-ce",
                                                   row.train_loss, "tr-ac", row.train_accuracy, "va-ce",
                                                   row.heldout_loss, "va-ac", row.heldout_accuracy));
            if (!config->json && !config->quiet) print_row(fleet, s, &row);
        }
        const int printed = finish_output(); /* nobody listens: there is no point in going on */
        if (printed != EXIT_DONE) return printed;
    }
    return EXIT_DONE;
}

static int run(const cli_request *request) {
    const sf_config *config = &request->config;
    const char *task = request->words[0];
    const size_t count = list_length(request->seeds) * list_length(request->attentions);
    enum { MOST = 4096 };
    if (count > MOST)
        return fail_usage("%zu models were asked for but a fleet holds at most %d; shorten the lists", count, MOST);
    sf_config *configs = calloc(count, sizeof *configs);
    sf_fleet *fleet = NULL;
    if (configs == NULL) return fail_usage("no memory for %zu settings; shorten the lists", count);
    sf_status status = fill_configs(configs, request);
    if (status == SF_OK) status = sf_fleet_create(&fleet, task, configs, count);
    free(configs);
    if (status != SF_OK) return fail(status);

    json_t *curves = json_array();
    for (size_t s = 0; s < count; s++) json_array_append_new(curves, json_array());
    if (!config->json && !config->quiet) print_heading(fleet, task);
    int code = train(fleet, config, curves);
    if (code == EXIT_DONE && config->json) {
        json_t *runs = json_array();
        for (size_t s = 0; s < count; s++)
            json_array_append_new(runs, run_as_json(fleet, task, s, json_array_get(curves, s)));
        code = print_json(runs);
    } else if (code == EXIT_DONE) {
        if (!config->quiet) putchar('\n');
        for (size_t s = 0; s < count; s++) print_ending(fleet, s);
        code = finish_output();
    }
    json_decref(curves);
    sf_fleet_destroy(fleet);
    return code;
}

const cli_verb verb_train = {
    .name = "train",
    .usage = "TASK [--attention NAME[,...]] [--seed S[,...]] [--setting value ...]",
    .summary = "train a model (or a fleet of them) and print its curve",
    .details = "TASK is a built-in task ('semfocus list tasks') or tsv:TRAIN.tsv[,HELDOUT.tsv].\n"
               "A task's own recipe replaces the defaults below; what you set replaces both.\n"
               "examples: semfocus train even-pairs --attention topk:5 --stop-at 95\n"
               "          semfocus train even-pairs --attention full,topk:5 --seed 1,2,3 --epochs 20\n",
    .groups = SF_GROUP_SAMPLE | SF_GROUP_DATA | SF_GROUP_MODEL | SF_GROUP_TRAINING | SF_GROUP_MACHINE | SF_GROUP_OUTPUT,
    .takes_lists = true,
    .fewest_words = 1,
    .most_words = 1,
    .run = run,
};
