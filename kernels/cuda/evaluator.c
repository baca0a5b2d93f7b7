/* Evaluators. The weights of a call are members of a fleet that share one batch; its data and weights are copied to the
 * device by every call, which takes little time beside the work. */
#include <assert.h>
#include <omp.h>
#include <string.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "base/stop.h"
#include "base/threads.h"
#include "kernels/cuda/members.h"
#include "kernels/cuda/observed.h"

enum { MOST_MODELS = 512, EVALUATED_ROWS = 1 << 20, OBSERVED_ROWS = 1 << 15 }; /* rows of all models at a time */
static const double share_of_memory = 0.8;                                     /* of what is free */

typedef struct seen_block { /* in host memory, of the sequences that are observed together */
    float *input, *qkv, *context, *hidden;
    float *attention_rstd, *mlp_rstd;
    uint32_t *keys; /* NULL: not chosen during forward */
} seen_block;

struct sf_cuda_evaluator {
    sf_cuda_needs needs;
    int device;                /* the calling thread's when it was opened */
    size_t sequences;          /* of a model at a time */
    sf_cuda_fleet *fleet;      /* one member for each of the weights; the first one's data is that of all */
    sf_cuda_member *members;   /* [models], as they are copied to the device */
    double *losses;            /* [sequences] */
    uint32_t *last, *labelled; /* [batch]: of the sequences that are sent */
    uint32_t *counts;          /* [H,T]: how many keys a query keeps, in causal models that choose them */
    size_t *offsets;           /* [T+1] of these */
    float *noise[2];           /* [sequences * T, Cp] on the device and on the host; NULL until they are needed */
    sf_pattern pattern;        /* of observations */
    sf_cuda_keeper **keepers;  /* [workers], where the device stores no lists; else NULL */
    seen_block seen;
    const atomic_int *stop; /* may be NULL */
};

static sf_cuda_model member_of(const sf_cuda_needs *needs, size_t sequences, bool with_data) {
    return (sf_cuda_model){.model = needs->model,
                           .role = needs->role,
                           .sequences = sequences,
                           .training.count = with_data ? needs->batch : 0,
                           .batch = needs->batch,
                           .moments = needs->role == SF_CUDA_TRAINS ? MOST_MOMENTS : 0};
}

static size_t sequences_for(const sf_cuda_needs *needs, size_t models) {
    if (needs->role == SF_CUDA_TRAINS) return needs->batch;
    const size_t rows = needs->role == SF_CUDA_OBSERVES ? OBSERVED_ROWS : EVALUATED_ROWS;
    return sf_larger(1, sf_smaller(rows / (models * needs->model->shape.T), needs->batch));
}

static size_t bytes_for(const sf_cuda_needs *needs, size_t sequences) {
    const sf_cuda_model member = member_of(needs, sequences, false);
    return sf_cuda_bytes(&member);
}

static size_t room(void) {
    return (size_t)(share_of_memory * (double)sf_cuda_free_memory());
}

size_t sf_cuda_evaluator_models(const sf_cuda_needs *needs) {
    if (needs->role != SF_CUDA_EVALUATES) return 1;
    const size_t bytes = bytes_for(needs, sequences_for(needs, MOST_MODELS));
    return sf_larger(1, sf_smaller(room() / bytes, MOST_MODELS));
}

/* As many sequences as fit, except in training, which needs the whole batch. */
static size_t sequences_that_fit(const sf_cuda_needs *needs) {
    size_t sequences = sequences_for(needs, needs->models);
    while (sequences > 1 && needs->role != SF_CUDA_TRAINS && needs->models * bytes_for(needs, sequences) > room())
        sequences = (sequences + 1) / 2;
    return sequences;
}

void sf_cuda_evaluator_close(sf_cuda_evaluator *e) {
    if (e == NULL) return;
    (void)cudaSetDevice(e->device);
    sf_cuda_fleet_close(e->fleet);
    cudaFree(e->noise[0]);
    sf_pattern_destroy(&e->pattern);
    for (size_t i = 0; e->keepers != NULL && i < e->needs.workers; i++) sf_cuda_keeper_close(e->keepers[i]);
    sf_release(e->keepers);
    sf_release(e->noise[1]);
    sf_release(e->members);
    sf_release(e->losses);
    sf_release(e->last);
    sf_release(e->labelled);
    sf_release(e->counts);
    sf_release(e->offsets);
    sf_release(e->seen.input);
    sf_release(e->seen.qkv);
    sf_release(e->seen.context);
    sf_release(e->seen.hidden);
    sf_release(e->seen.attention_rstd);
    sf_release(e->seen.mlp_rstd);
    sf_release(e->seen.keys);
    sf_release(e);
}

