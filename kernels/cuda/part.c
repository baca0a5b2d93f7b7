#include "kernels/cuda/part.h"

#include <time.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "kernels/cuda/members.h"
#include "kernels/cuda/swap.h"

enum { ROWS_OF_PROCESSOR = 64 }; /* of a tile of kernels/cuda/rows.cu: fewer leave processors idle */

struct sf_cuda_part {
    int device;
    sf_cuda_fleet *fleet; /* of the model alone */
    size_t size, moments, places;
    cudaStream_t leaving;                                     /* what goes to the host and to other GPUs */
    cudaEvent_t computed[SF_CUDA_DEALT], left[SF_CUDA_DEALT]; /* by wave */
    cudaEvent_t summed;
    float *staged, *sum; /* pinned: [chunks of a place,size], [size] */
    double *losses;      /* pinned: [sequences of the largest batch or set] */
    uint32_t *correct;   /* pinned: likewise */
    bool *updates;       /* pinned */
    sf_cuda_link *link;  /* NULL: the host passes gradients on */
    sf_cuda_swap swap;
};

static sf_cuda_member *model_of(const sf_cuda_part *part) {
    return &part->fleet->members[0].device;
}

/* Every call begins with it: the thread may have used another device since, or be another one. */
static sf_status enter(const sf_cuda_part *part) {
    return sf_cuda_ok(cudaSetDevice(part->device), "going to its device");
}

#define PIN(pointer, count)                                                                                            \
    sf_cuda_ok(cudaMallocHost((void **)&(pointer), (count) * sizeof *(pointer)), "allocating a model's memory")

static sf_status open_parts(sf_cuda_part *part, const sf_cuda_model *model) {
    const size_t most = sf_larger(sf_larger(model->training.count, model->heldout.count), model->batch);
    SF_TRY(sf_cuda_ok(cudaGetDevice(&part->device), "finding its device"));
    SF_TRY(sf_cuda_fleet_open(&part->fleet, 1, SF_F32));
    SF_TRY(sf_cuda_fleet_add(part->fleet, 0, model));
    SF_TRY(sf_cuda_fleet_measure(part->fleet));
    SF_TRY(sf_cuda_ok(cudaStreamCreateWithFlags(&part->leaving, cudaStreamNonBlocking), "opening a stream"));
    for (size_t w = 0; w < SF_CUDA_DEALT; w++) {
        SF_TRY(sf_cuda_ok(cudaEventCreateWithFlags(&part->computed[w], cudaEventDisableTiming), "opening a stream"));
        SF_TRY(sf_cuda_ok(cudaEventCreateWithFlags(&part->left[w], cudaEventDisableTiming), "opening a stream"));
    }
    SF_TRY(sf_cuda_ok(cudaEventCreateWithFlags(&part->summed, cudaEventDisableTiming), "opening a stream"));
    SF_TRY(PIN(part->staged, (SF_CUDA_DEALT + part->places - 1) / part->places * part->size));
    SF_TRY(PIN(part->sum, part->size));
    SF_TRY(PIN(part->losses, most));
    SF_TRY(PIN(part->correct, most));
    return PIN(part->updates, 1);
}
#undef PIN

sf_status sf_cuda_part_open(sf_cuda_part **out, const sf_cuda_model *model, size_t places) {
    *out = NULL;
    sf_cuda_part *part;
    _Static_assert((int)SF_CUDA_DEALT == (int)SF_CUDA_CHUNKS, "every chunk can be dealt");
    SF_TRY(SF_NEW(&part, 1));
    part->size = model->model->size;
    part->moments = model->moments;
    part->places = sf_smaller(places, SF_CUDA_DEALT);
    const sf_status status = open_parts(part, model);
    if (status != SF_OK)
        sf_cuda_part_close(part);
    else
        *out = part;
    return status;
}

static void destroy_event(cudaEvent_t event) {
    if (event != NULL) cudaEventDestroy(event);
}

