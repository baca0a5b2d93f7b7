/* Fleets on CPU cores: models side by side, one a thread, where there are at least as many models as threads;
 * otherwise one model after the other with the threads inside it. Both compute the same bits. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/sizes.h"
#include "base/stop.h"
#include "base/threads.h"
#include "kernels/cpu/cpu.h"
#include "train/backend.h"
#include "train/optimizer.h"

enum { MOST_BLOCKS = 3 };

typedef struct weights { /* one member's */
    sf_cpu_plan *plan;
    float *params;              /* [size] */
    float *moments[2];          /* [size] each, NULL where the rule keeps none */
    float *before[MOST_BLOCKS]; /* params and moments as they were before the epoch under way */
} weights;

typedef struct desk { /* what one model in flight needs; models take turns */
    sf_cpu_crew *crew;
    float *gradient; /* [size] */
    uint32_t *order; /* [training sequences] */
    int32_t *tokens; /* [B,T] */
    int32_t *labels; /* [B] */
} desk;

typedef struct cpu_state {
    sf_member *members;
    size_t S;
    weights *weights; /* [S] */
    desk *desks;      /* [desk_count] */
    size_t desk_count;
} cpu_state;

static void cpu_close(void *opaque) {
    cpu_state *state = opaque;
    if (state == NULL) return;
    for (size_t s = 0; state->weights != NULL && s < state->S; s++) {
        sf_cpu_plan_destroy(state->weights[s].plan);
        sf_release(state->weights[s].params);
        sf_release(state->weights[s].moments[0]);
        sf_release(state->weights[s].moments[1]);
        for (size_t i = 0; i < MOST_BLOCKS; i++) sf_release(state->weights[s].before[i]);
    }
    for (size_t d = 0; state->desks != NULL && d < state->desk_count; d++) {
        sf_cpu_crew_destroy(state->desks[d].crew);
        sf_release(state->desks[d].gradient);
        sf_release(state->desks[d].order);
        sf_release(state->desks[d].tokens);
        sf_release(state->desks[d].labels);
    }
    sf_release(state->weights);
    sf_release(state->desks);
    sf_release(state);
}

static sf_status open_weights(weights *w, const sf_member *member) {
    SF_TRY(sf_cpu_plan_create(&w->plan, &member->model, (sf_precision)member->config.precision));
    SF_TRY(SF_NEW(&w->params, member->model.size));
    for (size_t i = 0; i < sf_optimizer_moments(&member->config); i++)
        SF_TRY(SF_NEW(&w->moments[i], member->model.size));
    for (size_t i = 0; i <= sf_optimizer_moments(&member->config); i++)
        SF_TRY(SF_NEW(&w->before[i], member->model.size));
    sf_model_initialize(w->params, &member->model, (uint32_t)member->config.seed);
    return SF_OK;
}

static sf_status open_desk(desk *out, const cpu_state *state, size_t workers) {
    size_t batch = 0, size = 0, positions = 0, sequences = 0;
    sf_cpu_plan **plans;
    SF_TRY(SF_NEW(&plans, state->S));
    for (size_t s = 0; s < state->S; s++) {
        const sf_member *member = &state->members[s];
        plans[s] = state->weights[s].plan;
        const size_t count = sf_dataset_count(member->data->training);
        const size_t most = sf_larger(count, sf_dataset_count(member->data->heldout));
        batch = sf_larger(batch, sf_smaller((size_t)member->config.batch, count));
        batch = sf_larger(batch, sf_smaller(SF_EVALUATION_BATCH, most));
        size = sf_larger(size, member->model.size);
        positions = sf_larger(positions, member->model.shape.T);
        sequences = sf_larger(sequences, count);
    }
    const sf_status status = sf_cpu_crew_create(&out->crew, plans, state->S, workers, batch);
    sf_release(plans);
    SF_TRY(status);
    SF_TRY(SF_NEW(&out->gradient, size));
    SF_TRY(SF_NEW(&out->order, sequences));
    SF_TRY(SF_NEW(&out->tokens, batch * positions));
    return SF_NEW(&out->labels, batch);
}