/* Every call begins with it: the thread may have used another device since, or be another one. */
static sf_status enter(const sf_cuda_evaluator *e) {
    return sf_cuda_ok(cudaSetDevice(e->device), "going to its device");
}

static sf_status send(const sf_cuda_evaluator *e, const void *to, const void *from, size_t bytes) {
    return sf_cuda_ok(cudaMemcpyAsync((void *)to, from, bytes, cudaMemcpyHostToDevice, e->fleet->launch.stream),
                      "copying");
}

static sf_status fetch(const sf_cuda_evaluator *e, void *to, const void *from, size_t bytes) {
    return sf_cuda_ok(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, e->fleet->launch.stream), "copying");
}

/* Copies read and write memory of the host until then. */
static sf_status await(const sf_cuda_evaluator *e) {
    return sf_cuda_ok(cudaStreamSynchronize(e->fleet->launch.stream), "copying");
}

static sf_status count_causally(sf_cuda_evaluator *e, const sf_cuda_member *m) {
    SF_TRY(SF_NEW(&e->counts, (size_t)m->H * m->T));
    SF_TRY(SF_NEW(&e->offsets, (size_t)m->T + 1));
    for (size_t i = 0; i < (size_t)m->H * m->T; i++) e->counts[i] = (uint32_t)sf_smaller(m->K, i % m->T + 1);
    for (size_t i = 0; i <= m->T; i++) e->offsets[i] = i * m->K;
    return SF_OK;
}

/* Whether a view has kept keys: as on the CPU, short lists by position have not. */
static bool chooses(const sf_shape *s) {
    const sf_attention *a = &s->attention;
    return sf_attention_selects_by(a) != SF_BY_POSITION || sf_attention_keeps_visible(a) ||
           sf_attention_score_steps(a) > 0 || a->straight_through || sf_attention_weighs_matrix(a);
}

static sf_status open_keepers(sf_cuda_evaluator *e, const sf_cuda_member *m) {
    SF_TRY(SF_NEW(&e->keepers, e->needs.workers));
    for (size_t i = 0; i < e->needs.workers; i++)
        SF_TRY(sf_cuda_keeper_open(&e->keepers[i], &e->needs.model->shape, m->score_scale));
    return SF_OK;
}

static sf_status open_observation(sf_cuda_evaluator *e) {
    const sf_shape *s = &e->needs.model->shape;
    const sf_cuda_member *m = &e->fleet->members[0].device;
    const size_t R = e->sequences * s->T;
    seen_block *seen = &e->seen;
    SF_TRY(SF_NEW(&seen->input, R * m->Cp));
    SF_TRY(SF_NEW(&seen->qkv, R * 3 * m->HDp));
    SF_TRY(SF_NEW(&seen->context, R * m->HDp));
    SF_TRY(SF_NEW(&seen->hidden, R * m->Fp));
    SF_TRY(SF_NEW(&seen->attention_rstd, R));
    SF_TRY(SF_NEW(&seen->mlp_rstd, R));
    if (sf_cuda_lists_causally(m)) SF_TRY(count_causally(e, m));
    if (m->selection == SF_CUDA_BY_PARTS && chooses(s)) SF_TRY(open_keepers(e, m));
    if (m->selection != SF_CUDA_DENSE && e->counts == NULL && e->keepers == NULL)
        SF_TRY(sf_pattern_create(&e->pattern, &s->attention, s->T));
    if (m->selection > SF_CUDA_BY_PATTERN) SF_TRY(SF_NEW(&seen->keys, e->sequences * s->H * m->kept));
    return sf_threads_start(e->needs.workers);
}

/* A training step takes the sequences of its data in this order: as they are. */
static sf_status send_order(const sf_cuda_evaluator *e) {
    uint32_t *order;
    SF_TRY(SF_NEW(&order, e->needs.batch));
    for (size_t i = 0; i < e->needs.batch; i++) order[i] = (uint32_t)i;
    sf_status status = send(e, e->fleet->members[0].order, order, e->needs.batch * sizeof *order);
    if (status == SF_OK) status = await(e);
    sf_release(order);
    return status;
}

