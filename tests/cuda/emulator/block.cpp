/* Blocks of threads. Every worker, a thread of the operating system, runs one block at a time. The threads of a block
 * are started in order; one that has to wait leaves its stack and the next goes on. Threads that never wait run one
 * after the other on the same stack. */
#include <link.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "emulator.h"
#include "fiber.h"
#include "runtime.h"

__thread uint3 threadIdx, blockIdx;
__thread dim3 blockDim, gridDim;

namespace emulator {

__thread uint32_t thread_number;

enum { MOST_THREADS = 1024, MOST_WARPS = MOST_THREADS / warpSize, BARRIERS = 16 };

struct Copy {
    void *to;
    const void *from;
    size_t bytes, bytes_of_source;
};

struct Thread {
    uint3 index;
    uint32_t number;
    Fiber *fiber;
    Thread *next;               /* in a list of those that wait or may go on */
    std::vector<Copy> copies;   /* asked for with cp.async */
    std::vector<size_t> groups; /* ends of committed groups of them */
};

struct List {
    Thread *first, *last;

    void append(Thread *thread) {
        thread->next = nullptr;
        (first != nullptr ? last->next : first) = thread;
        last = thread;
    }
    Thread *take() {
        Thread *const thread = first;
        if (thread != nullptr) first = thread->next;
        return thread;
    }
    /* Takes over another list. */
    void append_all(List &others) {
        if (others.first == nullptr) return;
        (first != nullptr ? last->next : first) = others.first;
        last = others.last;
        others.first = nullptr;
    }
    void prepend_all(List &others) {
        if (others.first == nullptr) return;
        others.last->next = first;
        if (first == nullptr) last = others.last;
        first = others.first;
        others.first = nullptr;
    }
};

struct Barrier {
    List waiting;
    uint32_t came, threads; /* threads: 0: all that have not exited */
};

struct Meeting { /* of lanes of a warp */
    const char *name;
    Perform *perform;
    uint32_t mask, came;
    void *lanes[warpSize];
};

struct Warp {
    uint32_t live;              /* lanes that have not exited */
    uint32_t open;              /* meetings that some wait in */
    Meeting meetings[warpSize]; /* by the lowest lane of their masks */
};

/* The order in which threads take their turns: results must not depend on it. */
enum Order { ASCENDING, DESCENDING };

struct Worker {
    Order order;
    Fiber own; /* the stack that switches to the block's */
    std::vector<Fiber *> fibers, unused;
    std::vector<Thread> threads{MOST_THREADS};
    Warp warps[MOST_WARPS];
    Barrier barriers[BARRIERS];
    List ready;
    Thread *current;
    uint32_t count, started, live;
    const Launch *launch;
    void *shared;
    char *statics; /* this thread's copy of all thread-local variables, shared memory among them */
    size_t statics_bytes;
};

extern __thread Worker *worker; /* not static: spoil_shared() changes it behind the compiler's back */
__thread Worker *worker;

void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "CUDA emulator: ");
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    if (worker != nullptr && worker->launch != nullptr) {
        extern const char program[] asm("__executable_start");
        fprintf(stderr, "\n  in thread (%u,%u,%u) of block (%u,%u,%u) of the kernel at %#zx (addr2line -fCe PROGRAM)",
                threadIdx.x, threadIdx.y, threadIdx.z, blockIdx.x, blockIdx.y, blockIdx.z,
                (size_t)((const char *)worker->launch->kernel - program));
    }
    fputc('\n', stderr);
    abort();
}

void *dynamic_shared() {
    return worker->shared;
}

/* ---- who runs */

static void become(Thread *thread) {
    worker->current = thread;
    thread_number = thread->number;
    threadIdx = thread->index;
}

[[noreturn]] static void run_threads();

[[noreturn]] static void stuck() {
    std::string waiting;
    char text[160];
    for (uint32_t i = 0; i < BARRIERS; i++)
        if (worker->barriers[i].came > 0) {
            snprintf(text, sizeof text, "\n  %u threads wait at barrier %u", worker->barriers[i].came, i);
            waiting += text;
        }
    for (uint32_t w = 0; w * warpSize < worker->count; w++)
        for (uint32_t left = worker->warps[w].open; left != 0; left &= left - 1) {
            const Meeting &meeting = worker->warps[w].meetings[__builtin_ctz(left)];
            snprintf(text, sizeof text, "\n  lanes %#010x of warp %u wait in %s with mask %#010x", meeting.came, w,
                     meeting.name, meeting.mask);
            waiting += text;
        }
    die("deadlock, %u of %u threads have exited%s", worker->count - worker->live, worker->count, waiting.c_str());
}

