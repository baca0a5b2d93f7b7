/* The CPUs of several ranks that train one model together: rank 0's side. Its calls are those of the CPU backend, which
 * every other rank makes, too, on its own copy of the fleet (train/cpu/follower.c). */
#include "train/ranks_backend.h"

#include <stdio.h>
#include <string.h>

#include "ranks/transfer.h"
#include "semfocus/plugin.h"
#include "semfocus/ranks.h"
#include "semfocus/version.h"
#include "train/cpu/cpu_backend.h"
#include "train/cpu/orders.h"

typedef struct leader {
    void *fleet;        /* of the CPU backend */
    sf_member *member;  /* NULL: none has joined */
    sf_transfer *sent;  /* [2,ranks] */
    sf_transfer *heard; /* [ranks] */
    sf_reply *replies;  /* [ranks] */
    sf_order order;     /* the last one */
} leader;

static const atomic_int *stop_flag; /* of the session */
static double seconds_of_silence;
static uint64_t orders_given;

static size_t rank_count(void) {
    return sf_ranks_count();
}

static void give_order(leader *l, sf_order order, const void *bytes) {
    order.number = ++orders_given;
    snprintf(order.version, sizeof order.version, "%s", SF_VERSION);
    l->order = order;
    for (size_t r = 1; r < rank_count(); r++) {
        sf_transfer_send(&l->sent[r], r, SF_ORDERS, &l->order, sizeof l->order);
        if (order.bytes > 0)
            sf_transfer_send(&l->sent[rank_count() + r], r, sf_order_channel(&order), bytes, order.bytes);
        sf_transfer_receive(&l->heard[r], r, SF_REPLIES, &l->replies[r], sizeof l->replies[r]);
    }
}

static sf_status hear_replies(leader *l) {
    SF_TRY(sf_transfer_wait(l->sent, 2 * rank_count()));
    return sf_transfer_wait(l->heard, rank_count());
}

/* The first failure, with the rank that had it. */
static sf_status check_replies(const leader *l) {
    for (size_t r = 1; r < rank_count(); r++) {
        const sf_reply *reply = &l->replies[r];
        if (reply->status == SF_OK) continue;
        if (reply->status == SF_INTERRUPTED) return sf_fail(SF_INTERRUPTED, "%s", reply->message);
        return sf_fail(reply->status, "rank %zu on %s: %s", r, sf_transfer_host(r), reply->message);
    }
    return SF_OK;
}

/* An order that takes no time of rank 0's own. */
static sf_status have_done(leader *l, sf_order order, const void *bytes) {
    give_order(l, order, bytes);
    SF_TRY(hear_replies(l));
    return check_replies(l);
}

static void close_fleet(void *opaque) {
    leader *l = opaque;
    if (l == NULL) return;
    if (l->fleet != NULL && sf_transfer_check() == SF_OK) (void)have_done(l, (sf_order){.kind = SF_ORDER_CLOSE}, NULL);
    sf_cpu_fleet_close(l->fleet);
    sf_transfer_close();
    sf_release(l->sent);
    sf_release(l->heard);
    sf_release(l->replies);
    sf_release(l);
}

static sf_status open_here(leader *l, const sf_demand *demand, size_t capacity, size_t threads) {
    SF_TRY(SF_NEW(&l->sent, 2 * rank_count()));
    SF_TRY(SF_NEW(&l->heard, rank_count()));
    SF_TRY(SF_NEW(&l->replies, rank_count()));
    SF_TRY(sf_transfer_open(stop_flag, seconds_of_silence));
    SF_TRY(sf_cpu_fleet_open(&l->fleet, demand, capacity, threads));
    sf_cpu_fleet_share(l->fleet);
    return SF_OK;
}

