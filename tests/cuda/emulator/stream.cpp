/* Streams, what they record, events, and launches of kernels. */
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "emulator.h" /* after the headers above: it defines words such as __noinline__ */
#include "runtime.h"

using emulator::Work;
using Recording = std::vector<Work>;

struct CUstream_st {
    bool blocking;
    std::shared_ptr<Recording> recording; /* while work is recorded instead of done */
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Work> work; /* the first of it is under way */
    bool ends = false;
    std::thread thread;
};

struct Happening { /* one recording of an event */
    std::mutex mutex;
    std::condition_variable changed;
    bool happened = false;
    std::chrono::steady_clock::time_point when;
};
struct CUevent_st {
    std::shared_ptr<Happening> last;
    std::shared_ptr<Recording> recording;
};
struct CUgraph_st {
    std::shared_ptr<Recording> recording;
};
struct CUgraphExec_st {
    std::shared_ptr<Recording> recording;
};

namespace emulator {

struct Streams {
    std::mutex mutex;
    std::set<cudaStream_t> all;
    std::map<const void *, size_t> reserved; /* dynamic shared memory, by kernel */
};

static Streams &streams() {
    static Streams *const all = new Streams();
    return *all;
}

static thread_local int recordings = 0; /* under way in this thread */

bool recording_in_this_thread() {
    return recordings > 0;
}

static void do_work(cudaStream_t stream) {
    std::unique_lock<std::mutex> lock(stream->mutex);
    for (;;) {
        stream->changed.wait(lock, [=] { return stream->ends || !stream->work.empty(); });
        if (stream->work.empty()) return;
        const Work work = stream->work.front();
        lock.unlock();
        work();
        lock.lock();
        stream->work.pop_front();
        stream->changed.notify_all();
    }
}

static bool is_idle(cudaStream_t stream) {
    std::lock_guard<std::mutex> lock(stream->mutex);
    return stream->work.empty();
}

static void wait_until_idle(cudaStream_t stream) {
    std::unique_lock<std::mutex> lock(stream->mutex);
    stream->changed.wait(lock, [=] { return stream->work.empty(); });
}

static void wait_for_streams(bool also_non_blocking) {
    std::lock_guard<std::mutex> lock(streams().mutex);
    for (cudaStream_t stream : streams().all)
        if (stream->blocking || also_non_blocking) wait_until_idle(stream);
}

void wait_for_all_streams() {
    wait_for_streams(true);
}

void wait_for(cudaStream_t stream) {
    if (stream == nullptr)
        wait_for_streams(false);
    else
        wait_until_idle(stream);
}

void submit(cudaStream_t stream, Work work) {
    if (stream == nullptr) {
        wait_for_streams(false);
        work();
    } else if (stream->recording != nullptr) {
        stream->recording->push_back(std::move(work));
    } else {
        std::lock_guard<std::mutex> lock(stream->mutex);
        stream->work.push_back(std::move(work));
        stream->changed.notify_all();
    }
}

/* ---- kernels */

cudaError_t reserve_shared(const void *kernel, cudaFuncAttribute attribute, int value) {
    EMULATOR_TRY(state());
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || value > MOST_SHARED) return noted(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> lock(streams().mutex);
    streams().reserved[kernel] = (size_t)value;
    return cudaSuccess;
}

static cudaError_t check_launch(const Launch &launch) {
    EMULATOR_TRY(state());
    const dim3 &threads = launch.threads, &grid = launch.grid;
    const unsigned long long in_block = (unsigned long long)threads.x * threads.y * threads.z;
    if (in_block == 0 || in_block > MOST_THREADS_PER_BLOCK || threads.z > 64) return cudaErrorInvalidConfiguration;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffU || grid.y > MOST_BLOCKS_DOWN ||
        grid.z > MOST_BLOCKS_DOWN)
        return cudaErrorInvalidConfiguration;
    std::lock_guard<std::mutex> lock(streams().mutex);
    const auto reserved = streams().reserved.find(launch.kernel);
    const size_t most = reserved != streams().reserved.end() ? reserved->second : 0;
    return launch.shared > most && launch.shared > SHARED_BY_DEFAULT ? cudaErrorInvalidValue : cudaSuccess;
}

void launch(Launch launch, cudaStream_t stream) {
    if (noted(check_launch(launch)) != cudaSuccess) return;
    const auto shared = std::make_shared<Launch>(std::move(launch));
    submit(stream, [=] {
        if (device_runs_kernel()) run_grid(*shared);
    });
}

