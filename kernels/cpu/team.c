/* Workers, their memory, and the one parallel region of a step. */
#include <assert.h>
#include <omp.h>
#include <string.h>

#include "base/sizes.h"
#include "base/threads.h"
#include "kernels/cpu/joint.h"

struct sf_cpu_team {
    size_t workers, capacity;
    sf_arena *arenas;       /* [workers]: workspaces */
    sf_offer *offers;       /* [workers] */
    atomic_size_t underway; /* tasks of the parallel region that are not done */
    sf_arena shared;        /* packed weights */
    sf_arena joint;         /* of joint passes */
    sf_joint_pass pass;
    float *chunk_gradients; /* [chunk_slots,size] */
    size_t size;            /* of the largest model */
    size_t chunk_slots;     /* one per chunk, or a single one that is reused if one worker computes one after another */
    double *losses;         /* [capacity] */
    uint32_t *correct;      /* [capacity] */
    const atomic_int *stop; /* may be NULL */
};

#define TAKE(pointer, count) (pointer) = sf_arena_take(arena, (count), sizeof *(pointer))

static void lay_out_trace(sf_trace *t, sf_arena *arena, const sf_cpu_plan *plan) {
    const sf_shape *s = &plan->model->shape;
    const size_t R = plan->group * s->T, Cp = plan->rows.Cp, Fp = plan->rows.Fp, HDp = plan->rows.HDp;
    *t = (sf_trace){0};
    if (s->norm == SF_POST_NORM) TAKE(t->input, R * Cp);
    TAKE(t->normed1, R * Cp);
    TAKE(t->rstd1, R);
    TAKE(t->qkv, R * 3 * HDp);
    sf_lay_out_choices(t, arena, plan);
    TAKE(t->norms, plan->norm_factors[0] != 0 ? R * 2 * s->H : 0);
    TAKE(t->context, R * HDp);
    TAKE(t->normed2, R * Cp);
    TAKE(t->rstd2, R);
    TAKE(t->hidden, R * Fp);
    TAKE(t->kept_attention, R * sf_kept_words(s->C));
    TAKE(t->kept_hidden, R * sf_kept_words(s->F));
    TAKE(t->kept_mlp, R * sf_kept_words(s->C));
}

void sf_lay_out_workspace(sf_workspace *w, sf_arena *arena, const sf_cpu_plan *plan) {
    const sf_shape *s = &plan->model->shape;
    const size_t R = plan->group * s->T, Cp = plan->rows.Cp, Fp = plan->rows.Fp;
    const size_t stretch = R < SF_GROUP_ROWS ? R : SF_GROUP_ROWS;
    TAKE(w->traces, s->L);
    for (size_t l = 0; l < s->L; l++) {
        sf_trace measured;
        lay_out_trace(arena->base != NULL ? &w->traces[l] : &measured, arena, plan);
    }
    TAKE(w->x, R * Cp);
    TAKE(w->dx, R * Cp);
    TAKE(w->branch, stretch * Cp);
    TAKE(w->dbranch, stretch * Cp);
    TAKE(w->active, stretch * Fp);
    TAKE(w->dhidden, stretch * Fp);
    TAKE(w->dqkv, R * 3 * plan->rows.HDp);
    TAKE(w->dcontext, R * plan->rows.HDp);
    sf_lay_out_attention(w, arena, plan);
    TAKE(w->kept_embedding, R * sf_kept_words(s->C));
    TAKE(w->pooled, s->C);
    TAKE(w->dpooled, s->C);
    TAKE(w->logits, s->classes);
    const size_t tile = s->readout == SF_READ_EACH ? stretch : 0;
    TAKE(w->tile_rows, tile * Cp);
    TAKE(w->tile_logits, tile * sf_padded(s->classes));
    TAKE(w->tile_listed, tile);
}

static void take_forward(sf_packed_weight *w, sf_arena *arena, const sf_cpu_plan *plan, size_t K, size_t N) {
    TAKE(w->transposed, K * N);
    TAKE(w->room, plan->kernels->prepared_size(K, N));
}

