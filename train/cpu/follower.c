/* A rank other than 0: it has a copy of the fleet that rank 0 trains, and does with it what rank 0 orders. */
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "ranks/transfer.h"
#include "semfocus/plugin.h"
#include "semfocus/ranks.h"
#include "semfocus/version.h"
#include "train/cpu/cpu_backend.h"
#include "train/cpu/orders.h"
#include "train/ranks_backend.h"

typedef struct follower {
    const atomic_int *stop; /* set once rank 0 was asked to stop */
    void *fleet;
    sf_member *member;
    char *bytes; /* of the order, if it has any */
    sf_reply reply;
} follower;

static const int signals[2] = {SIGINT, SIGTERM};
static atomic_int signalled; /* the number of the last one */

static sf_status open_fleet(follower *f, const sf_order *order) {
    if (strcmp(order->version, SF_VERSION) != 0)
        return sf_fail(SF_BAD_INPUT, "its program is version %s, but that of rank 0 is %.31s; install the same one",
                       SF_VERSION, order->version);
    SF_TRY(sf_transfer_open(&signalled, order->timeout));
    SF_TRY(sf_cpu_fleet_open(&f->fleet, &(sf_demand){.precision = order->precision}, 1, order->threads));
    sf_cpu_fleet_share(f->fleet, order->timeout);
    return SF_OK;
}

static sf_status load_plugins(const char *at, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t hash;
        memcpy(&hash, at, sizeof hash);
        const char *path = at + sizeof hash;
        SF_TRY(sf_plugin_load(path));
        const sf_plugin_file *file = sf_plugin_file_at(i);
        if (file == NULL || file->hash != hash)
            return sf_fail(SF_BAD_INPUT, "the plug-in '%s' is another file here than at rank 0; copy it", path);
        at = path + strlen(path) + 1;
    }
    return SF_OK;
}

static sf_status add_member(follower *f, const sf_order *order) {
    const sf_ordered_member *ordered = (const sf_ordered_member *)(const void *)f->bytes;
    assert(ordered != NULL);
    SF_TRY(load_plugins(f->bytes + sizeof *ordered, ordered->plugins));
    SF_TRY(sf_member_create(&f->member, ordered->task, &ordered->config, NULL, 0, f->stop));
    if (sf_member_data_hash(f->member) != ordered->data_hash)
        return sf_fail(SF_BAD_INPUT, "the data of '%s' is not the same here as at rank 0; copy the files",
                       ordered->task);
    if (order->on_gpu) SF_TRY(sf_backend_check(SF_CUDA, SF_F32));
    sf_cpu_fleet_compute_on(f->fleet, order->on_gpu);
    SF_TRY(sf_cpu_fleet_add(f->fleet, 0, f->member));
    return order->on_gpu ? sf_exchange_describe_gpu(&f->reply.gpu, sf_cpu_fleet_exchange(f->fleet)) : SF_OK;
}

static void remove_member(follower *f) {
    if (f->member == NULL) return;
    (void)sf_cpu_fleet_remove(f->fleet, 0);
    sf_member_destroy(f->member);
    f->member = NULL;
}

static void close_fleet(follower *f) {
    remove_member(f);
    sf_cpu_fleet_close(f->fleet);
    f->fleet = NULL;
    sf_transfer_close();
}

/* A mechanism that broke its rules is no failure of the epoch: rank 0 asks for it afterwards. */
static void report_fault(follower *f) {
    f->reply.broken = sf_member_check(f->member) != SF_OK;
    if (f->reply.broken) snprintf(f->reply.message, sizeof f->reply.message, "%s", sf_message());
}

static sf_status advance(follower *f, const sf_order *order) {
    const sf_watch watch = {.stop = f->stop};
    assert(f->member != NULL);
    f->member->result = order->result;
    const sf_status status = sf_cpu_fleet_advance(f->fleet, &watch);
    report_fault(f);
    f->reply.weights_hash = sf_cpu_fleet_hash(f->fleet, 0);
    return status == SF_INTERRUPTED ? SF_OK : status; /* rank 0 knows */
}

static sf_status evaluate(follower *f) {
    sf_epoch unused;
    const sf_status status = sf_cpu_fleet_evaluate(f->fleet, 0, &unused);
    report_fault(f);
    return f->reply.broken || status == SF_INTERRUPTED ? SF_OK : status; /* rank 0 knows */
}

static sf_status carry_out(follower *f, const sf_order *order) {
    switch (order->kind) {
    case SF_ORDER_OPEN:
        return open_fleet(f, order);
    case SF_ORDER_ADD:
        return add_member(f, order);
    case SF_ORDER_LINK:
        return sf_exchange_link(sf_cpu_fleet_exchange(f->fleet), f->bytes);
    case SF_ORDER_WRITE:
        return sf_cpu_fleet_write(f->fleet, 0, order->block, (const float *)(const void *)f->bytes);
    case SF_ORDER_ADVANCE:
        return advance(f, order);
    case SF_ORDER_EVALUATE:
        return evaluate(f);
    case SF_ORDER_REMOVE:
        remove_member(f);
        return SF_OK;
    case SF_ORDER_CLOSE:
    case SF_ORDER_RELEASE:
        break; /* the fleet is closed after the reply: until then rank 0 expects signs of life */
    }
    return SF_OK;
}

static sf_status receive_bytes(follower *f, const sf_order *order) {
    sf_transfer heard = {0};
    if (order->bytes == 0) return SF_OK;
    SF_TRY(SF_NEW(&f->bytes, order->bytes));
    sf_transfer_receive(&heard, 0, sf_order_channel(order), f->bytes, order->bytes);
    return sf_transfer_wait(&heard, 1);
}

static void serve(follower *f, const sf_order *order) {
    sf_transfer told = {0};
    f->reply = (sf_reply){.number = order->number};
    f->stop = sf_transfer_begin_order(order->number);
    sf_status status = receive_bytes(f, order);
    if (status == SF_OK) status = carry_out(f, order);
    sf_transfer_end_order();
    f->reply.status = status;
    if (status != SF_OK) snprintf(f->reply.message, sizeof f->reply.message, "%s", sf_message());
    sf_release(f->bytes);
    f->bytes = NULL;
    sf_transfer_send(&told, 0, SF_REPLIES, &f->reply, sizeof f->reply);
    (void)sf_transfer_wait(&told, 1);
    if (order->kind == SF_ORDER_CLOSE) close_fleet(f);
}

static void on_signal(int number) {
    atomic_store(&signalled, number);
}

/* Signals are passed on to rank 0, which decides. */
static void catch_signals(struct sigaction before[2]) {
    const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    for (size_t i = 0; i < 2; i++) sigaction(signals[i], &action, &before[i]);
}

static void restore_signals(const struct sigaction before[2]) {
    for (size_t i = 0; i < 2; i++) sigaction(signals[i], &before[i], NULL);
}

void sf_ranks_follow(void) {
    follower f = {0};
    sf_order order = {0};
    struct sigaction before[2];
    catch_signals(before);
    while (order.kind != SF_ORDER_RELEASE) {
        sf_transfer heard = {0};
        sf_transfer_receive(&heard, 0, SF_ORDERS, &order, sizeof order);
        (void)sf_transfer_wait(&heard, 1); /* fails at rank 0 alone */
        if (order.kind != SF_ORDER_RELEASE) serve(&f, &order);
    }
    close_fleet(&f);
    restore_signals(before);
}
