#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static json_t *count_or_null(size_t count) {
    return count > 0 ? json_integer((json_int_t)count) : json_null();
}

json_t *run_as_json(const sf_stored_run *run) {
    char hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, run->weights_hash);
    const bool has_rows = run->epochs > 0;
    return json_pack(
        "{s:o, s:o, s:o, s:I, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "id", json_text(run->id),
        "task", json_text(run->task), "attention", json_text(run->attention), "seed", (json_int_t)run->seed, "status",
        json_text(run->status), "message", *run->message != '\0' ? json_text(run->message) : json_null(), "epochs",
        (json_int_t)run->epochs, "converged_epoch", count_or_null(run->converged_epoch), "train_accuracy",
        has_rows ? json_real(run->train_accuracy) : json_null(), "heldout_accuracy",
        has_rows ? json_real(run->heldout_accuracy) : json_null(), "best_epoch", count_or_null(run->best_epoch),
        "best_heldout_accuracy", has_rows ? json_real(run->best_accuracy) : json_null(), "diverged_epoch",
        count_or_null(run->diverged_epoch), "diverged_step", count_or_null(run->diverged_step), "isa",
        json_text(run->isa), "weights", run->checkpoint_epoch > 0 ? json_string(hash) : json_null());
}

typedef struct listing { /* what is shown of the runs of a store */
    sf_store *store;
    sf_criterion criterion;
    bool is_usual;  /* 95 % training accuracy, which the store knows for every run */
    size_t arrival; /* of the run being looked at; 0: not yet */
    json_t *rows;   /* NULL: a table */
    size_t count;
    sf_status status;
} listing;

static void look_at_epoch(void *context, const sf_epoch *row) {
    listing *shown = context;
    if (shown->arrival == 0 && sf_criterion_met(&shown->criterion, row, SF_TRAINING)) shown->arrival = row->epoch;
}

/* When the run met the criterion. */
static size_t arrival_of(listing *shown, const sf_stored_run *run) {
    if (shown->is_usual || shown->status != SF_OK) return run->converged_epoch;
    shown->arrival = 0;
    shown->status = sf_store_each_epoch(shown->store, run, look_at_epoch, shown);
    return shown->arrival;
}

static void print_run(listing *shown, const sf_stored_run *run) {
    if (shown->count++ == 0)
        printf("%-16s  %-28s %-18s %10s  %-8s %6s %11s %9s %9s\n", "id", "task", "attention", "seed", "status",
               "epochs", "converged", "train acc", "held-out");
    char converged[24] = "not reached";
    if (run->converged_epoch > 0) snprintf(converged, sizeof converged, "%zu", run->converged_epoch);
    printf("%-16s  %-28s %-18s %10lld  %-8s %6zu %11s ", run->id, on_one_line(run->task), on_one_line(run->attention),
           (long long)run->seed, on_one_line(run->status), run->epochs, run->epochs > 0 ? converged : "not run");
    if (run->epochs > 0)
        printf("%8.2f%% %8.2f%%\n", run->train_accuracy, run->heldout_accuracy);
    else
        printf("%9s %9s\n", "-", "-");
}

static void show_run(void *context, const sf_stored_run *stored) {
    listing *shown = context;
    sf_stored_run run = *stored;
    run.converged_epoch = arrival_of(shown, stored);
    if (shown->rows != NULL) {
        json_t *row = run_as_json(&run);
        if (shown->status == SF_OK) shown->status = add_text_result(row, shown->store, stored);
        json_array_append_new(shown->rows, row);
    } else
        print_run(shown, &run);
}

static int show_runs(sf_store *store, const sf_options *options) {
    listing shown = {.store = store, .rows = options->json ? json_array() : NULL};
    sf_status status = sf_criterion_parse(&shown.criterion, options->converged_at);
    shown.is_usual = !shown.criterion.is_loss && shown.criterion.value == SF_CONVERGED_AT;
    if (status == SF_OK) status = sf_store_each_run(store, options->where, show_run, &shown);
    if (status == SF_OK) status = shown.status;
    if (status != SF_OK) {
        json_decref(shown.rows);
        return fail(status);
    }
    if (shown.rows != NULL) return print_json(shown.rows);
    if (shown.count == 0) puts("no runs");
    return finish_output();
}

static int run(const cli_request *request) {
    sf_store *store;
    const sf_status status = open_to_read(&store, request->options.store, SF_STORE_READ);
    if (status != SF_OK) return fail(status);
    const int code = show_runs(store, &request->options);
    sf_store_close(store);
    return code;
}

const cli_verb verb_runs = {
    .name = "runs",
    .usage = "[--where SQL] [--converged-at PERCENT|loss:X]",
    .summary = "list the runs of a store",
    .details = "The column 'converged' is the first epoch with 95 % training accuracy, or as --converged-at says.\n"
               "Columns for --where: id, task, attention, seed, status, epochs, converged_epoch, train_accuracy,\n"
               "heldout_accuracy, best_epoch, best_accuracy, diverged_epoch, message, isa, settings, environment,\n"
               "earlier_id (the id of a run in a version that had other ids).\n"
               "The condition may only read the store and compute, for at most 10 seconds.\n"
               "example: semfocus runs --where \"attention LIKE 'topk%' AND converged_epoch < 10\"\n",
    .groups = SF_GROUP_QUERY | SF_GROUP_GOAL | COMMON_GROUPS,
    .run = run,
};