static sf_status open_parts(sf_cuda_evaluator *e) {
    const sf_cuda_needs *needs = &e->needs;
    SF_TRY(sf_cuda_check());
    SF_TRY(sf_cuda_ok(cudaGetDevice(&e->device), "finding its device"));
    e->sequences = sequences_that_fit(needs);
    SF_TRY(SF_NEW(&e->members, needs->models));
    SF_TRY(SF_NEW(&e->losses, e->sequences));
    SF_TRY(SF_NEW(&e->last, needs->batch));
    SF_TRY(SF_NEW(&e->labelled, needs->batch));
    SF_TRY(sf_cuda_fleet_open(&e->fleet, needs->models, needs->precision));
    for (size_t s = 0; s < needs->models; s++) {
        const sf_cuda_model member = member_of(needs, e->sequences, s == 0);
        SF_TRY(sf_cuda_fleet_add(e->fleet, s, &member));
        e->fleet->members[s].device.splits[0] = e->fleet->members[0].device.splits[0];
    }
    SF_TRY(sf_cuda_fleet_measure(e->fleet));
    if (needs->role == SF_CUDA_OBSERVES) SF_TRY(open_observation(e));
    return send_order(e);
}

sf_status sf_cuda_evaluator_open(sf_cuda_evaluator **out, const sf_cuda_needs *needs) {
    *out = NULL;
    sf_cuda_evaluator *e;
    assert(needs->batch > 0 && needs->models > 0 && (needs->models == 1 || needs->role == SF_CUDA_EVALUATES));
    SF_TRY(SF_NEW(&e, 1));
    e->needs = *needs;
    const sf_status status = open_parts(e);
    if (status != SF_OK)
        sf_cuda_evaluator_close(e);
    else
        *out = e;
    return status;
}

void sf_cuda_evaluator_obey(sf_cuda_evaluator *e, const atomic_int *stop) {
    e->stop = stop;
}

static sf_status send_data(const sf_cuda_evaluator *e, const sf_batch *batch, size_t first, size_t count) {
    const sf_shape *s = &e->needs.model->shape;
    const sf_cuda_split *data = &e->fleet->members[0].device.splits[0];
    const sf_batch part = sf_batch_part(batch, s, first, count);
    SF_TRY(send(e, data->tokens, part.tokens, count * s->T * sizeof *part.tokens));
    SF_TRY(send(e, data->labels, part.labels, count * sf_shape_labels(s) * sizeof *part.labels));
    for (size_t n = 0; n < count; n++) {
        const sf_batch one = sf_batch_part(&part, s, n, 1);
        e->last[n] = (uint32_t)sf_batch_last(&part, s, n);
        e->labelled[n] = (uint32_t)sf_batch_labelled(&one, s);
    }
    if (s->readout == SF_READ_LAST) SF_TRY(send(e, data->last, e->last, count * sizeof *e->last));
    if (s->readout == SF_READ_EACH) SF_TRY(send(e, data->labelled, e->labelled, count * sizeof *e->labelled));
    return SF_OK;
}

/* Member s as it begins: `count` sequences of the data are one batch. */
static sf_cuda_member *member_for(const sf_cuda_evaluator *e, size_t s, size_t count, const sf_moment *moment) {
    sf_cuda_member *m = &e->members[s];
    *m = e->fleet->members[s].device;
    m->seed = moment->seed;
    m->batch = m->splits[0].count = (uint32_t)count;
    m->active = true;
    if (!moment->training) m->threshold = 0;
    return m;
}

static sf_status send_members(const sf_cuda_evaluator *e, size_t S) {
    const sf_cuda_launch *launch = &e->fleet->launch;
    SF_TRY(send(e, launch->fleet, e->members, S * sizeof *e->members));
    return sf_cuda_ok(cudaMemsetAsync(e->fleet->stopped, 0, sizeof *e->fleet->stopped, launch->stream), "beginning");
}

static sf_cuda_pass pass_at(const sf_moment *moment, size_t first) {
    return (sf_cuda_pass){.first = (uint32_t)first,
                          .epoch = moment->epoch,
                          .step = moment->step,
                          .first_sample = moment->first_sample + (uint32_t)first};
}

/* Waits for what was launched. */
static sf_status finish(const sf_cuda_evaluator *e, bool *told) {
    SF_TRY(sf_cuda_ok(cudaGetLastError(), "launching a kernel"));
    SF_TRY(sf_cuda_fleet_finish(e->fleet, e->stop, told));
    return *told || sf_stop_asked(e->stop) ? sf_fail(SF_INTERRUPTED, "stopped on request") : SF_OK;
}

