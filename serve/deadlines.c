#include "serve/deadlines.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"

struct sf_deadline {
    sf_deadlines *all;
    int socket; /* -1: the place is free */
    bool waits;
    double since;
};

struct sf_deadlines {
    pthread_mutex_t lock;
    pthread_cond_t end;
    pthread_t thread;
    double seconds;
    bool ends;
    size_t count;
    sf_deadline places[]; /* [count] */
};

/* The thread of the connection sees the end of what it reads, and closes it. */
static void close_late_ones(sf_deadlines *d) {
    const double now = sf_clock_seconds();
    for (size_t i = 0; i < d->count; i++) {
        sf_deadline *place = &d->places[i];
        if (place->socket < 0 || !place->waits || now - place->since <= d->seconds) continue;
        shutdown(place->socket, SHUT_RDWR);
        place->waits = false;
    }
}

static void *watch(void *context) {
    sf_deadlines *d = context;
    pthread_mutex_lock(&d->lock);
    while (!d->ends) {
        struct timespec next;
        close_late_ones(d);
        clock_gettime(CLOCK_MONOTONIC, &next);
        next.tv_sec++;
        pthread_cond_timedwait(&d->end, &d->lock, &next);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

sf_status sf_deadlines_open(sf_deadlines **out, size_t most_connections, double seconds) {
    pthread_condattr_t monotonic;
    void *room;
    *out = NULL;
    SF_TRY(sf_allocate(&room, 1, sizeof(sf_deadlines) + most_connections * sizeof(sf_deadline)));
    sf_deadlines *d = room;
    d->seconds = seconds;
    d->count = most_connections;
    for (size_t i = 0; i < d->count; i++) d->places[i] = (sf_deadline){.all = d, .socket = -1};
    pthread_mutex_init(&d->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&d->end, &monotonic);
    pthread_condattr_destroy(&monotonic);
    const int why = pthread_create(&d->thread, NULL, watch, d);
    if (why == 0) {
        *out = d;
        return SF_OK;
    }
    pthread_cond_destroy(&d->end);
    pthread_mutex_destroy(&d->lock);
    sf_release(d);
    return sf_fail(SF_IO_ERROR, "cannot start a thread for the server: %s", strerror(why));
}

void sf_deadlines_close(sf_deadlines *d) {
    if (d == NULL) return;
    pthread_mutex_lock(&d->lock);
    d->ends = true;
    pthread_cond_signal(&d->end);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    pthread_cond_destroy(&d->end);
    pthread_mutex_destroy(&d->lock);
    sf_release(d);
}

sf_deadline *sf_deadline_begin(sf_deadlines *d, int socket) {
    sf_deadline *place = NULL;
    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < d->count && place == NULL; i++)
        if (d->places[i].socket < 0) place = &d->places[i];
    if (place != NULL) {
        place->socket = socket;
        place->waits = true;
        place->since = sf_clock_seconds();
    }
    pthread_mutex_unlock(&d->lock);
    return place;
}

static void set(sf_deadline *place, int socket, bool waits) {
    if (place == NULL) return;
    pthread_mutex_lock(&place->all->lock);
    place->socket = socket;
    place->waits = waits;
    place->since = sf_clock_seconds();
    pthread_mutex_unlock(&place->all->lock);
}

void sf_deadline_pause(sf_deadline *place) {
    if (place != NULL) set(place, place->socket, false);
}

void sf_deadline_renew(sf_deadline *place) {
    if (place != NULL) set(place, place->socket, true);
}

void sf_deadline_end(sf_deadline *place) {
    set(place, -1, false);
}
