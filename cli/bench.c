/* Speed of this machine at the paper's shapes. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const char *const mechanisms[] = {"full", "topk:5", "banded:5", "block:5"};
enum { MECHANISMS = sizeof mechanisms / sizeof *mechanisms };
static const double seconds_each = 5;

static const char *name_of(sf_precision precision) {
    static const char *const names[] = {[SF_F32] = "f32", [SF_BF16] = "bf16", [SF_TF32] = "tf32"};
    return names[precision];
}

static json_t *as_json(const sf_benchmark *what, const sf_benchmark_result *result) {
    return json_pack("{s:s, s:s, s:s, s:I, s:s, s:I, s:f, s:f, s:f, s:f, s:f}", "shape", what->shape, "attention",
                     what->attention, "precision", name_of(what->precision), "threads", (json_int_t)result->threads,
                     "device", result->device, "models", (json_int_t)result->models, "ms_per_step", result->ms_per_step,
                     "gflops", result->gflops, "peak_share", result->peak_share, "ms_per_100_evaluated",
                     result->ms_per_evaluation, "evaluation_share", result->evaluation_share);
}

static void print_heading(double peak) {
    if (peak > 0) printf("multiply-adds alone: %.0f GFLOP/s\n\n", peak);
    printf("%-8s %-10s %-9s %-6s %6s %7s %12s %9s %10s %14s %14s\n", "shape", "attention", "precision", "device",
           "models", "threads", "ms per step", "GFLOP/s", "of peak", "ms per 100", "7000 / epoch");
}

static void print_result(const sf_benchmark *what, const sf_benchmark_result *result) {
    const int digits = result->models > 1 ? 4 : 2; /* of milliseconds */
    printf("%-8s %-10s %-9s %-6s %6zu %7zu %12.*f %9.1f %9.0f%% %14.*f %13.0f%%\n", what->shape, what->attention,
           name_of(what->precision), result->device, result->models, result->threads, digits, result->ms_per_step,
           result->gflops, 100 * result->peak_share, digits, result->ms_per_evaluation, 100 * result->evaluation_share);
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

/* A mechanism; on a GPU also several, with commas between them. */
static sf_status check_mechanisms(const char *word, bool several) {
    char text[256], *rest = text;
    sf_attention ignored;
    if (!several || strlen(word) >= sizeof text) return sf_attention_parse(&ignored, word);
    snprintf(text, sizeof text, "%s", word);
    for (const char *one; (one = strsep(&rest, ",")) != NULL;) {
        const sf_status status = sf_attention_parse(&ignored, one);
        if (status != SF_OK) return status;
    }
    return SF_OK;
}

static sf_status select_cases(selection *out, const cli_request *request) {
    *out = (selection){0};
    for (size_t i = 0; i < request->word_count; i++) {
        if (is_shape(request->words[i])) {
            out->shapes[out->shape_count++] = request->words[i];
            continue;
        }
        const sf_status status = check_mechanisms(request->words[i], request->options.execution.device == SF_CUDA);
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
    const sf_execution *execution = &request->options.execution;
    if (sf_options_given(&request->options, "models") && execution->device != SF_CUDA)
        return fail_usage("models is for fleets on a GPU, and the CPU is timed with one model; leave it out, or use "
                          "--device cuda");
    selection chosen;
    const sf_status known = select_cases(&chosen, request);
    if (known != SF_OK) return fail(known);
    const sf_precision precision = (sf_precision)request->config.precision;
    const double peak = sf_benchmark_peak(precision, execution);
    json_t *rows = json_array();
    int code = EXIT_DONE;
    for (size_t i = 0; i < chosen.shape_count * chosen.mechanism_count && code == EXIT_DONE; i++) {
        const sf_benchmark what = {.shape = chosen.shapes[i / chosen.mechanism_count],
                                   .attention = chosen.mechanisms[i % chosen.mechanism_count],
                                   .precision = precision,
                                   .execution = *execution,
                                   .models = (size_t)request->options.models,
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
    .usage = "[nnch|listops] [MECHANISM...] [--device cpu|cuda] [--models N] [--precision f32|bf16|tf32] [--threads N]",
    .summary = "time training steps and evaluations at the paper's shapes",
    .details =
        "Batch 25. The CPU is timed with one model that uses all threads, a GPU with a fleet of --models models that\n"
        "are trained at the same time; MECHANISM may then be several with commas between them, which models take in\n"
        "turn. Milliseconds are per model. GFLOP/s count each operation of the mathematics once; 'of peak' is "
        "relative\n"
        "to what the device reaches on multiply-adds alone (a CPU: f32 on vectors, bf16 on tiles; a GPU: f32 outside\n"
        "of tensor cores, tf32 and bf16 on them); '7000 / epoch' is evaluation time divided by training time, per "
        "epoch. Takes about a\n"
        "minute.\n"
        "example: semfocus bench nnch full,banded:5,block:5,topk:5 --device cuda --models 264\n",
    .groups = SF_GROUP_BENCH | COMMON_GROUPS,
    .most_words = 64,
    .first_word = "SHAPE|MECHANISM",
    .next_words = "SHAPE|MECHANISM",
    .run = run,
};