/* Those of all positions of one sequence after the other: there is room for one. */
static sf_status fetch_logits_each(const sf_cuda_evaluator *e, float *logits /* [S,B,T,classes] */, size_t S, size_t B,
                                   const sf_cuda_launch *launch, const sf_cuda_pass *pass) {
    const sf_shape *shape = &e->needs.model->shape;
    const size_t row = shape->T * shape->classes;
    for (uint32_t n = 0; n < pass->at_once; n++) {
        sf_cuda_logits_each(launch, pass, n);
        for (size_t s = 0; s < S; s++)
            SF_TRY(fetch(e, logits + (s * B + pass->first + n) * row, e->members[s].logits, row * sizeof *logits));
    }
    return SF_OK;
}

static sf_status fetch_logits(const sf_cuda_evaluator *e, float *logits /* [S,B,labels,classes] */, size_t S, size_t B,
                              const sf_cuda_launch *launch, const sf_cuda_pass *pass) {
    const size_t classes = e->needs.model->shape.classes, first = pass->first, now = pass->at_once;
    if (e->needs.model->shape.readout == SF_READ_EACH) return fetch_logits_each(e, logits, S, B, launch, pass);
    for (size_t s = 0; s < S; s++)
        SF_TRY(fetch(e, logits + (s * B + first) * classes, e->members[s].logits, now * classes * sizeof *logits));
    return SF_OK;
}

sf_status sf_cuda_evaluator_evaluate(sf_cuda_evaluator *e, sf_evaluation *out /* [S] */, float *logits,
                                     const float *const *params /* [S][size] */, size_t S, const sf_batch *batch,
                                     const sf_moment *moment) {
    sf_cuda_launch launch = e->fleet->launch;
    bool told = false;
    assert(S <= e->needs.models && batch->B <= e->needs.batch && !moment->training && !(moment->noise > 0));
    launch.members = (uint32_t)S;
    SF_TRY(enter(e));
    SF_TRY(send_data(e, batch, 0, batch->B));
    for (size_t s = 0; s < S; s++) {
        const sf_cuda_member *m = member_for(e, s, batch->B, moment);
        SF_TRY(send(e, m->params, params[s], m->size * sizeof *params[s]));
    }
    SF_TRY(send_members(e, S));
    if (launch.whole) sf_cuda_arrange(&launch);
    for (size_t first = 0; first < batch->B; first += e->sequences) {
        if (sf_cuda_fleet_stop_asked(e->fleet, e->stop, &told)) break;
        sf_cuda_pass pass = pass_at(moment, first);
        pass.at_once = (uint32_t)sf_smaller(batch->B - first, e->sequences);
        sf_cuda_forward(&launch, &pass);
        sf_cuda_tally(&launch, &pass);
        if (logits != NULL) SF_TRY(fetch_logits(e, logits, S, batch->B, &launch, &pass));
    }
    SF_TRY(finish(e, &told));
    SF_TRY(fetch(e, e->members, launch.fleet, S * sizeof *e->members));
    SF_TRY(await(e));
    const size_t labelled = sf_batch_labelled(batch, &e->needs.model->shape);
    for (size_t s = 0; s < S; s++)
        out[s] =
            (sf_evaluation){.loss = e->members[s].sums[0], .correct = e->members[s].right[0], .labelled = labelled};
    return SF_OK;
}

/* Forward with a trace, and backward and update if asked, of up to `sequences` sequences from `first` on. */
static sf_status train(const sf_cuda_evaluator *e, const sf_batch *batch, size_t first, size_t count,
                       const sf_moment *moment, bool update) {
    const sf_cuda_launch *launch = &e->fleet->launch;
    sf_cuda_pass pass = pass_at(moment, first);
    bool told = false;
    pass.first = 0;
    pass.training = true;
    pass.evaluation_keys = !moment->training;
    SF_TRY(send_data(e, batch, first, count));
    SF_TRY(send_members(e, 1));
    if (launch->whole) sf_cuda_arrange(launch);
    sf_cuda_forward(launch, &pass);
    if (update) sf_cuda_backward_and_update(launch, &pass);
    return finish(e, &told);
}

static sf_status mean_loss(const sf_cuda_evaluator *e, double *loss, const sf_batch *batch) {
    const size_t B = batch->B;
    SF_TRY(fetch(e, e->losses, e->members[0].losses, B * sizeof *e->losses));
    SF_TRY(await(e));
    *loss = 0;
    for (size_t n = 0; n < B; n++) *loss += e->losses[n];
    *loss = sf_mean_over(*loss, sf_batch_labelled(batch, &e->needs.model->shape));
    return SF_OK;
}

