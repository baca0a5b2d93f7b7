#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "kernels/cuda/members.h"
#include "kernels/cuda/tensor_launch.h"

sf_status sf_cuda_ok(cudaError_t error, const char *what) {
    if (error == cudaSuccess) return SF_OK;
    (void)cudaGetLastError(); /* the next kernel must not be blamed for it */
    return sf_fail(error == cudaErrorMemoryAllocation ? SF_NO_MEMORY : SF_IO_ERROR, "%s on the GPU failed: %s", what,
                   cudaGetErrorString(error));
}

static uint32_t most(uint32_t a, size_t b) {
    return a > b ? a : (uint32_t)b;
}

static uint32_t processors(void) {
    int device = 0, count = 1;
    if (cudaGetDevice(&device) == cudaSuccess) cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    return (uint32_t)count;
}

static sf_status prepare_tensor_kernels(const sf_cuda_launch *launch) {
    if (!launch->on_tensor_cores) return SF_OK;
    SF_TRY(sf_cuda_ok(sf_cuda_prepare_tensor_rows(launch), "reserving shared memory"));
    SF_TRY(sf_cuda_ok(sf_cuda_prepare_tensor_dense(), "reserving shared memory"));
    SF_TRY(sf_cuda_ok(sf_cuda_prepare_tensor_kept(), "reserving shared memory"));
    return sf_cuda_ok(sf_cuda_prepare_tensor_gradients(), "reserving shared memory");
}

/* The largest of everything: what launches are sized by. */
sf_status sf_cuda_fleet_measure(sf_cuda_fleet *fleet) {
    const sf_cuda_launch *before = &fleet->launch;
    sf_cuda_launch launch = {
        .fleet = before->fleet,
        .stream = before->stream,
        .precision = before->precision,
        .members = (uint32_t)fleet->capacity,
        .processors = processors(),
        .shared_most = sf_cuda_shared_most(),
        .paper = true,
        .whole = true,
        .on_tensor_cores = true,
    };
    for (size_t s = 0; s < fleet->capacity; s++) {
        const sf_cuda_member *m = &fleet->members[s].device;
        if (fleet->members[s].memory == NULL) continue;
        launch.most_rows = most(launch.most_rows, (size_t)m->sequences * m->T);
        launch.most_sequences = most(launch.most_sequences, m->sequences);
        launch.most_heads = most(launch.most_heads, m->H);
        launch.most_length = most(launch.most_length, m->T);
        launch.most_blocks = most(launch.most_blocks, m->L);
        launch.most_size = most(launch.most_size, m->size);
        launch.most_width = most(launch.most_width, sf_larger(m->Cp, sf_larger(m->HDp, m->Fp)));
        launch.rows_shared = sf_larger(launch.rows_shared, sf_cuda_rows_shared(m->Cp, m->Fp));
        launch.whole &= m->is_whole;
        launch.whole_classes |= m->is_whole ? 1U << sf_cuda_whole_class(m->T) : 0;
        launch.most_groups = most(launch.most_groups, sf_cuda_groups(m));
        if (m->selection == SF_CUDA_BY_LARGEST || m->selection == SF_CUDA_BY_SMALLEST)
            launch.most_chosen = most(launch.most_chosen, m->K);
        launch.dense |= m->selection == SF_CUDA_DENSE;
        launch.kept |= m->selection > SF_CUDA_BY_PARTS;
        launch.placed |= m->selection == SF_CUDA_BY_PATTERN || m->selection == SF_CUDA_BY_CHANCE;
        launch.paper &= m->C == 64 && m->F == 64 && m->H == 1 && m->D == 64;
        launch.on_tensor_cores &= m->on_tensor_cores;
        launch.turns |= m->angles != NULL || m->norm_factors[0] != 0;
        if (m->selection == SF_CUDA_BY_PARTS) {
            launch.parts = true;
            launch.most_features = most(launch.most_features, m->parts.features);
            launch.most_factored = most(launch.most_factored, m->parts.factored_heads);
            launch.factored_rounds = most(launch.factored_rounds, sf_cuda_factored_rounds(m));
            launch.matrix |= m->parts.weighting == SF_CUDA_DOUBLY;
            launch.prepared |= m->parts.vectors_size > 0;
            launch.most_units = most(launch.most_units, m->parts.units);
            launch.most_rounds = most(launch.most_rounds, sf_cuda_rounds(m));
            launch.most_key_tiles = most(launch.most_key_tiles, sf_cuda_key_tiles(m));
        }
        launch.reads |= m->readout != SF_CUDA_MEAN;
        launch.each |= m->readout == SF_CUDA_EACH;
        launch.tied |= m->tied;
        launch.listed |= sf_cuda_lists_causally(m);
        launch.most_channels = most(launch.most_channels, m->Cp);
        launch.most_classes = most(launch.most_classes, m->classes);
        launch.most_tokens = most(launch.most_tokens, m->tied ? m->V : 0);
    }
    fleet->launch = launch;
    SF_TRY(sf_cuda_ok(sf_cuda_prepare_rows(launch.rows_shared), "reserving shared memory"));
    SF_TRY(sf_cuda_ok(sf_cuda_prepare_dense(), "reserving shared memory"));
    SF_TRY(sf_cuda_ok(sf_cuda_prepare_kept(), "reserving shared memory"));
    if (launch.each) SF_TRY(sf_cuda_ok(sf_cuda_prepare_each(launch.most_channels), "reserving shared memory"));
    SF_TRY(prepare_tensor_kernels(&fleet->launch));
    return sf_cuda_ok(sf_cuda_prepare_whole(), "reserving shared memory");
}