void sf_cuda_part_close(sf_cuda_part *part) {
    if (part == NULL) return;
    (void)cudaSetDevice(part->device);
    sf_cuda_part_cut(part); /* before anything waits for its streams */
    if (part->leaving != NULL) cudaStreamDestroy(part->leaving);
    for (size_t w = 0; w < SF_CUDA_DEALT; w++) {
        destroy_event(part->computed[w]);
        destroy_event(part->left[w]);
    }
    destroy_event(part->summed);
    cudaFreeHost(part->staged);
    cudaFreeHost(part->sum);
    cudaFreeHost(part->losses);
    cudaFreeHost(part->correct);
    cudaFreeHost(part->updates);
    sf_cuda_swap_close(&part->swap);
    sf_cuda_fleet_close(part->fleet);
    sf_cuda_forget_error();
    sf_release(part);
}

sf_status sf_cuda_part_use(sf_cuda_part *part, sf_cuda_link *link) {
    part->link = link;
    SF_TRY(enter(part));
    return sf_cuda_swap_open(&part->swap, part->size, part->places);
}

void sf_cuda_part_cut(sf_cuda_part *part) {
    sf_cuda_link_close(part->link);
    part->link = NULL;
}

float *sf_cuda_part_staged(sf_cuda_part *part) {
    return part->staged;
}

float *sf_cuda_part_sum(sf_cuda_part *part) {
    return part->sum;
}

static float *block_at(const sf_cuda_part *part, size_t block) {
    return block == 0 ? model_of(part)->params : model_of(part)->moments[block - 1];
}

sf_status sf_cuda_part_begin(sf_cuda_part *part, float *const *blocks /* [1 + moments][size] */, size_t epoch,
                             const uint32_t *order /* [count] */, const sf_cuda_step *rates /* [steps] */) {
    member_memory *memory = &part->fleet->members[0];
    sf_cuda_member *m = &memory->device;
    const size_t count = m->splits[0].count;
    SF_TRY(enter(part));
    SF_TRY(sf_cuda_ok(cudaMemset(part->fleet->stopped, 0, sizeof *part->fleet->stopped), "beginning an epoch"));
    for (size_t i = 0; i <= part->moments; i++)
        SF_TRY(sf_cuda_copy_in(block_at(part, i), blocks[i], part->size * sizeof *blocks[i]));
    if (epoch > 0) {
        SF_TRY(sf_cuda_copy_in(memory->order, order, count * sizeof *order));
        SF_TRY(sf_cuda_copy_in(memory->rates, rates, (count + m->batch - 1) / m->batch * sizeof *rates));
    }
    m->active = true;
    m->epoch = (uint32_t)epoch;
    m->step = m->diverged_step = 0;
    SF_TRY(sf_cuda_copy_in(part->fleet->launch.fleet, m, sizeof *m));
    return sf_cuda_ok(cudaDeviceSynchronize(), "beginning an epoch"); /* a copy may return before it is done */
}

sf_status sf_cuda_part_end(sf_cuda_part *part, float *const *blocks /* [1 + moments][size] */) {
    SF_TRY(enter(part));
    for (size_t i = 0; i <= part->moments; i++)
        SF_TRY(
            sf_cuda_ok(cudaMemcpy(blocks[i], block_at(part, i), part->size * sizeof *blocks[i], cudaMemcpyDeviceToHost),
                       "reading weights"));
    return SF_OK;
}

/* ---- a step */

static size_t chunks_of_place(const sf_cuda_dealt *dealt) {
    return dealt->place >= dealt->summing ? 0 : (dealt->chunks - dealt->place + dealt->summing - 1) / dealt->summing;
}

static size_t chunk_at(const sf_cuda_dealt *dealt, size_t own) {
    return dealt->place + own * dealt->summing;
}

static size_t count_waves(const sf_cuda_part *part, const sf_cuda_dealt *dealt) {
    const size_t own = chunks_of_place(dealt), filling = (size_t)part->fleet->launch.processors * ROWS_OF_PROCESSOR;
    size_t sequences = 0;
    for (size_t i = 0; i < own; i++)
        sequences += dealt->bounds[chunk_at(dealt, i) + 1] - dealt->bounds[chunk_at(dealt, i)];
    return sf_smaller(own, sf_larger(1, sequences * model_of(part)->T / filling));
}

