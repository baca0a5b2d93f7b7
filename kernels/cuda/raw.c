/* Attention alone on a GPU: a fleet of one member, which has one block and no weights. Sequences are taken as many at a
 * time as fit into some memory. What forward leaves for backward lies in the caller's trace, where the kernels write
 * it: the arrays of all sequences one after the other. */
#include "kernels/cuda/raw.h"

#include <assert.h>
#include <math.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "kernels/cuda/members.h"
#include "kernels/cuda/raw_launch.h"

enum { MOST_BYTES = 1 << 27 }; /* of the sequences that are taken together, unless one needs more */

typedef struct trace_sizes { /* bytes of a sequence */
    size_t stats, keys, weights;
} trace_sizes;

struct sf_cuda_raw {
    sf_model model;
    float scale;
    int device;
    size_t kept; /* keys of all queries of a head, where they are listed */
    trace_sizes sizes;
    sf_cuda_fleet *fleet; /* NULL: nothing was computed yet */
    size_t sequences;     /* that its memory holds */
    size_t most;          /* that it may hold */
    cudaEvent_t done;     /* the work of the last call, which the next waits for: they may have different streams */
};

static size_t aligned(size_t bytes) {
    return (bytes + SF_ALIGNMENT - 1) / SF_ALIGNMENT * SF_ALIGNMENT;
}

static void size_trace(sf_cuda_raw *raw) {
    const sf_shape *s = &raw->model.shape;
    const uint32_t selection = sf_cuda_selection_of(&s->attention);
    const bool listed = selection >= SF_CUDA_BY_PATTERN, chosen = selection > SF_CUDA_BY_PATTERN;
    raw->sizes = (trace_sizes){.stats = selection == SF_CUDA_DENSE ? aligned(s->H * s->T * sizeof(float2)) : 0,
                               .keys = chosen ? aligned(s->H * raw->kept * sizeof(uint32_t)) : 0,
                               .weights = listed ? aligned(s->H * raw->kept * sizeof(float)) : 0};
}

size_t sf_cuda_raw_trace_bytes(const sf_cuda_raw *raw) {
    return raw->sizes.stats + raw->sizes.keys + raw->sizes.weights;
}

/* Weights and the other layers of the shape are never computed, and are as small as can be. */
static sf_status open_model(sf_cuda_raw *raw, const sf_attention *attention, double scale, size_t H, size_t T,
                            size_t D) {
    const sf_shape shape = {.V = 2,
                            .T = T,
                            .C = 1,
                            .D = D,
                            .F = 1,
                            .H = H,
                            .L = 1,
                            .classes = 2,
                            .inverse_temperature = scale * sqrt((double)D),
                            .attention = *attention};
    SF_TRY(sf_cuda_supports(&shape, SF_F32));
    SF_TRY(sf_model_create(&raw->model, &shape));
    SF_TRY(sf_cuda_count_kept(&raw->kept, &shape));
    if (raw->kept >= UINT32_MAX)
        return sf_fail(SF_UNSUPPORTED, "%zu queries keep %zu keys together, more than the CUDA kernels list", T,
                       raw->kept);
    raw->scale = (float)scale;
    size_trace(raw);
    return sf_attention_check_fault(&raw->model.shape.attention);
}

sf_status sf_cuda_raw_open(sf_cuda_raw **out, const sf_attention *attention, double scale, size_t H, size_t T, size_t D,
                           size_t device) {
    sf_cuda_raw *raw;
    *out = NULL;
    SF_TRY(SF_NEW(&raw, 1));
    raw->device = (int)device;
    const sf_status status = open_model(raw, attention, scale, H, T, D);
    if (status != SF_OK) {
        sf_cuda_raw_close(raw);
        return status;
    }
    *out = raw;
    return SF_OK;
}

static void give_memory_back(sf_cuda_raw *raw) {
    if (raw->done != NULL) cudaEventDestroy(raw->done);
    sf_cuda_fleet_close(raw->fleet); /* which waits for the device */
    raw->done = NULL;
    raw->fleet = NULL;
    raw->sequences = 0;
}