static sf_status open_fleet(void **out, const sf_demand *demand, size_t capacity, size_t threads) {
    *out = NULL;
    leader *l;
    SF_TRY(SF_NEW(&l, 1));
    sf_status status = open_here(l, demand, capacity, threads);
    if (status == SF_OK)
        status = have_done(l,
                           (sf_order){.kind = SF_ORDER_OPEN,
                                      .precision = demand->precision,
                                      .threads = threads,
                                      .timeout = seconds_of_silence},
                           NULL);
    if (status == SF_OK)
        *out = l;
    else
        close_fleet(l);
    return status;
}

static size_t bytes_of_plugins(size_t *count) {
    const sf_plugin_file *file;
    size_t bytes = 0;
    for (*count = 0; (file = sf_plugin_file_at(*count)) != NULL; ++*count)
        bytes += sizeof file->hash + strlen(file->path) + 1;
    return bytes;
}

static void write_plugins(char *at) {
    const sf_plugin_file *file;
    for (size_t i = 0; (file = sf_plugin_file_at(i)) != NULL; i++) {
        memcpy(at, &file->hash, sizeof file->hash);
        strcpy(at + sizeof file->hash, file->path);
        at += sizeof file->hash + strlen(file->path) + 1;
    }
}

static sf_status add_elsewhere(leader *l, const sf_member *member) {
    size_t plugins;
    char *bytes;
    const size_t size = sizeof(sf_ordered_member) + bytes_of_plugins(&plugins);
    SF_TRY(SF_NEW(&bytes, size));
    sf_ordered_member *ordered = (sf_ordered_member *)(void *)bytes;
    *ordered =
        (sf_ordered_member){.config = member->config, .data_hash = sf_member_data_hash(member), .plugins = plugins};
    char place[SF_PATH_SIZE];
    snprintf(ordered->task, sizeof ordered->task, "%s", sf_run_data_place(place, sf_member_task(member)));
    write_plugins(bytes + sizeof *ordered);
    give_order(l, (sf_order){.kind = SF_ORDER_ADD, .bytes = size}, bytes);
    sf_transfer_begin_order(l->order.number);
    sf_status status = hear_replies(l);
    sf_transfer_end_order();
    if (status == SF_OK) status = check_replies(l);
    sf_release(bytes);
    return status;
}

static sf_status remove_everywhere(leader *l) {
    l->member = NULL;
    SF_TRY(sf_cpu_fleet_remove(l->fleet, 0));
    SF_TRY(sf_transfer_check());
    return have_done(l, (sf_order){.kind = SF_ORDER_REMOVE}, NULL);
}

static sf_status add(void *opaque, size_t s, sf_member *member) {
    leader *l = opaque;
    SF_TRY(sf_cpu_fleet_add(l->fleet, s, member));
    l->member = member;
    const sf_status status = add_elsewhere(l, member);
    if (status == SF_OK) return SF_OK;
    char why[SF_REPLY_SIZE];
    snprintf(why, sizeof why, "%s", sf_message());
    (void)remove_everywhere(l);
    return sf_fail(status, "%s", why);
}

static sf_status remove_member(void *opaque, size_t s) {
    (void)s;
    return remove_everywhere(opaque);
}

/* A rule that was broken elsewhere counts as broken here. */
static void take_faults(const leader *l) {
    for (size_t r = 1; r < rank_count(); r++)
        if (l->replies[r].broken) sf_attention_record_fault(&l->member->model.shape.attention, l->replies[r].message);
}

/* A rank that computed something else would be a fault of the machine or of this program; nothing of it is stored. */
static sf_status compare_weights(const leader *l, uint64_t hash) {
    for (size_t r = 1; r < rank_count(); r++)
        if (l->replies[r].weights_hash != hash)
            return sf_fail(SF_IO_ERROR,
                           "rank %zu on %s has other weights than rank 0 after the same epoch; one of the two machines "
                           "computes wrongly",
                           r, sf_transfer_host(r));
    return SF_OK;
}

