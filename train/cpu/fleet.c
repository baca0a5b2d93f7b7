/* Fleets on CPU cores. Models use workspaces in turn; each is large enough for every model. */
#include <assert.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/hash.h"
#include "base/sizes.h"
#include "base/stop.h"
#include "base/threads.h"
#include "ranks/node.h"
#include "ranks/transfer.h"
#include "train/batch.h"
#include "train/cpu/cpu_backend.h"
#include "train/optimizer.h"

typedef struct trained_model { /* one member's */
    sf_member *member;         /* NULL: the place is free */
    sf_demand demand;
    sf_cpu_plan *plan;
    size_t block_count;
    float *blocks[SF_MOST_BLOCKS]; /* [size] each: weights, and what the optimizer keeps */
    float *before[SF_MOST_BLOCKS]; /* as they were before the current epoch */
    sf_exchange *exchange;         /* with the other ranks that train it; NULL: this process alone */
} trained_model;

typedef struct workspace { /* for one model at a time */
    sf_cpu_team *team;
    float *gradient; /* [size] */
    uint32_t *order; /* [training sequences] */
    sf_batch_room room;
} workspace;

typedef struct workspace_size {
    size_t batch, size, positions, sequences;
} workspace_size;

typedef struct cpu_fleet {
    trained_model *models; /* [capacity] */
    size_t capacity;
    bool shared; /* with other ranks: */
    double patience;
    bool on_gpu; /* members that join from now on */
    sf_cpu_layout layout;
    workspace *workspaces; /* [layout.workspaces] */
    workspace_size room;   /* of each; 0: there are none yet */
} cpu_fleet;

static void close_workspaces(workspace *workspaces, size_t count) {
    for (size_t i = 0; workspaces != NULL && i < count; i++) {
        sf_cpu_team_destroy(workspaces[i].team);
        sf_release(workspaces[i].gradient);
        sf_release(workspaces[i].order);
        sf_batch_room_close(&workspaces[i].room);
    }
    sf_release(workspaces);
}

static void close_model(trained_model *m) {
    sf_exchange_destroy(m->exchange);
    sf_cpu_plan_destroy(m->plan);
    for (size_t i = 0; i < SF_MOST_BLOCKS; i++) {
        sf_release(m->blocks[i]);
        sf_release(m->before[i]);
    }
    *m = (trained_model){0};
}

void sf_cpu_fleet_close(void *opaque) {
    cpu_fleet *fleet = opaque;
    if (fleet == NULL) return;
    for (size_t s = 0; fleet->models != NULL && s < fleet->capacity; s++) close_model(&fleet->models[s]);
    close_workspaces(fleet->workspaces, fleet->layout.workspaces);
    sf_release(fleet->models);
    sf_release(fleet);
}

sf_status sf_cpu_fleet_open(void **out, const sf_demand *demand, size_t capacity, size_t threads) {
    *out = NULL;
    SF_TRY(sf_cpu_check_isa(demand->precision));
    cpu_fleet *fleet;
    SF_TRY(SF_NEW(&fleet, 1));
    fleet->capacity = capacity;
    fleet->layout = sf_cpu_layout_for(capacity, threads);
    sf_status status = SF_NEW(&fleet->models, capacity);
    if (status == SF_OK) status = sf_threads_start(fleet->layout.workspaces);
    if (status != SF_OK) {
        sf_cpu_fleet_close(fleet);
        return status;
    }
    *out = fleet;
    return SF_OK;
}

void sf_cpu_fleet_share(void *opaque, double patience) {
    cpu_fleet *fleet = opaque;
    fleet->shared = true;
    fleet->patience = patience;
}

void sf_cpu_fleet_compute_on(void *opaque, bool gpu) {
    cpu_fleet *fleet = opaque;
    fleet->on_gpu = gpu;
}