/* Own chunks of a wave: from this one on. */
static size_t wave_begin(size_t own, size_t waves, size_t wave) {
    return own * wave / waves;
}

static sf_status fetch(const sf_cuda_part *part, void *to, const void *from, size_t bytes) {
    return sf_cuda_ok(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, part->leaving), "copying");
}

static sf_status let_leave(sf_cuda_part *part, const sf_cuda_dealt *dealt, size_t own) {
    const sf_cuda_member *m = model_of(part);
    const size_t c = chunk_at(dealt, own), first = dealt->bounds[c];
    SF_TRY(fetch(part, part->losses + first, m->losses + first, (dealt->bounds[c + 1] - first) * sizeof *part->losses));
    if (part->link != NULL) return SF_OK;
    return fetch(part, part->staged + own * part->size, m->chunks + c * part->size, part->size * sizeof *part->staged);
}

static sf_status launch_wave(sf_cuda_part *part, const sf_cuda_dealt *dealt, size_t wave, size_t begin, size_t end) {
    const sf_cuda_launch *launch = &part->fleet->launch;
    sf_cuda_pass pass = {.training = true, .skipped = (1U << SF_CUDA_DEALT) - 1};
    for (size_t i = begin; i < end; i++) pass.skipped &= ~(1U << chunk_at(dealt, i));
    if (launch->whole && wave == 0) sf_cuda_arrange(launch);
    sf_cuda_forward(launch, &pass);
    sf_cuda_backward(launch, &pass);
    SF_TRY(sf_cuda_ok(cudaGetLastError(), "launching a kernel"));
    SF_TRY(sf_cuda_ok(cudaEventRecord(part->computed[wave], launch->stream), "training"));
    SF_TRY(sf_cuda_ok(cudaStreamWaitEvent(part->leaving, part->computed[wave], 0), "training"));
    for (size_t i = begin; i < end; i++) SF_TRY(let_leave(part, dealt, i));
    SF_TRY(sf_cuda_ok(cudaEventRecord(part->left[wave], part->leaving), "training"));
    for (size_t i = begin; i < end && part->link != NULL; i++)
        SF_TRY(sf_cuda_swap_round(&part->swap, part->link, model_of(part), dealt, i, part->leaving));
    return SF_OK;
}

/* What is left to exchange, and the sum. */
static sf_status launch_sum(sf_cuda_part *part, const sf_cuda_dealt *dealt) {
    if (part->link == NULL) return SF_OK;
    if (dealt->place < dealt->summing) {
        const size_t rounds = (dealt->chunks + dealt->summing - 1) / dealt->summing;
        for (size_t i = chunks_of_place(dealt); i < rounds; i++)
            SF_TRY(sf_cuda_swap_round(&part->swap, part->link, model_of(part), dealt, i, part->leaving));
        sf_cuda_swap_add(&part->swap, model_of(part), dealt, part->leaving);
        SF_TRY(sf_cuda_ok(cudaGetLastError(), "launching a kernel"));
    }
    SF_TRY(sf_cuda_swap_share(part->link, model_of(part), dealt, part->leaving));
    return sf_cuda_ok(cudaEventRecord(part->summed, part->leaving), "training");
}

