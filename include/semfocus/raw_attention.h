/* Any attention mechanism between plain arrays, forward and backward, for programs that have a model of their own: what
 * semfocus.torch calls.
 *
 *   sf_raw_request request = {.attention = "topk:32", .scale = 0.125, .N = 2, .H = 8, .T = 1024, .D = 64};
 *   size_t bytes;
 *   sf_raw_attention_trace(&bytes, &request);                 of one sequence
 *   sf_raw_attention_forward(out, trace, q, k, v, &request);
 *   sf_raw_attention_backward(dq, dk, dv, dout, out, trace, q, k, v, &request);
 *
 * Arrays are [N,H,T,D]: sequences, heads, positions, channels. f32 is computed by the CPU kernels on all threads,
 * double by the reference, on one. With +global:G the last G positions are the global ones. Functions may be called by
 * several threads at once. What a request needs (patterns, memory) is kept for the next call.
 *
 * With .on_gpu the arrays lie in the memory of a GPU, and f32 is computed there, with the same bits: calls return
 * before the work is done, which is in order on .stream. SF_UNSUPPORTED where the build, the machine or the CUDA
 * kernels do not have it. */
#ifndef SEMFOCUS_RAW_ATTENTION_H
#define SEMFOCUS_RAW_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "semfocus/api.h"
#include "semfocus/status.h"

SF_API_BEGIN

typedef struct sf_raw_request { /* members are only ever appended; those left out are 0 */
    const char *attention;      /* as for --attention */
    double scale;               /* of products of queries and keys; 0: 1 / sqrt(D) */
    size_t N, H, T, D;
    size_t threads; /* 0: one per core */
    uint32_t seed;  /* of selectors by chance */
    bool causal;
    bool on_gpu;   /* the arrays are in device memory; `threads` is not looked at */
    size_t device; /* its number, as CUDA counts */
    void *stream;  /* a cudaStream_t; NULL: the default one */
} sf_raw_request;

/* Checks the request; the bytes that forward leaves for backward, per sequence: a multiple of 64. */
sf_status sf_raw_attention_trace(size_t *bytes, const sf_raw_request *request);

sf_status sf_raw_attention_forward(float *out, void *trace /* [N,bytes], aligned to 64 */, const float *q,
                                   const float *k, const float *v, const sf_raw_request *request);
/* `out` and `trace` are those that forward wrote from the same arrays and request. */
sf_status sf_raw_attention_backward(float *dq, float *dk, float *dv, const float *dout, const float *out,
                                    const void *trace, const float *q, const float *k, const float *v,
                                    const sf_raw_request *request);

/* In double, without a trace: memory grows with T x T, and backward repeats forward. */
sf_status sf_raw_attention_forward_double(double *out, const double *q, const double *k, const double *v,
                                          const sf_raw_request *request);
sf_status sf_raw_attention_backward_double(double *dq, double *dk, double *dv, const double *dout, const double *q,
                                           const double *k, const double *v, const sf_raw_request *request);

SF_API_END

#endif
