/* Fleets on one GPU. Same bits as the CPU: kernels/cuda follows docs/numerics.md. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "base/stop.h"
#include "train/cuda/evaluator.h"
#include "train/cuda/member.h"
#include "train/numerics.h"

enum { MOST_MEMBERS = 512, MOST_GPUS = 16 };
static const double share_of_free = 0.9; /* for a fleet */
static const double reserve = 0.05;      /* of all memory, for graphs and evaluators */

typedef struct gpu_fleet {
    size_t gpu;
    sf_cuda_fleet *fleet;
    sf_member **members; /* [capacity], NULL: the place is free */
    size_t capacity;
} gpu_fleet;

static struct {
    pthread_mutex_t lock;
    size_t fleets[MOST_GPUS]; /* that are open there */
    bool lost[MOST_GPUS];
} gpus = {.lock = PTHREAD_MUTEX_INITIALIZER};

static sf_status gpu_check(sf_precision precision) {
    (void)precision; /* a GPU that the kernels run on has tensor cores */
    return sf_cuda_check();
}

static struct {
    pthread_once_t once;
    char names[SF_TF32 + 1][SF_NUMERICS_SIZE];
} numerics = {.once = PTHREAD_ONCE_INIT};

static void name_numerics(void) {
    for (int i = SF_F32; i <= SF_TF32; i++)
        sf_numerics_spell(numerics.names[i], (sf_precision)i, sf_cuda_architecture());
}

static const char *gpu_numerics(sf_precision precision) {
    pthread_once(&numerics.once, name_numerics);
    return numerics.names[precision];
}

static const char *gpu_variant(sf_precision precision) {
    (void)precision;
    return sf_cuda_architecture();
}

static sf_status gpu_supports(const sf_demand *demand) {
    SF_TRY(gpu_check(demand->precision));
    if (demand->evaluates_part)
        return sf_fail(SF_UNSUPPORTED, "there is no CUDA kernel for the setting evaluate-count");
    return sf_cuda_supports(demand->shape, demand->precision);
}

static bool gpu_share_fleet(const sf_demand *a, const sf_demand *b) {
    const sf_shape *s = a->shape, *t = b->shape;
    return s->C == t->C && s->F == t->F && s->H == t->H && s->D == t->D && s->L == t->L &&
           a->precision == b->precision && sf_cuda_takes_whole(s) == sf_cuda_takes_whole(t);
}

/* Sizes are those of a model with as many sequences as the demand has at most. */
static sf_status gpu_bytes(size_t *out, const sf_demand *demand) {
    sf_model model;
    SF_TRY(sf_model_create(&model, demand->shape));
    *out = sf_cuda_bytes(&(sf_cuda_model){.model = &model,
                                          .training = {.count = demand->sequences},
                                          .heldout = {.count = demand->sequences},
                                          .batch = demand->batch,
                                          .optimizer = demand->optimizer,
                                          .moments = demand->moments});
    sf_model_destroy(&model);
    return SF_OK;
}

static size_t gpu_count(void) {
    return sf_larger(1, sf_smaller(sf_cuda_devices(), MOST_GPUS));
}

/* The caller holds the lock. */
static size_t least_used_gpu(void) {
    size_t least = 0;
    for (size_t i = 1; i < gpu_count(); i++)
        if (!gpus.lost[i] && (gpus.lost[least] || gpus.fleets[i] < gpus.fleets[least])) least = i;
    return least;
}

static size_t gpu_models(const sf_demand *demand, size_t threads) {
    (void)threads;
    if (demand->work != SF_TRAINING_WORK) return sf_gpu_evaluator_models(demand);
    size_t bytes;
    pthread_mutex_lock(&gpus.lock);
    const size_t next = least_used_gpu();
    pthread_mutex_unlock(&gpus.lock);
    if (sf_cuda_use(next) != SF_OK || gpu_bytes(&bytes, demand) != SF_OK || bytes == 0) return 1;
    const size_t room = (size_t)(share_of_free * (double)sf_cuda_free_memory()) / bytes;
    return room < 1 ? 1 : sf_smaller(room, MOST_MEMBERS);
}

static double gpu_peak(sf_precision precision, size_t threads) {
    (void)threads;
    return sf_cuda_peak_gflops(precision);
}

/* One for each GPU. */
static size_t gpu_fleets(size_t threads, size_t runs) {
    (void)threads;
    size_t working = 0;
    pthread_mutex_lock(&gpus.lock);
    for (size_t i = 0; i < gpu_count(); i++) working += !gpus.lost[i];
    pthread_mutex_unlock(&gpus.lock);
    return sf_larger(1, sf_smaller(working, runs));
}

static sf_status use_gpu_of(const gpu_fleet *fleet) {
    return sf_cuda_use(fleet->gpu);
}

