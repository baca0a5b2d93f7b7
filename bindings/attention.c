/* Attention between plain arrays: checks requests and keeps what they need. */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "attention/attention.h"
#include "base/memory.h"
#include "base/threads.h"
#include "kernels/cpu/raw.h"
#include "kernels/reference/raw.h"
#include "semfocus/plugin.h"
#include "semfocus/raw_attention.h"
#include "train/gpu_attention.h"

enum { LONGEST = 65536, WIDEST = 4096, MOST_HEADS = 1024, MOST_KEPT = 8 };

typedef struct place { /* what was opened for a kind of request */
    struct place *next;
    sf_raw *raw;
    sf_gpu_attention *gpu; /* instead, where arrays lie in the memory of a GPU */
    char spelling[SF_SPELLING_SIZE];
    bool causal, on_gpu;
    uint64_t hashes[2]; /* of the sources of its parts: a part may be replaced */
    double scale;
    size_t H, T, D, workers, device;
} place;

static place *idle; /* the last used first */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static sf_status check_sizes(const sf_raw_request *r) {
    if (r->H < 1 || r->H > MOST_HEADS)
        return sf_fail(SF_BAD_INPUT, "there are %zu heads; attention takes 1 to %d", r->H, MOST_HEADS);
    if (r->T < 1 || r->T > LONGEST)
        return sf_fail(SF_BAD_INPUT, "there are %zu positions; attention takes 1 to %d", r->T, LONGEST);
    if (r->D < 1 || r->D > WIDEST)
        return sf_fail(SF_BAD_INPUT, "queries have %zu channels; attention takes 1 to %d", r->D, WIDEST);
    if (r->N >= UINT32_MAX) return sf_fail(SF_BAD_INPUT, "there are %zu sequences; give fewer", r->N);
    if (!isfinite(r->scale) || r->scale < 0)
        return sf_fail(SF_BAD_INPUT, "the scale is %g; it must be positive", r->scale);
    return SF_OK;
}

static sf_status resolve(sf_attention *out, double *scale, const sf_raw_request *r) {
    SF_TRY(check_sizes(r));
    SF_TRY(sf_attention_parse(out, r->attention));
    if (r->T <= out->globals)
        return sf_fail(SF_BAD_INPUT, "%zu positions leave none besides %zu global ones; give more", r->T, out->globals);
    *out = sf_attention_resolve(*out, r->T - out->globals);
    *scale = r->scale > 0 ? r->scale : 1 / sqrt((double)r->D);
    return sf_attention_set_causal(out, r->causal);
}

static uint64_t hash_of(const void *part) {
    const sf_plugin_file *file = sf_plugin_file_of(part);
    return file != NULL ? file->hash : 0;
}

static bool fits(const place *p, const place *wanted) {
    const bool same = strcmp(p->spelling, wanted->spelling) == 0 && p->causal == wanted->causal &&
                      memcmp(p->hashes, wanted->hashes, sizeof p->hashes) == 0;
    return same && p->scale == wanted->scale && p->H == wanted->H && p->T == wanted->T && p->D == wanted->D &&
           p->workers == wanted->workers && p->on_gpu == wanted->on_gpu && p->device == wanted->device;
}

