/* Attention of one head between plain arrays: copied into padded rows, turned, and given to the kernel of the plan. */
#include <string.h>

#include "kernels/cpu/attention.h"

static void copy_in(float *rows, size_t stride, const float *from /* [T,D] */, const sf_cpu_plan *plan) {
    const size_t T = plan->model->shape.T, D = plan->model->shape.D, Dp = plan->rows.Dp;
    for (size_t t = 0; t < T; t++) {
        memcpy(rows + t * stride, from + t * D, D * sizeof *rows);
        memset(rows + t * stride + D, 0, (Dp - D) * sizeof *rows);
    }
}

static void copy_out(float *to /* [T,D] */, const float *rows, size_t stride, const sf_cpu_plan *plan) {
    const size_t T = plan->model->shape.T, D = plan->model->shape.D;
    for (size_t t = 0; t < T; t++) memcpy(to + t * D, rows + t * stride, D * sizeof *to);
}

static bool turns(const sf_cpu_plan *plan) {
    return plan->angles != NULL || plan->norm_factors[0] != 0;
}

static sf_head open(const sf_lone_head *lone) {
    const sf_cpu_plan *plan = lone->job.plan;
    const size_t Dp = plan->rows.Dp, T = plan->model->shape.T, stride = 3 * Dp;
    copy_in(lone->qkv, stride, lone->q, plan);
    copy_in(lone->qkv + Dp, stride, lone->k, plan);
    copy_in(lone->qkv + 2 * Dp, stride, lone->v, plan);
    if (turns(plan)) sf_turn(lone->qkv, lone->norms, lone->single, 0, T);
    return (sf_head){.job = &lone->job,
                     .queries = T,
                     .trace = &lone->trace,
                     .stride = stride,
                     .context_stride = Dp,
                     .slot = lone->head,
                     .q = lone->qkv,
                     .k = lone->qkv + Dp,
                     .v = lone->qkv + 2 * Dp,
                     .context = lone->context,
                     .dq = lone->dqkv,
                     .dk = lone->dqkv + Dp,
                     .dv = lone->dqkv + 2 * Dp,
                     .dcontext = lone->dcontext,
                     .key_index = lone->key_index};
}

void sf_lone_forward(const sf_lone_head *lone) {
    const sf_head head = open(lone);
    sf_gemm_begin();
    sf_attention_kernels_of(lone->job.plan, false).forward(&head);
    sf_gemm_end();
    copy_out(lone->out, lone->context, lone->job.plan->rows.Dp, lone->job.plan);
}

void sf_lone_backward(const sf_lone_head *lone) {
    const sf_cpu_plan *plan = lone->job.plan;
    const size_t Dp = plan->rows.Dp, T = plan->model->shape.T;
    const sf_head head = open(lone);
    copy_in(lone->context, Dp, lone->out, plan);
    copy_in(lone->dcontext, Dp, lone->dout, plan);
    if (!plan->dense) sf_kept_clear(&head, 0, T);
    sf_gemm_begin();
    sf_attention_kernels_of(plan, false).backward(&head);
    sf_gemm_end();
    if (turns(plan)) sf_turn_backward(lone->dqkv, lone->qkv, lone->norms, lone->single, 0, T);
    copy_out(lone->dq, lone->dqkv, 3 * Dp, plan);
    copy_out(lone->dk, lone->dqkv + Dp, 3 * Dp, plan);
    copy_out(lone->dv, lone->dqkv + 2 * Dp, 3 * Dp, plan);
}