sf_exchange *sf_cpu_fleet_exchange(void *opaque) {
    const cpu_fleet *fleet = opaque;
    return fleet->models[0].exchange;
}

static workspace_size size_for(const sf_demand *demand, const sf_model *model) {
    return (workspace_size){
        .batch = demand->batch, .size = model->size, .positions = model->shape.T, .sequences = demand->sequences};
}

static workspace_size larger_of(workspace_size a, workspace_size b) {
    return (workspace_size){.batch = sf_larger(a.batch, b.batch),
                            .size = sf_larger(a.size, b.size),
                            .positions = sf_larger(a.positions, b.positions),
                            .sequences = sf_larger(a.sequences, b.sequences)};
}

static bool fits(const cpu_fleet *fleet, const trained_model *m) {
    const workspace_size size = size_for(&m->demand, &m->member->model), room = fleet->room;
    return size.batch <= room.batch && size.size <= room.size && size.positions <= room.positions &&
           size.sequences <= room.sequences && sf_cpu_team_fits(fleet->workspaces[0].team, m->plan, size.batch);
}

static sf_status open_workspace(workspace *out, const workspace_size *size, sf_cpu_plan *const *plans, size_t count,
                                size_t workers) {
    SF_TRY(sf_cpu_team_create(&out->team, plans, count, workers, size->batch));
    SF_TRY(SF_NEW(&out->gradient, size->size));
    SF_TRY(SF_NEW(&out->order, size->sequences));
    return sf_batch_room_open(&out->room, size->batch, size->positions);
}

/* New workspaces that are large enough for every member take the place of the old ones. */
static sf_status enlarge(cpu_fleet *fleet) {
    sf_cpu_plan **plans;
    size_t count = 0;
    workspace *larger = NULL;
    workspace_size room = {0};
    SF_TRY(SF_NEW(&plans, fleet->capacity));
    for (size_t s = 0; s < fleet->capacity; s++) {
        const trained_model *m = &fleet->models[s];
        if (m->member == NULL) continue;
        plans[count++] = m->plan;
        room = larger_of(room, size_for(&m->demand, &m->member->model));
    }
    sf_status status = SF_NEW(&larger, fleet->layout.workspaces);
    for (size_t i = 0; i < fleet->layout.workspaces && status == SF_OK; i++)
        status = open_workspace(&larger[i], &room, plans, count, fleet->layout.workers);
    sf_release(plans);
    if (status == SF_OK) {
        workspace *old = fleet->workspaces;
        fleet->workspaces = larger;
        fleet->room = room;
        larger = old;
    }
    close_workspaces(larger, fleet->layout.workspaces);
    return status;
}

static sf_status open_model(trained_model *m, sf_member *member) {
    m->member = member;
    m->demand = sf_member_demand(member);
    m->block_count = 1 + m->demand.moments;
    SF_TRY(sf_cpu_plan_create(&m->plan, &member->model, m->demand.precision));
    for (size_t i = 0; i < m->block_count; i++) {
        SF_TRY(SF_NEW(&m->blocks[i], member->model.size));
        SF_TRY(SF_NEW(&m->before[i], member->model.size));
    }
    sf_model_initialize(m->blocks[0], &member->model, (uint32_t)member->config.seed);
    return SF_OK;
}

typedef struct evaluated { /* sequences of a set, spread evenly: usually all */
    const sf_dataset *data;
    sf_split split;
    size_t count;
} evaluated;

static evaluated evaluated_of(const sf_member *member, sf_split split) {
    const sf_dataset *data = split == SF_TRAINING ? member->data->training : member->data->heldout;
    const size_t all = sf_dataset_count(data), asked = (size_t)member->config.evaluate_count;
    return (evaluated){data, split, split == SF_TRAINING && asked > 0 ? sf_smaller(asked, all) : all};
}

static size_t sequence_of(const evaluated *set, size_t n) {
    return n * sf_dataset_count(set->data) / set->count;
}