static place *take_idle(const place *wanted) {
    place *found = NULL;
    pthread_mutex_lock(&lock);
    for (place **at = &idle; *at != NULL && found == NULL; at = &(*at)->next)
        if (fits(*at, wanted)) {
            found = *at;
            *at = found->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

static void release(place *p) {
    sf_raw_close(p->raw);
    sf_gpu_attention_close(p->gpu);
    sf_release(p);
}

/* Keeps the places used last. After a failure nothing of it is kept: the record of a violation stays with it. */
static void put_back(place *p, bool good) {
    place *last = NULL;
    if (!good) {
        release(p);
        return;
    }
    pthread_mutex_lock(&lock);
    p->next = idle;
    idle = p;
    size_t count = 1;
    for (place *at = idle; at->next != NULL; at = at->next, count++)
        if (count == MOST_KEPT) {
            last = at->next;
            at->next = NULL;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (last != NULL) release(last); /* there was at most one too many */
}

static sf_status open_place(place **out, const sf_raw_request *r) {
    place wanted = {.causal = r->causal, .on_gpu = r->on_gpu, .H = r->H, .T = r->T, .D = r->D};
    sf_attention attention;
    *out = NULL;
    if (!r->on_gpu) SF_TRY(sf_cpu_check_isa(SF_F32));
    SF_TRY(resolve(&attention, &wanted.scale, r));
    sf_attention_spell(wanted.spelling, &attention);
    wanted.hashes[0] = hash_of(attention.selector);
    wanted.hashes[1] = hash_of(attention.weighting);
    if (r->on_gpu)
        wanted.device = r->device;
    else
        wanted.workers = (size_t)sf_threads_at_most(r->threads);
    *out = take_idle(&wanted);
    if (*out != NULL) return SF_OK;
    place *fresh;
    SF_TRY(SF_NEW(&fresh, 1));
    *fresh = wanted;
    const sf_status status =
        r->on_gpu ? sf_gpu_attention_open(&fresh->gpu, &attention, wanted.scale, r->H, r->T, r->D, r->device)
                  : sf_raw_open(&fresh->raw, &attention, wanted.scale, r->H, r->T, r->D, wanted.workers);
    if (status != SF_OK) {
        sf_release(fresh);
        return status;
    }
    *out = fresh;
    return SF_OK;
}

sf_status sf_raw_attention_trace(size_t *bytes, const sf_raw_request *request) {
    place *p;
    *bytes = 0;
    SF_TRY(open_place(&p, request));
    *bytes = p->on_gpu ? sf_gpu_attention_trace_bytes(p->gpu) : sf_raw_trace_bytes(p->raw);
    put_back(p, true);
    return SF_OK;
}

static sf_status check_trace(const void *trace) {
    if ((uintptr_t)trace % SF_ALIGNMENT == 0) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "the trace of attention must be aligned to %d bytes", SF_ALIGNMENT);
}

static void release_idle(void) {
    pthread_mutex_lock(&lock);
    place *at = idle;
    idle = NULL;
    pthread_mutex_unlock(&lock);
    while (at != NULL) {
        place *next = at->next;
        release(at);
        at = next;
    }
}

static sf_status run_on_gpu(const place *p, const sf_raw_arrays *arrays, const sf_raw_request *request, bool backward) {
    const sf_device_arrays there = {.out = arrays->out,
                                    .q = arrays->q,
                                    .k = arrays->k,
                                    .v = arrays->v,
                                    .trace = arrays->trace,
                                    .dq = arrays->dq,
                                    .dk = arrays->dk,
                                    .dv = arrays->dv,
                                    .dout = arrays->dout,
                                    .N = arrays->N,
                                    .seed = arrays->seed,
                                    .stream = request->stream};
    sf_status (*const call)(sf_gpu_attention *, const sf_device_arrays *) =
        backward ? sf_gpu_attention_backward : sf_gpu_attention_forward;
    const sf_status status = call(p->gpu, &there);
    if (status != SF_NO_MEMORY) return status;
    release_idle(); /* memory of a GPU is scarce, and what is idle holds some of it */
    return call(p->gpu, &there);
}

static sf_status run(const sf_raw_arrays *arrays, const sf_raw_request *request, bool backward) {
    place *p;
    sf_status status;
    SF_TRY(check_trace(arrays->trace));
    SF_TRY(open_place(&p, request));
    if (p->on_gpu)
        status = run_on_gpu(p, arrays, request, backward);
    else
        status = (backward ? sf_raw_backward : sf_raw_forward)(p->raw, arrays);
    put_back(p, status == SF_OK);
    return status;
}

sf_status sf_raw_attention_forward(float *out, void *trace, const float *q, const float *k, const float *v,
                                   const sf_raw_request *request) {
    const sf_raw_arrays arrays = {
        .out = out, .q = q, .k = k, .v = v, .trace = trace, .N = request->N, .seed = request->seed};
    return run(&arrays, request, false);
}

sf_status sf_raw_attention_backward(float *dq, float *dk, float *dv, const float *dout, const float *out,
                                    const void *trace, const float *q, const float *k, const float *v,
                                    const sf_raw_request *request) {
    const sf_raw_arrays arrays = {.out = (float *)out, /* only read, like the trace */
                                  .q = q,
                                  .k = k,
                                  .v = v,
                                  .trace = (unsigned char *)trace,
                                  .dq = dq,
                                  .dk = dk,
                                  .dv = dv,
                                  .dout = dout,
                                  .N = request->N,
                                  .seed = request->seed};
    return run(&arrays, request, true);
}

static sf_status run_double(const sf_ref_arrays *arrays, const sf_raw_request *request) {
    sf_attention attention;
    double scale = 0;
    if (request->on_gpu)
        return sf_fail(SF_UNSUPPORTED, "attention in double is computed on the CPU alone; give arrays of the CPU");
    SF_TRY(resolve(&attention, &scale, request));
    return sf_ref_raw_run(arrays, &attention, scale, request->H, request->T, request->D);
}

sf_status sf_raw_attention_forward_double(double *out, const double *q, const double *k, const double *v,
                                          const sf_raw_request *request) {
    return run_double(&(sf_ref_arrays){.out = out, .q = q, .k = k, .v = v, .N = request->N, .seed = request->seed},
                      request);
}

sf_status sf_raw_attention_backward_double(double *dq, double *dk, double *dv, const double *dout, const double *q,
                                           const double *k, const double *v, const sf_raw_request *request) {
    return run_double(
        &(sf_ref_arrays){
            .q = q, .k = k, .v = v, .dq = dq, .dk = dk, .dv = dv, .dout = dout, .N = request->N, .seed = request->seed},
        request);
}
