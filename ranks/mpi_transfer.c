#include "ranks/transfer.h"

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/stop.h"
#include "ranks/mpi_job.h"
#include "semfocus/ranks.h"

enum { BEAT = SF_CHANNELS, STOP }; /* channels of our own */
enum { HOST_SIZE = 64 };

static const double shortest_nap = 20e-6, longest_nap = 1e-3; /* seconds; an eighth of what was waited already */
static const double long_wait = 1, idle_nap = 10e-3;
static const double patience_with_signals = 0.5; /* launchers send a signal to all ranks: it may have reached rank 0 */
static const double pause_while_working = 1e-3;  /* of the thread that keeps messages moving */

pthread_mutex_t sf_mpi_lock = PTHREAD_MUTEX_INITIALIZER;

static struct { /* under the lock, but for the atomics */
    MPI_Comm comm;
    size_t rank, count;
    double limit;             /* seconds without a sign of life */
    char (*hosts)[HOST_SIZE]; /* [count], at rank 0 */
    double *silent;           /* [count] at rank 0: seconds of waiting since the last sign of life */
    double tended;            /* when */
    size_t waiting;           /* calls of sf_transfer_wait under way */
    size_t lost;              /* the rank; 0: none is */

    bool open;
    pthread_t thread;
    atomic_bool ends;
    const atomic_int *flag;
    MPI_Request beat; /* the next one of another rank, or our own last one */
    int beat_number;  /* of a signal; 0: only a sign of life */
    double beat_sent;
    double signalled; /* when we knew of a signal; 0: there was none */
    bool signal_sent;

    uint64_t order, asked, asking; /* being carried out; rank 0 asks to stop this one, and wrote so here */
    atomic_int stop;
    MPI_Request stop_received, *stops_sent; /* [count] */
} all = {.comm = MPI_COMM_NULL};

static void sleep_for(double seconds) {
    nanosleep(
        &(struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))},
        NULL);
}

static bool test(MPI_Request *request) {
    int done;
    MPI_Test(request, &done, MPI_STATUS_IGNORE);
    return done != 0;
}

static void expect_beat(void) {
    MPI_Irecv(&all.beat_number, 1, MPI_INT, MPI_ANY_SOURCE, BEAT, all.comm, &all.beat);
}

/* Signs of life that have arrived at rank 0. A signal that ends one rank ends the job: as if it had come here. */
static void take_beats(void) {
    int done;
    MPI_Status from;
    for (MPI_Test(&all.beat, &done, &from); done; MPI_Test(&all.beat, &done, &from)) {
        all.silent[from.MPI_SOURCE] = 0;
        if (all.beat_number > 0 && !sf_stop_asked(all.flag)) kill(getpid(), all.beat_number);
        expect_beat();
    }
}

/* Time during which this process itself did not run is not counted: others may have been alive. */
static void count_silence(double now) {
    const double passed = now - all.tended;
    for (size_t r = 1; r < all.count && all.waiting > 0 && all.lost == 0; r++) {
        all.silent[r] += passed < 1 ? passed : 1;
        if (all.silent[r] > all.limit) all.lost = r;
    }
}

static void ask_to_stop(void) {
    if (all.order == 0 || all.asked == all.order || !sf_stop_asked(all.flag)) return;
    for (size_t r = 1; r < all.count; r++)
        if (!test(&all.stops_sent[r])) return; /* the number of an earlier order is still being sent */
    all.asked = all.asking = all.order;
    for (size_t r = 1; r < all.count; r++)
        MPI_Isend(&all.asking, 1, MPI_UINT64_T, (int)r, STOP, all.comm, &all.stops_sent[r]);
}

static void expect_stop(void) {
    MPI_Irecv(&all.asked, 1, MPI_UINT64_T, 0, STOP, all.comm, &all.stop_received);
}

/* A request for an order that has not come yet, or is over, is only noted. */
static void take_stop(void) {
    if (!test(&all.stop_received)) return;
    all.asking = all.asked;
    if (all.asking == all.order) atomic_store(&all.stop, 1);
    expect_stop();
}