static Thread *start_thread() {
    const uint32_t nth = worker->started++, i = worker->order == ASCENDING ? nth : worker->count - 1 - nth;
    Thread *const thread = &worker->threads[i];
    thread->number = i;
    thread->index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
    thread->copies.clear();
    thread->groups.clear();
    return thread;
}

static Fiber *take_fiber() {
    if (worker->unused.empty()) {
        worker->fibers.push_back(create_fiber(worker->fibers.size()));
        worker->unused.push_back(worker->fibers.back());
    }
    Fiber *const fiber = worker->unused.back();
    worker->unused.pop_back();
    return fiber;
}

/* Lets others run until something puts the thread among those that may go on, and its turn comes. */
static void wait() {
    Thread *const self = worker->current;
    Thread *next = worker->ready.take();
    if (next == self) return;
    if (next == nullptr) {
        if (worker->started == worker->count) stuck();
        next = start_thread();
        next->fiber = take_fiber();
        reset_fiber(next->fiber, run_threads);
        become(next);
    }
    switch_fiber(self->fiber, next->fiber);
    become(self);
}

static void complete_meeting(Warp *warp, uint32_t which);

static void exit_thread(Thread *thread) {
    Warp *const warp = &worker->warps[thread->number / warpSize];
    warp->live &= ~(1U << thread->number % warpSize);
    worker->live--;
    for (uint32_t left = warp->open; left != 0; left &= left - 1) {
        const Meeting &meeting = warp->meetings[__builtin_ctz(left)];
        if (meeting.came == (meeting.mask & warp->live)) complete_meeting(warp, (uint32_t)__builtin_ctz(left));
    }
    for (Barrier &barrier : worker->barriers)
        if (barrier.came > 0 && barrier.threads == 0 && barrier.came == worker->live) {
            barrier.came = 0;
            worker->ready.append_all(barrier.waiting);
        }
}

static void run_threads() {
    arrive_on_fiber();
    for (;;) {
        Thread *const self = worker->current;
        Fiber *const fiber = self->fiber;
        worker->launch->run();
        exit_thread(self);
        Thread *const next = worker->ready.take();
        if (next != nullptr) {
            worker->unused.push_back(fiber);
            switch_fiber(fiber, next->fiber);
        } else if (worker->started < worker->count) {
            Thread *const fresh = start_thread();
            fresh->fiber = fiber;
            become(fresh);
        } else if (worker->live == 0) {
            worker->unused.push_back(fiber);
            switch_fiber(fiber, &worker->own);
        } else {
            stuck();
        }
    }
}

/* ---- who waits for whom */

/* Whether all have come; they may then go on. */
static bool arrive(Barrier *barrier, uint32_t which, uint32_t threads) {
    if (barrier->came > 0 && barrier->threads != threads)
        die("barrier %u is for %u threads and for %u", which, barrier->threads, threads);
    barrier->threads = threads;
    if (++barrier->came < (threads == 0 ? worker->live : threads)) return false;
    barrier->came = 0;
    worker->ready.append_all(barrier->waiting);
    return true;
}

void barrier_sync(uint32_t which, uint32_t threads) {
    if (which >= BARRIERS || threads % warpSize != 0) die("bar.sync %u, %u", which, threads);
    Barrier *const barrier = &worker->barriers[which];
    barrier->waiting.append(worker->current);
    arrive(barrier, which, threads);
    wait();
}

void barrier_arrive(uint32_t which, uint32_t threads) {
    if (which >= BARRIERS || threads == 0 || threads % warpSize != 0) die("bar.arrive %u, %u", which, threads);
    arrive(&worker->barriers[which], which, threads);
}

/* Performs it, and lets all go on, before other warps. */
static void complete_meeting(Warp *warp, uint32_t which) {
    Meeting *const meeting = &warp->meetings[which];
    Thread *const first = &worker->threads[(size_t)(warp - worker->warps) * warpSize];
    List lanes = {};
    meeting->perform(meeting->lanes, meeting->came);
    for (uint32_t left = meeting->came; left != 0;) {
        const uint32_t lane =
            worker->order == ASCENDING ? (uint32_t)__builtin_ctz(left) : 31 - (uint32_t)__builtin_clz(left);
        lanes.append(first + lane);
        left &= ~(1U << lane);
    }
    worker->ready.prepend_all(lanes);
    meeting->came = 0;
    warp->open &= ~(1U << which);
}