static sf_status advance(void *opaque, const sf_watch *watch) {
    leader *l = opaque;
    give_order(l, (sf_order){.kind = SF_ORDER_ADVANCE, .result = l->member->result}, NULL);
    sf_transfer_begin_order(l->order.number);
    const sf_status here = sf_cpu_fleet_advance(l->fleet, watch);
    const sf_status elsewhere = here == SF_OK || here == SF_INTERRUPTED ? hear_replies(l) : here;
    sf_transfer_end_order();
    SF_TRY(elsewhere);
    take_faults(l);
    SF_TRY(compare_weights(l, sf_cpu_fleet_hash(l->fleet, 0)));
    return here == SF_INTERRUPTED ? sf_fail(SF_INTERRUPTED, "stopped on request") : SF_OK;
}

static sf_status read_block(void *opaque, size_t s, size_t block, float *values /* [size] */) {
    const leader *l = opaque;
    return sf_cpu_fleet_read(l->fleet, s, block, values);
}

static sf_status write_block(void *opaque, size_t s, size_t block, const float *values /* [size] */) {
    leader *l = opaque;
    SF_TRY(sf_cpu_fleet_write(l->fleet, s, block, values));
    const sf_order order = {.kind = SF_ORDER_WRITE, .block = block, .bytes = l->member->model.size * sizeof *values};
    return have_done(l, order, values);
}

static sf_status evaluate(void *opaque, size_t s, sf_epoch *out) {
    leader *l = opaque;
    give_order(l, (sf_order){.kind = SF_ORDER_EVALUATE}, NULL);
    const sf_status here = sf_cpu_fleet_evaluate(l->fleet, s, out);
    SF_TRY(hear_replies(l));
    take_faults(l);
    SF_TRY(here);
    return sf_member_check(l->member);
}

static size_t one_model(const sf_demand *demand, size_t threads) {
    return demand->work == SF_TRAINING_WORK ? 1 : sf_backend_cpu.models(demand, threads);
}

static size_t one_fleet(size_t threads, size_t runs) {
    (void)threads, (void)runs;
    return 1;
}

static bool share_fleet(const sf_demand *a, const sf_demand *b) {
    return a->precision == b->precision;
}

static sf_status alive(void *fleet) {
    (void)fleet;
    return sf_transfer_check();
}

bool sf_ranks_share_model(const sf_execution *execution) {
    return execution != NULL && execution->data_parallel != 0 && rank_count() > 1;
}

sf_status sf_ranks_device(sf_device *device) {
    if (*device == SF_CUDA)
        return sf_fail_on(
            SF_UNSUPPORTED, "data-parallel",
            "data-parallel is yes and device is cuda, but %zu processes train one model on CPUs only; use "
            "--device cpu, or leave out --data-parallel",
            rank_count());
    *device = SF_CPU;
    return SF_OK;
}

void sf_ranks_release(void) {
    const sf_order order = {.kind = SF_ORDER_RELEASE};
    sf_transfer told = {0};
    for (size_t r = 1; r < rank_count() && sf_transfer_check() == SF_OK; r++) {
        sf_transfer_send(&told, r, SF_ORDERS, &order, sizeof order);
        (void)sf_transfer_wait(&told, 1);
    }
}

const sf_backend *sf_ranks_backend(const atomic_int *stop, double timeout) {
    static sf_backend backend;
    stop_flag = stop;
    seconds_of_silence = timeout;
    backend = sf_backend_cpu;
    backend.models = one_model;
    backend.fleets = one_fleet;
    backend.share_fleet = share_fleet;
    backend.fleet_open = open_fleet;
    backend.fleet_close = close_fleet;
    backend.fleet_add = add;
    backend.fleet_remove = remove_member;
    backend.fleet_advance = advance;
    backend.fleet_read = read_block;
    backend.fleet_write = write_block;
    backend.fleet_evaluate = evaluate;
    backend.alive = alive;
    backend.is_last = true;
    return &backend;
}