void sf_cuda_raw_close(sf_cuda_raw *raw) {
    int before = 0;
    if (raw == NULL) return;
    if (raw->fleet != NULL && cudaGetDevice(&before) == cudaSuccess) {
        (void)cudaSetDevice(raw->device);
        give_memory_back(raw);
        (void)cudaSetDevice(before);
    }
    sf_model_destroy(&raw->model);
    sf_release(raw);
}

static sf_cuda_model member_of(const sf_cuda_raw *raw, size_t sequences) {
    return (sf_cuda_model){.model = &raw->model, .role = SF_CUDA_ATTENDS, .sequences = sequences, .batch = sequences};
}

static size_t sequences_for(sf_cuda_raw *raw, size_t N) {
    const sf_cuda_model one = member_of(raw, 1);
    size_t sequences = 1;
    if (raw->most == 0) raw->most = sf_larger(1, MOST_BYTES / sf_cuda_bytes(&one));
    while (sequences < N) sequences *= 2; /* so that batches of nearly the same size share memory */
    return sf_smaller(sequences, raw->most);
}

static sf_status open_memory(sf_cuda_raw *raw, size_t sequences) {
    const sf_cuda_model member = member_of(raw, sequences);
    SF_TRY(sf_cuda_fleet_open(&raw->fleet, 1, SF_F32));
    SF_TRY(sf_cuda_fleet_add(raw->fleet, 0, &member));
    SF_TRY(sf_cuda_fleet_measure(raw->fleet));
    SF_TRY(sf_cuda_ok(cudaMemset(raw->fleet->stopped, 0, sizeof *raw->fleet->stopped), "clearing memory"));
    SF_TRY(sf_cuda_ok(cudaEventCreateWithFlags(&raw->done, cudaEventDisableTiming), "opening a stream"));
    raw->fleet->members[0].device.score_scale = raw->scale;
    raw->sequences = sequences;
    return sf_cuda_ok(cudaDeviceSynchronize(), "clearing memory"); /* the caller's stream does not wait for it */
}

/* The caller holds most of the memory: where it is short, fewer sequences are taken together. */
static sf_status reserve(sf_cuda_raw *raw, size_t N) {
    size_t sequences = sequences_for(raw, N);
    if (sequences <= raw->sequences) return SF_OK;
    give_memory_back(raw);
    for (;; raw->most = sequences /= 2) {
        const sf_status status = open_memory(raw, sequences);
        if (status == SF_OK) return SF_OK;
        give_memory_back(raw);
        if (status != SF_NO_MEMORY || sequences == 1) return status;
    }
}

/* The trace of `count` sequences from `first` on. */
static sf_cuda_trace trace_of(const sf_cuda_raw *raw, const sf_device_arrays *a, size_t first) {
    const trace_sizes *sizes = &raw->sizes;
    const sf_shape *s = &raw->model.shape;
    assert(raw->fleet != NULL);
    sf_cuda_trace trace = raw->fleet->members[0].traces[0];
    unsigned char *at = a->trace;
    if (sizes->stats > 0) trace.stats = (float2 *)(void *)at + first * s->H * s->T;
    at += a->N * sizes->stats;
    if (sizes->keys > 0) trace.keys = (uint32_t *)(void *)at + first * s->H * raw->kept;
    at += a->N * sizes->keys;
    if (sizes->weights > 0) trace.weights = (float *)(void *)at + first * s->H * raw->kept;
    return trace;
}

static void forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass) {
    if (launch->dense) sf_cuda_dense_forward(launch, pass, 0);
    if (launch->kept) sf_cuda_kept_forward(launch, pass, 0);
    if (launch->parts) sf_cuda_parts_forward(launch, pass, 0);
}

static void backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass) {
    if (launch->kept) sf_cuda_list_queries(launch, pass);
    if (launch->dense) sf_cuda_dense_backward(launch, pass, 0);
    if (launch->kept) sf_cuda_kept_backward(launch, pass, 0);
    if (launch->parts) sf_cuda_parts_backward(launch, pass, 0);
    if (launch->turns) sf_cuda_turn_back(launch, pass, 0);
}