static sf_status gpu_alive(void *opaque) {
    const gpu_fleet *fleet = opaque;
    sf_status status = use_gpu_of(fleet);
    if (status == SF_OK) status = sf_cuda_alive();
    if (status == SF_OK) return status;
    pthread_mutex_lock(&gpus.lock);
    gpus.lost[fleet->gpu] = true;
    pthread_mutex_unlock(&gpus.lock);
    return status;
}

static void gpu_fleet_close(void *opaque) {
    gpu_fleet *fleet = opaque;
    if (fleet == NULL) return;
    (void)use_gpu_of(fleet);
    sf_cuda_fleet_close(fleet->fleet);
    pthread_mutex_lock(&gpus.lock);
    gpus.fleets[fleet->gpu]--;
    pthread_mutex_unlock(&gpus.lock);
    sf_release(fleet->members);
    sf_release(fleet);
}

static sf_status gpu_fleet_open(void **out, const sf_demand *demand, size_t capacity, size_t threads) {
    (void)threads;
    *out = NULL;
    gpu_fleet *fleet;
    SF_TRY(SF_NEW(&fleet, 1));
    fleet->capacity = capacity;
    pthread_mutex_lock(&gpus.lock);
    fleet->gpu = least_used_gpu();
    gpus.fleets[fleet->gpu]++;
    pthread_mutex_unlock(&gpus.lock);
    sf_status status = use_gpu_of(fleet);
    if (status == SF_OK) status = SF_NEW(&fleet->members, capacity);
    if (status == SF_OK) status = sf_cuda_fleet_open(&fleet->fleet, capacity, demand->precision);
    if (status != SF_OK) {
        gpu_fleet_close(fleet);
        return status;
    }
    *out = fleet;
    return SF_OK;
}

static bool is_empty(const gpu_fleet *fleet) {
    for (size_t s = 0; s < fleet->capacity; s++)
        if (fleet->members[s] != NULL) return false;
    return true;
}

static sf_status does_not_fit(const sf_cuda_model *model) {
    static const double mib = 1024.0 * 1024.0;
    return sf_fail(SF_NO_MEMORY, "a model of %zu positions needs %.1f MiB of the GPU's memory and %.1f MiB are free",
                   model->model->shape.T, (double)sf_cuda_bytes(model) / mib, (double)sf_cuda_free_memory() / mib);
}

/* A model alone may take all there is. */
static sf_status add_if_it_fits(const gpu_fleet *fleet, size_t s, const sf_cuda_model *model) {
    const double left = (double)sf_cuda_free_memory() - (double)sf_cuda_bytes(model);
    if (left < reserve * (double)sf_cuda_all_memory() && !is_empty(fleet)) return does_not_fit(model);
    const sf_status status = sf_cuda_fleet_add(fleet->fleet, s, model);
    if (status != SF_NO_MEMORY) return status;
    sf_cuda_forget_error();
    return does_not_fit(model);
}

static sf_status gpu_fleet_add(void *opaque, size_t s, sf_member *member) {
    gpu_fleet *fleet = opaque;
    sf_gpu_model model;
    SF_TRY(use_gpu_of(fleet));
    sf_status status = sf_gpu_model_open(&model, member);
    if (status == SF_OK) status = add_if_it_fits(fleet, s, &model.model);
    if (status == SF_OK) fleet->members[s] = member;
    sf_gpu_model_close(&model);
    return status;
}

static sf_status gpu_fleet_remove(void *opaque, size_t s) {
    gpu_fleet *fleet = opaque;
    SF_TRY(use_gpu_of(fleet));
    sf_cuda_fleet_remove(fleet->fleet, s);
    fleet->members[s] = NULL;
    return SF_OK;
}

static bool takes_part(const sf_member *member) {
    return member != NULL && member->result.status == SF_RUN_RUNNING;
}

static sf_status prepare(const gpu_fleet *fleet, size_t s) {
    const size_t epoch = fleet->members[s]->result.last.epoch + 1;
    sf_gpu_epoch plan;
    sf_status status = sf_gpu_epoch_open(&plan, fleet->members[s], epoch);
    if (status == SF_OK) status = sf_cuda_fleet_prepare(fleet->fleet, s, epoch, plan.order, plan.rates);
    sf_gpu_epoch_close(&plan);
    return status;
}

static sf_status read_row(sf_epoch *row, size_t *diverged_step, const gpu_fleet *fleet, size_t s) {
    sf_cuda_result result;
    SF_TRY(sf_cuda_fleet_result(&result, fleet->fleet, s));
    *diverged_step = result.diverged_step;
    row->train_loss = result.train_loss;
    row->train_accuracy = 100.0 * (double)result.train_correct / (double)result.train_labelled;
    row->heldout_loss = result.heldout_loss;
    row->heldout_accuracy = 100.0 * (double)result.heldout_correct / (double)result.heldout_labelled;
    return SF_OK;
}

