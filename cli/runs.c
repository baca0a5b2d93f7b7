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

static void collect(void *rows, const sf_stored_run *run) {
    json_array_append_new(rows, run_as_json(run));
}

static void print_run(void *count, const sf_stored_run *run) {
    if ((*(size_t *)count)++ == 0)
        printf("%-16s  %-28s %-18s %10s  %-8s %6s %9s %9s %9s\n", "id", "task", "attention", "seed", "status", "epochs",
               "converged", "train acc", "held-out");
    char converged[24] = "never";
    if (run->converged_epoch > 0) snprintf(converged, sizeof converged, "%zu", run->converged_epoch);
    printf("%-16s  %-28s %-18s %10lld  %-8s %6zu %9s ", run->id, on_one_line(run->task), on_one_line(run->attention),
           (long long)run->seed, on_one_line(run->status), run->epochs, run->epochs > 0 ? converged : "-");
    if (run->epochs > 0)
        printf("%8.2f%% %8.2f%%\n", run->train_accuracy, run->heldout_accuracy);
    else
        printf("%9s %9s\n", "-", "-");
}

static int run(const cli_request *request) {
    sf_store *store;
    sf_status status = open_to_read(&store, request->config.store, SF_STORE_READ);
    if (status != SF_OK) return fail(status);
    int code;
    if (request->config.json) {
        json_t *rows = json_array();
        status = sf_store_each_run(store, request->config.where, collect, rows);
        code = status == SF_OK ? print_json(json_incref(rows)) : fail(status);
        json_decref(rows);
    } else {
        size_t count = 0;
        status = sf_store_each_run(store, request->config.where, print_run, &count);
        if (status == SF_OK && count == 0) puts("no runs");
        code = status == SF_OK ? finish_output() : fail(status);
    }
    sf_store_close(store);
    return code;
}

const cli_verb verb_runs = {
    .name = "runs",
    .usage = "[--where SQL]",
    .summary = "list the runs of a store",
    .details = "Columns for --where: id, task, attention, seed, status, epochs, converged_epoch, train_accuracy,\n"
               "heldout_accuracy, best_epoch, best_accuracy, diverged_epoch, message, isa, settings, environment.\n"
               "The condition may read the store and compute, for 10 seconds at most.\n"
               "example: semfocus runs --where \"attention LIKE 'topk%' AND converged_epoch < 10\"\n",
    .groups = SF_GROUP_QUERY | COMMON_GROUPS,
    .run = run,
};
