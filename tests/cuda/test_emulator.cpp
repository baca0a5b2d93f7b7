/* The emulator itself: kernels whose results are known, and mistakes that it must report. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

extern "C" {
#include <cmocka.h>
}

#include "kernels/cuda/device.cuh"

using sf::launch_kernel;

enum { WARP = 32 };
static const unsigned all_lanes = 0xffffffffU;

static void succeeds(cudaError_t error) {
    if (error != cudaSuccess) fail_msg("%s", cudaGetErrorString(error));
}

/* Device memory as an array that the test may look at between launches. */
template <typename T> struct Array {
    T *at;
    size_t count;

    explicit Array(size_t n) : count(n) {
        succeeds(cudaMalloc(&at, n * sizeof(T)));
    }
    explicit Array(const std::vector<T> &values) : Array(values.size()) {
        succeeds(cudaMemcpy(at, values.data(), count * sizeof(T), cudaMemcpyHostToDevice));
    }
    Array(std::initializer_list<T> values) : Array(std::vector<T>(values)) {
    }
    Array(const Array &) = delete;
    ~Array() {
        cudaFree(at);
    }
    std::vector<T> values() const {
        std::vector<T> result(count);
        succeeds(cudaMemcpy(result.data(), at, count * sizeof(T), cudaMemcpyDeviceToHost));
        return result;
    }
};

/* ---- blocks and threads */

static __global__ void count_threads(unsigned *visits) {
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    atomicAdd(&visits[block * blockDim.x * blockDim.y * blockDim.z + thread], 1);
}

static void every_thread_of_every_block_runs_once(void **) {
    const dim3 grid(5, 3, 2), threads(7, 4, 3);
    Array<unsigned> visits(5 * 3 * 2 * 7 * 4 * 3);
    succeeds(cudaMemset(visits.at, 0, visits.count * sizeof(unsigned)));
    launch_kernel(count_threads, grid, threads, 0, nullptr, visits.at);
    for (const unsigned count : visits.values()) assert_int_equal(count, 1);
}

static __global__ void add_to_one(double *sum, unsigned *count, unsigned *largest) {
    atomicAdd(sum, 0.5);
    atomicMax(largest, atomicAdd(count, 1));
}

static void atomics_work_between_blocks(void **) {
    enum { BLOCKS = 200, THREADS = 64 };
    Array<double> sum{0.0};
    Array<unsigned> count{0U}, largest{0U};
    launch_kernel(add_to_one, BLOCKS, THREADS, 0, nullptr, sum.at, count.at, largest.at);
    assert_true(sum.values()[0] == BLOCKS * THREADS * 0.5);
    assert_int_equal(count.values()[0], BLOCKS * THREADS);
    assert_int_equal(largest.values()[0], BLOCKS * THREADS - 1);
}

/* Reverses the numbers of a block through shared memory; the last third of the threads leaves early. */
static __global__ void reverse(unsigned *numbers, unsigned *unwritten) {
    SF_DYNAMIC_SHARED(unsigned, there);
    __shared__ unsigned here[100];
    const unsigned i = threadIdx.x;
    if (here[i] == 0xffffffffU && there[i] == 0xffffffffU) atomicAdd(unwritten, 1);
    here[i] = numbers[blockIdx.x * 100 + i];
    __syncthreads();
    there[i] = here[99 - i];
    if (i >= 67) {
        numbers[blockIdx.x * 100 + i] = there[i];
        return;
    }
    for (int round = 0; round < 3; round++) __syncthreads();
    numbers[blockIdx.x * 100 + i] = there[i];
}

