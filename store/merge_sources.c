#include "store/merge_sources.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/stop.h"
#include "base/version.h"
#include "semfocus/labels.h"

enum { MOST_OPEN = 8 }; /* each takes memory for pages and three open files */

static bool find_database(struct stat *about, const char *folder) {
    char path[SF_PATH_SIZE + 16];
    return snprintf(path, sizeof path, "%s/runs.db", folder) < (int)sizeof path && stat(path, about) == 0;
}

static sf_status look_for_database(sf_source *source) {
    struct stat about;
    if (find_database(&about, source->folder)) {
        source->device = about.st_dev;
        source->inode = about.st_ino;
        return SF_OK;
    }
    if (errno != ENOENT && errno != ENOTDIR) return SF_OK; /* opening it says why it cannot be read */
    return sf_fail(SF_BAD_INPUT,
                   "there is no store at '%.300s'; name folders that 'semfocus train' or 'compare' wrote "
                   "as their --store",
                   source->folder);
}

static sf_status refuse_repeated(const sf_sources *sources, const char *into) {
    struct stat target;
    const bool exists = find_database(&target, into);
    for (size_t i = 0; i < sources->count; i++) {
        const sf_source *one = &sources->each[i];
        if (exists && one->device == target.st_dev && one->inode == target.st_ino)
            return sf_fail(SF_BAD_INPUT, "the store '%.300s' is to be merged into itself; leave it out", one->folder);
        for (size_t j = 0; j < i; j++)
            if (one->device == sources->each[j].device && one->inode == sources->each[j].inode)
                return sf_fail(SF_BAD_INPUT, "the stores '%.300s' and '%.300s' are the same; name it once",
                               sources->each[j].folder, one->folder);
    }
    return SF_OK;
}

static sf_status check_numerics(const sf_store *store) {
    int64_t numerics;
    SF_TRY(sf_store_numerics(&numerics, store));
    if (numerics == SF_NUMERICS_VERSION) return SF_OK;
    return sf_fail(SF_UNSUPPORTED,
                   "the store '%s' holds runs of numerics version %lld but this program computes version %d, and one "
                   "store cannot hold both; leave it out",
                   store->folder, (long long)numerics, SF_NUMERICS_VERSION);
}

static void close_source(sf_source *source) {
    sf_store_close(source->store);
    source->store = NULL;
}

static void close_oldest(sf_sources *sources) {
    sf_source *oldest = NULL;
    size_t open = 0;
    for (size_t i = 0; i < sources->count; i++) {
        sf_source *one = &sources->each[i];
        if (one->store == NULL) continue;
        open++;
        if (oldest == NULL || one->used < oldest->used) oldest = one;
    }
    if (open >= MOST_OPEN) close_source(oldest);
}

sf_status sf_sources_lend(sf_store **out, sf_sources *sources, size_t i) {
    sf_source *source = &sources->each[i];
    if (source->store == NULL) {
        close_oldest(sources);
        SF_TRY(sf_store_open(&source->store, source->folder, SF_STORE_READ));
        sf_store_obey(source->store, sources->watch->stop);
        const sf_status status = sf_store_freeze(source->store);
        if (status != SF_OK) {
            close_source(source);
            return status;
        }
    }
    source->used = ++sources->lent;
    *out = source->store;
    return SF_OK;
}

static sf_status hold(sf_sources *sources, const char *id, size_t source) {
    if (*id == '\0') return SF_OK;
    if (sources->holder_count == sources->holder_room) {
        const size_t room = 2 * sources->holder_room + 1024;
        SF_TRY(SF_GROW(&sources->holders, sources->holder_count, room));
        sources->holder_room = room;
    }
    sources->holders[sources->holder_count++] =
        (sf_holder){.key = sf_hash(SF_HASH_START, id, strlen(id)), .source = source};
    return SF_OK;
}

typedef struct collecting {
    int64_t *numbers; /* [room] */
    size_t count, room;
    sf_status status;
} collecting;

static void collect_number(void *context, const sf_stored_run *run) {
    collecting *c = context;
    if (c->status == SF_OK && c->count == c->room) {
        const size_t room = 2 * c->room + 64;
        c->status = SF_GROW(&c->numbers, c->count, room);
        if (c->status == SF_OK) c->room = room;
    }
    if (c->status == SF_OK) c->numbers[c->count++] = run->number;
}

