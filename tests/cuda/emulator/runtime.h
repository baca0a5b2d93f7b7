/* What the parts of the emulated CUDA runtime share. */
#ifndef EMULATOR_RUNTIME_H
#define EMULATOR_RUNTIME_H

#include <functional>

#include <cuda_runtime_api.h>

namespace emulator {

enum {
    COMPUTE_MAJOR = 9,
    COMPUTE_MINOR = 0,
    SHARED_BY_DEFAULT = 48 * 1024,
    MOST_SHARED = 227 * 1024, /* what a kernel may reserve */
    MOST_THREADS_PER_BLOCK = 1024,
    MOST_BLOCKS_DOWN = 65535,
    CUDA_VERSION = 13000
};

/* A number from the environment. */
unsigned long long setting(const char *name, unsigned long long otherwise);
size_t device_memory();
int multiprocessors();

/* Remembers an error for cudaGetLastError(). */
cudaError_t noted(cudaError_t error);
/* What every call begins with: whether there is a device that works. */
cudaError_t state();
/* The same, for what must not be called while a stream records. */
cudaError_t state_outside_recordings();
cudaError_t check_device(int device);
int current_device();
/* One kernel more is to run; false from the one on that loses the device. */
bool device_runs_kernel();

#define EMULATOR_TRY(call)                                                                                             \
    do {                                                                                                               \
        const cudaError_t error_ = (call);                                                                             \
        if (error_ != cudaSuccess) return emulator::noted(error_);                                                     \
    } while (0)

/* Work that a stream does in order, in a thread of its own; the stream NULL does it at once, after that of all streams
 * but those created as non-blocking. */
using Work = std::function<void()>;
void submit(cudaStream_t stream, Work work);
void wait_for(cudaStream_t stream);
void wait_for_all_streams();
bool recording_in_this_thread();
/* While no block of threads runs. */
void between_blocks(const std::function<void()> &what);

} // namespace emulator

#endif
