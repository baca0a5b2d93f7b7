/* Stands in for libnccl.so.2 between processes whose GPUs are emulated: the functions that kernels/cuda/link.c uses,
 * over files in $FAKE_NCCL. A message is a file that its receiver removes. As with the real library, a group is over
 * once all it sends was received, so two ranks that call in different orders wait for ever.
 *
 * When a communicator ends, the rank writes the file RANK.sent into $FAKE_NCCL: "groups G floats F".
 * Failures on purpose: FAKE_NCCL_RANK is the rank that has them, and FAKE_NCCL_FAILURE says which:
 *   missing   it is an old version
 *   init      connecting fails there
 *   absent    it never connects
 *   call      its 7th group is refused
 *   async     its 7th group fails after a while, and takes no place
 *   hang      its 7th group takes no place */
#include <fcntl.h>
#include <nccl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 64, MOST_MESSAGES = 256, BAD_GROUP = 7, PATH_SIZE = 512 };

typedef struct message {
    bool sent;
    int peer;
    const void *from;
    void *to;
    size_t bytes;
    unsigned number; /* of those between the two, in this direction */
} message;

typedef struct group { /* of messages that take place together */
    ncclComm_t comm;
    cudaStream_t stream;
    size_t count;
    message messages[MOST_MESSAGES];
} group;

struct ncclComm {
    char place[128];
    int rank, ranks;
    bool connected;
    unsigned sent[MOST_RANKS], received[MOST_RANKS];
    unsigned groups;
    size_t floats;
    atomic_bool ends;
    atomic_int state, under_way;
};

static group *open_group;
static int depth;

static bool fails(const struct ncclComm *comm, const char *how) {
    const char *rank = getenv("FAKE_NCCL_RANK"), *failure = getenv("FAKE_NCCL_FAILURE");
    return rank != NULL && failure != NULL && strtol(rank, NULL, 10) == comm->rank && strcmp(failure, how) == 0;
}

static void nap(void) {
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

ncclResult_t ncclGetVersion(int *version) {
    const char *rank = getenv("FAKE_NCCL_RANK"), *failure = getenv("FAKE_NCCL_FAILURE");
    const char *own = getenv("OMPI_COMM_WORLD_RANK") != NULL ? getenv("OMPI_COMM_WORLD_RANK") : getenv("PMI_RANK");
    const bool old =
        rank != NULL && failure != NULL && own != NULL && strcmp(rank, own) == 0 && strcmp(failure, "missing") == 0;
    *version = old ? 21200 : 22809;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    memset(id, 0, sizeof *id);
    if (getenv("FAKE_NCCL") == NULL) return ncclInvalidUsage;
    snprintf(id->internal, sizeof id->internal, "%s/XXXXXX", getenv("FAKE_NCCL"));
    return mkdtemp(id->internal) != NULL ? ncclSuccess : ncclSystemError;
}

static void write_file(const char *path, const void *bytes, size_t size) {
    char partial[PATH_SIZE + 8];
    snprintf(partial, sizeof partial, "%s.part", path);
    FILE *file = fopen(partial, "wb");
    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0 || rename(partial, path) != 0) {
        perror(path);
        abort();
    }
}

static bool exists(const char *path) {
    return access(path, F_OK) == 0;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config) {
    struct ncclComm *comm = calloc(1, sizeof *comm);
    if (comm == NULL || ranks > MOST_RANKS || config->blocking != 0) {
        free(comm);
        return ncclInvalidArgument;
    }
    memcpy(comm->place, id.internal, sizeof comm->place);
    comm->rank = rank;
    comm->ranks = ranks;
    *out = comm;
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/rank-%d", comm->place, rank);
    if (fails(comm, "init"))
        atomic_store(&comm->state, ncclSystemError);
    else if (!fails(comm, "absent"))
        write_file(path, "", 0);
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state) {
    char path[PATH_SIZE];
    *state = (ncclResult_t)atomic_load(&comm->state);
    if (comm->connected || *state != ncclSuccess) return ncclSuccess;
    comm->connected = true;
    for (int r = 0; r < comm->ranks; r++) {
        snprintf(path, sizeof path, "%s/rank-%d", comm->place, r);
        comm->connected &= exists(path);
    }
    if (!comm->connected) *state = ncclInProgress;
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
    char path[PATH_SIZE], text[64];
    atomic_store(&comm->ends, true);
    while (atomic_load(&comm->under_way) > 0) nap();
    snprintf(path, sizeof path, "%s.%d.sent", comm->place, comm->rank);
    snprintf(text, sizeof text, "groups %u floats %zu\n", comm->groups, comm->floats);
    write_file(path, text, strlen(text));
    free(comm);
    return ncclSuccess;
}