/* The entries of all runs are verified on the way, and the list of them. */
static sf_status list_runs(sf_sources *sources, size_t i, sf_version *version) {
    sf_store *store;
    sf_source *source = &sources->each[i];
    collecting c = {0};
    SF_TRY(sf_sources_lend(&store, sources, i));
    SF_TRY(check_numerics(store));
    if (!store->sealed && sources->watch->on_note != NULL) {
        char note[SF_PATH_SIZE + 128];
        snprintf(note, sizeof note,
                 "the store '%s' was written by an earlier version and has no seals (checksums): damage may go "
                 "unnoticed",
                 store->folder);
        sources->watch->on_note(sources->watch->context, note);
    }
    sf_store_show_archived(store);
    sf_status status = sf_store_each_run(store, NULL, collect_number, &c);
    source->numbers = c.numbers;
    source->count = c.count;
    sources->runs += c.count;
    if (status == SF_OK) status = c.status;
    for (size_t n = 0; n < c.count && status == SF_OK; n++) {
        status = sf_version_read(version, store, c.numbers[n]);
        if (status == SF_OK) status = hold(sources, version->run.id, i);
        if (status == SF_OK && strcmp(version->run.id, version->run.earlier_id) != 0)
            status = hold(sources, version->run.earlier_id, i);
    }
    return status;
}

static int by_key(const void *a, const void *b) {
    const sf_holder *left = a, *right = b;
    if (left->key != right->key) return left->key < right->key ? -1 : 1;
    return (left->source > right->source) - (left->source < right->source);
}

static sf_status list_all(sf_sources *sources, const char *into) {
    sf_version *version;
    for (size_t i = 0; i < sources->count; i++) SF_TRY(look_for_database(&sources->each[i]));
    SF_TRY(refuse_repeated(sources, into));
    SF_TRY(SF_NEW(&version, 1));
    sf_status status = SF_OK;
    for (size_t i = 0; i < sources->count && status == SF_OK; i++) {
        status = list_runs(sources, i, version);
        if (status == SF_OK && sf_stop_asked(sources->watch->stop))
            status = sf_fail(SF_INTERRUPTED, "stopped on request");
    }
    sf_release(version);
    SF_TRY(status);
    if (sources->holder_count > 0) qsort(sources->holders, sources->holder_count, sizeof *sources->holders, by_key);
    return SF_OK;
}

sf_status sf_sources_open(sf_sources *out, const char *const *folders, size_t count, const char *into,
                          const sf_merge_watch *watch) {
    *out = (sf_sources){.count = count, .watch = watch};
    SF_TRY(SF_NEW(&out->each, count));
    for (size_t i = 0; i < count; i++) out->each[i].folder = folders[i];
    return list_all(out, into);
}

void sf_sources_close(sf_sources *sources) {
    for (size_t i = 0; sources->each != NULL && i < sources->count; i++) {
        close_source(&sources->each[i]);
        sf_release(sources->each[i].numbers);
    }
    sf_release(sources->each);
    sf_release(sources->holders);
    *sources = (sf_sources){0};
}

/* The first holder with this key, or with a larger one. */
static size_t first_with(const sf_sources *sources, uint64_t key) {
    size_t low = 0, high = sources->holder_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (sources->holders[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_holder(const sf_sources *sources, uint64_t key, size_t source) {
    for (size_t i = first_with(sources, key); i < sources->holder_count && sources->holders[i].key == key; i++)
        if (sources->holders[i].source == source) return true;
    return false;
}

/* One that has the run under both ids is called for the first. */
sf_status sf_sources_each_holder(const sf_sources *sources, const sf_stored_run *run, size_t before,
                                 sf_status (*each)(void *context, size_t source), void *context) {
    const char *const ids[] = {run->id, run->earlier_id};
    uint64_t keys[2];
    for (size_t n = 0; n < 2; n++) {
        keys[n] = sf_hash(SF_HASH_START, ids[n], strlen(ids[n]));
        for (size_t i = first_with(sources, keys[n]); i < sources->holder_count; i++) {
            const sf_holder *holder = &sources->holders[i];
            if (holder->key != keys[n] || holder->source >= before) break;
            if (n == 0 || !is_holder(sources, keys[0], holder->source)) SF_TRY(each(context, holder->source));
        }
    }
    return SF_OK;
}