static void blocks_share_memory_that_begins_unwritten(void **) {
    enum { BLOCKS = 20, THREADS = 100 };
    std::vector<unsigned> numbers(BLOCKS * THREADS);
    for (unsigned i = 0; i < numbers.size(); i++) numbers[i] = i;
    Array<unsigned> array(numbers), unwritten{0U};
    launch_kernel(reverse, BLOCKS, THREADS, THREADS * sizeof(unsigned), nullptr, array.at, unwritten.at);
    const std::vector<unsigned> result = array.values();
    for (unsigned i = 0; i < result.size(); i++) assert_int_equal(result[i], i / 100 * 100 + 99 - i % 100);
#ifndef EMULATOR_ASAN /* see spoil_shared() */
    assert_int_equal(unwritten.values()[0], BLOCKS * THREADS);
#endif
}

/* Warp 0 produces, warp 1 consumes, each waits for the other. */
static __global__ void pass_on(unsigned *sums, unsigned rounds) {
    enum { FULL = 1, EMPTY = 2 };
    __shared__ unsigned buffer[WARP];
    const unsigned lane = threadIdx.x % WARP;
    unsigned sum = 0;
    for (unsigned round = 0; round < rounds; round++) {
        if (threadIdx.x < WARP) {
            if (round > 0) emulator::barrier_sync(EMPTY, 2 * WARP);
            buffer[lane] = round * WARP + lane;
            emulator::barrier_arrive(FULL, 2 * WARP);
        } else {
            emulator::barrier_sync(FULL, 2 * WARP);
            sum += buffer[WARP - 1 - lane];
            if (round + 1 < rounds) emulator::barrier_arrive(EMPTY, 2 * WARP);
        }
    }
    if (threadIdx.x >= WARP) sums[lane] = sum;
}

static void named_barriers_order_two_warps(void **) {
    Array<unsigned> sums(WARP);
    launch_kernel(pass_on, 1, 2 * WARP, 0, nullptr, sums.at, 5U);
    const std::vector<unsigned> found = sums.values();
    for (unsigned lane = 0; lane < WARP; lane++)
        assert_int_equal(found[lane], (0 + 1 + 2 + 3 + 4) * WARP + 5 * (WARP - 1 - lane));
}

/* ---- warps */

enum { SHUFFLES = 6 };

static __global__ void shuffle_all(double *out, int width) {
    const unsigned lane = threadIdx.x;
    const double value = 100.0 + lane;
    out[lane] = __shfl_sync(all_lanes, value, 3, width);
    out[WARP + lane] = __shfl_sync(all_lanes, value, (int)lane + 5, width);
    out[2 * WARP + lane] = __shfl_up_sync(all_lanes, value, 3, width);
    out[3 * WARP + lane] = __shfl_down_sync(all_lanes, value, 3, width);
    out[4 * WARP + lane] = __shfl_xor_sync(all_lanes, value, 5, width);
    out[5 * WARP + lane] = (double)__shfl_xor_sync(all_lanes, (uint64_t)lane << 40, 16, width);
}

static void shuffles_stay_in_their_groups(void **) {
    for (int width = 1; width <= WARP; width *= 2) {
        Array<double> out(SHUFFLES * WARP);
        launch_kernel(shuffle_all, 1, WARP, 0, nullptr, out.at, width);
        const std::vector<double> found = out.values();
        for (int lane = 0; lane < WARP; lane++) {
            const int first = lane / width * width, inside = lane % width;
            assert_true(found[(size_t)lane] == 100 + first + 3 % width);
            assert_true(found[(size_t)(WARP + lane)] == 100 + first + (lane + 5) % width);
            assert_true(found[(size_t)(2 * WARP + lane)] == 100 + (inside >= 3 ? lane - 3 : lane));
            assert_true(found[(size_t)(3 * WARP + lane)] == 100 + (inside + 3 < width ? lane + 3 : lane));
            const int across = lane ^ 5, far = lane ^ 16;
            assert_true(found[(size_t)(4 * WARP + lane)] == 100 + (across < first + width ? across : lane));
            assert_true(found[(size_t)(5 * WARP + lane)] ==
                        (double)((uint64_t)(far < first + width ? far : lane) << 40));
        }
    }
}

enum { VOTES = 7 };