static void take_backward(sf_packed_block *b, sf_arena *arena, const sf_cpu_plan *plan) {
    const size_t H = plan->model->shape.H;
    TAKE(b->back, SF_BLOCK_WEIGHTS * H);
    for (size_t i = 0; i < SF_BLOCK_WEIGHTS; i++) {
        const sf_param *weight = &sf_model_block(plan->model, 0)[2 * i];
        for (size_t g = 0; g < weight[1].groups; g++) {
            sf_packed_weight measured = {0}, *w = b->back != NULL ? &b->back[i * H + g] : &measured;
            TAKE(w->room, plan->kernels->prepared_size(weight->rows / weight[1].groups, weight->stride));
        }
    }
}

static void lay_out_head(sf_packed_head *head, sf_arena *arena, const sf_cpu_plan *plan) {
    const size_t Cp = plan->rows.Cp, classes = plan->model->shape.classes;
    *head = (sf_packed_head){0};
    if (plan->model->shape.readout != SF_READ_EACH) return;
    TAKE(head->across.transposed, Cp * ((classes + SF_PANEL - 1) / SF_PANEL * SF_PANEL));
    TAKE(head->across.room, plan->kernels->prepared_size(Cp, sf_padded(classes)));
    TAKE(head->back.room, plan->kernels->prepared_size(classes, Cp));
}

/* Returns the blocks' packed weights. */
static sf_packed_block *lay_out_packed(sf_packed_head *head, sf_arena *arena, const sf_cpu_plan *plan) {
    const size_t Cp = plan->rows.Cp, Fp = plan->rows.Fp, HDp = plan->rows.HDp;
    sf_packed_block *blocks;
    TAKE(blocks, plan->model->shape.L);
    for (size_t l = 0; l < plan->model->shape.L; l++) {
        sf_packed_block measured = {0}, *b = blocks != NULL ? &blocks[l] : &measured;
        take_forward(&b->qkv, arena, plan, Cp, 3 * HDp);
        take_forward(&b->o, arena, plan, HDp, Cp);
        take_forward(&b->w1, arena, plan, Cp, Fp);
        take_forward(&b->w2, arena, plan, Fp, Cp);
        TAKE(b->qkv_bias, 3 * HDp);
        take_backward(b, arena, plan);
    }
    lay_out_head(head, arena, plan);
    return blocks;
}
#undef TAKE

typedef struct team_needs {            /* of one plan, or the largest of several */
    sf_arena workspace, packed, joint; /* laid out only */
    size_t size;
    bool all_chunks; /* joint passes compute them side by side */
} team_needs;

static team_needs needs_of(const sf_cpu_plan *plan, size_t B) {
    team_needs needs = {.size = plan->model->size, .all_chunks = plan->joint};
    sf_workspace unused;
    sf_packed_head unused_head;
    sf_joint_pass unused_pass;
    sf_lay_out_joint(&unused_pass, &needs.joint, plan, B);
    sf_lay_out_workspace(&unused, &needs.workspace, plan);
    lay_out_packed(&unused_head, &needs.packed, plan);
    return needs;
}

static void take_larger(sf_arena *into, const sf_arena *other) {
    into->used = sf_larger(into->used, other->used);
    into->overflow |= other->overflow;
}

static size_t slots_for(size_t workers, bool all_chunks) {
    return workers > 1 || all_chunks ? SF_CHUNKS : 1;
}

