/* Milliseconds of one training step (forward, backward, clip, update) of one model at the paper's NNCH shape:
 * T 40, 5 blocks, width 64, MLP 64, batch 25, dropout 0.01. Usage: bench_step [threads] [steps]. Median over steps. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/threads.h"
#include "kernels/cpu/cpu.h"
#include "train/optimizer.h"

enum { BATCH = 25, VOCABULARY = 3 };

static int by_value(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static sf_status time_steps(const char *attention, size_t threads, size_t steps) {
    sf_shape shape = {.C = 64, .F = 64, .H = 1, .L = 5, .classes = 2, .inverse_temperature = 1, .dropout = 0.01};
    sf_model model;
    sf_cpu_plan *plan;
    sf_cpu_crew *crew;
    float *params, *gradient;
    int32_t *tokens, labels[BATCH];
    double *times, loss;
    sf_config config;
    sf_config_init(&config);
    SF_TRY(sf_attention_parse(&shape.attention, attention));
    shape.V = VOCABULARY + shape.attention.globals;
    shape.T = 40 + shape.attention.globals;
    SF_TRY(sf_model_create(&model, &shape));
    SF_TRY(sf_cpu_plan_create(&plan, &model));
    SF_TRY(sf_cpu_crew_create(&crew, &plan, 1, threads, BATCH));
    SF_TRY(SF_NEW(&params, model.size));
    SF_TRY(SF_NEW(&gradient, model.size));
    SF_TRY(SF_NEW(&tokens, BATCH * shape.T));
    SF_TRY(SF_NEW(&times, steps));
    sf_model_initialize(params, &model, 1);
    for (size_t i = 0; i < BATCH * shape.T; i++) tokens[i] = (int32_t)(i * 7 / 3 % 2);
    for (size_t i = 0; i < BATCH; i++) labels[i] = (int32_t)(i % 2);
    float *const no_moments[2] = {NULL, NULL};
    for (size_t i = 0; i < steps; i++) {
        const double start = sf_clock_seconds();
        const sf_moment moment = {.seed = 1, .epoch = 1, .step = (uint32_t)i, .training = true};
        sf_cpu_gradient(crew, &loss, gradient, plan, params, &(sf_batch){tokens, labels, BATCH}, &moment);
        const double factor = sf_clip_factor(sf_gradient_norm(gradient, model.size), config.clip);
        sf_optimizer_update(params, no_moments, gradient, (float)factor, &config, config.lr, i + 1, model.size);
        times[i] = (sf_clock_seconds() - start) * 1e3;
    }
    qsort(times, steps, sizeof *times, by_value);
    printf("%-18s %zu threads  %-7s median %6.2f ms  fastest %6.2f ms\n", attention, threads, sf_cpu_isa_name(),
           times[steps / 2], times[0]);
    sf_release(params);
    sf_release(gradient);
    sf_release(tokens);
    sf_release(times);
    sf_cpu_crew_destroy(crew);
    sf_cpu_plan_destroy(plan);
    sf_model_destroy(&model);
    return SF_OK;
}

int main(int count, char **words) {
    static const char *const mechanisms[] = {"full", "topk:5", "banded:5", "block:5", "banded:5+global:1", "random:5"};
    const long threads = count > 1 ? strtol(words[1], NULL, 10) : sf_threads_for(0);
    const long steps = count > 2 ? strtol(words[2], NULL, 10) : 200;
    if (threads < 1 || steps < 1) {
        fputs("usage: bench_step [threads] [steps], both at least 1\n", stderr);
        return 2;
    }
    for (size_t i = 0; i < sizeof mechanisms / sizeof *mechanisms; i++)
        if (time_steps(mechanisms[i], (size_t)threads, (size_t)steps) != SF_OK) {
            fprintf(stderr, "bench_step: %s\n", sf_message());
            return 1;
        }
    return 0;
}