void sf_cuda_forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass) {
    if (launch->whole) {
        sf_cuda_whole(launch, pass);
        return;
    }
    if (launch->on_tensor_cores) sf_cuda_pack_weights(launch, pass);
    for (uint32_t block = 0; block <= launch->most_blocks; block++) {
        sf_cuda_rows_forward(launch, pass, block);
        if (block < launch->most_blocks && launch->turns) sf_cuda_turn(launch, pass, block);
        if (block < launch->most_blocks && launch->dense) sf_cuda_dense_forward(launch, pass, block);
        if (block < launch->most_blocks && launch->kept) sf_cuda_kept_forward(launch, pass, block);
        if (block < launch->most_blocks && launch->parts) sf_cuda_parts_forward(launch, pass, block);
    }
    sf_cuda_head(launch, pass);
}

void sf_cuda_backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass) {
    if (launch->kept && !launch->whole) sf_cuda_list_queries(launch, pass);
    for (uint32_t block = launch->most_blocks + 1; block-- > 0 && !launch->whole;) {
        sf_cuda_rows_backward(launch, pass, block);
        if (block > 0 && launch->dense) sf_cuda_dense_backward(launch, pass, block - 1);
        if (block > 0 && launch->kept) sf_cuda_kept_backward(launch, pass, block - 1);
        if (block > 0 && launch->parts) sf_cuda_parts_backward(launch, pass, block - 1);
        if (block > 0 && launch->turns) sf_cuda_turn_back(launch, pass, block - 1);
    }
    if (!launch->whole) sf_cuda_gradients(launch, pass);
}

void sf_cuda_backward_and_update(const sf_cuda_launch *launch, const sf_cuda_pass *pass) {
    sf_cuda_backward(launch, pass);
    sf_cuda_update(launch, pass);
}

static void train_step(const sf_cuda_launch *launch) {
    const sf_cuda_pass pass = {.training = true};
    if (launch->whole) sf_cuda_arrange(launch);
    sf_cuda_forward(launch, &pass);
    sf_cuda_backward_and_update(launch, &pass);
}

static void evaluate(const sf_cuda_fleet *fleet) {
    const uint32_t at_once = fleet->launch.whole ? EVALUATED_WHOLE_AT_ONCE : EVALUATED_AT_ONCE;
    if (fleet->launch.whole) sf_cuda_arrange(&fleet->launch);
    for (uint32_t split = 0; split < 2; split++) {
        uint32_t count = 0;
        for (size_t s = 0; s < fleet->capacity; s++)
            if (fleet->members[s].memory != NULL) count = most(count, fleet->members[s].device.splits[split].count);
        for (uint32_t first = 0; first < count; first += at_once) {
            const sf_cuda_pass pass = {
                .split = split, .first = first, .at_once = at_once, .step = split, .first_sample = first};
            sf_cuda_forward(&fleet->launch, &pass);
            sf_cuda_tally(&fleet->launch, &pass);
        }
    }
}

