#include "semfocus/shard.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "train/automatic.h"

static sf_status refuse(const char *text) {
    char quoted[SF_QUOTE_SIZE];
    return sf_fail_on(SF_BAD_INPUT, "shard",
                      "shard is '%s' but must be I/N, part I of N, such as 2/3: I from 1 to N, N up to %d",
                      sf_text_quote(quoted, text), (int)SF_MOST_SHARDS);
}

sf_status sf_shard_parse(sf_shard *out, const char *text) {
    char index[16];
    int64_t numbers[2];
    const char *slash = strchr(text, '/');
    const size_t length = slash != NULL ? (size_t)(slash - text) : sizeof index;
    if (length >= sizeof index) return refuse(text);
    memcpy(index, text, length);
    index[length] = '\0';
    if (!sf_text_integer(&numbers[0], index) || !sf_text_integer(&numbers[1], slash + 1)) return refuse(text);
    if (numbers[0] < 1 || numbers[0] > numbers[1] || numbers[1] > SF_MOST_SHARDS) return refuse(text);
    *out = (sf_shard){.index = (size_t)numbers[0], .count = (size_t)numbers[1]};
    return SF_OK;
}

typedef struct dealt { /* a run of the plan */
    const char *id;
    size_t index, place; /* in the list; of the first run with this id, counted from 1 */
    double work;
} dealt;

static int by_id(const void *a, const void *b) {
    const dealt *left = a, *right = b;
    const int order = strcmp(left->id, right->id);
    return order != 0 ? order : (left->index > right->index) - (left->index < right->index);
}

static int by_work(const void *a, const void *b) {
    const dealt *left = a, *right = b;
    if (left->work != right->work) return left->work > right->work ? -1 : 1;
    return (left->index > right->index) - (left->index < right->index);
}

static double work_of(const sf_planned_run *run) {
    sf_workload work = {0};
    sf_workload_add_run(&work, &run->config, run->attention, (double)run->config.epochs);
    return work.flops;
}

/* Equal runs become one, the first, which takes as long as the longest of them. Returns how many are left. */
static size_t drop_repeated(dealt *each, size_t count) {
    size_t kept = 0;
    qsort(each, count, sizeof *each, by_id);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || strcmp(each[kept - 1].id, each[i].id) != 0)
            each[kept++] = each[i];
        else if (each[i].work > each[kept - 1].work)
            each[kept - 1].work = each[i].work;
    }
    return kept;
}

typedef struct load { /* of a shard */
    double work;
    size_t shard;
} load;

static bool is_before(const load *a, const load *b) {
    return a->work != b->work ? a->work < b->work : a->shard < b->shard;
}

/* Puts the top of a heap where it belongs. */
static void sink(load *heap, size_t count) {
    for (size_t at = 0;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
            if (is_before(&heap[child], &heap[least])) least = child;
        if (least == at) return;
        const load moved = heap[at];
        heap[at] = heap[least];
        heap[least] = moved;
        at = least;
    }
}

/* Marks the runs of the shard: their place is kept, that of others becomes 0. */
static sf_status deal(dealt *each, size_t count, const sf_shard *shard) {
    load *loads;                                                       /* a heap, the least first */
    const size_t shards = shard->count < count ? shard->count : count; /* the others get nothing */
    SF_TRY(SF_NEW(&loads, shards));
    for (size_t s = 0; s < shards; s++) loads[s].shard = s + 1;
    qsort(each, count, sizeof *each, by_work);
    for (size_t i = 0; i < count; i++) {
        if (loads[0].shard != shard->index) each[i].place = 0;
        loads[0].work += each[i].work;
        sink(loads, shards);
    }
    sf_release(loads);
    return SF_OK;
}

static int by_id_alone(const void *a, const void *b) {
    return strcmp(((const dealt *)a)->id, ((const dealt *)b)->id);
}

sf_status sf_shard_deal(size_t *places, sf_share *share, const sf_planned_run *runs, size_t count,
                        const sf_shard *shard) {
    dealt *each;
    *share = (sf_share){0};
    SF_TRY(SF_NEW(&each, count));
    for (size_t i = 0; i < count; i++)
        each[i] = (dealt){.id = runs[i].id, .index = i, .place = i + 1, .work = work_of(&runs[i])};
    share->all = drop_repeated(each, count);
    const sf_status status = deal(each, share->all, shard);
    if (share->all > 0) qsort(each, share->all, sizeof *each, by_id);
    for (size_t i = 0; i < share->all; i++) share->runs += each[i].place > 0;
    for (size_t i = 0; i < count; i++) {
        const dealt wanted = {.id = runs[i].id};
        const dealt *found = bsearch(&wanted, each, share->all, sizeof *each, by_id_alone);
        places[i] = found != NULL ? found->place : 0;
    }
    sf_release(each);
    return status;
}
