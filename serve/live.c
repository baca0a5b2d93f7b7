#include "serve/live.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "report/page.h"
#include "serve/snapshot.h"
#include "store/store.h"
#include "study/study.h"

static const double look_seconds = 1,
                    pause_per_second = 10; /* reading a large store takes at most a tenth of the time */

struct sf_live {
    char folder[SF_PATH_SIZE];
    pthread_mutex_t store_lock; /* of the store, which is used by one thread at a time */
    sf_store *store;            /* NULL: not open */
    pthread_mutex_t lock;       /* of everything below */
    pthread_cond_t news;
    sf_snapshot snapshot;
    bool stopped;
    pthread_t watcher;
    pthread_mutex_t report_lock; /* of the report, which takes a while to make */
    char *report;
    size_t report_size;
    uint64_t report_version;
};

static bool is_missing(const char *folder) {
    char path[SF_PATH_SIZE + 16];
    struct stat about;
    snprintf(path, sizeof path, "%s/runs.db", folder);
    return stat(path, &about) != 0 || about.st_size == 0;
}

/* The store, opened again if it is another one by now; NULL: there is none yet. */
static sf_status reopen(sf_store **store, const char *folder) {
    if (*store != NULL && sf_store_check_place(*store) == SF_OK) return SF_OK;
    sf_store_close(*store);
    *store = NULL;
    if (is_missing(folder)) return SF_OK;
    return sf_store_open(store, folder, SF_STORE_READ);
}

static void look(sf_live *live) {
    bool changed = false;
    char problem[512];
    pthread_mutex_lock(&live->store_lock);
    sf_status status = reopen(&live->store, live->folder);
    pthread_mutex_lock(&live->lock);
    if (status == SF_OK) status = sf_snapshot_update(&live->snapshot, live->store, sf_clock_seconds(), &changed);
    snprintf(problem, sizeof problem, "%s", status != SF_OK ? sf_message() : "");
    if (status != SF_OK) sf_snapshot_fail(&live->snapshot, problem, &changed);
    if (changed) pthread_cond_broadcast(&live->news);
    pthread_mutex_unlock(&live->lock);
    if (status != SF_OK) { /* a store that another process replaces is found again */
        sf_store_close(live->store);
        live->store = NULL;
    }
    pthread_mutex_unlock(&live->store_lock);
}

static struct timespec in_seconds(double seconds) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    const double whole = (double)at.tv_sec + 1e-9 * (double)at.tv_nsec + seconds;
    return (struct timespec){.tv_sec = (time_t)whole, .tv_nsec = (long)(1e9 * (whole - (double)(time_t)whole))};
}

static void *watch(void *context) {
    sf_live *live = context;
    for (;;) {
        const double began = sf_clock_seconds();
        look(live);
        const double rest = pause_per_second * (sf_clock_seconds() - began);
        const struct timespec until = in_seconds(rest > look_seconds ? rest : look_seconds);
        pthread_mutex_lock(&live->lock);
        while (!live->stopped && pthread_cond_timedwait(&live->news, &live->lock, &until) == 0) continue;
        const bool over = live->stopped;
        pthread_mutex_unlock(&live->lock);
        if (over) return NULL;
    }
}