static void send_beat(double now) {
    const int number = all.flag != NULL ? atomic_load(all.flag) : 0;
    if (number > 0 && all.signalled == 0) all.signalled = now;
    const bool news = number > 0 && !all.signal_sent && now - all.signalled > patience_with_signals;
    if (!test(&all.beat) || (!news && now - all.beat_sent < all.limit / 12)) return;
    all.beat_number = news ? number : 0;
    all.signal_sent |= news;
    all.beat_sent = now;
    MPI_Isend(&all.beat_number, 1, MPI_INT, 0, BEAT, all.comm, &all.beat);
}

/* Whatever is due. MPI moves all other messages on when it is called for any of them. */
static void tend(void) {
    const double now = sf_clock_seconds();
    if (all.rank == 0) {
        take_beats();
        count_silence(now);
        ask_to_stop();
    } else if (all.open) {
        take_stop();
        send_beat(now);
    }
    all.tended = now;
}

static void *keep_moving(void *unused) {
    (void)unused;
    while (!atomic_load(&all.ends)) {
        bool working = true;
        if (pthread_mutex_trylock(&sf_mpi_lock) == 0) { /* if not, someone else calls MPI, which does as well */
            tend();
            working = all.order != 0;
            pthread_mutex_unlock(&sf_mpi_lock);
        }
        sleep_for(working ? pause_while_working : idle_nap);
    }
    return NULL;
}

static MPI_Request to_request(const sf_transfer *transfer) {
    MPI_Request request;
    _Static_assert(sizeof request <= sizeof transfer->request, "a request fits");
    memcpy(&request, &transfer->request, sizeof request);
    return request;
}

static void keep_request(sf_transfer *out, MPI_Request request) {
    memcpy(&out->request, &request, sizeof request);
    out->begun = true;
}

void sf_transfer_send(sf_transfer *out, size_t to, unsigned channel, const void *bytes, size_t size) {
    MPI_Request request;
    pthread_mutex_lock(&sf_mpi_lock);
    MPI_Isend(bytes, (int)size, MPI_BYTE, (int)to, (int)channel, all.comm, &request);
    pthread_mutex_unlock(&sf_mpi_lock);
    keep_request(out, request);
}

void sf_transfer_receive(sf_transfer *out, size_t from, unsigned channel, void *bytes, size_t size) {
    MPI_Request request;
    pthread_mutex_lock(&sf_mpi_lock);
    MPI_Irecv(bytes, (int)size, MPI_BYTE, (int)from, (int)channel, all.comm, &request);
    pthread_mutex_unlock(&sf_mpi_lock);
    keep_request(out, request);
}

static bool complete(sf_transfer *transfer) {
    if (!transfer->begun) return true;
    MPI_Request request = to_request(transfer);
    if (!test(&request)) return false;
    transfer->begun = false;
    return true;
}

bool sf_transfer_is_complete(sf_transfer *transfer) {
    pthread_mutex_lock(&sf_mpi_lock);
    tend();
    const bool done = complete(transfer);
    pthread_mutex_unlock(&sf_mpi_lock);
    return done;
}

static void cancel(MPI_Request *request) {
    if (*request == MPI_REQUEST_NULL) return;
    MPI_Cancel(request);
    MPI_Wait(request, MPI_STATUS_IGNORE);
}

void sf_transfer_forget(sf_transfer *receiving) {
    if (!receiving->begun) return;
    MPI_Request request = to_request(receiving);
    pthread_mutex_lock(&sf_mpi_lock);
    cancel(&request);
    pthread_mutex_unlock(&sf_mpi_lock);
    receiving->begun = false;
}

void sf_transfer_nap(double *waited) {
    double seconds = *waited / 8;
    if (seconds < shortest_nap) seconds = shortest_nap;
    if (seconds > longest_nap) seconds = *waited > long_wait ? idle_nap : longest_nap;
    sleep_for(seconds);
    *waited += seconds;
}

sf_status sf_transfer_check(void) {
    if (all.lost == 0) return SF_OK;
    return sf_fail(SF_IO_ERROR, "rank %zu on %s has not answered for %g seconds", all.lost, all.hosts[all.lost],
                   all.limit);
}

static void begin_waiting(void) {
    pthread_mutex_lock(&sf_mpi_lock);
    if (all.waiting++ == 0)
        for (size_t r = 0; all.rank == 0 && r < all.count; r++) all.silent[r] = 0;
    pthread_mutex_unlock(&sf_mpi_lock);
}