sf_status sf_cuda_evaluator_gradient(sf_cuda_evaluator *e, double *loss, float *gradient /* [size] */,
                                     const float *params /* [size] */, const sf_batch *batch, const sf_moment *moment) {
    const size_t bytes = e->needs.model->size * sizeof *params;
    assert(e->needs.role == SF_CUDA_TRAINS && batch->B <= e->needs.batch && !(moment->noise > 0));
    SF_TRY(enter(e));
    sf_cuda_member *m = member_for(e, 0, batch->B, moment);
    sf_cuda_describe_optimizer(m, &(sf_cuda_model){.optimizer = SF_SGD}); /* it changes nothing at a rate of 0 */
    m->moments[0] = m->moments[1] = NULL;
    SF_TRY(send(e, m->schedule, &(sf_cuda_rates){0}, sizeof *m->schedule));
    SF_TRY(send(e, m->params, params, bytes));
    SF_TRY(train(e, batch, 0, batch->B, moment, true));
    SF_TRY(fetch(e, gradient, m->gradient, bytes));
    return mean_loss(e, loss, batch);
}

sf_status sf_cuda_evaluator_step(sf_cuda_evaluator *e, double *loss, float *const *blocks /* [1 + moments][size] */,
                                 const sf_cuda_model *how, const sf_cuda_step *rates, const sf_batch *batch,
                                 const sf_moment *moment) {
    const size_t bytes = e->needs.model->size * sizeof **blocks;
    assert(how->moments <= MOST_MOMENTS);
    assert(e->needs.role == SF_CUDA_TRAINS && batch->B <= e->needs.batch && !(moment->noise > 0));
    SF_TRY(enter(e));
    sf_cuda_member *m = member_for(e, 0, batch->B, moment);
    float *const there[] = {m->params, m->moments[0], m->moments[1]};
    sf_cuda_describe_optimizer(m, how);
    for (size_t i = how->moments; i < MOST_MOMENTS; i++) m->moments[i] = NULL;
    _Static_assert(sizeof *rates == sizeof *m->schedule, "one is copied to the other");
    SF_TRY(send(e, m->schedule, rates, sizeof *rates));
    for (size_t i = 0; i <= how->moments; i++) SF_TRY(send(e, there[i], blocks[i], bytes));
    SF_TRY(train(e, batch, 0, batch->B, moment, true));
    for (size_t i = 0; i <= how->moments; i++) SF_TRY(fetch(e, blocks[i], there[i], bytes));
    return mean_loss(e, loss, batch);
}

/* The same numbers as the CPU adds; drawn there, too. */
static sf_status send_noise(sf_cuda_evaluator *e, size_t first, size_t count, const sf_moment *moment) {
    const sf_shape *s = &e->needs.model->shape;
    const size_t Cp = sf_padded(s->C), row = s->T * Cp, bytes = e->sequences * row * sizeof *e->noise[1];
    if (e->noise[0] == NULL) SF_TRY(sf_cuda_ok(cudaMalloc((void **)&e->noise[0], bytes), "allocating noise"));
    if (e->noise[1] == NULL) SF_TRY(SF_NEW(&e->noise[1], e->sequences * row));
#pragma omp parallel for num_threads((int)e->needs.workers) if (e->needs.workers > 1)
    for (size_t n = 0; n < count; n++) {
        const sf_index index = sf_moment_index(moment, SF_EMBEDDING_NOISE, 0, 0, first + n);
        for (size_t t = 0; t < s->T; t++)
            for (size_t c = 0; c < s->C; c++)
                e->noise[1][n * row + t * Cp + c] = (float)(moment->noise * sf_noise_at(&index, t, c, s->C));
    }
    e->members[0].noise = e->noise[0];
    return send(e, e->noise[0], e->noise[1], count * row * sizeof *e->noise[1]);
}

/* Numbers that were stored as bf16 become floats, in place. */
static void widen(float *numbers, size_t count) {
    for (size_t i = count; i-- > 0;) {
        uint16_t stored;
        memcpy(&stored, (const char *)numbers + i * sizeof stored, sizeof stored);
        const uint32_t bits = (uint32_t)stored << 16;
        memcpy(&numbers[i], &bits, sizeof bits);
    }
}

