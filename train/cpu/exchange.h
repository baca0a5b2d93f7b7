/* One model over several ranks (docs/decisions.md, "One model over ranks").
 *
 * Training: chunk c of a batch belongs to rank (c mod K + 1) mod R, where R is the number of ranks and K the smaller of
 * R and the number of chunks. Each of these K ranks also adds up one K-th of the parameters: it receives that stretch
 * of every chunk as soon as the chunk is computed, adds the chunks in order, and sends the sum to all. So every rank
 * has the gradient that one process would have, bit for bit, and updates its own copy of the weights. Rank 1 mod R
 * collects the losses and tells all ranks whether the step counts: a rank that was stopped, or whose mechanism broke
 * its rules, still sends what it has, so that all ranks give up the same step and no message is left behind.
 *
 * Evaluation: the sequences of both sets are shared out evenly, and rank 0 adds their losses in order. */
#ifndef SF_TRAIN_CPU_EXCHANGE_H
#define SF_TRAIN_CPU_EXCHANGE_H

#include "kernels/cpu/cpu.h"
#include "semfocus/fleet.h"
#include "train/gpu_part.h"

typedef struct sf_exchange sf_exchange;

/* For batches of up to `batch` sequences, and `sequences` in both sets together. */
sf_status sf_exchange_create(sf_exchange **out, const sf_model *model, size_t batch, size_t sequences);
void sf_exchange_destroy(sf_exchange *x); /* NULL is legal */

/* Like sf_cpu_gradient(), by all ranks together. SF_INTERRUPTED at all of them if one was stopped or broke a rule;
 * SF_IO_ERROR at rank 0 if another rank is lost. */
sf_status sf_exchange_gradient(sf_exchange *x, double *loss, float *gradient /* [size] */, sf_cpu_team *team,
                               const sf_cpu_plan *plan, const float *params /* [size] */, const sf_batch *batch,
                               const sf_moment *moment, const atomic_int *stop);

/* The sequences that this rank evaluates, counted over the training set and then the held-out set, and where it puts
 * their results. */
typedef struct sf_exchange_slice {
    size_t first, end;
    double *losses;    /* [sequences], sums over their labels: only those of the slice are ours; at rank 0, all after
                          sf_exchange_gather() */
    uint32_t *correct; /* [sequences] */
} sf_exchange_slice;
sf_exchange_slice sf_exchange_slice_of(const sf_exchange *x);
/* Sends the slice to rank 0. `stopped` and `broken` say why it is incomplete. */
sf_status sf_exchange_gather(sf_exchange *x, bool stopped, bool broken);
/* Rank 0 tells all others how the epoch ended: its row. SF_INTERRUPTED at all of them if a slice was incomplete. */
sf_status sf_exchange_share(sf_exchange *x, sf_epoch *row);

/* Why the last call was interrupted: a mechanism broke its rules, here or elsewhere; a GPU failed, here or elsewhere;
 * else a stop. */
bool sf_exchange_is_broken(const sf_exchange *x);
bool sf_exchange_has_failed(const sf_exchange *x);
/* The failure of this rank's GPU; SF_INTERRUPTED if it was another one's. */
sf_status sf_exchange_check(const sf_exchange *x);

/* From now on the GPU with this number computes this rank's part (train/cpu/exchange_gpu.c). A rank that waits for
 * another one's GPU fails after `patience` seconds. */
sf_status sf_exchange_use_gpu(sf_exchange *x, const sf_member *member, size_t number, double patience);
bool sf_exchange_has_gpu(const sf_exchange *x);
sf_status sf_exchange_describe_gpu(sf_gpu_about *out, const sf_exchange *x);
/* At all ranks: whether gradients go from GPU to GPU. */
sf_status sf_exchange_link(sf_exchange *x, const char *id /* [SF_LINK_ID]; NULL: they do not */);

/* Weights and moments to the GPU, for an epoch of training, from 1, or for an evaluation, 0; and back. */
void sf_exchange_gpu_begin(sf_exchange *x, float *const *blocks /* [1 + moments][size] */, size_t epoch);
sf_status sf_exchange_gpu_end(sf_exchange *x, float *const *blocks /* [1 + moments][size] */);
/* The next step of the epoch, with its update. *finite: whether the norm of the gradient is. */
sf_status sf_exchange_gpu_step(sf_exchange *x, double *loss, bool *finite, const sf_cpu_plan *plan, size_t B,
                               const atomic_int *stop);
void sf_exchange_gpu_evaluate(sf_exchange *x, double *losses /* [count] */, uint32_t *correct /* [count] */,
                              sf_split split, size_t first, size_t count, const atomic_int *stop);

#endif