static void end_waiting(void) {
    pthread_mutex_lock(&sf_mpi_lock);
    all.waiting--;
    pthread_mutex_unlock(&sf_mpi_lock);
}

sf_status sf_transfer_wait(sf_transfer *transfers /* [count] */, size_t count) {
    double waited = 0;
    sf_status status = SF_OK;
    begin_waiting();
    for (size_t i = 0; i < count && status == SF_OK;) {
        pthread_mutex_lock(&sf_mpi_lock);
        while (i < count && complete(&transfers[i])) i++;
        if (i < count) tend();
        status = sf_transfer_check();
        pthread_mutex_unlock(&sf_mpi_lock);
        if (i < count && status == SF_OK) sf_transfer_nap(&waited);
    }
    end_waiting();
    return status;
}

sf_status sf_transfer_open(const atomic_int *flag, double seconds) {
    pthread_mutex_lock(&sf_mpi_lock);
    all.flag = flag;
    all.limit = seconds;
    all.open = true;
    all.beat_sent = 0;
    pthread_mutex_unlock(&sf_mpi_lock);
    atomic_store(&all.ends, false);
    sigset_t every, before;
    sigfillset(&every); /* the program's own threads take its signals */
    pthread_sigmask(SIG_SETMASK, &every, &before);
    const int why = pthread_create(&all.thread, NULL, keep_moving, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    all.open = why == 0;
    return why == 0 ? SF_OK
                    : sf_fail(SF_NO_MEMORY, "the system cannot start the thread that keeps messages moving: %s",
                              strerror(why));
}

void sf_transfer_close(void) {
    if (!all.open) return;
    atomic_store(&all.ends, true);
    pthread_join(all.thread, NULL);
    all.open = false;
}

const atomic_int *sf_transfer_begin_order(uint64_t number) {
    pthread_mutex_lock(&sf_mpi_lock);
    all.order = number;
    atomic_store(&all.stop, all.rank > 0 && all.asking == number);
    pthread_mutex_unlock(&sf_mpi_lock);
    return &all.stop;
}

void sf_transfer_end_order(void) {
    pthread_mutex_lock(&sf_mpi_lock);
    all.order = 0;
    pthread_mutex_unlock(&sf_mpi_lock);
}

const char *sf_transfer_host(size_t rank) {
    return all.hosts[rank];
}

sf_status sf_transfer_start(void) {
    int rank, count;
    char host[HOST_SIZE] = "an unknown host";
    MPI_Comm_dup(MPI_COMM_WORLD, &all.comm); /* so that these messages meet no others */
    MPI_Comm_rank(all.comm, &rank);
    MPI_Comm_size(all.comm, &count);
    all.rank = (size_t)rank;
    all.count = (size_t)count;
    if (gethostname(host, sizeof host - 1) != 0) host[sizeof host - 1] = '\0';
    all.beat = all.stop_received = MPI_REQUEST_NULL;
    SF_TRY(SF_NEW(&all.hosts, all.count));
    SF_TRY(SF_NEW(&all.silent, all.count));
    SF_TRY(SF_NEW(&all.stops_sent, all.count));
    for (size_t r = 0; r < all.count; r++) all.stops_sent[r] = MPI_REQUEST_NULL;
    MPI_Gather(host, HOST_SIZE, MPI_CHAR, all.hosts, HOST_SIZE, MPI_CHAR, 0, all.comm);
    if (all.rank == 0)
        expect_beat();
    else
        expect_stop();
    return SF_OK;
}

void sf_transfer_finish(void) {
    if (all.comm == MPI_COMM_NULL) return;
    for (size_t r = 0; r < all.count; r++) MPI_Wait(&all.stops_sent[r], MPI_STATUS_IGNORE);
    if (all.rank == 0)
        cancel(&all.beat);
    else
        MPI_Wait(&all.beat, MPI_STATUS_IGNORE);
    cancel(&all.stop_received);
    MPI_Comm_free(&all.comm);
    sf_release(all.hosts);
    sf_release(all.silent);
    sf_release(all.stops_sent);
}