typedef enum recorded { STEP, EVALUATION } recorded;

/* What the host would launch again and again, as one graph. */
static sf_status record(cudaGraphExec_t *out, const sf_cuda_fleet *fleet, recorded what) {
    cudaGraph_t graph = NULL;
    if (*out != NULL) cudaGraphExecDestroy(*out);
    *out = NULL;
    SF_TRY(
        sf_cuda_ok(cudaStreamBeginCapture(fleet->launch.stream, cudaStreamCaptureModeThreadLocal), "recording a step"));
    if (what == STEP)
        train_step(&fleet->launch);
    else
        evaluate(fleet);
    const sf_status launched = sf_cuda_ok(cudaGetLastError(), "launching a kernel");
    SF_TRY(sf_cuda_ok(cudaStreamEndCapture(fleet->launch.stream, &graph), "recording a step"));
    sf_status status = launched;
    if (status == SF_OK) status = sf_cuda_ok(cudaGraphInstantiate(out, graph, 0), "recording a step");
    cudaGraphDestroy(graph);
    return status;
}

static sf_status record_both(sf_cuda_fleet *fleet) {
    if (!fleet->changed) return SF_OK;
    SF_TRY(sf_cuda_fleet_measure(fleet));
    SF_TRY(record(&fleet->step, fleet, STEP));
    SF_TRY(record(&fleet->evaluation, fleet, EVALUATION));
    fleet->changed = false;
    return SF_OK;
}

static sf_status open_fleet(sf_cuda_fleet *fleet) {
    sf_cuda_launch *launch = &fleet->launch;
    SF_TRY(SF_NEW(&fleet->members, fleet->capacity));
    SF_TRY(
        sf_cuda_ok(cudaMalloc((void **)&launch->fleet, fleet->capacity * sizeof *launch->fleet), "allocating a fleet"));
    SF_TRY(sf_cuda_ok(cudaMalloc((void **)&fleet->stopped, sizeof *fleet->stopped), "allocating a fleet"));
    SF_TRY(sf_cuda_ok(cudaMallocHost((void **)&fleet->one, sizeof *fleet->one), "allocating a fleet"));
    *fleet->one = 1;
    SF_TRY(sf_cuda_ok(cudaStreamCreateWithFlags(&launch->stream, cudaStreamNonBlocking), "opening a stream"));
    for (size_t i = 0; i < 3; i++) SF_TRY(sf_cuda_ok(cudaEventCreate(&fleet->marks[i]), "opening a stream"));
    return sf_cuda_ok(cudaStreamCreateWithFlags(&fleet->stopping, cudaStreamNonBlocking), "opening a stream");
}

sf_status sf_cuda_fleet_open(sf_cuda_fleet **out, size_t capacity, sf_precision precision) {
    *out = NULL;
    sf_cuda_fleet *fleet;
    SF_TRY(sf_cuda_check());
    SF_TRY(SF_NEW(&fleet, 1));
    fleet->capacity = capacity;
    fleet->launch.precision = precision;
    const sf_status status = open_fleet(fleet);
    if (status != SF_OK) {
        sf_cuda_fleet_close(fleet);
        return status;
    }
    *out = fleet;
    return SF_OK;
}

void sf_cuda_fleet_close(sf_cuda_fleet *fleet) {
    if (fleet == NULL) return;
    if (fleet->step != NULL) cudaGraphExecDestroy(fleet->step);
    if (fleet->evaluation != NULL) cudaGraphExecDestroy(fleet->evaluation);
    if (fleet->launch.stream != NULL) cudaStreamDestroy(fleet->launch.stream);
    if (fleet->stopping != NULL) cudaStreamDestroy(fleet->stopping);
    for (size_t i = 0; i < 3; i++)
        if (fleet->marks[i] != NULL) cudaEventDestroy(fleet->marks[i]);
    cudaFree(fleet->launch.fleet);
    cudaFree(fleet->stopped);
    cudaFreeHost(fleet->one);
    for (size_t s = 0; fleet->members != NULL && s < fleet->capacity; s++) sf_cuda_member_close(&fleet->members[s]);
    sf_release(fleet->members);
    sf_release(fleet);
}

