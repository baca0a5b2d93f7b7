#include "kernels/cuda/link.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"

enum { OLDEST = 21400 }; /* 2.14: its calls return while they wait for other ranks */

struct sf_cuda_link {
    ncclComm_t comm;
    double seconds;
    bool failed; /* within a group, with the message of this thread */
};

/* Loaded once, and kept. */
static struct {
    pthread_once_t once;
    int version;
    char missing[256]; /* why there is none */
    ncclResult_t (*get_version)(int *);
    ncclResult_t (*get_id)(ncclUniqueId *);
    ncclResult_t (*init)(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *);
    ncclResult_t (*abort)(ncclComm_t);
    ncclResult_t (*state)(ncclComm_t, ncclResult_t *);
    ncclResult_t (*send)(const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
    ncclResult_t (*receive)(void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
    ncclResult_t (*begin)(void);
    ncclResult_t (*end)(void);
    const char *(*describe)(ncclResult_t);
} nccl = {.once = PTHREAD_ONCE_INIT};

static bool find(void *library, const char *name, void *function, size_t size) {
    void *const found = dlsym(library, name);
    memcpy(function, &found, size);
    return found != NULL;
}

static bool find_all(void *library) {
#define FIND(name, member) find(library, name, &nccl.member, sizeof nccl.member)
    return FIND("ncclGetVersion", get_version) && FIND("ncclGetUniqueId", get_id) &&
           FIND("ncclCommInitRankConfig", init) && FIND("ncclCommAbort", abort) &&
           FIND("ncclCommGetAsyncError", state) && FIND("ncclSend", send) && FIND("ncclRecv", receive) &&
           FIND("ncclGroupStart", begin) && FIND("ncclGroupEnd", end) && FIND("ncclGetErrorString", describe);
#undef FIND
}

/* SEMFOCUS_NCCL names another library; no: none is used. */
static void load(void) {
    const char *wish = getenv("SEMFOCUS_NCCL"), *name = wish != NULL && *wish != '\0' ? wish : "libnccl.so.2";
    if (strcmp(name, "no") == 0) {
        snprintf(nccl.missing, sizeof nccl.missing, "SEMFOCUS_NCCL is no");
        return;
    }
    void *const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(nccl.missing, sizeof nccl.missing, "%.200s was not found", name);
        return;
    }
    int version = 0;
    if (find_all(library) && nccl.get_version(&version) == ncclSuccess && version >= OLDEST)
        nccl.version = version;
    else
        snprintf(nccl.missing, sizeof nccl.missing, "%.200s is older than NCCL 2.14", name);
}

sf_status sf_cuda_link_check(int *version) {
    pthread_once(&nccl.once, load);
    *version = nccl.version;
    return nccl.version > 0 ? SF_OK : sf_fail(SF_UNSUPPORTED, "%s", nccl.missing);
}

static sf_status checked(ncclResult_t result, const char *what) {
    if (result == ncclSuccess || result == ncclInProgress) return SF_OK;
    return sf_fail(SF_IO_ERROR, "%s over NCCL failed: %s", what, nccl.describe(result));
}

sf_status sf_cuda_link_id(char *id /* [SF_CUDA_LINK_ID] */) {
    int version;
    ncclUniqueId made;
    _Static_assert(sizeof made == SF_CUDA_LINK_ID, "an id has room");
    SF_TRY(sf_cuda_link_check(&version));
    SF_TRY(checked(nccl.get_id(&made), "beginning to connect"));
    memcpy(id, &made, sizeof made);
    return SF_OK;
}

/* Until what was begun no longer waits for other ranks. */
static sf_status settle(const sf_cuda_link *link, const char *what) {
    const double end = sf_clock_seconds() + link->seconds;
    for (;;) {
        ncclResult_t state;
        SF_TRY(checked(nccl.state(link->comm, &state), what));
        SF_TRY(checked(state, what));
        if (state == ncclSuccess) return SF_OK;
        if (sf_clock_seconds() > end)
            return sf_fail(SF_UNSUPPORTED, "%s over NCCL has not ended after %g seconds", what, link->seconds);
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
}

sf_status sf_cuda_link_open(sf_cuda_link **out, const char *id /* [SF_CUDA_LINK_ID] */, size_t ranks, size_t rank,
                            double seconds) {
    static const char what[] = "connecting";
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId shared;
    int version;
    sf_cuda_link *link;
    *out = NULL;
    SF_TRY(sf_cuda_link_check(&version));
    SF_TRY(SF_NEW(&link, 1));
    link->seconds = seconds;
    config.blocking = 0;
    memcpy(&shared, id, sizeof shared);
    sf_status status = checked(nccl.init(&link->comm, (int)ranks, shared, (int)rank, &config), what);
    if (status == SF_OK) status = settle(link, what);
    if (status != SF_OK)
        sf_cuda_link_close(link);
    else
        *out = link;
    return status;
}

/* Where nothing is under way, at any rank, this is also how a link ends. */
void sf_cuda_link_close(sf_cuda_link *link) {
    if (link == NULL) return;
    if (link->comm != NULL) (void)nccl.abort(link->comm);
    sf_release(link);
}

sf_status sf_cuda_link_begin(sf_cuda_link *link) {
    link->failed = false;
    return checked(nccl.begin(), "exchanging gradients");
}

static sf_status noted(sf_cuda_link *link, ncclResult_t result) {
    const sf_status status = checked(result, "exchanging gradients");
    link->failed |= status != SF_OK;
    return status;
}

sf_status sf_cuda_link_send(sf_cuda_link *link, size_t to, const float *from, size_t count, void *stream) {
    return noted(link, nccl.send(from, count, ncclFloat32, (int)to, link->comm, stream));
}

sf_status sf_cuda_link_receive(sf_cuda_link *link, size_t from, float *to, size_t count, void *stream) {
    return noted(link, nccl.receive(to, count, ncclFloat32, (int)from, link->comm, stream));
}

sf_status sf_cuda_link_end(sf_cuda_link *link) {
    const ncclResult_t result = nccl.end();
    if (link->failed) return SF_IO_ERROR; /* the message is there */
    SF_TRY(checked(result, "exchanging gradients"));
    return result == ncclInProgress ? settle(link, "exchanging gradients") : SF_OK;
}

sf_status sf_cuda_link_state(const sf_cuda_link *link) {
    ncclResult_t state;
    SF_TRY(checked(nccl.state(link->comm, &state), "exchanging gradients"));
    return checked(state, "exchanging gradients");
}
