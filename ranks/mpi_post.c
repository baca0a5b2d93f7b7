#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "ranks/mpi_job.h"
#include "ranks/post.h"

enum { TAG = 1 };
static const double tick_seconds = 0.1, shortest_nap = 50e-6, longest_nap = 2e-3;

typedef struct letter {
    struct letter *next;
    size_t to;
    unsigned char *bytes;
    size_t size;
    MPI_Request request;
} letter;

static struct {
    sf_listener listener;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    letter *first, *last; /* not yet given to MPI */
    bool closing;
    double close_by;
    /* The thread's own. */
    letter *leaving; /* given to MPI, in any order */
    letter arriving; /* bytes NULL: none */
    double ticked;
} post = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void drop(letter *one) {
    sf_release(one->bytes);
    sf_release(one);
}

static letter *take_waiting(void) {
    pthread_mutex_lock(&post.lock);
    letter *first = post.first;
    post.first = post.last = NULL;
    pthread_mutex_unlock(&post.lock);
    return first;
}

static bool send_waiting(void) {
    letter *one = take_waiting();
    const bool any = one != NULL;
    while (one != NULL) {
        letter *next = one->next;
        pthread_mutex_lock(&sf_mpi_lock);
        MPI_Isend(one->bytes, (int)one->size, MPI_BYTE, (int)one->to, TAG, sf_mpi_post(), &one->request);
        pthread_mutex_unlock(&sf_mpi_lock);
        one->next = post.leaving;
        post.leaving = one;
        one = next;
    }
    return any;
}

static bool is_complete(MPI_Request *request) {
    int complete;
    pthread_mutex_lock(&sf_mpi_lock);
    MPI_Test(request, &complete, MPI_STATUS_IGNORE);
    pthread_mutex_unlock(&sf_mpi_lock);
    return complete != 0;
}

static void forget_sent(void) {
    for (letter **at = &post.leaving; *at != NULL;) {
        letter *one = *at;
        if (is_complete(&one->request)) {
            *at = one->next;
            drop(one);
        } else {
            at = &one->next;
        }
    }
}

/* Begins to receive the next message, if there is one and memory for it; else it waits where it is. */
static bool begin_to_receive(void) {
    MPI_Message message;
    MPI_Status status;
    int found, size;
    pthread_mutex_lock(&sf_mpi_lock);
    MPI_Improbe(MPI_ANY_SOURCE, TAG, sf_mpi_post(), &found, &message, &status);
    if (found) MPI_Get_count(&status, MPI_BYTE, &size);
    pthread_mutex_unlock(&sf_mpi_lock);
    if (!found) return false;
    post.arriving = (letter){.to = (size_t)status.MPI_SOURCE, .size = (size_t)size};
    while (SF_NEW(&post.arriving.bytes, post.arriving.size) != SF_OK)
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    pthread_mutex_lock(&sf_mpi_lock);
    MPI_Imrecv(post.arriving.bytes, size, MPI_BYTE, &message, &post.arriving.request);
    pthread_mutex_unlock(&sf_mpi_lock);
    return true;
}

/* One message at a time, so that those of a rank keep their order. */
static bool receive(void) {
    if (post.arriving.bytes == NULL && !begin_to_receive()) return false;
    if (!is_complete(&post.arriving.request)) return false;
    letter one = post.arriving;
    post.arriving.bytes = NULL;
    post.listener.on_message(post.listener.context, one.to, one.bytes, one.size);
    sf_release(one.bytes);
    return true;
}

static void tick(void) {
    const double now = sf_clock_seconds();
    if (now - post.ticked < tick_seconds) return;
    post.ticked = now;
    post.listener.on_tick(post.listener.context);
}

/* Until a message is to be sent, but no longer than this. */
static void nap(double seconds) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(1e9 * seconds);
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&post.lock);
    if (post.first == NULL) pthread_cond_timedwait(&post.changed, &post.lock, &until);
    pthread_mutex_unlock(&post.lock);
}

static bool is_over(void) {
    pthread_mutex_lock(&post.lock);
    const bool sent = post.first == NULL && post.leaving == NULL;
    const bool over = post.closing && (sent || sf_clock_seconds() > post.close_by);
    pthread_mutex_unlock(&post.lock);
    return over;
}

static void *work(void *unused) {
    double pause = shortest_nap;
    (void)unused;
    while (!is_over()) {
        bool busy = send_waiting();
        forget_sent();
        busy |= receive();
        tick();
        pause = busy ? shortest_nap : pause * 1.25 < longest_nap ? pause * 1.25 : longest_nap;
        if (!busy) nap(pause);
    }
    return NULL;
}

sf_status sf_post_open(const sf_listener *listener) {
    post.listener = *listener;
    post.closing = false;
    post.ticked = sf_clock_seconds();
    if (pthread_create(&post.thread, NULL, work, NULL) == 0) return SF_OK;
    return sf_fail(SF_NO_MEMORY, "the thread that talks to the other ranks cannot be started; raise the limit on "
                                 "processes (ulimit -u) or on memory (ulimit -v)");
}

static sf_status enclose(letter **out, size_t to, const sf_coder *message) {
    if (message->failed) return sf_fail(SF_NO_MEMORY, "no memory left for a message to rank %zu", to);
    if (message->size > INT_MAX)
        return sf_fail(SF_UNSUPPORTED, "a message of %zu bytes is too long for MPI", message->size);
    SF_TRY(SF_NEW(out, 1));
    **out = (letter){.to = to, .bytes = message->bytes, .size = message->size};
    return SF_OK;
}

sf_status sf_post_send(size_t to, sf_coder *message) {
    letter *one = NULL;
    const sf_status status = enclose(&one, to, message);
    if (status != SF_OK) {
        sf_release(message->bytes);
    } else {
        pthread_mutex_lock(&post.lock);
        if (post.last != NULL)
            post.last->next = one;
        else
            post.first = one;
        post.last = one;
        pthread_cond_signal(&post.changed);
        pthread_mutex_unlock(&post.lock);
    }
    *message = (sf_coder){0};
    return status;
}

void sf_post_close(double seconds) {
    pthread_mutex_lock(&post.lock);
    post.closing = true;
    post.close_by = sf_clock_seconds() + seconds;
    pthread_cond_signal(&post.changed);
    pthread_mutex_unlock(&post.lock);
    pthread_join(post.thread, NULL);
}