sf_status sf_cpu_fleet_add(void *opaque, size_t s, sf_member *member) {
    cpu_fleet *fleet = opaque;
    trained_model *m = &fleet->models[s];
    sf_status status = open_model(m, member);
    if (status == SF_OK && fleet->shared)
        status = sf_exchange_create(&m->exchange, &member->model, m->demand.batch,
                                    evaluated_of(member, SF_TRAINING).count + evaluated_of(member, SF_HELDOUT).count);
    if (status == SF_OK && fleet->on_gpu)
        status = sf_exchange_use_gpu(m->exchange, member, sf_node_place(), fleet->patience);
    else if (status == SF_OK && (fleet->workspaces == NULL || !fits(fleet, m)))
        status = enlarge(fleet);
    if (status != SF_OK) close_model(m);
    return status;
}

sf_status sf_cpu_fleet_remove(void *opaque, size_t s) {
    cpu_fleet *fleet = opaque;
    close_model(&fleet->models[s]);
    return SF_OK;
}

sf_status sf_cpu_fleet_bytes(size_t *out, const sf_demand *demand) {
    sf_model model;
    sf_cpu_plan *plan;
    SF_TRY(sf_model_create(&model, demand->shape));
    const sf_status status = sf_cpu_plan_create(&plan, &model, demand->precision);
    const workspace_size size = size_for(demand, &model);
    if (status == SF_OK)
        *out = 2 * (1 + demand->moments) * size.size * sizeof(float) + sf_cpu_team_bytes(plan, 1, size.batch) +
               size.size * sizeof(float) + size.sequences * sizeof(uint32_t) +
               sf_batch_room_bytes(size.batch, size.positions);
    sf_cpu_plan_destroy(plan);
    sf_model_destroy(&model);
    return status;
}

/* Writes sequence `i` as row n of the batch. */
static void place(const workspace *at, size_t n, const sf_member *member, const sf_dataset *data, size_t i) {
    sf_batch_room_place(&at->room, n, member->data, data, i, &member->model.shape);
}

typedef enum ending {
    COMPLETE,
    DIVERGED,
    STOPPED,
    BROKEN, /* the rules, by its mechanism */
    FAILED, /* a GPU of one of the ranks */
    LOST    /* another rank is */
} ending;

static ending given_up(const trained_model *m, sf_status status) {
    if (m->exchange != NULL && sf_exchange_has_failed(m->exchange)) return FAILED;
    if (status != SF_INTERRUPTED) return LOST;
    if (m->exchange != NULL) return sf_exchange_is_broken(m->exchange) ? BROKEN : STOPPED;
    return sf_attention_is_faulty(&m->member->model.shape.attention) ? BROKEN : STOPPED;
}

typedef struct epoch_watch { /* of one member */
    const sf_watch *watch;   /* may be NULL */
    size_t s;
} epoch_watch;

static const atomic_int *stop_of(const sf_watch *watch) {
    return watch != NULL ? watch->stop : NULL;
}

static bool has_gpu(const trained_model *m) {
    return m->exchange != NULL && sf_exchange_has_gpu(m->exchange);
}

/* The GPU has the data, the order and the weights. */
static ending train_epoch_on_gpu(trained_model *m, size_t epoch, const epoch_watch *watched) {
    sf_member *member = m->member;
    const sf_watch *watch = watched->watch;
    const size_t count = sf_dataset_count(member->data->training), B = (size_t)member->config.batch;
    const size_t steps = (count + B - 1) / B;
    sf_exchange_gpu_begin(m->exchange, m->blocks, epoch);
    for (size_t step = 0; step < steps; step++) {
        double loss;
        bool finite;
        const sf_status status =
            sf_exchange_gpu_step(m->exchange, &loss, &finite, m->plan, sf_smaller(count - step * B, B), stop_of(watch));
        if (status != SF_OK) return given_up(m, status);
        if (!isfinite(loss) || !finite) {
            member->result.diverged_step = step + 1;
            return DIVERGED;
        }
        if (watch != NULL && watch->on_step != NULL) watch->on_step(watch->context, watched->s, step + 1, steps);
    }
    return COMPLETE;
}

