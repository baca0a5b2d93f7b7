/* Joint passes, for mechanisms with a part that is called once for all sequences of a batch: every group takes a step
 * (a layer, forward or backward) before any takes the next, and between two steps the part is called.
 *
 * Only the schedule is another one. Groups of a chunk add to its gradient in their order, and each parameter belongs to
 * one step, so that the bits are those of groups that run one after another. Every group needs a workspace of its own;
 * where those of a batch take more than SF_JOINT_BYTES, it is computed in several passes of as many groups as fit. */
#ifndef SF_KERNELS_CPU_JOINT_H
#define SF_KERNELS_CPU_JOINT_H

#include "kernels/cpu/plan.h"

enum { SF_JOINT_BYTES = 256 << 20 };

typedef struct sf_joint_pass { /* with its memory, shared by all workers */
    const sf_cpu_plan *plan;
    sf_workspace *workspaces; /* [groups] */
    sf_job *jobs;             /* [groups] */
    size_t *lines;            /* [groups+1]: where lines of jobs begin, which one worker computes in order */
    size_t groups;            /* that there is room for */
    size_t line_count;
    size_t taken; /* seats */
    bool over;    /* told to stop, or the mechanism is faulty */
    size_t next_chunk, next_sequence;
    sf_joint joint;
} sf_joint_pass;

typedef struct sf_joint_batch { /* what to compute */
    sf_job job;                 /* what all groups have in common */
    const sf_batch *batch;
    float *logits; /* may be NULL */
    double *losses;
    uint32_t *correct;
    sf_offer *offers;        /* [workers] */
    size_t chunks;           /* 0: forward only */
    float *const *gradients; /* [chunks] of [size] each; NULL: not this one */
} sf_joint_batch;

/* Takes memory for batches of up to B sequences. Nothing if the plan is not joint. */
void sf_lay_out_joint(sf_joint_pass *out, sf_arena *arena, const sf_cpu_plan *plan, size_t B);
/* Called by every worker of a parallel region. Losses and gradients are invalid if a stop was requested or the
 * mechanism is faulty. */
void sf_joint_run(sf_joint_pass *pass, const sf_joint_batch *batch);

#endif