static sf_status cpu_open(void **out, sf_member *members /* [S] */, size_t S, size_t threads) {
    *out = NULL;
    for (size_t s = 0; s < S; s++) SF_TRY(sf_cpu_check_isa((sf_precision)members[s].config.precision));
    cpu_state *state;
    SF_TRY(SF_NEW(&state, 1));
    state->members = members;
    state->S = S;
    const size_t workers = (size_t)sf_threads_for(threads);
    const bool side_by_side = S >= workers;
    state->desk_count = side_by_side ? workers : 1;
    sf_status status = SF_NEW(&state->weights, S);
    if (status == SF_OK) status = SF_NEW(&state->desks, state->desk_count);
    for (size_t s = 0; s < S && status == SF_OK; s++) status = open_weights(&state->weights[s], &members[s]);
    for (size_t d = 0; d < state->desk_count && status == SF_OK; d++)
        status = open_desk(&state->desks[d], state, side_by_side ? 1 : workers);
    if (status == SF_OK) status = sf_threads_start(state->desk_count);
    if (status != SF_OK) {
        cpu_close(state);
        return status;
    }
    *out = state;
    return SF_OK;
}

/* Writes sequence `i` as row n of the batch. */
static void place(const desk *at, size_t n, const sf_member *member, const sf_dataset *data, size_t i) {
    const size_t T = member->model.shape.T;
    sf_run_data_lay_out(at->tokens + n * T, member->data, data, i, T, member->model.shape.attention.globals);
    at->labels[n] = sf_dataset_label(data, i);
}

typedef enum ending { COMPLETE, DIVERGED, STOPPED } ending;

static const atomic_int *stop_of(const sf_watch *watch) {
    return watch != NULL ? watch->stop : NULL;
}

static bool told_to_stop(const sf_watch *watch) {
    return sf_stop_asked(stop_of(watch));
}

static ending train_epoch(const desk *at, weights *w, sf_member *member, size_t epoch, const sf_watch *watch) {
    const sf_config *config = &member->config;
    const sf_dataset *data = member->data->training;
    const size_t count = sf_dataset_count(data), B = (size_t)config->batch, steps = (count + B - 1) / B;
    sf_epoch_order(at->order, count, (uint32_t)config->seed, (uint32_t)epoch);
    for (size_t step = 0; step < steps; step++) {
        if (told_to_stop(watch)) return STOPPED;
        const size_t first = step * B, now = count - first < B ? count - first : B;
        for (size_t n = 0; n < now; n++) place(at, n, member, data, at->order[first + n]);
        const sf_batch batch = {.tokens = at->tokens, .labels = at->labels, .B = now};
        const sf_moment moment = {
            .seed = (uint32_t)config->seed, .epoch = (uint32_t)epoch, .step = (uint32_t)step, .training = true};
        double loss;
        sf_cpu_gradient(at->crew, &loss, at->gradient, w->plan, w->params, &batch, &moment);
        if (told_to_stop(watch)) return STOPPED; /* the gradient may be of a part of the batch */
        if (sf_attention_is_faulty(&member->model.shape.attention)) return STOPPED;
        const double norm = sf_gradient_norm(at->gradient, member->model.size);
        if (!isfinite(loss) || !isfinite(norm)) {
            member->result.diverged_step = step + 1;
            return DIVERGED;
        }
        sf_optimizer_update(w->params, w->moments, at->gradient, (float)sf_clip_factor(norm, config->clip), config,
                            sf_learning_rate(config, epoch, step, steps), (epoch - 1) * steps + step + 1,
                            member->model.size);
        if (watch != NULL && watch->on_step != NULL) watch->on_step(watch->context, step + 1, steps);
    }
    return COMPLETE;
}

/* Of no use once told to stop. */
static void evaluate(double *loss, double *accuracy, const desk *at, const weights *w, const sf_member *member,
                     const sf_dataset *data, sf_split split, const sf_watch *watch) {
    const size_t count = sf_dataset_count(data);
    double total = 0;
    size_t correct = 0;
    for (size_t first = 0; first < count && !told_to_stop(watch); first += SF_EVALUATION_BATCH) {
        const size_t now = sf_smaller(count - first, SF_EVALUATION_BATCH);
        for (size_t n = 0; n < now; n++) place(at, n, member, data, first + n);
        const sf_batch batch = {.tokens = at->tokens, .labels = at->labels, .B = now};
        const sf_moment moment = sf_evaluation_moment((uint32_t)member->config.seed, split, first);
        sf_evaluation part;
        sf_cpu_evaluate(at->crew, &part, NULL, w->plan, w->params, &batch, &moment);
        total += part.loss;
        correct += part.correct;
    }
    *loss = total / (double)count;
    *accuracy = 100.0 * (double)correct / (double)count;
}

