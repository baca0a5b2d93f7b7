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
    const char *attention; /* as spelled for --attention; of a fleet also several, with commas: equal parts */
    sf_precision precision;
    sf_execution execution; /* only threads, device and notes are used */
    size_t models;          /* of a fleet; 0: 132, or 8 of listops. The CPU trains one model with all threads */
    double seconds;         /* how long to measure, approximately */
} sf_benchmark;

typedef struct sf_benchmark_result {
    const char *device;       /* cpu or cuda */
    size_t models;            /* trained at the same time */
    size_t threads, steps;    /* steps that were timed */
    double ms_per_step;       /* of one model: median; of a fleet, the time of its step divided by its models */
    double ms_per_evaluation; /* of 100 sequences, likewise */
    double gflops;            /* arithmetic of the formulas per second of a step; what is computed twice counts once */
    double peak_share;        /* gflops as a share of what the same threads reach on multiply-adds alone */
    double evaluation_share;  /* time to evaluate 7000 sequences, divided by that of a training epoch of 5000 */
} sf_benchmark_result;

/* The shapes by index, NULL past the end. */
const char *sf_benchmark_shape(size_t i);

/* Peak of the device, or of this many threads together (0: one per core): 10^9 multiply-adds per second, times two. On
 * the CPU f32 on vectors, or bf16 on AMX tiles if it has them; on a GPU f32 outside of tensor
 * cores, tf32 and bf16 on them. 0: it is not known. */
double sf_benchmark_peak(sf_precision precision, const sf_execution *execution);

sf_status sf_benchmark_run(sf_benchmark_result *out, const sf_benchmark *what, double peak_gflops);

SF_API_END

#endif