sf_status sf_cuda_fleet_add(sf_cuda_fleet *fleet, size_t s, const sf_cuda_model *model) {
    member_memory *memory = &fleet->members[s];
    sf_cuda_model member = *model;
    member.precision = fleet->launch.precision;
    const sf_status status = sf_cuda_member_fill(memory, &member);
    if (status != SF_OK) {
        sf_cuda_member_close(memory);
        return status;
    }
    memory->device.stopped = fleet->stopped;
    fleet->changed = true;
    return SF_OK;
}

void sf_cuda_fleet_remove(sf_cuda_fleet *fleet, size_t s) {
    sf_cuda_member_close(&fleet->members[s]);
    fleet->changed = true;
}

static float *block_of(const member_memory *memory, size_t block) {
    return block == 0 ? memory->device.params : memory->device.moments[block - 1];
}

typedef enum state_copy { REMEMBER, UNDO } state_copy;

/* Weights and moments, to or from what they were before the epoch. */
static sf_status copy_state(const member_memory *memory, state_copy what) {
    for (size_t i = 0; i <= MOST_MOMENTS && i <= memory->moments; i++) {
        float *const now = block_of(memory, i), *const before = memory->before[i];
        SF_TRY(sf_cuda_ok(cudaMemcpy(what == REMEMBER ? before : now, what == REMEMBER ? now : before,
                                     memory->device.size * sizeof *now, cudaMemcpyDeviceToDevice),
                          "copying"));
    }
    return SF_OK;
}

sf_status sf_cuda_fleet_undo(sf_cuda_fleet *fleet, size_t s) {
    return copy_state(&fleet->members[s], UNDO);
}

sf_status sf_cuda_fleet_prepare(sf_cuda_fleet *fleet, size_t s, size_t epoch, const uint32_t *order /* [count] */,
                                const sf_cuda_step *steps /* [steps] */) {
    member_memory *memory = &fleet->members[s];
    const size_t count = memory->device.splits[0].count, batch = memory->device.batch;
    _Static_assert(sizeof(sf_cuda_step) == sizeof(sf_cuda_rates), "one is copied to the other");
    SF_TRY(sf_cuda_copy_in(memory->order, order, count * sizeof *order));
    SF_TRY(sf_cuda_copy_in(memory->rates, steps, (count + batch - 1) / batch * sizeof *steps));
    SF_TRY(copy_state(memory, REMEMBER));
    memory->device.epoch = (uint32_t)epoch;
    memory->prepared = true;
    return SF_OK;
}

bool sf_cuda_fleet_stop_asked(const sf_cuda_fleet *fleet, const atomic_int *stop, bool *told) {
    if (*told || stop == NULL || atomic_load(stop) == 0) return *told;
    cudaMemcpyAsync(fleet->stopped, fleet->one, sizeof *fleet->one, cudaMemcpyHostToDevice, fleet->stopping);
    return *told = true;
}

