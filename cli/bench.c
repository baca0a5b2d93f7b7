/* Speed of this machine at the paper's shapes. */
#include <stdio.h>

#include "cli/cli.h"

static const char *const mechanisms[] = {"full", "topk:5", "banded:5", "block:5"};
enum { MECHANISMS = sizeof mechanisms / sizeof *mechanisms };
static const double seconds_each = 5;

static json_t *as_json(const sf_benchmark *what, const sf_benchmark_result *result) {
    return json_pack("{s:s, s:s, s:s, s:I, s:s, s:i, s:f, s:f, s:f, s:f, s:f}", "shape", what->shape, "attention",
                     what->attention, "precision", "f32", "threads", (json_int_t)result->threads, "device", "cpu",
                     "models", 1, "ms_per_step", result->ms_per_step, "gflops", result->gflops, "peak_share",
                     result->peak_share, "ms_per_100_evaluated", result->ms_per_evaluation, "evaluation_share",
                     result->evaluation_share);
}

static void print_result(const sf_benchmark *what, const sf_benchmark_result *result) {
    printf("%-8s %-10s %-9s %7zu %12.2f %9.1f %9.0f%% %14.2f %13.0f%%\n", what->shape, what->attention, "f32",
           result->threads, result->ms_per_step, result->gflops, 100 * result->peak_share, result->ms_per_evaluation,
           100 * result->evaluation_share);
    fflush(stdout);
}

static int run(const cli_request *request) {
    const bool json = request->config.json != 0;
    const size_t threads = (size_t)request->config.threads;
    const double peak = sf_benchmark_peak(threads);
    json_t *rows = json_array();
    if (!json)
        printf("multiply-adds alone: %.0f GFLOP/s\n\n%-8s %-10s %-9s %7s %12s %9s %10s %14s %14s\n", peak, "shape",
               "attention", "precision", "threads", "ms per step", "GFLOP/s", "of peak", "ms per 100", "7000 / epoch");
    int code = EXIT_DONE;
    const char *shape;
    for (size_t s = 0; (shape = sf_benchmark_shape(s)) != NULL; s++) {
        for (size_t m = 0; m < MECHANISMS && code == EXIT_DONE; m++) {
            const sf_benchmark what = {
                .shape = shape, .attention = mechanisms[m], .threads = threads, .seconds = seconds_each};
            sf_benchmark_result result;
            const sf_status status = sf_benchmark_run(&result, &what, peak);
            if (status != SF_OK)
                code = fail(status);
            else if (json)
                json_array_append_new(rows, as_json(&what, &result));
            else
                print_result(&what, &result);
        }
    }
    if (json && code == EXIT_DONE) return print_json(rows);
    json_decref(rows);
    return code == EXIT_DONE ? finish_output() : code;
}

const cli_verb verb_bench = {
    .name = "bench",
    .usage = "[--threads N]",
    .summary = "time training steps and evaluations at the paper's shapes",
    .details = "One model with the threads inside it, batch 25. GFLOP/s count the mathematics, nothing computed twice;\n"
               "'of peak' is beside what the same threads reach on multiply-adds alone; '7000 / epoch' is the evaluation\n"
               "of an epoch over its training. Takes about a minute.\n",
    .groups = COMMON_GROUPS,
    .run = run,
};
