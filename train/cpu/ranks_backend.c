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
    bool failed;        /* a GPU, here or elsewhere */
} leader;

static const atomic_int *stop_flag;     /* of the session */
static bool wants_gpus, cannot_connect; /* the latter once it was tried in vain */
static void (*on_note)(void *context, const char *sentence);
static void *note_context;
static sf_backend backend; /* says where the last run is computed */
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

/* A rank that only waited for others in vain (kernels/cuda/link.h): their failures say more. */
static bool is_late(sf_status status) {
    return status == SF_UNSUPPORTED;
}

/* The first one that failed, if any; of those that are not late if there are such. */
static size_t failed_rank(const leader *l) {
    size_t late = 0;
    for (size_t r = 1; r < rank_count(); r++) {
        if (l->replies[r].status == SF_OK) continue;
        if (!is_late(l->replies[r].status)) return r;
        if (late == 0) late = r;
    }
    return late;
}

static sf_status check_replies(const leader *l) {
    const size_t r = failed_rank(l);
    const sf_reply *reply = &l->replies[r];
    if (r == 0) return SF_OK;
    if (reply->status == SF_INTERRUPTED) return sf_fail(SF_INTERRUPTED, "%s", reply->message);
    return sf_fail(reply->status, "rank %zu on %s: %s", r, sf_transfer_host(r), reply->message);
}

