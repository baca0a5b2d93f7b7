#include "kernels/cpu/joint.h"

#include <omp.h>

#define TAKE(pointer, count) (pointer) = sf_arena_take(arena, (count), sizeof *(pointer))

static void lay_out_weighed(sf_joint *j, sf_arena *arena, const sf_cpu_plan *plan) {
    TAKE(j->matrices, j->seats);
    TAKE(j->weighed.weights, j->seats);
    TAKE(j->weighed.slopes, j->seats);
    TAKE(j->weighed.scores, j->seats);
    TAKE(j->weighed.rows, j->seats);
    for (size_t n = 0; n < j->seats; n++) {
        sf_matrix_space measured = {0}, *m = j->matrices != NULL ? &j->matrices[n] : &measured;
        sf_lay_out_matrix(m, arena, plan);
        if (j->matrices == NULL) continue;
        j->weighed.weights[n] = m->weights;
        j->weighed.slopes[n] = m->slopes;
        j->weighed.scores[n] = m->scores;
        j->weighed.rows[n] = sf_matrix_rows(m, plan->model->shape.T);
    }
}

static void lay_out_groups(sf_joint_pass *out, sf_arena *arena, const sf_cpu_plan *plan, size_t groups) {
    const sf_shape *s = &plan->model->shape;
    const size_t plain = s->T - s->attention.globals;
    *out = (sf_joint_pass){.plan = plan, .groups = groups, .joint = {.seats = groups * plan->group}};
    TAKE(out->workspaces, groups);
    TAKE(out->jobs, groups);
    TAKE(out->lines, groups + 1);
    for (size_t g = 0; g < groups; g++) {
        sf_workspace measured;
        sf_lay_out_workspace(out->workspaces != NULL ? &out->workspaces[g] : &measured, arena, plan);
    }
    sf_joint *j = &out->joint;
    if (sf_attention_weighs_batch(&s->attention)) lay_out_weighed(j, arena, plan);
    if (!sf_attention_prepares_batch(&s->attention)) return;
    j->choice_size = sf_head_choice_size(&s->attention, s->T, s->D, s->H);
    TAKE(j->scores, j->seats * plain * plain);
    TAKE(j->inputs, j->seats);
    TAKE(j->places, j->seats);
    TAKE(j->choices, s->L * s->H * j->seats * j->choice_size);
}
#undef TAKE

static size_t bytes_of(const sf_cpu_plan *plan, size_t groups) {
    sf_arena arena = {0};
    sf_joint_pass unused;
    lay_out_groups(&unused, &arena, plan, groups);
    return arena.overflow ? SIZE_MAX : arena.used;
}

/* Groups of a batch: a chunk begins a new one. */
static size_t groups_of(const sf_cpu_plan *plan, size_t B) {
    size_t count = 0;
    for (size_t c = 0; c < sf_cpu_chunk_count(B); c++) {
        size_t first, end;
        sf_cpu_chunk_bounds(&first, &end, B, c);
        count += (end - first + plan->group - 1) / plan->group;
    }
    return count;
}

void sf_lay_out_joint(sf_joint_pass *out, sf_arena *arena, const sf_cpu_plan *plan, size_t B) {
    *out = (sf_joint_pass){0};
    if (!plan->joint) return;
    size_t groups = groups_of(plan, B);
    const size_t one = bytes_of(plan, 1), two = bytes_of(plan, 2);
    const size_t fit = two > SF_JOINT_BYTES ? 1 : 2 + (SF_JOINT_BYTES - two) / (two - one);
    groups = sf_smaller(groups, fit);
    lay_out_groups(out, arena, plan, groups);
}

static void seat_group(sf_joint_pass *pass, const sf_joint_batch *b, size_t g, size_t first, size_t n) {
    const sf_shape *s = &pass->plan->model->shape;
    const sf_batch now = sf_batch_part(b->batch, s, first, n);
    sf_job *job = &pass->jobs[g];
    *job = b->job;
    job->work = &pass->workspaces[g];
    job->joint = &pass->joint;
    job->seat = pass->taken;
    job->first = first;
    job->n = n;
    job->tokens = now.tokens;
    job->labels = now.labels;
    job->last = now.last;
    job->losses = b->losses + first;
    job->correct = b->correct + first;
    job->logits = b->logits != NULL ? b->logits + first * sf_shape_labels(s) * s->classes : NULL;
    pass->taken += n;
}

/* The next groups of a chunk, as a line. False: the batch has no more. */
static bool seat_chunk(sf_joint_pass *pass, const sf_joint_batch *b, size_t *g) {
    const size_t chunks = b->chunks > 0 ? b->chunks : 1, c = pass->next_chunk;
    size_t first = 0, end = b->batch->B;
    if (c == chunks) return false;
    if (b->chunks > 0) sf_cpu_chunk_bounds(&first, &end, b->batch->B, c);
    const size_t from = sf_larger(first, pass->next_sequence);
    size_t at = b->chunks > 0 && b->gradients[c] == NULL ? end : from, n;
    for (; at < end && *g < pass->groups; at += n, ++*g) {
        n = sf_smaller(end - at, pass->plan->group);
        seat_group(pass, b, *g, at, n);
        pass->jobs[*g].gradient = b->chunks > 0 ? b->gradients[c] : NULL;
        pass->jobs[*g].fresh = at == first;
        if (b->chunks == 0 || at == from) pass->lines[pass->line_count++] = *g;
    }
    pass->next_sequence = at;
    if (at >= end) pass->next_chunk++;
    return true;
}