static ending train_epoch(const workspace *at, trained_model *m, size_t epoch, const epoch_watch *watched) {
    sf_member *member = m->member;
    const sf_watch *watch = watched->watch;
    const sf_config *config = &member->config;
    const sf_dataset *data = member->data->training;
    const size_t count = sf_dataset_count(data), B = (size_t)config->batch, steps = (count + B - 1) / B;
    sf_epoch_order(at->order, count, (uint32_t)config->seed, (uint32_t)epoch);
    for (size_t step = 0; step < steps; step++) {
        if (m->exchange == NULL && sf_stop_asked(stop_of(watch))) return STOPPED; /* ranks stop together, in a step */
        const size_t first = step * B, now = sf_smaller(count - first, B);
        for (size_t n = 0; n < now; n++) place(at, n, member, data, at->order[first + n]);
        const sf_batch batch = sf_batch_room_read(&at->room, now);
        const sf_moment moment = {
            .seed = (uint32_t)config->seed, .epoch = (uint32_t)epoch, .step = (uint32_t)step, .training = true};
        const sf_update update = {.config = config,
                                  .lr = sf_learning_rate(config, epoch, step, steps),
                                  .step = (epoch - 1) * steps + step + 1};
        sf_cpu_step done;
        const sf_status status = sf_cpu_train_step(at->team, &done, at->gradient, m->plan, &member->model, m->blocks,
                                                   &update, &batch, &moment, stop_of(watch), m->exchange);
        if (status != SF_OK) return given_up(m, status);
        if (!isfinite(done.loss) || !isfinite(done.norm)) {
            member->result.diverged_step = step + 1;
            return DIVERGED;
        }
        if (watch != NULL && watch->on_step != NULL) watch->on_step(watch->context, watched->s, step + 1, steps);
    }
    return COMPLETE;
}

/* The results are invalid once a stop was requested. */
static void evaluate(double *loss, double *accuracy, const workspace *at, const trained_model *m, const evaluated *set,
                     const atomic_int *stop) {
    const size_t count = set->count;
    double total = 0;
    size_t correct = 0, labelled = 0;
    for (size_t first = 0; first < count && !sf_stop_asked(stop); first += SF_EVALUATION_BATCH) {
        const size_t now = sf_smaller(count - first, SF_EVALUATION_BATCH);
        for (size_t n = 0; n < now; n++) place(at, n, m->member, set->data, sequence_of(set, first + n));
        const sf_batch batch = sf_batch_room_read(&at->room, now);
        const sf_moment moment = sf_evaluation_moment((uint32_t)m->member->config.seed, set->split, first);
        sf_evaluation part;
        sf_cpu_evaluate(at->team, &part, NULL, m->plan, m->blocks[0], &batch, &moment);
        total += part.loss;
        correct += part.correct;
        labelled += part.labelled;
    }
    *loss = total / (double)labelled;
    *accuracy = 100.0 * (double)correct / (double)labelled;
}

static ending judge(const sf_epoch *row) {
    return isfinite(row->train_loss) && isfinite(row->heldout_loss) ? COMPLETE : DIVERGED;
}