static void path_of(char path[PATH_SIZE], const struct ncclComm *comm, const message *m) {
    snprintf(path, PATH_SIZE, "%s/%d-%d-%u", comm->place, m->sent ? comm->rank : m->peer,
             m->sent ? m->peer : comm->rank, m->number);
}

static void receive(struct ncclComm *comm, const message *m, const char *path) {
    FILE *file = fopen(path, "rb");
    struct stat about;
    if (file == NULL || fstat(fileno(file), &about) != 0 || (size_t)about.st_size != m->bytes ||
        fread(m->to, 1, m->bytes, file) != m->bytes) {
        fprintf(stderr, "%s: not the %zu bytes that are received\n", path, m->bytes);
        atomic_store(&comm->state, ncclInternalError);
    }
    if (file != NULL) fclose(file);
    unlink(path);
}

/* In the stream's order. */
static void take_place(void *data) {
    group *g = data;
    struct ncclComm *comm = g->comm;
    char path[PATH_SIZE];
    bool done[MOST_MESSAGES] = {false};
    const bool bad = comm->groups >= BAD_GROUP && (fails(comm, "async") || fails(comm, "hang"));
    for (size_t i = 0; i < g->count && !bad; i++) {
        if (!g->messages[i].sent) continue;
        path_of(path, comm, &g->messages[i]);
        write_file(path, g->messages[i].from, g->messages[i].bytes);
    }
    for (size_t left = g->count; left > 0 && !atomic_load(&comm->ends); nap()) {
        if (bad) {
            if (fails(comm, "async")) atomic_store(&comm->state, ncclRemoteError);
            continue;
        }
        for (size_t i = 0; i < g->count; i++) {
            if (done[i]) continue;
            path_of(path, comm, &g->messages[i]);
            if (exists(path) == g->messages[i].sent) continue;
            if (!g->messages[i].sent) receive(comm, &g->messages[i], path);
            done[i] = true;
            left--;
        }
    }
    free(g);
    atomic_fetch_sub(&comm->under_way, 1);
}

ncclResult_t ncclGroupStart(void) {
    if (depth++ > 0) return ncclSuccess;
    open_group = calloc(1, sizeof *open_group);
    return open_group != NULL ? ncclSuccess : ncclSystemError;
}

static ncclResult_t add(message m, ncclComm_t comm, cudaStream_t stream) {
    if (depth == 0 || open_group->count == MOST_MESSAGES || m.peer < 0 || m.peer >= comm->ranks ||
        m.peer == comm->rank || (open_group->count > 0 && open_group->stream != stream))
        return ncclInvalidUsage;
    open_group->comm = comm;
    open_group->stream = stream;
    m.number = (m.sent ? comm->sent : comm->received)[m.peer]++;
    open_group->messages[open_group->count++] = m;
    if (m.sent) comm->floats += m.bytes / sizeof(float);
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int to, ncclComm_t comm,
                      cudaStream_t stream) {
    if (type != ncclFloat32) return ncclInvalidArgument;
    return add((message){.sent = true, .peer = to, .from = from, .bytes = count * sizeof(float)}, comm, stream);
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int from, ncclComm_t comm, cudaStream_t stream) {
    if (type != ncclFloat32) return ncclInvalidArgument;
    return add((message){.peer = from, .to = to, .bytes = count * sizeof(float)}, comm, stream);
}

ncclResult_t ncclGroupEnd(void) {
    if (depth == 0) return ncclInvalidUsage;
    if (--depth > 0) return ncclSuccess;
    group *g = open_group;
    open_group = NULL;
    if (g->count == 0) {
        free(g);
        return ncclSuccess;
    }
    struct ncclComm *comm = g->comm;
    if (++comm->groups >= BAD_GROUP && fails(comm, "call")) {
        free(g);
        return ncclSystemError;
    }
    atomic_fetch_add(&comm->under_way, 1);
    return cudaLaunchHostFunc(g->stream, take_place, g) == cudaSuccess ? ncclInProgress : ncclInternalError;
}

const char *ncclGetErrorString(ncclResult_t result) {
    switch (result) {
    case ncclSuccess:
        return "no error";
    case ncclSystemError:
        return "unhandled system error";
    case ncclRemoteError:
        return "remote process exited or there was a network error";
    default:
        return "another error";
    }
}
