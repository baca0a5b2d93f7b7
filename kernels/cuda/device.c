/* The GPUs of this machine. Nothing here needs the driver before it is asked for. */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/link.h"

enum { OLDEST = 80 }; /* sm_80: what the kernels are compiled for */

static sf_status no_gpu(cudaError_t error) {
    int driver = 0, runtime = 0;
    (void)cudaGetLastError(); /* the next call must not find it */
    if (error == cudaSuccess || error == cudaErrorNoDevice) return sf_fail(SF_UNSUPPORTED, "no GPU was found");
    if (error != cudaErrorInsufficientDriver)
        return sf_fail(SF_UNSUPPORTED, "the GPU cannot be used: %s", cudaGetErrorString(error));
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        return sf_fail(SF_UNSUPPORTED, "no GPU driver was found");
    (void)cudaRuntimeGetVersion(&runtime);
    return sf_fail(SF_UNSUPPORTED, "the GPU driver is too old: it supports CUDA %d.%d but this program needs %d.%d",
                   driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
}

/* Major and minor digits, as in sm_90; 0 where that cannot be told. */
static int architecture_of(int device) {
    int major = 0, minor = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess)
        return 0;
    return 10 * major + minor;
}

sf_status sf_cuda_check(void) {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) return no_gpu(error);
    const int found = architecture_of(0);
    if (found >= OLDEST) return SF_OK;
    return sf_fail(SF_UNSUPPORTED, "the GPU is an sm_%d and the kernels need sm_%d or newer", found, (int)OLDEST);
}

size_t sf_cuda_devices(void) {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) return 0;
    int alike = count > 0;
    while (alike < count && architecture_of(alike) == architecture_of(0)) alike++;
    return (size_t)alike;
}

sf_status sf_cuda_use(size_t device) {
    const cudaError_t error = cudaSetDevice((int)device);
    if (error == cudaSuccess) return SF_OK;
    return sf_fail(SF_IO_ERROR, "GPU %zu cannot be used: %s", device, cudaGetErrorString(error));
}

sf_status sf_cuda_gpu_name(char *name /* [SF_CUDA_GPU_NAME] */) {
    int device = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) error = cudaDeviceGetPCIBusId(name, SF_CUDA_GPU_NAME, device);
    if (error == cudaSuccess) return SF_OK;
    return sf_fail(SF_IO_ERROR, "the GPU has no name: %s", cudaGetErrorString(error));
}

sf_status sf_cuda_alive(void) {
    size_t unused, all;
    const cudaError_t error = cudaMemGetInfo(&unused, &all); /* errors that end a device are given by every call */
    if (error == cudaSuccess) return SF_OK;
    return sf_fail(SF_IO_ERROR, "the GPU was lost: %s", cudaGetErrorString(error));
}

void sf_cuda_forget_error(void) {
    (void)cudaGetLastError();
}

size_t sf_cuda_free_memory(void) {
    size_t unused = 0, all = 0;
    return cudaMemGetInfo(&unused, &all) == cudaSuccess ? unused : 0;
}

size_t sf_cuda_all_memory(void) {
    size_t unused = 0, all = 0;
    return cudaMemGetInfo(&unused, &all) == cudaSuccess ? all : 0;
}

static struct {
    pthread_once_t once;
    char architecture[16], name[64];
    double peak_gflops[SF_TF32 + 1]; /* by precision */
} first = {.once = PTHREAD_ONCE_INIT};

/* Multiply-adds per cycle of a multiprocessor, from NVIDIA's papers about the architectures; 0: not known. */
static const struct {
    int architecture, f32, tf32, bf16;
} speeds[] = {
    {80, 64, 512, 1024}, {86, 128, 128, 256}, {87, 128, 256, 512}, {89, 128, 128, 256}, {90, 128, 1024, 2048}};

static void find_peaks(int architecture, double multiprocessor_cycles /* per second */) {
    for (int i = SF_F32; i <= SF_TF32; i++) first.peak_gflops[i] = 0;
    first.peak_gflops[SF_F32] = 2e-9 * 128 * multiprocessor_cycles;
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) {
        if (speeds[i].architecture != architecture) continue;
        first.peak_gflops[SF_F32] = 2e-9 * speeds[i].f32 * multiprocessor_cycles;
        first.peak_gflops[SF_TF32] = 2e-9 * speeds[i].tf32 * multiprocessor_cycles;
        first.peak_gflops[SF_BF16] = 2e-9 * speeds[i].bf16 * multiprocessor_cycles;
    }
}

static void describe_first(void) {
    struct cudaDeviceProp about;
    int kilohertz = 0, processors = 0;
    const int architecture = architecture_of(0);
    snprintf(first.architecture, sizeof first.architecture, "sm_%d", architecture);
    if (cudaGetDeviceProperties(&about, 0) == cudaSuccess)
        snprintf(first.name, sizeof first.name, "%.*s", (int)sizeof first.name - 1, about.name);
    if (cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, 0) == cudaSuccess &&
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0) == cudaSuccess)
        find_peaks(architecture, 1e3 * (double)processors * (double)kilohertz);
    (void)cudaGetLastError();
}

const char *sf_cuda_architecture(void) {
    pthread_once(&first.once, describe_first);
    return first.architecture;
}

const char *sf_cuda_name(void) {
    pthread_once(&first.once, describe_first);
    return first.name;
}

double sf_cuda_peak_gflops(sf_precision precision) {
    pthread_once(&first.once, describe_first);
    return first.peak_gflops[precision];
}