/* The sequences of the slice that are of one set, whose first is number `before` of all. */
static void evaluate_slice(const sf_exchange_slice *mine, const workspace *at, const trained_model *m,
                           const evaluated *set, size_t before, const atomic_int *stop) {
    const size_t begin = sf_larger(mine->first, before), end = sf_smaller(mine->end, before + set->count);
    size_t now;
    if (has_gpu(m)) {
        if (begin < end)
            sf_exchange_gpu_evaluate(m->exchange, mine->losses + begin, mine->correct + begin, set->split,
                                     begin - before, end - begin, stop);
        return;
    }
    assert(at != NULL);
    for (size_t first = begin; first < end && !sf_stop_asked(stop); first += now) {
        now = sf_smaller(end - first, SF_EVALUATION_BATCH);
        for (size_t n = 0; n < now; n++) place(at, n, m->member, set->data, sequence_of(set, first - before + n));
        const sf_batch batch = sf_batch_room_read(&at->room, now);
        const sf_moment moment = sf_evaluation_moment((uint32_t)m->member->config.seed, set->split, first - before);
        sf_cpu_evaluate_each(at->team, mine->losses + first, mine->correct + first, m->plan, m->blocks[0], &batch,
                             &moment);
    }
}

/* In the order of evaluate(). */
static void add_up(double *loss, double *accuracy, const double *losses, const uint32_t *correct,
                   const evaluated *set) {
    const size_t count = set->count;
    double total = 0;
    size_t right = 0, labelled = 0;
    for (size_t first = 0; first < count; first += SF_EVALUATION_BATCH) {
        const size_t end = first + sf_smaller(count - first, SF_EVALUATION_BATCH);
        double sum = 0;
        for (size_t n = first; n < end; n++) {
            sum += losses[n];
            right += correct[n];
            labelled += sf_labels_of(set->data, sequence_of(set, n));
        }
        total += sum;
    }
    *loss = total / (double)labelled;
    *accuracy = 100.0 * (double)right / (double)labelled;
}

static ending evaluate_together(sf_epoch *row, const workspace *at, const trained_model *m, const atomic_int *stop) {
    const evaluated training = evaluated_of(m->member, SF_TRAINING), heldout = evaluated_of(m->member, SF_HELDOUT);
    const sf_exchange_slice mine = sf_exchange_slice_of(m->exchange);
    evaluate_slice(&mine, at, m, &training, 0, stop);
    evaluate_slice(&mine, at, m, &heldout, training.count, stop);
    sf_status status =
        sf_exchange_gather(m->exchange, sf_stop_asked(stop), sf_attention_is_faulty(&m->member->model.shape.attention));
    if (status == SF_OK) {
        add_up(&row->train_loss, &row->train_accuracy, mine.losses, mine.correct, &training);
        add_up(&row->heldout_loss, &row->heldout_accuracy, mine.losses + training.count, mine.correct + training.count,
               &heldout);
        status = sf_exchange_share(m->exchange, row);
    }
    return status == SF_OK ? judge(row) : given_up(m, status);
}

static ending evaluate_both(sf_epoch *row, const workspace *at, const trained_model *m, const atomic_int *stop) {
    const evaluated training = evaluated_of(m->member, SF_TRAINING), heldout = evaluated_of(m->member, SF_HELDOUT);
    if (has_gpu(m)) return evaluate_together(row, NULL, m, stop);
    sf_cpu_team_obey(at->team, stop);
    if (m->exchange != NULL) return evaluate_together(row, at, m, stop);
    evaluate(&row->train_loss, &row->train_accuracy, at, m, &training, stop);
    evaluate(&row->heldout_loss, &row->heldout_accuracy, at, m, &heldout, stop);
    if (sf_stop_asked(stop) || sf_attention_is_faulty(&m->member->model.shape.attention))
        return given_up(m, SF_INTERRUPTED);
    return judge(row);
}

static void copy_blocks(float *const *to, float *const *from, const trained_model *m) {
    for (size_t i = 0; i < m->block_count; i++) memcpy(to[i], from[i], m->member->model.size * sizeof **to);
}