static sf_status fetch_block(const sf_cuda_evaluator *e, size_t block, size_t count) {
    const sf_cuda_member *m = &e->members[0];
    const sf_cuda_trace *t = &e->fleet->members[0].traces[block];
    const seen_block *seen = &e->seen;
    const size_t R = count * m->T;
    SF_TRY(fetch(e, seen->input, m->pre_norm ? t->normed1 : t->input, R * m->Cp * sizeof *seen->input));
    const bool halves = m->on_tensor_cores && e->fleet->members[0].precision == SF_BF16;
    const size_t stored = halves ? sizeof(uint16_t) : sizeof(float);
    SF_TRY(fetch(e, seen->qkv, t->qkv, R * 3 * m->HDp * stored));
    SF_TRY(fetch(e, seen->context, t->context, R * m->HDp * stored));
    SF_TRY(fetch(e, seen->hidden, t->hidden, R * m->Fp * sizeof *seen->hidden));
    SF_TRY(fetch(e, seen->attention_rstd, t->rstd1, R * sizeof *seen->attention_rstd));
    SF_TRY(fetch(e, seen->mlp_rstd, t->rstd2, R * sizeof *seen->mlp_rstd));
    if (seen->keys != NULL) SF_TRY(fetch(e, seen->keys, t->keys, count * m->H * m->kept * sizeof *seen->keys));
    SF_TRY(await(e));
    if (halves) {
        widen(seen->qkv, R * 3 * m->HDp);
        widen(seen->context, R * m->HDp);
    }
    return SF_OK;
}

static sf_attention_view view_of(const sf_cuda_evaluator *e, size_t block, size_t first, size_t n) {
    const sf_cuda_member *m = &e->members[0];
    const seen_block *seen = &e->seen;
    const size_t row = n * m->T, HDp = m->HDp;
    const float *q = seen->qkv + row * 3 * HDp;
    return (sf_attention_view){.block = block,
                               .sequence = first + n,
                               .input = seen->input + row * m->Cp,
                               .q = q,
                               .k = q + HDp,
                               .v = q + 2 * HDp,
                               .stride = 3 * HDp,
                               .chosen = seen->keys != NULL ? seen->keys + n * m->H * m->kept : NULL,
                               .offsets = e->counts != NULL ? e->offsets : e->pattern.offsets,
                               .counts = e->counts,
                               .context = seen->context + row * HDp,
                               .hidden = seen->hidden + row * m->Fp,
                               .attention_rstd = seen->attention_rstd + row,
                               .mlp_rstd = seen->mlp_rstd + row};
}

static void show_block(const sf_cuda_evaluator *e, const sf_observer *observer, const sf_moment *moment, size_t block,
                       size_t first, size_t count) {
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)e->needs.workers) if (e->needs.workers > 1)
    for (size_t n = 0; n < count; n++) {
        if (sf_stop_asked(e->stop)) continue;
        sf_attention_view view = view_of(e, block, first, n);
        const size_t worker = e->needs.workers > 1 ? (size_t)omp_get_thread_num() : 0;
        if (e->keepers != NULL) {
            view.keep = sf_cuda_keeper_keep;
            view.keeper = e->keepers[worker];
            sf_cuda_keeper_look(e->keepers[worker], &view, moment, first + n);
        }
        observer->observe(observer->context, worker, &view);
    }
}

sf_status sf_cuda_evaluator_observe(sf_cuda_evaluator *e, const sf_observer *observer, const float *params /* [size] */,
                                    const sf_batch *batch, const sf_moment *moment) {
    const sf_model *model = e->needs.model;
    assert(e->needs.role == SF_CUDA_OBSERVES && batch->B <= e->needs.batch && !moment->training);
    SF_TRY(enter(e));
    SF_TRY(send(e, e->fleet->members[0].device.params, params, model->size * sizeof *params));
    for (size_t first = 0; first < batch->B; first += e->sequences) {
        const size_t count = sf_smaller(batch->B - first, e->sequences);
        member_for(e, 0, count, moment);
        if (moment->noise > 0) SF_TRY(send_noise(e, first, count, moment));
        SF_TRY(train(e, batch, first, count, moment, false));
        for (size_t block = 0; block < model->shape.L; block++) {
            SF_TRY(fetch_block(e, block, count));
            show_block(e, observer, moment, block, first, count);
        }
    }
    return sf_stop_asked(e->stop) ? sf_fail(SF_INTERRUPTED, "stopped on request") : SF_OK;
}
