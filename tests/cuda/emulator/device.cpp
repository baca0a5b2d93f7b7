/* Devices, and what is wrong with them. */
#include "runtime.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace emulator {

static thread_local cudaError_t last_error = cudaSuccess;
static thread_local int chosen_device = 0;
static std::atomic<unsigned long long> launches{0};
static std::atomic<bool> lost{false};

unsigned long long setting(const char *name, unsigned long long otherwise) {
    const char *const text = getenv(name);
    return text != nullptr && *text != '\0' ? strtoull(text, nullptr, 10) : otherwise;
}

size_t device_memory() {
    return (size_t)setting("SEMFOCUS_EMULATE_MEMORY", 1ULL << 30);
}

int multiprocessors() {
    return (int)setting("SEMFOCUS_EMULATE_PROCESSORS", 132);
}

cudaError_t noted(cudaError_t error) {
    if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
    return error;
}

static bool old_driver() {
    return getenv("SEMFOCUS_EMULATE_OLD_DRIVER") != nullptr;
}

static cudaError_t device_count(int *count) {
    *count = 0;
    if (old_driver()) return cudaErrorInsufficientDriver;
    *count = getenv("SEMFOCUS_EMULATE_NO_DEVICE") != nullptr ? 0 : (int)setting("SEMFOCUS_EMULATE_DEVICES", 1);
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t state() {
    int count;
    const cudaError_t error = device_count(&count);
    if (error != cudaSuccess) return error;
    return lost ? cudaErrorDevicesUnavailable : cudaSuccess;
}

cudaError_t state_outside_recordings() {
    EMULATOR_TRY(state());
    return recording_in_this_thread() ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t check_device(int device) {
    int count;
    EMULATOR_TRY(device_count(&count));
    return device >= 0 && device < count ? cudaSuccess : cudaErrorInvalidDevice;
}

int current_device() {
    return chosen_device;
}

bool device_runs_kernel() {
    if (launches.fetch_add(1) >= setting("SEMFOCUS_EMULATE_LOST_AFTER", ~0ULL)) lost = true;
    return !lost;
}

struct Named {
    cudaError_t error;
    const char *name, *sentence;
};

static const Named errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable", "CUDA-capable device(s) is/are busy or unavailable"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
};

static const Named &named(cudaError_t error) {
    static const Named unknown = {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"};
    for (const Named &known : errors)
        if (known.error == error) return known;
    return unknown;
}

struct Attribute {
    cudaDeviceAttr attribute;
    int value;
};

static const Attribute attributes[] = {
    {cudaDevAttrMaxThreadsPerBlock, MOST_THREADS_PER_BLOCK},
    {cudaDevAttrMaxSharedMemoryPerBlock, SHARED_BY_DEFAULT},
    {cudaDevAttrWarpSize, 32},
    {cudaDevAttrClockRate, 1000000},
    {cudaDevAttrComputeCapabilityMajor, COMPUTE_MAJOR},
    {cudaDevAttrComputeCapabilityMinor, COMPUTE_MINOR},
    {cudaDevAttrMaxSharedMemoryPerMultiprocessor, MOST_SHARED + 1024},
    {cudaDevAttrMaxSharedMemoryPerBlockOptin, MOST_SHARED},
};

} // namespace emulator

using namespace emulator;

const char *cudaGetErrorName(cudaError_t error) {
    return named(error).name;
}

const char *cudaGetErrorString(cudaError_t error) {
    return named(error).sentence;
}

cudaError_t cudaPeekAtLastError(void) {
    return lost ? cudaErrorDevicesUnavailable : last_error;
}

cudaError_t cudaGetLastError(void) {
    const cudaError_t error = cudaPeekAtLastError();
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaGetDeviceCount(int *count) {
    return noted(device_count(count));
}

cudaError_t cudaSetDevice(int device) {
    EMULATOR_TRY(check_device(device));
    EMULATOR_TRY(state());
    chosen_device = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
    EMULATOR_TRY(state());
    *device = chosen_device;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
    EMULATOR_TRY(check_device(device));
    if (attribute == cudaDevAttrMultiProcessorCount) {
        *value = multiprocessors();
        return cudaSuccess;
    }
    for (const Attribute &known : attributes)
        if (known.attribute == attribute) {
            *value = known.value;
            return cudaSuccess;
        }
    return noted(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device) {
    EMULATOR_TRY(check_device(device));
    snprintf(id, (size_t)size, "0000:%02x:00.0", (unsigned)device);
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
    EMULATOR_TRY(check_device(device));
    *properties = cudaDeviceProp{};
    snprintf(properties->name, sizeof properties->name, "emulated GPU");
    properties->totalGlobalMem = device_memory();
    properties->sharedMemPerBlock = SHARED_BY_DEFAULT;
    properties->sharedMemPerBlockOptin = MOST_SHARED;
    properties->sharedMemPerMultiprocessor = MOST_SHARED + 1024;
    properties->major = COMPUTE_MAJOR;
    properties->minor = COMPUTE_MINOR;
    properties->multiProcessorCount = multiprocessors();
    properties->maxThreadsPerBlock = MOST_THREADS_PER_BLOCK;
    properties->warpSize = 32;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) {
    EMULATOR_TRY(state_outside_recordings());
    wait_for_all_streams();
    return noted(state());
}

cudaError_t cudaDeviceReset(void) {
    return cudaDeviceSynchronize();
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = old_driver() ? CUDA_VERSION - 2000 : CUDA_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDA_VERSION;
    return cudaSuccess;
}