sf_status sf_cpu_team_create(sf_cpu_team **out, sf_cpu_plan *const *plans, size_t count, size_t workers, size_t B) {
    *out = NULL;
    sf_cpu_team *team;
    SF_TRY(SF_NEW(&team, 1));
    sf_arena workspace = {0};
    bool all_chunks = false;
    for (size_t i = 0; i < count; i++) {
        const team_needs needs = needs_of(plans[i], B);
        take_larger(&workspace, &needs.workspace);
        take_larger(&team->shared, &needs.packed);
        take_larger(&team->joint, &needs.joint);
        all_chunks |= needs.all_chunks;
        team->size = sf_larger(team->size, needs.size);
    }
    team->workers = workers;
    team->capacity = B;
    team->chunk_slots = slots_for(workers, all_chunks);
    sf_status status = SF_NEW(&team->arenas, workers);
    if (status == SF_OK) status = SF_NEW(&team->offers, workers);
    if (status == SF_OK) status = sf_arena_open(&team->shared);
    if (status == SF_OK && team->joint.used > 0) status = sf_arena_open(&team->joint);
    if (status == SF_OK)
        status = sf_allocate((void **)&team->chunk_gradients, team->chunk_slots * team->size, sizeof(float));
    if (status == SF_OK) status = SF_NEW(&team->losses, B);
    if (status == SF_OK) status = SF_NEW(&team->correct, B);
    for (size_t w = 0; w < workers && status == SF_OK; w++) {
        team->arenas[w] = workspace;
        status = sf_arena_open(&team->arenas[w]);
    }
    if (status == SF_OK) status = sf_threads_start(workers);
    if (status != SF_OK) {
        sf_cpu_team_destroy(team);
        return status;
    }
    *out = team;
    return SF_OK;
}

bool sf_cpu_team_fits(const sf_cpu_team *team, const sf_cpu_plan *plan, size_t B) {
    const team_needs needs = needs_of(plan, sf_larger(B, team->capacity));
    if (needs.joint.overflow || needs.joint.used > team->joint.capacity) return false;
    if (needs.all_chunks && team->chunk_slots < SF_CHUNKS) return false;
    return !needs.workspace.overflow && !needs.packed.overflow && needs.workspace.used <= team->arenas[0].capacity &&
           needs.packed.used <= team->shared.capacity && needs.size <= team->size && B <= team->capacity;
}

size_t sf_cpu_team_bytes(const sf_cpu_plan *plan, size_t workers, size_t B) {
    const team_needs needs = needs_of(plan, B);
    return needs.joint.used + workers * (needs.workspace.used + sizeof(sf_offer)) + needs.packed.used +
           slots_for(workers, needs.all_chunks) * needs.size * sizeof(float) + B * (sizeof(double) + sizeof(uint32_t));
}

void sf_cpu_team_destroy(sf_cpu_team *team) {
    if (team == NULL) return;
    for (size_t w = 0; team->arenas != NULL && w < team->workers; w++) sf_arena_close(&team->arenas[w]);
    sf_arena_close(&team->shared);
    sf_arena_close(&team->joint);
    sf_release(team->arenas);
    sf_release(team->offers);
    sf_release(team->chunk_gradients);
    sf_release(team->losses);
    sf_release(team->correct);
    sf_release(team);
}

void sf_cpu_team_obey(sf_cpu_team *team, const atomic_int *stop) {
    team->stop = stop;
    for (size_t w = 0; w < team->workers; w++) team->offers[w].stop = stop;
}

typedef struct stretch { /* consecutive sequences of a batch */
    size_t first, end;
} stretch;

/* Chunk c of `chunks`: sizes differ by at most one, the longer ones first. */
static stretch chunk_of(size_t B, size_t chunks, size_t c) {
    const size_t size = B / chunks, longer = B % chunks;
    const size_t first = c * size + (c < longer ? c : longer);
    return (stretch){first, first + size + (c < longer)};
}

/* All groups of a stretch, one after the other, into one gradient (or none). */
static void run_stretch(const sf_job *prototype, const sf_batch *batch, float *logits, sf_cpu_team *team,
                        stretch part) {
    const sf_shape *s = &prototype->plan->model->shape;
    for (size_t first = part.first; first < part.end && !sf_stop_asked(team->stop); first += prototype->plan->group) {
        sf_job job = *prototype;
        job.first = first;
        job.fresh = first == part.first;
        job.n = part.end - first < job.plan->group ? part.end - first : job.plan->group;
        const sf_batch now = sf_batch_part(batch, s, first, job.n);
        job.tokens = now.tokens;
        job.labels = now.labels;
        job.last = now.last;
        job.losses = team->losses + first;
        job.correct = team->correct + first;
        job.logits = logits != NULL ? logits + first * sf_shape_labels(s) * s->classes : NULL;
        job.plan->kernels->run(&job);
    }
}

static sf_arena *rewound(sf_arena *arena) {
    arena->used = 0;
    return arena;
}