void meet(uint32_t mask, const char *name, Perform *perform, void *own) {
    const uint32_t number = worker->current->number, lane = number % warpSize;
    Warp *const warp = &worker->warps[number / warpSize];
    if (!(mask >> lane & 1)) die("%s: the mask %#010x does not name the calling lane", name, mask);
    const uint32_t which = (uint32_t)__builtin_ctz(mask);
    Meeting *const meeting = &warp->meetings[which];
    if (meeting->came == 0) {
        meeting->name = name;
        meeting->perform = perform;
        meeting->mask = mask;
        warp->open |= 1U << which;
    } else if (meeting->mask != mask || meeting->perform != perform || meeting->name != name) {
        die("%s with mask %#010x, but lanes %#010x of the same warp are in %s with mask %#010x", name, mask,
            meeting->came, meeting->name, meeting->mask);
    }
    meeting->lanes[lane] = own;
    meeting->came |= 1U << lane;
    if (meeting->came == (mask & warp->live)) complete_meeting(warp, which);
    wait();
}

/* ---- cp.async */

void copy_async(void *to, const void *from, size_t bytes, size_t bytes_of_source) {
    if ((bytes != 4 && bytes != 8 && bytes != 16) || bytes_of_source > bytes)
        die("cp.async copies %zu of %zu bytes", bytes_of_source, bytes);
    if ((uintptr_t)to % bytes != 0 || (uintptr_t)from % bytes != 0) die("cp.async: not aligned to %zu bytes", bytes);
    memset(to, 0xff, bytes); /* not there yet */
    worker->current->copies.push_back({to, from, bytes, bytes_of_source});
}

void copy_commit() {
    worker->current->groups.push_back(worker->current->copies.size());
}

/* The thread's first `end` copies. */
static void copy_now(const Thread &thread, size_t end) {
    for (size_t i = 0; i < end; i++) {
        const Copy &copy = thread.copies[i];
        memcpy(copy.to, copy.from, copy.bytes_of_source);
        memset(static_cast<char *>(copy.to) + copy.bytes_of_source, 0, copy.bytes - copy.bytes_of_source);
    }
}

void copy_wait_all() {
    Thread *const self = worker->current;
    copy_now(*self, self->copies.size());
    self->copies.clear();
    self->groups.clear();
}

void copy_wait(size_t groups_left) {
    Thread *const self = worker->current;
    if (self->groups.size() <= groups_left) return;
    const size_t groups = self->groups.size() - groups_left, end = self->groups[groups - 1];
    copy_now(*self, end);
    self->copies.erase(self->copies.begin(), self->copies.begin() + (ptrdiff_t)end);
    self->groups.erase(self->groups.begin(), self->groups.begin() + (ptrdiff_t)groups);
    for (size_t &group : self->groups) group -= end;
}

/* ---- blocks and grids */

static int find_statics(dl_phdr_info *info, size_t, void *) {
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS) {
            worker->statics = static_cast<char *>(info->dlpi_tls_data);
            worker->statics_bytes = info->dlpi_phdr[i].p_memsz;
        }
    return 1; /* the first is the program */
}

/* Static shared memory is thread-local, and nothing else of a worker's thread-local variables is in use but these. */
static void spoil_shared(size_t bytes) {
    Worker *const self = worker;
    const uint3 block = blockIdx;
    const dim3 grid = gridDim, threads = blockDim;
#ifndef EMULATOR_ASAN /* the sanitizer's own variables may be there, and shared memory is not */
    memset(self->statics, 0xff, self->statics_bytes);
#endif
    worker = self;
    blockIdx = block;
    gridDim = grid;
    blockDim = threads;
    if (bytes > 0) memset(self->shared, 0xff, bytes);
}

static void run_block(const Launch &launch, uint3 block) {
    blockIdx = block;
    spoil_shared(launch.shared);
    worker->count = worker->live = launch.threads.x * launch.threads.y * launch.threads.z;
    worker->started = 0;
    for (uint32_t w = 0; w * warpSize < worker->count; w++) {
        const uint32_t lanes = worker->count - w * warpSize;
        worker->warps[w].live = lanes >= warpSize ? 0xffffffffU : (1U << lanes) - 1;
    }
    Thread *const first = start_thread();
    first->fiber = take_fiber();
    reset_fiber(first->fiber, run_threads);
    become(first);
    switch_fiber(&worker->own, first->fiber);
    for (uint32_t i = 0; i < BARRIERS; i++)
        if (worker->barriers[i].came > 0) die("a block ends with arrivals at barrier %u", i);
}

