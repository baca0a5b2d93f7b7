#include "semfocus/benchmark.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/sorted.h"
#include "base/text.h"
#include "base/threads.h"
#include "train/evaluator.h"
#include "train/fleet_benchmark.h"
#include "train/flops.h"

enum { BATCH = 25, EVALUATED = 100, EPOCH_STEPS = 200, EPOCH_EVALUATED = 7000, MOST_TIMES = 4096 };

typedef struct named_shape {
    const char *name;
    size_t T, L, V, classes;
    const char *task;     /* that fleets of this shape learn */
    size_t models, steps; /* of a fleet, and of its epochs */
} named_shape;

static const named_shape shapes[] = {
    {.name = "nnch", .T = 40, .L = 5, .V = 3, .classes = 2, .task = "even-pairs", .models = 132, .steps = 20},
    {.name = "listops", .T = 600, .L = 10, .V = 16, .classes = 10, .task = "listops", .models = 8, .steps = 4},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

const char *sf_benchmark_shape(size_t i) {
    return i < SHAPES ? shapes[i].name : NULL;
}

sf_status sf_step_flops(double *out, const sf_shape *shape) {
    sf_pattern pattern = {0};
    SF_TRY(sf_pattern_create(&pattern, &shape->attention, shape->T));
    const double kept = (double)pattern.offsets[shape->T] / (double)shape->T;
    sf_pattern_destroy(&pattern);
    const bool by_score = (shape->attention.selector->selects_by & SF_BY_SCORE) != 0;
    *out = BATCH * sf_flops_of(shape, by_score ? (double)shape->T : kept, kept).training;
    return SF_OK;
}

typedef struct timed_model { /* ready to train */
    sf_model model;
    sf_evaluator evaluator;
    float *params;
    int32_t *tokens, labels[EVALUATED];
    double *times; /* [MOST_TIMES] */
    sf_config config;
    double flops;
} timed_model;

static void close_model(timed_model *r) {
    sf_release(r->params);
    sf_release(r->tokens);
    sf_release(r->times);
    sf_evaluator_close(&r->evaluator);
    sf_model_destroy(&r->model);
}

static sf_status find_shape(const named_shape **out, const char *name) {
    char quoted[SF_QUOTE_SIZE];
    for (size_t i = 0; i < SHAPES; i++) {
        *out = &shapes[i];
        if (strcmp(shapes[i].name, name) == 0) return SF_OK;
    }
    return sf_fail(SF_BAD_INPUT, "shape is '%s' but must be nnch or listops", sf_text_quote(quoted, name));
}

static sf_status open_model(timed_model *r, const sf_benchmark *what, const sf_machine *machine) {
    const named_shape *named = NULL;
    sf_shape shape = {.C = 64, .D = 64, .F = 64, .H = 1, .inverse_temperature = 1, .dropout = 0.01};
    SF_TRY(sf_backend_check(machine->device, what->precision));
    SF_TRY(find_shape(&named, what->shape));
    SF_TRY(sf_attention_parse(&shape.attention, what->attention));
    shape.attention = sf_attention_resolve(shape.attention, named->T);
    shape.T = sf_attention_positions(&shape.attention, named->T, true);
    shape.V = named->V + shape.attention.globals;
    shape.L = named->L;
    shape.classes = named->classes;
    sf_config_init(&r->config);
    SF_TRY(sf_model_create(&r->model, &shape));
    SF_TRY(sf_evaluator_open(&r->evaluator, machine, SF_TRAINING_WORK, &r->model, what->precision, EVALUATED, 1));
    SF_TRY(SF_NEW(&r->params, r->model.size));
    SF_TRY(SF_NEW(&r->tokens, EVALUATED * shape.T));
    SF_TRY(SF_NEW(&r->times, MOST_TIMES));
    sf_model_initialize(r->params, &r->model, 1);
    for (size_t i = 0; i < EVALUATED * shape.T; i++) r->tokens[i] = (int32_t)(i * 7 / 3 % (named->V - 1));
    for (size_t i = 0; i < EVALUATED; i++) r->labels[i] = (int32_t)(i % named->classes);
    return sf_step_flops(&r->flops, &shape);
}

static sf_status time_step(double *seconds, timed_model *r, uint32_t step) {
    const sf_moment moment = {.seed = 1, .epoch = 1, .step = step, .training = true};
    const sf_update update = {.config = &r->config, .lr = r->config.lr, .step = step + 1};
    const sf_batch batch = {.tokens = r->tokens, .labels = r->labels, .B = BATCH};
    double loss;
    const double start = sf_clock_seconds();
    const sf_status status = sf_evaluator_step(&r->evaluator, &loss, &r->params, &update, &batch, &moment);
    *seconds = sf_clock_seconds() - start;
    return status;
}

static sf_status time_evaluation(double *seconds, timed_model *r) {
    const sf_moment moment = {.seed = 1};
    const sf_batch batch = {.tokens = r->tokens, .labels = r->labels, .B = EVALUATED};
    const float *params = r->params;
    sf_evaluation result;
    const double start = sf_clock_seconds();
    const sf_status status = sf_evaluator_evaluate(&r->evaluator, &result, NULL, &params, 1, &batch, &moment);
    *seconds = sf_clock_seconds() - start;
    return status;
}

static double median(double *times, size_t count) {
    sf_sort(times, count);
    return times[count / 2];
}

static sf_status measure(sf_benchmark_result *out, timed_model *r, double seconds) {
    SF_TRY(time_step(&r->times[0], r, 0)); /* to warm up */
    double end = sf_clock_seconds() + 0.8 * seconds;
    for (out->steps = 0; out->steps < 3 || (sf_clock_seconds() < end && out->steps < MOST_TIMES); out->steps++)
        SF_TRY(time_step(&r->times[out->steps], r, (uint32_t)out->steps + 1));
    const double step = median(r->times, out->steps);
    SF_TRY(time_evaluation(&r->times[0], r));
    end = sf_clock_seconds() + 0.2 * seconds;
    size_t count = 0;
    for (; count < 3 || (sf_clock_seconds() < end && count < MOST_TIMES); count++)
        SF_TRY(time_evaluation(&r->times[count], r));
    const double evaluation = median(r->times, count);
    out->ms_per_step = 1e3 * step;
    out->ms_per_evaluation = 1e3 * evaluation;
    out->gflops = 1e-9 * r->flops / step;
    out->evaluation_share = evaluation * EPOCH_EVALUATED / EVALUATED / (step * EPOCH_STEPS);
    return SF_OK;
}

static sf_status time_model(sf_benchmark_result *out, const sf_benchmark *what, const sf_machine *machine) {
    timed_model r = {0};
    sf_status status = open_model(&r, what, machine);
    if (status == SF_OK) status = measure(out, &r, what->seconds);
    close_model(&r);
    return status;
}

enum { MOST_KINDS = 16 };

/* A list with commas between its items: the items in `text`, cut off from each other. */
static sf_status split(const char **items /* [MOST_KINDS] */, size_t *count, char text[SF_TEXT_SIZE],
                       const char *list) {
    char *rest = text;
    const int length = snprintf(text, SF_TEXT_SIZE, "%s", list);
    *count = 0;
    for (const char *item; (item = strsep(&rest, ",")) != NULL && *count < MOST_KINDS;) items[(*count)++] = item;
    return length < SF_TEXT_SIZE && rest == NULL
               ? SF_OK
               : sf_fail(SF_BAD_INPUT, "a fleet of more than %d mechanisms was asked for", (int)MOST_KINDS);
}

static sf_status time_fleet(sf_benchmark_result *out, const sf_benchmark *what) {
    const named_shape *named = NULL;
    const char *mechanisms[MOST_KINDS];
    char text[SF_TEXT_SIZE];
    sf_fleet_case fleet = {.mechanisms = mechanisms,
                           .precision = what->precision,
                           .execution = &what->execution,
                           .seconds = what->seconds};
    sf_fleet_times times;
    SF_TRY(find_shape(&named, what->shape));
    SF_TRY(split(mechanisms, &fleet.kinds, text, what->attention));
    fleet.task = named->task;
    fleet.steps = named->steps;
    fleet.models = what->models > 0 ? what->models : named->models;
    SF_TRY(sf_fleet_benchmark(&times, &fleet));
    out->device = times.device;
    out->models = fleet.models;
    out->steps = times.epochs * fleet.steps;
    out->ms_per_step = 1e3 * times.step;
    out->ms_per_evaluation = 1e3 * times.evaluation * EVALUATED;
    out->gflops = 1e-9 * times.flops / times.step;
    out->evaluation_share = times.evaluation * EPOCH_EVALUATED / (times.step * EPOCH_STEPS);
    return SF_OK;
}

sf_status sf_benchmark_run(sf_benchmark_result *out, const sf_benchmark *what, double peak_gflops) {
    const sf_machine machine = sf_machine_of(&what->execution);
    *out = (sf_benchmark_result){.device = "cpu", .models = 1, .threads = (size_t)sf_threads_for(machine.threads)};
    SF_TRY(sf_backend_check(machine.device, what->precision));
    const bool alone = sf_machine_backend(&machine) == &sf_backend_cpu;
    SF_TRY(alone ? time_model(out, what, &machine) : time_fleet(out, what));
    out->peak_share = peak_gflops > 0 ? out->gflops / peak_gflops : 0;
    return SF_OK;
}

double sf_benchmark_peak(sf_precision precision, const sf_execution *execution) {
    const sf_backend *backend = sf_backend_for((sf_device)execution->device);
    if (backend->peak_gflops == NULL || backend->check(precision) != SF_OK) return 0;
    return backend->peak_gflops(precision, (size_t)execution->threads);
}