static ending advance_one(const workspace *at, trained_model *m, const epoch_watch *watched) {
    if (m->member == NULL || m->member->result.status != SF_RUN_RUNNING) return COMPLETE;
    sf_result *result = &m->member->result;
    sf_epoch row = {.epoch = result->last.epoch + 1};
    copy_blocks(m->before, m->blocks, m);
    if (!has_gpu(m)) sf_cpu_team_obey(at->team, stop_of(watched->watch));
    ending end = has_gpu(m) ? train_epoch_on_gpu(m, row.epoch, watched) : train_epoch(at, m, row.epoch, watched);
    if (end == COMPLETE) end = evaluate_both(&row, at, m, stop_of(watched->watch));
    if (end == COMPLETE && has_gpu(m) && sf_exchange_gpu_end(m->exchange, m->blocks) != SF_OK) end = FAILED;
    if (end == COMPLETE) {
        result->last = row;
        return end;
    }
    copy_blocks(m->blocks, m->before, m);
    if (end == DIVERGED) {
        result->status = SF_RUN_DIVERGED;
        result->diverged_epoch = row.epoch;
    }
    return end;
}

/* NULL where GPUs compute alone. */
static const workspace *workspace_at(const cpu_fleet *fleet, size_t i) {
    return fleet->workspaces != NULL ? &fleet->workspaces[i] : NULL;
}

static ending advance_at(cpu_fleet *fleet, size_t s, size_t workspace_index, const sf_watch *watch) {
    const epoch_watch watched = {watch, s};
    return advance_one(workspace_at(fleet, workspace_index), &fleet->models[s], &watched);
}

sf_status sf_cpu_fleet_advance(void *opaque, const sf_watch *watch) {
    cpu_fleet *fleet = opaque;
    bool stopped = false;
    if (fleet->layout.workspaces == 1) { /* no parallel region here, so that those inside of a model get threads */
        for (size_t s = 0; s < fleet->capacity; s++) {
            const ending end = advance_at(fleet, s, 0, watch);
            if (end == LOST) return sf_transfer_check();
            if (end == FAILED) return sf_exchange_check(fleet->models[s].exchange);
            stopped |= end == STOPPED;
        }
    } else {
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)fleet->layout.workspaces) reduction(|| : stopped)
        for (size_t s = 0; s < fleet->capacity; s++)
            stopped = advance_at(fleet, s, (size_t)omp_get_thread_num(), watch) == STOPPED || stopped;
    }
    return stopped ? sf_fail(SF_INTERRUPTED, "stopped on request") : SF_OK;
}

sf_status sf_cpu_fleet_read(void *opaque, size_t s, size_t block, float *values /* [size] */) {
    const cpu_fleet *fleet = opaque;
    const trained_model *m = &fleet->models[s];
    memcpy(values, m->blocks[block], m->member->model.size * sizeof *values);
    return SF_OK;
}

uint64_t sf_cpu_fleet_hash(void *opaque, size_t s) {
    const cpu_fleet *fleet = opaque;
    const trained_model *m = &fleet->models[s];
    uint64_t hash = SF_HASH_START;
    for (size_t i = 0; i < m->block_count; i++)
        hash = sf_hash(hash, m->blocks[i], m->member->model.size * sizeof **m->blocks);
    return hash;
}

sf_status sf_cpu_fleet_write(void *opaque, size_t s, size_t block, const float *values /* [size] */) {
    const cpu_fleet *fleet = opaque;
    const trained_model *m = &fleet->models[s];
    memcpy(m->blocks[block], values, m->member->model.size * sizeof *values);
    return SF_OK;
}

sf_status sf_cpu_fleet_evaluate(void *opaque, size_t s, sf_epoch *out) {
    const cpu_fleet *fleet = opaque;
    const trained_model *m = &fleet->models[s];
    if (has_gpu(m)) sf_exchange_gpu_begin(m->exchange, m->blocks, 0);
    const ending end = evaluate_both(out, workspace_at(fleet, 0), m, NULL);
    if (end == LOST) return sf_transfer_check();
    if (end == FAILED) return sf_exchange_check(m->exchange);
    return sf_member_check(m->member);
}