static void nap(void) {
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

/* "Not ready" is an answer: the next kernel must not be blamed for it. */
static cudaError_t state_of(cudaEvent_t event) {
    const cudaError_t state = cudaEventQuery(event);
    if (state == cudaErrorNotReady) sf_cuda_forget_error();
    return state;
}

static sf_status wait_for(const sf_cuda_part *part, cudaEvent_t event, const atomic_int *stop, bool *told) {
    for (;;) {
        const cudaError_t state = state_of(event);
        if (state != cudaErrorNotReady) return sf_cuda_ok(state, "computing");
        sf_cuda_fleet_stop_asked(part->fleet, stop, told);
        nap();
    }
}

sf_status sf_cuda_part_compute(sf_cuda_part *part, const sf_cuda_dealt *dealt, const sf_cuda_listener *listener,
                               const atomic_int *stop) {
    const size_t own = chunks_of_place(dealt);
    bool told = false;
    SF_TRY(enter(part));
    const size_t waves = own > 0 ? count_waves(part, dealt) : 0;
    for (size_t w = 0; w < waves; w++)
        SF_TRY(launch_wave(part, dealt, w, wave_begin(own, waves, w), wave_begin(own, waves, w + 1)));
    SF_TRY(launch_sum(part, dealt));
    for (size_t w = 0; w < waves; w++) {
        SF_TRY(wait_for(part, part->left[w], stop, &told));
        for (size_t i = wave_begin(own, waves, w); i < wave_begin(own, waves, w + 1); i++)
            listener->on_done(listener->context, chunk_at(dealt, i), part->losses + dealt->bounds[chunk_at(dealt, i)]);
    }
    return SF_OK;
}

sf_status sf_cuda_part_poll(sf_cuda_part *part, bool *arrived) {
    SF_TRY(enter(part));
    SF_TRY(sf_cuda_link_state(part->link));
    const cudaError_t state = state_of(part->summed);
    *arrived = state == cudaSuccess;
    return state == cudaErrorNotReady ? SF_OK : sf_cuda_ok(state, "exchanging gradients");
}

sf_status sf_cuda_part_update(sf_cuda_part *part, bool *finite) {
    const sf_cuda_launch *launch = &part->fleet->launch;
    const sf_cuda_pass pass = {.training = true, .summed = true};
    bool told = false;
    SF_TRY(enter(part));
    if (part->link == NULL)
        SF_TRY(sf_cuda_ok(cudaMemcpyAsync(model_of(part)->gradient, part->sum, part->size * sizeof *part->sum,
                                          cudaMemcpyHostToDevice, launch->stream),
                          "copying"));
    sf_cuda_update(launch, &pass);
    SF_TRY(sf_cuda_ok(cudaGetLastError(), "launching a kernel"));
    SF_TRY(sf_cuda_ok(cudaMemcpyAsync(part->updates, &launch->fleet->updates, sizeof *part->updates,
                                      cudaMemcpyDeviceToHost, launch->stream),
                      "copying"));
    SF_TRY(sf_cuda_ok(cudaEventRecord(part->computed[0], launch->stream), "training"));
    SF_TRY(wait_for(part, part->computed[0], NULL, &told));
    *finite = *part->updates;
    return SF_OK;
}

/* ---- evaluation */

sf_status sf_cuda_part_evaluate(sf_cuda_part *part, double *losses /* [count] */, uint32_t *correct /* [count] */,
                                size_t split, size_t first, size_t count, const atomic_int *stop) {
    const sf_cuda_launch *launch = &part->fleet->launch;
    const sf_cuda_member *m = model_of(part);
    const size_t most = sf_smaller(launch->whole ? EVALUATED_WHOLE_AT_ONCE : EVALUATED_AT_ONCE, m->sequences);
    bool told = false;
    SF_TRY(enter(part));
    if (launch->whole) sf_cuda_arrange(launch);
    for (size_t done = 0, now; done < count && !sf_cuda_fleet_stop_asked(part->fleet, stop, &told); done += now) {
        now = sf_smaller(count - done, most);
        const sf_cuda_pass pass = {.split = (uint32_t)split,
                                   .first = (uint32_t)(first + done),
                                   .at_once = (uint32_t)now,
                                   .step = (uint32_t)split,
                                   .first_sample = (uint32_t)(first + done)};
        sf_cuda_forward(launch, &pass);
        SF_TRY(sf_cuda_ok(cudaGetLastError(), "launching a kernel"));
        SF_TRY(sf_cuda_ok(cudaMemcpyAsync(part->losses + done, m->losses, now * sizeof *losses, cudaMemcpyDeviceToHost,
                                          launch->stream),
                          "copying"));
        SF_TRY(sf_cuda_ok(cudaMemcpyAsync(part->correct + done, m->correct, now * sizeof *part->correct,
                                          cudaMemcpyDeviceToHost, launch->stream),
                          "copying"));
    }
    SF_TRY(sf_cuda_fleet_finish(part->fleet, stop, &told));
    for (size_t n = 0; n < count; n++) {
        losses[n] = part->losses[n];
        correct[n] = part->correct[n];
    }
    return SF_OK;
}