static void seat_all(sf_joint_pass *pass, const sf_joint_batch *b) {
    size_t g = 0;
    pass->taken = 0;
    pass->line_count = 0;
    while (g < pass->groups && seat_chunk(pass, b, &g)) continue;
    pass->lines[pass->line_count] = g;
}

static void take_step(const sf_joint_pass *pass, const sf_joint_batch *b, sf_step step, size_t block, size_t head) {
    const size_t lines = pass->line_count;
#pragma omp for schedule(dynamic, 1)
    for (size_t line = 0; line < lines; line++)
        for (size_t g = pass->lines[line]; g < pass->lines[line + 1]; g++) {
            sf_job job = pass->jobs[g];
            job.worker = (size_t)omp_get_thread_num();
            job.offer = &b->offers[job.worker];
            pass->plan->kernels->step(&job, step, block, head);
        }
}

typedef enum whole { NOTHING, CHOOSE, WEIGH, WEIGH_BACK } whole;

static void choose(sf_joint_pass *pass, size_t block, size_t head) {
    const sf_joint *j = &pass->joint;
    for (size_t n = 0; n < pass->taken; n++) j->places[n] = sf_joint_choice(j, pass->plan, block, head, n);
    pass->plan->model->shape.attention.selector->prepare_batch(j->places, j->inputs, pass->taken);
}

/* One worker calls the part for all sequences, unless there is a reason to give up. */
static void together(sf_joint_pass *pass, const sf_joint_batch *b, whole what, size_t block, size_t head) {
    const sf_attention *attention = &pass->plan->model->shape.attention;
#pragma omp master
    {
        pass->over = sf_stop_asked(b->job.stop) || sf_attention_is_faulty(attention);
        pass->joint.weighed.count = pass->taken;
        if (!pass->over && what == CHOOSE) choose(pass, block, head);
        if (!pass->over && what == WEIGH) sf_attention_weigh_batch(&pass->joint.weighed, attention);
        if (!pass->over && what == WEIGH_BACK) sf_attention_weigh_batch_backward(&pass->joint.weighed, attention);
        pass->over = pass->over || sf_attention_is_faulty(attention);
    }
#pragma omp barrier
}

/* False: given up, as all workers see alike. */
static bool go_forward(sf_joint_pass *pass, const sf_joint_batch *b) {
    const sf_shape *s = &pass->plan->model->shape;
    take_step(pass, b, SF_STEP_EMBED, 0, 0);
    for (size_t block = 0; block < s->L; block++) {
        take_step(pass, b, SF_STEP_PROJECT, block, 0);
        for (size_t h = 0; h < s->H; h++) {
            if (pass->joint.choice_size > 0) {
                take_step(pass, b, SF_STEP_SCORE, block, h);
                together(pass, b, CHOOSE, block, h);
                if (pass->over) return false;
            }
            if (pass->joint.matrices != NULL) {
                take_step(pass, b, SF_STEP_LIST, block, h);
                together(pass, b, WEIGH, block, h);
                if (pass->over) return false;
            }
            take_step(pass, b, SF_STEP_ATTEND, block, h);
        }
        take_step(pass, b, SF_STEP_JOIN, block, 0);
    }
    take_step(pass, b, SF_STEP_CLASSIFY, 0, 0);
    together(pass, b, NOTHING, 0, 0); /* the backward pass needs a complete forward pass */
    return !pass->over;
}

static void go_back(sf_joint_pass *pass, const sf_joint_batch *b) {
    const sf_shape *s = &pass->plan->model->shape;
    for (size_t block = s->L; block-- > 0;) {
        take_step(pass, b, SF_STEP_JOIN_BACK, block, 0);
        for (size_t h = 0; h < s->H; h++) {
            if (pass->joint.matrices != NULL) {
                take_step(pass, b, SF_STEP_LIST, block, h);
                together(pass, b, WEIGH, block, h);
                if (pass->over) return;
                take_step(pass, b, SF_STEP_SLOPES, block, h);
                together(pass, b, WEIGH_BACK, block, h);
                if (pass->over) return;
            }
            take_step(pass, b, SF_STEP_ATTEND_BACK, block, h);
        }
        take_step(pass, b, SF_STEP_PROJECT_BACK, block, 0);
    }
    take_step(pass, b, SF_STEP_EMBED_BACK, 0, 0);
}

void sf_joint_run(sf_joint_pass *pass, const sf_joint_batch *b) {
#pragma omp single
    {
        pass->next_chunk = 0;
        pass->next_sequence = 0;
        pass->over = false;
    }
    while (true) {
#pragma omp single
        seat_all(pass, b);
        if (pass->line_count == 0) return;
        if (go_forward(pass, b) && b->chunks > 0) go_back(pass, b);
        const bool over = pass->over;
#pragma omp barrier
        if (over) return;
    }
}