static ending evaluate_both(sf_epoch *row, const desk *at, const weights *w, const sf_member *member,
                            const sf_watch *watch) {
    sf_cpu_crew_obey(at->crew, stop_of(watch));
    evaluate(&row->train_loss, &row->train_accuracy, at, w, member, member->data->training, SF_TRAINING, watch);
    evaluate(&row->heldout_loss, &row->heldout_accuracy, at, w, member, member->data->heldout, SF_HELDOUT, watch);
    if (told_to_stop(watch) || sf_attention_is_faulty(&member->model.shape.attention)) return STOPPED;
    return isfinite(row->train_loss) && isfinite(row->heldout_loss) ? COMPLETE : DIVERGED;
}

static float *block_of(const weights *w, size_t block) {
    return block == 0 ? w->params : w->moments[block - 1];
}

static void remember(const weights *w, const sf_member *member) {
    for (size_t i = 0; i <= sf_optimizer_moments(&member->config); i++)
        memcpy(w->before[i], block_of(w, i), member->model.size * sizeof *w->params);
}

static void go_back(const weights *w, const sf_member *member) {
    for (size_t i = 0; i <= sf_optimizer_moments(&member->config); i++)
        memcpy(block_of(w, i), w->before[i], member->model.size * sizeof *w->params);
}

static ending advance_one(const desk *at, weights *w, sf_member *member, const sf_watch *watch) {
    sf_result *result = &member->result;
    if (result->status != SF_RUN_RUNNING) return COMPLETE;
    sf_epoch row = {.epoch = result->last.epoch + 1};
    remember(w, member);
    sf_cpu_crew_obey(at->crew, stop_of(watch));
    ending end = train_epoch(at, w, member, row.epoch, watch);
    if (end == COMPLETE) end = evaluate_both(&row, at, w, member, watch);
    if (end == COMPLETE) {
        result->last = row;
        return end;
    }
    go_back(w, member);
    if (end == DIVERGED) {
        result->status = SF_RUN_DIVERGED;
        result->diverged_epoch = row.epoch;
    }
    return end;
}

static bool cpu_advance(void *opaque, const sf_watch *watch) {
    cpu_state *state = opaque;
    bool stopped = false;
    if (state->desk_count == 1) {
        for (size_t s = 0; s < state->S; s++)
            stopped |= advance_one(&state->desks[0], &state->weights[s], &state->members[s], watch) == STOPPED;
        return !stopped;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)state->desk_count) reduction(|| : stopped)
    for (size_t s = 0; s < state->S; s++)
        stopped = advance_one(&state->desks[omp_get_thread_num()], &state->weights[s], &state->members[s], watch) ==
                      STOPPED ||
                  stopped;
    return !stopped;
}

static void cpu_read(const void *opaque, size_t s, size_t block, float *values /* [size] */) {
    const cpu_state *state = opaque;
    memcpy(values, block_of(&state->weights[s], block), state->members[s].model.size * sizeof *values);
}

static void cpu_write(void *opaque, size_t s, size_t block, const float *values /* [size] */) {
    cpu_state *state = opaque;
    memcpy(block_of(&state->weights[s], block), values, state->members[s].model.size * sizeof *values);
}

static void cpu_evaluate(void *opaque, size_t s, sf_epoch *out) {
    cpu_state *state = opaque;
    (void)evaluate_both(out, &state->desks[0], &state->weights[s], &state->members[s], NULL);
}

const sf_backend sf_backend_cpu = {
    .version = 1,
    .name = "cpu",
    .summary = "f32 on every core, with the widest instruction set the machine has",
    .open = cpu_open,
    .advance = cpu_advance,
    .read = cpu_read,
    .write = cpu_write,
    .evaluate = cpu_evaluate,
    .close = cpu_close,
};