/* One grid at a time, over all workers. */
struct Grid {
    std::mutex one_at_a_time, mutex;
    std::condition_variable begin, end;
    const Launch *launch = nullptr;
    uint64_t generation = 0;
    std::atomic<uint64_t> next_block;
    uint64_t blocks = 0;
    size_t workers = 0, running = 0;
};

/* What is done between blocks: no block runs meanwhile, and none begins while one of these waits. A block that does not
 * end is taken to wait for just this. */
constexpr auto longest_block = std::chrono::seconds(5);

struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    size_t running = 0, waiting = 0;
};

static Gate &gate() {
    static Gate *const one = new Gate();
    return *one;
}

static void enter_gate() {
    std::unique_lock<std::mutex> lock(gate().mutex);
    gate().changed.wait(lock, [] { return gate().waiting == 0; });
    gate().running++;
}

static void leave_gate() {
    std::lock_guard<std::mutex> lock(gate().mutex);
    gate().running--;
    gate().changed.notify_all();
}

void between_blocks(const std::function<void()> &what) {
    std::unique_lock<std::mutex> lock(gate().mutex);
    gate().waiting++;
    gate().changed.wait_for(lock, longest_block, [] { return gate().running == 0; });
    what();
    gate().waiting--;
    gate().changed.notify_all();
}

static void run_blocks(Grid &grid) {
    const Launch &launch = *grid.launch;
    blockDim = launch.threads;
    gridDim = launch.grid;
    worker->launch = &launch;
    worker->shared = nullptr;
    if (launch.shared > 0 && posix_memalign(&worker->shared, 128, launch.shared) != 0) die("no shared memory");
    for (uint64_t block; (block = grid.next_block.fetch_add(1)) < grid.blocks;) {
        const uint64_t row = block / launch.grid.x;
        enter_gate();
        run_block(launch, {(uint32_t)(block % launch.grid.x), (uint32_t)(row % launch.grid.y),
                           (uint32_t)(row / launch.grid.y)});
        leave_gate();
    }
    free(worker->shared);
    worker->launch = nullptr;
}

static Order order_of_threads() {
    const char *const text = getenv("SEMFOCUS_EMULATE_ORDER");
    return text != nullptr && strcmp(text, "descending") == 0 ? DESCENDING : ASCENDING;
}

static void work(Grid &grid) {
    worker = new Worker();
    worker->order = order_of_threads();
    dl_iterate_phdr(find_statics, nullptr);
    adopt_stack(&worker->own);
    uint64_t seen = 0;
    for (;;) {
        std::unique_lock<std::mutex> lock(grid.mutex);
        grid.begin.wait(lock, [&] { return grid.generation != seen; });
        seen = grid.generation;
        lock.unlock();
        run_blocks(grid);
        lock.lock();
        if (--grid.running == 0) grid.end.notify_one();
    }
}

static size_t worker_count() {
#ifdef EMULATOR_ASAN
    return 1; /* there is one copy of shared memory */
#endif
    const char *const text = getenv("SEMFOCUS_EMULATE_THREADS");
    const long count = text != nullptr ? atol(text) : sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : (size_t)count;
}

static Grid &the_grid() {
    static Grid *const grid = [] {
        Grid *const fresh = new Grid();
        fresh->workers = worker_count();
        for (size_t i = 0; i < fresh->workers; i++) std::thread(work, std::ref(*fresh)).detach();
        return fresh;
    }();
    return *grid;
}

void run_grid(const Launch &launch) {
    Grid &grid = the_grid();
    std::lock_guard<std::mutex> alone(grid.one_at_a_time);
    std::unique_lock<std::mutex> lock(grid.mutex);
    grid.launch = &launch;
    grid.blocks = (uint64_t)launch.grid.x * launch.grid.y * launch.grid.z;
    grid.next_block = 0;
    grid.running = grid.workers;
    grid.generation++;
    grid.begin.notify_all();
    grid.end.wait(lock, [&] { return grid.running == 0; });
}

} // namespace emulator