/* Waits for what was launched. Once a stop is asked for, the rest of it ends at once. */
sf_status sf_cuda_fleet_finish(const sf_cuda_fleet *fleet, const atomic_int *stop, bool *told) {
    for (;;) {
        const cudaError_t state = cudaStreamQuery(fleet->launch.stream);
        if (state == cudaSuccess && *told) return sf_cuda_ok(cudaStreamSynchronize(fleet->stopping), "stopping");
        if (state != cudaErrorNotReady) return sf_cuda_ok(state, "computing");
        sf_cuda_fleet_stop_asked(fleet, stop, told);
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
}

/* Copies the members as they begin the epoch, and says how many steps the longest takes. */
static sf_status begin(size_t *steps, sf_cuda_fleet *fleet) {
    *steps = 0;
    SF_TRY(sf_cuda_ok(cudaMemset(fleet->stopped, 0, sizeof *fleet->stopped), "beginning an epoch"));
    for (size_t s = 0; s < fleet->capacity; s++) {
        sf_cuda_member *m = &fleet->members[s].device;
        m->active = fleet->members[s].prepared;
        m->step = m->diverged_step = 0;
        fleet->members[s].prepared = false;
        if (m->active) *steps = sf_larger(*steps, (m->splits[0].count + m->batch - 1) / m->batch);
        SF_TRY(sf_cuda_copy_in(&fleet->launch.fleet[s], m, sizeof *m));
    }
    return sf_cuda_ok(cudaDeviceSynchronize(), "beginning an epoch"); /* a copy may return before it is done */
}

static sf_status mark(const sf_cuda_fleet *fleet, size_t i) {
    return sf_cuda_ok(cudaEventRecord(fleet->marks[i], fleet->launch.stream), "taking the time");
}

sf_status sf_cuda_fleet_seconds(double *training, double *evaluation, const sf_cuda_fleet *fleet) {
    float milliseconds[2];
    for (size_t i = 0; i < 2; i++)
        SF_TRY(sf_cuda_ok(cudaEventElapsedTime(&milliseconds[i], fleet->marks[i], fleet->marks[i + 1]),
                          "taking the time"));
    *training = 1e-3 * (double)milliseconds[0];
    *evaluation = 1e-3 * (double)milliseconds[1];
    return SF_OK;
}

sf_status sf_cuda_fleet_advance(sf_cuda_fleet *fleet, const atomic_int *stop) {
    size_t steps;
    bool told = false;
    SF_TRY(record_both(fleet));
    SF_TRY(begin(&steps, fleet));
    SF_TRY(mark(fleet, 0));
    for (size_t step = 0; step < steps && !sf_cuda_fleet_stop_asked(fleet, stop, &told); step++)
        SF_TRY(sf_cuda_ok(cudaGraphLaunch(fleet->step, fleet->launch.stream), "training"));
    SF_TRY(mark(fleet, 1));
    if (!told) SF_TRY(sf_cuda_ok(cudaGraphLaunch(fleet->evaluation, fleet->launch.stream), "evaluating"));
    SF_TRY(mark(fleet, 2));
    SF_TRY(sf_cuda_fleet_finish(fleet, stop, &told));
    return told ? sf_fail(SF_INTERRUPTED, "stopped on request") : SF_OK;
}

sf_status sf_cuda_fleet_evaluate(sf_cuda_fleet *fleet, size_t s) {
    size_t steps;
    bool told = false;
    SF_TRY(record_both(fleet));
    fleet->members[s].prepared = true;
    SF_TRY(begin(&steps, fleet));
    SF_TRY(sf_cuda_ok(cudaGraphLaunch(fleet->evaluation, fleet->launch.stream), "evaluating"));
    return sf_cuda_fleet_finish(fleet, NULL, &told);
}

sf_status sf_cuda_fleet_result(sf_cuda_result *out, sf_cuda_fleet *fleet, size_t s) {
    sf_cuda_member now;
    SF_TRY(sf_cuda_ok(cudaMemcpy(&now, &fleet->launch.fleet[s], sizeof now, cudaMemcpyDeviceToHost), "copying"));
    const size_t *labelled = fleet->members[s].labelled;
    *out = (sf_cuda_result){.train_loss = now.sums[0] / (double)labelled[0],
                            .heldout_loss = now.sums[1] / (double)labelled[1],
                            .train_labelled = labelled[0],
                            .heldout_labelled = labelled[1],
                            .train_correct = now.right[0],
                            .heldout_correct = now.right[1],
                            .diverged_step = now.diverged_step};
    return SF_OK;
}

sf_status sf_cuda_fleet_read(sf_cuda_fleet *fleet, size_t s, size_t block, float *values /* [size] */) {
    const member_memory *memory = &fleet->members[s];
    return sf_cuda_ok(
        cudaMemcpy(values, block_of(memory, block), memory->device.size * sizeof *values, cudaMemcpyDeviceToHost),
        "reading weights");
}

sf_status sf_cuda_fleet_write(sf_cuda_fleet *fleet, size_t s, size_t block, const float *values /* [size] */) {
    const member_memory *memory = &fleet->members[s];
    return sf_cuda_copy_in(block_of(memory, block), values, memory->device.size * sizeof *values);
}