static sf_status settle(const gpu_fleet *fleet, size_t s) {
    sf_result *result = &fleet->members[s]->result;
    sf_epoch row = {.epoch = result->last.epoch + 1};
    size_t diverged_step;
    SF_TRY(read_row(&row, &diverged_step, fleet, s));
    if (diverged_step == 0 && isfinite(row.train_loss) && isfinite(row.heldout_loss)) {
        result->last = row;
        return SF_OK;
    }
    result->status = SF_RUN_DIVERGED;
    result->diverged_epoch = row.epoch;
    result->diverged_step = diverged_step;
    return sf_cuda_fleet_undo(fleet->fleet, s);
}

static sf_status advance(gpu_fleet *fleet, const sf_watch *watch) {
    SF_TRY(use_gpu_of(fleet));
    for (size_t s = 0; s < fleet->capacity; s++)
        if (takes_part(fleet->members[s])) SF_TRY(prepare(fleet, s));
    const sf_status status = sf_cuda_fleet_advance(fleet->fleet, watch != NULL ? watch->stop : NULL);
    if (status != SF_OK && status != SF_INTERRUPTED) return status;
    for (size_t s = 0; s < fleet->capacity; s++)
        if (takes_part(fleet->members[s]))
            SF_TRY(status == SF_OK ? settle(fleet, s) : sf_cuda_fleet_undo(fleet->fleet, s));
    return status == SF_OK ? SF_OK : sf_fail(SF_INTERRUPTED, "stopped on request");
}

static sf_status gpu_fleet_advance(void *opaque, const sf_watch *watch) {
    char message[512];
    const sf_status status = advance(opaque, watch);
    if (status == SF_OK || status == SF_INTERRUPTED) return status;
    snprintf(message, sizeof message, "%s", sf_message());
    (void)gpu_alive(opaque); /* notes that it is lost, if it is */
    return sf_fail(status, "%s", message);
}

static sf_status gpu_fleet_read(void *opaque, size_t s, size_t block, float *values /* [size] */) {
    gpu_fleet *fleet = opaque;
    SF_TRY(use_gpu_of(fleet));
    return sf_cuda_fleet_read(fleet->fleet, s, block, values);
}

static sf_status gpu_fleet_write(void *opaque, size_t s, size_t block, const float *values /* [size] */) {
    gpu_fleet *fleet = opaque;
    SF_TRY(use_gpu_of(fleet));
    return sf_cuda_fleet_write(fleet->fleet, s, block, values);
}

static sf_status gpu_fleet_evaluate(void *opaque, size_t s, sf_epoch *out) {
    gpu_fleet *fleet = opaque;
    size_t diverged_step;
    SF_TRY(use_gpu_of(fleet));
    SF_TRY(sf_cuda_fleet_evaluate(fleet->fleet, s));
    return read_row(out, &diverged_step, fleet, s);
}

static sf_status gpu_fleet_seconds(void *opaque, sf_epoch_seconds *out) {
    const gpu_fleet *fleet = opaque;
    return sf_cuda_fleet_seconds(&out->training, &out->evaluation, fleet->fleet);
}

const sf_backend sf_backend_cuda = {
    .version = SF_BACKEND_VERSION,
    .name = "cuda",
    .summary =
        "a fleet of models at a time on an NVIDIA GPU: f32 with the bits of the CPU, tf32 and bf16 on tensor cores",
    .check = gpu_check,
    .numerics = gpu_numerics,
    .variant = gpu_variant,
    .supports = gpu_supports,
    .share_fleet = gpu_share_fleet,
    .models = gpu_models,
    .bytes_per_model = gpu_bytes,
    .fleets = gpu_fleets,
    .peak_gflops = gpu_peak,
    .fleet_open = gpu_fleet_open,
    .fleet_close = gpu_fleet_close,
    .fleet_add = gpu_fleet_add,
    .fleet_remove = gpu_fleet_remove,
    .fleet_advance = gpu_fleet_advance,
    .fleet_read = gpu_fleet_read,
    .fleet_write = gpu_fleet_write,
    .fleet_evaluate = gpu_fleet_evaluate,
    .evaluator_open = sf_gpu_evaluator_open,
    .evaluator_close = sf_gpu_evaluator_close,
    .evaluator_obey = sf_gpu_evaluator_obey,
    .evaluator_workers = sf_gpu_evaluator_workers,
    .evaluate = sf_gpu_evaluator_evaluate,
    .observe = sf_gpu_evaluator_observe,
    .gradient = sf_gpu_evaluator_gradient,
    .step = sf_gpu_evaluator_step,
    .fleet_seconds = gpu_fleet_seconds,
    .hardware = sf_cuda_name,
    .alive = gpu_alive,
};