/* ---- events */

static void happen(const std::shared_ptr<Happening> &happening) {
    std::lock_guard<std::mutex> lock(happening->mutex);
    happening->when = std::chrono::steady_clock::now();
    happening->happened = true;
    happening->changed.notify_all();
}

static void wait_until_happened(const std::shared_ptr<Happening> &happening) {
    std::unique_lock<std::mutex> lock(happening->mutex);
    happening->changed.wait(lock, [=] { return happening->happened; });
}

static bool has_happened(cudaEvent_t event) {
    if (event->last == nullptr) return true; /* never recorded */
    std::lock_guard<std::mutex> lock(event->last->mutex);
    return event->last->happened;
}

} // namespace emulator

using namespace emulator;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
    EMULATOR_TRY(state());
    cudaStream_t stream = new CUstream_st();
    stream->blocking = (flags & cudaStreamNonBlocking) == 0;
    stream->thread = std::thread(do_work, stream);
    std::lock_guard<std::mutex> lock(streams().mutex);
    streams().all.insert(stream);
    *out = stream;
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *out) {
    return cudaStreamCreateWithFlags(out, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int) {
    return cudaStreamCreateWithFlags(out, flags);
}

/* What it has left to do is done first. */
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    {
        std::lock_guard<std::mutex> lock(streams().mutex);
        streams().all.erase(stream);
    }
    {
        std::lock_guard<std::mutex> lock(stream->mutex);
        stream->ends = true;
        stream->changed.notify_all();
    }
    stream->thread.join();
    delete stream;
    return noted(state());
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    EMULATOR_TRY(state());
    if (stream == nullptr) return cudaSuccess;
    if (stream->recording != nullptr) return noted(cudaErrorStreamCaptureUnsupported);
    if (!is_idle(stream)) return cudaErrorNotReady;
    return noted(state()); /* the device may have been lost meanwhile */
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    EMULATOR_TRY(state());
    if (stream != nullptr && stream->recording != nullptr) return noted(cudaErrorStreamCaptureUnsupported);
    wait_for(stream);
    return noted(state());
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
    EMULATOR_TRY(state());
    submit(stream, [=] { function(data); });
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned) {
    EMULATOR_TRY(state());
    *out = new CUevent_st();
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out) {
    return cudaEventCreateWithFlags(out, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    return noted(state());
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    EMULATOR_TRY(state());
    event->recording = stream != nullptr ? stream->recording : nullptr;
    if (event->recording != nullptr) return cudaSuccess; /* it only orders what is recorded */
    const auto happening = event->last = std::make_shared<Happening>();
    submit(stream, [=] { happen(happening); });
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    EMULATOR_TRY(state());
    return has_happened(event) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    EMULATOR_TRY(state_outside_recordings());
    if (event->last != nullptr) wait_until_happened(event->last);
    return noted(state());
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    EMULATOR_TRY(state());
    if (start->last == nullptr || end->last == nullptr) return noted(cudaErrorInvalidValue);
    if (!has_happened(start) || !has_happened(end)) return cudaErrorNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(end->last->when - start->last->when).count();
    return cudaSuccess;
}

/* A stream that waits for an event of a recording joins it: what both record is done in the order of the calls. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    EMULATOR_TRY(state());
    if (event->recording != nullptr) {
        stream->recording = event->recording;
    } else if (event->last != nullptr) {
        const auto happening = event->last;
        submit(stream, [=] { wait_until_happened(happening); });
    }
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    EMULATOR_TRY(state());
    if (stream == nullptr || stream->recording != nullptr) return noted(cudaErrorStreamCaptureUnsupported);
    stream->recording = std::make_shared<Recording>();
    recordings++;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out) {
    *out = nullptr;
    if (stream == nullptr || stream->recording == nullptr) return noted(cudaErrorInvalidValue);
    const auto recording = stream->recording;
    {
        std::lock_guard<std::mutex> lock(streams().mutex);
        for (cudaStream_t other : streams().all)
            if (other->recording == recording) other->recording = nullptr;
    }
    recordings--;
    EMULATOR_TRY(state());
    *out = new CUgraph_st{recording};
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long) {
    EMULATOR_TRY(state());
    *out = new CUgraphExec_st{graph->recording};
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
    return noted(state());
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    EMULATOR_TRY(state());
    const auto recording = graph->recording;
    submit(stream, [=] {
        for (const Work &work : *recording) work();
    });
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return noted(state());
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    delete graph;
    return noted(state());
}