static __global__ void vote(unsigned *out) {
    const unsigned lane = threadIdx.x % WARP;
    unsigned *const own = out + threadIdx.x * VOTES;
    own[0] = __ballot_sync(all_lanes, lane % 3 == 0);
    own[1] = (unsigned)__any_sync(all_lanes, lane == 31) * 2 + (unsigned)__any_sync(all_lanes, lane > 31);
    own[2] = (unsigned)__all_sync(all_lanes, lane < 32) * 2 + (unsigned)__all_sync(all_lanes, lane != 7);
    own[3] = __reduce_add_sync(all_lanes, lane);
    own[4] = (unsigned)__reduce_min_sync(all_lanes, (int)lane - 9) + __reduce_max_sync(all_lanes, lane);
    own[5] = __reduce_or_sync(all_lanes, 1U << lane % 8);
    /* two halves on their own ways, for a while */
    own[6] = lane < 16 ? __reduce_add_sync(0x0000ffffU, lane) : 0;
    for (unsigned i = 0; i < 3 && lane >= 16; i++) own[6] += __reduce_max_sync(0xffff0000U, lane);
    __syncwarp();
}

static void votes_count_every_lane(void **) {
    Array<unsigned> out(2 * WARP * VOTES);
    launch_kernel(vote, 1, 2 * WARP, 0, nullptr, out.at);
    const std::vector<unsigned> found = out.values();
    for (size_t thread = 0; thread < 2 * WARP; thread++) {
        const unsigned *own = &found[thread * VOTES];
        assert_int_equal(own[0], 0x49249249U);
        assert_int_equal(own[1], 2);
        assert_int_equal(own[2], 2);
        assert_int_equal(own[3], 31 * 32 / 2);
        assert_int_equal(own[4], 31 - 9);
        assert_int_equal(own[5], 0xff);
        assert_int_equal(own[6], thread % WARP < 16 ? 15 * 16 / 2 : 3 * 31);
    }
}

/* ---- tensor cores. Small whole numbers: every sum is exact, in any order. */

static float entry(unsigned i) {
    return (float)(int)(i * 2654435761U >> 29) - 3.0F;
}

static uint32_t bf16_of(float x) {
    return __float_as_uint(x) >> 16;
}

static __global__ void multiply_tf32(float *d) {
    const unsigned group = threadIdx.x / 4, inside = threadIdx.x % 4;
    const auto a = [](unsigned row, unsigned k) { return __float_as_uint(entry(row * 8 + k)) | 0x1fffU; };
    const auto b = [](unsigned k, unsigned column) { return emulator::to_tf32(entry(1000 + k * 8 + column)); };
    const uint32_t left[4] = {a(group, inside), a(group + 8, inside), a(group, inside + 4), a(group + 8, inside + 4)};
    const uint32_t right[2] = {b(inside, group), b(inside + 4, group)};
    float sums[4] = {1.0F, 2.0F, 3.0F, 4.0F};
    emulator::mma_tf32_16x8x8(sums, left, right);
    for (unsigned i = 0; i < 4; i++) d[(group + i / 2 * 8) * 8 + inside * 2 + i % 2] = sums[i];
}

static void fragments_of_tf32_make_a_product(void **) {
    Array<float> d(16 * 8);
    launch_kernel(multiply_tf32, 1, WARP, 0, nullptr, d.at);
    const std::vector<float> found = d.values();
    for (unsigned row = 0; row < 16; row++)
        for (unsigned column = 0; column < 8; column++) {
            float sum = (float)(1 + row / 8 * 2 + column % 2);
            for (unsigned k = 0; k < 8; k++) sum += entry(row * 8 + k) * entry(1000 + k * 8 + column);
            assert_true(found[row * 8 + column] == sum);
        }
}

