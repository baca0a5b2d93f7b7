/* How fast this machine trains: a step (forward, backward, clip, update) and an evaluation at the paper's shapes,
 * compared with the machine's peak arithmetic. */
#ifndef SEMFOCUS_BENCHMARK_H
#define SEMFOCUS_BENCHMARK_H

#include <stddef.h>

#include "semfocus/api.h"
#include "semfocus/settings.h"

SF_API_BEGIN

typedef struct sf_benchmark {
    const char *shape;     /* nnch: T 40, 5 blocks; listops: T 600, 10 blocks; both width 64, batch 25 */
    const char *attention; /* as spelled for --attention */
    sf_precision precision;
    size_t threads; /* 0: one per core */
    double seconds; /* how long to measure, approximately */
} sf_benchmark;

typedef struct sf_benchmark_result {
    size_t threads, steps;    /* steps that were timed */
    double ms_per_step;       /* median */
    double ms_per_evaluation; /* of 100 sequences: median */
    double gflops;            /* arithmetic of the formulas per second of a step; what is computed twice counts once */
    double peak_share;        /* gflops as a share of what the same threads reach on multiply-adds alone */
    double evaluation_share;  /* time to evaluate 7000 sequences, divided by that of a training epoch of 5000 */
} sf_benchmark_result;

/* The shapes by index, NULL past the end. */
const char *sf_benchmark_shape(size_t i);

/* Peak of this many threads together (0: one per core): 10^9 multiply-adds per second, times two. f32 on vectors, or
 * bf16 on AMX tiles if the CPU has them. */
double sf_benchmark_peak(sf_precision precision, size_t threads);

sf_status sf_benchmark_run(sf_benchmark_result *out, const sf_benchmark *what, double peak_gflops);

SF_API_END

#endif