static size_t worker_now(const sf_cpu_team *team) {
    return team->workers > 1 ? (size_t)omp_get_thread_num() : 0;
}

/* Helps until everything is done. Short sequences have no parts to offer, and fixed patterns take little time. */
static void help_others(sf_cpu_team *team, const sf_cpu_plan *plan, const sf_workspace *mine) {
    if (plan->reach != NULL || plan->model->shape.T <= SF_QUERY_TILE) return;
    for (size_t turns = 0; atomic_load_explicit(&team->underway, memory_order_relaxed) > 0; sf_wait_a_little(&turns))
        for (size_t w = 0; w < team->workers; w++)
            if (sf_offer_enter(&team->offers[w])) {
                plan->kernels->help(&team->offers[w], mine);
                sf_offer_leave(&team->offers[w]);
                turns = 0;
            }
}

/* Clears what sequences add to one by one. The rest of a gradient is written first, then added to. */
static void clear_embedding_and_head(float *gradient, const sf_model *model) {
    const size_t blocks = sf_model_block(model, 0)->offset, head = sf_model_head_offset(model);
    memset(gradient, 0, blocks * sizeof *gradient);
    memset(gradient + head, 0, (model->size - head) * sizeof *gradient);
}

/* What is packed before a batch, each part by one worker: the blocks, and the head of the readout `each`. */
static size_t packed_parts(const sf_cpu_plan *plan) {
    const sf_shape *s = &plan->model->shape;
    return s->L + (s->readout == SF_READ_EACH ? 1 : 0);
}

static void pack_part(sf_packed_block *packed /* [L] */, sf_packed_head *head, const sf_cpu_plan *plan,
                      const float *params, size_t i) {
    if (i < plan->model->shape.L)
        plan->kernels->pack(&packed[i], plan, params, i);
    else
        plan->kernels->pack_head(head, plan, params);
}

typedef struct step { /* what the chunks of a batch share */
    sf_cpu_team *team;
    const sf_cpu_plan *plan;
    const sf_packed_block *packed; /* [L] */
    const sf_packed_head *head;
    const float *params; /* [size] */
    const sf_batch *batch;
    const sf_moment *moment;
    size_t chunks;
    size_t labelled; /* labels of the whole batch: what the loss is the mean over */
} step;

/* What all groups have in common. */
static sf_job job_of(const step *s) {
    return (sf_job){.plan = s->plan,
                    .packed = s->packed,
                    .head = s->head,
                    .params = s->params,
                    .moment = s->moment,
                    .gradient_scale = sf_mean_over(1, s->labelled),
                    .stop = s->team->stop};
}

/* The gradient of one chunk, by the calling worker. */
static void run_chunk(float *gradient /* [size] */, const step *s, const sf_workspace *work, size_t c) {
    clear_embedding_and_head(gradient, s->plan->model);
    sf_job job = job_of(s);
    job.work = work;
    job.offer = &s->team->offers[worker_now(s->team)];
    job.gradient = gradient;
    run_stretch(&job, s->batch, NULL, s->team, chunk_of(s->batch->B, s->chunks, c));
}

/* A batch in joint passes; nothing if the plan is not joint. */
static sf_joint_batch joint_of(const step *s, float *const *gradients /* [chunks], NULL: forward only */) {
    sf_cpu_team *team = s->team;
    if (!s->plan->joint) return (sf_joint_batch){.job = job_of(s)};
    sf_lay_out_joint(&team->pass, rewound(&team->joint), s->plan, team->capacity);
    for (size_t c = 0; gradients != NULL && c < s->chunks; c++)
        if (gradients[c] != NULL) clear_embedding_and_head(gradients[c], s->plan->model);
    return (sf_joint_batch){.job = job_of(s),
                            .batch = s->batch,
                            .losses = team->losses,
                            .correct = team->correct,
                            .offers = team->offers,
                            .chunks = gradients != NULL ? s->chunks : 0,
                            .gradients = gradients};
}

