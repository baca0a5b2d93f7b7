#include "train/automatic.h"

#include <math.h>
#include <stdio.h>

#include "base/sizes.h"
#include "base/threads.h"
#include "train/flops.h"

enum { THREADS_PER_MODEL = 8, EVALUATED_AT_ONCE = 64 }; /* chunks of a batch; sequences of a pass on the GPU */

static const double thread_flops = 60e9;   /* in a second: between AVX2 and AVX-512 (docs/performance.md) */
static const double gpu_start = 3;         /* seconds: driver, context, kernels, data */
static const double gpu_pass = 60e-6;      /* seconds for a pass of one small model through a block */
static const double gpu_share = 0.25;      /* of its peak, sustained by a full fleet */
static const double clear_advantage = 0.5; /* of the CPU's time: estimates are rough */

void sf_workload_add_run(sf_workload *work, const sf_config *config, const char *attention, double epochs) {
    const sf_flops one = sf_flops_of_run(config, attention);
    const double training = (double)config->train_count, heldout = (double)config->heldout_count;
    const double steps = ceil(training / (double)config->batch);
    const double passes = 3 * steps + ceil(training / EVALUATED_AT_ONCE) + ceil(heldout / EVALUATED_AT_ONCE);
    work->flops += epochs * (training * one.training + (training + heldout) * one.forward);
    work->depth = fmax(work->depth, epochs * passes * (double)config->blocks);
    work->models++;
}

void sf_workload_add_evaluation(sf_workload *work, const sf_shape *shape, size_t models, size_t sequences) {
    const double all = (double)shape->T; /* whatever it keeps */
    work->flops += (double)models * (double)sequences * sf_flops_of(shape, all, all).forward;
    work->depth = fmax(work->depth, ceil((double)sequences / EVALUATED_AT_ONCE) * (double)shape->L);
    work->models += models;
}

bool sf_gpu_gains(const sf_workload *work, double peak_gflops, size_t threads) {
    const size_t busy = sf_smaller(threads, THREADS_PER_MODEL * work->models);
    const double cpu = work->flops / (thread_flops * (double)sf_larger(busy, 1));
    const double gpu = gpu_start + fmax(work->depth * gpu_pass, work->flops / (gpu_share * 1e9 * peak_gflops));
    return gpu < clear_advantage * cpu;
}

const char *sf_gpu_chosen(void) {
    static _Thread_local char sentence[128];
    snprintf(sentence, sizeof sentence, "computing on the GPU (%s); --device cpu computes on the CPU instead",
             sf_backend_cuda.hardware());
    return sentence;
}

/* The driver is asked last: many commands have little to compute. */
void sf_machine_decide(sf_machine *machine, const sf_workload *work) {
    const sf_backend *gpu = &sf_backend_cuda;
    const size_t threads = (size_t)sf_threads_for(machine->threads);
    if (machine->backend != NULL || machine->device != SF_AUTO) return;
    machine->device = SF_CPU;
    if (!sf_gpu_gains(work, INFINITY, threads) || gpu->check(SF_F32) != SF_OK ||
        !sf_gpu_gains(work, gpu->peak_gflops(SF_F32, threads), threads))
        return;
    machine->device = SF_CUDA;
    if (machine->on_note != NULL) machine->on_note(machine->context, sf_gpu_chosen());
}