/* Launches the work of `count` sequences from `first` on. */
static void launch_some(const sf_cuda_raw *raw, const sf_device_arrays *a, size_t first, size_t count, bool back) {
    const sf_shape *s = &raw->model.shape;
    const size_t at = first * s->H * s->T * s->D;
    const sf_cuda_trace trace = trace_of(raw, a, first);
    const sf_cuda_pass pass = {.training = true, .first_sample = (uint32_t)first};
    sf_cuda_member member = raw->fleet->members[0].device;
    sf_cuda_launch launch = raw->fleet->launch;
    member.active = true;
    member.seed = a->seed;
    member.batch = member.splits[0].count = (uint32_t)count;
    launch.stream = a->stream;
    launch.most_sequences = (uint32_t)count;
    launch.most_rows = (uint32_t)(count * s->T);
    const sf_cuda_heads context = {count, s->H, s->T, s->D, member.Dp, member.HDp};
    sf_cuda_heads qkv = context;
    qkv.stride = 3 * (size_t)member.HDp;
    sf_cuda_place(launch.stream, launch.fleet, &member, &trace);
    sf_cuda_pack(launch.stream, trace.qkv, a->q + at, &qkv);
    sf_cuda_pack(launch.stream, trace.qkv + member.HDp, a->k + at, &qkv);
    sf_cuda_pack(launch.stream, trace.qkv + 2 * (size_t)member.HDp, a->v + at, &qkv);
    if (launch.turns) sf_cuda_turn(&launch, &pass, 0);
    if (!back) {
        forward(&launch, &pass);
        sf_cuda_unpack(launch.stream, a->out + at, trace.context, &context);
        return;
    }
    sf_cuda_pack(launch.stream, trace.context, a->out + at, &context);
    sf_cuda_pack(launch.stream, trace.dcontext, a->dout + at, &context);
    backward(&launch, &pass);
    sf_cuda_unpack(launch.stream, a->dq + at, trace.dqkv, &qkv);
    sf_cuda_unpack(launch.stream, a->dk + at, trace.dqkv + member.HDp, &qkv);
    sf_cuda_unpack(launch.stream, a->dv + at, trace.dqkv + 2 * (size_t)member.HDp, &qkv);
}

static sf_status run_on_device(sf_cuda_raw *raw, const sf_device_arrays *arrays, bool back) {
    SF_TRY(reserve(raw, arrays->N));
    SF_TRY(sf_cuda_ok(cudaStreamWaitEvent(arrays->stream, raw->done, 0), "waiting for a stream"));
    for (size_t first = 0; first < arrays->N; first += raw->sequences)
        launch_some(raw, arrays, first, sf_smaller(arrays->N - first, raw->sequences), back);
    SF_TRY(sf_cuda_ok(cudaGetLastError(), "launching a kernel"));
    return sf_cuda_ok(cudaEventRecord(raw->done, arrays->stream), "marking a stream");
}

static sf_status run(sf_cuda_raw *raw, const sf_device_arrays *arrays, bool back) {
    int before = 0;
    if (arrays->N == 0) return SF_OK;
    if (raw->fleet == NULL) SF_TRY(sf_cuda_check());
    SF_TRY(sf_cuda_ok(cudaGetDevice(&before), "finding its device"));
    sf_status status = sf_cuda_use((size_t)raw->device);
    if (status == SF_OK) status = run_on_device(raw, arrays, back);
    (void)cudaSetDevice(before); /* the thread is the caller's */
    return status;
}

sf_status sf_cuda_raw_forward(sf_cuda_raw *raw, const sf_device_arrays *arrays) {
    return run(raw, arrays, false);
}

sf_status sf_cuda_raw_backward(sf_cuda_raw *raw, const sf_device_arrays *arrays) {
    return run(raw, arrays, true);
}