static step step_of(sf_cpu_team *team, const sf_cpu_plan *plan, const float *params, const sf_batch *batch,
                    const sf_moment *moment, sf_packed_block *packed, const sf_packed_head *head) {
    assert(batch->B <= team->capacity && plan->model->size % SF_PADDING == 0);
    return (step){.team = team,
                  .plan = plan,
                  .packed = packed,
                  .head = head,
                  .params = params,
                  .batch = batch,
                  .moment = moment,
                  .chunks = sf_cpu_chunk_count(batch->B),
                  .labelled = sf_batch_labelled(batch, &plan->model->shape)};
}

void sf_cpu_gradient(sf_cpu_team *team, double *loss, float *gradient /* [size] */, const sf_cpu_plan *plan,
                     const float *params /* [size] */, const sf_batch *batch, const sf_moment *moment) {
    const sf_cpu_kernels *kernels = plan->kernels;
    const size_t B = batch->B, size = plan->model->size;
    sf_packed_head head;
    sf_packed_block *packed = lay_out_packed(&head, rewound(&team->shared), plan);
    const step now = step_of(team, plan, params, batch, moment, packed, &head);
    const size_t chunks = now.chunks, packing = packed_parts(plan);
    float *slots[SF_CHUNKS];
    for (size_t c = 0; c < chunks; c++) slots[c] = team->chunk_gradients + (team->chunk_slots > 1 ? c * size : 0);
    const sf_joint_batch together = joint_of(&now, slots);
    atomic_store(&team->underway, plan->joint ? 0 : chunks);

#pragma omp parallel num_threads((int)team->workers) if (team->workers > 1)
    {
        sf_workspace work;
        sf_lay_out_workspace(&work, rewound(&team->arenas[worker_now(team)]), plan);
#pragma omp for schedule(static)
        for (size_t i = 0; i < packing; i++) pack_part(packed, &head, plan, params, i);

        if (plan->joint) sf_joint_run(&team->pass, &together);
#pragma omp for schedule(dynamic, 1) nowait
        for (size_t c = plan->joint ? chunks : 0; c < chunks; c++) {
            float *part = team->chunk_slots > 1 || c > 0 ? slots[c] : gradient;
            run_chunk(part, &now, &work, c);
            if (team->chunk_slots == 1 && c > 0) kernels->add(gradient, part, size);
            atomic_fetch_sub(&team->underway, 1);
        }
        help_others(team, plan, &work);
#pragma omp barrier

        if (team->chunk_slots > 1) {
            enum { SLICE = 4096 };
#pragma omp for schedule(static)
            for (size_t first = 0; first < size; first += SLICE) {
                const size_t width = size - first < SLICE ? size - first : SLICE;
                memcpy(gradient + first, team->chunk_gradients + first, width * sizeof *gradient);
                for (size_t c = 1; c < chunks; c++)
                    kernels->add(gradient + first, team->chunk_gradients + c * size + first, width);
            }
        }
    }
    *loss = 0;
    for (size_t n = 0; n < B; n++) *loss += team->losses[n];
    *loss = sf_mean_over(*loss, now.labelled);
}

size_t sf_cpu_chunk_count(size_t B) {
    return sf_smaller(B, SF_CHUNKS);
}

void sf_cpu_chunk_bounds(size_t *first, size_t *end, size_t B, size_t c) {
    const stretch part = chunk_of(B, sf_cpu_chunk_count(B), c);
    *first = part.first;
    *end = part.end;
}

void sf_cpu_some_chunks(sf_cpu_team *team, const sf_cpu_chunks *mine, const sf_cpu_plan *plan,
                        const float *params /* [size] */, const sf_batch *batch, const sf_moment *moment) {
    sf_packed_head head;
    sf_packed_block *packed = lay_out_packed(&head, rewound(&team->shared), plan);
    const step now = step_of(team, plan, params, batch, moment, packed, &head);
    const size_t packing = packed_parts(plan);
    const sf_joint_batch together = joint_of(&now, mine->gradients);
    atomic_store(&team->underway, now.chunks);

#pragma omp parallel num_threads((int)team->workers) if (team->workers > 1)
    {
        sf_workspace work;
        sf_lay_out_workspace(&work, rewound(&team->arenas[worker_now(team)]), plan);
#pragma omp for schedule(static)
        for (size_t i = 0; i < packing; i++) pack_part(packed, &head, plan, params, i);

        if (plan->joint) sf_joint_run(&team->pass, &together);
#pragma omp for schedule(dynamic, 1) nowait
        for (size_t c = 0; c < now.chunks; c++) {
            if (mine->gradients[c] != NULL) {
                if (!plan->joint) run_chunk(mine->gradients[c], &now, &work, c);
                mine->on_done(mine->context, c, team->losses + chunk_of(batch->B, now.chunks, c).first);
            }
            atomic_fetch_sub(&team->underway, 1);
        }
        help_others(team, plan, &work);
    }
}