/* What all ranks did together; `why`: the message of a failure at rank 0. */
static sf_status check_all(const leader *l, sf_status here, const char *why) {
    const sf_status elsewhere = check_replies(l);
    if (here == SF_OK || here == SF_INTERRUPTED || (is_late(here) && elsewhere != SF_OK && !is_late(elsewhere)))
        return elsewhere;
    return sf_fail(here, "rank 0 on %s: %s", sf_transfer_host(0), why);
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
    sf_cpu_fleet_share(l->fleet, seconds_of_silence);
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

static sf_status add_elsewhere(leader *l, const sf_member *member, bool on_gpu) {
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
    give_order(l, (sf_order){.kind = SF_ORDER_ADD, .bytes = size, .on_gpu = on_gpu}, bytes);
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

static void say(const char *sentence) {
    if (on_note != NULL) on_note(note_context, sentence);
}

/* Whether GPUs compute the run, and if not where they were asked for, why not. */
static bool go_to_gpus(const sf_member *member) {
    char note[SF_REPLY_SIZE];
    const sf_demand demand = sf_member_demand(member);
    const bool can = wants_gpus && sf_gpu_part_check(&demand) == SF_OK;
    if (wants_gpus && !can) {
        snprintf(note, sizeof note, "%s; it is computed on the CPUs instead", sf_message());
        say(note);
    }
    backend.name = (can ? &sf_backend_cuda : &sf_backend_cpu)->name;
    backend.variant = (can ? &sf_backend_cuda : &sf_backend_cpu)->variant;
    backend.hardware = (can ? &sf_backend_cuda : &sf_backend_cpu)->hardware;
    return can;
}

static sf_status cannot_link(size_t r, const char *why) {
    return sf_fail(SF_UNSUPPORTED, "rank %zu on %s: %s", r, sf_transfer_host(r), why);
}

/* Whether gradients can go from GPU to GPU: every rank has the same NCCL, and a GPU of its own. */
static sf_status check_links(const leader *l) {
    for (size_t r = 0; r < rank_count(); r++) {
        const sf_gpu_about *gpu = &l->replies[r].gpu;
        if (gpu->nccl == 0) return cannot_link(r, gpu->why);
        if (gpu->nccl != l->replies[0].gpu.nccl)
            return cannot_link(r, "its NCCL is another version than that of rank 0");
        for (size_t other = 0; other < r; other++)
            if (strcmp(sf_transfer_host(r), sf_transfer_host(other)) == 0 &&
                strcmp(gpu->name, l->replies[other].gpu.name) == 0)
                return cannot_link(r, "it shares its GPU with another rank");
    }
    return SF_OK;
}

/* All ranks at the same time. */
static sf_status link_all(leader *l) {
    char id[SF_LINK_ID];
    SF_TRY(check_links(l));
    SF_TRY(sf_gpu_part_link_id(id));
    give_order(l, (sf_order){.kind = SF_ORDER_LINK, .bytes = sizeof id}, id);
    const sf_status here = sf_exchange_link(sf_cpu_fleet_exchange(l->fleet), id);
    char why[SF_REPLY_SIZE];
    snprintf(why, sizeof why, "%s", sf_message());
    SF_TRY(hear_replies(l));
    return check_all(l, here, why);
}

/* Where that fails, gradients go through the hosts. */
static sf_status link_gpus(leader *l) {
    SF_TRY(sf_exchange_describe_gpu(&l->replies[0].gpu, sf_cpu_fleet_exchange(l->fleet)));
    if (cannot_connect || link_all(l) == SF_OK) return SF_OK;
    cannot_connect = true;
    char note[SF_REPLY_SIZE + 64];
    snprintf(note, sizeof note, "gradients go over MPI and not over NCCL: %s", sf_message());
    SF_TRY(sf_transfer_check());
    say(note);
    SF_TRY(sf_exchange_link(sf_cpu_fleet_exchange(l->fleet), NULL));
    return have_done(l, (sf_order){.kind = SF_ORDER_LINK}, NULL);
}

static sf_status add(void *opaque, size_t s, sf_member *member) {
    leader *l = opaque;
    const bool on_gpu = go_to_gpus(member);
    sf_cpu_fleet_compute_on(l->fleet, on_gpu);
    SF_TRY(sf_cpu_fleet_add(l->fleet, s, member));
    l->member = member;
    sf_status status = add_elsewhere(l, member, on_gpu);
    if (status == SF_OK && on_gpu) status = link_gpus(l);
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

/* How an epoch or an evaluation went, here and elsewhere. Where a GPU failed, all have given up, and the fleet is lost.
 */
static sf_status agree(leader *l, sf_status here) {
    char why[SF_REPLY_SIZE];
    snprintf(why, sizeof why, "%s", sf_message());
    SF_TRY(sf_transfer_check());
    SF_TRY(hear_replies(l));
    const sf_status status = check_all(l, here, why);
    l->failed = status != SF_OK;
    return status;
}

static sf_status advance(void *opaque, const sf_watch *watch) {
    leader *l = opaque;
    give_order(l, (sf_order){.kind = SF_ORDER_ADVANCE, .result = l->member->result}, NULL);
    sf_transfer_begin_order(l->order.number);
    const sf_status here = sf_cpu_fleet_advance(l->fleet, watch);
    const sf_status status = agree(l, here);
    sf_transfer_end_order();
    SF_TRY(status);
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
    const bool broken = sf_member_check(l->member) != SF_OK;
    SF_TRY(broken ? hear_replies(l) : agree(l, here));
    take_faults(l);
    return sf_member_check(l->member);
}

static size_t one_model(const sf_demand *demand, size_t threads) {
    return demand->work == SF_TRAINING_WORK ? 1 : sf_backend_cpu.models(demand, threads);
}

static sf_status check(sf_precision precision) {
    if (wants_gpus && precision != SF_F32)
        return sf_fail(SF_UNSUPPORTED, "GPUs train one model together (--data-parallel) in f32 alone");
    return sf_backend_cpu.check(precision);
}

static size_t one_fleet(size_t threads, size_t runs) {
    (void)threads, (void)runs;
    return 1;
}

static bool share_fleet(const sf_demand *a, const sf_demand *b) {
    return a->precision == b->precision;
}

static sf_status alive(void *fleet) {
    const leader *l = fleet;
    SF_TRY(sf_transfer_check());
    return l->failed ? sf_fail(SF_IO_ERROR, "a GPU of one of the ranks failed") : SF_OK;
}

bool sf_ranks_share_model(const sf_execution *execution) {
    return execution != NULL && execution->data_parallel != 0 && rank_count() > 1;
}

sf_status sf_ranks_device(sf_device *device) {
    if (*device == SF_CUDA) return sf_backend_check(SF_CUDA, SF_F32);
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

void sf_ranks_note_to(void (*say_it)(void *context, const char *sentence), void *context) {
    on_note = say_it;
    note_context = context;
}

const sf_backend *sf_ranks_backend(const atomic_int *stop, double timeout, sf_device device) {
    stop_flag = stop;
    seconds_of_silence = timeout;
    wants_gpus = device == SF_CUDA;
    backend = sf_backend_cpu;
    backend.check = check;
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
