/* A rank whose chunks a GPU computes. Without links, the host passes on its gradients as those of a CPU. With links,
 * gradients go from GPU to GPU in the same order, and the host passes on losses and verdicts.
 *
 * A rank whose GPU or link fails stays in the exchange until all know: it sends what it has, marked as failed. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "train/cpu/exchange_inside.h"

bool sf_exchange_has_gpu(const sf_exchange *x) {
    return x->gpu != NULL;
}

sf_status sf_exchange_check(const sf_exchange *x) {
    if (x->failure != SF_OK) return sf_fail(x->failure, "%s", x->why);
    return (x->verdict.faults & SF_RANK_FAILED) != 0 ? sf_fail(SF_INTERRUPTED, "another rank failed") : SF_OK;
}

bool sf_exchange_has_failed(const sf_exchange *x) {
    return x->failure != SF_OK || (x->verdict.faults & SF_RANK_FAILED) != 0;
}

static void note(sf_exchange *x, sf_status status) {
    if (status == SF_OK || x->failure != SF_OK) return;
    x->failure = status;
    snprintf(x->why, sizeof x->why, "%s%s", sf_message(),
             x->linked ? " (SEMFOCUS_NCCL=no exchanges gradients over MPI)" : "");
    sf_gpu_part_cut(x->gpu);
}

sf_status sf_exchange_use_gpu(sf_exchange *x, const sf_member *member, size_t number, double patience) {
    x->patience = patience;
    SF_TRY(sf_gpu_part_open(&x->gpu, member, number, x->ranks));
    sf_release(x->own);
    x->own = NULL;
    x->computed = sf_gpu_part_staged(x->gpu);
    return SF_OK;
}

sf_status sf_exchange_describe_gpu(sf_gpu_about *out, const sf_exchange *x) {
    return sf_gpu_part_describe(out, x->gpu);
}

sf_status sf_exchange_link(sf_exchange *x, const char *id /* [SF_LINK_ID], NULL: no link */) {
    x->linked = false;
    if (id == NULL) {
        if (sf_gpu_part_is_linked(x->gpu)) sf_gpu_part_cut(x->gpu);
        return SF_OK;
    }
    const sf_status status = sf_gpu_part_link(x->gpu, id, x->ranks, x->rank, x->patience);
    x->linked = status == SF_OK;
    return status;
}

void sf_exchange_gpu_begin(sf_exchange *x, float *const *blocks /* [1 + moments][size] */, size_t epoch) {
    if (x->failure == SF_OK) note(x, sf_gpu_part_begin(x->gpu, blocks, epoch));
}

sf_status sf_exchange_gpu_end(sf_exchange *x, float *const *blocks /* [1 + moments][size] */) {
    if (x->failure == SF_OK) note(x, sf_gpu_part_end(x->gpu, blocks));
    return x->failure;
}

static sf_gpu_dealt deal(const sf_exchange *x) {
    sf_gpu_dealt dealt = {.B = x->now.B,
                          .chunks = x->now.chunks,
                          .summing = x->now.summing,
                          .place = sf_exchange_place(x),
                          .ranks = x->ranks,
                          .rank = x->rank};
    _Static_assert((int)SF_GPU_DEALT == (int)SF_CHUNKS, "every chunk can be dealt");
    for (size_t c = 0; c < dealt.chunks; c++) {
        size_t first;
        sf_cpu_chunk_bounds(&first, &dealt.bounds[c + 1], dealt.B, c);
    }
    for (size_t k = 0; k <= dealt.summing; k++) dealt.stretches[k] = sf_exchange_boundary(x, k);
    for (size_t k = 0; k < dealt.summing; k++) dealt.rank_at[k] = sf_exchange_rank_at(x, k);
    return dealt;
}

static void on_done(void *context, size_t chunk, const double *losses) {
    sf_exchange *x = context;
    x->sent[chunk] = true;
    sf_exchange_send_chunk(x, chunk, losses);
}

static void compute(sf_exchange *x) {
    const sf_gpu_dealt dealt = deal(x);
    memset(x->sent, 0, sizeof x->sent);
    if (x->failure == SF_OK) note(x, sf_gpu_part_compute(x->gpu, &dealt, on_done, x, x->stop));
    if (dealt.place >= dealt.summing) return;
    for (size_t c = dealt.place; c < dealt.chunks; c += dealt.summing)
        if (!x->sent[c]) sf_exchange_send_chunk(x, c, x->losses); /* as many as belong to it; nobody looks at them */
}

/* All ranks have computed: what is left is the way of the gradients. */
static sf_status await_link(const sf_exchange *x) {
    double waited = 0;
    for (;;) {
        bool arrived;
        SF_TRY(sf_gpu_part_poll(x->gpu, &arrived));
        if (arrived) return SF_OK;
        SF_TRY(sf_transfer_check());
        if (waited > x->patience)
            return sf_fail(SF_UNSUPPORTED, "exchanging gradients over NCCL has not ended after %g seconds",
                           x->patience);
        sf_transfer_nap(&waited);
    }
}

sf_status sf_exchange_gpu_step(sf_exchange *x, double *loss, bool *finite, const sf_cpu_plan *plan, size_t B,
                               const atomic_int *stop) {
    float *const sum = sf_gpu_part_sum(x->gpu);
    *finite = true;
    x->stop = stop;
    SF_TRY(sf_exchange_begin(x, sum, B, B));
    compute(x);
    if (!x->linked && sf_exchange_is_summing(x)) SF_TRY(sf_exchange_add_up(x, sum, plan));
    const sf_status status = sf_exchange_finish(x, loss);
    if (status != SF_OK && status != SF_INTERRUPTED) return status;
    if (sf_exchange_has_failed(x)) {
        sf_gpu_part_cut(x->gpu); /* what others sent may never come */
    } else if (x->linked) {
        note(x, await_link(x));
    }
    SF_TRY(status);
    if (x->failure == SF_OK) note(x, sf_gpu_part_update(x->gpu, finite));
    return SF_OK; /* a failure is known to all after the next step, or after the evaluation */
}

void sf_exchange_gpu_evaluate(sf_exchange *x, double *losses /* [count] */, uint32_t *correct /* [count] */,
                              sf_split split, size_t first, size_t count, const atomic_int *stop) {
    if (x->failure == SF_OK) note(x, sf_gpu_part_evaluate(x->gpu, losses, correct, split, first, count, stop));
}