/* Matrices in shared memory, row by row, through ldmatrix. */
static __global__ void multiply_bf16(float *d) {
    __shared__ __align__(16) uint16_t a[16][16], b[16][8];
    for (unsigned i = threadIdx.x; i < 16 * 16; i += WARP) a[i / 16][i % 16] = (uint16_t)bf16_of(entry(i));
    for (unsigned i = threadIdx.x; i < 16 * 8; i += WARP) b[i / 8][i % 8] = (uint16_t)bf16_of(entry(1000 + i));
    __syncthreads();
    const unsigned lane = threadIdx.x;
    uint32_t left[4], right[2];
    emulator::ldmatrix(left, &a[lane % 16][lane / 16 * 8]);
    emulator::ldmatrix<2, true>(right, &b[lane % 16][0]);
    float sums[4] = {0, 0, 0, 0};
    emulator::mma_bf16_16x8x16(sums, left, right);
    for (unsigned i = 0; i < 4; i++) d[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
}

static void ldmatrix_and_bf16_make_a_product(void **) {
    Array<float> d(16 * 8);
    launch_kernel(multiply_bf16, 1, WARP, 0, nullptr, d.at);
    const std::vector<float> found = d.values();
    for (unsigned row = 0; row < 16; row++)
        for (unsigned column = 0; column < 8; column++) {
            float sum = 0;
            for (unsigned k = 0; k < 16; k++) sum += entry(row * 16 + k) * entry(1000 + k * 8 + column);
            assert_true(found[row * 8 + column] == sum);
        }
}

static void tf32_rounds_to_nearest(void **) {
    assert_int_equal(emulator::to_tf32(1.0F), 0x3f800000U);
    assert_int_equal(emulator::to_tf32(__uint_as_float(0x3f800fffU)), 0x3f800000U);
    assert_int_equal(emulator::to_tf32(__uint_as_float(0x3f801000U)), 0x3f802000U); /* a tie */
    assert_int_equal(emulator::to_tf32(__uint_as_float(0xbf801000U)), 0xbf802000U);
    assert_int_equal(emulator::to_tf32(__uint_as_float(0x7f800000U)), 0x7f800000U);
}

/* ---- cp.async */

static __global__ void copy_late(const float4 *from, float *out) {
    __shared__ float4 there[3];
    emulator::copy_async(&there[0], &from[0], 16, 16);
    emulator::copy_commit();
    emulator::copy_async(&there[1], &from[1], 16, 8);
    emulator::copy_commit();
    emulator::copy_async(&there[2], &from[2], 16, 16);
    out[0] = there[0].x;
    emulator::copy_wait(1);
    out[1] = there[0].x;
    out[2] = there[1].x;
    emulator::copy_wait(0);
    out[3] = there[1].y;
    out[4] = there[1].z;
    out[5] = there[2].x;
    emulator::copy_wait_all();
    out[6] = there[2].w;
}

static void copies_come_when_they_are_waited_for(void **) {
    std::vector<float4> numbers;
    for (int i = 0; i < 3; i++) numbers.push_back(make_float4(1, 2, 3, 4));
    Array<float4> from(numbers);
    Array<float> out(7);
    launch_kernel(copy_late, 1, 1, 0, nullptr, from.at, out.at);
    const std::vector<float> found = out.values();
    for (const int missing : {0, 2, 5}) assert_true(isnan(found[(size_t)missing]));
    assert_true(found[1] == 1 && found[3] == 2 && found[4] == 0 && found[6] == 4);
}

/* ---- the runtime */

static __global__ void add_one(float *at) {
    at[threadIdx.x] += 1.0F;
}

static void graphs_do_what_was_recorded(void **) {
    cudaStream_t stream, other;
    cudaEvent_t fork, join;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    Array<float> at{0.0F, 10.0F};
    succeeds(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    succeeds(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    succeeds(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    succeeds(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    succeeds(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    launch_kernel(add_one, 1, 2, 0, stream, at.at);
    succeeds(cudaEventRecord(fork, stream));
    succeeds(cudaStreamWaitEvent(other, fork, 0));
    launch_kernel(add_one, 1, 1, 0, other, at.at);
    succeeds(cudaEventRecord(join, other));
    succeeds(cudaStreamWaitEvent(stream, join, 0));
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(cudaGetLastError(), cudaErrorStreamCaptureUnsupported);
    succeeds(cudaStreamEndCapture(stream, &graph));
    succeeds(cudaGraphInstantiate(&ready, graph, 0));
    succeeds(cudaGraphDestroy(graph));
    assert_true(at.values()[0] == 0.0F);
    for (int i = 0; i < 3; i++) succeeds(cudaGraphLaunch(ready, stream));
    succeeds(cudaStreamSynchronize(stream));
    succeeds(cudaStreamQuery(stream));
    assert_true(at.values()[0] == 6.0F && at.values()[1] == 13.0F);
    succeeds(cudaGraphExecDestroy(ready));
    succeeds(cudaEventDestroy(fork));
    succeeds(cudaEventDestroy(join));
    succeeds(cudaStreamDestroy(stream));
    succeeds(cudaStreamDestroy(other));
}

static __global__ void wait_for_flag(const volatile unsigned *flag, unsigned *seen) {
    while (*flag == 0) usleep(100);
    *seen = *flag;
}

/* A copy on one stream overtakes a kernel on another. */
static void streams_work_side_by_side(void **) {
    cudaStream_t stream, other;
    Array<unsigned> flag{0U}, seen{0U};
    unsigned *one;
    succeeds(cudaMallocHost(reinterpret_cast<void **>(&one), sizeof *one));
    *one = 1;
    succeeds(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    succeeds(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    launch_kernel(wait_for_flag, 1, 1, 0, stream, flag.at, seen.at);
    assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
    assert_int_equal(seen.values()[0], 0);
    succeeds(cudaMemcpyAsync(flag.at, one, sizeof *one, cudaMemcpyHostToDevice, other));
    succeeds(cudaStreamSynchronize(stream));
    assert_int_equal(seen.values()[0], 1);
    succeeds(cudaStreamDestroy(stream));
    succeeds(cudaStreamDestroy(other));
    succeeds(cudaFreeHost(one));
}

static void launches_that_a_gpu_refuses_are_refused(void **) {
    Array<float> at{0.0F};
    const auto error_of = [&](dim3 grid, dim3 threads, size_t shared) {
        launch_kernel(add_one, grid, threads, shared, nullptr, at.at);
        return cudaGetLastError();
    };
    assert_int_equal(error_of(1, 1, 0), cudaSuccess);
    assert_int_equal(error_of(0, 1, 0), cudaErrorInvalidConfiguration);
    assert_int_equal(error_of(dim3(1, 65536), 1, 0), cudaErrorInvalidConfiguration);
    assert_int_equal(error_of(1, 1025, 0), cudaErrorInvalidConfiguration);
    assert_int_equal(error_of(1, 1, 48 * 1024 + 1), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    succeeds(cudaFuncSetAttribute(add_one, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024));
    assert_int_equal(error_of(1, 1, 100 * 1024), cudaSuccess);
    assert_int_equal(error_of(1, 1, 100 * 1024 + 1), cudaErrorInvalidValue);
    assert_int_equal(cudaFuncSetAttribute(add_one, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 * 1024),
                     cudaErrorInvalidValue);
    assert_true(at.values()[0] == 2.0F);
}

static void memory_has_limits(void **) {
    size_t before, after, all;
    void *memory, *more;
    float number = 0;
    succeeds(cudaMemGetInfo(&before, &all));
    succeeds(cudaMalloc(&memory, 1000));
    succeeds(cudaMemGetInfo(&after, &all));
    assert_int_equal(before - after, 1000);
    assert_int_equal(cudaMalloc(&more, all), cudaErrorMemoryAllocation);
    assert_int_equal(cudaMemset(memory, 0, 1001), cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy(static_cast<char *>(memory) + 997, &number, 4, cudaMemcpyHostToDevice),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy(&number, memory, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    succeeds(cudaMemcpy(&number, memory, 4, cudaMemcpyDeviceToHost));
    assert_true(isnan(number));
    succeeds(cudaFree(memory));
    assert_int_equal(cudaFree(memory), cudaErrorInvalidValue);
}

/* ---- failures on purpose, each in a program of its own */

static __global__ void one_warp_does_not_come() {
    if (threadIdx.x < WARP)
        __syncthreads();
    else
        emulator::barrier_sync(3, 4 * WARP);
}

static __global__ void half_of_a_warp_does_not_come() {
    if (threadIdx.x < 16)
        __syncwarp();
    else
        __syncthreads();
}

static __global__ void lanes_disagree() {
    __syncwarp(threadIdx.x == 0 ? all_lanes : 0x7fffffffU);
}

static __global__ void lanes_call_different_functions(unsigned *out) {
    if (threadIdx.x % 2 == 0)
        *out = __ballot_sync(all_lanes, 1);
    else
        __syncwarp();
}

static __global__ void reads_a_lane_that_has_exited(unsigned *out) {
    if (threadIdx.x == 5) return;
    *out = __shfl_sync(all_lanes, threadIdx.x, 5);
}

static __global__ void mask_without_the_caller() {
    __syncwarp(1U << (threadIdx.x + 1) % WARP);
}

static __global__ void multiplies_with_half_a_warp() {
    float d[4] = {0, 0, 0, 0};
    const uint32_t a[4] = {0, 0, 0, 0}, b[2] = {0, 0};
    emulator::mma_tf32_16x8x8(d, a, b);
}

/* Barriers are missing: the next thread's number is read before or after it is written. */
static __global__ void read_next(unsigned *out) {
    __shared__ unsigned here[2 * WARP];
    here[threadIdx.x] = 0;
    __syncthreads();
    here[threadIdx.x] = threadIdx.x;
    if (threadIdx.x == 40) out[0] = here[41];
    if (threadIdx.x == 41) out[1] = here[40];
}

static void race() {
    Array<unsigned> out(2);
    launch_kernel(read_next, 1, 2 * WARP, 0, nullptr, out.at);
    fprintf(stderr, "%u and %u", out.values()[0], out.values()[1]);
}

static void race_descending() {
    setenv("SEMFOCUS_EMULATE_ORDER", "descending", 1);
    race();
}

#ifdef EMULATOR_ASAN
static __global__ void write_beyond(float *device, int which) {
    SF_DYNAMIC_SHARED(float, dynamic);
    __shared__ float fixed[WARP];
    float *const arrays[] = {device, dynamic, fixed};
    arrays[which][threadIdx.x + 1] = 0.0F;
}

template <int WHICH> static void go_beyond() {
    Array<float> device(WARP);
    launch_kernel(write_beyond, 1, WARP, WARP * sizeof(float), nullptr, device.at, WHICH);
}
#endif

static void lose_device() {
    Array<float> at{0.0F};
    cudaStream_t stream;
    setenv("SEMFOCUS_EMULATE_LOST_AFTER", "2", 1);
    succeeds(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < 3; i++) launch_kernel(add_one, 1, 1, 0, stream, at.at);
    fprintf(stderr, "%s", cudaGetErrorString(cudaStreamSynchronize(stream)));
}

static void ask_for_devices() {
    int count;
    setenv("SEMFOCUS_EMULATE_NO_DEVICE", "1", 1);
    fprintf(stderr, "%s, ", cudaGetErrorString(cudaGetDeviceCount(&count)));
    setenv("SEMFOCUS_EMULATE_OLD_DRIVER", "1", 1);
    fprintf(stderr, "%s", cudaGetErrorString(cudaGetDeviceCount(&count)));
}

struct Failure {
    const char *name;
    void (*run)();
    const char *message;
};

template <void (*KERNEL)(), unsigned THREADS> static void run() {
    launch_kernel(KERNEL, 1, THREADS, 0, nullptr);
}
template <void (*KERNEL)(unsigned *), unsigned THREADS> static void run_with_array() {
    Array<unsigned> out(1);
    launch_kernel(KERNEL, 1, THREADS, 0, nullptr, out.at);
}

static const Failure failures[] = {
    {"barriers", run<one_warp_does_not_come, 2 * WARP>, "32 threads wait at barrier 3"},
    {"warp", run<half_of_a_warp_does_not_come, WARP>, "lanes 0x0000ffff of warp 0 wait in __syncwarp"},
    {"masks", run<lanes_disagree, WARP>,
     "__syncwarp with mask 0x7fffffff, but lanes 0x00000001 of the same warp are in __syncwarp with mask 0xffffffff"},
    {"functions", run_with_array<lanes_call_different_functions, WARP>,
     "__syncwarp with mask 0xffffffff, but lanes 0x00000001 of the same warp are in __ballot_sync"},
    {"exited", run_with_array<reads_a_lane_that_has_exited, WARP>, "reads lane 5 in a shuffle"},
    {"caller", run<mask_without_the_caller, WARP>, "does not name the calling lane"},
    {"half", run<multiplies_with_half_a_warp, 16>, "mma: lanes 0xffff0000 have exited"},
    {"race", race, "0 and 40"},
    {"race-descending", race_descending, "41 and 0"},
#ifdef EMULATOR_ASAN
    {"beyond-device", go_beyond<0>, "heap-buffer-overflow"},
    {"beyond-dynamic", go_beyond<1>, "heap-buffer-overflow"},
    {"beyond-static", go_beyond<2>, "global-buffer-overflow"},
#endif
    {"lost", lose_device, "CUDA-capable device(s) is/are busy or unavailable"},
    {"none", ask_for_devices, "no CUDA-capable device is detected, CUDA driver version is insufficient"},
};

static std::string path_of_program() {
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    assert_true(length > 0);
    return std::string(path, (size_t)length);
}

static std::string output_of(const char *failure) {
    std::string output;
    char text[256];
    FILE *const pipe = popen(("'" + path_of_program() + "' " + failure + " 2>&1").c_str(), "r");
    assert_non_null(pipe);
    while (fgets(text, sizeof text, pipe) != nullptr) output += text;
    pclose(pipe);
    return output;
}

static void mistakes_are_reported(void **) {
    for (const Failure &failure : failures) {
        const std::string output = output_of(failure.name);
        if (output.find(failure.message) == std::string::npos)
            fail_msg("'%s' says '%s', not '%s'", failure.name, output.c_str(), failure.message);
    }
}

int main(int argc, char **argv) {
    for (const Failure &failure : failures)
        if (argc > 1 && std::string(argv[1]) == failure.name) {
            failure.run();
            return 0;
        }
    const CMUnitTest tests[] = {
        cmocka_unit_test(every_thread_of_every_block_runs_once),
        cmocka_unit_test(atomics_work_between_blocks),
        cmocka_unit_test(blocks_share_memory_that_begins_unwritten),
        cmocka_unit_test(named_barriers_order_two_warps),
        cmocka_unit_test(shuffles_stay_in_their_groups),
        cmocka_unit_test(votes_count_every_lane),
        cmocka_unit_test(fragments_of_tf32_make_a_product),
        cmocka_unit_test(ldmatrix_and_bf16_make_a_product),
        cmocka_unit_test(tf32_rounds_to_nearest),
        cmocka_unit_test(copies_come_when_they_are_waited_for),
        cmocka_unit_test(graphs_do_what_was_recorded),
        cmocka_unit_test(streams_work_side_by_side),
        cmocka_unit_test(launches_that_a_gpu_refuses_are_refused),
        cmocka_unit_test(memory_has_limits),
        cmocka_unit_test(mistakes_are_reported),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