sf_status sf_live_open(sf_live **out, const char *folder) {
    sf_live *live;
    pthread_condattr_t monotonic;
    SF_TRY(SF_NEW(&live, 1));
    snprintf(live->folder, sizeof live->folder, "%s", folder);
    pthread_mutex_init(&live->store_lock, NULL);
    pthread_mutex_init(&live->lock, NULL);
    pthread_mutex_init(&live->report_lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&live->news, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sf_status status = reopen(&live->store, folder); /* a store that cannot be read is refused at once */
    if (status == SF_OK && pthread_create(&live->watcher, NULL, watch, live) != 0)
        status = sf_fail(SF_NO_MEMORY, "no thread left to look at the store '%s'", folder);
    if (status == SF_OK) {
        *out = live;
        return SF_OK;
    }
    sf_store_close(live->store);
    sf_release(live);
    return status;
}

void sf_live_stop(sf_live *live) {
    pthread_mutex_lock(&live->lock);
    live->stopped = true;
    pthread_cond_broadcast(&live->news);
    pthread_mutex_unlock(&live->lock);
}

void sf_live_close(sf_live *live) {
    sf_live_stop(live);
    pthread_join(live->watcher, NULL);
    sf_store_close(live->store);
    sf_snapshot_close(&live->snapshot);
    free(live->report);
    pthread_cond_destroy(&live->news);
    pthread_mutex_destroy(&live->report_lock);
    pthread_mutex_destroy(&live->lock);
    pthread_mutex_destroy(&live->store_lock);
    sf_release(live);
}

bool sf_live_wait(sf_live *live, uint64_t *version, double seconds) {
    const struct timespec until = in_seconds(seconds);
    pthread_mutex_lock(&live->lock);
    while (!live->stopped && live->snapshot.version == *version &&
           pthread_cond_timedwait(&live->news, &live->lock, &until) == 0)
        continue;
    *version = live->snapshot.version;
    const bool goes_on = !live->stopped;
    pthread_mutex_unlock(&live->lock);
    return goes_on;
}

static sf_status no_memory(void) {
    return sf_fail(SF_NO_MEMORY, "no memory left for the live page");
}

/* Closes a stream of open_memstream(); its text is released where something failed. */
static sf_status finish(FILE *out, char **text, sf_status status) {
    const bool whole = ferror(out) == 0;
    const bool closed = fclose(out) == 0;
    if (status == SF_OK && whole && closed) return SF_OK;
    free(*text);
    *text = NULL;
    return status != SF_OK ? status : no_memory();
}

sf_status sf_live_runs(char **out, size_t *size, sf_live *live, uint64_t since) {
    FILE *stream = open_memstream(out, size);
    if (stream == NULL) return no_memory();
    pthread_mutex_lock(&live->lock);
    sf_snapshot_write(stream, &live->snapshot, since);
    pthread_mutex_unlock(&live->lock);
    return finish(stream, out, SF_OK);
}

sf_status sf_live_run(char **out, size_t *size, sf_live *live, const char *id) {
    FILE *stream = open_memstream(out, size);
    if (stream == NULL) return no_memory();
    pthread_mutex_lock(&live->store_lock);
    const sf_status status = live->store != NULL ? sf_live_run_write(stream, live->store, id)
                                                 : sf_fail(SF_BAD_INPUT, "there is no store yet");
    pthread_mutex_unlock(&live->store_lock);
    return finish(stream, out, status);
}

/* The page of `semfocus report`, through a store of its own: the others need not wait for it. */
static sf_status make_report(FILE *out, const char *folder) {
    sf_store *store = NULL;
    sf_study *study = NULL;
    size_t count = 0;
    if (is_missing(folder)) return SF_OK;
    sf_status status = sf_store_open(&store, folder, SF_STORE_READ);
    if (status == SF_OK) status = sf_study_create(&study);
    if (status == SF_OK) status = sf_study_plan_stored(study, store, "");
    if (status == SF_OK) sf_study_runs(study, &count);
    if (status == SF_OK && count > 0) status = sf_study_judge(study, store);
    if (status == SF_OK && count > 0) status = sf_page_print_parts(out, study, store);
    if (status == SF_OK && count > 0) {
        char command[SF_PATH_SIZE + 64];
        snprintf(command, sizeof command, "semfocus report --store %s", folder);
        sf_page_command(out, command, "");
        sf_page_reading(out, study);
    }
    sf_study_destroy(study);
    sf_store_close(store);
    return status;
}

static sf_status renew_report(sf_live *live, uint64_t version) {
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL) return no_memory();
    SF_TRY(finish(stream, &text, make_report(stream, live->folder)));
    free(live->report);
    live->report = text;
    live->report_size = size;
    live->report_version = version;
    return SF_OK;
}

sf_status sf_live_report(char **out, size_t *size, sf_live *live) {
    pthread_mutex_lock(&live->lock);
    const uint64_t version = live->snapshot.finished;
    pthread_mutex_unlock(&live->lock);
    pthread_mutex_lock(&live->report_lock); /* whoever comes meanwhile gets the same one */
    sf_status status = SF_OK;
    if (live->report == NULL || live->report_version != version) status = renew_report(live, version);
    *out = NULL;
    if (status == SF_OK) {
        *size = live->report_size;
        *out = malloc(*size + 1);
        if (*out == NULL) status = no_memory();
    }
    if (*out != NULL && live->report != NULL) memcpy(*out, live->report, *size + 1);
    pthread_mutex_unlock(&live->report_lock);
    return status;
}
