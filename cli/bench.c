/* Speed of this machine at the paper's shapes. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const char *const mechanisms[] = {"full", "topk:5", "banded:5", "block:5"};
enum { MECHANISMS = sizeof mechanisms / sizeof *mechanisms };
static const double seconds_each = 5;

static const char *name_of(sf_precision precision) {
    return precision == SF_BF16 ? "bf16" : "f32";
}

static json_t *as_json(const sf_benchmark *what, const sf_benchmark_result *result) {
    return json_pack("{s:s, s:s, s:s, s:I, s:s, s:i, s:f, s:f, s:f, s:f, s:f}", "shape", what->shape, "attention",
                     what->attention, "precision", name_of(what->precision), "threads", (json_int_t)result->threads,
                     "device", "cpu", "models", 1, "ms_per_step", result->ms_per_step, "gflops", result->gflops,
                     "peak_share", result->peak_share, "ms_per_100_evaluated", result->ms_per_evaluation,
                     "evaluation_share", result->evaluation_share);
}

static void print_heading(double peak) {
    printf("multiply-adds alone: %.0f GFLOP/s\n\n%-8s %-10s %-9s %7s %12s %9s %10s %14s %14s\n", peak, "shape",
           "attention", "precision", "threads", "ms per step", "GFLOP/s", "of peak", "ms per 100", "7000 / epoch");
}

static void print_result(const sf_benchmark *what, const sf_benchmark_result *result) {
    printf("%-8s %-10s %-9s %7zu %12.2f %9.1f %9.0f%% %14.2f %13.0f%%\n", what->shape, what->attention,
           name_of(what->precision), result->threads, result->ms_per_step, result->gflops, 100 * result->peak_share,
           result->ms_per_evaluation, 100 * result->evaluation_share);
    fflush(stdout);
}

/* Words name shapes and mechanisms; where none of a kind is named, all are meant. */
typedef struct selection {
    const char *shapes[64], *mechanisms[64];
    size_t shape_count, mechanism_count;
} selection;

static bool is_shape(const char *word) {
    const char *shape;
    for (size_t i = 0; (shape = sf_benchmark_shape(i)) != NULL; i++)
        if (strcmp(shape, word) == 0) return true;
    return false;
}

static sf_status select_cases(selection *out, const cli_request *request) {
    *out = (selection){0};
    for (size_t i = 0; i < request->word_count; i++) {
        sf_attention ignored;
        if (is_shape(request->words[i])) {
            out->shapes[out->shape_count++] = request->words[i];
            continue;
        }
        const sf_status status = sf_attention_parse(&ignored, request->words[i]);
        if (status != SF_OK) return status;
        out->mechanisms[out->mechanism_count++] = request->words[i];
    }
    const char *shape;
    for (size_t i = 0; out->shape_count == i && (shape = sf_benchmark_shape(i)) != NULL; i++)
        out->shapes[out->shape_count++] = shape;
    for (size_t i = 0; out->mechanism_count == i && i < MECHANISMS; i++)
        out->mechanisms[out->mechanism_count++] = mechanisms[i];
    return SF_OK;
}

static int run(const cli_request *request) {
    const bool json = request->options.json != 0;
    const size_t threads = (size_t)request->options.execution.threads;
    selection chosen;
    const sf_status known = select_cases(&chosen, request);
    if (known != SF_OK) return fail(known);
    const sf_precision precision = (sf_precision)request->config.precision;
    const double peak = sf_benchmark_peak(precision, threads);
    json_t *rows = json_array();
    int code = EXIT_DONE;
    for (size_t i = 0; i < chosen.shape_count * chosen.mechanism_count && code == EXIT_DONE; i++) {
        const sf_benchmark what = {.shape = chosen.shapes[i / chosen.mechanism_count],
                                   .attention = chosen.mechanisms[i % chosen.mechanism_count],
                                   .precision = precision,
                                   .threads = threads,
                                   .seconds = seconds_each};
        sf_benchmark_result result;
        const sf_status status = sf_benchmark_run(&result, &what, peak);
        if (status != SF_OK)
            code = fail(status);
        else if (json)
            json_array_append_new(rows, as_json(&what, &result));
        else {
            if (i == 0) print_heading(peak);
            print_result(&what, &result);
        }
    }
    if (json && code == EXIT_DONE) return print_json(rows);
    json_decref(rows);
    return code == EXIT_DONE ? finish_output() : code;
}

const cli_verb verb_bench = {
    .name = "bench",
    .usage = "[nnch|listops] [MECHANISM...] [--precision f32|bf16] [--threads N]",
    .summary = "time training steps and evaluations at the paper's shapes",
    .details =
        "Times one model that uses all threads, batch 25. GFLOP/s count each operation of the mathematics once; 'of\n"
        "peak' is relative to what the same threads reach on multiply-adds alone (f32 on vectors, bf16 on tiles);\n"
        "'7000 / epoch' is evaluation time divided by training time, per epoch. Takes about a minute.\n",
    .groups = COMMON_GROUPS,
    .most_words = 64,
    .first_word = "SHAPE|MECHANISM",
    .next_words = "SHAPE|MECHANISM",
    .run = run,
};