void sf_cpu_add_chunks(const sf_cpu_plan *plan, float *sum /* [width] */,
                       const float *const *parts /* [count][width] */, size_t count, size_t width) {
    enum { SLICE = 4096 };
    for (size_t first = 0; first < width; first += SLICE) {
        const size_t now = sf_smaller(width - first, SLICE);
        memcpy(sum + first, parts[0] + first, now * sizeof *sum);
        for (size_t c = 1; c < count; c++) plan->kernels->add(sum + first, parts[c] + first, now);
    }
}

static void run_forward(sf_cpu_team *team, const sf_observer *observer, float *logits, const sf_cpu_plan *plan,
                        const float *params, const sf_batch *batch, const sf_moment *moment) {
    const size_t packing = packed_parts(plan), groups = (batch->B + plan->group - 1) / plan->group;
    assert(batch->B <= team->capacity);
    sf_packed_head head;
    sf_packed_block *packed = lay_out_packed(&head, rewound(&team->shared), plan);
    const step now = {.team = team,
                      .plan = plan,
                      .packed = packed,
                      .head = &head,
                      .params = params,
                      .batch = batch,
                      .moment = moment};
    sf_joint_batch together = joint_of(&now, NULL);
    together.job.observer = observer;
    together.logits = logits;
    atomic_store(&team->underway, plan->joint ? 0 : groups);

#pragma omp parallel num_threads((int)team->workers) if (team->workers > 1)
    {
        sf_workspace work;
        sf_lay_out_workspace(&work, rewound(&team->arenas[worker_now(team)]), plan);
#pragma omp for schedule(static)
        for (size_t i = 0; i < packing; i++) pack_part(packed, &head, plan, params, i);

        if (plan->joint) sf_joint_run(&team->pass, &together);
#pragma omp for schedule(dynamic, 1) nowait
        for (size_t g = plan->joint ? groups : 0; g < groups; g++) {
            sf_job job = together.job;
            job.work = &work;
            job.offer = &team->offers[worker_now(team)];
            job.worker = worker_now(team);
            const size_t first = g * plan->group, end = first + plan->group;
            run_stretch(&job, batch, logits, team, (stretch){first, end < batch->B ? end : batch->B});
            atomic_fetch_sub(&team->underway, 1);
        }
        help_others(team, plan, &work);
    }
}

void sf_cpu_evaluate(sf_cpu_team *team, sf_evaluation *out, float *logits /* [B,labels,classes] */,
                     const sf_cpu_plan *plan, const float *params /* [size] */, const sf_batch *batch,
                     const sf_moment *moment) {
    run_forward(team, NULL, logits, plan, params, batch, moment);
    *out = (sf_evaluation){.labelled = sf_batch_labelled(batch, &plan->model->shape)};
    for (size_t n = 0; n < batch->B; n++) {
        out->loss += team->losses[n];
        out->correct += team->correct[n];
    }
}

void sf_cpu_evaluate_each(sf_cpu_team *team, double *losses /* [B] */, uint32_t *correct /* [B] */,
                          const sf_cpu_plan *plan, const float *params /* [size] */, const sf_batch *batch,
                          const sf_moment *moment) {
    run_forward(team, NULL, NULL, plan, params, batch, moment);
    memcpy(losses, team->losses, batch->B * sizeof *losses);
    memcpy(correct, team->correct, batch->B * sizeof *correct);
}

void sf_cpu_observe(sf_cpu_team *team, const sf_observer *observer, const sf_cpu_plan *plan,
                    const float *params /* [size] */, const sf_batch *batch, const sf_moment *moment) {
    run_forward(team, observer, NULL, plan, params, batch, moment);
}
